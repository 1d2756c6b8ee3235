"""The lanes of the timeline: of each rank groups, their lanes, the steps; and a map of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

import numpy as np

from kinetoscope.algorithms.arrays import Floats
from kinetoscope.model.execution.call_tree import main_thread
from kinetoscope.model.matching.match import rank_offsets
from kinetoscope.model.steps.scope import origin_of_time, steady_places
from kinetoscope.model.steps.steps import steps
from kinetoscope.model.timeline.counters import Counter, all_counters, counter_lanes
from kinetoscope.model.timeline.layout import REST, WORK, Lane, timeline, timeline_body
from kinetoscope.model.timeline.range import BUCKETS, minimap
from kinetoscope.model.timeline.replays import replay_rows
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.server.errors import MissingError
from kinetoscope.server.json_encoding import MAX_INTEGER
from kinetoscope.server.timeline.answers import (
    Minimap,
    RankLanes,
    TimelineGroup,
    TimelineLane,
    TimelineLanes,
    TimelineStep,
    TimeSpan,
)
from kinetoscope.server.timeline.path import path_group

MAX_LANES: Final = 400
"""Lanes of a rank that are listed, and asked for in one tile."""

_MAX_STEPS: Final = 10_000
_FIRST_STEPS: Final = 3
_MAX_FIRST_STEPS: Final = 24
"""Steps that are all shown at first; of more, `_FIRST_STEPS` are."""
_SPARSE_ROW_EVENTS: Final = 3


@dataclass(frozen=True, slots=True)
class ShownLanes:
    """The lanes and counters of a trace that are listed, and the number of lanes and events left out."""

    lanes: tuple[Lane, ...]
    counters: tuple[Counter, ...]
    left_out: int
    events_left_out: int


@derived
def shown_lanes(trace: Trace) -> ShownLanes:
    """The lanes that are listed: of very many the main thread, devices' work, then those with the most events."""
    lanes = timeline(trace).lanes
    shown = lanes
    if len(lanes) > MAX_LANES:
        main = main_thread(trace)
        by_events = sorted(
            range(len(lanes)), key=lambda place: (lanes[place].track != main, *_importance(lanes[place]))
        )
        kept = set(by_events[:MAX_LANES])
        shown = tuple(lane for place, lane in enumerate(lanes) if place in kept)
    left = sum(lane.events for lane in lanes) - sum(lane.events for lane in shown)
    return ShownLanes(shown, counter_lanes(trace), len(lanes) - len(shown), left)


def _importance(lane: Lane) -> tuple[bool, bool, int]:
    """The sort key of a lane: work first, then those with the most events."""
    return lane.layer == REST, lane.layer != WORK, -lane.events


def named(trace: Trace, names: Sequence[str] | None) -> tuple[list[Lane], list[Counter]]:
    """The lanes and counters with these ids; None: all that are listed.

    Raises:
        MissingError: there is no such lane, or they are too many.
    """
    if names is None:
        all_of_them = shown_lanes(trace)
        return list(all_of_them.lanes), list(all_of_them.counters)
    if len(names) > MAX_LANES:
        raise MissingError(f"{len(names):,} lanes are too many for one tile; {MAX_LANES} are possible")
    lanes, counters = _by_name(trace)
    for name in names:
        if name not in lanes and name not in counters:
            raise MissingError(f"there is no lane {name[:60]!r} on rank {trace.source.rank}")
    return [lanes[name] for name in names if name in lanes], [counters[name] for name in names if name in counters]


@derived
def _by_name(trace: Trace) -> tuple[dict[str, Lane], dict[str, Counter]]:
    return {lane.id: lane for lane in timeline(trace).lanes}, {each.id: each for each in counter_lanes(trace)}


def lanes_answer(
    traces: Sequence[Trace], version: str, steps_by: str | None = None, *, path: bool = False
) -> TimelineLanes:
    """The lanes of some ranks, beneath one another on one clock; with that of the critical path if `path`."""
    shifts, clock_notes = rank_offsets(traces)
    notes = list(clock_notes)
    for trace in traces:
        notes += _notes(trace, steps_by)
    start = min([min(shift, 0) for shift in shifts], default=0)
    end = max((shift + max(timeline(trace).end, 1) for trace, shift in zip(traces, shifts, strict=True)), default=1)
    return TimelineLanes(
        version=version,
        ranks=[_rank(trace, shift, steps_by, path=path) for trace, shift in zip(traces, shifts, strict=True)],
        start=start,
        end=end,
        home=_home(traces, shifts, end, steps_by),
        minimap=_minimap(traces, shifts, start, end),
        notes=list(dict.fromkeys(notes)),
    )


