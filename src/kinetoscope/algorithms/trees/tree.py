"""Call trees: which row encloses which on its track, and what follows from that for sums and look-ups.

Rows come in the order of `ordering.track_order`. A row that ends before it starts counts as empty.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, require_rows
from kinetoscope.algorithms.compiled import compiled, frozen
from kinetoscope.algorithms.grouping import sum_by

NO_ROW = -1
_NOT_VISITED = -2


class Cut(IntEnum):
    """The piece that is cut off where a row begins in another and ends after it."""

    SHORTER = 0
    """The shorter piece: of the later row what lies outside, or of the earlier row what the two have in common."""
    LATER = 1
    """Of the later row what lies outside."""
    EARLIER = 2
    """Of the earlier row what the two have in common: each row lies as a whole in those around it."""


class Nested(NamedTuple):
    """Rows as a tree.

    Attributes:
        parent: int32 [n], the row directly around each, NO_ROW for outermost rows and those that take no part.
        depth: int32 [n], 0 for outermost rows, -1 for those that take no part.
        until: int64 [n], until when each is open in the tree: its end, or where it was cut.
        partial: how many rows end after the innermost row that they begin in.
    """

    parent: Int32s
    depth: Int32s
    until: Int64s
    partial: int


def nest(start: Int64s, end: Int64s, order: Int32s, offsets: Int64s, *, cut: Cut = Cut.SHORTER) -> Nested:
    """The innermost row around each row of its track: the one that began last of those that are open when it starts.

    A row that begins in another and ends after it cannot be drawn as a tree, so one of the two is cut: the later one
    where the earlier ends, or the earlier one where the later begins. Cutting the shorter piece off, a row that ends a
    little late takes nothing away from the rows around it, nor does one in which a long row begins from that.
    """
    require_rows(start.size, start=start, end=end)
    parent = np.full(start.size, NO_ROW, np.int32)
    depth = np.full(start.size, -1, np.int32)
    spans = frozen(start, np.int64), frozen(end, np.int64)
    partial = _nest(*spans, *_tracks(order, offsets), int(cut), parent, depth, np.empty(0, np.int64))
    if partial == 0:
        return Nested(parent, depth, end, 0)
    until = np.array(end, np.int64)
    partial = _nest(*spans, *_tracks(order, offsets), int(cut), parent, depth, until)
    return Nested(parent, depth, until, partial)


def children_sum(values: Int64s, parent: Int32s) -> Int64s:
    """Sum of `values` over the direct children of each row: int64 [n]."""
    return sum_by(parent, parent.size, values)


def subtree_sum(values: Int64s, parent: Int32s, order: Int32s) -> Int64s:
    """Sum of `values` over each row and all that it encloses: int64 [n]; `order` has parents before children."""
    require_rows(parent.size, parent=parent, values=values)
    total = np.array(values, np.int64)
    _add_to_parents(frozen(order, np.int32), frozen(parent, np.int32), total)
    return total


def ancestor(parent: Int32s, is_wanted: Bools) -> Int32s:
    """The row itself if it is wanted, else the nearest wanted row that encloses it, else NO_ROW: int32 [n]."""
    require_rows(parent.size, parent=parent, is_wanted=is_wanted)
    rows = np.full(parent.size, _NOT_VISITED, np.int32)
    _find_ancestors(frozen(parent, np.int32), frozen(is_wanted, np.bool_), rows)
    return rows


def outermost(parent: Int32s, is_wanted: Bools) -> Bools:
    """Wanted rows that lie in no other wanted row: bool [n]."""
    around = np.append(ancestor(parent, is_wanted), np.int32(NO_ROW))
    return np.asarray(is_wanted & (around[parent] < 0))


def counted_from(order: Int32s, offsets: Int64s, start: Int64s, end: Int64s, group: Int32s, groups: int) -> Int64s:
    """From when each row runs alone of its group: int64 [n], its start, or the end of one that began before.

    Counted from there, rows of a group that lie in each other, at whatever depth, sum to the time in which any runs.

    Args:
        order: the rows, with `offsets` of their tracks.
        offsets: as `ordering.track_order` gives them.
        start: int64 [n].
        end: int64 [n].
        group: int32 [n], from 0; negative for rows of no group.
        groups: how many groups there are.
    """
    require_rows(start.size, start=start, end=end, group=group)
    rows = frozen(start, np.int64), frozen(end, np.int64), frozen(group, np.int32)
    reach, on_track, since = np.empty(groups, np.int64), np.full(groups, -1, np.int64), np.array(start, np.int64)
    _count_from(*_tracks(order, offsets), *rows, reach, on_track, since)
    return since


def enclosing(
    order: Int32s,
    offsets: Int64s,
    start: Int64s,
    until: Int64s,
    parent: Int32s,
    query_track: Int32s,
    query_time: Int64s,
) -> Int32s:
    """The innermost row that is open on a track at a time, else NO_ROW: int32 [queries].

    Of the rows with start <= time < until it is the last in order; `parent` and `until` are what `nest` made of the
    same rows. A track that does not exist has no rows.
    """
    require_rows(start.size, start=start, until=until, parent=parent)
    require_rows(query_time.size, query_track=query_track, query_time=query_time)
    rows = np.empty(query_time.size, np.int32)
    _find_enclosing(
        *_tracks(order, offsets),
        frozen(start, np.int64),
        frozen(until, np.int64),
        frozen(parent, np.int32),
        frozen(query_track, np.int32),
        frozen(query_time, np.int64),
        rows,
    )
    return rows


def _tracks(order: Int32s, offsets: Int64s) -> tuple[Int32s, Int64s]:
    return frozen(order, np.int32), frozen(offsets, np.int64)


_SHORTER, _LATER = int(Cut.SHORTER), int(Cut.LATER)


@compiled
def _nest(
    start: Int64s, end: Int64s, order: Int32s, offsets: Int64s, cut: int, parent: Int32s, depth: Int32s, until: Int64s
) -> int:
    """Returns how many rows overlap another one partly; without room in `until` it stops at the first one."""
    partial = 0
    ends = until if until.size else end
    for track in range(offsets.size - 1):
        # The open rows are a chain of parents: below the top lies its parent, and closing it is a step up.
        top = NO_ROW
        for place in range(offsets[track], offsets[track + 1]):
            row = order[place]
            begin, last = start[row], end[row]
            overlaps = False
            while top != NO_ROW:
                if begin < ends[top]:
                    if last <= ends[top]:
                        break
                    if until.size == 0:
                        return 1
                    overlaps |= last > end[top]
                    # As unsigned numbers: signed ones have no room for lengths of over 2^63.
                    outside, common = np.uint64(last) - np.uint64(end[top]), np.uint64(end[top]) - np.uint64(begin)
                    if last <= end[top] or cut == _LATER or (cut == _SHORTER and outside <= common):
                        until[row] = until[top]
                        break
                    until[top] = begin
                top = parent[top]
            if overlaps:
                partial += 1
            parent[row] = top
            depth[row] = 0 if top == NO_ROW else depth[top] + 1
            top = row
    return partial


@compiled
def _add_to_parents(order: Int32s, parent: Int32s, total: Int64s) -> None:
    for place in range(order.size - 1, -1, -1):
        row = order[place]
        if parent[row] != NO_ROW:
            total[parent[row]] += total[row]


@compiled
def _find_ancestors(parent: Int32s, is_wanted: Bools, rows: Int32s) -> None:
    """A row is climbed over once: what was found above it is written to all of the path."""
    for row in range(parent.size):
        above = row
        while above != NO_ROW and rows[above] == _NOT_VISITED and not is_wanted[above]:
            above = parent[above]
        answer = above
        if above != NO_ROW and rows[above] != _NOT_VISITED:
            answer = rows[above]
        step = row
        while step != above:
            rows[step] = answer
            step = parent[step]
        if above != NO_ROW:
            rows[above] = answer


@compiled
def _count_from(
    order: Int32s,
    offsets: Int64s,
    start: Int64s,
    end: Int64s,
    group: Int32s,
    reach: Int64s,
    on_track: Int64s,
    since: Int64s,
) -> None:
    """`reach`: the greatest end so far of each group, `on_track`: on which track that is."""
    for track in range(offsets.size - 1):
        for place in range(offsets[track], offsets[track + 1]):
            row = order[place]
            its = group[row]
            if its < 0:
                continue
            if on_track[its] != track:
                on_track[its] = track
                reach[its] = end[row]
                continue
            since[row] = max(start[row], reach[its])
            reach[its] = max(reach[its], end[row])


@compiled
def _find_enclosing(
    order: Int32s,
    offsets: Int64s,
    start: Int64s,
    until: Int64s,
    parent: Int32s,
    track: Int32s,
    time: Int64s,
    rows: Int32s,
) -> None:
    for query in range(time.size):
        row = NO_ROW
        if 0 <= track[query] < offsets.size - 1:
            low, first = offsets[track[query]], offsets[track[query]]
            high = offsets[track[query] + 1]
            while low < high:
                probe = (low + high) >> 1
                if start[order[probe]] <= time[query]:
                    low = probe + 1
                else:
                    high = probe
            if low > first:
                row = order[low - 1]
                while row != NO_ROW and until[row] <= time[query]:
                    row = parent[row]
        rows[query] = row
