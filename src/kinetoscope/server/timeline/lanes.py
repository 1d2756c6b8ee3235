"""The lanes of the timeline: of each rank groups, their lanes, the steps; and a map of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np

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
) -> dict[str, Any]:
    """The lanes of some ranks, beneath one another on one clock; with that of the critical path if `path`."""
    shifts, clock_notes = rank_offsets(traces)
    notes = list(clock_notes)
    ranks = []
    for trace, shift in zip(traces, shifts, strict=True):
        ranks.append(_rank(trace, shift, steps_by))
        if path:
            ranks[-1]["groups"].insert(1, path_group(trace))
        notes += _notes(trace, steps_by)
    start = min([min(shift, 0) for shift in shifts], default=0)
    end = max((shift + max(timeline(trace).end, 1) for trace, shift in zip(traces, shifts, strict=True)), default=1)
    return {
        "version": version,
        "ranks": ranks,
        "start": start,
        "end": end,
        "home": _home(traces, shifts, end, steps_by),
        "minimap": _minimap(traces, shifts, start, end),
        "notes": list(dict.fromkeys(notes)),
    }


def _rank(trace: Trace, shift: int, steps_by: str | None) -> dict[str, Any]:
    shown = shown_lanes(trace)
    groups: list[dict[str, Any]] = [{"id": "steps", "title": "steps", "kind": "steps", "lanes": []}]
    if shown.counters:
        groups.append({"id": "counters", "title": "counters", "kind": "counter", "lanes": []})
        groups[-1]["lanes"] = [
            {"id": each.id, "title": each.title, "depth": 1, "sort": place, "kind": each.kind, "unit": each.unit}
            | ({} if each.max is None else {"max": each.max})
            for place, each in enumerate(shown.counters)
        ]
    for group, lanes in groupby(shown.lanes, key=lambda lane: lane.group):
        kind = "device" if group.kind == "device" else "host"
        groups.append({"id": group.id, "title": group.title, "kind": kind, "lanes": []})
        if group.folded:
            groups[-1]["collapsed"] = True
        groups[-1]["lanes"] = [
            {"id": lane.id, "title": lane.title, "depth": lane.rows, "sort": place, "kind": kind, "events": lane.events}
            | ({"outer": _outer(trace, lane)} if kind == "host" else {})
            | _slices(trace, lane)
            for place, lane in enumerate(lanes)
        ]
    ruler = _steps(trace, steps_by)
    return {"rank": trace.source.rank, "offset": shift, "groups": groups, "more": shown.left_out, "steps": ruler}


def _slices(trace: Trace, lane: Lane) -> dict[str, int]:
    """Of a lane with replays: its depth with their rows, and the first of these, which is what is seen of it folded."""
    replayed = replay_rows(trace)
    if replayed is None or lane.id not in replayed.of_lane:
        return {}
    return {"depth": lane.rows + replayed.of_lane[lane.id][1], "slices": lane.rows}


def _outer(trace: Trace, lane: Lane) -> int:
    """The number of first rows that are almost empty: the frames around the training loop."""
    bounds = timeline(trace).pyramid.rows[lane.first : lane.first + lane.rows + 1]
    fuller = np.flatnonzero(np.diff(bounds) > _SPARSE_ROW_EVENTS)
    return int(fuller[0]) if len(fuller) else 0


def _steps(trace: Trace, steps_by: str | None) -> list[dict[str, Any]]:
    """The steps as all views have them: as the device sees them; and when the host was in each."""
    marks, origin = steps(trace, steps_by), origin_of_time(trace)
    if marks.origin == "window":
        return []
    steady = np.isin(np.arange(len(marks)), steady_places(trace, steps_by))
    times = (marks.device.start, marks.device.end, marks.host.start, marks.host.end)
    columns = (marks.number, *(np.clip(each - origin, -MAX_INTEGER, MAX_INTEGER) for each in times), steady)
    names = "step", "start", "end", "host_start", "host_end", "steady"
    rows = zip(*(column[:_MAX_STEPS].tolist() for column in columns), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _home(traces: Sequence[Trace], shifts: Sequence[int], end: int, steps_by: str | None) -> dict[str, int] | None:
    """The range shown at first: the steady steps, of very many some in the middle; else nearly all events.

    None: all of it.
    """
    spans = [[time + shift for time in _body(trace, steps_by)] for trace, shift in zip(traces, shifts, strict=True)]
    first, last = min(start for start, _ in spans), max(stop for _, stop in spans)
    return {"start": first, "end": last} if last > first and (first > 0 or last < end) else None


def _body(trace: Trace, steps_by: str | None) -> tuple[int, int]:
    ruler = _steps(trace, steps_by)
    if not ruler:
        return timeline_body(trace)
    inside = [step for step in ruler if step["steady"]] or ruler
    if len(inside) > _MAX_FIRST_STEPS:
        middle = (len(inside) - _FIRST_STEPS) // 2
        inside = inside[middle : middle + _FIRST_STEPS]
    return inside[0]["start"], inside[-1]["end"]


def _notes(trace: Trace, steps_by: str | None) -> list[str]:
    shown, marks = shown_lanes(trace), steps(trace, steps_by)
    notes = [marks.note] if marks.note else []
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


def _minimap(traces: Sequence[Trace], shifts: Sequence[int], start: int, end: int) -> dict[str, Any]:
    """The mean of the ranks."""
    bucket = max(-(-(end - start) // BUCKETS), 1)
    total: dict[str, Any] = {}
    for trace, shift in zip(traces, shifts, strict=True):
        first = timeline(trace).origin + start - shift
        for kind, share in minimap(trace, first, bucket).items():
            total[kind] = total.get(kind, 0.0) + share / len(traces)
    busy = {kind: np.minimum(share, 1.0).round(4).tolist() for kind, share in total.items()}
    return {"start": start, "bucket": bucket, "busy": busy}
