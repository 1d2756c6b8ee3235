"""The recorder: windows of torch.profiler at the steps of a training loop, never in the way of the training.

Everything that touches torch happens on the training thread, at a step boundary (or where the program ends); other
threads only leave requests. No method raises what goes wrong with recording: a line tells it, and training goes on.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from kinetoscope.record import guards
from kinetoscope.record.delivery import Delivery, resolved
from kinetoscope.record.guards import harmless
from kinetoscope.record.options import DEFAULTS, Options
from kinetoscope.record.session import Session
from kinetoscope.record.signals import Endings, Interruption
from kinetoscope.record.window import Request, Window
from kinetoscope.record.writing import Writer, Written

_OnDone = Callable[[Written], None] | None


class Recorder:
    """Records windows of a job into a folder (or a URL that fsspec knows).

    Args:
        dir: where the traces go.
        options: how to record.
        step: the number, over the whole run, of the step that is about to run.
        say: told each line that the user should see; None: standard error.
        signals: end a window properly on SIGTERM, too.
    """

    def __init__(
        self,
        dir: str | os.PathLike[str],  # noqa: A002 - the name that users type
        options: Options = DEFAULTS,
        *,
        step: int = 0,
        say: Callable[[str], None] | None = None,
        signals: bool = True,
    ) -> None:
        self.options = options
        self.step_number = step
        self._say = say or guards.tell
        self._folder = resolved(dir)
        self._resident = guards.Resident()
        self._lock = threading.Lock()
        self._wanted: Request | None = None
        self._window: Window | None = None
        self._thread = 0
        self._busy = 0
        self._ask_stop = ""
        self._after: list[Callable[[], Any]] = []
        self._said: set[str] = set()
        self._gone = False
        self._delivery = Delivery(self._folder, options.keep_free, self._tell)
        self._endings = Endings(self, terminate=signals)
        self._interruption = Interruption()
        _ALL.add(self)

    # --- any thread -----------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """It is "idle", in "warmup" or "recording"."""
        window = self._window
        if window is None:
            return "idle"
        return "warmup" if window.began is None else "recording"

    @property
    def busy(self) -> bool:
        """A window runs, or one is wanted."""
        return self._window is not None or self._wanted is not None

    @property
    def writing(self) -> int:
        """How many traces are on their way to the disk."""
        return self._delivery.writer.waiting

    @property
    def interruptible(self) -> bool:
        """The calling thread may end the window at this very moment."""
        return not self._busy and threading.get_ident() == self._thread

    def request(
        self,
        active: int = 3,
        *,
        warmup: int = 1,
        at_step: int | None = None,
        reason: str = "request",
        options: Options | None = None,
        on_done: _OnDone = None,
    ) -> bool:
        """Ask for a window from the next step boundary on, or such that it records from global step `at_step` on.

        Returns:
            Whether it will be tried; False if a window is wanted or running already.
        """
        with self._lock:
            if self._gone or self._wanted is not None or self._window is not None:
                return False
            self._wanted = Request(max(active, 1), max(warmup, 0), at_step, reason, options or self.options, on_done)
        return True

    def flush(self, seconds: float | None = None) -> bool:
        """Wait until all traces are written; False if that takes too long."""
        return self._delivery.writer.flush(self.options.wait_at_exit if seconds is None else seconds)

    # --- the training thread --------------------------------------------------------------------------------------

    def step(self, samples: int | None = None, *, step: int | None = None) -> None:
        """A step ended, with so many samples; `step` says what number the next one has in the run."""
        if self._window is None and self._wanted is None:
            self.step_number = self.step_number + 1 if step is None else step
            return
        self._boundary(samples, step)

    @harmless(False)
    def start_window(
        self,
        warmup: int = 1,
        active: int = 3,
        on_done: _OnDone = None,
        *,
        reason: str = "window",
        options: Options | None = None,
        provisional: bool = False,
        on_ready: Callable[[Any], Any] | None = None,
    ) -> bool:
        """Begin a window now, with the step that is about to run.

        A provisional one records as little as can be. `on_ready` is called on the training thread with torch's profiler
        once it has stopped and exported.

        Returns:
            Whether it runs; if not, a line says why, and `on_done` is told.
        """
        if self._window is None:
            self._thread = threading.get_ident()
        if threading.get_ident() != self._thread or self._gone:
            return False
        asked = Request(max(active, 1), max(warmup, 0), None, reason, options or self.options, on_done)
        with self._critical():
            opened = self._open(asked, provisional=provisional)
            if opened and self._window is not None:
                self._window.on_ready = on_ready
            return opened

    def hint(self, *, begin: bool = False, end: bool = False) -> None:
        """The step that is running is the last before the window records (`begin`), or the last of it (`end`)."""
        window = self._window
        if window is not None and begin and window.began is None:
            window.warmup = 1
        if window is not None and end and window.began is not None:
            window.active = len(window.steps) + 1

    @harmless(None)
    def stop(self, reason: str = "stopped") -> None:
        """End the window now; what it recorded is written, marked with the reason."""
        self._stop(reason, keep=True)

    @harmless(None)
    def cut(self, reason: str) -> None:
        """A limit was passed in the midst of a step: end the window now.

        A provisional one only stops to record: whether it is wanted shows later.
        """
        window = self._window
        if window is None or not window.provisional or not self.interruptible:
            self._stop(reason, keep=True)
            return
        with self._critical():
            window.cut = reason
            window.close_step(self.step_number, None, whole=False)
            window.session.stop()

    @harmless(None)
    def discard(self) -> None:
        """End the window now and forget what it recorded."""
        self._stop("discarded", keep=False)

    @harmless(None)
    def close(self, seconds: float | None = None) -> None:
        """End the window, wait for what is being written, and let go of signals."""
        if self._gone:
            return
        self._stop("the recorder was closed", keep=True)
        self._gone = True
        self._wanted = None
        patience = self.options.wait_at_exit if seconds is None else seconds
        if not self._delivery.writer.flush(patience):
            self._tell(f"{self.writing} traces were not written within {patience:g} s")
        self._endings.forget()
        self._interruption.forget()
        self._resident.close()
        _ALL.discard(self)

    @harmless(None)
    def leave(self, reason: str = "the recorder was closed") -> None:
        """End the window and let go of signals, but wait for nothing: what is being written is waited for at exit."""
        self._stop(reason, keep=True)
        self._gone = True
        self._wanted = None
        self._endings.let_go()
        self._interruption.forget()

    @harmless(None)
    def ended_by(self, reason: str, patience: float) -> None:
        """The program ends: write what there is, within so many seconds. Called where that is known, on any thread."""
        until = time.monotonic() + patience
        if self._window is not None and threading.get_ident() != self._thread:
            # Only the training thread can stop torch's profiler: it is asked to, if it still runs.
            self._ask_stop = reason
            while (self._busy or self.state != "idle") and time.monotonic() < until - patience / 2:
                time.sleep(0.01)
            if self.state != "idle":
                self._tell("the trace was not written: the thread that recorded it came to no end of its step")
        elif self._window is not None:
            self.stop(reason)
        self._delivery.writer.flush(max(until - time.monotonic(), 0.0))

    def when_free(self, act: Callable[[], Any]) -> None:
        """Do it as soon as the recorder is not in the midst of something; at once if it is not."""
        if self._busy:
            self._after.append(act)
        else:
            act()

    def forked(self) -> None:
        """In a child of fork: whatever there was is the parent's."""
        self._gone = True
        self._window = self._wanted = None
        self._lock = threading.Lock()
        self._delivery.writer = Writer(self._folder)

    # --- inside ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _critical(self) -> Iterator[None]:
        """What must not be cut in two by a handler of signals."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            while self._after and not self._busy:
                self._after.pop(0)()

    @harmless(None)
    def _boundary(self, samples: int | None, step: int | None) -> None:
        if self._window is None:
            self._thread = threading.get_ident()
        if threading.get_ident() != self._thread:
            self._tell("step() came from another thread than the one that records; it is not counted")
            return
        with self._critical():
            ended = self.step_number
            self.step_number = ended + 1 if step is None else step
            window = self._window
            if window is not None:
                self._advance(window, ended, samples)
            if self._window is None and self._wanted is not None and self._wanted.due(self.step_number):
                with self._lock:
                    wanted, self._wanted = self._wanted, None
                late = 0 if wanted.at_step is None else self.step_number - (wanted.at_step - wanted.warmup)
                self._open(replace(wanted, warmup=max(wanted.warmup - max(late, 0), 0)))

    def _advance(self, window: Window, ended: int, samples: int | None) -> None:
        """A step of the window ended."""
        if window.began is None:
            window.warmup -= 1
            why = self._begin(window) if window.warmup <= 0 else ""
            if why:
                self._delivery.refuse(why, window.on_done, window.reason)
            return
        window.close_step(ended, samples, whole=True)
        why = self._ask_stop or window.too_much()
        if why or len(window.steps) >= window.active:
            self._end(window, "" if len(window.steps) >= window.active else why)
        else:
            window.open_step(self.step_number)

    def _open(self, asked: Request, *, provisional: bool = False) -> bool:
        on_done = [asked.on_done] if asked.on_done is not None else []
        why = self._not_now()
        if not why:
            session = Session(asked.options, light=provisional, yielding=self._make_way)
            window = Window(
                session,
                asked.reason,
                asked.options,
                asked.warmup,
                asked.active,
                on_done,
                self._resident,
                self._resident.bytes(),
                guards.memory_limit(asked.options.max_memory),
                provisional,
            )
            self._window = window
            if asked.warmup <= 0:
                why = self._begin(window)
            else:
                why = session.prepare()
                if why:
                    self._window = None
        if why:
            self._delivery.refuse(why, on_done, asked.reason)
        return not why

    def _not_now(self) -> str:
        if self._window is not None:
            return "a window is running"
        return self._delivery.ready()

    def _begin(self, window: Window) -> str:
        """Record from here on; "" or why not."""
        began = time.perf_counter()
        window.resident_before = window.resident.bytes()
        window.clock("start")
        why = window.session.start()
        if why:
            self._window = None
            return why
        window.began = self.step_number
        window.began_at = time.monotonic()
        self._endings.listen()
        self._interruption.listen(self)
        window.watch = guards.Watch(window.too_much, self._interruption.raise_for)
        window.start_seconds = time.perf_counter() - began
        window.open_step(self.step_number)
        return ""

    def _make_way(self) -> None:
        """Another profiler is about to start on our thread."""
        self._stop("another profiler was started", keep=True)

    def _stop(self, reason: str, *, keep: bool) -> None:
        with self._critical():
            window = self._window
            if window is None:
                return
            if threading.get_ident() != self._thread:
                self._ask_stop = reason
                return
            if window.began is None:
                self._window = None
                window.session.stop()
                window.session.release()
                if keep:
                    self._delivery.refuse(reason or "its first step did not come", window.on_done, window.reason)
                return
            window.close_step(self.step_number, None, whole=False)
            self._end(window, reason, keep=keep)

    def _end(self, window: Window, truncated: str, *, keep: bool = True) -> None:
        """Stop torch's profiler; what it recorded is delivered, or forgotten."""
        self._window, self._ask_stop = None, ""
        if window.watch is not None:
            window.watch.end()
        self._interruption.rest()
        grown = window.grown()
        window.clock("stop")
        before = time.perf_counter()
        why = window.session.lost if window.cut else window.session.stop()
        truncated = window.cut or truncated
        if not keep:
            window.session.release()
            return
        if truncated:
            self._tell(f"recording ended early: {truncated}")
        self._delivery.deliver(window, why, truncated, grown, time.perf_counter() - before)

    def _tell(self, line: str) -> None:
        """Each line once."""
        if line not in self._said and len(self._said) < 100:
            self._said.add(line)
            harmless(None)(self._say)(line)


_ALL: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _after_fork() -> None:
    for each in list(_ALL):
        each.forked()


os.register_at_fork(after_in_child=_after_fork)
