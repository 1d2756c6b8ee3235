"""The ends of a program that records (by itself, by an exception, by SIGTERM or SIGHUP), and how a step is ended early.

Our handlers finish the recording, and then do what would have happened without them.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final, Protocol

ENDING_SIGNALS: Final = ("SIGTERM", "SIGHUP")
"""Signals that end a program, and that leave it time to write: of a job limit, and of a terminal that closes."""


class Interruptible(Protocol):
    """A recorder, as far as signals end it."""

    def when_free(self, act: Callable[[], Any]) -> None:
        """Call it as soon as nothing is under way that must not be cut in two."""
        ...

    def cut(self, reason: str) -> None:
        """End the window in the midst of a step."""
        ...

    def ended_by(self, reason: str, patience: float) -> None:
        """The program ends: write what there is within so many seconds."""
        ...


class CriticalSections:
    """Sections of the main thread that no handler of signals may cut in two: what it wants is put off until they end.

    Attributes:
        busy: how many sections the thread is in.
    """

    def __init__(self) -> None:
        self.busy = 0
        self._after: list[Callable[[], Any]] = []

    @contextlib.contextmanager
    def section(self) -> Iterator[None]:
        """One section."""
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1
            while self._after and not self.busy:
                self._after.pop(0)()

    def when_free(self, act: Callable[[], Any]) -> None:
        """Call it once no section is entered; at once if none is."""
        if self.busy:
            self._after.append(act)
        else:
            act()


class ProgramEnd:
    """Listens for the end of the program, from the first window of a recorder on.

    Args:
        recorder: what is ended.
        wait_at_exit: seconds that the end of the program may be put off.
        grace: the same for signals; None to leave them alone.
    """

    def __init__(self, recorder: Interruptible, *, wait_at_exit: float, grace: float | None) -> None:
        self._recorder = recorder
        self._wait_at_exit, self._grace = wait_at_exit, grace
        self._pid = os.getpid()
        self._before: dict[int, Any] = {}
        self._listens = False

    def listen(self) -> None:
        """Register the handlers; again and again does no harm."""
        if not self._listens:
            self._listens = True
            atexit.register(self._at_exit)
        if self._grace is None or self._before or threading.current_thread() is not threading.main_thread():
            return
        for name in ENDING_SIGNALS:
            number = getattr(signal, name, None)
            before = signal.getsignal(number) if number is not None else None
            if number is not None and before is not signal.SIG_IGN and before is not None:
                self._before[number] = before  # what the program ignores, so do we
                signal.signal(number, self._on_signal)

    def forget(self) -> None:
        """Put the earlier handlers back, unless somebody replaced ours."""
        if self._listens:
            atexit.unregister(self._at_exit)
            self._listens = False
        self.let_go()

    def let_go(self) -> None:
        """Put the earlier handlers of signals back, and leave the end of the program registered."""
        if threading.current_thread() is threading.main_thread():
            for number, before in self._before.items():
                if signal.getsignal(number) == self._on_signal:
                    signal.signal(number, before)
            self._before.clear()

    def _at_exit(self) -> None:
        if os.getpid() == self._pid:
            self._recorder.ended_by("the program ended", self._wait_at_exit)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        before = self._before.get(number, signal.SIG_DFL)
        if os.getpid() != self._pid:
            _go_on(before, number, frame)
            return
        self._recorder.when_free(lambda: self._end(before, number, frame))

    def _end(self, before: Any, number: int, frame: FrameType | None) -> None:
        self._recorder.ended_by(signal.Signals(number).name, self._grace or 0.0)
        _go_on(before, number, frame)


def _go_on(before: Any, number: int, frame: FrameType | None) -> None:
    """The effect of the signal without us."""
    if callable(before):
        before(number, frame)
        return
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


class MidStepInterrupt:
    """Interrupts the main thread to end a window in the midst of a step, when a limit is passed.

    A signal is simulated in the interpreter; its handler runs on the main thread, as any does.
    """

    def __init__(self) -> None:
        self._number = 0
        self._recorder: Interruptible | None = None
        self._why = ""

    def listen(self, recorder: Interruptible) -> None:
        """Choose a signal number for a window, if the main thread records it."""
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
        """End the window for this reason; called on the watching thread."""
        self._why = why
        if self._number and self._recorder is not None:
            with contextlib.suppress(ValueError):
                _thread.interrupt_main(self._number)  # type: ignore[arg-type] # any number does

    def rest(self) -> None:
        """No window runs: ignore signals that may still come."""
        self._why = ""

    def forget(self) -> None:
        """Give the signal number back."""
        if self._number and threading.current_thread() is threading.main_thread():
            if signal.getsignal(self._number) == self._on_alarm:
                signal.signal(self._number, signal.SIG_DFL)
            self._number = 0

    def _on_alarm(self, _number: int, _frame: FrameType | None) -> None:
        recorder, why = self._recorder, self._why
        if recorder is not None and why:
            recorder.when_free(lambda: recorder.cut(why))
