"""The innermost row of a call tree at each instant of each track."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s, require_rows
from kinetoscope.algorithms.compiled import compiled, frozen
from kinetoscope.algorithms.trees.tree import NO_ROW


class Stretches(NamedTuple):
    """Stretches of time with the same innermost row, in order on each track.

    Attributes:
        time: int64 [stretches], when each begins; it ends when the next one of its track begins.
        row: int32 [stretches], the innermost row, NO_ROW while none runs. The last of a track has no end.
        offsets: int64 [tracks + 1], those of track t are `time[offsets[t]:offsets[t + 1]]`.
    """

    time: Int64s
    row: Int32s
    offsets: Int64s


def stretches(start: Int64s, end: Int64s, order: Int32s, offsets: Int64s) -> Stretches:
    """Divide the time of each track, from its first to its last instant, by the innermost row.

    Rows nest as in `tree.nest`: one that overlaps another only partly takes over from where it starts. Rows of no
    duration have no stretch.
    """
    require_rows(start.size, start=start, end=end)
    time, row = np.empty(2 * order.size, np.int64), np.empty(2 * order.size, np.int32)
    bounds = np.zeros(offsets.size, np.int64)
    count = _divide(
        frozen(start, np.int64),
        frozen(end, np.int64),
        frozen(order, np.int32),
        frozen(offsets, np.int64),
        np.empty(start.size, np.int32),
        time,
        row,
        bounds,
    )
    time.resize(count, refcheck=False)  # in place: a copy would take as much memory again
    row.resize(count, refcheck=False)
    return Stretches(time, row, bounds)


@compiled
def _divide(
    start: Int64s,
    end: Int64s,
    order: Int32s,
    offsets: Int64s,
    around: Int32s,
    time: Int64s,
    row: Int32s,
    bounds: Int64s,
) -> int:
    """Each row begins a stretch, and ends one, unless it was cut short: two of each row at most."""
    count = 0
    for track in range(offsets.size - 1):
        first = count
        top = NO_ROW
        last = offsets[track + 1]
        for place in range(offsets[track], last + 1):
            each = order[place] if place < last else NO_ROW
            begin = start[each] if place < last else 0
            finish = max(end[each], begin) if place < last else 0
            while top != NO_ROW and (place == last or begin >= end[top] or finish > end[top]):
                if place == last or begin >= end[top]:
                    at = max(end[top], start[top])
                    if count > first and time[count - 1] == at:
                        count -= 1
                    time[count] = at
                    row[count] = around[top]
                    count += 1
                top = around[top]
            if place < last:
                if count > first and time[count - 1] == begin:
                    count -= 1
                time[count] = begin
                row[count] = each
                count += 1
                around[each] = top
                top = each
        bounds[track + 1] = count
    return count


def at(stretches: Stretches, track: Int32s, time: Int64s) -> Int64s:
    """The stretch that each time lies in, −1 before the first one of the track: int64 [times]."""
    require_rows(time.size, track=track, time=time)
    place = np.empty(time.size, np.int64)
    _find(
        frozen(stretches.time, np.int64),
        frozen(stretches.offsets, np.int64),
        frozen(track, np.int32),
        frozen(time, np.int64),
        place,
    )
    return place


@compiled
def _find(begins: Int64s, offsets: Int64s, track: Int32s, time: Int64s, place: Int64s) -> None:
    for query in range(time.size):
        first = offsets[track[query]]
        low, high = first, offsets[track[query] + 1]
        while low < high:
            probe = (low + high) >> 1
            if begins[probe] <= time[query]:
                low = probe + 1
            else:
                high = probe
        place[query] = low - 1 if low > first else -1
