"""The part of `kinetoscope record` in each process that it started, from the moment that torch was imported.

There are hooks on the steps of optimizers and, until it is known what the steps of the program are, on the calls of
modules (`module_calls`); so launchers and other helpers are left alone, and each rank that computes records, however it
was started. Steps of an optimizer take precedence: where one was made, they are waited for, and what was recorded
of calls before the first of them is removed. An error here is printed once, and the program goes on without us.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinetoscope.record.always_on import mailbox, timing
from kinetoscope.record.always_on.always import LEAD_S, KeptWindow, KeptWindows, SamplingSchedule, remove_files
from kinetoscope.record.always_on.hooks import OptimizerRounds, PassSpans, StepEnds, hidden_from_compiler
from kinetoscope.record.always_on.idle import AgreedWindow, RankProcess, RequestWatch
from kinetoscope.record.always_on.module_calls import ModuleCalls, RangeCalls, announce_calls, optimizer_was_made
from kinetoscope.record.always_on.step_parts import parts
from kinetoscope.record.always_on.timing import TimedSteps
from kinetoscope.record.always_on.wanted_windows import WantedWindows
from kinetoscope.record.hangs.evidence import folder_of, restarts
from kinetoscope.record.hangs.variables import is_recorder_of_all, set_variables
from kinetoscope.record.hangs.watch import HangWatch
from kinetoscope.record.history.marks import marks
from kinetoscope.record.history.series import SeriesRecorder
from kinetoscope.record.output import compile_log, memory_snapshots
from kinetoscope.record.output.guards import described, harmless, tell
from kinetoscope.record.output.writing import WindowOutcome
from kinetoscope.record.session import forks, others
from kinetoscope.record.session.child_config import RecordPlan
from kinetoscope.record.session.graph_captures import GraphCaptures
from kinetoscope.record.session.options import RecordOptions, rank_identity
from kinetoscope.record.session.recorder import Recorder

if TYPE_CHECKING:
    import torch

_current: ProcessRecording | None = None


def begin(text: str) -> None:
    """Wait for the first step; `text` is a plan. Torch has just been imported."""
    global _current  # noqa: PLW0603 - one for the process, for `forked` and the signal
    if _current is None:
        plan = RecordPlan.from_text(text)
        others.watch()
        if plan.timing is not None:
            timing.prepare(plan)
        running = _current = ProcessRecording(plan)
        running.attach()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=running.forked)
        running.listen()
        if plan.hang:
            running.watch_for_hangs()


class ProcessRecording:
    """The recording of one process: counts its steps, and opens windows when it is time or someone asks.

    Attributes:
        hook: its place among the hooks of optimizers.
    """

    def __init__(self, plan: RecordPlan) -> None:
        self.hook: Any = None
        self._plan = plan
        self._options = RecordOptions(**plan.options)
        if self._options.compile_log:  # the first compilations come before the first step ends
            compile_log.keep(plan.dir)
        if self._options.memory_snapshot:  # so do the model's parameters
            memory_snapshots.history.keep(plan.dir, self._options.max_memory_events)
        self._calls: ModuleCalls | None = None
        self._hang: HangWatch | None = None
        self._series: SeriesRecorder | None = None
        self._forget()

    def _forget(self) -> None:
        self._rounds = OptimizerRounds()
        self._job: _Job | TimedSteps | None = None
        self._thread: threading.Thread | None = None
        self._said_of_threads = False
        self._signalled = False
        self._over = False
        self._lock = threading.Lock()

    def attach(self) -> None:
        """Watch for what may be steps, for what they consist of, and for captures of CUDA graphs."""
        if self._plan.history:
            parts.attach()
            marks.attach()
        if self._options.graph_captures:
            GraphCaptures(self._plan.dir, self._options, spans=self._spans_of_capture).attach()
        from torch.optim.optimizer import register_optimizer_step_post_hook

        named = self._plan.steps_by
        if not named:
            hidden_from_compiler(ProcessRecording.stepped)
            self.hook = register_optimizer_step_post_hook(self.stepped)
        first = self._first_called if self._plan.seconds else None
        self._calls = ModuleCalls(named, begins=self.called, ends=self.returned, first=first)
        self._calls.observe()
        if named:
            RangeCalls(named, begins=self.called, ends=self.returned).attach()

    def _spans_of_capture(self) -> PassSpans | None:
        marked = not self._plan.spans or (self._job is not None and self._job.marks)
        return None if marked else PassSpans()

    def listen(self) -> None:
        """Let SIGUSR2 ask for a recording, unless it means something to the program."""
        if not self._plan.signal or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL:
            signal.signal(signal.SIGUSR2, self._on_signal)

    def watch_for_hangs(self) -> None:
        """Have torch record its collectives, and watch for a step that does not end."""
        import torch

        if self._hang is not None:
            return
        of_all = is_recorder_of_all(getattr(torch._C, "_distributed_c10d", None))
        set_variables(folder_of(self._plan.dir, restarts()), of_all=of_all)
        self._hang = HangWatch(self._plan)
        self._hang.start()

    def _tick(self) -> None:
        """A step has ended, of which the watch is to know; in a child of fork there is none yet."""
        if self._hang is not None:
            self._hang.clock.tick()
        elif self._plan.hang:
            self.watch_for_hangs()

    def _on_signal(self, *_: object) -> None:
        self._signalled = True
        if self._job is not None:
            self._job.watch.signal()

    def forked(self) -> None:
        """In a child process: nothing of the parent's recording is this process's.

        It may train on its own, and is recorded then; not where torch's profiler has been up in the parent, whose
        threads it would need.
        """
        if self._job is not None:
            self._job.abandon()
        if self._hang is not None:
            self._hang.forked()
            self._hang = None
        if self._plan.history:
            self._forget_history()
        self._forget()
        if forks.armed():
            self._over = True
            if self.hook is not None:
                self.hook.remove()
            if self._calls is not None:
                self._calls.forget()
            if signal.getsignal(signal.SIGUSR2) == self._on_signal:
                signal.signal(signal.SIGUSR2, signal.SIG_DFL)

    def stepped(self, optimizer: Any, *_: Any) -> None:
        """An optimizer has stepped."""
        entered, now = time.monotonic(), time.perf_counter_ns()
        # Between two steps the program has had the caches: a call of Python costs microseconds here, so there are few.
        if self._over or not self._is_counted():
            return
        try:
            if self._plan.history:
                parts.optimizer_leaves(now)
            if self._calls is not None:
                self._trains()
            if self._rounds.ended_by(optimizer) and (self._job is not None or self._ready()):
                if self._plan.hang:
                    self._tick()
                if self._series is not None:
                    self._series.step(now, optimizer)
                self._here.boundary(entered)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not be the program's
            self._fail(error)

    def _is_counted(self) -> bool:
        """True if the steps of this thread are those of the program: of several that train, one is recorded."""
        thread = threading.current_thread()
        if self._thread is thread:
            return True
        with self._lock:
            first = self._thread
            if first is None or (not first.is_alive() and (self._job is None or self._job.idle)):
                self._thread, self._rounds = thread, OptimizerRounds()
                parts.thread = thread.ident or 0
                return True
            was_said, self._said_of_threads = self._said_of_threads, True
        if not was_said and first.is_alive() and not self._options.all_threads:
            tell("several threads train: the steps of one are recorded, and what it runs (--all-threads: of all)")
        return False

    def called(self, module: torch.nn.Module | None) -> None:
        """A call whose beginning is the beginning of a step is about to run, on whatever thread."""
        if self._over:
            return
        try:
            if not self._plan.steps_by and optimizer_was_made() and (self._job is None or self._job.idle):
                self._await_optimizer()
            elif self._ready(by_calls=True):
                self._tick()
                if self._series is not None:
                    self._series.called()
                self._here.called(module)
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)

    def returned(self, module: torch.nn.Module | None) -> None:
        """That call has ended."""
        if self._job is None or self._over:
            return
        try:
            if self._series is not None:
                self._series.returned()
            self._job.returned(module)
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)

    def _first_called(self, _: torch.nn.Module) -> None:
        """The program begins to compute: a recording of a fixed time begins."""
        if not self._over and self._ready(by_calls=True):
            self._here.begin_timed()

    def _trains(self) -> None:
        """An optimizer has stepped for the first time."""
        calls, self._calls = self._calls, None
        if calls is not None:
            calls.forget()
            self._watch_forward(calls)
        if self._job is not None and not self._plan.seconds:
            job, self._job = self._job, None
            job.withdraw()
            if self._series is not None:
                self._series.withdraw()

    @harmless(None)
    def _watch_forward(self, calls: ModuleCalls) -> None:
        """The first step has shown which modules the program calls: from now on their calls are its forward pass."""
        for module in calls.outermost() if self._plan.history else ():
            if any(each.requires_grad for each in module.parameters()):
                announce_calls(module, parts.forward_enters, parts.forward_leaves)

    def _await_optimizer(self) -> None:
        if self._calls is not None:
            self._calls.forget()
        with contextlib.suppress(OSError):
            mailbox.leave(Path(self._plan.control) / "optimizer" / str(os.getpid()), {})

    def _fail(self, error: Exception) -> None:
        self._over = True
        if self._calls is not None:
            self._calls.forget()
        tell(f"recording has ended in process {os.getpid()}: {described(error)}")

    def _ready(self, *, by_calls: bool = False) -> bool:
        """True if there are steps to count in this process; the first time, get ready to."""
        if self._job is not None:
            return True
        with self._lock:
            if self._job is None:
                from torch.utils.data import get_worker_info

                if get_worker_info() is not None:  # a worker of a data loader
                    self._over = True
                    if self._calls is not None:
                        self._calls.forget()
                    return False
                before = self._calls.calls_before if by_calls and self._calls is not None else 0
                self._job = self._new_job(before if by_calls else None)
                if self._signalled:
                    self._job.watch.signal()
        return True

    def _new_job(self, calls_before: int | None) -> _Job | TimedSteps:
        if self._plan.history:
            self._begin_series(by_calls=calls_before is not None)
        record = partial(_Job, self._plan, self._options, series=self._series)
        if self._plan.timing is None:
            return record(calls_before=calls_before)
        return TimedSteps(self._plan, self._plan.timing, record, by_calls=calls_before is not None)

    @harmless(None)
    def _begin_series(self, *, by_calls: bool) -> None:
        parts.by_calls = by_calls
        self._series = SeriesRecorder(self._plan.dir, self._options, parts, marks)

    @harmless(None)
    def _forget_history(self) -> None:
        series, self._series = self._series, None
        parts.forked()
        marks.waiting.clear()
        if series is not None:
            series.forked()

    @property
    def _here(self) -> _Job | TimedSteps:
        assert self._job is not None
        return self._job


class _Job:
    """The steps of a process; one call of `boundary`, or of `called` and `returned`, for each."""

    def __init__(
        self, plan: RecordPlan, options: RecordOptions, *, calls_before: int | None, series: SeriesRecorder | None
    ) -> None:
        """`calls_before`: calls that were steps before this is made; None where optimizers end the steps."""
        self._plan, self._options = plan, options
        self._control = Path(plan.control)
        here = rank_identity()
        self.process = RankProcess(here.rank, here.world, here.pid, socket.gethostname())
        self._by_calls = calls_before is not None
        self._ended = (calls_before or 0) - self._by_calls
        self._last = 0.0
        self._seconds = 0.0
        self._recorder = Recorder(plan.dir, options, say=None if here.rank == 0 else lambda _: None)
        self._yielded = self._said_open = False
        self._missed = 0
        self._spans = PassSpans(self._recorder.poll)
        self._ends = StepEnds()
        self._next = max(plan.wait, 1)
        self._left = plan.repeat or sys.maxsize
        self._lock = threading.Lock()
        self._owner = 0
        self._series: AgreedWindow | None = None
        self._withdrawn = False
        self._files: list[str] = []
        self._always = SamplingSchedule(plan.every, plan.budget, plan.warmup, plan.active) if plan.every else None
        self._entered = self._exits = 0.0
        self._window = _WindowMark()
        self._only_counts = plan.idle and not options.memory_snapshot
        if self._always is not None:
            atexit.register(self._tell_cost, ended=True)  # what is registered first comes last
        self._recorded: list[int] = []
        if self._always is not None and series is not None:
            self._watch_changes(self._always, series)
        name = self.process.name if plan.history else ""
        self._kept = KeptWindows(self._control, plan.keep, leads=self.process.rank == 0, name=name)
        self.watch = RequestWatch(
            self.process, run=plan.dir, control=self._control, clock=lambda: (self._ended, self._seconds)
        )
        self.watch.start()

    def _watch_changes(self, always: SamplingSchedule, series: SeriesRecorder) -> None:
        """Have the history say which windows tell most."""
        wanted = WantedWindows(self.process, self._control, always.want)
        always.sees_changes, always.lead = True, LEAD_S if self.process.world > 1 else 0.0
        self._recorded = wanted.detector.recorded
        series.watch(wanted.seen)

    @property
    def idle(self) -> bool:
        """True if no window is open."""
        return self._recorder.state == "idle"

    @property
    def marks(self) -> bool:
        """True if modules are being marked."""
        return self._spans.attached

    def boundary(self, entered: float) -> None:
        """A step has ended, as was seen at this time; torch still has the mark of the optimizer's step open."""
        if self._only_counts and self.watch.agreed is None and self._series is None and not self._recorder.busy:
            self._count(entered)
        else:
            self._entered = entered
            self._ends.put_off(self._boundary)

    def _count(self, now: float) -> None:
        """A step has ended of an idle job that nobody has asked for anything: all of `_boundary` that this needs."""
        if self._last:
            took = now - self._last
            self._seconds = 0.9 * self._seconds + 0.1 * took if self._seconds else took
        self._ended += 1
        self._last = now

    def called(self, module: torch.nn.Module | None) -> None:
        """A call that begins a step is about to run.

        On the main thread a step lasts until the next such call. Other threads may end, or may never call again, so
        each of their windows is one call: torch records the thread that starts it, and stops on that thread alone.
        """
        if threading.get_ident() == threading.main_thread().ident:
            if not self._owner:
                self._entered = time.monotonic()
                self._boundary()
        elif self._lock.acquire(blocking=False):
            try:
                self._called_elsewhere()
            finally:
                self._lock.release()
        else:
            self._ended += 1
        if module is not None and self._spans.attached:
            self._spans.announce(module)
            self._spans.enter(module)

    def returned(self, module: torch.nn.Module | None) -> None:
        """A call that began a step has ended."""
        if module is not None:
            self._spans.leave(module)
        if self._owner == threading.get_ident():
            with self._lock:
                self._end_call()

    @harmless(None)
    def _called_elsewhere(self) -> None:
        if self._owner == threading.get_ident():  # an interrupt ended that call
            self._end_call()
        self._ended += 1
        took, self._last = time.monotonic() - (self._last or time.monotonic()), time.monotonic()
        if self._recorder.state == "idle":
            self._begin_due(took, recorded=False)
            if self._recorder.state != "idle":
                self._owner = threading.get_ident()

    @harmless(None)
    def _end_call(self) -> None:
        self._owner = 0
        began = time.monotonic()
        self._recorder.step()
        if self._always is not None:
            self._always.charge(time.monotonic() - began)
        self._tell_open()

    @harmless(None)
    def _boundary(self) -> None:
        took = time.monotonic() - self._last
        known, self._ended = bool(self._last), self._ended + 1
        recorded = self._recorder.state != "idle"
        if recorded:
            self._recorder.step(step=self._ended)
            took = time.monotonic() - self._last  # with what the recorder did
        elif known:
            self._seconds = 0.9 * self._seconds + 0.1 * took if self._seconds else took
        if self._ends.attached and self._recorder.state == "idle":
            self._leave()
        self._begin_due(took, recorded=recorded)
        memory_snapshots.history.mark(self._ended)
        self._last = time.monotonic()
        if self._always is not None and known and not recorded and self._recorder.state == "idle":
            self._always.counting += self._last - self._entered

    def _begin_due(self, took: float, *, recorded: bool) -> None:
        """Begin the window that is due, if one is."""
        if self._series is not None:
            series, self._series = self._series, None
            self._open(series)
        elif self.watch.agreed is not None:
            self._take(self.watch.agreed)
        elif self._plan.scheduled:
            self._schedule()
        elif self._always is not None:
            self._sample(self._always, took, recorded=recorded)
        self._tell_open()

    @harmless(None)
    def begin_timed(self) -> None:
        """Begin the window of a fixed time, on the main thread."""
        if self._left and not self._plan.idle and threading.get_ident() == threading.main_thread().ident:
            self._left = 0
            self._open(AgreedWindow("", None, sys.maxsize, 0, {"seconds": self._plan.seconds}, reason="time"))
            self._tell_open()

    def withdraw(self) -> None:
        """An optimizer steps after all: the calls before were no steps, and their windows are not wanted."""
        self._withdrawn = True
        self.watch.stop()
        self._recorder.discard()
        self._recorder.leave()
        self._leave()
        files, self._files = self._files, []
        remove_files(files)
        if files:
            tell("the program trains after all: what was recorded before its optimizer's first step was removed")

    def abandon(self) -> None:
        """In a child process: take down what stands, and touch nothing that the parent still uses."""
        self._spans.detach(close=False)
        self._ends.detach()

    def _leave(self) -> None:
        self._spans.detach()
        self._ends.detach()

    def _schedule(self) -> None:
        plan = self._plan
        if not (self._left and self._ended >= self._next and self._recorder.state == "idle"):
            return
        if others.active():
            self._next = self._ended + 1
            self._gave_way()
        elif not self._recorder.full:
            self._left -= 1
            self._missed, self._next = self._missed_by_now(), self._ended + plan.window
            self._open(AgreedWindow("", None, plan.active, plan.warmup, reason="schedule"))

    def _missed_by_now(self) -> int:
        """Windows that there would have been, had the writers not been busy when one was due."""
        waits = self._plan.scheduled and self._left
        return self._missed + (max(self._ended - self._next, 0) // self._plan.window if waits else 0)

    def _tell_open(self) -> None:
        """Should the process be killed now, it is known that a window was there."""
        records = self._recorder.state == "recording"
        if records and not self._said_open:
            with contextlib.suppress(OSError):
                step = self._recorder.step_number
                mailbox.leave(self._note_of_open(step), {"step": step})
        elif self._said_open and not records:
            self._window.end = time.perf_counter_ns()
        self._said_open = records

    def _note_of_open(self, first_step: int) -> Path:
        """The note that a window is open: from its first recorded step until its outcome is known."""
        return self._control / "open" / f"{self.process.name}.{first_step}"

    def _gave_way(self) -> None:
        """A window was due while a profiler of the program was at work."""
        if not self._yielded:
            self._yielded = True
            with contextlib.suppress(OSError):
                mailbox.leave(self._control / "yielded" / self.process.name, {"step": self._ended})

    def _exit(self) -> None:
        """The program ends; the recorder may still have to write."""
        self._exits = time.monotonic()

    def _tell_cost(self, *, ended: bool) -> None:
        if self._always is None or os.getpid() != self.process.pid:
            return
        now = time.monotonic()
        if ended and self._exits > 0:
            self._always.spent += now - self._exits
        with contextlib.suppress(OSError):
            mailbox.leave(self._control / "cost" / self.process.name, self._always.note(now, ended=ended))

    def _sample(self, always: SamplingSchedule, took: float, *, recorded: bool) -> None:
        costs = recorded or self._recorder.writing > 0
        if not costs and len(self._recorded) % 2:
            self._recorded.append(marks.step + 1)  # what was done for it at its end counts as the next step's
        if always.wish is not None:
            always.before = marks.step - self._ended
        wish = always.after_step(self._ended, took, recorded=costs, now=time.monotonic())
        if wish is None:
            return
        steps = {"reason": wish.reason, "cause": wish.cause, "took": wish.took or took}
        if self.process.world <= 1:
            began = time.monotonic()
            self._open(AgreedWindow("", None, always.active, always.warmup, **steps))  # type: ignore[arg-type]
            always.charge(time.monotonic() - began)
        elif self.process.rank == 0:
            at = {"at": wish.first - always.before - always.warmup} if wish.first else {}
            self.watch.ask({"steps": always.active, "warmup": always.warmup, **steps, **at})

    def _take(self, agreed: AgreedWindow) -> None:
        """Begin what was asked for, if its step has come."""
        if agreed.step is not None and self._ended < agreed.step:
            return
        self.watch.agreed = None
        if agreed.step is not None and self._ended > agreed.step:
            problem = f"it was at step {self._ended} already when it read that all begin at step {agreed.step}"
            self.watch.done(agreed.number, {"problem": problem})
        elif not self._open(agreed):
            self.watch.done(agreed.number, {"problem": "it was recording already"})

    def _open(self, agreed: AgreedWindow) -> bool:
        if self._recorder.state != "idle":
            return False
        options = replace(self._options, **agreed.options)
        reason = agreed.reason
        self._window = _WindowMark(time.perf_counter_ns() * self._plan.history, marks.step - self._ended, reason)
        if len(self._recorded) % 2 == 0:
            self._recorded.append(marks.step)
        self._recorder.step(step=self._ended)
        warmup, active, wanted = agreed.warmup, agreed.active, agreed
        if self._by_calls and threading.get_ident() != threading.main_thread().ident:
            warmup, active = 0, 1
            if agreed.active > 1:
                wanted, self._series = replace(agreed, number=""), replace(agreed, active=agreed.active - 1)
        opened = self._recorder.start_window(
            warmup, active, self._written(wanted), reason=reason, options=options, on_end=self._leave
        )
        if opened:
            if self._always is not None and not self._exits:
                self._exits = -1.0
                atexit.register(self._exit)  # before the recorder's, which is there now
            if not self._by_calls:
                self._ends.attach()
            if self._plan.spans:
                self._spans.attach(record_shapes=options.record_shapes)
            if self._recorder.state == "idle":  # it has ended meanwhile
                self._leave()
        return opened

    def _written(self, agreed: AgreedWindow) -> Callable[[WindowOutcome], None]:
        """A function to call, on another thread, when the trace is on disk."""
        window = self._window

        def written(outcome: WindowOutcome) -> None:
            window.add(outcome)
            files = list(filter(None, (outcome.path, outcome.meta, outcome.snapshot)))
            if self._withdrawn:
                remove_files(files)
                return
            if agreed.reason == "schedule" and outcome.path is None and _gave_way(outcome):
                self._left += 1  # the next step tries again
                self._gave_way()
                return
            self._note_of_open(outcome.first_step).unlink(missing_ok=True)
            note = {
                "rank": self.process.rank,
                "path": outcome.path,
                "problem": outcome.problem,
                "truncated": outcome.truncated,
                "first_step": outcome.first_step,
                "last_step": outcome.last_step,
                "missed": self._missed_by_now(),
            }
            self._tell_cost(ended=False)
            left = self._control / "written" / f"{self.process.name}.{outcome.first_step}"
            with contextlib.suppress(OSError):
                mailbox.leave(left, note)
            files.append(str(left))
            if self._by_calls and self._always is None:
                self._files += files
            self.watch.done(agreed.number, note)
            if self._always is not None and agreed.cause:
                self._kept.add(KeptWindow(outcome.first_step, agreed.took, tuple(files), agreed.cause))

        return written


@dataclass
class _WindowMark:
    """A window, for the history: from when it was opened, with its warm-up, until its trace was exported.

    Attributes:
        start, end: by `perf_counter_ns`; 0 where not known, or not wanted.
        before: steps that the run had before this process.
        reason: for which it was opened.
    """

    start: int = 0
    before: int = 0
    reason: str = ""
    end: int = 0

    def add(self, outcome: WindowOutcome) -> None:
        """Its trace is on disk, or lost."""
        if self.start and outcome.path is not None:
            name, end = Path(outcome.path).name, self.end or time.perf_counter_ns()
            marks.add("window", self.start, end, name, self.before + outcome.first_step, self.reason)


def _gave_way(outcome: WindowOutcome) -> bool:
    return others.PROBLEM in outcome.problem or others.STARTED in outcome.problem
