"""The program's own profilers come first: what records hears of one before it begins, and ends in time.

What all of them call before they begin is wrapped, in the namespace where they look it up: torch.profiler, the
profilers of torch.autograd (emit_nvtx and emit_itt too), the one before Kineto, observers of execution traces, and
cudaProfiler. Those that do not come to torch (of XLA, of vendors) are not seen, and do not meet ours either.
Only what has returned when the profiler begins is wrapped, so that no frame of ours is in the stacks that it records.
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

_PREPARES: Final = "_prepare_profiler"
_STARTS: Final = "_run_on_profiler_start"
_OBSERVES: Final = "_enable_execution_trace_observer"
_OBSERVED: Final = "_disable_execution_trace_observer"
_WRAPPED: Final = (
    ("torch.autograd.profiler", _PREPARES),
    ("torch.autograd.profiler", _STARTS),
    ("torch.autograd.profiler_legacy", "_enable_profiler_legacy"),
    ("torch.profiler.profiler", _OBSERVES),
    ("torch.profiler.profiler", _OBSERVED),
    ("torch.cuda.profiler", "start"),
)


class _Others:
    def __init__(self) -> None:
        self.watching = False
        self.prepared = self.observing = False
        self.listeners: list[Callable[[], Any]] = []
        self.ours = threading.local()
        """It has something on the thread on which it is we who call torch."""

    def begins(self, name: str) -> None:
        if vars(self.ours):
            return
        self.prepared = name == _PREPARES or (self.prepared and name != _STARTS)
        self.observing = name == _OBSERVES or (self.observing and name != _OBSERVED)
        if name != _OBSERVED:
            for each in tuple(self.listeners):
                each()


_others: Final = _Others()


def watch() -> None:
    """Hear of the program's profilers from now on. Torch has been imported."""
    if _others.watching:
        return
    _others.watching = True
    for module, name in _WRAPPED:
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
    """Another profiler of torch records in this process, or warms up."""
    import torch
    import torch.autograd.profiler as autograd

    here = getattr(torch.autograd, "_profiler_enabled", bool)
    known = _others.prepared or _others.observing or getattr(autograd, "_is_profiler_enabled", False)
    return bool(known) or bool(here())


@contextlib.contextmanager
def ours() -> Iterator[None]:
    """It is we who start and stop a profiler here."""
    _others.ours.here = True
    try:
        yield
    finally:
        vars(_others.ours).clear()


def listen(listener: Callable[[], Any]) -> None:
    """Call it before another profiler begins, on the thread that begins it."""
    if listener not in _others.listeners:
        _others.listeners.append(listener)


def forked() -> None:
    """In a child of fork, what listened is the parent's."""
    _others.listeners, _others.ours = [], threading.local()


def forget(listener: Callable[[], Any]) -> None:
    """Call it no more."""
    with contextlib.suppress(ValueError):
        _others.listeners.remove(listener)
