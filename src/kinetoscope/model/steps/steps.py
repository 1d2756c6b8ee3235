"""Steps: the iterations of the training loop, as the host and as the device sees them, and the samples of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, extents
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.execution.marks import is_step
from kinetoscope.model.execution.work_before import work_before
from kinetoscope.model.steps.proposed_steps import NumberedSteps, disjoint_steps, propose_steps, steps_named
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.recording import recording
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note

Origin = Literal["profiler", "annotation", "engine", "repetition", "window"]
"""profiler: `ProfilerStep#N`. annotation: one that the user named. engine: steps that a serving engine named.
repetition: proposed from a pattern that repeats. window: the whole window counts as one step."""

_PROFILER_STEP: Final = re.compile(r"ProfilerStep#(\d{1,18})")

_WARM_UP_RATIO: Final = 1.25
"""A leading step longer than this times the median step warms up: caches, allocator, autotuning."""

_EMPTY_STEP_RATIO: Final = 0.5
"""A last step without operators is empty if it is shorter than this times the median of the others."""


@dataclass(frozen=True)
class Steps:
    """The steps of a trace, in order of time.

    Attributes:
        number: int64 [steps], as in `ProfilerStep#N`; counted from 0 where nothing numbers them.
        host: when the host was in each step, ns.
        device: when the device was: from the later of the host's start and the end of the step before, to the later of
            the host's end and the last end of the device work launched in it (the TensorBoard plugin's formula).
        origin: the source of the steps.
        note: about that; None for steps of the profiler.
    """

    number: Int64s
    host: Intervals
    device: Intervals
    origin: Origin
    note: Note | None = None

    def __len__(self) -> int:
        return len(self.number)

    @property
    def length(self) -> Int64s:
        """The length of each step: that of the device step, ns: int64 [steps]."""
        return self.device.end - self.device.start


@derived
def steps(trace: Trace, steps_by: str | None = None) -> Steps:
    """The steps of a trace; `steps_by` names the annotation that is one, or begins the names of those that are."""
    work = device_work(trace)
    numbered = steps_named(trace, steps_by) if steps_by is not None else _profiler_steps(trace)
    origin: Origin = "annotation" if steps_by is not None else "profiler"
    note = None
    if numbered is None and steps_by is not None:
        note = Note("NO_SUCH_ANNOTATION", f"No annotation is called {steps_by!r}, nor begins with that.")
        numbered = _profiler_steps(trace)
        origin = "profiler"
    if numbered is None:
        numbered, origin, basis = propose_steps(trace, work)
        note = basis if note is None else note.reworded(f"{note} {basis}")
    number, host = numbered
    return Steps(number, host, device_steps(trace, work, host, marked=origin != "window"), origin, note)


def after_warm_up(every: Steps) -> Int64s:
    """Places of all steps but the leading ones that are longer than 1.25 times the median device step.

    At least half of the steps stay: a job that only gets faster has no steady state.
    """
    duration = every.length
    if not len(duration):
        return np.arange(0)
    as_usual = np.flatnonzero(duration <= _WARM_UP_RATIO * np.median(duration))
    return np.arange(min(int(as_usual[0]), len(duration) // 2), len(duration))


@derived
def is_last_empty(trace: Trace, steps_by: str | None = None) -> bool:
    """True if the last step is short and without operators, unlike others.

    A loop that calls `prof.step()` after the last iteration too has such a step, which ends as the profiler stops.
    """
    every = steps(trace, steps_by)
    length = every.host.end - every.host.start
    if len(every) < 2 or length[-1] >= _EMPTY_STEP_RATIO * np.median(length[:-1]):
        return False
    ops = (trace.kind == EventKind.HOST_OP) & ~is_step(trace)
    place = step_of(every.host, trace.start[ops])
    return bool((place >= 0).any() and place.max() < len(every) - 1)


def is_delayed(trace: Trace, every: Steps) -> bool:
    """True if work from before the recording delays the first step on the device."""
    before = work_before(trace)
    return bool(len(before.device)) and bool((every.device.start[:1] == before.end).any())


def step_of(windows: Intervals, time: Int64s) -> Int64s:
    """The window that each time lies in, of windows that are disjoint and in order: int64, −1 for none."""
    if not len(windows.start):
        return np.full(len(time), -1, np.int64)
    index = np.searchsorted(windows.start, time, side="right") - 1
    return np.where((index >= 0) & (time < windows.end[np.maximum(index, 0)]), index, -1)


def step_of_work(trace: Trace, work: DeviceWork, every: Steps) -> Int64s:
    """Place of the step of each piece of device work: int64 [work], −1 for none.

    It is the host step that contains its launch. Work whose launch was not recorded belongs to the device step that
    contains its start: so what was launched before the recording is in no step, as its time is.
    """
    linked = work.launch >= 0
    step = step_of(every.device, work.start)
    step[linked] = step_of(every.host, trace.start[work.launch[linked]])
    return step


def device_steps(trace: Trace, work: DeviceWork, host: Intervals, *, marked: bool = True) -> Intervals:
    """The plugin's formula; see `Steps.device`.

    Work that was launched in no step and is over when the first step's own work begins delays the first step: the
    device was still busy with what came before. So does work from before the recording (`work_before`). Where no steps
    are `marked`, the window is all that was recorded, and work whose launch is missing is part of it.
    """
    step = np.where(work.launch >= 0, step_of(host, trace.start[work.launch]), -1)
    inside = step >= 0
    start, end = host.start.copy(), np.maximum(host.end, extents(step, len(host.start), work.start, work.end).end)
    if not len(start):
        return Intervals(start, end)
    if marked and (step == 0).any():
        before = work.end[~inside & (work.end <= work.start[step == 0].min())]
        start[0] = max(int(start[0]), int(before.max(initial=start[0])))
    start[0] = max(int(start[0]), work_before(trace).end)
    end[0] = max(int(end[0]), int(start[0]))
    for step_number in range(1, len(start)):
        start[step_number] = max(start[step_number], end[step_number - 1])
        end[step_number] = max(end[step_number], start[step_number])
    return Intervals(start, end)


def _profiler_steps(trace: Trace) -> NumberedSteps | None:
    rows = np.flatnonzero(is_step(trace))
    numbers = {}
    for code in np.unique(trace.name[rows]).tolist():
        match = _PROFILER_STEP.fullmatch(trace.strings.label(code))
        if match:
            numbers[code] = int(match.group(1))
    known = recording(trace)
    last = np.inf  # where a recording ended in the midst of a step, the range of that step is cut off
    if known is not None and known.last_step is not None:
        last = known.last_step
    codes = [code for code, number in numbers.items() if number <= last] or list(numbers)
    rows = rows[np.isin(trace.name[rows], codes)]
    if not len(rows):
        return None
    return disjoint_steps(trace, rows, np.array([numbers[int(code)] for code in trace.name[rows]], np.int64))


# --- samples, where the training loop gave them


@dataclass(frozen=True, slots=True)
class Throughput:
    """Samples of this rank, and the device steps that they took.

    Attributes:
        samples: of all these steps.
        steps: number of steps that have samples and take time.
        duration: of these steps together, ns.
    """

    samples: int
    steps: int
    duration: int

    @property
    def rate(self) -> float:
        """Samples per second."""
        return self.samples * 1e9 / self.duration


@derived
def throughput(trace: Trace) -> Throughput | None:
    """Samples and time of the steps that the profiler marked and the recorder counted; None where there are none."""
    known_run = recording(trace)
    every = steps(trace, None)
    if known_run is None or every.origin != "profiler" or not known_run.samples:
        return None
    samples = [known_run.samples.get(number) for number in every.number.tolist()]
    duration = every.device.end - every.device.start
    counted = np.array([each is not None for each in samples], bool) & (duration > 0)
    if not counted.any():
        return None
    total = sum(each or 0 for each, counts in zip(samples, counted.tolist(), strict=True) if counts)
    return Throughput(total, int(np.count_nonzero(counted)), int(duration[counted].sum()))
