"""The timeline of a trace: its lanes, and in each the rows in which events are drawn.

A thread's calls nest in rows by their depth in the call tree; a stream's work lies in one row, and in more where it
overlaps. Everything else that lasts (annotations and waits on streams, spans of the profiler, what overlaps the calls
of its thread by nature) has lanes of its own beside them. Not drawn are names, flows, counters and memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms import ordering, packing
from kinetoscope.algorithms.pyramid import LONGEST, Pyramid, pyramid
from kinetoscope.model import arguments
from kinetoscope.model.calltree import call_tree, main_thread
from kinetoscope.model.device import device_work
from kinetoscope.model.kinds import DEVICE_WORK, EventKind
from kinetoscope.model.lanes import lanes
from kinetoscope.model.scope import origin_of_time
from kinetoscope.model.timeline_kinds import mark_kinds
from kinetoscope.model.trace import Trace

GroupKind = Literal["host", "device", "other"]

CALLS, WORK, REST = range(3)
"""Layers of a track, each a lane: calls of the host, device work, and everything else."""

_ROWS: Final = 1000, 64, 64
"""Rows of a lane at most, by layer: Python's own limit of calls; of work that overlaps."""

_SPAN: Final = ord("X")
_ASIDE: Final = (EventKind.SPAN, EventKind.INSTANT, EventKind.OVERHEAD)
"""What the profiler says of itself."""


class Group(NamedTuple):
    """Lanes that belong together: a process, or a device."""

    id: str
    title: str
    kind: GroupKind


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane.

    Attributes:
        id: tells it from the others of the trace.
        title: what it is called within its group.
        group: what it belongs to.
        track: of the trace.
        layer: CALLS, WORK or REST.
        first: its first row in the pyramid; rows: how many it has.
        events: how many are drawn in it.
    """

    id: str
    title: str
    group: Group
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
        depth: int16 [events], the row within its lane in which each is drawn, −1 for what is not.
        layer: int8 [events], the layer of its track, −1 for what is not drawn.
        origin: time 0, ns, see `scope.origin_of_time`; end: the last instant, counted from there.
    """

    lanes: tuple[Lane, ...]
    pyramid: Pyramid
    depth: NDArray[np.int16]
    layer: NDArray[np.int8]
    origin: int
    end: int

    def lane_of(self, trace: Trace, row: int) -> Lane | None:
        """The lane in which an event is drawn; None if it is not."""
        place = int(trace.track[row]), int(self.layer[row])
        return next((lane for lane in self.lanes if (lane.track, lane.layer) == place), None)


def timeline(trace: Trace) -> Timeline:
    """Lay out a trace. Ask by `trace.of`."""
    start, end = times(trace)
    calls = trace.of(call_tree)
    layer = np.full(len(trace), -1, np.int8)
    layer[_drawn(trace)] = REST
    layer[np.isin(trace.kind, DEVICE_WORK) & (layer == REST)] = WORK
    layer[calls.member] = CALLS
    alone = np.full(len(trace), packing.NO_ROW, np.int32)
    depth = np.full(len(trace), packing.NO_ROW, np.int32)
    orders, lane_of_track, found = [], [], []
    first_row = 0
    for number in (CALLS, WORK, REST):
        order, offsets, parent = calls.order, calls.offsets, calls.parent
        if number != CALLS:
            order, offsets = ordering.track_order(
                trace.track, start, end, tracks=len(trace.tracks), selected=layer == number
            )
            parent = alone
        rows = packing.packed(start, end, order, offsets, parent, most=_ROWS[number])
        depth[order] = rows[order]
        sizes = _sizes(depth, order, offsets)
        used = np.flatnonzero(sizes)
        firsts = np.zeros(len(sizes), np.int32)
        firsts[used] = first_row + np.concatenate([[0], np.cumsum(sizes[used])[:-1]]) if len(used) else 0
        counts = np.diff(offsets)
        found += [(track, number, int(firsts[track]), int(sizes[track]), int(counts[track])) for track in used.tolist()]
        orders.append(order)
        lane_of_track.append(firsts)
        first_row += int(sizes.sum())
    order = np.concatenate(orders)
    row = np.concatenate([lane_of_track[n][trace.track[each]] for n, each in enumerate(orders)]) + depth[order]
    numbers = np.full(len(trace), -1, np.int32)
    numbers[order] = row
    order, offsets = packing.by_number(numbers, order, first_row)
    origin = min(max(trace.of(origin_of_time), -LONGEST), LONGEST)
    return Timeline(
        lanes=_lanes(trace, found),
        pyramid=pyramid(start, end, trace.of(mark_kinds), order, offsets),
        depth=depth.astype(np.int16),
        layer=layer,
        origin=origin,
        end=_end(trace, layer, end) - origin,
    )


