"""Losses charged to where they began: walks from late arrivals back through the histories of two ranks.

See `model.stragglers.blame` for the words. A walk begins with the last row of a collective and one that it is
compared with, and goes back with both, row by row, to where both stood still: a *barrier* in which neither computed.
Between barriers what the one did more is counted net: a rank that waits in a collective without standing still
works ahead meanwhile.
What the late one did more is charged to it; transfer that both share is no such thing, but what left it in the open.
If it left the barrier later than the other one, or had to wait longer on
the way, that part goes on: to the rows before, or to the rows that it waited for.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, require_rows
from kinetoscope.algorithms.compiled import compiled, frozen, inlined

_EPISODES: Final = 64
"""How many barriers back a cause is looked for: the work is linear in the collectives whatever they are like."""

_ROWS: Final = 256
"""How many rows back a barrier is looked for."""

_BEYOND: Final = 3
"""How many barriers more are looked beyond, where the one rank seems to compute more: it may be work that the other one
did ahead, before a barrier that only seems to be one."""

_OVER, _APART, _BEFORE = 0, 1, 2
"""Why a window ends: at a barrier (or far back), where histories differ, where the recording begins."""


class Blamed(NamedTuple):
    """Who is charged what.

    Attributes:
        charged: int64 [rows, activities + 2], what is charged to each row, by activity; the last but one is for what
            follows from pairwise operations, the last for what nothing explains. It sums to the losses.
        carried: int64 [matches], what of each loss is charged to another row than the last.
        first: int32 [matches], the row that the greatest part is charged to; cause: int32 [matches], its column.
    """

    charged: Int64s
    carried: Int64s
    first: Int32s
    cause: Int32s


def blame(
    *,
    match: Int32s,
    arrival: Int64s,
    role: Int32s,
    pairwise: Bools,
    stage: Int32s,
    did: Int64s,
    held: Int64s,
    transfer: int,
    before: Int32s,
    waited: Int64s,
    barrier: Bools,
    last: Int32s,
    middle: Int32s,
    lost: Int64s,
) -> Blamed:
    """Charge each loss to the rows where it began.

    Args:
        match: int32 [rows], the collective of each row.
        arrival: int64 [rows], when the rank of the row arrived, on one clock.
        role: int32 [rows]; beyond rows of different roles, histories are not compared.
        pairwise: bool [rows], sending or receiving.
        stage: int32 [rows]; where a walk would come to rows of different stages, it follows from sending and receiving.
        did: int64 [rows, activities], time of each since the row before.
        held: int64 [rows, activities], what of activity `transfer` was so because of another one. Where the rows before
            are of one collective, a difference of transfer is charged to that.
        transfer: an activity.
        before: int32 [rows], the row before of the same rank, negative for none.
        waited: int64 [rows], time that the rank waited between the arrivals at that row and at this one.
        barrier: bool [rows], whether the rank computed nothing while it was in the collective.
        last: int32 [matches], the row that arrives last.
        middle: int32 [matches], the row that it is compared with.
        lost: int64 [matches], what is to be charged.

    Raises:
        ValueError: the arrays differ in length.
    """
    rows, causes = match.size, did.shape[1] + 2
    require_rows(
        rows, arrival=arrival, role=role, pairwise=pairwise, stage=stage, before=before, waited=waited, barrier=barrier
    )
    if held.shape != did.shape:
        raise ValueError(f"held has the shape {held.shape}, expected {did.shape}")
    require_rows(lost.size, last=last, middle=middle)
    charged, carried = np.zeros(rows * causes, np.int64), np.zeros(lost.size, np.int64)
    first, cause = last.astype(np.int32), np.full(lost.size, causes - 1, np.int32)
    _walk(
        frozen(match, np.int32),
        frozen(arrival, np.int64),
        frozen(role, np.int32),
        frozen(pairwise, np.bool_),
        frozen(stage, np.int32),
        frozen(did.reshape(-1), np.int64),
        frozen(held.reshape(-1), np.int64),
        transfer,
        frozen(before, np.int32),
        frozen(waited, np.int64),
        frozen(barrier, np.bool_),
        frozen(last, np.int32),
        frozen(middle, np.int32),
        frozen(lost, np.int64),
        charged,
        carried,
        first,
        cause,
        np.zeros(3 * did.shape[1], np.int64),
        np.zeros(did.shape[1], np.int32),
        np.zeros(8, np.int64),
    )
    return Blamed(charged.reshape(rows, causes), carried, first, cause)


@inlined
def _open(net: Int64s, most: Int32s, transfer: int) -> None:
    """Charge what there is more of transfer to what left it in the open."""
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
def _window(
    late: int,
    other: int,
    beyond: int,
    match: Int32s,
    role: Int32s,
    did: Int64s,
    held: Int64s,
    transfer: int,
    before: Int32s,
    waited: Int64s,
    barrier: Bools,
    net: Int64s,
    most: Int32s,
    found: Int64s,
) -> None:
    """Go back to a barrier, or so many beyond it.

    net: gets what the one did more, by activity, and behind that the greatest such difference of one pair of rows, and
    the difference of `held`;
    most: the row of the late rank that it is of; found: the rows where it ends, those before them, how much longer the
    one waited, the rows before where that was most, why it ends.
    """
    activities = most.size
    net[:] = 0
    most[:] = late
    one, two, longer, longest = late, other, 0, 0
    waited_one, waited_two, why = -1, -1, _OVER
    a, b = before[one], before[two]
    for _ in range(_ROWS):
        for k in range(activities):
            more = did[one * activities + k] - did[two * activities + k]
            net[k] += more
            if more > net[activities + k]:
                net[activities + k], most[k] = more, one
        a, b = before[one], before[two]
        if a < 0 or b < 0:
            why = _BEFORE
            break
        if match[a] == match[b]:
            for k in range(activities):
                net[2 * activities + k] += held[one * activities + k] - held[two * activities + k]
        more = waited[one] - waited[two]
        longer += more
        if more > longest:
            longest, waited_one, waited_two = more, a, b
        if role[a] != role[b]:
            why = _APART
            break
        if barrier[a] and barrier[b]:
            if beyond == 0:
                break
            beyond -= 1
        one, two = a, b
    _open(net, most, transfer)
    found[0], found[1], found[2], found[3] = one, two, a, b
    found[4], found[5], found[6], found[7] = longer, waited_one, waited_two, why


@inlined
def _greatest(net: Int64s, activities: int) -> int:
    """The activity of which the one did most more; `activities` + 1, which is nothing, where there is none."""
    which, most = activities + 1, 0
    for k in range(activities):
        if net[k] > most:
            which, most = k, net[k]
    return which


@inlined
def _explain(net: Int64s, most: Int32s, late: int, piece: int, gap: int, charged: Int64s) -> int:
    """Charge a piece by what the one did more; of the piece no more than that share of the gap. Returns the column."""
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
def _follow(
    match: Int32s,
    stage: Int32s,
    pairwise: Bools,
    last: Int32s,
    longer: int,
    earlier: int,
    activities: int,
    found: Int64s,
) -> int:
    """Where a walk goes on: that gets into `found`. The column to charge where it cannot, −1 where it can."""
    a, b, c, d = found[2], found[3], found[5], found[6]
    if c >= 0 and match[c] != match[d] and longer > max(earlier, 0) and last[match[c]] != c:
        found[2], found[3] = last[match[c]], last[match[d]]  # it waited for these, and the other one for those
    if found[7] == _APART and (pairwise[a] or pairwise[b]):
        return activities
    if found[7] == _APART or found[2] < 0 or found[3] < 0:
        return activities + 1
    return activities if stage[found[2]] != stage[found[3]] else -1


@compiled
def _walk(
    match: Int32s,
    arrival: Int64s,
    role: Int32s,
    pairwise: Bools,
    stage: Int32s,
    did: Int64s,
    held: Int64s,
    transfer: int,
    before: Int32s,
    waited: Int64s,
    barrier: Bools,
    last: Int32s,
    middle: Int32s,
    lost: Int64s,
    charged: Int64s,
    carried: Int64s,
    first: Int32s,
    cause: Int32s,
    net: Int64s,
    most: Int32s,
    found: Int64s,
) -> None:
    activities = most.size
    for each in range(lost.size):
        late, other = last[each], middle[each]
        amount, greatest = lost[each], 0
        for episode in range(_EPISODES):
            if amount <= 0:
                break
            _window(late, other, 0, match, role, did, held, transfer, before, waited, barrier, net, most, found)
            if _greatest(net, activities) == 0:
                seemed, beyond = net[0], 0
                while beyond < _BEYOND and found[7] == _OVER and not (beyond and 2 * net[0] <= seemed):
                    beyond += 1
                    _window(
                        late, other, beyond, match, role, did, held, transfer, before, waited, barrier, net, most, found
                    )
                if not (beyond and 2 * net[0] <= seemed and _greatest(net, activities) < activities):
                    _window(late, other, 0, match, role, did, held, transfer, before, waited, barrier, net, most, found)
            longer, why = found[4], found[7]
            gap = max(arrival[late] - arrival[other], 0)
            earlier = arrival[found[2]] - arrival[found[3]] if why != _BEFORE else 0
            carry = max(longer + earlier, 0) if gap > 0 and episode + 1 < _EPISODES else 0
            fresh = max(gap - longer - earlier, 0)
            piece = min(int(amount * (fresh / (fresh + carry))), amount) if carry > 0 else amount
            which = _explain(net, most, late, piece, gap if why == _BEFORE else 0, charged)
            if piece < amount:
                nowhere = _follow(match, stage, pairwise, last, longer, earlier, activities, found)
                if nowhere >= 0:
                    which = nowhere
                    charged[late * (activities + 2) + which] += amount - piece
                    piece = amount
            row = most[which] if which < activities else late
            if row != last[each]:
                carried[each] += piece
            if piece > greatest:
                greatest, first[each], cause[each] = piece, row, which
            amount -= piece
            late, other = found[2], found[3]
