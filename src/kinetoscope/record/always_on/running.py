"""The part of `kinetoscope record` in each process that it started, from the moment that torch was imported.

There is one hook, on the steps of optimizers, until one of them steps; so data loaders, launchers and other helpers are
left alone, and each rank that trains records, however it was started. An error here is printed once, and the program
goes on without us.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kinetoscope.record.always_on import mailbox
from kinetoscope.record.always_on.always import KeptWindow, KeptWindows, SamplingSchedule
from kinetoscope.record.always_on.hooks import OptimizerRounds, PassSpans, StepEnds
from kinetoscope.record.always_on.idle import AgreedWindow, RankProcess, RequestWatch
from kinetoscope.record.output.guards import described, harmless, tell
from kinetoscope.record.output.writing import WindowOutcome
from kinetoscope.record.session import forks, others
from kinetoscope.record.session.child_config import Plan
from kinetoscope.record.session.options import RecordOptions, rank_identity
from kinetoscope.record.session.recorder import Recorder

_current: ProcessRecording | None = None


def begin(text: str) -> None:
    """Wait for the first step; `text` is a plan. Torch has just been imported."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    global _current  # noqa: PLW0603 - one for the process, for `forked` and the signal
    if _current is None:
        others.watch()
        running = _current = ProcessRecording(Plan.from_text(text))
        running.hook = register_optimizer_step_post_hook(running.stepped)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=running.forked)
        running.listen()


class ProcessRecording:
    """The recording of one process: counts its steps, and opens windows when it is time or someone asks.

    Attributes:
        hook: its place among the hooks of optimizers.
    """

    def __init__(self, plan: Plan) -> None:
        self.hook: Any = None
        self._plan = plan
        self._options = RecordOptions(**plan.options)
        self._forget()

    def _forget(self) -> None:
        self._rounds = OptimizerRounds()
        self._job: _Job | None = None
        self._thread = 0
        self._signalled = False
        self._over = False

    def listen(self) -> None:
        """Let SIGUSR2 ask for a recording, unless it means something to the program."""
        if not self._plan.signal or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL:
            signal.signal(signal.SIGUSR2, self._on_signal)

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
        self._forget()
        if forks.armed():
            self._over = True
            if self.hook is not None:
                self.hook.remove()
            if signal.getsignal(signal.SIGUSR2) == self._on_signal:
                signal.signal(signal.SIGUSR2, signal.SIG_DFL)

    def stepped(self, optimizer: Any, *_: Any) -> None:
        """An optimizer has stepped."""
        if self._over or threading.get_ident() != (self._thread or threading.get_ident()):
            return
        try:
            if self._rounds.ended_by(optimizer):
                self._boundary()
        except Exception as error:  # noqa: BLE001 - a fault of ours must not be the program's
            self._over = True
            tell(f"recording has ended in process {os.getpid()}: {described(error)}")

    def _boundary(self) -> None:
        if self._job is None:
            from torch.utils.data import get_worker_info

            if get_worker_info() is not None:  # a worker of a data loader
                self._over = True
                return
            self._thread = threading.get_ident()
            self._job = _Job(self._plan, self._options)
            if self._signalled:
                self._job.watch.signal()
        self._job.boundary()


