"""How a program may end while it records: by itself, by an exception, by SIGTERM; and how a step is ended early.

A handler of ours does what must be done and then lets happen what would have happened without it.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import os
import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinetoscope.record.session.recorder import Recorder


class Endings:
    """Listens for the end of the program, from the first window of a recorder on."""

    def __init__(self, recorder: Recorder, *, terminate: bool) -> None:
        self._recorder = recorder
        self._terminate = terminate
        self._pid = os.getpid()
        self._before: Any = None
        self._listens = self._handles = False

    def listen(self) -> None:
        """Begin to; again and again does no harm."""
        if not self._listens:
            self._listens = True
            atexit.register(self._at_exit)
        if self._terminate and not self._handles and threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGTERM)
            if before is signal.SIG_IGN or before is None:
                return  # the program takes no notice of it; nor do we
            self._before = before
            signal.signal(signal.SIGTERM, self._on_term)
            self._handles = True

    def forget(self) -> None:
        """Put back what was there, unless someone came after us."""
        if self._listens:
            atexit.unregister(self._at_exit)
            self._listens = False
        self.let_go()

    def let_go(self) -> None:
        """Of the signal only."""
        if self._handles and threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGTERM) == self._on_term:
                signal.signal(signal.SIGTERM, self._before)
            self._handles = False

    def _at_exit(self) -> None:
        if os.getpid() == self._pid:
            self._recorder.ended_by("the program ended", self._recorder.options.wait_at_exit)

    def _on_term(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            self._go_on(number, frame)
            return
        self._recorder.when_free(lambda: self._end(number, frame))

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._recorder.ended_by("SIGTERM", self._recorder.options.grace)
        self._go_on(number, frame)

    def _go_on(self, number: int, frame: FrameType | None) -> None:
        """What the signal does without us."""
        if callable(self._before):
            self._before(number, frame)
            return
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


class Interruption:
    """Has the main thread end a window in the midst of a step, when a limit is passed.

    The interpreter is told that a signal came that nobody sends; its handler runs on the main thread, as any does.
    """

    def __init__(self) -> None:
        self._number = 0
        self._recorder: Recorder | None = None
        self._why = ""

    def listen(self, recorder: Recorder) -> None:
        """Ready for a window, if it is the main thread that records."""
        self._recorder = recorder
        self._why = ""
        if self._number or threading.current_thread() is not threading.main_thread():
            return
        for number in range(signal.SIGRTMAX - 1, signal.SIGRTMIN, -1):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._on_alarm)
                self._number = number
                return

    def raise_for(self, why: str) -> None:
        """Called on the watching thread: the window is to end, for this reason."""
        self._why = why
        if self._number and self._recorder is not None:
            with contextlib.suppress(ValueError):
                _thread.interrupt_main(self._number)  # type: ignore[arg-type] # any number does

    def rest(self) -> None:
        """No window runs: what may still come is nothing to us."""
        self._why = ""

    def forget(self) -> None:
        """Give the number back."""
        if self._number and threading.current_thread() is threading.main_thread():
            if signal.getsignal(self._number) == self._on_alarm:
                signal.signal(self._number, signal.SIG_DFL)
            self._number = 0

    def _on_alarm(self, _number: int, _frame: FrameType | None) -> None:
        recorder, why = self._recorder, self._why
        if recorder is not None and why:
            recorder.when_free(lambda: recorder.cut(why))
