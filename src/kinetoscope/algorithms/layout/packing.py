"""Rows for spans that are drawn: none overlaps another of its row, and what a span encloses is drawn below it.

Beside `stacking`, which finds lanes in which spans may nest, here each level of nesting has a row of its own.
"""

from __future__ import annotations

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s, require_rows
from kinetoscope.algorithms.compiled import compiled, frozen

NO_ROW = -1


def packed(start: Int64s, end: Int64s, order: Int32s, offsets: Int64s, parent: Int32s, *, most: int) -> Int32s:
    """The row of each span in its track, from 0: int32 [n], NO_ROW for those that `order` leaves out.

    It is the first below that of its parent which is free when the span starts. Of `most` rows the last one takes what
    finds no other free, so its spans may overlap. A span that ends before it starts counts as empty.

    Args:
        start: first instant of each span, ns, [n].
        end: instant after the last of each, ns, [n].
        order: spans by track, start, and the longer first; see `ordering.track_order`.
        offsets: where each track begins in `order`, [tracks + 1].
        parent: the span around each, on the same track and before it in `order`, [n]; NO_ROW for none.
        most: rows of a track at most, from 1.
    """
    require_rows(start.size, start=start, end=end, parent=parent)
    row = np.full(start.size, NO_ROW, np.int32)
    _pack(
        frozen(start, np.int64),
        frozen(end, np.int64),
        frozen(order, np.int32),
        frozen(offsets, np.int64),
        frozen(parent, np.int32),
        np.empty(most, np.int64),
        row,
    )
    return row


def by_number(number: Int32s, order: Int32s, numbers: int) -> tuple[Int32s, Int64s]:
    """`order` sorted by a number from 0 of each of its items, stable, and where each number begins.

    Args:
        number: of each item, [n]; only those of `order` are looked at.
        order: items, in the order in which those of one number stay.
        numbers: how many numbers there are.

    Returns:
        int32 [items of `order`], and int64 [numbers + 1].

    Raises:
        ValueError: an item has a number that is none of them.
    """
    result = np.empty(order.size, np.int32)
    offsets = np.zeros(numbers + 1, np.int64)
    bad = _sort(frozen(number, np.int32), frozen(order, np.int32), result, offsets)
    if bad >= 0:
        raise ValueError(f"item {bad} has number {number[bad]}, but there are {numbers}")
    return result, offsets


@compiled
def _pack(
    start: Int64s, end: Int64s, order: Int32s, offsets: Int64s, parent: Int32s, until: Int64s, row: Int32s
) -> None:
    """`until` says for each of the rows used so far when it is free again."""
    last = until.size - 1
    for track in range(offsets.size - 1):
        used = 0
        for place in range(offsets[track], offsets[track + 1]):
            item = order[place]
            begin = start[item]
            stop = max(begin, end[item])
            slot = 0
            if parent[item] >= 0:
                slot = min(row[parent[item]] + 1, last)
            while slot < last and slot < used and until[slot] > begin:
                slot += 1
            while used <= slot:
                until[used] = begin
                used += 1
            until[slot] = max(until[slot], stop)
            row[item] = slot


@compiled
def _sort(number: Int32s, order: Int32s, result: Int32s, offsets: Int64s) -> int:
    numbers = offsets.size - 1
    for place in range(order.size):
        of = number[order[place]]
        if of < 0 or of >= numbers:
            return int(order[place])
        offsets[of + 1] += 1
    for each in range(numbers):
        offsets[each + 1] += offsets[each]
    for place in range(order.size):
        item = order[place]
        result[offsets[number[item]]] = item
        offsets[number[item]] += 1
    for each in range(numbers, 0, -1):  # filling has moved each offset to the next one's place
        offsets[each] = offsets[each - 1]
    offsets[0] = 0
    return -1
