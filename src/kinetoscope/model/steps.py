"""Steps: the iterations of the training loop, as the host and as the device sees them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.intervals import Intervals
from kinetoscope.algorithms.membership import any_of
from kinetoscope.model.calltree import STEP, call_tree
from kinetoscope.model.device import DeviceWork, device_work
from kinetoscope.model.kinds import EventKind
from kinetoscope.model.naming import rows_named
from kinetoscope.model.recording import recording
from kinetoscope.model.trace import Trace
from kinetoscope.model.work_before import work_before

Origin = Literal["profiler", "annotation", "repetition", "window"]
"""profiler: `ProfilerStep#N`. annotation: one that the user named. repetition: proposed from what repeats. window: the
whole window is one step."""

MARKS: Final = (EventKind.ANNOTATION, EventKind.HOST_OP)
"""What a marked range is: an annotation; in files of 2021 an operator."""

_PARTS: Final = ("enumerate(Data", "Optimizer.", "nccl:", "gloo:")
"""How the names of annotations begin that are parts of a step, never a step."""

_PROFILER_STEP: Final = re.compile(r"ProfilerStep#(\d{1,18})")
_DIGITS: Final = re.compile(r"\d+")
_FEWEST: Final = 3
"""Repetitions from which a pattern is proposed as the step."""

_LAUNCHES: Final = 100
"""Launches that a repeated sequence must have to be proposed: shorter ones are layers of a model."""

_ALIKE: Final = 0.8
"""Share of the sequences of launches that must be equal to the letter."""

STEADY: Final = "steady"
"""All steps but those of the warm-up, where step numbers are asked for."""

_WARM: Final = 1.25
"""A leading step that is this many times longer than the median step warms up: caches, allocator, autotuning."""

_STUB: Final = 0.5
"""Share of the usual step under which a last step without operators is empty."""

_COVERAGE: Final = 0.6
"""Share of the window that a repeated annotation must cover to be proposed."""


@dataclass(frozen=True)
class Steps:
    """The steps of a trace, in order of time.

    Attributes:
        number: int64 [steps], as in `ProfilerStep#N`; counted from 0 where nothing numbers them.
        host: when the host was in each step, ns.
        device: when the device was: from the later of the host's start and the end of the step before, to the later of
            the host's end and the last end of the device work launched in it (the TensorBoard plugin's formula).
        origin: what they rest on.
        note: what must be said about that; "" if nothing.
    """

    number: NDArray[np.int64]
    host: Intervals
    device: Intervals
    origin: Origin
    note: str = ""

    def __len__(self) -> int:
        return len(self.number)


def steps(trace: Trace, steps_by: str | None = None) -> Steps:
    """The steps of a trace; `steps_by` names the annotation that is one, or begins the names of those that are."""
    work = trace.of(device_work)
    found = _named(trace, steps_by) if steps_by is not None else _profiler_steps(trace)
    origin: Origin = "annotation" if steps_by is not None else "profiler"
    notes = []
    if found is None and steps_by is not None:
        notes.append(f"No annotation is called {steps_by!r}, nor begins with that.")
        found = _profiler_steps(trace)
        origin = "profiler"
    if found is None:
        found, said = _proposed(trace, work)
        notes.append(said)
        origin = "repetition" if len(found[0]) > 1 else "window"
    number, host = found
    return Steps(number, host, device_steps(trace, work, host), origin, " ".join(notes))


def steady(found: Steps) -> NDArray[np.int64]:
    """Places of all steps but the leading ones that are longer than 1.25 times the median device step.

    At least half of the steps stay: a job that only gets faster has no steady state, and losing most of it says less.
    """
    duration = found.device.end - found.device.start
    if not len(duration):
        return np.arange(0)
    settled = np.flatnonzero(duration <= _WARM * np.median(duration))
    return np.arange(min(int(settled[0]), len(duration) // 2), len(duration))


def is_last_empty(trace: Trace, steps_by: str | None = None) -> bool:
    """Is the last step short, and does no operator begin in it, though some do in others?

    Whoever calls `prof.step()` after the last iteration, too, has one step more, which ends as the profiler stops. Ask
    by `trace.of`.
    """
    found = trace.of(steps, steps_by)
    length = found.host.end - found.host.start
    if len(found) < 2 or length[-1] >= _STUB * np.median(length[:-1]):
        return False
    ops = trace.kind == EventKind.HOST_OP
    ops &= ~rows_named(trace, lambda name: name.startswith(STEP), EventKind.HOST_OP, holding=(STEP,))
    place = step_of(found.host, trace.start[ops])
    return bool((place >= 0).any() and place.max() < len(found) - 1)


def is_delayed(trace: Trace, found: Steps) -> bool:
    """Does the first step begin later on the device because of work from before the recording?"""
    before = trace.of(work_before)
    return bool(len(before.device)) and bool((found.device.start[:1] == before.end).any())


def step_of(windows: Intervals, time: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which window (they are disjoint and in order) each time lies in: int64, −1 for none."""
    if not len(windows.start):
        return np.full(len(time), -1, np.int64)
    index = np.searchsorted(windows.start, time, side="right") - 1
    return np.where((index >= 0) & (time < windows.end[np.maximum(index, 0)]), index, -1)


