"""Each instant of a track owned by one row: of those that run, the one that began last."""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s, require_rows
from kinetoscope.algorithms.compiled import compiled, frozen

FIRST: Final = int(np.iinfo(np.int64).min)
LAST: Final = int(np.iinfo(np.int64).max)


def owned(start: Int64s, end: Int64s, order: Int32s, offsets: Int64s, low: int = FIRST, high: int = LAST) -> Int64s:
    """How long each row owns its track from `low` to `high`: int64 [n], 0 for rows that `order` leaves out.

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
