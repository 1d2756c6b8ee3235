"""The part of a trace that a Selection leaves: host events, device work, steps, and the window of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s, any_of, marked
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.errors import UsageError
from kinetoscope.model.execution.call_tree import call_tree, inside
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.execution.marks import RANGE_KINDS
from kinetoscope.model.execution.work_before import notes_of_earlier_work
from kinetoscope.model.steps.named_calls import chosen_calls, has_name
from kinetoscope.model.steps.selection import STEADY_STEPS, Selection
from kinetoscope.model.steps.steps import Steps, after_warm_up, is_delayed, is_last_empty, step_of, step_of_work, steps
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import HOST_KINDS, EventKind
from kinetoscope.model.trace.text import listed, number_of, numbered
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note

_TIME_LIMIT_NS: Final = 1 << 61
"""No time is beyond this, so that lengths fit into 64 bits."""


@dataclass(frozen=True)
class Scope:
    """A trace seen through a Selection.

    Attributes:
        steps: the steps selected, those that reach into the range of time; their intervals are not clipped.
        places: int64 [steps], which of all steps of the trace they are.
        host_mask: bool [events], events selected; with a range of time those that start in it: what is counted.
        host_mask_untimed: bool [events], the same whatever the range of time: what is measured, by `clipped`.
        device_work_mask: bool [work], which of `device_work` is selected: what runs in the range of time.
        running_mask: bool [work], the same whatever step launched it: what can run in the devices' time of the steps.
        clip: the range of time to which intervals are clipped, ns, or None.
        notes: sentences about the selection.
    """

    trace: Trace
    select: Selection
    steps: Steps
    places: Int64s
    host_mask: Bools
    host_mask_untimed: Bools
    device_work_mask: Bools
    running_mask: Bools
    clip: tuple[int, int] | None
    notes: tuple[Note, ...]

    @property
    def warm_up(self) -> tuple[Note, ...]:
        """The note on an answer over everything: it counts the steps of the warm-up, and how they are left out."""
        if self.select.steps is not None or self.select.time is not None or self.steps.origin == "window":
            return ()
        steady = steady_places(self.trace, self.select.steps_by)
        first = self.steps.number[: int(steady[0])].tolist() if len(steady) else []
        if not first:
            return ()
        which = (
            f"Step {first[0]} warms up and counts" if len(first) == 1 else f"Steps {listed(first)} warm up and count"
        )
        return (Note("WARM_UP_COUNTS", f"{which} here; --steps steady leaves the warm-up out."),)

    @property
    def device_work(self) -> DeviceWork:
        """All device work of the trace; `device_work_mask` says which of it is selected."""
        return device_work(self.trace)

    def clipped(self, start: Int64s, end: Int64s) -> Intervals:
        """Intervals cut to the selected range of time; those outside become empty."""
        if self.clip is None:
            return Intervals(start, end)
        low, high = self.clip
        return Intervals(np.clip(start, low, high), np.clip(end, low, high))

    def begins(self, start: Int64s) -> Bools:
        """What begins in the selected range of time, and so is counted: bool [start]."""
        if self.clip is None:
            return np.ones(len(start), np.bool_)
        return (start >= self.clip[0]) & (start < self.clip[1])

    def count_of_work(self, which: Bools) -> str:
        """`3 of 20 pieces of device work (1.5% of device time)`, for a note about some of the selected work.

        Args:
            which: bool [selected work].
        """
        start, end = self.clipped(self.device_work.start, self.device_work.end)
        time = (end - start)[self.device_work_mask]
        share = int(time[which].sum()) / max(int(time.sum()), 1)
        return f"{which.sum():,} of {len(which):,} pieces of device work ({share:.1%} of device time)"


def origin_of_time(trace: Trace) -> int:
    """The origin of time as shown, ns: the first instant of anything but names and the recording's span."""
    return recorded_span(trace)[0]


@derived
def recorded_span(trace: Trace) -> tuple[int, int]:
    """The first and the last instant of anything but names and the recording's span, ns."""
    shown = ~any_of(trace.kind, (EventKind.METADATA, EventKind.SPAN, EventKind.OTHER))
    if not shown.any():
        return 0, 0
    times = np.iinfo(np.int64)
    return int(trace.start.min(where=shown, initial=times.max)), int(trace.end.max(where=shown, initial=times.min))


def scope(trace: Trace, select: Selection) -> Scope:
    """Apply a selection to a trace.

    Raises:
        UsageError: the trace has no such step, device, stream, thread or annotation, or the range of time ends before
            it starts.
    """
    every = steps(trace, select.steps_by)
    work = device_work(trace)
    places = np.arange(len(every))
    if select.steps is not None:
        places = _chosen_steps(every, select.steps, trace, select.steps_by)
    chosen = _steps_at(every, places)
    host = np.ones(len(trace), np.bool_)
    taken = np.ones(len(work), np.bool_)
    running = np.ones(len(work), np.bool_)
    call = work.caller
    if select.steps is not None:
        host &= step_of(chosen.host, trace.start) >= 0
        taken &= step_of_work(trace, work, chosen) >= 0
    for events in _criteria(trace, select, every):
        # Device work is where it was launched, that of a replay where it was captured, else where its operator is.
        host &= events
        running &= (call >= 0) & events[call]
    if select.name is not None:
        named = has_name(trace, select.name)
        host &= named
        running &= named[work.rows] | ((call >= 0) & inside(trace, named)[call])
    if select.devices is not None:
        running &= np.isin(work.device, _require_any("device", select.devices, work.device))
    if select.streams is not None:
        running &= np.isin(work.stream, _require_any("stream", select.streams, work.stream))
    taken &= running
    notes = [every.note] if every.note else []
    if is_delayed(trace, every) and 0 in places:
        notes += notes_of_earlier_work(trace)
    if select.steps == STEADY_STEPS and len(places):
        notes += _steps_left_out(every, places)
    unlinked = int((call < 0).sum())
    if unlinked and any(each is not None for each in _by_launch(select)):
        notes.append(
            Note(
                "UNLINKED_LEFT_OUT",
                f"{unlinked} of {len(work)} pieces of device work belong to no recorded call and are left out.",
            )
        )
    clip = _time_range(trace, select)
    in_time = host
    if clip is not None:
        in_time = host & (trace.start >= clip[0]) & (trace.start < clip[1])
        running &= (work.start < clip[1]) & (work.end > clip[0])
        taken &= running
        places = places[(chosen.device.start < clip[1]) & (chosen.device.end > clip[0])]
    return Scope(trace, select, _steps_at(every, places), places, in_time, host, taken, running, clip, tuple(notes))


