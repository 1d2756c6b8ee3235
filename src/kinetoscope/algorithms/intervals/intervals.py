"""Sets of instants as half-open intervals [start, end) of int64 nanoseconds.

A *union* is intervals in order that neither overlap nor touch; most functions take unions, and say so. Nothing here is
compiled: each function is a few sorts and look-ups of NumPy, and compiling one costs more than it would save. A total
length must fit into int64, the instants themselves may be any.

The trick that most of it rests on: with starts and ends sorted apart from each other, `starts[k] <= t < ends[k - d]`
says that at least d + 1 intervals are open at t.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s

_EARLIEST_TIME, _LATEST_TIME = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Intervals(NamedTuple):
    """Intervals as two arrays of one length: int64 [n] starts, int64 [n] ends, ns."""

    start: Int64s
    end: Int64s

    @property
    def length(self) -> int:
        """Sum of the lengths, ns; for a union the time that it covers."""
        return int(np.sum(self.end - self.start, dtype=np.int64))


def union(start: Int64s, end: Int64s) -> Intervals:
    """The union of any intervals, in any order; those that are empty or end before they start count for nothing."""
    keep = end > start
    starts, ends = _ascending(start[keep]), _ascending(end[keep])
    # Between ends[k] and a later starts[k + 1] nothing is open: all k + 1 intervals begun are over.
    apart = starts[1:] > ends[:-1]
    first, last = np.ones(starts.size, np.bool_), np.ones(starts.size, np.bool_)
    first[1:] = last[:-1] = apart
    return Intervals(starts[first], ends[last])


def length(start: Int64s, end: Int64s) -> int:
    """Time that any intervals cover, each instant once, ns."""
    return union(start, end).length


def extents(codes: Int32s | Int64s, groups: int, start: Int64s, end: Int64s) -> Intervals:
    """From the first start to the last end of each group; from the latest to the earliest instant if it has none.

    codes: int [n], from 0; negative for intervals of no group.
    """
    first, last = np.full(groups, _LATEST_TIME), np.full(groups, _EARLIEST_TIME)
    inside = codes >= 0
    if not inside.all():
        codes, start, end = codes[inside], start[inside], end[inside]
    np.minimum.at(first, codes, start)
    np.maximum.at(last, codes, end)
    return Intervals(first, last)


def merge(*parts: Intervals) -> Intervals:
    """The union of several sets of intervals."""
    return union(_joined([part.start for part in parts]), _joined([part.end for part in parts]))


def intersection(a: Intervals, b: Intervals) -> Intervals:
    """The union of what is in both of two unions."""
    starts, ends = _ascending(_joined([a.start, b.start])), _ascending(_joined([a.end, b.end]))
    # No more than two are open at once, so each stretch with two runs from starts[k + 1] to ends[k].
    start, end = starts[1:], ends[:-1]
    keep = start < end
    return Intervals(start[keep], end[keep])


def difference(a: Intervals, b: Intervals) -> Intervals:
    """The union of what of union `a` is not in union `b`."""
    start, end = _joined([[_EARLIEST_TIME], b.end]), _joined([b.start, [_LATEST_TIME]])
    keep = start < end
    return intersection(a, Intervals(start[keep], end[keep]))


def covered(windows: Intervals, intervals: Intervals) -> Int64s:
    """How much of each window a union covers: int64 [windows], ns.

    Windows may overlap, be in any order, or be empty.
    """
    before = _joined([[0], np.cumsum(intervals.end - intervals.start)])
    until_start = _covered_until(windows.start, intervals, before)
    return _covered_until(np.maximum(windows.start, windows.end), intervals, before) - until_start


def exclusive(windows: Intervals, classes: Sequence[Intervals]) -> Int64s:
    """Each instant of a window charged to the first of the classes that covers it: int64 [windows, classes + 1], ns.

    The last column is what no class covers; a row sums to the length of its window exactly. Classes are unions, windows
    as in `covered`.
    """
    until = [np.zeros(windows.start.size, np.int64)]
    taken = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))
    for each in classes:
        taken = merge(taken, each)
        until.append(covered(windows, taken))
    until.append(np.maximum(windows.start, windows.end) - windows.start)
    total = np.stack(until, axis=1)
    return total[:, 1:] - total[:, :-1]


def _covered_until(time: Int64s, intervals: Intervals, before: Int64s) -> Int64s:
    """How much the union covers before each time; `before` is how much the first k intervals cover."""
    begun = np.searchsorted(intervals.start, time, side="right")
    total = before[begun]
    inside = np.flatnonzero(begun)
    end = intervals.end[begun[inside] - 1]
    # What of the last interval begun lies beyond the time is not covered yet; the minimum keeps it from overflowing.
    total[inside] -= end - np.minimum(end, time[inside])
    return total


def _ascending(values: Int64s) -> Int64s:
    """`values`, an array of the caller's own, sorted in place."""
    # Stable means Timsort for int64: traces are nearly sorted, where it takes a sixth of the default's time.
    values.sort(kind="stable")
    return values


def _joined(parts: Sequence[Int64s | list[int]]) -> Int64s:
    return np.concatenate(parts, dtype=np.int64) if parts else np.empty(0, np.int64)
