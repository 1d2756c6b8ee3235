"""An area of the timeline, a stretch of time in some lanes: its events by name, by lane or by kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int32s, Int64s, scattered
from kinetoscope.algorithms.grouping import group
from kinetoscope.algorithms.layout.window_sums import GroupedSpans, short_times, stretches, window_sums
from kinetoscope.algorithms.trees.tree import counted_from
from kinetoscope.model.execution.call_tree import call_tree, self_times, whole_calls
from kinetoscope.model.execution.calls import call_name, call_names
from kinetoscope.model.timeline.categories import MARK_KINDS, mark_kinds
from kinetoscope.model.timeline.layout import CALLS, Lane, lane_of, timeline, times
from kinetoscope.model.timeline.search import Hits, near
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Result, Schema

GROUPINGS: Final = ("name", "name_and_lane", "lane", "kind")
"""What a row of the table is about."""

_COUNTED: Final = (
    Column("count", pl.Int64, "Events that touch the area."),
    Column(
        "total", pl.Int64, "Their time inside the area, an instant of a lane once; by lane and kind self time.", "ns"
    ),
    Column(
        "self",
        pl.Int64,
        "Time inside the area in which they run and no call inside them does; null for what does not nest.",
        "ns",
    ),
    Column("mean", pl.Float64, "Total / count.", "ns"),
    Column("min", pl.Int64, "The least time of one of them inside the area.", "ns"),
    Column("max", pl.Int64, "The greatest time of one of them inside the area.", "ns"),
    Column(
        "share", pl.Float64, "Total / length of the area; above 1 where it runs on several lanes at once.", "fraction"
    ),
    Column("cut", pl.Int64, "How many of them reach beyond the area: of these, the part inside counts."),
    Column("longest", pl.Int64, "Row of the one that takes most time inside the area."),
    Column("longest_rank", pl.Int64, "Rank of that one."),
)
_KEYS: Final = {
    "name": Column("name", pl.String, "Name, as all tables have it."),
    "kind": Column("kind", pl.String, "Kind, which gives the marks their colour."),
    "group": Column("group", pl.String, "Process or device of the lane."),
    "lane": Column("lane", pl.String, "Lane of the timeline."),
    "rank": Column("rank", pl.Int64, "Rank of the process."),
}
_KEYS_BY: Final = {
    "name": ("name", "kind"),
    "name_and_lane": ("name", "kind", "rank", "group", "lane"),
    "lane": ("rank", "group", "lane"),
    "kind": ("kind",),
}


class LanesOfRank(NamedTuple):
    """The part of an area that lies in one rank: its trace, the lanes, and begin and end in ns after its origin."""

    trace: Trace
    lanes: Sequence[Lane]
    begin: int
    end: int


class Occurrence(NamedTuple):
    """An event among those of an area that have its name and kind: its row, its place in time, how many there are."""

    row: int
    place: int
    total: int


@dataclass(frozen=True)
class _NamedSpans:
    """Events that are drawn, by name and kind.

    Attributes:
        spans: of the timeline, of which each is of the group of its name and kind.
        first: int32 [groups], an event of each.
        strays: int32 [2 × calls], calls whose parent is drawn elsewhere than in the row above, by track, each followed
            by the group of its parent; tracks: int32 [calls], the track of each.
    """

    spans: GroupedSpans
    first: Int32s
    strays: Int32s
    tracks: Int32s


@derived
def _named_spans(trace: Trace) -> _NamedSpans:
    layout = timeline(trace)
    start, end = times(trace)
    order = layout.pyramid.order
    codes, first = group(call_names(trace)[order], mark_kinds(trace)[order])
    parent, until = whole_calls(trace)
    nested = np.flatnonzero(parent[: trace.recorded] >= 0)
    strays = nested[layout.depth[nested] != layout.depth[parent[nested]] + 1]
    strays = strays[np.argsort(trace.track[strays], kind="stable")].astype(np.int32)
    of_parent = np.zeros(0, np.int32)
    if len(strays):
        of_event = np.zeros(len(trace), np.int32)
        of_event[order] = codes
        of_parent = of_event[parent[strays]]
    spans, self_time = layout.pyramid.spans, self_times(trace)
    own, since = short_times(self_time[order]), _since(trace, order, codes, len(first))
    return _NamedSpans(
        GroupedSpans(
            order,
            spans.at,
            spans.own,
            codes,
            len(first),
            own,
            start,
            end,
            since,
            np.minimum(until, end),
            self_time,
            parent,
        ),
        order[first],
        np.stack([strays, of_parent], axis=1).ravel().astype(np.int32),
        trace.track[strays],
    )


def _since(trace: Trace, order: Int32s, codes: Int32s, groups: int) -> Int64s:
    """From when each event adds to the total of its name and kind: int64 [events]; `codes`, the groups in `order`."""
    calls = call_tree(trace)
    code = scattered(len(trace), order, codes, np.int32)
    start, end = times(trace)
    return counted_from(calls.order, calls.offsets, start, end, code, groups)


def area_table(parts: Sequence[LanesOfRank], by: str) -> Result:
    """Events in an area, by one of GROUPINGS: a row for each name (and kind), lane or kind, by self time.

    What does not nest has all of its time to itself. Of an event that reaches beyond the area the part inside counts.
    """
    keys = [key for key in _KEYS_BY[by] if key != "rank" or len(parts) > 1]
    schema = Schema(*(_KEYS[key] for key in keys), *_COUNTED)
    cells = [frame for part in parts for frame in _cells(part)]
    if not cells:
        return Result(schema.empty(), schema, (Note("EMPTY_AREA", "Nothing was recorded in this area."),))
    length = max([1, *(part.end - part.begin for part in parts)])
    most = pl.col("max").arg_max()
    every = pl.concat(cells)
    if by in ("lane", "kind"):  # where calls of several names lie in each other
        every = every.with_columns(total=pl.coalesce("self", "total"))
    frame = (
        every.group_by(keys, maintain_order=True)
        .agg(
            pl.col("count", "total", "cut").sum(),
            pl.when(pl.col("self").is_not_null().any()).then(pl.col("self").sum()).alias("self"),
            pl.col("min").min(),
            pl.col("max").max(),
            pl.col("longest", "longest_rank").get(most),
        )
        .with_columns(mean=pl.col("total") / pl.col("count"), share=pl.col("total") / length)
        .sort(pl.coalesce("self", "total"), "total", descending=True, maintain_order=True)
    )
    cut, events = (int(frame[name].sum()) for name in ("cut", "count"))
    verb = "reaches" if cut == 1 else "reach"
    said = f"{cut:,} of {number_of(events, 'event')} {verb} beyond the area: the part inside counts."
    return Result(schema.conform(frame), schema, (Note("CUT_BY_AREA", said),) if cut else ())


def _cells(part: LanesOfRank) -> Iterator[pl.DataFrame]:
    """The sums of each lane by name and kind."""
    trace = part.trace
    named = _named_spans(trace)
    for lane, low, high in _stretches(part):
        strays = None
        if lane.layer == CALLS:
            bounds = np.searchsorted(named.tracks, [lane.track, lane.track + 1])
            strays = named.strays[2 * bounds[0] : 2 * bounds[1]]
        sums = window_sums(named.spans, low, high, *_window(part), strays)
        if not len(sums.group):
            continue
        first = named.first[sums.group]
        yield pl.DataFrame(
            {
                "name": _names(trace, first),
                "kind": [MARK_KINDS[kind] for kind in mark_kinds(trace)[first].tolist()],
                "rank": pl.Series([trace.source.rank] * len(first), dtype=pl.Int64),
                "group": [lane.group.title] * len(first),
                "lane": [lane.title] * len(first),
                "count": sums.spans,
                "cut": sums.cut,
                "total": sums.total,
                "self": sums.self_time if strays is not None else pl.Series([None] * len(first), dtype=pl.Int64),
                "min": sums.least,
                "max": sums.greatest,
                "longest": sums.longest,
                "longest_rank": pl.Series([trace.source.rank] * len(first), dtype=pl.Int64),
            }
        )


def _names(trace: Trace, rows: Int32s) -> list[str]:
    names, kinds = call_names(trace)[rows].tolist(), trace.kind[rows].tolist()
    return [call_name(trace.strings.label(name), kind) for name, kind in zip(names, kinds, strict=True)]


def _window(part: LanesOfRank) -> tuple[int, int]:
    origin = timeline(part.trace).origin
    return origin + part.begin, origin + part.end


def _stretches(part: LanesOfRank) -> Iterator[tuple[Lane, Int64s, Int64s]]:
    """The stretches of the rows of each lane that touch the area."""
    pyramid, end = timeline(part.trace).pyramid, times(part.trace)[1]

    def ends(place: int) -> int:
        return int(end[pyramid.order[place]])

    for lane in part.lanes:
        rows = pyramid.rows[lane.first : lane.first + lane.rows + 1]
        low, high = stretches(pyramid.spans.at, pyramid.spans.own, rows, *_window(part), ends)
        if (high > low).any():
            yield lane, low, high


def occurrence(part: LanesOfRank, row: int, which: str) -> Occurrence | None:
    """The next or the previous event of an area with the name and kind of a row, or the longest; None: there is none.

    After the last comes the first.

    Args:
        part: the area.
        row: of the trace; it need not lie in the area.
        which: "next", "previous" or "longest".
    """
    trace = part.trace
    lane = lane_of(trace, row)
    spans = _named_spans(trace).spans
    if lane is None:
        return None
    own = timeline(trace).pyramid.rows[lane.first : lane.first + lane.rows + 1]
    place = int(own[0]) + int(np.flatnonzero(spans.order[own[0] : own[-1]] == row)[0])
    of = spans.group[place]
    parts = [
        spans.order[first + np.flatnonzero(spans.group[first:last] == of)]
        for _, low, high in _stretches(part)
        for first, last in zip(low.tolist(), high.tolist(), strict=True)
    ]
    rows = np.concatenate([np.empty(0, np.int32), *parts])
    if not len(rows):
        return None
    rows = rows[np.lexsort((rows, spans.start[rows]))]
    if which == "longest":
        begin, end = _window(part)
        place = int(np.argmax(np.minimum(spans.end[rows], end) - np.maximum(spans.start[rows], begin)))
    else:
        place = near(trace, Hits(rows, np.unique(trace.name[rows])), row, "next" if which == "next" else "previous")
    return Occurrence(int(rows[place]), place, len(rows))
