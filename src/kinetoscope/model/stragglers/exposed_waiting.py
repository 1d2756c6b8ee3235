"""Time that ranks wait in collectives and compute nothing."""

from __future__ import annotations

import numpy as np

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, union
from kinetoscope.model.stragglers.arrivals import Rows


def exposed(rows: Rows, since: Int64s, until: Int64s) -> Int64s:
    """Time between two instants that no computation of each row's rank covers, ns: int64 [rows]."""
    row = np.repeat(np.arange(len(rows)), np.diff(rows.offsets))
    inside = np.minimum(rows.computed.end, until[row]) - np.maximum(rows.computed.start, since[row])
    busy = np.zeros(len(rows), np.int64)
    np.add.at(busy, row, np.maximum(inside, 0))
    return np.asarray(np.maximum(until - since, 0) - busy)


def waiting(rows: Rows, until: Int64s, here: slice) -> Intervals:
    """When the rows `here`, all of one rank, wait for others and compute nothing: a union."""
    low, high = int(rows.offsets[here.start]), int(rows.offsets[here.stop])
    computed = union(rows.computed.start[low:high], rows.computed.end[low:high])
    return difference(union(rows.arrival[here], until[here]), computed)