def _rank(trace: Trace, shift: int, steps_by: str | None, *, path: bool) -> RankLanes:
    shown = shown_lanes(trace)
    groups = [TimelineGroup("steps", "steps", "steps")]
    if path:
        groups.append(path_group(trace))
    if shown.counters:
        counters = [
            TimelineLane(each.id, each.title, 1, place, each.kind, unit=each.unit, max=each.max)
            for place, each in enumerate(shown.counters)
        ]
        groups.append(TimelineGroup("counters", "counters", "counter", counters))
    for group, lanes in groupby(shown.lanes, key=lambda lane: lane.group):
        kind: Literal["device", "host"] = "device" if group.kind == "device" else "host"
        listed = [_lane(trace, lane, kind, place) for place, lane in enumerate(lanes)]
        groups.append(TimelineGroup(group.id, group.title, kind, listed, collapsed=group.folded))
    return RankLanes(trace.source.rank, shift, groups, shown.left_out, _steps(trace, steps_by))


def _lane(trace: Trace, lane: Lane, kind: str, place: int) -> TimelineLane:
    replayed, depth, slices = replay_rows(trace), lane.rows, None
    if replayed is not None and lane.id in replayed.of_lane:
        depth, slices = lane.rows + replayed.of_lane[lane.id][1], lane.rows
    outer = _outer(trace, lane) if kind == "host" else 0
    return TimelineLane(lane.id, lane.title, depth, place, kind, lane.events, outer, slices)


def _outer(trace: Trace, lane: Lane) -> int:
    """The number of first rows that are almost empty: the frames around the training loop."""
    bounds = timeline(trace).pyramid.rows[lane.first : lane.first + lane.rows + 1]
    fuller = np.flatnonzero(np.diff(bounds) > _SPARSE_ROW_EVENTS)
    return int(fuller[0]) if len(fuller) else 0


def _steps(trace: Trace, steps_by: str | None) -> list[TimelineStep]:
    """The steps as all views have them: as the device sees them; and when the host was in each."""
    marks, origin = steps(trace, steps_by), origin_of_time(trace)
    if marks.origin == "window":
        return []
    steady = np.isin(np.arange(len(marks)), steady_places(trace, steps_by))
    times = (marks.device.start, marks.device.end, marks.host.start, marks.host.end)
    columns = (marks.number, *(np.clip(each - origin, -MAX_INTEGER, MAX_INTEGER) for each in times), steady)
    return [TimelineStep(*row) for row in zip(*(column[:_MAX_STEPS].tolist() for column in columns), strict=True)]


def _home(traces: Sequence[Trace], shifts: Sequence[int], end: int, steps_by: str | None) -> TimeSpan | None:
    """The range shown at first: the steady steps, of very many some in the middle; else nearly all events.

    None: all of it.
    """
    spans = [[time + shift for time in _body(trace, steps_by)] for trace, shift in zip(traces, shifts, strict=True)]
    first, last = min(start for start, _ in spans), max(stop for _, stop in spans)
    return TimeSpan(first, last) if last > first and (first > 0 or last < end) else None


def _body(trace: Trace, steps_by: str | None) -> tuple[int, int]:
    ruler = _steps(trace, steps_by)
    if not ruler:
        return timeline_body(trace)
    inside = [step for step in ruler if step.steady] or ruler
    if len(inside) > _MAX_FIRST_STEPS:
        middle = (len(inside) - _FIRST_STEPS) // 2
        inside = inside[middle : middle + _FIRST_STEPS]
    return inside[0].start, inside[-1].end


def _notes(trace: Trace, steps_by: str | None) -> list[str]:
    shown, marks = shown_lanes(trace), steps(trace, steps_by)
    notes: list[str] = [marks.note] if marks.note else []
    if shown.left_out:
        notes.append(
            f"Rank {trace.source.rank} has {shown.left_out:,} more lanes, with {shown.events_left_out:,} events; "
            f"the {MAX_LANES} with the most are shown."
        )
    if astray := timeline(trace).astray:
        notes.append(
            f"Rank {trace.source.rank}: the times of {number_of(astray, 'event')} cannot be right (a day from the "
            "others, or as long): the picture is without them."
        )
    if len(marks) > _MAX_STEPS:
        notes.append(f"Rank {trace.source.rank} has more than {_MAX_STEPS:,} steps; the first ones are in the ruler.")
    if counters := len(all_counters(trace)) - len(shown.counters):
        notes.append(f"Rank {trace.source.rank} has {counters:,} more counters.")
    if not shown.lanes:
        notes.append(f"Rank {trace.source.rank} recorded nothing that takes time.")
    return notes


def _minimap(traces: Sequence[Trace], shifts: Sequence[int], start: int, end: int) -> Minimap:
    """The mean of the ranks."""
    bucket = max(-(-(end - start) // BUCKETS), 1)
    total: dict[str, Floats] = {}
    for trace, shift in zip(traces, shifts, strict=True):
        first = timeline(trace).origin + start - shift
        for kind, share in minimap(trace, first, bucket).items():
            total[kind] = total.get(kind, np.zeros(BUCKETS)) + share / len(traces)
    busy = {kind: np.minimum(share, 1.0).round(4).tolist() for kind, share in total.items()}
    return Minimap(start, bucket, busy)
