"""Waiting beneath a rank's own computation, charged for what it puts off: exposed transfer of the same stream later.

A rank that waits while it computes loses nothing then. But its stream is late from there on, and a transfer that ends
after the computation would have ended that much sooner. A walk along each stream carries the delay: what a collective
could not have begun sooner, as the rank's own work was not ready, was made up for; what is left is charged for the
transfer that the rank stood still for. Where it stood still since its work was ready, the delay has cost that already.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Int64s, require_rows
from kinetoscope.algorithms.compiled import compiled, frozen


class DeferredWaiting(NamedTuple):
    """Time that waiting put off.

    Attributes:
        cost: int64 [rows], transfer that is exposed because the rank waited in this row, here or later.
        put_off: int64 [rows], transfer of this row that is exposed because of waiting, here or before; it sums to the
            same.
    """

    cost: Int64s
    put_off: Int64s


class Rows(NamedTuple):
    """Collectives as ranks went through them: int64 [rows] each.

    Attributes:
        stream: a code; rows of one stream are in its order, and need not follow each other.
        end: when the rank left.
        ready: when the row would have begun, had its stream been free; ascending on a stream.
        hidden: waiting that computation covers; open: waiting that it does not.
        exposed: transfer at the end of the row, in which the rank stood still.
    """

    stream: Int64s
    end: Int64s
    ready: Int64s
    hidden: Int64s
    open: Int64s
    exposed: Int64s


def deferred_waiting(rows: Rows, start: Int64s) -> DeferredWaiting:
    """Charge exposed transfer to the waiting before it; of several waits the latest is charged first.

    start: int64 [rows], when each row began.

    Raises:
        ValueError: the arrays differ in length.
    """
    require_rows(len(start), **rows._asdict())
    order = np.argsort(rows.stream, kind="stable")
    frozen_rows = Rows(*(frozen(each, np.int64) for each in rows))
    waited, amount, cost, put_off = (np.zeros(len(start), np.int64) for _ in range(4))
    _walk(frozen_rows, frozen(start, np.int64), frozen(order, np.int64), waited, amount, cost, put_off)
    return DeferredWaiting(cost, put_off)


@compiled
def _walk(
    rows: Rows, start: Int64s, order: Int64s, waited: Int64s, amount: Int64s, cost: Int64s, put_off: Int64s
) -> None:
    first = after = 0  # of what is pending: the rows `waited` in, and the `amount` of each
    total = since = lost = (
        0  # all that is pending; the place of the first row since `ready`, what is charged from there
    )
    for place in range(order.size):
        row = order[place]
        if place == 0 or rows.stream[row] != rows.stream[order[place - 1]]:
            first = after = total = lost = 0
            since = place
        while since < place and rows.end[order[since]] <= rows.ready[row]:
            lost -= rows.open[order[since]] + put_off[order[since]]
            since += 1
        limit = max(start[row] - rows.ready[row] - lost, 0)
        while total > limit:  # the oldest was made up for
            part = min(total - limit, amount[first])
            amount[first] -= part
            total -= part
            first += amount[first] == 0
        waited[after], amount[after] = row, rows.hidden[row]
        total += rows.hidden[row]
        after += 1
        left = min(rows.exposed[row], total)
        put_off[row] = left
        total -= left
        lost += rows.open[row] + left
        while left > 0:
            part = min(left, amount[after - 1])
            cost[waited[after - 1]] += part
            amount[after - 1] -= part
            left -= part
            after -= amount[after - 1] == 0
