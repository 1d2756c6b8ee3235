"""Which ranks were in a collective together, where no process group is recorded.

Ranks that stand side by side did the same at much the same time; but several groups may have. Those are taken for one
group that leave together, and of whom it is seen that the early wait for the late (`algorithms.waiting_together`); or
where the groups of the job are listed and only one fits; or where there can be but one. Everything else stays open: a
wrong pair is worse than none.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kinetoscope.model.matching_listed import of_listed
from kinetoscope.model.matching_order import Offsets
from kinetoscope.model.matching_seen import Attendance, Seen, Table


def attended(known: Attendance, table: Table, offsets: Offsets) -> Iterator[list[int]]:
    """Sequences that are of one group, for certain: lists of their places in the table, no place twice."""
    if table.rows.shape[1] < 2:
        return
    seen = Seen(known, table, offsets)
    first = table.rows.max(axis=0)
    if known.calls.on_host[first[0]] and all(
        known.groups[rank] is not None for rank in known.calls.rank[first].tolist()
    ):
        yield from _of_listed(known, seen)
    else:
        yield from _of_any(known, seen)


def _of_any(known: Attendance, seen: Seen) -> Iterator[list[int]]:
    """Where no groups are listed."""
    if not seen.binds:
        return
    count = seen.rows.shape[1]
    ends = seen.ends(0)
    widest = max(_TOGETHER, _LOOSE * float(np.nanmax(ends.jitter, initial=0.0))) + ends.doubt
    if len(np.unique(seen.rank)) == count and seen.bound(0, widest).all():
        yield list(range(count))
        return
    done = np.zeros(count, np.bool_)
    for one in range(min(count, max(4, _PIVOTS // max(seen.end.size, 1)))):
        if not done[one]:
            maybe = seen.together(one)
            sure = seen.bound(one, seen.limit(one))
            members = np.flatnonzero(sure if (sure >= maybe).all() else maybe)
            several = len(np.unique(seen.rank[members])) == len(members) > 1
            if several and not done[members].any() and ((sure >= maybe).all() or _is_alone(known, seen, one, members)):
                done[members] = True
                yield members.tolist()


def _is_alone(known: Attendance, seen: Seen, one: int, members: NDArray[np.int64]) -> bool:
    """Whether there is nobody else that these could be in a group with, and they are no two groups."""
    if len(members) == 2 and seen.whole:
        other = int(members[members != one][0])
        return np.array_equal(np.flatnonzero(seen.together(other)), members)
    on_host = known.calls.on_host[seen.some[one]]  # no stream tells of how many groups it is
    return not on_host and known.sequences == 1 and len(members) == known.everyone
