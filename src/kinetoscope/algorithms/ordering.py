"""The rows of each track by (start, −end, row): the order in which call trees, sweeps and timelines walk a trace.

Traces come nearly sorted, so this is a counting sort by track and then, in each track, a merge sort that takes the runs
it finds: linear for what is in order, and where a run is out of place only what overlaps is moved.
"""

from __future__ import annotations

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, require_rows
from kinetoscope.algorithms.compiled import compiled, frozen, inlined

_MAX_SHIFT = 32  # a row that belongs at most so many places back is put there at once and ends no run
_MAX_RUNS = 64  # each pending run is twice as long as the next one or more: int32 rows leave no room for 40


def track_order(
    track: Int32s, start: Int64s, end: Int64s, *, tracks: int, selected: Bools | None = None
) -> tuple[Int32s, Int64s]:
    """Rows of each track, sorted by start, the longer first, then by row.

    Args:
        track: number of the track of each row, [n].
        start: first instant of each row, ns, [n].
        end: instant after the last of each row, ns, [n].
        tracks: how many tracks there are.
        selected: which rows take part, [n]; all if None.

    Returns:
        `order`, int32 [rows selected], and `offsets`, int64 [tracks + 1]: `order[offsets[t]:offsets[t + 1]]` are the
        rows of track t.

    Raises:
        ValueError: a selected row's track is none of `tracks`, or the arrays differ in length.
    """
    require_rows(track.size, track=track, start=start, end=end)
    chosen = np.empty(0, np.bool_)
    rows = track.size
    if selected is not None:
        require_rows(track.size, selected=selected)
        chosen = selected
        rows = int(np.count_nonzero(selected))
    order = np.empty(rows, np.int32)
    offsets = np.zeros(tracks + 1, np.int64)
    bad = _sort_tracks(
        frozen(track, np.int32),
        frozen(start, np.int64),
        frozen(end, np.int64),
        frozen(chosen, np.bool_),
        selected is None,
        order,
        offsets,
        np.empty(rows, np.int32),
        np.empty(_MAX_RUNS, np.int64),
    )
    if bad >= 0:
        raise ValueError(f"row {bad} is on track {track[bad]}, but there are {tracks} tracks")
    return order, offsets


def some_of(order: Int32s, offsets: Int64s, chosen: Bools) -> tuple[Int32s, Int64s]:
    """An order without the rows at some places, and where the rows of each track begin in it.

    Args:
        order: as `track_order` gives it.
        offsets: as it gives them, beside.
        chosen: which places of the order stay, [rows selected].
    """
    places = np.flatnonzero(chosen)
    return order[places], np.searchsorted(places, offsets)


@inlined
def _before(start: Int64s, end: Int64s, a: int, b: int) -> bool:
    """True if row a belongs before row b; rows equal in both keep their order, as every step here is stable."""
    return bool(start[a] < start[b] or (start[a] == start[b] and end[a] > end[b]))


@inlined
def _merge(start: Int64s, end: Int64s, order: Int32s, low: int, middle: int, high: int, scratch: Int32s) -> None:
    """Merge the sorted order[low:middle] and order[middle:high]; only what overlaps is touched."""
    top = middle
    while low < top:  # rows of the left run that stay in place
        probe = (low + top) >> 1
        if _before(start, end, order[middle], order[probe]):
            top = probe
        else:
            low = probe + 1
    bottom = middle
    while bottom < high:  # rows of the right run that stay in place
        probe = (bottom + high) >> 1
        if _before(start, end, order[probe], order[middle - 1]):
            bottom = probe + 1
        else:
            high = probe
    left = middle - low
    for i in range(left):
        scratch[i] = order[low + i]
    i, right, place = 0, middle, low
    while i < left:
        if right < high and _before(start, end, order[right], scratch[i]):
            order[place] = order[right]
            right += 1
        else:
            order[place] = scratch[i]
            i += 1
        place += 1


@inlined
def _run_end(start: Int64s, end: Int64s, order: Int32s, low: int, high: int) -> int:
    """End of the sorted run that begins at `low`, after rows that are only a little out of place were put back."""
    place = low + 1
    while place < high:
        row = order[place]
        floor = max(low, place - _MAX_SHIFT)
        slot = place
        while slot > floor and _before(start, end, row, order[slot - 1]):
            slot -= 1
        if slot == floor and floor > low:
            break
        for i in range(place, slot, -1):
            order[i] = order[i - 1]
        order[slot] = row
        place += 1
    return place


@compiled
def _sort_tracks(
    track: Int32s,
    start: Int64s,
    end: Int64s,
    selected: Bools,
    all_rows: bool,
    order: Int32s,
    offsets: Int64s,
    scratch: Int32s,
    runs: Int64s,
) -> int:
    """Fill `order` and `offsets`; returns a row whose track is out of range, or -1."""
    tracks = offsets.size - 1
    for row in range(track.size):
        if all_rows or selected[row]:
            if track[row] < 0 or track[row] >= tracks:
                return row
            offsets[track[row] + 1] += 1
    for t in range(tracks):
        offsets[t + 1] += offsets[t]
    for row in range(track.size):
        if all_rows or selected[row]:
            order[offsets[track[row]]] = row
            offsets[track[row]] += 1
    for t in range(tracks, 0, -1):  # filling has moved each offset to the next one's place
        offsets[t] = offsets[t - 1]
    offsets[0] = 0
    for t in range(tracks):
        high = offsets[t + 1]
        place = offsets[t]
        pending = 0
        while place < high:
            runs[pending] = place
            pending += 1
            place = _run_end(start, end, order, place, high)
            while pending > 1 and (
                place == high or runs[pending - 1] - runs[pending - 2] < 2 * (place - runs[pending - 1])
            ):
                _merge(start, end, order, runs[pending - 2], runs[pending - 1], place, scratch)
                pending -= 1
    return -1
