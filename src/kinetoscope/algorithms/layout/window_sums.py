"""Sums over the spans that touch a window of time, by group: how many, for how long, the least, the longest.

Spans stand in rows by start, as in a `pyramid`, and none overlaps another of its row. So those that touch a window are
one stretch of each row, and only the first and the last of a stretch can reach beyond the window: the rest is summed
without a look at its times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s, UInt32s
from kinetoscope.algorithms.compiled import compiled, frozen, inlined

_LONG_NS = (1 << 32) - 1  # what lasts so long or longer is looked up, as in a pyramid
_COUNT, _CUT, _TOTAL, _SELF, _LEAST, _GREATEST, _LONGEST, _FIELDS = 0, 1, 2, 3, 4, 5, 6, 8


@dataclass(frozen=True, slots=True)
class GroupedSpans:
    """Spans by row, each of a group.

    Attributes:
        order: int32 [spans], numbers of the spans, row by row, by start.
        at: int64 [spans], when each starts, ns; length: uint32 [spans], how long it lasts, ns, at most 2^32 − 1.
        group: int32 [spans], from 0; groups: how many there are.
        own: uint32 [spans], length less that of the children, ns; 2^32 − 1 for what is looked up in `self_time`.
        start, end: int64 [numbers], times by number, ns.
        since: int64 [numbers], from when each adds to the total of its group, in which no instant counts twice.
        until: int64 [numbers], the end of each, or where a span begins in it that ends later.
        self_time: int64 [numbers], time until then less that of the children, ns.
        parent: int32 [numbers], the span that each lies in, NO_PARENT for none.
    """

    order: Int32s
    at: Int64s
    length: UInt32s
    group: Int32s
    groups: int
    own: UInt32s
    start: Int64s
    end: Int64s
    since: Int64s
    until: Int64s
    self_time: Int64s
    parent: Int32s


class WindowSums(NamedTuple):
    """Sums of each group that touches the window; what reaches beyond it counts with the part inside.

    Attributes:
        group: int32 [groups found].
        spans, cut: int64, how many spans, and how many of them reach beyond the window.
        total, self_time: int64, their time, and that less what lies in their children, ns.
        least, greatest: int64, of the time of a span, ns; longest: int64, the number of the one with the greatest.
    """

    group: Int32s
    spans: Int64s
    cut: Int64s
    total: Int64s
    self_time: Int64s
    least: Int64s
    greatest: Int64s
    longest: Int64s


def stretches(
    at: Int64s, length: UInt32s, rows: Int64s, begin: int, end: int, ends: Callable[[int], int]
) -> tuple[Int64s, Int64s]:
    """First place and the one after the last, in each row, of the spans that touch a window: int64 [rows] each.

    A span without length touches the window if it starts in it.

    Args:
        at: of the spans, as in GroupedSpans.
        length: the same.
        rows: where each row begins, [rows + 1].
        begin: of the window, ns.
        end: of the window, ns.
        ends: when the span at a place ends, ns; asked of those whose length 32 bits do not hold.
    """
    low, high = np.empty(rows.size - 1, np.int64), np.empty(rows.size - 1, np.int64)
    for row in range(rows.size - 1):
        own = at[rows[row] : rows[row + 1]]
        first, last = np.searchsorted(own, (begin, end)).tolist()
        place = rows[row] + first - 1
        reaches = first > 0 and (ends(place) if length[place] == _LONG_NS else at[place] + length[place]) > begin
        low[row], high[row] = rows[row] + first - int(reaches), rows[row] + max(last, first - int(reaches))
    return low, high


def window_sums(
    spans: GroupedSpans, low: Int64s, high: Int64s, begin: int, end: int, strays: Int32s | None
) -> WindowSums:
    """The sums over stretches of rows, as `stretches` finds them.

    Args:
        spans: all of them.
        low: first place of the stretch of each row, [rows].
        high: the one after the last, [rows].
        begin: of the window, ns.
        end: of the window, ns.
        strays: the spans whose parent does not stand in the row above theirs, each followed by the group of that
            parent: int32 [2 × spans]. None: spans have no parents, and their self times are 0.
    """
    table, seen = np.zeros(spans.groups * _FIELDS, np.int64), np.empty(spans.groups, np.int32)
    arrays = (
        frozen(spans.order, np.int32), frozen(spans.at, np.int64), frozen(spans.length, np.uint32),
        frozen(spans.group, np.int32), frozen(spans.start, np.int64), frozen(spans.end, np.int64),
        frozen(low, np.int64), frozen(high, np.int64),
    )  # fmt: skip
    own, self_time = frozen(spans.own, np.uint32), frozen(spans.self_time, np.int64)
    since, until = frozen(spans.since, np.int64), frozen(spans.until, np.int64)
    size = _sum(*arrays, since, own, until, self_time, begin, end, strays is not None, table, seen)
    if strays is not None:
        parent = frozen(spans.parent, np.int32)
        _without_children(*arrays, until, parent, begin, end, frozen(strays, np.int32), table)
    present = np.sort(seen[:size])
    columns = table.reshape(-1, _FIELDS)[present].T
    return WindowSums(
        present,
        columns[_COUNT],
        columns[_CUT],
        columns[_TOTAL],
        columns[_SELF],
        columns[_LEAST],
        columns[_GREATEST],
        columns[_LONGEST],
    )


def short_times(times: Int64s) -> UInt32s:
    """Times as `GroupedSpans.own` has them: those that 32 bits do not hold are looked up."""
    return np.where((times >= 0) & (times < _LONG_NS), times, _LONG_NS).astype(np.uint32)


@inlined
def _time(length: UInt32s, start: Int64s, end: Int64s, place: int, item: int) -> int:
    time = end[item] - start[item] if length[place] == _LONG_NS else np.int64(length[place])
    return int(time)


@inlined
def _counted(time: np.int64, at: np.int64, since: np.int64, begin: int) -> int:
    """The part left of a time inside the window, which begins there or at the span's start, since then."""
    late = int(since) - max(int(at), begin)
    return int(time) if late <= 0 else max(int(time) - late, 0)


