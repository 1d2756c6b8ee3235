"""Steps that are timed without a profiler, in a process that a trial has changed; then the program is ended.

The time of a step is from one end to the next: of the host by the clock of the system, and where there is a CUDA device
by events in its current stream, as the host runs ahead of it. At each end the process only notes the time and keeps the
losses that `backward` was called on; they are read when the last step has ended. A rank leaves one note:

    timed/RANK.PID   {rank, world, steps, losses, changes, ended, ...}, see `TimedSteps.note`

The program ends at the same step on all ranks, after a flush of what it printed, without its own clean-up: what that
would write is not wanted.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import resource
import signal
import socket
import sys
import threading
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch

from kinetoscope.record.always_on import mailbox
from kinetoscope.record.always_on.step_parts import parts
from kinetoscope.record.history.device_times import device_mark
from kinetoscope.record.output.guards import described, tell
from kinetoscope.record.session.child_config import TIMED, RecordPlan, TimingPlan
from kinetoscope.record.session.options import rank_identity
from kinetoscope.record.trials import by_name
from kinetoscope.record.trials.trial import Change

if TYPE_CHECKING:
    from collections.abc import Iterable

_LAST_STEPS: Final = 2
"""Steps that a recorded window may take to be over besides its own."""

_WAIT_SECONDS: Final = 60.0
"""Seconds that the end of the program is put off for a trace, and for the notes of the other ranks."""

_LET_GO_SECONDS: Final = 0.5
"""Seconds between the last rank's note and the end: gloo's threads may still send what the others wait for."""


class WindowRecorder(Protocol):
    """A recorder of a window after the timed steps; see `running`."""

    def boundary(self, entered: float) -> None:
        """A step has ended."""

    def called(self, module: torch.nn.Module | None) -> None:
        """A call that is a step begins."""

    def returned(self, module: torch.nn.Module | None) -> None:
        """It has ended."""


_changes: dict[str, Change] = {}
"""The changes of this process, by the names of their trials."""


def prepare(plan: RecordPlan) -> None:
    """Put the changes of a plan into this process; torch has just been imported, and nothing of the program ran.

    An error in a change ends the process: what would be measured is not what was asked for.
    """
    timing = plan.timing
    assert timing is not None
    try:
        _seed(timing.seed)
        if not timing.writes:
            from kinetoscope.record.trials import silent_writers

            silent_writers.attach()
        known = by_name(timing.extensions, wanted=(*timing.looks, *timing.changes))
        for name in (*timing.looks, *timing.changes):
            change = _changes[name] = Change(known[name], acts=name in timing.changes)
            change.trial.put_in(change)
        parts.losses = []
        parts.attach()
        _prepared[0] = time.perf_counter_ns()
    except Exception as error:  # noqa: BLE001 - a user's own trial may raise anything
        _leave(plan, {"problem": f"the change could not be made: {described(error)}"}, "failed")
        tell(f"the change could not be made: {described(error)}")
        os._exit(1)


def _seed(seed: int | None) -> None:
    if seed is None:
        return
    random.seed(seed)
    torch.manual_seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)


_prepared = [0]
"""When the program could begin, ns by the clock that times steps."""


class _NoWatch:
    """Nobody asks for a recording of a trial."""

    def signal(self) -> None:
        """SIGUSR2 has come."""

    def stop(self) -> None:
        """Stop."""


class TimedSteps:
    """The steps of a process, timed; then, if the plan says so, a recorded window; then the end of the program.

    Args:
        plan: of the run.
        timing: of it.
        record: makes what records the window, of `calls_before`.
        by_calls: calls of a module are the steps, not those of optimizers.
    """

    watch = _NoWatch()
    marks = False

    def __init__(
        self, plan: RecordPlan, timing: TimingPlan, record: Callable[..., WindowRecorder], *, by_calls: bool
    ) -> None:
        self._plan, self._timing, self._record, self._by_calls = plan, timing, record, by_calls
        here = rank_identity()
        self._name, self._rank, self._world = f"{here.rank}.{here.pid}", here.rank, here.world
        self._ends = array("q")
        self._marks: list[Any] = []
        self._losses: list[list[torch.Tensor]] = []
        self._recording: WindowRecorder | None = None
        self._left = plan.wait + plan.warmup + plan.active + _LAST_STEPS if timing.record else 0
        self._before = _Usage()
        self._after: _Usage | None = None
        self._is_over = False
        self._lock = threading.Lock()
        self._pid = os.getpid()
        atexit.register(self._program_ended)

    @property
    def idle(self) -> bool:
        """True if no window is open."""
        return self._recording is None

    def boundary(self, _: float) -> None:
        """A step has ended."""
        if self._recording is None:
            self._timed()
        else:
            self._recording.boundary(time.monotonic())
            self._one_less()

    def called(self, module: torch.nn.Module | None) -> None:
        """A call that begins a step is about to run, on whatever thread: a step is then what all of them take."""
        with self._lock:
            if self._recording is None:
                self._timed()
            else:
                self._one_less()
        if self._recording is not None:
            self._recording.called(module)

    def returned(self, module: torch.nn.Module | None) -> None:
        """A call that began a step has ended."""
        if self._recording is not None:
            self._recording.returned(module)

    def begin_timed(self) -> None:
        """No window of a fixed time is asked for."""

    def withdraw(self) -> None:
        """An optimizer steps after all: the calls before were no steps."""
        self._is_over = True
        atexit.unregister(self._program_ended)

    def abandon(self) -> None:
        """In a child process, which is not timed."""
        self._is_over = True

    def _timed(self) -> None:
        self._marks.append(device_mark())
        self._ends.append(time.perf_counter_ns())
        self._losses.append(parts.losses or [])
        parts.losses = []
        if len(self._ends) == 1:
            for change in _changes.values():
                change.first_step_ended()
            self._before = _Usage()
        elif len(self._ends) > self._timing.steps:
            self._after = _Usage()
            if self._left:
                self._recording = self._record(calls_before=0 if self._by_calls else None)
            else:
                self._end("steps")

    def _one_less(self) -> None:
        """All ranks take as many steps, whether a window was recorded or not: else one would wait for another."""
        self._left -= 1
        if not self._left:
            _until(lambda: any(mailbox.read_all(Path(self._plan.control) / "written", self._name)))
            self._end("steps")

    def _program_ended(self) -> None:
        """The program ends by itself."""
        if not self._is_over and os.getpid() == self._pid:
            self._is_over = True
            self._leave("program")

    def _end(self, ended: str) -> None:
        """Leave the note and end the process, once all ranks have come so far."""
        self._is_over = True
        self._leave(ended)
        if self._world > 1:
            notes = Path(self._plan.control) / TIMED
            _until(lambda: len({note.get("rank") for note in mailbox.read_all(notes).values()}) >= self._world)
            time.sleep(_LET_GO_SECONDS)
        end_process()

    def _device_ends(self) -> list[int]:
        """The ends by the device's clock, ns, of which the first is the host's; [] if not each has a mark."""
        if not self._marks or None in self._marks:
            return []
        with contextlib.suppress(Exception):  # a device that failed
            torch.cuda.synchronize()
            return [self._ends[0] + round(self._marks[0].elapsed_time(mark) * 1e6) for mark in self._marks]
        return []

    def _leave(self, ended: str) -> None:
        with contextlib.suppress(OSError):
            _leave(self._plan, self.note(ended), TIMED, self._name)

    def note(self, ended: str) -> dict[str, Any]:
        """The note for the driver: one of a rank.

        ended: "steps": after those that were asked for; "program": the program ended before. In the note: `ends`, ns by
        a clock of its own, at which steps ended; `first`, ns from the import of torch to the first of them; `losses`,
        of each step the values that `backward` was called on; `lacked`, ns in which the thread that steps could have
        run and had no core, and `processor`, ns of the whole process, both between the first and the last end;
        `samples` of a step, by the batch sizes of loaders, 0 where they say none; `memory`, the most of the process,
        and `device_memory`, of its device, bytes.
        """
        after = self._after or _Usage()
        return {
            "rank": self._rank,
            "world": self._world,
            "host": socket.gethostname(),
            "ended": ended,
            "ends": self._device_ends() or list(self._ends),
            "first": self._ends[0] - _prepared[0] if self._ends else 0,
            "losses": [[_number(each) for each in step] for step in self._losses],
            "lacked": after.lacked - self._before.lacked,
            "processor": after.processor - self._before.processor,
            "samples": (after.samples - self._before.samples) / max(len(self._ends) - 1, 1),
            "devices": _devices(),
            "torch": torch.__version__,
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
            "device_memory": _device_memory(),
            "by_calls": self._by_calls,
            "changes": {name: change.note() for name, change in _changes.items()},
        }


class _Usage:
    """Time of processors that this process, and the thread that asks, have had or lacked until now, ns."""

    def __init__(self) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self.processor = round((usage.ru_utime + usage.ru_stime) * 1e9)
        self.lacked, self.samples = 0, parts.samples
        with contextlib.suppress(OSError, ValueError, IndexError):
            self.lacked = int(Path("/proc/thread-self/schedstat").read_text("ascii").split()[1])


def _devices() -> list[str]:
    """Names of the CUDA or ROCm devices that this process may use."""
    with contextlib.suppress(Exception):  # a driver that fails
        return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return []


def _device_memory() -> int:
    """The most that torch's allocator had on the current CUDA device; 0 without one."""
    with contextlib.suppress(Exception):  # a device that failed
        if torch.cuda.is_initialized():
            return int(torch.cuda.max_memory_allocated())
    return 0


def _number(value: torch.Tensor) -> float | None:
    with contextlib.suppress(Exception):  # a fake one, or a device that failed
        return float(value)
    return None


def _until(done: Callable[[], bool]) -> None:
    last = time.monotonic() + _WAIT_SECONDS
    while not done() and time.monotonic() < last:
        time.sleep(0.02)


def _leave(plan: RecordPlan, note: dict[str, Any], folder: str, name: str = "") -> None:
    mailbox.leave(Path(plan.control) / folder / (name or str(os.getpid())), note)


def end_process() -> None:
    """End this process and its children now; what the program has printed is flushed, its clean-up does not run."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # closed, or of the program's own make
            stream.flush()
    for child in _children():
        with contextlib.suppress(OSError):
            os.kill(child, signal.SIGTERM)
    os._exit(0)


def _children() -> Iterable[int]:
    """Process numbers of the children that the program started by `multiprocessing`."""
    module = sys.modules.get("multiprocessing")
    return [each.pid for each in module.active_children() if each.pid] if module is not None else []
