"""The stacks of a process whose interpreter stands still: a thread holds the GIL in C, so no thread of Python runs.

`faulthandler` writes them from a thread of its own in C, once nobody has put that off for so long; and when SIGTERM
comes, before it does what it does without us. Of its timer there is one: a program that uses it itself keeps it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import time
from pathlib import Path
from typing import IO, Any, Final

FOLDER: Final = "frozen"
"""The folder, among the notes of a run, in which each process has a file that is empty as long as all is well."""

FROZEN: Final = "the interpreter stood still"
"""Why they were written."""


class FrozenStacks:
    """The file for these stacks, and when they are written.

    Args:
        control: the folder for notes of the run.
    """

    def __init__(self, control: Path) -> None:
        self._path = control / FOLDER / str(os.getpid())
        self._file: IO[str] | None = None
        self._due = 0.0
        self._on_signal = False

    def put_off(self, seconds: float) -> None:
        """Should Python not run for so long from now on, its stacks are written."""
        now = time.monotonic()
        timer: Any = faulthandler.dump_traceback_later
        if now < self._due or getattr(timer, "used_by_program", True):
            return
        file = self._opened()
        os.ftruncate(file.fileno(), 0)
        self._due = now + seconds / 4
        timer.__wrapped__(max(seconds, 1.0), file=file)

    def taken(self) -> str:
        """The stacks that were written meanwhile, once Python runs again; "" for nothing."""
        if self._file is None or not os.fstat(self._file.fileno()).st_size:
            return ""
        text = self._path.read_text(encoding="utf-8", errors="replace")
        os.ftruncate(self._file.fileno(), 0)
        self._due = 0.0
        return text

    def write_on_signal(self) -> None:
        """Have them written when SIGTERM comes, if that is to end the process at once."""
        if not self._on_signal and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._on_signal = True
            faulthandler.register(signal.SIGTERM, self._opened(), all_threads=True, chain=True)

    def forked(self) -> None:
        """In a child process: the file is the parent's."""
        if self._on_signal:
            self._on_signal = False
            faulthandler.unregister(signal.SIGTERM)

    def end(self) -> None:
        """The program ends."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _opened(self) -> IO[str]:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a", encoding="utf-8")
        return self._file
