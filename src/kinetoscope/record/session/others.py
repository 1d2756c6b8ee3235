"""Profilers of the program come first: the recorder hears of one before it begins, and ends in time.

The functions that all of them call before they begin are wrapped, in the namespace where they look them up:
torch.profiler, the profilers of torch.autograd (emit_nvtx and emit_itt too), the one before Kineto, observers of
execution traces, and cudaProfiler. Profilers that do not come to torch (of XLA, of vendors) are not seen, and do not
meet ours either. Wrapped functions have returned when the profiler begins, so that no frame of ours is in its stacks.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

PROBLEM: Final = "another profiler is recording"
STARTED: Final = "another profiler was started"

_PREPARE_NAME: Final = "_prepare_profiler"
_START_NAME: Final = "_run_on_profiler_start"
_OBSERVE_NAME: Final = "_enable_execution_trace_observer"
_UNOBSERVE_NAME: Final = "_disable_execution_trace_observer"
_WRAPPED_FUNCTIONS: Final = (
    ("torch.autograd.profiler", _PREPARE_NAME),
    ("torch.autograd.profiler", _START_NAME),
    ("torch.autograd.profiler_legacy", "_enable_profiler_legacy"),
    ("torch.profiler.profiler", _OBSERVE_NAME),
    ("torch.profiler.profiler", _UNOBSERVE_NAME),
    ("torch.cuda.profiler", "start"),
)


class _Others:
    def __init__(self) -> None:
        self.watching = False
        self.prepared = self.observing = False
        self.listeners: list[Callable[[], Any]] = []
        self.ours = threading.local()
        """Thread-local marks: an attribute is set on the thread on which we ourselves call torch."""

    def begins(self, name: str) -> None:
        if vars(self.ours):
            return
        self.prepared = name == _PREPARE_NAME or (self.prepared and name != _START_NAME)
        self.observing = name == _OBSERVE_NAME or (self.observing and name != _UNOBSERVE_NAME)
        if name != _UNOBSERVE_NAME:
            for each in tuple(self.listeners):
                each()


_others: Final = _Others()


def watch() -> None:
    """Wrap the functions by which profilers begin. Torch has been imported."""
    if _others.watching:
        return
    _others.watching = True
    for module, name in _WRAPPED_FUNCTIONS:
        with contextlib.suppress(ImportError):
            _wrap(importlib.import_module(module), name)


def _wrap(module: Any, name: str) -> None:
    original = getattr(module, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def announced(*args: Any, **kwargs: Any) -> Any:
        _others.begins(name)
        return original(*args, **kwargs)

    setattr(module, name, announced)


def active() -> bool:
    """True if another profiler of torch records in this process, or warms up."""
    import torch
    import torch.autograd.profiler as autograd

    here = getattr(torch.autograd, "_profiler_enabled", bool)
    known = _others.prepared or _others.observing or getattr(autograd, "_is_profiler_enabled", False)
    return bool(known) or bool(here())


@contextlib.contextmanager
def ours() -> Iterator[None]:
    """A context in which we ourselves start or stop a profiler."""
    _others.ours.here = True
    try:
        yield
    finally:
        vars(_others.ours).clear()


def listen(listener: Callable[[], Any]) -> None:
    """Have it called before another profiler begins, on the thread that begins it."""
    if listener not in _others.listeners:
        _others.listeners.append(listener)


def forked() -> None:
    """In a child of fork the listeners are the parent's."""
    _others.listeners, _others.ours = [], threading.local()


def forget(listener: Callable[[], Any]) -> None:
    """Have it called no more."""
    with contextlib.suppress(ValueError):
        _others.listeners.remove(listener)
