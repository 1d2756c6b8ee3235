"""Signals that end a recording of a server: they are noted, and heeded where the profiler can be switched off first."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Final

_SIGNAL_NAMES: Final = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
"""Ctrl-C; the limit of a CI or of Slurm; the end of a terminal; Ctrl-backslash."""


class InterruptedBySignal(KeyboardInterrupt):
    """A signal came.

    Attributes:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class SignalWatch:
    """Notes the first signal that comes while it stands. On another thread than the main one it sees none.

    No handler raises: an exception in the midst of what switches the profiler off would leave it on.

    Attributes:
        number: of the signal that came; 0 before.
    """

    def __init__(self) -> None:
        self.number = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> SignalWatch:
        if threading.current_thread() is threading.main_thread():
            for number in (getattr(signal, name) for name in _SIGNAL_NAMES if hasattr(signal, name)):
                before = signal.getsignal(number)
                if before is not signal.SIG_IGN:  # nohup: whoever started us wants it to be nothing
                    self._before[number] = before
                    signal.signal(number, self._note)
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise if a signal came.

        Raises:
            InterruptedBySignal: one did.
        """
        if self.number:
            raise InterruptedBySignal(self.number)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.number = self.number or number
