"""What a Selection leaves of a trace: which host events, which device work, which steps, which window of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s, any_of
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.errors import UsageError
from kinetoscope.model.execution import work_before
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.execution.marks import RANGE_KINDS
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import STEADY, Steps, is_delayed, is_last_empty, steady, step_of, steps
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import HOST_KINDS, EventKind
from kinetoscope.model.trace.text import listed
from kinetoscope.model.trace.trace import Trace

_ETERNITY: Final = 1 << 61
"""No time is beyond this, ns, so that lengths fit into 64 bits."""


@dataclass(frozen=True)
class Scope:
    """A trace seen through a Selection.

    Attributes:
        steps: the steps selected, those that reach into the range of time; their intervals are not clipped.
        places: int64 [steps], which of all steps of the trace they are.
        host: bool [events], events selected; with a range of time those that start in it: what is counted.
        host_any_time: bool [events], the same whatever the range of time: what is measured, by `clipped`.
        work: bool [work], device work selected, aligned with `device_work(trace)`; what runs in the range of time.
        running: bool [work], the same whatever step it was launched in: what can run in the devices' time of the steps.
        clip: the range of time to which intervals are clipped, ns, or None.
        notes: what must be said about the selection.
    """

    trace: Trace
    select: Selection
    steps: Steps
    places: Int64s
    host: Bools
    host_any_time: Bools
    work: Bools
    running: Bools
    clip: tuple[int, int] | None
    notes: tuple[str, ...]

    @property
    def warm_up(self) -> tuple[str, ...]:
        """What to say of an answer over everything: that steps of the warm-up are in it, and how they are left out."""
        if self.select.steps is not None or self.select.time is not None or self.steps.origin == "window":
            return ()
        steady = steady_places(self.trace, self.select.steps_by)
        first = self.steps.number[: int(steady[0])].tolist() if len(steady) else []
        if not first:
            return ()
        which = (
            f"Step {first[0]} warms up and counts" if len(first) == 1 else f"Steps {listed(first)} warm up and count"
        )
        return (f"{which} here; --steps steady leaves the warm-up out.",)

    @property
    def device_work(self) -> DeviceWork:
        """All device work of the trace; `work` says which of it is selected."""
        return device_work(self.trace)

    def clipped(self, start: Int64s, end: Int64s) -> Intervals:
        """Intervals cut to the selected range of time; those outside become empty."""
        if self.clip is None:
            return Intervals(start, end)
        low, high = self.clip
        return Intervals(np.clip(start, low, high), np.clip(end, low, high))


@derived
def origin_of_time(trace: Trace) -> int:
    """Where a trace's clock is shown to begin, ns: the first instant of anything but names and the recording's span."""
    shown = ~any_of(trace.kind, (EventKind.METADATA, EventKind.SPAN, EventKind.OTHER))
    return int(trace.start[shown].min()) if shown.any() else 0


def scope(trace: Trace, select: Selection) -> Scope:
    """Apply a selection to a trace.

    Raises:
        UsageError: a step, device, stream, thread or annotation was asked for that the trace does not have, or a range
            of time that ends before it starts.
    """
    found = steps(trace, select.steps_by)
    work = device_work(trace)
    places = np.arange(len(found))
    if select.steps is not None:
        places = _chosen_steps(trace, select.steps, select.steps_by)
    chosen = _of_steps(found, places)
    host = np.ones(len(trace), np.bool_)
    taken = np.ones(len(work), np.bool_)
    running = np.ones(len(work), np.bool_)
    for place in _places(trace, select, chosen):
        # Device work is where it was launched. If that was not recorded, it has a step, by its own start, and no more.
        host &= place.events
        there = np.where(work.launch >= 0, place.events[work.launch], place.events[work.rows] & place.is_step)
        taken &= there
        if not place.is_step:
            running &= there
    if select.devices is not None:
        running &= np.isin(work.device, _there("device", select.devices, work.device))
    if select.streams is not None:
        running &= np.isin(work.stream, _there("stream", select.streams, work.stream))
    taken &= running
    notes = [found.note] if found.note else []
    if is_delayed(trace, found) and 0 in places:
        notes += work_before.said(trace)
    if select.steps == STEADY and len(places):
        notes += _left_out(found, places)
    if select.annotation is not None or select.threads is not None:
        notes += _unlinked(work)
    clip = _range_of_time(trace, select)
    in_time = host
    if clip is not None:
        in_time = host & (trace.start >= clip[0]) & (trace.start < clip[1])
        running &= (work.start < clip[1]) & (work.end > clip[0])
        taken &= running
        places = places[(chosen.device.start < clip[1]) & (chosen.device.end > clip[0])]
    return Scope(trace, select, _of_steps(found, places), places, in_time, host, taken, running, clip, tuple(notes))


@derived
def steady_places(trace: Trace, steps_by: str | None = None) -> Int64s:
    """Which of all steps are steady: without those of the warm-up, and without an empty last one."""
    found = steps(trace, steps_by)
    full = len(found) - is_last_empty(trace, steps_by)
    return steady(_of_steps(found, np.arange(full)))


def whole(view: Scope) -> Scope:
    """The same selection without its range of time: for what belongs to selected calls, whenever it ran."""
    return view if view.select.time is None else scope(view.trace, replace(view.select, time=None))


@dataclass(frozen=True)
class _Place:
    """Where to look: events, and whether it is steps, where work without a recorded launch is by its own start."""

    events: Bools
    is_step: bool


def _places(trace: Trace, select: Selection, chosen: Steps) -> Iterator[_Place]:
    if select.steps is not None:
        yield _Place(step_of(chosen.host, trace.start) >= 0, True)
    if select.annotation is not None:
        yield _Place(_inside_annotation(trace, select.annotation), False)
    if select.threads is not None:
        tids = trace.tracks.integer_tids()
        host = np.unique(trace.track[any_of(trace.kind, HOST_KINDS)])
        yield _Place(np.isin(tids, _there("thread", select.threads, tids[host]))[trace.track], False)


def _range_of_time(trace: Trace, select: Selection) -> tuple[int, int] | None:
    if select.time is None:
        return None
    low, high = select.time
    if low > high:
        raise UsageError(f"the range of time from {low} to {high} ns ends before it starts; give start and end")
    origin = origin_of_time(trace)
    return max(origin + low, -_ETERNITY), min(origin + high, _ETERNITY)


def _left_out(found: Steps, places: Int64s) -> Iterator[str]:
    for which, why in ((found.number[: places[0]], "as warm-up"), (found.number[places[-1] + 1 :], "as empty")):
        if len(which):
            yield f"Left out {why}: step{'s' if len(which) > 1 else ''} {listed(which.tolist())}."


def _chosen_steps(trace: Trace, wanted: tuple[int, ...] | range | str, steps_by: str | None) -> Int64s:
    """Places of the steps that are wanted."""
    found = steps(trace, steps_by)
    if isinstance(wanted, str):
        if wanted != STEADY:
            raise UsageError(f"steps are numbers, a range of them, or {STEADY!r}; not {wanted!r}")
        return steady_places(trace, steps_by)
    if isinstance(wanted, range):
        inside = [number for number in found.number.tolist() if number in wanted]
        if not inside:
            have = listed(found.number.tolist()) or "none"
            raise UsageError(f"no step from {wanted.start} on in this trace; it has {have}")
        return np.flatnonzero(np.isin(found.number, inside))
    numbers = tuple(_from_the_end(step, found) for step in wanted)
    return np.flatnonzero(np.isin(found.number, _there("step", numbers, found.number)))


def _from_the_end(step: int, found: Steps) -> int:
    """The number of a step: −1 is the last one, −2 the one before."""
    return int(found.number[step]) if -len(found) <= step < 0 else step


def _there(what: str, wanted: tuple[int, ...], have: Int64s) -> tuple[int, ...]:
    """`wanted`, if at least one of them is there."""
    if not np.isin(wanted, have).any():
        raise UsageError(f"no {what} {listed(wanted)} in this trace; it has {listed(have.tolist()) or 'none'}")
    return wanted


def _unlinked(work: DeviceWork) -> list[str]:
    count = int((work.launch < 0).sum())
    return [f"{count} of {len(work)} pieces of device work have no recorded launch and are left out."] if count else []


def _of_steps(found: Steps, places: Int64s) -> Steps:
    def of(intervals: Intervals) -> Intervals:
        return Intervals(intervals.start[places], intervals.end[places])

    return replace(found, number=found.number[places], host=of(found.host), device=of(found.device))


def _inside_annotation(trace: Trace, name: str) -> Bools:
    """Which events start inside an annotation of this name on its thread: bool [events]."""
    rows = np.flatnonzero(
        any_of(trace.kind, RANGE_KINDS) & (trace.name == trace.strings.code(name)) & (trace.name >= 0)
    )
    if not len(rows):
        raise UsageError(f"no annotation is called {name!r} in this trace")
    inside = np.zeros(len(trace), np.bool_)
    for track in np.unique(trace.track[rows]).tolist():
        spans = rows[trace.track[rows] == track]
        spans = spans[np.argsort(trace.start[spans], kind="stable")]
        reach = np.maximum.accumulate(trace.end[spans])  # of nested spans of one name the outer one counts
        here = np.flatnonzero(trace.track == track)
        index = np.searchsorted(trace.start[spans], trace.start[here], side="right") - 1
        inside[here] = (index >= 0) & (trace.start[here] < reach[np.maximum(index, 0)])
    return inside