class _Job:
    """The steps of a process that trains; one call of `boundary` for each that has ended."""

    def __init__(self, plan: Plan, options: RecordOptions) -> None:
        self._plan, self._options = plan, options
        self._control = Path(plan.control)
        here = rank_identity()
        self.process = RankProcess(here.rank, here.world, here.pid, socket.gethostname())
        self._ended = 0
        self._last = time.monotonic()
        self._seconds = 0.0
        self._recorder = Recorder(plan.dir, options, say=None if here.rank == 0 else lambda _: None)
        self._yielded = self._told_open = False
        self._spans = PassSpans(self._recorder.poll)
        self._ends = StepEnds()
        self._next = max(plan.wait, 1)
        self._left = plan.repeat or sys.maxsize
        self._always = SamplingSchedule(plan.every, plan.budget, plan.warmup, plan.active) if plan.every else None
        self._kept = KeptWindows(self._control, plan.keep, leads=self.process.rank == 0)
        self.watch = RequestWatch(
            self.process, run=plan.dir, control=self._control, clock=lambda: (self._ended, self._seconds)
        )
        self.watch.start()

    def boundary(self) -> None:
        """A step has ended; torch still has the mark of the optimizer's step open."""
        self._ends.put_off(self._boundary)

    @harmless(None)
    def _boundary(self) -> None:
        took = time.monotonic() - self._last
        self._ended += 1
        recorded = self._recorder.state != "idle"
        if recorded:
            self._recorder.step(step=self._ended)
            took = time.monotonic() - self._last  # with what the recorder did
        elif self._ended > 1:
            self._seconds = 0.9 * self._seconds + 0.1 * took if self._seconds else took
        if self._ends.attached and self._recorder.state == "idle":
            self._leave()
        if self.watch.agreed is not None:
            self._take(self.watch.agreed)
        elif self._plan.scheduled:
            self._schedule()
        elif self._always is not None:
            self._sample(self._always, took, recorded=recorded)
        self._tell_open()
        self._last = time.monotonic()

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
            self._gave_way()
        elif not self._recorder.full:
            self._left -= 1
            self._next = self._ended + plan.warmup + plan.active + plan.wait
            self._open(AgreedWindow("", None, plan.active, plan.warmup, reason="schedule"))

    def _tell_open(self) -> None:
        """Should the process be killed now, it is known that a window was there."""
        records = self._recorder.state == "recording"
        if records and not self._told_open:
            with contextlib.suppress(OSError):
                mailbox.leave(self._note_of_open, {"step": self._ended})
        self._told_open = records

    @property
    def _note_of_open(self) -> Path:
        """The note that a window is open: from its first recorded step until its outcome is known."""
        return self._control / "open" / self.process.name

    def _gave_way(self) -> None:
        """A window was due while a profiler of the program was at work."""
        if not self._yielded:
            self._yielded = True
            with contextlib.suppress(OSError):
                mailbox.leave(self._control / "yielded" / self.process.name, {"step": self._ended})

    def _sample(self, always: SamplingSchedule, took: float, *, recorded: bool) -> None:
        costs = recorded or self._recorder.writing > 0
        reason = always.after_step(self._ended, took, recorded=costs, now=time.monotonic())
        if not reason:
            return
        if self.process.world <= 1:
            began = time.monotonic()
            self._open(AgreedWindow("", None, always.active, always.warmup, reason=reason, took=took))
            always.charge(time.monotonic() - began)
        elif self.process.rank == 0:
            request = {"steps": always.active, "warmup": always.warmup, "reason": reason, "took": took}
            self.watch.ask(request)

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
        self._recorder.step(step=self._ended)
        opened = self._recorder.start_window(
            agreed.warmup,
            agreed.active,
            self._written(agreed),
            reason=agreed.reason,
            options=options,
            on_end=self._leave,
        )
        if opened:
            self._ends.attach()
            if self._plan.spans:
                self._spans.attach(record_shapes=options.record_shapes)
            if self._recorder.state == "idle":  # it has ended meanwhile
                self._leave()
        return opened

    def _written(self, agreed: AgreedWindow) -> Callable[[WindowOutcome], None]:
        """A function to call, on another thread, when the trace is on disk."""

        def written(outcome: WindowOutcome) -> None:
            if agreed.reason == "schedule" and outcome.path is None and _gave_way(outcome):
                self._left += 1  # the next step tries again
                self._gave_way()
                return
            self._note_of_open.unlink(missing_ok=True)
            note = {
                "rank": self.process.rank,
                "path": outcome.path,
                "problem": outcome.problem,
                "truncated": outcome.truncated,
                "first_step": outcome.first_step,
                "last_step": outcome.last_step,
                "cost": None if self._always is None else self._always.cost(time.monotonic()),
            }
            left = self._control / "written" / f"{self.process.name}.{outcome.first_step}"
            with contextlib.suppress(OSError):
                mailbox.leave(left, note)
            self.watch.done(agreed.number, note)
            if self._always is not None and agreed.reason in ("every", "slow step"):
                files = tuple(filter(None, (outcome.path, outcome.meta, str(left))))
                self._kept.add(KeptWindow(outcome.first_step, agreed.took, files))

        return written


def _gave_way(outcome: WindowOutcome) -> bool:
    return others.PROBLEM in outcome.problem or others.STARTED in outcome.problem
