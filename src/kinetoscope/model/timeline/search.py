"""Events by a part of their name, by their arguments, or of one name; in order of time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int32s, Int64s, marked
from kinetoscope.algorithms.layout.packing import by_number
from kinetoscope.algorithms.layout.pyramid import LONGEST_SPAN
from kinetoscope.model.execution.calls import call_names
from kinetoscope.model.timeline.argument_search import rows_with_argument
from kinetoscope.model.timeline.layout import timeline
from kinetoscope.model.timeline.replays import drawn_events, place_of
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

Direction = Literal["next", "previous"]

BUCKETS: Final = 512

MAX_CODES: Final = 10_000

_CODE, _NAME = "code", "name"

_EVENTS_A_HIT: Final = 64
"""Events for each hit above which the hits are sorted; more hits are picked from all events in order of time."""


@dataclass(frozen=True)
class Hits:
    """The events that match a search.

    Attributes:
        rows: int32 [hits], by start, then by row.
        codes: int32 [names], the names that match, ascending; of a search in arguments the names of the hits.
        by_arguments: whether arguments were searched, too: then not all events of these names are hits.
    """

    rows: Int32s
    codes: Int32s
    by_arguments: bool = False


@dataclass(frozen=True)
class SearchResult:
    """One of the hits, as asked for; without any, `at` is −1 and the fields of the hit are None.

    Attributes:
        total: number of hits in the range; at: place of this one among them, from 0.
        matches_by_bucket: hits in each of BUCKETS equal stretches of the whole timeline.
        codes: the names that match, at most `MAX_CODES`; of a search in arguments those of the hits.
        rows: all hits of a search in arguments; None where there are more than `MAX_CODES`, and of one in names.
        row, name, start, end, lane, depth: of the hit, times in ns after the origin.
    """

    total: int
    at: int
    matches_by_bucket: list[int]
    codes: list[int]
    rows: list[int] | None = None
    row: int | None = None
    name: str | None = None
    start: int | None = None
    end: int | None = None
    lane: str | None = None
    depth: int | None = None


def search(
    trace: Trace, every: Hits, after: int | None, direction: Direction, begin: int | None, end: int | None
) -> SearchResult:
    """The next or previous hit from row `after` on, among those that start from `begin` to before `end`."""
    layout = timeline(trace)
    inside = every
    if begin is not None or end is not None:
        low, high = (-LONGEST_SPAN if begin is None else begin), (LONGEST_SPAN if end is None else end)
        inside = within(trace, every, layout.origin + low, layout.origin + high)
    place = near(trace, inside, after, direction)
    counts, codes = by_bucket(trace, every).tolist(), every.codes[:MAX_CODES].tolist()
    marked = every.rows.tolist() if every.by_arguments and len(every.rows) <= MAX_CODES else None
    if place < 0:
        return SearchResult(len(inside.rows), place, counts, codes, marked)
    row = int(inside.rows[place])
    drawn, name = place_of(trace, row), trace.strings.label(int(trace.name[row]))
    return SearchResult(
        len(inside.rows), place, counts, codes, marked, row, name, drawn.start - layout.origin,
        drawn.end - layout.origin, drawn.lane, drawn.depth,
    )  # fmt: skip


@derived
def hits(trace: Trace, text: str) -> Hits:
    """The events that are drawn and have `text` in their name, whatever the case."""
    names, by_name, in_time = _names(trace), _by_name(trace), _in_time(trace)
    codes = names.filter(pl.col(_NAME).str.contains(text.lower(), literal=True))[_CODE].to_numpy()
    counts = by_name.offsets[codes + 1] - by_name.offsets[codes]
    if counts.sum() * _EVENTS_A_HIT > len(by_name.rows):
        matches = marked(len(trace.strings), codes)
        return Hits(in_time[matches[trace.name[in_time]]], codes)
    steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = np.sort(by_name.rows[np.repeat(by_name.offsets[codes], counts) + steps])
    return Hits(rows[np.argsort(drawn_events(trace).start[rows], kind="stable")], codes)


def rows_with_text_or_argument(trace: Trace, text: str, go_on: Callable[[], None]) -> Int32s:
    """The events that are drawn and have `text` in their name, or an argument that matches it: int32 [hits], by start.

    `go_on` is called now and then; what it raises ends the search.
    """
    rows = rows_with_argument(trace, text, go_on)
    rows = np.union1d(rows[drawn_events(trace).mask[rows]], hits(trace, text).rows).astype(np.int32)
    return rows[np.argsort(drawn_events(trace).start[rows], kind="stable")]


def argument_hits(trace: Trace, rows: Int32s) -> Hits:
    """The hits of a search in arguments, by start: int32 [hits]."""
    names = np.unique(trace.name[rows])
    return Hits(rows, names[names >= 0], by_arguments=True)


def same_name_hits(trace: Trace, row: int) -> Hits:
    """The events of the name and kind of an event, as `event.same_name` counts them; by start, then by row."""
    names = call_names(trace)
    same_name = (names == names[row]) & (trace.kind == trace.kind[row]) & drawn_events(trace).mask
    rows = np.flatnonzero(same_name).astype(np.int32)
    return Hits(rows[np.argsort(drawn_events(trace).start[rows], kind="stable")], np.unique(trace.name[rows]))


def near(trace: Trace, every: Hits, after: int | None, direction: Direction) -> int:
    """The place of the hit that follows a row in time, or comes before it; at the end it begins anew. −1 for none.

    Without a row it is the first one, or the last.
    """
    if not len(every.rows):
        return -1
    if after is None:
        return 0 if direction == "next" else len(every.rows) - 1
    time = int(drawn_events(trace).start[after])
    low, high = _place(trace, every, time), _place(trace, every, time + 1)
    same = every.rows[low:high]  # of one instant, by row
    if direction == "next":
        place = low + int(np.searchsorted(same, after, side="right"))
    else:
        place = low + int(np.searchsorted(same, after, side="left")) - 1
    return place % len(every.rows)


def within(trace: Trace, every: Hits, begin: int, end: int) -> Hits:
    """The ones that start from `begin` to before `end`, ns as the file counts them."""
    return Hits(every.rows[_place(trace, every, begin) : _place(trace, every, end)], every.codes)


def by_bucket(trace: Trace, every: Hits) -> Int64s:
    """How many start in each of BUCKETS equal stretches of the timeline: int64 [BUCKETS]."""
    layout = timeline(trace)
    bucket = max(-(-layout.end // BUCKETS), 1)
    cuts = [_place(trace, every, layout.origin + bucket * number) for number in range(1, BUCKETS)]
    return np.diff([0, *cuts, len(every.rows)])


def _place(trace: Trace, every: Hits, time: int) -> int:
    """The place of the first hit that starts at a time or later."""
    start = drawn_events(trace).start
    return bisect_left(every.rows, time, key=start.__getitem__)


@dataclass(frozen=True)
class _ByName:
    """The events that are drawn, by name: int32 [drawn]; int64 [strings + 1], where those of each name begin."""

    rows: Int32s
    offsets: Int64s


@derived
def _by_name(trace: Trace) -> _ByName:
    drawn = np.flatnonzero(drawn_events(trace).mask & (trace.name >= 0)).astype(np.int32)
    return _ByName(*by_number(trace.name, drawn, len(trace.strings)))


@derived
def _in_time(trace: Trace) -> Int32s:
    """The events that are drawn and have a name, by start, then by row: int32 [drawn]."""
    rows = np.flatnonzero(drawn_events(trace).mask & (trace.name >= 0)).astype(np.int32)
    return rows[np.argsort(drawn_events(trace).start[rows], kind="stable")]


@derived
def _names(trace: Trace) -> pl.DataFrame:
    """The names of what is drawn, in lower case."""
    codes = np.flatnonzero(np.diff(_by_name(trace).offsets)).astype(np.int32)
    texts = [trace.strings.glance(code).lower() for code in codes.tolist()]
    return pl.DataFrame({_CODE: codes, _NAME: pl.Series(texts, dtype=pl.String)})
