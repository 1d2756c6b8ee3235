"""Delays attributed to where they began: walks from late arrivals back through the histories of two ranks.

A walk begins with the last row of a collective and one that it is compared with, and goes back with both, row by row,
to a *barrier*, in which neither computed. Between barriers the difference of their work is counted net: a rank that
waits in a collective without standing still works ahead meanwhile. The late rank is charged its extra work. Shared
transfer is not extra work; the host delay that exposed it is. If the late rank left the barrier later than the other,
or waited longer on the way, that part goes on: to the rows before, or to the rows that it waited for.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, require_rows
from kinetoscope.algorithms.compiled import compiled, frozen, inlined

_MAX_BARRIERS: Final = 64
"""Barriers that a walk goes back: the work is linear in the collectives whatever they are like."""

_MAX_ROWS: Final = 256
"""Rows that a walk goes back to a barrier."""

_MAX_SKIPPED: Final = 3
"""Barriers that are skipped where the late rank seems to compute more: it may be work that the other one did ahead,
before a barrier that only seems to be one."""

BARRIER, DIVERGED, START = 0, 1, 2
"""Why a stretch ends: at a barrier (or far back), where the histories differ in role, where the recording begins."""


class Histories(NamedTuple):
    """Collectives as ranks went through them, those of one rank in order.

    Attributes:
        match: int32 [rows], the collective of each row.
        arrival: int64 [rows], when the rank of the row arrived, on one clock.
        role: int32 [rows]; beyond rows of different roles, histories are not compared.
        pairwise: bool [rows], sending or receiving.
        stage: int32 [rows]; where a walk would come to rows of different stages, it follows from sending and receiving.
        did: int64 [rows, activities], time of each activity since the row before.
        host_exposed: int64 [rows, activities], transfer that the host left exposed, by what it did meanwhile. Where the
            rows before are of one collective, a difference of transfer is charged to that.
        before: int32 [rows], the row before of the same rank, negative for none.
        waited: int64 [rows], time that the rank waited between the arrivals at that row and at this one.
        barrier: bool [rows], whether the rank computed nothing while it was in the collective.
    """

    match: Int32s
    arrival: Int64s
    role: Int32s
    pairwise: Bools
    stage: Int32s
    did: Int64s
    host_exposed: Int64s
    before: Int32s
    waited: Int64s
    barrier: Bools


class AttributedDelays(NamedTuple):
    """Rows that the losses are charged to.

    Attributes:
        charged: int64 [rows, activities + 2], charges of each row, by activity; the last but one is for what follows
            from pairwise operations, the last for what nothing explains. It sums to the losses.
        carried: int64 [matches], the part of each loss that is charged to another row than the last.
        first: int32 [matches], the row that the greatest part is charged to; cause: int32 [matches], its column.
    """

    charged: Int64s
    carried: Int64s
    first: Int32s
    cause: Int32s


class _Stretch(NamedTuple):
    """How the late rank differs from the other one between a row and a barrier before it.

    Attributes:
        net: int64 [3 * activities], its extra time by activity; the greatest extra time of one pair of rows; the
            difference of `host_exposed`.
        most: int32 [activities], the row of the late rank that the greatest is of.
        end: int64 [8], the rows where it ends, those before them, how much longer the late rank waited, the rows before
            where that was most, why it ends.
    """

    net: Int64s
    most: Int32s
    end: Int64s


def attribute_delays(
    histories: Histories, *, last: Int32s, compared: Int32s, lost: Int64s, transfer: int
) -> AttributedDelays:
    """Charge each loss to the rows where it began.

    Args:
        histories: the collectives.
        last: int32 [matches], the row that arrives last.
        compared: int32 [matches], the row that it is compared with.
        lost: int64 [matches], what is to be charged.
        transfer: the activity that `host_exposed` explains.

    Raises:
        ValueError: the arrays differ in length.
    """
    (rows, activities), causes = histories.did.shape, histories.did.shape[1] + 2
    if histories.host_exposed.shape != histories.did.shape:
        raise ValueError(f"host_exposed has the shape {histories.host_exposed.shape}, expected {histories.did.shape}")
    flat = histories._replace(did=histories.did.reshape(-1), host_exposed=histories.host_exposed.reshape(-1))
    times, flags = ("arrival", "did", "host_exposed", "waited"), ("pairwise", "barrier")
    fields = flat._asdict()
    require_rows(rows, **{name: fields[name] for name in fields if name not in ("did", "host_exposed")})
    require_rows(lost.size, last=last, compared=compared)
    types = dict.fromkeys(fields, np.int32) | dict.fromkeys(times, np.int64) | dict.fromkeys(flags, np.bool_)
    delays = AttributedDelays(
        np.zeros(rows * causes, np.int64),
        np.zeros(lost.size, np.int64),
        last.astype(np.int32),
        np.full(lost.size, causes - 1, np.int32),
    )
    _walk(
        Histories(**{name: frozen(fields[name], types[name]) for name in fields}),
        frozen(last, np.int32),
        frozen(compared, np.int32),
        frozen(lost, np.int64),
        transfer,
        delays,
        _Stretch(np.zeros(3 * activities, np.int64), np.zeros(activities, np.int32), np.zeros(8, np.int64)),
    )
    return delays._replace(charged=delays.charged.reshape(rows, causes))


@inlined
def _explain_transfer(stretch: _Stretch, transfer: int) -> None:
    """Count extra transfer as what left it exposed."""
    net, most = stretch.net, stretch.most
    activities, total = most.size, 0
    for k in range(activities):
        total += max(net[2 * activities + k], 0)
    amount = min(net[transfer], total)
    if amount <= 0:
        return
    for k in range(activities):
        part = int(amount * (max(net[2 * activities + k], 0) / total))
        net[k] += part
        net[transfer] -= part
        if part > net[activities + k]:
            net[activities + k], most[k] = part, most[transfer]


@inlined
def _compare(late: int, other: int, skipped: int, histories: Histories, transfer: int, stretch: _Stretch) -> None:
    """Go back from two rows to the barrier before them, or some barriers beyond that, and fill the stretch."""
    net, most, end = stretch.net, stretch.most, stretch.end
    did, host_exposed, before, waited = histories.did, histories.host_exposed, histories.before, histories.waited
    activities = most.size
    net[:] = 0
    most[:] = late
    one, two, longer, longest = late, other, 0, 0
    waited_one, waited_two, why = -1, -1, BARRIER
    a, b = before[one], before[two]
    for _ in range(_MAX_ROWS):
        for k in range(activities):
            more = did[one * activities + k] - did[two * activities + k]
            net[k] += more
            if more > net[activities + k]:
                net[activities + k], most[k] = more, one
        a, b = before[one], before[two]
        if a < 0 or b < 0:
            why = START
            break
        if histories.match[a] == histories.match[b]:
            for k in range(activities):
                net[2 * activities + k] += host_exposed[one * activities + k] - host_exposed[two * activities + k]
        more = waited[one] - waited[two]
        longer += more
        if more > longest:
            longest, waited_one, waited_two = more, a, b
        if histories.role[a] != histories.role[b]:
            why = DIVERGED
            break
        if histories.barrier[a] and histories.barrier[b]:
            if skipped == 0:
                break
            skipped -= 1
        one, two = a, b
    _explain_transfer(stretch, transfer)
    end[0], end[1], end[2], end[3] = one, two, a, b
    end[4], end[5], end[6], end[7] = longer, waited_one, waited_two, why


@inlined
def _greatest(net: Int64s, activities: int) -> int:
    """The activity with the most extra time; `activities` + 1, which is nothing, where there is none."""
    which, most = activities + 1, 0
    for k in range(activities):
        if net[k] > most:
            which, most = k, net[k]
    return which


@inlined
def _charge(stretch: _Stretch, late: int, piece: int, gap: int, charged: Int64s) -> int:
    """Charge a piece by extra time, but no greater share of it than that has of the gap; returns the main column."""
    net, most = stretch.net, stretch.most
    activities = most.size
    causes, which, total = activities + 2, _greatest(net, activities), 0
    for k in range(activities):
        total += max(net[k], 0)
    explained = piece if 0 < total >= gap else int(piece * (total / gap)) if gap > 0 else 0
    charged[late * causes + causes - 1] += piece - explained
    left = explained
    for k in range(activities):
        if net[k] > 0 and k != which:
            part = min(int(explained * (net[k] / total)), left)
            charged[most[k] * causes + k] += part
            left -= part
    charged[(most[which] if which < activities else late) * causes + which] += left
    return which


@inlined
def _follow(histories: Histories, last: Int32s, longer: int, earlier: int, activities: int, end: Int64s) -> int:
    """Put the rows where a walk goes on into `end`; returns the column to charge where it cannot, −1 where it can."""
    match, pairwise, stage = histories.match, histories.pairwise, histories.stage
    a, b, c, d = end[2], end[3], end[5], end[6]
    if c >= 0 and match[c] != match[d] and longer > max(earlier, 0) and last[match[c]] != c:
        end[2], end[3] = last[match[c]], last[match[d]]  # it waited for these, and the other one for those
    if end[7] == DIVERGED and (pairwise[a] or pairwise[b]):
        return activities
    if end[7] == DIVERGED or end[2] < 0 or end[3] < 0:
        return activities + 1
    return activities if stage[end[2]] != stage[end[3]] else -1


@compiled
def _walk(
    histories: Histories,
    last: Int32s,
    compared: Int32s,
    lost: Int64s,
    transfer: int,
    delays: AttributedDelays,
    stretch: _Stretch,
) -> None:
    charged, net, most, end = delays.charged, stretch.net, stretch.most, stretch.end
    activities = most.size
    for each in range(lost.size):
        late, other = last[each], compared[each]
        amount, greatest = lost[each], 0
        for episode in range(_MAX_BARRIERS):
            if amount <= 0:
                break
            _compare(late, other, 0, histories, transfer, stretch)
            if _greatest(net, activities) == 0:
                first, skipped = net[0], 0
                while skipped < _MAX_SKIPPED and end[7] == BARRIER and not (skipped and 2 * net[0] <= first):
                    skipped += 1
                    _compare(late, other, skipped, histories, transfer, stretch)
                if not (skipped and 2 * net[0] <= first and _greatest(net, activities) < activities):
                    _compare(late, other, 0, histories, transfer, stretch)
            longer, why = end[4], end[7]
            gap = max(histories.arrival[late] - histories.arrival[other], 0)
            earlier = histories.arrival[end[2]] - histories.arrival[end[3]] if why != START else 0
            carry = max(longer + earlier, 0) if gap > 0 and episode + 1 < _MAX_BARRIERS else 0
            fresh = max(gap - longer - earlier, 0)
            piece = min(int(amount * (fresh / (fresh + carry))), amount) if carry > 0 else amount
            which = _charge(stretch, late, piece, gap if why == START else 0, charged)
            if piece < amount:
                nowhere = _follow(histories, last, longer, earlier, activities, end)
                if nowhere >= 0:
                    which = nowhere
                    charged[late * (activities + 2) + which] += amount - piece
                    piece = amount
            row = most[which] if which < activities else late
            if row != last[each]:
                delays.carried[each] += piece
            if piece > greatest:
                greatest, delays.first[each], delays.cause[each] = piece, row, which
            amount -= piece
            late, other = end[2], end[3]
