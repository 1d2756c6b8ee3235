"""The timeline of a trace: its lanes, and in each the rows in which events are drawn.

A thread's calls nest in rows by their depth in the call tree; a stream's work lies in one row, and in more where it
overlaps. Everything else that lasts (annotations and waits on streams, spans of the profiler, what overlaps the calls
of its thread by nature) has lanes of its own beside them. Not drawn are names, flows, counters and memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms import ordering
from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s
from kinetoscope.algorithms.layout import packing
from kinetoscope.algorithms.layout.pyramid import LONGEST_SPAN, Pyramid, pyramid
from kinetoscope.model.execution.call_tree import call_tree, main_thread
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.timeline.categories import mark_kinds
from kinetoscope.model.timeline.groups import LaneGroup, LaneGroups
from kinetoscope.model.timeline.tracks import track_names
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import DEVICE_WORK, SPANS, EventKind
from kinetoscope.model.trace.trace import Trace, stray

CALLS, WORK, REST = range(3)
"""Layers of a track, each a lane: calls of the host, device work, and everything else."""

_MAX_ROWS: Final = 1000, 64, 64
"""Rows of a lane at most, by layer: Python's own limit of calls; of work that overlaps."""

_MIN_EVENTS: Final = 10
_LENGTH_RATIO: Final = 100
"""Length of the whole timeline / time of nearly all events, from which on a few lie far away."""

_MAX_TIME_NS: Final = (1 << 53) - 1
"""ns from the origin to the first and to the last time that is drawn, 104 days: a browser counts no further."""

_PROFILER_KINDS: Final = (EventKind.SPAN, EventKind.INSTANT, EventKind.OVERHEAD)
"""Kinds of events of the profiler itself."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane.

    Attributes:
        id: unique in the trace.
        title: within its group.
        group: of lanes.
        track: of the trace.
        layer: CALLS, WORK or REST.
        first: its first row in the pyramid; rows: how many it has.
        events: how many are drawn in it.
    """

    id: str
    title: str
    group: LaneGroup
    track: int
    layer: int
    first: int
    rows: int
    events: int


@dataclass(frozen=True)
class Timeline:
    """The timeline of a trace.

    Attributes:
        lanes: in the order in which they are shown.
        pyramid: what is drawn, row by row; its spans are rows of the trace.
        depth: int16 [events], the row within its lane in which each is drawn, −1 if it is not.
        layer: int8 [events], the layer of its track, −1 for what is not drawn.
        origin: time 0, ns, see `scope.origin_of_time`; end: the last instant, counted from there.
        astray: how many events are not drawn, or not to their end, for their times cannot be right.
    """

    lanes: tuple[Lane, ...]
    pyramid: Pyramid
    depth: NDArray[np.int16]
    layer: Int8s
    origin: int
    end: int
    astray: int = 0


@derived
def timeline(trace: Trace) -> Timeline:
    """Lay out a trace."""
    start, end = times(trace)
    layer = _layers(trace)
    depth = np.full(len(trace), packing.NO_ROW, np.int32)
    row = np.full(len(trace), packing.NO_ROW, np.int32)
    orders, lane_rows = [], []
    first = 0
    for number in (CALLS, WORK, REST):
        order, offsets, parent = _order(trace, layer, number)
        own = packing.packed(start, end, order, offsets, parent, most=_MAX_ROWS[number])[order]
        sizes = _sizes(own, offsets)
        firsts = first + np.cumsum(sizes) - sizes
        depth[order] = own
        row[order] = own + firsts[trace.track[order]]
        used = np.flatnonzero(sizes)
        columns = used, np.full(len(used), number), firsts[used], sizes[used], np.diff(offsets)[used]
        lane_rows += list(zip(*(column.tolist() for column in columns), strict=True))
        orders.append(order)
        first += int(sizes.sum())
    order, rows = packing.by_number(row, np.concatenate(orders), first)
    origin = _origin(trace)
    return Timeline(
        lanes=_lanes(trace, lane_rows, layer),
        pyramid=pyramid(start, end, mark_kinds(trace), order, rows),
        depth=depth.astype(np.int16),
        layer=layer,
        origin=origin,
        end=_end(trace, layer, end) - origin,
        astray=len(stray(trace)) + int(np.count_nonzero(_astray(trace) & (layer >= 0))),
    )


