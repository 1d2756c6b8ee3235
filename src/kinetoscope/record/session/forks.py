"""In a child of fork the recording is the parent's: what torch's profiler left in the copy is made harmless there.

Left as it is, torch 2.13 hurts such a child in three ways. Its thread goes on recording for ever. When it exits, static
objects of Kineto wait for their threads, which fork did not copy: the child hangs, or aborts. And a profiler of its own
finds one enabled. So the profiler is taken off the thread without being stopped (nothing is collected, no lock is
taken), and `exit` skips the destructors that would wait. Python's own end (atexit, open files) comes before that, as
ever.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

_CURRENT_SYMBOL: Final = "_ZN3c1020ThreadLocalDebugInfo7currentEv"
_FORCE_SYMBOL: Final = "_ZN3c1020ThreadLocalDebugInfo22_forceCurrentDebugInfoESt10shared_ptrIS0_E"
"""Of `c10::ThreadLocalDebugInfo`, `current()` and `_forceCurrentDebugInfo(std::shared_ptr)`: profilers are there."""


class _Returned(ctypes.Structure):
    """Large enough to be returned in memory by every calling convention, as a `std::shared_ptr` is."""

    _fields_ = (("words", ctypes.c_uint64 * 8),)


class _Native:
    """The functions of C that a child needs, looked up in the parent: what is locked at fork stays locked."""

    def __init__(self) -> None:
        import torch

        self.on_exit: Callable[[Any, Any], int] | None = None
        self.current: Any = None
        self.force: Any = None
        with contextlib.suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None)
            self._exit, self._flush, self.on_exit = libc._exit, libc.fcloseall, libc.on_exit
        with contextlib.suppress(OSError, AttributeError):
            c10 = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
            current, force = getattr(c10, _CURRENT_SYMBOL), getattr(c10, _FORCE_SYMBOL)
            current.restype, current.argtypes = _Returned, ()
            force.restype, force.argtypes = None, (ctypes.c_void_p,)
            self.current, self.force = current, force

    def exit_at_once(self) -> None:
        """When the process exits, write what C's streams hold, and end without the handlers of before."""
        if self.on_exit is not None:  # the last that is registered runs first; `_exit` takes the code that it is given
            self.on_exit(self._exit, None)
            self.on_exit(self._flush, None)


_native: _Native | None = None
_kept: list[Any] = []
"""Objects that are never to be freed: that would end a profiler that must not be ended."""


def arm() -> None:
    """Torch's profiler is about to come up in this process: its children are looked after from now on."""
    global _native  # noqa: PLW0603 - one for the process
    if _native is None:
        _native = _Native()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_native.exit_at_once)


def armed() -> bool:
    """Torch's profiler was brought up by us, in this process or in the one that it is a fork of."""
    return _native is not None


def drop(session: Any, *, stacks: bool, alone: bool = False) -> None:
    """Take our profiler off the calling thread, which began it, without stopping it: what it recorded is lost.

    Args:
        session: what holds torch's objects; they are kept for ever.
        stacks: it records Python's calls.
        alone: this is a child of fork, in which nothing of torch observes yet.
    """
    import torch
    from torch.profiler import ProfilerActivity

    _kept.append(session)
    enabled: Callable[[], bool] = getattr(torch.autograd, "_profiler_enabled", bool)
    if enabled():
        # Its callbacks: another profiler would be filled twice.
        toggle = getattr(torch.autograd, "_toggle_collection_dynamic", None)
        if alone:
            torch._C._autograd._clear_callbacks()
        elif toggle is not None:
            toggle(False, {ProfilerActivity.CPU})
        if _native is not None and _native.current is not None:
            _kept.append(_native.current())  # a share in the ownership that nobody gives back
            nothing = (ctypes.c_uint64 * 2)(0, 0)
            _native.force(ctypes.addressof(nothing))
        else:
            torch._C._autograd._enable_record_function(False)
        if stacks:
            sys.setprofile(None)