def device_steps(trace: Trace, work: DeviceWork, host: Intervals) -> Intervals:
    """The plugin's formula; see `Steps.device`.

    Work that was launched in no step and is over when the first step's own work begins delays the first step: the
    device was still busy with what came before. So does work from before the recording (`work_before`).
    """
    step = np.where(work.launch >= 0, step_of(host, trace.start[work.launch]), -1)
    inside = step >= 0
    last = np.full(len(host.start), np.iinfo(np.int64).min)
    np.maximum.at(last, step[inside], work.end[inside])
    start, end = host.start.copy(), np.maximum(host.end, last)
    if not len(start):
        return Intervals(start, end)
    if (step == 0).any():
        before = work.end[~inside & (work.end <= work.start[step == 0].min())]
        start[0] = max(int(start[0]), int(before.max(initial=start[0])))
    start[0] = max(int(start[0]), trace.of(work_before).end)
    end[0] = max(int(end[0]), int(start[0]))
    for step_number in range(1, len(start)):
        start[step_number] = max(start[step_number], end[step_number - 1])
        end[step_number] = max(end[step_number], start[step_number])
    return Intervals(start, end)


Found = tuple[NDArray[np.int64], Intervals]


def _disjoint(trace: Trace, rows: NDArray[np.int64], numbers: NDArray[np.int64]) -> Found:
    """Rows in order of time, without those that begin inside the one before (another thread's, or nested)."""
    order = np.lexsort((-trace.end[rows], trace.start[rows]))
    kept: list[int] = []
    until = None
    for place in order.tolist():
        row = rows[place]
        if until is None or trace.start[row] >= until:
            kept.append(place)
            until = max(int(trace.end[row]), int(trace.start[row]))
    chosen = rows[kept]
    return numbers[kept], Intervals(trace.start[chosen], np.maximum(trace.end[chosen], trace.start[chosen]))


def _profiler_steps(trace: Trace) -> Found | None:
    rows = np.flatnonzero(rows_named(trace, lambda name: name.startswith(STEP), *MARKS, holding=(STEP,)))
    numbers = {}
    for code in np.unique(trace.name[rows]).tolist():
        match = _PROFILER_STEP.fullmatch(trace.strings.label(code))
        if match:
            numbers[code] = int(match.group(1))
    codes = [code for code, number in numbers.items() if number <= _last_whole(trace)] or list(numbers)
    rows = rows[np.isin(trace.name[rows], codes)]
    if not len(rows):
        return None
    return _disjoint(trace, rows, np.array([numbers[int(code)] for code in trace.name[rows]], np.int64))


def _last_whole(trace: Trace) -> int:
    """The last step that our recorder saw end: where it was ended early, the mark of the next is cut off."""
    known = trace.of(recording)
    if known is None or not known.truncated or known.last_step is None:
        return int(np.iinfo(np.int64).max)
    return known.last_step


def _named(trace: Trace, name: str) -> Found | None:
    rows = np.flatnonzero(any_of(trace.kind, MARKS))
    codes = np.unique(trace.name[rows]).tolist()
    same = [code for code in codes if trace.strings.label(code) == name]
    same = same or [code for code in codes if trace.strings.label(code).startswith(name)]
    rows = rows[np.isin(trace.name[rows], same)]
    if not len(rows):
        return None
    _, host = _disjoint(trace, rows, np.arange(len(rows)))
    return np.arange(len(host.start), dtype=np.int64), host


