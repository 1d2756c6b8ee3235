"""Levels of several kinds over a history of changes, at the highest instant of each column of a picture.

One pass over the events of what is in view: eight million take some hundredths of a second, so nothing is summed in
advance. A column shows an instant that was, not a mean: no peak is lost however narrow it is.
"""

from __future__ import annotations

import numpy as np

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.compiled import compiled


def columns_of(first: int, last: int, count: int) -> Int64s:
    """Events with which each column begins, and the last one ends, from `first` up to `last`: int64 [columns + 1]."""
    columns = max(1, min(count, last - first))
    return first + np.arange(columns + 1, dtype=np.int64) * (last - first) // columns


def highest_places(values: Int64s, count: int) -> Int64s:
    """The place of the greatest value, the first of several, in each of so many columns: int64, ascending."""
    if len(values) <= count:
        return np.arange(len(values), dtype=np.int64)
    begins = columns_of(0, len(values), count)
    most = np.repeat(np.maximum.reduceat(values, begins[:-1]), np.diff(begins))
    places = np.flatnonzero(values == most)
    return places[np.searchsorted(places, begins[:-1])]


@compiled
def highest(code, size, begins, level, at, levels):  # type: ignore[no-untyped-def]
    """The instants at which the sum of all levels is highest, one in each column; the first of several.

    Args:
        code: int8 [events]: k takes `size` for kind k, −2 − k returns it, −1 does nothing.
        size: int64 [events].
        begins: int64 [columns + 1]: where the events of each column begin.
        level: int64 [kinds]: the levels before the first of them. Changed to those after the last.
        at: int64 [columns], out: the event after which it is highest; the one before the column where it has none.
        levels: int64 [columns, kinds], out: the levels then.
    """
    kinds = level.size
    total = 0
    for kind in range(kinds):
        total += level[kind]
    for column in range(begins.size - 1):
        at[column] = begins[column] - 1
        for kind in range(kinds):
            levels[column, kind] = level[kind]
        best = -1
        for event in range(begins[column], begins[column + 1]):
            what = code[event]
            if what >= 0:
                level[what] += size[event]
                total += size[event]
            elif what < -1:
                level[-2 - what] -= size[event]
                total -= size[event]
            if total > best:
                best = total
                at[column] = event
                for kind in range(kinds):
                    levels[column, kind] = level[kind]
