"""Sweeps over intervals: how many are open at each time, or what their weights sum to, as curves that step.

A curve holds its level from one point to the next of its group; before the first point and from the last one on it is
0, exactly. Weights are summed as integers of a common fine grain, so the order in which intervals come does not matter
and no rounding is left behind when they have closed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Floats, Int8s, Int32s, Int64s, require_rows
from kinetoscope.algorithms.grouping import sum_by

_BITS = 61
"""Of the greatest sum of weights, as an integer: rounding and one more bit fit into int64 beside them."""

_BLOCK_POINTS = 1 << 16  # points of a curve at a time, so that there is room for long ones
_MAX_SMALL_GROUPS = 1 << 15  # groups that fit into 16 bits are sorted by counting


class Levels(NamedTuple):
    """Levels that step: by group, then by time; no two points of a group are at one time, and each changes the level.

    Attributes:
        group: int32 [points].
        time: int64 [points], ns.
        level: int64 or float64 [points], from this time to that of the next point of the group; 0 at its last.
    """

    group: Int32s
    time: Int64s
    level: NDArray[Any]

    @property
    def length(self) -> Int64s:
        """How long each level holds, ns: int64 [points]; 0 at the last point of a group."""
        length = np.diff(self.time, append=self.time[-1:])
        length[:-1][self.group[1:] != self.group[:-1]] = 0
        return length


def count_open(group: Int32s, start: Int64s, end: Int64s) -> Levels:
    """How many intervals of each group are open at each time; levels are int64.

    Args:
        group: int32 [n], of each interval, from 0 on.
        start: int64 [n], ns.
        end: int64 [n], ns, no longer open then; an interval that ends where it starts or before counts for nothing.

    Raises:
        ValueError: the arrays differ in length.
    """
    require_rows(start.size, group=group, end=end)
    return _curve(_ordered(group, start, end), np.ones(start.size, np.int8))


def sum_open(group: Int32s, start: Int64s, end: Int64s, weight: Floats) -> Levels:
    """The sum of the weights of the intervals of each group that are open at each time; levels are float64.

    Each weight is rounded to a multiple of 2^-k, such that the greatest weight times the most intervals open at once
    still fits into 61 bits; their sums are exact. So a sum of m weights is off by less than m 2^-61 of that product
    beside the rounding to float64, and a weight of which no bit is lost that way (with few open at once: any that is
    not tiny beside the greatest) is its own level where it stands alone.

    Args:
        group: int32 [n], as in `count_open`.
        start: int64 [n], as there.
        end: int64 [n], as there.
        weight: float64 [n], finite, 0 or more.

    Raises:
        ValueError: the arrays differ in length, or a weight is negative or not finite.
    """
    require_rows(start.size, group=group, end=end, weight=weight)
    if not (np.isfinite(weight) & (weight >= 0)).all():
        raise ValueError("a weight is negative or not finite")
    changes = _ordered(group, start, end)
    most = int(np.cumsum(changes.sign, dtype=np.int64).max(initial=0)) if start.size else 0
    largest = float(weight[changes.interval].max(initial=0.0))
    grain = _BITS - int(np.frexp(largest)[1]) - most.bit_length()
    units = np.rint(np.ldexp(np.minimum(weight, largest), grain)).astype(np.int64)  # of empty ones it may be greater
    curve = _curve(changes, units)
    return curve._replace(level=np.ldexp(curve.level.astype(np.float64), -grain))


def greatest(curve: Levels, groups: int) -> NDArray[Any]:
    """The greatest level of each group: of the levels' type [groups]; 0 for a group without points."""
    most = np.zeros(groups, curve.level.dtype)
    np.maximum.at(most, curve.group, curve.level)
    return most


class LevelStatistics(NamedTuple):
    """Statistics of levels over time, by group: of the levels' type [groups], but the deviation, float64 [groups].

    Attributes:
        least: the least level that holds for any time.
        lower, median, upper: the least level that is not exceeded for 25, 50 and 75 % of the time.
        deviation: the standard deviation over time.
    """

    least: NDArray[Any]
    lower: NDArray[Any]
    median: NDArray[Any]
    upper: NDArray[Any]
    deviation: Floats