def lane_of(trace: Trace, row: int) -> Lane | None:
    """The lane in which an event is drawn; None if it is not."""
    return _lanes_by_place(trace).get((int(trace.track[row]), int(timeline(trace).layer[row])))


@derived
def _lanes_by_place(trace: Trace) -> dict[tuple[int, int], Lane]:
    return {(lane.track, lane.layer): lane for lane in timeline(trace).lanes}


def _order(trace: Trace, layer: Int8s, number: int) -> tuple[Int32s, Int64s, Int32s]:
    """The events of a layer by track and start, where each track begins, and the event around each."""
    if number == CALLS:
        calls = call_tree(trace)
        stands = calls.order < trace.recorded  # captured calls last no time, and are drawn nowhere
        return *ordering.some_of(calls.order, calls.offsets, stands), calls.parent
    selected = layer == number
    order, offsets = ordering.track_order(trace.track, *times(trace), tracks=len(trace.tracks), selected=selected)
    return order, offsets, np.full(len(trace), packing.NO_ROW, np.int32)


def times(trace: Trace) -> tuple[Int64s, Int64s]:
    """Start and end of each event, ns, none of them beyond what a timeline can show: int64 [events] each."""
    return _clipped(trace) if _is_astray(trace) else (trace.start, trace.end)


@derived
def _is_astray(trace: Trace) -> bool:
    return bool(_astray(trace).any())


