"""The recorder: windows of torch.profiler at the steps of a training loop, never in the way of the training.

Everything that touches torch happens on the training thread, at a step boundary (or where the program ends); other
threads only leave requests. No method raises an error of recording: it is printed as one line, and training goes on.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Final

from kinetoscope.record.output import compile_log, guards, memory_snapshots
from kinetoscope.record.output.delivery import TraceDelivery, resolved
from kinetoscope.record.output.generated_files import track_provenance
from kinetoscope.record.output.guards import harmless
from kinetoscope.record.output.writing import Writer
from kinetoscope.record.session import graph_captures, others
from kinetoscope.record.session.options import DEFAULTS, RecordOptions
from kinetoscope.record.session.requests import OnDone, WindowRequest, WindowRequests
from kinetoscope.record.session.signals import CriticalSections, MidStepInterrupt, ProgramEnd
from kinetoscope.record.session.window_runner import WindowRunner

_YIELD_S: Final = 0.5
"""Seconds that a profiler of the program on another thread waits until ours begins to end."""

_YIELD_BUSY_S: Final = 60.0
"""Seconds that it waits until ours has ended, once that has begun."""


class Recorder:
    """Records windows of a job into a folder (or a URL that fsspec knows).

    Args:
        dir: where the traces go.
        options: how to record.
        step: the number, over the whole run, of the step that is about to run.
        say: prints a line that the user should see; None: on standard error.
        signals: end a window properly on SIGTERM, too.
    """

    def __init__(
        self,
        dir: str | os.PathLike[str],  # noqa: A002 - the name that users type
        options: RecordOptions = DEFAULTS,
        *,
        step: int = 0,
        say: Callable[[str], None] | None = None,
        signals: bool = True,
    ) -> None:
        self.options = options
        self.step_number = step
        self._say = guards.TellOnce(say or guards.tell)
        self._folder = resolved(dir)
        self._thread = 0
        self._on_thread = threading.local()
        self._gone = False
        if "torch" in sys.modules:
            others.watch()
        if options.with_provenance:
            harmless(None)(track_provenance)()
        if options.compile_log:
            compile_log.keep(self._folder)
        self._keeps_memory = False
        self._keep_memory(options)
        self._critical = CriticalSections()
        self._requests = WindowRequests()
        self._delivery = TraceDelivery(self._folder, options.keep_free, self._say)
        self._endings = ProgramEnd(self, wait_at_exit=options.wait_at_exit, grace=options.grace if signals else None)
        self._interruption = MidStepInterrupt()
        self._runner = WindowRunner(
            self._delivery, self._interruption, listen=self._listen, make_way=self._make_way, tell=self._say
        )
        _RECORDERS.add(self)
        graph_captures.recorders.add(self)
        self._captures = graph_captures.GraphCaptures(self._folder, options, say=self._say)
        if options.graph_captures and "torch" in sys.modules:
            self._captures.attach()

    # --- any thread -----------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """One of "idle", "warmup" and "recording"."""
        window = self._runner.window
        if window is None:
            return "idle"
        return "warmup" if window.began is None else "recording"

    @property
    def busy(self) -> bool:
        """True if a window runs, or one is requested."""
        return self._runner.window is not None or self._requests.waiting is not None

    @property
    def writing(self) -> int:
        """Number of traces on their way to the disk."""
        return self._delivery.writer.waiting

    @property
    def full(self) -> bool:
        """True if too many traces are on their way to begin a window now."""
        return self._delivery.busy

    @property
    def interruptible(self) -> bool:
        """True if the calling thread may end the window at this very moment."""
        return not self._critical.busy and threading.get_ident() == self._thread

    def request(
        self,
        active: int = 3,
        *,
        warmup: int = 1,
        at_step: int | None = None,
        reason: str = "request",
        options: RecordOptions | None = None,
        on_done: OnDone = None,
    ) -> bool:
        """Ask for a window from the next step boundary on, or such that it records from global step `at_step` on.

        Returns:
            Whether it will be tried; False if a window is wanted or running already.
        """
        if self._gone or self._runner.window is not None:
            return False
        request = WindowRequest(max(active, 1), max(warmup, 0), at_step, reason, options or self.options, on_done)
        return self._requests.put(request)

    def flush(self, seconds: float | None = None) -> bool:
        """Wait until all traces are written; False if that takes too long."""
        return self._delivery.writer.flush(self.options.wait_at_exit if seconds is None else seconds)

    # --- the training thread --------------------------------------------------------------------------------------

    def step(self, samples: int | None = None, *, step: int | None = None) -> None:
        """A step ended, with so many samples; `step` says what number the next one has in the run."""
        if self._runner.window is None and self._requests.waiting is None:
            self.step_number = self.step_number + 1 if step is None else step
        else:
            self._boundary(samples, step)
        memory_snapshots.history.mark(self.step_number)

    @harmless(False)
    def start_window(
        self,
        warmup: int = 1,
        active: int = 3,
        on_done: OnDone = None,
        *,
        reason: str = "window",
        options: RecordOptions | None = None,
        provisional: bool = False,
        on_ready: Callable[[Any], Any] | None = None,
        on_end: Callable[[], Any] | None = None,
    ) -> bool:
        """Begin a window now, with the step that is about to run.

        A provisional one records as little as can be. `on_ready` is called on the training thread with torch's profiler
        once it has stopped and exported, `on_end` before it stops, whatever the reason.

        Returns:
            Whether it runs; if not, the reason is printed, and passed to `on_done`.
        """
        if self._runner.window is None:
            self._thread = threading.get_ident()
        if threading.get_ident() != self._thread or self._gone:
            return False
        request = WindowRequest(max(active, 1), max(warmup, 0), None, reason, options or self.options, on_done)
        self._keep_memory(request.options)
        with self._critical.section():
            return self._runner.open(
                request, self.step_number, provisional=provisional, on_ready=on_ready, on_end=on_end
            )

    def hint(self, *, begin: bool = False, end: bool = False) -> None:
        """The step that is running is the last before the window records (`begin`), or the last of it (`end`)."""
        window = self._runner.window
        if window is not None and begin and window.began is None:
            window.warmup = 1
        if window is not None and end and window.began is not None:
            window.active = len(window.steps) + 1

    @harmless(None)
    def stop(self, reason: str = "stopped") -> None:
        """End the window now; its trace is written, marked with the reason."""
        self._stop(reason, keep=True)

    @harmless(None)
    def cut(self, reason: str) -> None:
        """A limit was passed in the midst of a step: end the window now.

        A provisional one only stops to record: whether it is wanted shows later.
        """
        window = self._runner.window
        if window is None or not window.provisional or not self.interruptible:
            self._stop(reason, keep=True)
            return
        with self._critical.section():
            self._runner.cut(window, self.step_number, reason)

    @harmless(None)
    def discard(self) -> None:
        """End the window now and drop its trace."""
        self._stop("discarded", keep=False)

    @harmless(None)
    def close(self, seconds: float | None = None) -> None:
        """End the window, wait for what is being written, and let go of signals."""
        if self._gone:
            return
        self._stop("the recorder was closed", keep=True)
        self._gone = True
        self._captures.detach()
        self._requests.forget()
        patience = self.options.wait_at_exit if seconds is None else seconds
        if not self._delivery.writer.flush(patience):
            self._say(f"not all traces were written within {patience:g} s: {self.writing} to come")
        self._endings.forget()
        self._interruption.forget()
        self._runner.close()
        self._end_logs()
        _RECORDERS.discard(self)

    @harmless(None)
    def leave(self, reason: str = "the recorder was closed") -> None:
        """End the window and let go of signals, but wait for nothing: what is being written is waited for at exit."""
        self._stop(reason, keep=True)
        self._gone = True
        self._captures.detach()
        self._requests.forget()
        self._endings.let_go()
        self._interruption.forget()
        self._end_logs()

    def _keep_memory(self, options: RecordOptions) -> None:
        if options.memory_snapshot and not self._keeps_memory:
            self._keeps_memory = True
            memory_snapshots.listeners.add(self)
            harmless(None)(memory_snapshots.history.keep)(self._folder, options.max_memory_events)

    def _end_logs(self) -> None:
        if self.options.compile_log:
            compile_log.leave(self._folder)
        if self._keeps_memory:
            self._keeps_memory = False
            memory_snapshots.listeners.discard(self)
            memory_snapshots.history.leave(self._folder)

    @harmless(None)
    def ended_by(self, reason: str, patience: float) -> None:
        """The program ends: write what there is, within so many seconds. Called where that is known, on any thread."""
        until = time.monotonic() + patience
        if self._runner.window is not None and threading.get_ident() != self._thread:
            # Only the training thread can stop torch's profiler: it is asked to, if it still runs.
            self._runner.asked_to_stop = reason
            while (self._critical.busy or self.state != "idle") and time.monotonic() < until - patience / 2:
                time.sleep(0.01)
            if self.state != "idle":
                self._say("the trace was not written: the thread that recorded it came to no end of its step")
        elif self._runner.window is not None:
            self.stop(reason)
        self._delivery.writer.flush(max(until - time.monotonic(), 0.0))

    def poll(self) -> None:
        """On the training thread, in the midst of a step: end the window if another thread wants that."""
        why = self._runner.asked_to_stop
        if why and self.interruptible:
            self.cut(why)

    def ran_out_of_memory(self, why: str) -> None:
        """The device's memory ran out, on whatever thread: the window that records ends, and is kept.

        It ends once torch has raised: within an operator, torch's profiler is better not stopped.
        """
        window = self._runner.window
        if window is not None and window.began is not None:
            window.bounds.ended = why

    def cool_down(self) -> bool:
        """The program captures a graph, which is recorded alone: let torch's profiler go if a window warms up."""
        if threading.get_ident() != self._thread:
            return False
        with self._critical.section():
            return self._runner.cool_down()

    def warm_up(self) -> None:
        """The capture has ended: warm up again."""
        with self._critical.section():
            self._runner.warm_up()

    def when_free(self, act: Callable[[], Any]) -> None:
        """Call it as soon as the recorder is in no critical section; at once if it is in none."""
        self._critical.when_free(act)

    def forked(self) -> None:
        """In a child of fork everything is the parent's: nothing is ended, and nothing of ours stays."""
        self._gone = True
        self._critical = CriticalSections()
        self._runner.forked()
        self._requests.forget()
        self._endings.forget()
        self._interruption.forget()
        self._delivery.writer = Writer(self._folder)

    # --- inside ---------------------------------------------------------------------------------------------------

    @harmless(None)
    def _boundary(self, samples: int | None, step: int | None) -> None:
        stage = self._runner
        if stage.window is None:
            self._thread = threading.get_ident()
        if threading.get_ident() != self._thread:
            self._say("step() came from another thread than the one that records; it is not counted")
            return
        with self._critical.section():
            ended = self.step_number
            self.step_number = ended + 1 if step is None else step
            if stage.window is not None:
                stage.advance(stage.window, ended, self.step_number, samples)
            asked = None if stage.window is not None else self._requests.take_due(self.step_number)
            if asked is not None:
                stage.open(asked, self.step_number)

    def _stop(self, reason: str, *, keep: bool) -> None:
        if threading.get_ident() != self._thread:
            if self._runner.window is not None:
                self._runner.asked_to_stop = reason
            return
        with self._critical.section():
            window = self._runner.window
            if window is not None:
                self._runner.stop(window, self.step_number, reason, keep=keep)

    def _listen(self) -> None:
        """A window begins to record: it may be ended by signals, and in the midst of a step."""
        if threading.current_thread() is not threading.main_thread() and not hasattr(self._on_thread, "end"):
            self._on_thread.end = _ThreadEnd(self)  # once: a second one in its place would end the window itself
        self._endings.listen()
        self._interruption.listen(self)

    def _make_way(self) -> None:
        """Another profiler is about to start: return when the window has ended, or cannot end."""
        why = others.STARTED
        self._stop(why, keep=True)
        if threading.get_ident() == self._thread:
            return
        self._interruption.raise_for(why)
        began = time.monotonic()
        while (window := self._runner.window) is not None:
            waited = time.monotonic() - began
            if waited > (_YIELD_BUSY_S if self._critical.busy else _YIELD_S):
                window.ended()
                return
            time.sleep(0.002)


class _ThreadEnd:
    """Goes with the thread that holds it, and ends the window there: torch stops a profiler on its own thread alone."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = weakref.ref(recorder)

    def __del__(self) -> None:
        recorder = self._recorder()
        if recorder is not None:
            recorder.stop("the thread that recorded ended")


_RECORDERS: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _after_fork() -> None:
    for each in list(_RECORDERS):
        harmless(None)(each.forked)()
    others.forked()


os.register_at_fork(after_in_child=_after_fork)