def level_statistics(curve: Levels, groups: int, outside: Int64s, *, above: float = -1) -> LevelStatistics:
    """Statistics of levels over the time from the first to the last point of a group, and that at 0 besides.

    Args:
        curve: its levels.
        groups: how many groups there are; one without any time has zeros.
        outside: int64 [groups], ns at level 0 besides.
        above: the time in which the level does not exceed this does not count.
    """
    group = np.concatenate([np.arange(groups, dtype=np.int32), curve.group])
    level = np.concatenate([np.zeros(groups, curve.level.dtype), curve.level])
    length = np.concatenate([outside, curve.length])
    order = np.lexsort((level, group))
    order = order[(length[order] > 0) & (level[order] > above)]
    group, level, length = group[order], level[order], length[order]
    total = sum_by(group, groups, length)
    begins = np.searchsorted(group, np.arange(groups))
    reached = np.cumsum(length)
    before = np.append(0, reached)[begins]  # time of the groups before
    known = np.flatnonzero(total > 0)

    def quantile(quarters: int) -> NDArray[Any]:
        values = np.zeros(groups, level.dtype)
        values[known] = level[np.searchsorted(reached, before[known] - (-total[known] * quarters // 4))]
        return values

    least = np.zeros(groups, level.dtype)
    least[known] = level[begins[known]]
    time = np.maximum(total, 1)
    mean = np.bincount(group, level * (length / time[group]), groups)
    variance = np.bincount(group, (level - mean[group]) ** 2 * (length / time[group]), groups)
    return LevelStatistics(least, quantile(1), quantile(2), quantile(3), np.sqrt(variance))


def time_at_least(curve: Levels, groups: int, limit: float) -> Int64s:
    """How long the level of each group is `limit` (more than 0) or more: int64 [groups], ns."""
    return sum_by(curve.group, groups, np.where(curve.level >= limit, curve.length, 0))


def integrals(curve: Levels, edges: Int64s) -> Floats:
    """The integral of a curve of one group from each edge to the next: float64 [edges − 1], level × ns.

    Each is a sum of so many rounded products as there are points, in order of time. Where no level exceeds 1, it does
    not exceed the distance of the edges.

    Args:
        curve: of one group.
        edges: int64 [edges], ns, ascending.

    Raises:
        ValueError: there is no edge.
    """
    if not edges.size:
        raise ValueError("integrals need an edge or more")
    total = np.zeros(edges.size - 1)
    for first in range(0, curve.time.size - 1, _BLOCK_POINTS):
        time = curve.time[
            first : first + _BLOCK_POINTS + 1
        ]  # the last one ends the last level, and begins the next block
        _add_areas(time, curve.level[first : first + time.size - 1], edges, total)
    return total


def _add_areas(time: Int64s, level: NDArray[Any], edges: Int64s, total: Floats) -> None:
    """Add to each window what lies in it of levels that hold from each time to the next."""
    inside = edges[(edges > time[0]) & (edges < time[-1])]
    cuts = np.concatenate([time, inside])
    cuts.sort(kind="stable")
    begins, length = cuts[:-1], np.diff(cuts)
    place = np.searchsorted(time, begins, side="right") - 1
    window = np.searchsorted(edges, begins, side="right") - 1
    rows = np.flatnonzero((length > 0) & (window >= 0) & (window < total.size))
    total += np.bincount(window[rows], level[place[rows]] * length[rows], total.size)


def overlaps(start: Int64s, end: Int64s, edges: Int64s) -> Int64s:
    """How much of all intervals lies between each edge and the next, each interval in full: int64 [edges − 1], ns.

    Args:
        start: int64 [n], ns, in any order.
        end: int64 [n], ns; an interval that ends before it starts counts for nothing.
        edges: int64 [edges], ns, ascending.
    """
    keep = end > start
    # Until t the intervals that have begun are open for t − start, less t − end where they have ended. The products may
    # overflow; the differences of what has do not, as integers wrap.
    until = _elapsed(start[keep], edges) - _elapsed(end[keep], edges)
    return np.diff(until)


def _elapsed(times: Int64s, edges: Int64s) -> Int64s:
    """Sum of edge − time over the times before each edge: int64 [edges], modulo 2^64."""
    times = np.sort(times, kind="stable")
    before = np.searchsorted(times, edges, side="left")
    total = np.append(0, np.cumsum(times))
    return np.asarray(edges * before - total[before])


class _Changes(NamedTuple):
    """Starts and ends by group and time, ends before starts: int32, int64, int32 and int8 [changes]."""

    group: Int32s
    time: Int64s
    interval: Int32s
    sign: Int8s


def _ordered(group: Int32s, start: Int64s, end: Int64s) -> _Changes:
    rows = np.flatnonzero(end > start).astype(np.int32)
    time = np.concatenate([end[rows], start[rows]])
    order = np.argsort(time, kind="stable").astype(np.int32)
    time = time[order]
    sign = np.where(order < rows.size, np.int8(-1), np.int8(1))
    order[order >= rows.size] -= rows.size
    interval = rows[order]
    of = group[interval]
    if of.size and int(of.max()) > 0:
        by_group = np.argsort(of.astype(np.int16) if int(of.max()) < _MAX_SMALL_GROUPS else of, kind="stable").astype(
            np.int32
        )
        of, time, interval, sign = of[by_group], time[by_group], interval[by_group], sign[by_group]
    return _Changes(of, time, interval, sign)


def _curve(changes: _Changes, weight: NDArray[np.integer[Any]]) -> Levels:
    """Sum up the weights of what is open. The changes of a group sum to 0, so the next one begins at 0."""
    group, time, interval, sign = changes
    level = np.cumsum(weight[interval] * sign, dtype=np.int64)  # overflows at most between changes of one time
    last = np.ones(time.size, np.bool_)
    last[:-1] = (time[1:] != time[:-1]) | (group[1:] != group[:-1])
    level = level[last]
    differs = np.ones(level.size, np.bool_)
    differs[1:] = level[1:] != level[:-1]
    differs[:1] = level[:1] != 0
    last[last] = differs
    return Levels(group[last], time[last], level[differs])