@derived
def timeline_body(trace: Trace) -> tuple[int, int]:
    """Start and end of nearly all events, ns after the origin: of the whole, unless a few lie far away."""
    layout = timeline(trace)
    start, end = times(trace)
    rows = np.flatnonzero(layout.layer >= 0)
    if len(rows) < _MIN_EVENTS:
        return 0, layout.end
    cut = max(len(rows) // 100, 1)
    ordered = np.partition(start[rows], (cut, len(rows) - 1 - cut))
    low, high = int(ordered[cut]), int(ordered[-1 - cut])
    near = rows[(start[rows] >= 2 * low - high) & (start[rows] <= 2 * high - low)]
    last = np.partition(end[near], len(near) - 1 - cut)[len(near) - 1 - cut]  # without those that are far too long
    body = int(start[near].min()) - layout.origin, max(int(last), high) - layout.origin
    return body if (body[1] - body[0]) * _LENGTH_RATIO < layout.end else (0, layout.end)


@derived
def _origin(trace: Trace) -> int:
    return min(max(origin_of_time(trace), _MAX_TIME_NS - LONGEST_SPAN), LONGEST_SPAN - _MAX_TIME_NS)


@derived
def _bounds(trace: Trace) -> tuple[int, int]:
    return _origin(trace) - _MAX_TIME_NS, _origin(trace) + _MAX_TIME_NS


@derived
def _astray(trace: Trace) -> Bools:
    """True where each event has a time beyond what can be shown: bool [events]."""
    low, high = _bounds(trace)
    return (trace.start < low) | (trace.start > high) | (trace.end < low) | (trace.end > high)


@derived
def _clipped(trace: Trace) -> tuple[Int64s, Int64s]:
    bounds = _bounds(trace)
    return np.clip(trace.start, *bounds), np.clip(trace.end, *bounds)


def _layers(trace: Trace) -> Int8s:
    """The layer of each event, −1 for what is not drawn: int8 [events]."""
    drawn = np.isin(trace.ph, SPANS) | (trace.kind == EventKind.INSTANT)
    of_kind = np.full(len(EventKind), REST, np.int8)
    of_kind[[EventKind.MEMORY, EventKind.METADATA]] = -1
    of_kind[list(DEVICE_WORK)] = WORK
    layer = of_kind[trace.kind]
    layer[~drawn] = -1
    layer[stray(trace)] = -1
    layer[call_tree(trace).member] = CALLS
    layer[trace.recorded :] = -1
    return layer


def _sizes(depth: Int32s, offsets: Int64s) -> Int64s:
    """Number of rows of each track, by the depths of its events: int64 [tracks]."""
    sizes = np.zeros(len(offsets) - 1, np.int64)
    used = np.flatnonzero(np.diff(offsets))
    if len(used):
        sizes[used] = np.maximum.reduceat(depth, offsets[used]) + 1
    return sizes


def _end(trace: Trace, layer: Int8s, end: Int64s) -> int:
    """The last instant of what is drawn; events of the profiler itself count only if there are no others.

    Nor do times count that cannot be right.
    """
    drawn = (layer >= 0) & ~_astray(trace)
    for odd in (trace.kind == EventKind.SPAN) | (trace.kind == EventKind.OTHER), np.zeros(len(trace), np.bool_):
        if (shown := drawn & ~odd).any():
            return int(end.max(where=shown, initial=np.iinfo(np.int64).min))
    return _origin(trace)


# --- lanes

_LaneRows = tuple[int, int, int, int, int]
"""Track, layer, first row, rows and events of a lane."""


def _lanes(trace: Trace, lane_rows: Sequence[_LaneRows], layer: Int8s) -> tuple[Lane, ...]:
    """The lanes in order: devices, the process of the main thread, others, and what stands aside."""
    named, main = track_names(trace), main_thread(trace)
    aside = _tracks_aside(trace, layer)
    autograd = _autograd_threads(trace, main)
    work = {track: events for track, number, _, _, events in lane_rows if number == WORK}
    groups = LaneGroups(trace, main, aside, work)
    others = {track for track, number, *_ in lane_rows if number != REST}
    keyed = []
    for track, number, first, rows, events in lane_rows:
        lane = named[track]
        group = groups.of(track, is_work=number == WORK)
        title = lane.name
        if track in aside:
            title = f"{lane.process} · {lane.name}" if lane.process.strip() else lane.name
        elif not lane.is_device:
            title = _thread_title(track, main, autograd, lane.name)
        title = title.strip() or f"lane {track}"
        if number == REST and track in others:
            title += " · annotations" if lane.is_device else " · other"
        order = (
            *groups.place(group),
            track != main,
            track not in autograd,
            lane.sort[1] if group.kind == "device" else -events if number == CALLS else 0,
            track,
            number,
        )
        identity = f"{track}" + ("", "w", "o")[number]
        keyed.append((order, Lane(identity, title, group, track, number, first, rows, events)))
    return tuple(lane for _, lane in sorted(keyed, key=lambda each: each[0]))


def _thread_title(track: int, main: int, autograd: dict[int, int], name: str) -> str:
    if track == main:
        return "main thread"
    if track in autograd:
        number = autograd[track]
        return "autograd thread" + (f" {number + 1}" if len(autograd) > 1 else "")
    return name


def _tracks_aside(trace: Trace, layer: Int8s) -> set[int]:
    """Tracks on which nothing is drawn but events of the profiler itself."""
    rest = np.flatnonzero(layer == REST)
    own = np.isin(trace.kind[rest], _PROFILER_KINDS)
    others = np.bincount(trace.track[rest[~own]], minlength=len(trace.tracks)) > 0
    others |= np.bincount(trace.track[(layer == CALLS) | (layer == WORK)], minlength=len(trace.tracks)) > 0
    return {track for track in np.unique(trace.track[rest[own]]).tolist() if not others[track]}


def _autograd_threads(trace: Trace, main: int) -> dict[int, int]:
    """The threads of the backward pass, numbered by their work."""
    rows = trace.rows(EventKind.HOST_OP)
    backward = rows[arguments.integers(trace, "forward_thread", rows) > 0]
    tracks, counts = np.unique(trace.track[backward], return_counts=True)
    chosen = [track for track in tracks[np.argsort(-counts, kind="stable")].tolist() if track != main]
    return {track: number for number, track in enumerate(chosen)}