def times(trace: Trace) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start and end of each event, ns, none of them beyond what a timeline can show: int64 [events] each."""
    return trace.of(_clipped) if trace.of(_beyond) else (trace.start, trace.end)


def _beyond(trace: Trace) -> bool:
    columns = (trace.start, trace.end) if len(trace) else ()
    return any(int(column.min()) < -LONGEST or int(column.max()) > LONGEST for column in columns)


def _clipped(trace: Trace) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.clip(trace.start, -LONGEST, LONGEST), np.clip(trace.end, -LONGEST, LONGEST)


def _drawn(trace: Trace) -> NDArray[np.bool_]:
    spans: NDArray[np.bool_] = (trace.ph == _SPAN) | (trace.kind == EventKind.INSTANT)
    return spans & ~np.isin(trace.kind, (EventKind.MEMORY, EventKind.METADATA))


def _sizes(depth: NDArray[np.int32], order: NDArray[np.int32], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rows each track has: int64 [tracks]."""
    sizes = np.zeros(len(offsets) - 1, np.int64)
    used = np.flatnonzero(np.diff(offsets))
    if len(used):
        sizes[used] = np.maximum.reduceat(depth[order], offsets[used]) + 1
    return sizes


def _end(trace: Trace, layer: NDArray[np.int8], end: NDArray[np.int64]) -> int:
    """The last instant of what is drawn; what the profiler says of itself counts only if there is nothing else."""
    shown = (layer >= 0) & ~np.isin(trace.kind, (EventKind.SPAN, EventKind.OTHER))
    if not shown.any():
        shown = layer >= 0
    return int(end[shown].max()) if shown.any() else 0


# --- lanes

_Found = tuple[int, int, int, int, int]
"""Track, layer, first row, rows and events of a lane."""


def _lanes(trace: Trace, found: Iterable[_Found]) -> tuple[Lane, ...]:
    """The lanes in order: the process of the main thread first, then others, devices, and what stands aside."""
    named, main = trace.of(lanes), trace.of(main_thread)
    aside = _tracks_aside(trace)
    devices = _device_of_tracks(trace)
    autograd = _autograd_threads(trace, main)
    others = {track for track, layer, *_ in found if layer != REST}
    keyed = []
    for track, layer, first, rows, events in found:
        lane, pid = named[track], trace.tracks.pids[track]
        if track in aside:
            group = Group("other", "profiler", "other")
            title = f"{lane.process} · {lane.name}" if lane.process.strip() else lane.name
        elif lane.is_device:
            device = devices.get(track, pid)
            group, title = Group(f"device {device}", lane.process, "device"), lane.name
        else:
            group = Group(f"host {pid}", lane.process, "host")
            title = _thread_title(track, main, autograd, lane.name)
        title = title.strip() or f"lane {track}"
        if layer == REST and track in others:
            title += " · annotations" if lane.is_device else " · other"
        identity = f"{track}" + ("", "w", "o")[layer]
        order = (
            ("host", "device", "other").index(group.kind),
            group.kind == "host" and main >= 0 and pid != trace.tracks.pids[main],
            lane.sort[0],
            str(group.id).rjust(40),
            track != main,
            track not in autograd,
            lane.sort[1] if group.kind == "device" else -events if layer == CALLS else 0,
            track,
            layer,
        )
        keyed.append((order, Lane(identity, title, group, track, layer, first, rows, events)))
    return tuple(lane for _, lane in sorted(keyed, key=lambda each: each[0]))


def _thread_title(track: int, main: int, autograd: dict[int, int], name: str) -> str:
    if track == main:
        return "main thread"
    if track in autograd:
        number = autograd[track]
        return "autograd thread" + (f" {number + 1}" if len(autograd) > 1 else "")
    return name


def _tracks_aside(trace: Trace) -> set[int]:
    """Tracks on which nothing is drawn but what the profiler says of itself."""
    drawn = _drawn(trace)
    others = np.unique(trace.track[drawn & ~np.isin(trace.kind, _ASIDE)])
    return set(np.setdiff1d(np.unique(trace.track[drawn]), others).tolist())


def _device_of_tracks(trace: Trace) -> dict[int, int]:
    """The device whose work lies on each track."""
    work = trace.of(device_work)
    tracks, first = np.unique(trace.track[work.rows], return_index=True)
    return dict(zip(tracks.tolist(), work.device[first].tolist(), strict=True))


def _autograd_threads(trace: Trace, main: int) -> dict[int, int]:
    """The threads of the backward pass, numbered by their work."""
    rows = trace.rows(EventKind.HOST_OP)
    backward = rows[arguments.integers(trace, "forward_thread", rows) > 0]
    tracks, counts = np.unique(trace.track[backward], return_counts=True)
    chosen = [track for track in tracks[np.argsort(-counts, kind="stable")].tolist() if track != main]
    return {track: number for number, track in enumerate(chosen)}
