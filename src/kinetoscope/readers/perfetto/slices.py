"""Ends of slices: these are begun and ended on a track, the last begun ends first."""

from __future__ import annotations

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.algorithms.compiled import compiled, frozen

BEGIN, END = 1, 2
"""Types of track events."""


@compiled
def _paired(track, kind, order, stack, partner):  # type: ignore[no-untyped-def]
    """Go through events by track and time; returns the ends that end nothing."""
    depth = 0
    last = np.int64(-1)
    without = 0
    for place in range(order.size):
        row = order[place]
        if track[row] != last:
            last = track[row]
            depth = 0
        if kind[row] == 1:
            stack[depth] = row
            depth += 1
        elif depth:
            depth -= 1
            partner[stack[depth]] = row
        else:
            without += 1
    return without


def partners(track: Int64s, kind: Int64s, time: Int64s) -> tuple[Int64s, int]:
    """The end of each begun slice, −1 where it is not there; and how many events end nothing.

    torch writes all beginnings of a kind of event and then all ends, in the same order. These are joined so: by time
    alone, one that begins when another ends would be taken for its child.
    """
    partner = np.full(len(track), -1, np.int64)
    left = np.ones(len(track), np.bool_)
    if len(track) and (np.diff(time[kind == BEGIN]) < 0).any():
        _of_blocks(track, kind, time, partner, left)
    rows = np.flatnonzero(left)
    order = rows[np.lexsort((rows, time[rows], track[rows]))]
    stack = np.empty(len(order), np.int64)
    without = _paired(frozen(track, np.int64), frozen(kind, np.int64), frozen(order, np.int64), stack, partner)
    return partner, int(without)


def _of_blocks(track: Int64s, kind: Int64s, time: Int64s, partner: Int64s, left: Bools) -> None:
    """Join blocks of beginnings that are followed by a block of ends on the same tracks."""
    changes = np.flatnonzero(np.diff(kind)) + 1
    starts = np.concatenate([[0], changes])
    sizes = np.diff(np.append(starts, len(kind)))
    for place in np.flatnonzero((kind[starts[:-1]] == BEGIN) & (sizes[:-1] == sizes[1:]) & (sizes[:-1] > 1)).tolist():
        begin, size = int(starts[place]), int(sizes[place])
        begins, ends = slice(begin, begin + size), slice(begin + size, begin + 2 * size)
        if (track[begins] == track[ends]).all() and _nest(track[begins], time[begins], time[ends]):
            partner[begins] = np.arange(begin + size, begin + 2 * size)
            left[begin : begin + 2 * size] = False


def _nest(track: Int64s, start: Int64s, end: Int64s) -> bool:
    """True if neighbours on a track lie one in the other, or apart."""
    order = np.lexsort((-end, start, track))
    track, start, end = track[order], start[order], end[order]
    crossing = (track[1:] == track[:-1]) & (start[1:] < end[:-1]) & (end[1:] > end[:-1])
    return bool((end >= start).all() and not crossing.any())
