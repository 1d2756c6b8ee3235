"""Marks of what explains steps, from whatever thread: collections of garbage, saves, compilations, phases and such.

Whoever sees something adds it here; the history of the process takes it from here, once there is one. Garbage that is
collected in less than a millisecond, some times a second, is no mark.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final

from kinetoscope.record.always_on.hooks import when_compiler_is_loaded
from kinetoscope.record.always_on.when_imported import when_imported
from kinetoscope.record.history.layout import Mark
from kinetoscope.record.history.phases import Phases

_LEAST_COLLECTION_NS: Final = 1_000_000
_QUEUE_LENGTH: Final = 10_000
"""Marks that wait to be written; of more, the oldest are lost."""

_SAVERS: Final = {
    "torch": ("save",),
    "torch.serialization": ("save",),
    "safetensors.torch": ("save_file", "save_model"),
    "torch.distributed.checkpoint.state_dict_saver": ("save", "async_save"),
}
"""Functions that save, by module."""


class ProcessMarks:
    """The marks of this process that are not written yet.

    Attributes:
        waiting: those marks; times by `perf_counter_ns`.
        step: the number of the step that runs.
    """

    def __init__(self) -> None:
        self.waiting: deque[Mark] = deque(maxlen=_QUEUE_LENGTH)
        self.step = 0
        self._collects = self._compiles = 0
        self._saves = threading.local()
        self._is_attached = False

    def add(
        self,
        kind: str,
        start: int,
        end: int,
        detail: str | None = None,
        step: int | None = None,
        reason: str | None = None,
    ) -> None:
        """Add one."""
        self.waiting.append((kind, detail, self.step if step is None else step, start, end, reason))

    def attach(self) -> None:
        """Look for what happens from here on, for as long as the process runs."""
        if self._is_attached:
            return
        self._is_attached = True
        when_imported({module: functools.partial(self._wrap, names) for module, names in _SAVERS.items()})
        when_compiler_is_loaded(self._listen)
        Phases(lambda name, start, end: self.add("phase", start, end, name)).attach()

    def watch_garbage(self) -> None:
        """Look for collections from here on: the first step has ended, before which there are many."""
        if self._collected not in gc.callbacks:
            gc.callbacks.append(self._collected)

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        """The interpreter calls this before and after each collection, on its thread; only one is under way."""
        if phase == "start":
            self._collects = perf_counter_ns()
        elif perf_counter_ns() - self._collects >= _LEAST_COLLECTION_NS:
            self.add("collection", self._collects, perf_counter_ns(), str(info.get("generation", "")))

    def _wrap(self, names: tuple[str, ...], module: Any) -> None:
        for name in names:
            if (function := getattr(module, name, None)) is not None:
                setattr(module, name, self._saving(function))

    def _saving(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def save(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._saves, "is_open", False):  # one that another one calls
                return function(*args, **kwargs)
            self._saves.is_open, began = True, perf_counter_ns()
            try:
                return function(*args, **kwargs)
            finally:
                self._saves.is_open = False
                self.add("save", began, perf_counter_ns())

        return save

    def _listen(self, compiler: Any) -> None:
        """Hear of compilations; again whenever the program asks for one, as it may have had all callbacks removed."""
        with contextlib.suppress(AttributeError):  # torch's own matter, which may change
            if self._begins_to_compile not in compiler.start_callbacks:
                compiler.register_start_callback(self._begins_to_compile)
                compiler.register_end_callback(self._has_compiled)

    def _begins_to_compile(self, _: object = None) -> None:
        self._compiles = perf_counter_ns()

    def _has_compiled(self, _: object = None) -> None:
        if self._compiles:
            self.add("compile", self._compiles, perf_counter_ns())
            self._compiles = 0


marks: Final = ProcessMarks()
"""Those of this process."""
