"""Guards that keep the recorder from hurting the job: measures of memory, a watch, a net under its own errors."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

P = ParamSpec("P")
R = TypeVar("R")


def tell(text: str) -> None:
    """One line on standard error, whatever state it is in."""
    try:
        sys.stderr.write(f"kinetoscope: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError, RuntimeError):  # closed, gone, or in the midst of a line
        return


class TellOnce:
    """Passes each line on once, and not too many of them; what goes wrong with that is nothing."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._said = say, set[str]()

    def __call__(self, line: str) -> None:
        """Print the line, unless it was printed."""
        if line not in self._said and len(self._said) < 100:
            self._said.add(line)
            harmless(None)(self._say)(line)


def harmless(otherwise: R) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: an error in the function is printed as one line, never raised; `otherwise` is then returned.

    Recording is never the reason that a run ends. Interrupts and exits go through: they are the user's.
    """

    def around(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def net(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - see above
                tell(f"recording failed in {function.__qualname__}: {described(error)}; training goes on")
                return otherwise

        return net

    return around


def described(error: BaseException) -> str:
    """Kind of error and the first line of its text, cut."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:300]}" if lines[0] else type(error).__name__


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Keep operators of ours out of a graph: an interrupt may come while the program traces one for a compiler."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        yield


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """Keep operators of ours on this thread out of a profile that the program takes of itself."""
    import torch

    torch.autograd._enable_record_function(False)
    try:
        yield
    finally:
        torch.autograd._enable_record_function(True)


# --- memory -------------------------------------------------------------------------------------------------------


class ResidentMemory:
    """Resident memory of this process; asking costs a microsecond or two."""

    def __init__(self) -> None:
        try:
            self._file = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = -1

    def bytes(self) -> int:
        """Now; 0 where the system does not tell."""
        if self._file < 0:
            return 0
        try:
            return int(os.pread(self._file, 128, 0).split()[1]) * _PAGE_BYTES
        except (OSError, ValueError, IndexError):
            return 0

    def close(self) -> None:
        """Give the file back."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def free_memory() -> int:
    """Bytes that this process may still take, by the machine and by its control group; 0 if unknown."""
    free = 0
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        free = 0
    try:
        most = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii").strip()
        if most.isdecimal():
            left = max(int(most) - int(used), 1)
            free = min(free, left) if free else left
    except (OSError, ValueError):
        pass
    return free


class _Heap(ctypes.Structure):
    """`struct mallinfo2`; `used` are the bytes that are in use."""

    _fields_ = (("before", ctypes.c_size_t * 7), ("used", ctypes.c_size_t), ("after", ctypes.c_size_t * 2))


@functools.cache
def _mallinfo() -> Any:
    try:
        function = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return None
    function.restype = _Heap
    return function


def heap_bytes() -> int:
    """Bytes of C's heap that are in use, without large blocks, which have pages of their own; 0 if it does not tell."""
    function = _mallinfo()
    return int(function().used) if function is not None else 0


def trim() -> None:
    """Have the C library give back what is free in its heap."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


# --- a step that does not end -------------------------------------------------------------------------------------


class LimitWatch:
    """A thread that watches a window while a step takes long, and calls when a limit is passed.

    It calls once. `too_much` returns which limit is passed, or ""; `pause` the seconds until the next check.
    """

    def __init__(self, too_much: Callable[[], str], alarm: Callable[[str], Any], pause: Callable[[], float]) -> None:
        self._ended = threading.Event()
        self._too_much, self._alarm, self._pause = too_much, alarm, pause
        self._thread = threading.Thread(target=self._run, name="kinetoscope-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(self._pause()):
            why = self._too_much()
            if why:
                self._alarm(why)
                return

    def end(self) -> None:
        """Stop watching."""
        self._ended.set()
