"""`range("forward")`: a named span in the trace, as a context or around a function; next to nothing where none runs."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from time import perf_counter_ns
from types import TracebackType
from typing import Any, Final, ParamSpec, TypeVar

from kinetoscope.record.output import memory_snapshots

P = ParamSpec("P")
R = TypeVar("R")

_SAFE: Final = {ord('"'): "'", ord("\\"): "/"} | dict.fromkeys([*range(32), 127], " ")

always: Final[set[str]] = set()
"""Names that are spans even where nothing records: they are the steps of a recording."""

ended: Callable[[str, int, int], object] | None = None
"""Receiver of the name, the start and the end of each span, by `perf_counter_ns`, where a history is kept."""


def _enabled() -> bool:
    """Some profiler of torch runs in this process, or the allocator's history, and this is not being compiled.

    torch.compile would otherwise compile once more when a profiler starts, or refuse.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or _compiles():
        return False
    return memory_snapshots.history.recording or bool(getattr(torch.autograd.profiler, "_is_profiler_enabled", True))


def _compiles() -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


class range:  # noqa: A001, N801 - what users type is kinetoscope.range
    """A span of the trace that carries a name; where a history is kept and it takes 100 ms or more, a phase of the run.

    What torch cannot write into a trace (quotes, control characters, letters beyond ASCII) is replaced in the name.
    Inside of what torch.compile compiles, it does nothing.

    Example:
        >>> with kinetoscope.range("forward"):
        ...     loss = model(batch)
        >>> @kinetoscope.range("augment")
        ... def augment(image): ...
    """

    __slots__ = ("_began", "_name", "_span")

    def __init__(self, name: str) -> None:
        self._name = name
        self._began = 0
        self._span: Any = None

    def __enter__(self) -> range:
        if self._name in always or _enabled():
            self._open()
        if self._span is None and ended is not None and not _compiles():  # a span of torch is heard of by itself
            self._began = perf_counter_ns()
        return self

    def _open(self) -> None:
        import torch.profiler

        name = str(self._name).translate(_SAFE)
        try:
            span = torch.profiler.record_function(name if name.isascii() else name.encode("ascii", "replace").decode())
            span.__enter__()
        except Exception:  # noqa: BLE001 - a span is not worth a training run
            return
        self._span = span

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        span, self._span = self._span, None
        if span is not None:
            span.__exit__(kind, error, traceback)
        if self._began and ended is not None:
            ended(str(self._name), self._began, perf_counter_ns())
            self._began = 0

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function, in a span of its own at each call."""
        name = self._name

        @functools.wraps(function)
        def spanned(*args: P.args, **kwargs: P.kwargs) -> R:
            if name not in always and ended is None and not _enabled():
                return function(*args, **kwargs)
            with range(name):
                return function(*args, **kwargs)

        return spanned