# --- nobody marked any

Proposal = tuple[Intervals, str]
"""When the host would be in each step, and what that rests on."""


def _proposed(trace: Trace, work: DeviceWork) -> tuple[Found, str]:
    window = host_window(trace, work)
    proposal = (
        _repeated_annotation(trace, window) or _optimizer_boundaries(trace, window) or _repeated_kernels(trace, work)
    )
    if proposal is not None:
        host, why = proposal
        number = np.arange(len(host.start), dtype=np.int64)
        return (number, host), f"No steps were marked; {len(number)} are proposed from {why}."
    one = Intervals(np.array([window[0]], np.int64), np.array([window[1]], np.int64))
    return (np.zeros(1, np.int64), one), "No steps were marked and none could be told: the whole window is one step."


def host_window(trace: Trace, work: DeviceWork) -> tuple[int, int]:
    """From the first to the last instant of host calls; of device work where there are none."""
    rows = trace.of(call_tree).order
    if len(rows):
        return int(trace.start[rows].min()), int(trace.end[rows].max())
    return (int(work.start.min()), int(work.end.max())) if len(work) else (0, 0)


def _repeated_annotation(trace: Trace, window: tuple[int, int]) -> Proposal | None:
    """Steps are the annotation that covers most of the window, if that is enough; names may differ in numbers."""
    rows = np.flatnonzero((trace.kind == EventKind.ANNOTATION) & (trace.of(call_tree).depth >= 0))
    families: dict[str, list[int]] = {}
    for code in np.unique(trace.name[rows]).tolist():
        name = trace.strings.label(code)
        if not name.startswith(_PARTS):
            families.setdefault(_DIGITS.sub("#", name), []).append(code)
    best: tuple[int, Intervals, str] | None = None
    for family, codes in families.items():
        chosen = rows[np.isin(trace.name[rows], codes)]
        _, host = _disjoint(trace, chosen, np.zeros(len(chosen), np.int64))
        covered = int((host.end - host.start).sum())
        enough = len(host.start) >= _FEWEST and covered >= _COVERAGE * (window[1] - window[0])
        if enough and (best is None or covered > best[0]):
            best = covered, host, family
    return (best[1], f"the annotation {best[2]!r}") if best else None


def _optimizer_boundaries(trace: Trace, window: tuple[int, int]) -> Proposal | None:
    """Steps end where the optimizer's do."""
    rows = np.flatnonzero(
        rows_named(trace, lambda name: name.startswith("Optimizer.step"), *MARKS, holding=("Optimizer.step",))
    )
    codes, counts = np.unique(trace.name[rows], return_counts=True)
    codes, counts = codes[counts >= _FEWEST], counts[counts >= _FEWEST]
    if not len(codes):
        return None
    # Of several optimizers the one that steps least often: the others may step several times in an iteration.
    rows = rows[trace.name[rows] == codes[counts.argmin()]]
    _, host = _disjoint(trace, rows, np.zeros(len(rows), np.int64))
    start = np.concatenate([[min(window[0], int(host.start[0]))], host.end[:-1]]).astype(np.int64)
    return Intervals(start, host.end.copy()), "the ends of Optimizer.step"


def _repeated_kernels(trace: Trace, work: DeviceWork) -> Proposal | None:
    """Steps between the launches of a kernel that divides the launches into equal sequences of names."""
    launched = np.flatnonzero(work.launch >= 0)
    launched = launched[np.argsort(trace.start[work.launch[launched]], kind="stable")]
    names = trace.name[work.rows[launched]]
    codes, counts = np.unique(names, return_counts=True)
    for count, code in sorted(zip(counts.tolist(), codes.tolist(), strict=True)):
        if count < _FEWEST:
            continue
        if (count - 1) * _LAUNCHES > len(names):  # from here on the sequences are too short to be steps
            break
        places = np.flatnonzero(names == code)
        sequences = [names[a:b].tobytes() for a, b in pairwise(places.tolist())]
        most = max(Counter(sequences).values())
        times = trace.start[work.launch[launched[places]]]
        apart = bool((np.diff(times) > 0).all())  # not several times in one graph
        if apart and most >= _ALIKE * len(sequences) and places[-1] - places[0] >= _COVERAGE * len(names):
            return Intervals(times[:-1], times[1:]), "a sequence of kernel launches that repeats"
    return None
