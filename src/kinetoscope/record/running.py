"""What `kinetoscope record` does in each process that it started, from the moment that torch was imported.

There is one hook, on the steps of optimizers, until one of them steps; so data loaders, launchers and other helpers are
left alone, and each rank that trains records, however it was started. Whatever goes wrong here is said once, and the
program goes on without us.
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

from kinetoscope.record import ranks
from kinetoscope.record.always import Always
from kinetoscope.record.hooks import Rounds, Spans
from kinetoscope.record.idle import Watch, Who, Wish
from kinetoscope.record.options import Options
from kinetoscope.record.plan import Plan
from kinetoscope.record.recorder import Recorder
from kinetoscope.record.writing import Written

_current: Running | None = None


def begin(text: str) -> None:
    """Wait for the first step; `text` is a plan. Torch has just been imported."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    global _current  # noqa: PLW0603 - one for the process, for `forked` and the signal
    if _current is None:
        running = _current = Running(Plan.from_text(text))
        register_optimizer_step_post_hook(running.stepped)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=running.forked)
        running.listen()


class Running:
    """The recording of one process: counts its steps, and opens windows when it is time or someone asks."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._options = Options(**plan.options)
        self._forget()

    def _forget(self) -> None:
        self._rounds = Rounds()
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
        """In a child process: nothing of the parent's recording is this process's; it may train on its own."""
        self._forget()

    def stepped(self, optimizer: Any, *_: Any) -> None:
        """An optimizer has stepped."""
        if self._over or threading.get_ident() != (self._thread or threading.get_ident()):
            return
        try:
            if self._rounds.ended_by(optimizer):
                self._boundary()
        except Exception as error:  # noqa: BLE001 - a fault of ours must not be the program's
            self._over = True
            with contextlib.suppress(Exception):
                sys.stderr.write(f"kinetoscope: recording has ended in process {os.getpid()}: {error!r}\n")

    def _boundary(self) -> None:
        if self._job is None:
            if _is_loader():
                self._over = True
                return
            self._thread = threading.get_ident()
            self._job = _Job(self._plan, self._options)
            if self._signalled:
                self._job.watch.signal()
        self._job.boundary()


def _is_loader() -> bool:
    from torch.utils.data import get_worker_info

    return get_worker_info() is not None


class _Job:
    """The steps of a process that trains; one call of `boundary` for each that has ended."""

    def __init__(self, plan: Plan, options: Options) -> None:
        self._plan, self._options = plan, options
        self.who = Who(ranks.rank(), ranks.world(), os.getpid(), socket.gethostname())
        self._ended = 0
        self._last = time.monotonic()
        self._seconds = 0.0
        self._recorder = Recorder(plan.dir, options)
        self._spans = Spans()
        self._next = max(plan.wait, 1)
        self._left = plan.repeat or sys.maxsize
        self._always = Always.of(plan) if plan.every else None
        self.watch = Watch(self.who, run=plan.dir, control=Path(plan.control), clock=lambda: (self._ended, self._seconds))
        self.watch.start()

    def boundary(self) -> None:
        """A step has ended."""
        now = time.monotonic()
        took, self._last = now - self._last, now
        self._ended += 1
        busy = self._recorder.state != "idle"
        if busy:
            self._recorder.step(step=self._ended)
            if self._recorder.state == "idle":
                self._spans.detach()
        elif self._ended > 1:
            self._seconds = took if not self._seconds else 0.9 * self._seconds + 0.1 * took
        self._wishes()
        if self._plan.scheduled:
            self._schedule()
        elif self._always is not None:
            self._sample(took, busy=busy)
        self._last = time.monotonic() if busy else self._last

    def _schedule(self) -> None:
        plan = self._plan
        if self._left and self._ended >= self._next and self._open(plan.warmup, plan.active, "schedule", self._options):
            self._left -= 1
            self._next = self._ended + plan.warmup + plan.active + plan.wait

    def _sample(self, took: float, *, busy: bool) -> None:
        assert self._always is not None
        wish = self._always.after_step(self._ended, took, recorded=busy, now=time.monotonic())
        if wish and self.who.world > 1:
            if self.who.rank == 0:
                self.watch.ask(wish)
        elif wish:
            self._open(int(wish["warmup"]), int(wish["steps"]), str(wish["reason"]), self._options, self._always.written)

    def _wishes(self) -> None:
        wish = self.watch.wish
        if wish is None or (wish.step is not None and self._ended < wish.step):
            return
        self.watch.wish = None
        if wish.step is not None and self._ended > wish.step:
            problem = f"it was at step {self._ended} already when it read that all begin at step {wish.step}"
            self.watch.done(wish.number, {"problem": problem})
            return
        options = replace(self._options, **wish.options)
        if not self._open(wish.warmup, wish.active, "trigger", options, self._answer(wish)):
            self.watch.done(wish.number, {"problem": "it was recording already"})

    def _answer(self, wish: Wish) -> Callable[[Written], None]:
        def answer(written: Written) -> None:
            self.watch.done(
                wish.number,
                {
                    "path": written.path,
                    "problem": written.problem,
                    "truncated": written.truncated,
                    "first_step": written.first_step,
                    "last_step": written.last_step,
                },
            )

        return answer

    def _open(
        self,
        warmup: int,
        active: int,
        reason: str,
        options: Options,
        on_done: Callable[[Written], None] | None = None,
    ) -> bool:
        if self._recorder.state != "idle":
            return False
        if self._plan.spans:
            self._spans.attach(record_shapes=options.record_shapes)
        self._recorder.step(step=self._ended)
        opened = self._recorder.start_window(warmup, active, on_done, reason=reason, options=options)
        if not opened:
            self._spans.detach()
        return opened