@compiled
def _sum(
    order: Int32s,
    at: Int64s,
    length: UInt32s,
    group: Int32s,
    start: Int64s,
    end: Int64s,
    low: Int64s,
    high: Int64s,
    since: Int64s,
    own: UInt32s,
    until: Int64s,
    self_time: Int64s,
    begin: int,
    stop: int,
    nested: bool,
    table: Int64s,
    seen: Int32s,
) -> int:
    """Fill in all but what children take from spans that are cut; returns how many groups there are."""
    size = 0
    for row in range(low.size):
        for place in range(low[row], high[row]):
            # In most places nothing is looked up: three columns are read from beginning to end.
            time = np.int64(length[place])
            if time == _LONG_NS:
                time = end[order[place]] - start[order[place]]
            slot = group[place] * _FIELDS
            cut = False
            if place == low[row] or place == high[row] - 1:
                inside = min(at[place] + time, stop) - max(at[place], begin)
                cut = inside < time
                time = inside
            if not table[slot]:
                seen[size] = group[place]
                size += 1
                table[slot + _LEAST] = time
                table[slot + _GREATEST] = -1
            table[slot] += 1
            table[slot + _TOTAL] += _counted(time, at[place], since[order[place]], begin)
            if cut:
                table[slot + _CUT] += 1
            if nested:
                mine = np.int64(own[place])
                if cut:
                    mine = np.int64(max(min(until[order[place]], stop) - max(at[place], begin), 0))
                elif mine == _LONG_NS:
                    mine = self_time[order[place]]
                table[slot + _SELF] += mine
            if time < table[slot + _LEAST]:
                table[slot + _LEAST] = time
            if time > table[slot + _GREATEST]:
                table[slot + _GREATEST] = time
                table[slot + _LONGEST] = order[place]
    return size


@compiled
def _without_children(
    order: Int32s,
    at: Int64s,
    length: UInt32s,
    group: Int32s,
    start: Int64s,
    end: Int64s,
    low: Int64s,
    high: Int64s,
    until: Int64s,
    parent: Int32s,
    begin: int,
    stop: int,
    strays: Int32s,
    table: Int64s,
) -> None:
    """Take from the spans that are cut the time of their children: those in the row below, and strays."""
    for row in range(low.size - 1):
        for side in range(2):
            place = low[row] if side == 0 else high[row] - 1
            if low[row] == high[row] or (side == 1 and place == low[row]):
                continue
            item = order[place]
            last = at[place] + _time(length, start, end, place, item)
            if at[place] >= begin and last <= stop:
                continue
            bottom, top = low[row + 1], high[row + 1]
            while bottom < top:
                middle = (bottom + top) >> 1
                if at[middle] < at[place]:
                    bottom = middle + 1
                else:
                    top = middle
            for child in range(bottom, high[row + 1]):
                if at[child] >= last:
                    break
                if parent[order[child]] == item:
                    inside = min(until[order[child]], stop) - max(at[child], begin)
                    table[group[place] * _FIELDS + _SELF] -= max(inside, 0)
    for stray in range(0, strays.size, 2):
        item = strays[stray]
        around = parent[item]
        inside = min(until[item], stop) - max(start[item], begin)
        if inside > 0 and (start[around] < begin or end[around] > stop):
            table[strays[stray + 1] * _FIELDS + _SELF] -= inside
