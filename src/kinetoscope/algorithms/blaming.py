"""Losses charged to where they began: walks from late arrivals back through the histories of two ranks.

See `model.straggling` for the words. A walk begins with the last and the middle row of a collective and goes back with
both. What the later one did longer in its own time is charged there; what is left goes on to the rows before, or, if
the later one had to wait there, to the rows that it waited for.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.compiled import Bools, Int32s, Int64s, compiled, frozen, inlined, require_rows

_FURTHEST: Final = 512
"""How many rows back a cause is looked for: the work is linear in the collectives whatever they are like."""


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
    did: Int64s,
    before: Int32s,
    waited: Int64s,
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
        did: int64 [rows, activities], time of each since the row before.
        before: int32 [rows], the row before of the same rank, negative for none.
        waited: int64 [rows], time that the rank waited between the arrivals at that row and at this one.
        last: int32 [matches], the row that arrives last.
        middle: int32 [matches], the row that it is compared with.
        lost: int64 [matches], what is to be charged.

    Raises:
        ValueError: the arrays differ in length.
    """
    rows, causes = match.size, did.shape[1] + 2
    require_rows(rows, arrival=arrival, role=role, pairwise=pairwise, before=before, waited=waited)
    require_rows(lost.size, last=last, middle=middle)
    charged, carried = np.zeros(rows * causes, np.int64), np.zeros(lost.size, np.int64)
    first, cause = last.astype(np.int32), np.full(lost.size, causes - 1, np.int32)
    _walk(
        frozen(match, np.int32),
        frozen(arrival, np.int64),
        frozen(role, np.int32),
        frozen(pairwise, np.bool_),
        frozen(did.reshape(-1), np.int64),
        frozen(before, np.int32),
        frozen(waited, np.int64),
        frozen(last, np.int32),
        frozen(middle, np.int32),
        frozen(lost, np.int64),
        charged,
        carried,
        first,
        cause,
    )
    return Blamed(charged.reshape(rows, causes), carried, first, cause)


@inlined
def _explain(did: Int64s, late: int, other: int, piece: int, gap: int, charged: Int64s, activities: int) -> int:
    """Charge a piece by what the one row has more of than the other; of the piece no more than that share of the gap.

    Returns the column that gets most.
    """
    causes = activities + 2
    total, greatest, which = 0, 0, causes - 1
    for k in range(activities):
        more = did[late * activities + k] - did[other * activities + k]
        if more > 0:
            total += more
        if more > greatest:
            greatest, which = more, k
    explained = piece if total >= gap else int(piece * (total / gap))
    charged[late * causes + causes - 1] += piece - explained
    left = explained
    for k in range(activities):
        more = did[late * activities + k] - did[other * activities + k]
        if more > 0 and k != which:
            part = min(int(explained * (more / total)), left)
            charged[late * causes + k] += part
            left -= part
    charged[late * causes + which] += left
    return which


@compiled
def _walk(
    match: Int32s,
    arrival: Int64s,
    role: Int32s,
    pairwise: Bools,
    did: Int64s,
    before: Int32s,
    waited: Int64s,
    last: Int32s,
    middle: Int32s,
    lost: Int64s,
    charged: Int64s,
    carried: Int64s,
    first: Int32s,
    cause: Int32s,
) -> None:
    activities = did.size // max(arrival.size, 1)
    for each in range(lost.size):
        late, other = last[each], middle[each]
        amount, most = lost[each], 0
        for hop in range(_FURTHEST):
            if amount <= 0:
                break
            a, b = before[late], before[other]
            gap = max(arrival[late] - arrival[other], 0)
            longer, earlier = 0, 0
            known = a >= 0 and b >= 0
            if known:
                longer, earlier = waited[late] - waited[other], arrival[a] - arrival[b]
            carry = max(longer + earlier, 0) if known and gap > 0 and hop + 1 < _FURTHEST else 0
            fresh = max(gap - longer - earlier, 0)
            piece = min(int(amount * (fresh / (fresh + carry))), amount) if carry > 0 else amount
            which = _explain(did, late, other, piece, 0 if known else gap, charged, activities)
            ends = piece == amount
            if not ends and role[a] != role[b]:  # what is carried cannot be compared
                which = activities if pairwise[a] or pairwise[b] else activities + 1
                charged[late * (activities + 2) + which] += amount - piece
                piece, ends = amount, True
            if late != last[each]:
                carried[each] += piece
            if piece > most:
                most, first[each], cause[each] = piece, late, which
            amount -= piece
            if ends:
                break
            if match[a] != match[b] and longer > max(earlier, 0) and last[match[a]] != a:
                late, other = last[match[a]], last[match[b]]  # it waited for these, and the other one for those
            else:
                late, other = a, b
