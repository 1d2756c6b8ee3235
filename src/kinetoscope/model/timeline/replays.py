"""Replays of graphs on the timeline: a slice for each, and in it the calls that its device work was captured in.

In the lane of a stream each replay is one slice, from the first to the last of its work there. Beneath it stand the
captured calls, each from the first to the last of the work that was launched in it, and beneath these the work itself.
Of Python calls only modules are drawn. A folded lane has one row: slices, and the work that is no replay's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, UInt8s, scattered
from kinetoscope.algorithms.grouping import group, match_first
from kinetoscope.algorithms.intervals.intervals import extents
from kinetoscope.algorithms.layout import packing
from kinetoscope.algorithms.layout.pyramid import Pyramid, pyramid
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import MODULE
from kinetoscope.model.graphs.replays import Replays, replays
from kinetoscope.model.graphs.templates import templates
from kinetoscope.model.timeline.categories import MARK_KINDS, mark_kinds
from kinetoscope.model.timeline.layout import WORK, Lane, lane_of, timeline, times
from kinetoscope.model.trace.captured_calls import nothing_captured
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_beginning
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace

_MAX_ROWS: Final = 62
"""Rows of slices and calls of a lane at most."""

_NO_PLACE: Final = -1


class DrawnPlace(NamedTuple):
    """The place at which an event is drawn: the id of its lane, None if it is not; its row there; start and end, ns."""

    lane: str | None
    depth: int
    start: int
    end: int


@dataclass(frozen=True)
class CallPlaces:
    """The places of captured calls; of a call with work on several streams the first lane counts.

    Attributes:
        lane: int16 [calls], a place among the lanes with replays, −1 for what is drawn nowhere.
        depth: int16 [calls], the row in the lane; start, end: int64 [calls], ns.
    """

    lane: NDArray[np.int16]
    depth: NDArray[np.int16]
    start: Int64s
    end: Int64s

    @staticmethod
    def nowhere(calls: int) -> CallPlaces:
        """Places for so many calls, none of which is drawn yet."""
        lane = np.full(calls, _NO_PLACE, np.int16)
        return CallPlaces(lane, lane.copy(), np.zeros(calls, np.int64), np.zeros(calls, np.int64))

    def note(self, number: int, lane: Lane, opened: _Items, recorded: int) -> None:
        """Note the calls that are drawn in a lane, the one with this number."""
        at = np.flatnonzero(opened.event >= recorded)
        at = at[self.lane[opened.event[at] - recorded] == _NO_PLACE]
        call = opened.event[at] - recorded
        self.lane[call], self.depth[call] = number, lane.rows + 1 + opened.row[at]
        self.start[call], self.end[call] = opened.start[at], opened.end[at]


@dataclass(frozen=True)
class ReplayRows:
    """Rows of replays that are drawn, besides the events of the file.

    Attributes:
        pyramid: of the items, row by row.
        event: int32 [items], the event that a click on each selects: the launch, the captured call, or the work itself.
        name: int32 [items], the code of the name of each; from the number of strings on a place in `titles`.
        titles: of the slices; title: int32 [replays], that of each replay.
        of_lane: by lane the first row in the pyramid, and how many there are. The first is what is seen of the lane
            when it is folded; they count as rows after those of the lane itself.
        calls: where each captured call is drawn.
    """

    pyramid: Pyramid
    event: Int32s
    name: Int32s
    titles: tuple[str, ...]
    title: Int32s
    of_lane: dict[str, tuple[int, int]]
    calls: CallPlaces


@derived
def replay_rows(trace: Trace) -> ReplayRows | None:
    """The rows of replays in the lanes of streams; None where no graph was replayed."""
    every_replay, work, layout = replays(trace), device_work(trace), timeline(trace)
    if not len(every_replay):
        return None
    captured = _CaptureTree(trace)
    replay = scattered(len(work), every_replay.work, every_replay.replay, np.int32)
    titles, of_replay = _titles(trace, every_replay)
    track = trace.track[work.rows]
    is_drawn = layout.layer[work.rows] == WORK
    pieces, of_lane, bounds = list[_Items](), dict[str, tuple[int, int]](), [0]
    calls = CallPlaces.nowhere(len(trace) - trace.recorded)
    for lane in layout.lanes:
        here = np.flatnonzero(is_drawn & (track == lane.track)) if lane.layer == WORK else np.empty(0, np.int64)
        if not (replay[here] >= 0).any():
            continue
        folded, opened = _lane_items(trace, here, replay, of_replay, captured)
        order = np.lexsort((-folded.end, folded.start))
        of_lane[lane.id] = len(bounds) - 1, 1 + (int(opened.row.max()) + 1)
        pieces.append(folded.at(order))
        bounds.append(bounds[-1] + len(order))
        order = np.lexsort((-opened.end, opened.start, opened.row))
        opened = opened.at(order)
        pieces.append(opened)
        ends = bounds[-1] + np.cumsum(np.bincount(opened.row))
        bounds += ends.tolist()
        calls.note(len(of_lane) - 1, lane, opened, trace.recorded)
    items = _joined(pieces)
    every: Int32s = np.arange(len(items.start), dtype=np.int32)
    return ReplayRows(
        pyramid(items.start, items.end, items.kind, every, np.array(bounds, np.int64)),
        items.event,
        items.name,
        titles,
        of_replay,
        of_lane,
        calls,
    )


def place_of(trace: Trace, row: int) -> DrawnPlace:
    """The place at which an event is drawn. A captured call, which has no length of its own, is where its work is."""
    rows, call = replay_rows(trace), row - trace.recorded
    if rows is not None and call >= 0:
        drawn = rows.calls
        number = int(drawn.lane[call])
        lane_id = list(rows.of_lane)[number] if number >= 0 else None
        return DrawnPlace(lane_id, int(drawn.depth[call]), int(drawn.start[call]), int(drawn.end[call]))
    start, end = (int(each[row]) for each in times(trace))
    lane = lane_of(trace, row)
    return DrawnPlace(lane.id if lane else None, int(timeline(trace).depth[row]), start, max(start, end))


class ReplayOf(NamedTuple):
    """The replay that an event belongs to: what its slice is called, and the number of its template."""

    title: str
    template: int


def replay_of(trace: Trace, row: int) -> ReplayOf | None:
    """The replay that an event launches, is work of, or was captured for; None for others."""
    rows, every_replay, work = replay_rows(trace), replays(trace), device_work(trace)
    if rows is None:
        return None
    launch = row
    place = int(np.searchsorted(work.rows, row))
    if row >= trace.recorded and trace.captured is not None:
        launch = int(trace.captured.launch[row - trace.recorded])
    elif place < len(work) and work.rows[place] == row:
        launch = int(work.launch[place])
    of = np.flatnonzero((every_replay.launch == launch) & (launch >= 0))
    return ReplayOf(rows.titles[rows.title[of[0]]], int(templates(trace).of_replay[of[0]])) if len(of) else None


class DrawnEvents(NamedTuple):
    """The events that are drawn, and when: bool, int64 and int64 [events], ns."""

    mask: Bools
    start: Int64s
    end: Int64s


@derived
def drawn_events(trace: Trace) -> DrawnEvents:
    """Everything that is drawn: events of the file, and captured calls where their work is."""
    mask, (start, end) = timeline(trace).layer >= 0, times(trace)
    if (rows := replay_rows(trace)) is None or trace.captured is None:
        return DrawnEvents(mask, start, end)
    own, start, end = rows.calls.lane >= 0, start.copy(), end.copy()
    mask[trace.recorded :] = own
    start[trace.recorded :][own], end[trace.recorded :][own] = rows.calls.start[own], rows.calls.end[own]
    return DrawnEvents(mask, start, end)


class _Items(NamedTuple):
    """Things to draw: start and end in ns, kind of mark, the event of each, its name, its row in the lane."""

    start: Int64s
    end: Int64s
    kind: UInt8s
    event: Int32s
    name: Int32s
    row: Int32s

    def at(self, places: Int64s) -> _Items:
        """The items at some places."""
        columns: tuple[Any, ...] = self
        return _Items(*(column[places] for column in columns))


def _joined(parts: Sequence[_Items]) -> _Items:
    columns: Iterable[Any] = zip(*parts, strict=True)
    return _Items(*(np.concatenate(each) for each in columns))


def _titles(trace: Trace, every_replay: Replays) -> tuple[tuple[str, ...], Int32s]:
    """Titles of slices: what the graph was captured as, or its number; and which of these each replay is."""
    every = templates(trace)
    label = np.full(len(every_replay), _NO_PLACE, np.int32)
    labels = trace.captured.labels if trace.captured else ()
    if trace.captured and len(trace.captured.replay):
        place = match_first(every_replay.launch.astype(np.int64), trace.captured.replay.astype(np.int64))
        label = np.where(place >= 0, trace.captured.label[place], _NO_PLACE)
    code, first = group(every.of_replay, every_replay.sizes, label)
    titles = []
    for at in first.tolist():
        template, size = int(every.of_replay[at]), int(every_replay.sizes[at])
        number = int(every.graph[template])
        name = (label[at] >= 0 and labels[label[at]]) or f"graph {number if number >= 0 else template}"
        whole = int(every.nodes[template])
        titles.append(f"{name} · {number_of(whole, 'node') if size == whole else f'{size:,} of {whole:,} nodes'}")
    return tuple(titles), code


class _CaptureTree:
    """The captured calls of a trace.

    Attributes:
        recorded: the row of the first.
        parent: int32 [calls], row around each.
        launch: int32 [calls], row of the launch that each lies in.
        is_drawn: bool [calls]; shown: int32 [calls], the row of the nearest that is, itself or around it, else −1.
        levels: places of the calls by depth, the outermost first.
    """

    def __init__(self, trace: Trace) -> None:
        calls = trace.captured or nothing_captured(len(trace), ())
        self.recorded, self.parent, self.launch = calls.recorded, calls.parent, calls.launch
        order = np.argsort(calls.depth, kind="stable")
        self.levels = np.split(order, np.flatnonzero(np.diff(calls.depth[order])) + 1)
        drawn = ~_is_frame(trace)
        drawn[: self.recorded] = False
        self.is_drawn: Bools = drawn[self.recorded :]
        self.shown = ancestor(call_tree(trace).parent, drawn)[self.recorded :]

    def extents(self, call: Int32s, start: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
        """From the first to the last of some work, by call: int64 [calls] each; the end of one without any is least."""
        first, last = extents(call - self.recorded, len(self.parent), start, end)
        for level in reversed(self.levels):
            inner = level[self.parent[level] >= self.recorded]
            np.minimum.at(first, self.parent[inner] - self.recorded, first[inner])
            np.maximum.at(last, self.parent[inner] - self.recorded, last[inner])
        return first, last


def _is_frame(trace: Trace) -> Bools:
    """Python calls that are no modules: bool [events]."""
    modules: Bools = rows_beginning(trace, (MODULE,), EventKind.PYTHON)
    frames: Bools = (trace.kind == EventKind.PYTHON) & ~modules
    return frames


def _lane_items(
    trace: Trace, here: Int64s, replay: Int32s, title: Int32s, captured: _CaptureTree
) -> tuple[_Items, _Items]:
    """Items of a lane with this work when it is folded, and the slices and calls when it is not."""
    work, kinds = device_work(trace), mark_kinds(trace)
    strings = len(trace.strings)
    own, eager = here[replay[here] >= 0], here[replay[here] < 0]
    numbers, code = np.unique(replay[own], return_inverse=True)
    start, end = extents(code, len(numbers), work.start[own], work.end[own])
    time = np.zeros((len(numbers), len(MARK_KINDS)), np.int64)
    np.add.at(time, (code, kinds[work.rows[own]]), work.duration[own])
    first = scattered(len(numbers), code[::-1], own[::-1], np.int64)
    launch = work.launch[first]
    none = np.zeros(len(numbers), np.int32)
    slices = _Items(start, end, time.argmax(axis=1).astype(np.uint8), launch, strings + title[numbers], none)
    rows = work.rows[eager]
    alone = _Items(work.start[eager], work.end[eager], kinds[rows], rows, trace.name[rows], rows * 0)
    return _joined([slices, alone]), _packed(
        trace, slices, captured, work.captured[own], work.start[own], work.end[own]
    )


def _packed(trace: Trace, slices: _Items, captured: _CaptureTree, call: Int32s, begin: Int64s, until: Int64s) -> _Items:
    """Slices and the calls in them, each in a row below what it lies in."""
    first, last = captured.extents(call, begin, until)
    chosen = np.flatnonzero(captured.is_drawn & (last >= first))
    rows = (captured.recorded + chosen).astype(np.int32)
    calls = _Items(first[chosen], last[chosen], mark_kinds(trace)[rows], rows, trace.name[rows], rows * 0)
    items = _joined([slices, calls])
    place = scattered(len(trace) + 1, slices.event[slices.event >= 0], np.flatnonzero(slices.event >= 0), np.int32)
    place[rows] = len(slices.start) + np.arange(len(rows))
    outer = captured.parent[chosen]
    inner = outer >= captured.recorded
    outer[inner] = captured.shown[outer[inner] - captured.recorded]
    outer = np.where(outer >= 0, outer, captured.launch[chosen])
    parent = np.concatenate([np.full(len(slices.start), _NO_PLACE, np.int32), place[outer]])
    order = np.lexsort((np.arange(len(items.start)), -items.end, items.start)).astype(np.int32)
    offsets = np.array([0, len(order)], np.int64)
    return items._replace(row=packing.packed(items.start, items.end, order, offsets, parent, most=_MAX_ROWS))
