"""Each instant owned by one interval: of those that run, the one that started last.

On a track all rows compete; in windows, intervals of the first class of which one runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Int32s, Int64s, require_rows
from kinetoscope.algorithms.compiled import compiled, frozen
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.algorithms.ordering import track_order

_NO_ROW: Final = -1
FIRST: Final = int(np.iinfo(np.int64).min)
LAST: Final = int(np.iinfo(np.int64).max)


def owned_time(
    start: Int64s, end: Int64s, order: Int32s, offsets: Int64s, low: int = FIRST, high: int = LAST
) -> Int64s:
    """The time that each row owns of its track from `low` to `high`: int64 [n], 0 for rows that `order` leaves out.

    A row owns what it covers and no row that comes later in order does. Where rows lie in each other without partial
    overlaps that is the duration of a row less those of the rows directly in it; in any case it sums to the union of
    all rows of the track. A row that ends before it starts owns nothing.
    """
    require_rows(start.size, start=start, end=end)
    own = np.zeros(start.size, np.int64)
    below = np.empty(start.size, np.int32)
    _own(
        frozen(start, np.int64),
        frozen(end, np.int64),
        frozen(order, np.int32),
        frozen(offsets, np.int64),
        low,
        high,
        below,
        own,
    )
    return own


@compiled
def _own(
    start: Int64s, end: Int64s, order: Int32s, offsets: Int64s, low: int, high: int, below: Int32s, own: Int64s
) -> None:
    for track in range(offsets.size - 1):
        # Rows begun are a stack, linked by `below`; those that end under others leave when they come up.
        top = -1
        now = low
        for place in range(offsets[track], offsets[track + 1] + 1):
            is_last = place == offsets[track + 1]
            begin = high if is_last else max(low, min(start[order[place]], high))
            while top != -1 and (end[top] <= begin or is_last):
                until = min(end[top], high)
                if until > now:
                    own[top] += until - now
                    now = until
                top = below[top]
            if is_last:
                break
            row = order[place]
            if top != -1 and begin > now:
                own[top] += begin - now
            now = max(now, begin)
            below[row] = top
            top = row


class Owned(NamedTuple):
    """Time that groups own in each window: int32, int32 and int64 [pairs of a window and a group that owns in it].

    Attributes:
        window: number of the window, ascending.
        group: number of the group.
        time: of its intervals in the window, ns, above 0.
    """

    window: Int32s
    group: Int32s
    time: Int64s


def owned_by_group(
    windows: Intervals, spans: Intervals, rank: NDArray[np.integer[Any]], group: Int32s, groups: int
) -> Owned:
    """Divide windows among groups of intervals.

    At each instant the running intervals of the least `rank` compete, and the one that started last owns it; of those
    that started together the shorter one, then the later row. Instants at which none runs are owned by nobody. With w
    windows and n intervals it costs O(n log n + w), however deep they nest and whatever they overlap.

    Args:
        windows: disjoint and ascending; an empty one may stand anywhere.
        spans: the n intervals in any order; what ends before it starts is empty.
        rank: [n], from 0: the class of each; the least comes first.
        group: int32 [n], to which group what it owns is counted, from 0.
        groups: how many groups there are.

    Raises:
        ValueError: the arrays differ in length, windows overlap, or a class or group is out of range.
    """
    require_rows(spans.start.size, end=spans.end, rank=rank, group=group)
    require_rows(windows.start.size, windows=windows.end)
    if group.size and not 0 <= int(group.min()) <= int(group.max()) < groups:
        raise ValueError(f"a group is out of range: there are {groups}")
    if rank.size and int(rank.min()) < 0:
        raise ValueError(f"a class is {rank.min()}; the first one is 0")
    if (windows.start[1:] < np.maximum.accumulate(windows.end)[:-1]).any():
        raise ValueError("the windows overlap, or are not in order")
    nothing = np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64)
    parts = [nothing, *_windows(windows, spans, rank, group, groups)]
    return Owned(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _windows(
    windows: Intervals, spans: Intervals, rank: NDArray[np.integer[Any]], group: Int32s, groups: int
) -> Iterator[tuple[Int32s, Int32s, Int64s]]:
    """The groups that own in each window, and how much."""
    one_track = np.zeros(spans.start.size, np.int32)
    order = frozen(track_order(one_track, spans.start, spans.end, tracks=1)[0], np.int32)
    intervals = (frozen(spans.start, np.int64), frozen(spans.end, np.int64))
    facts = (frozen(rank, np.int32), frozen(group, np.int32))
    top = np.full(int(rank.max()) + 1 if rank.size else 0, _NO_ROW, np.int32)
    below = np.empty(spans.start.size, np.int32)
    total, touched = np.zeros(groups, np.int64), np.empty(groups, np.int32)
    place = 0
    for number, (low, high) in enumerate(zip(windows.start.tolist(), windows.end.tolist(), strict=True)):
        place, count = _divide(low, high, *intervals, *facts, order, place, top, below, total, touched)
        some = touched[:count].copy()
        yield np.full(count, number, np.int32), some, total[some]
        total[some] = 0


@compiled
def _divide(
    low: int,
    high: int,
    start: Int64s,
    end: Int64s,
    rank: Int32s,
    group: Int32s,
    order: Int32s,
    place: int,
    top: Int32s,
    below: Int32s,
    total: Int64s,
    touched: Int32s,
) -> tuple[int, int]:
    """Divide one window.

    The intervals begun are a stack for each class, the one that started last on top: what has ended is taken off when
    it comes up, so each is put on and taken off once.
    """
    count = 0
    time = low
    while time < high:
        while place < order.size and start[order[place]] <= time:
            row = order[place]
            if end[row] > time:
                below[row] = top[rank[row]]
                top[rank[row]] = row
            place += 1
        until = high
        if place < order.size:
            until = min(high, start[order[place]])
        owner = _NO_ROW
        for each in range(top.size):
            while top[each] != _NO_ROW and end[top[each]] <= time:
                top[each] = below[top[each]]
            if top[each] != _NO_ROW:
                owner = top[each]
                break
        if owner != _NO_ROW:
            until = min(until, end[owner])
            if total[group[owner]] == 0:
                touched[count] = group[owner]
                count += 1
            total[group[owner]] += until - time
        time = until
    return place, count