@derived
def steady_places(trace: Trace, steps_by: str | None = None) -> Int64s:
    """The steady ones of all steps: without those of the warm-up, and without an empty last one."""
    every = steps(trace, steps_by)
    return after_warm_up(_steps_at(every, np.arange(len(every) - is_last_empty(trace, steps_by))))


def unclipped(view: Scope) -> Scope:
    """The same selection without its range of time: for what belongs to selected calls, whenever it ran."""
    return view if view.select.time is None else scope(view.trace, replace(view.select, time=None))


def _by_launch(select: Selection) -> tuple[object, ...]:
    """The fields that choose device work by its launch alone."""
    return (select.annotation, select.threads, select.under, select.before, select.after)


def left_out(view: Scope) -> tuple[Note, ...]:
    """The note on an answer about a part that names of calls choose: how much of the trace that is."""
    patterns = view.select.patterns
    if not patterns:
        return ()
    whole = scope(view.trace, replace(view.select, name=None, under=None, before=None, after=None))
    chosen = " and ".join(f"{'named' if field == 'name' else field} {text!r}" for field, text in patterns.items())
    calls = any_of(view.trace.kind, HOST_KINDS)
    some, every = (int((each.host_mask & calls).sum()) for each in (view, whole))
    work = whole.device_work_mask
    and_work = f", {whole.count_of_work(view.device_work_mask[work])}" if work.any() else ""
    return (
        Note(
            "SELECTED_CALLS", f"The selection has what is {chosen}: {some:,} of {number_of(every, 'call')}{and_work}."
        ),
    )


def _criteria(trace: Trace, select: Selection, every: Steps) -> Iterator[Bools]:
    """The events that a selection by calls of the host leaves."""
    yield from chosen_calls(trace, select, every)
    if select.annotation is not None:
        yield _inside_annotation(trace, select.annotation)
    if select.threads is not None:
        tids = trace.tracks.integer_tids()
        host = np.unique(trace.track[any_of(trace.kind, HOST_KINDS)])
        yield np.isin(tids, _require_any("thread", select.threads, tids[host]))[trace.track]


def _time_range(trace: Trace, select: Selection) -> tuple[int, int] | None:
    if select.time is None:
        return None
    low, high = select.time
    if low > high:
        raise UsageError(f"the range of time from {low} to {high} ns ends before it starts; give start and end")
    origin = origin_of_time(trace)
    return max(origin + low, -_TIME_LIMIT_NS), min(origin + high, _TIME_LIMIT_NS)


def _steps_left_out(every: Steps, places: Int64s) -> Iterator[Note]:
    first, last = every.number[: places[0]].tolist(), every.number[places[-1] + 1 :].tolist()
    if first:
        yield Note("WARM_UP_LEFT_OUT", f"Left out as warm-up: {numbered('step', first)}.")
    if last:
        yield Note("EMPTY_LEFT_OUT", f"Left out as empty: {numbered('step', last)}.")


def _chosen_steps(every: Steps, wanted: tuple[int, ...] | range | str, trace: Trace, steps_by: str | None) -> Int64s:
    """Places of the steps that are wanted; −1 is the last step, −2 the one before."""
    if isinstance(wanted, str):
        return steady_places(trace, steps_by)
    if isinstance(wanted, range):
        inside = [number for number in every.number.tolist() if number in wanted]
        if not inside:
            have = listed(every.number.tolist()) or "none"
            raise UsageError(f"no step from {wanted.start} on in this trace; it has {have}")
        return np.flatnonzero(np.isin(every.number, inside))
    numbers = tuple(int(every.number[step]) if -len(every) <= step < 0 else step for step in wanted)
    return np.flatnonzero(np.isin(every.number, _require_any("step", numbers, every.number)))


def _require_any(what: str, wanted: tuple[int, ...], present: Int64s) -> tuple[int, ...]:
    """`wanted`, if the trace has at least one of them."""
    if not np.isin(wanted, present).any():
        raise UsageError(f"no {what} {listed(wanted)} in this trace; it has {listed(present.tolist()) or 'none'}")
    return wanted


def _steps_at(every: Steps, places: Int64s) -> Steps:
    host, device = (Intervals(spans.start[places], spans.end[places]) for spans in (every.host, every.device))
    return replace(every, number=every.number[places], host=host, device=device)


def _inside_annotation(trace: Trace, name: str) -> Bools:
    """Events that start inside an annotation of this name on its thread, or were captured in one: bool [events]."""
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
    captured = marked(len(trace), rows[rows >= trace.recorded])
    return inside | (ancestor(call_tree(trace).parent, captured) >= 0) if captured.any() else inside
