"""Lanes in which spans nest: what a viewer needs that shows a span only inside, or beside, the others of its lane."""

from __future__ import annotations

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s, require_rows
from kinetoscope.algorithms.compiled import compiled, frozen

NO_LANE = -1
_NO_ROW = -1


def stacked(start: Int64s, end: Int64s, order: Int32s, offsets: Int64s, *, most: int) -> Int32s:
    """The first lane of its track in which each row nests: int32 [n], NO_LANE for rows that `order` leaves out.

    Rows are taken in order. A row nests in a lane unless it overlaps one of its rows only partly. Of `most` lanes a
    track may have, the last takes what nests in none; n log n for a given number of lanes.

    Args:
        start: first instant of each row, ns, [n].
        end: instant after the last of each row, ns, [n].
        order: rows by track, start, and the longer first; see `ordering.track_order`.
        offsets: where each track begins in `order`, [tracks + 1].
        most: lanes of a track at most, from 1.
    """
    require_rows(start.size, start=start, end=end)
    start, end = frozen(start, np.int64), frozen(end, np.int64)
    lane = np.full(start.size, NO_LANE, np.int32)
    below = np.empty(start.size, np.int32)
    left, bounds = np.asarray(order, np.int32), np.asarray(offsets, np.int64)
    for number in range(most):
        _fill(start, end, frozen(left, np.int32), frozen(bounds, np.int64), below, lane, number)
        waiting = lane[left] == NO_LANE
        if not waiting.any():
            return lane
        bounds = np.concatenate([[0], np.cumsum(waiting)])[bounds]
        left = left[waiting]
    lane[left] = most - 1
    return lane


@compiled
def _fill(start: Int64s, end: Int64s, order: Int32s, offsets: Int64s, below: Int32s, lane: Int32s, number: int) -> None:
    """Put what nests into one lane; `below` is the stack of open rows, each with the one under it."""
    for track in range(offsets.size - 1):
        top = _NO_ROW
        for place in range(offsets[track], offsets[track + 1]):
            row = order[place]
            while top != _NO_ROW and end[top] <= start[row]:
                top = below[top]
            if top != _NO_ROW and end[row] > end[top]:
                continue
            lane[row] = number
            below[row] = top
            top = row
