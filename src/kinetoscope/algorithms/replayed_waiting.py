"""Collectives of all ranks replayed, as if some of them were never waited for.

A rank has reached a collective when its own work is ready and its stream is free; a collective begins when the last
rank has reached it, and its transfer takes as long as it did. A rank's own work goes on sooner where it stood still in
a collective that now ends sooner. All else keeps its time.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, require_rows
from kinetoscope.algorithms.compiled import compiled, frozen

_MAX_ROWS: Final = 256
"""Rows that are looked back at for one: what a rank stood still for since its work was ready."""

_LONG_AGO: Final = -(1 << 61)


class Schedule(NamedTuple):
    """Collectives as ranks went through them: [rows] each.

    Attributes:
        match: int32, the collective.
        history: int32, a code for the rank.
        stream: int64, a code; rows of one stream are in its order, and need not follow each other.
        start, end: int64, when the rank arrived and left.
        ready: int64, when it would have arrived, had its stream been free.
        still: int64, time in which the rank stood still in it.
    """

    match: Int32s
    history: Int32s
    stream: Int64s
    start: Int64s
    end: Int64s
    ready: Int64s
    still: Int64s


def sooner_without(schedule: Schedule, begin: Int64s, ignored: Bools) -> Int64s:
    """By how much each rank's own work goes on sooner after each row than before it: int64 [rows], ns.

    Args:
        schedule: the collectives.
        begin: int64 [matches], when the last rank arrived.
        ignored: bool [rows], arrivals that nobody waits for.

    Raises:
        ValueError: the arrays differ in length.
    """
    require_rows(len(ignored), **schedule._asdict())
    order = np.lexsort((schedule.start, schedule.match, begin[schedule.match]))
    types = dict.fromkeys(schedule._fields, np.int64) | {"match": np.int32, "history": np.int32}
    ready = Schedule(**{name: frozen(values, types[name]) for name, values in schedule._asdict().items()})
    sooner = np.zeros(len(ignored), np.int64)
    _replay(
        ready,
        frozen(begin, np.int64),
        frozen(ignored, np.bool_),
        frozen(order, np.int64),
        frozen(_before(schedule.stream, np.arange(len(order))), np.int64),
        frozen(_before(schedule.history, order), np.int64),
        np.zeros(int(schedule.history.max(initial=-1)) + 1, np.int64),
        np.zeros(len(begin), np.int64),
        sooner,
    )
    return sooner


def _before(code: Int64s | Int32s, order: Int64s) -> Int64s:
    """The row before each of the same code, in an order; −1 for none."""
    by_code = order[np.argsort(code[order], kind="stable")]
    before = np.full(len(code), -1, np.int64)
    same = code[by_code[1:]] == code[by_code[:-1]]
    before[by_code[1:][same]] = by_code[:-1][same]
    return before


@compiled
def _replay(
    rows: Schedule,
    begin: Int64s,
    ignored: Bools,
    order: Int64s,
    before_on_stream: Int64s,
    before_of_rank: Int64s,
    own: Int64s,
    shift: Int64s,
    sooner: Int64s,
) -> None:
    place = 0
    while place < order.size:
        match = rows.match[order[place]]
        latest, until = _LONG_AGO, place
        while until < order.size and rows.match[order[until]] == match:
            row = order[until]
            gained, back, looked = own[rows.history[row]], before_of_rank[row], 0
            while back >= 0 and rows.end[back] > rows.ready[row] and looked < _MAX_ROWS:
                gained -= sooner[back]
                back = before_of_rank[back]
                looked += 1
            free, now = _LONG_AGO, rows.ready[row]
            on = before_on_stream[row]
            if on >= 0:
                free, now = rows.end[on] - shift[rows.match[on]], max(now, rows.end[on])
            arrival = rows.start[row] - now + max(rows.ready[row] - gained, free)
            if not ignored[row]:
                latest = max(latest, arrival)
            until += 1
        if latest > _LONG_AGO:
            shift[match] = max(begin[match] - latest, 0)
        for each in range(place, until):
            row = order[each]
            history = rows.history[row]
            sooner[row] = max(min(rows.still[row], shift[match] - own[history]), 0)
            own[history] += sooner[row]
        place = until
