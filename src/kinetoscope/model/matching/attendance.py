"""Which ranks were in a collective together, where no process group is recorded.

Ranks that stand side by side did the same at much the same time; but several groups may have. Those are taken for one
group that leave together, and of whom it is seen that the early wait for the late, or that any two come at very
different times (`algorithms.alignment.waiting_together`); or where the groups of the job are listed and only one
fits; or where there can be but one. Everything else stays open: a wrong pair is worse than none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.model.matching.candidates import of_listed
from kinetoscope.model.matching.membership import Attendance, Table
from kinetoscope.model.matching.order import Offsets
from kinetoscope.model.matching.simultaneity import PIVOTS, Seen

_WIDE: Final = 2.0
"""How many times nearer together they leave than they come of whom some are less exact, but all seem to have waited."""


def attended(known: Attendance, table: Table, offsets: Offsets) -> Iterator[list[int]]:
    """Sequences that are of one group, for certain: lists of their places in the table, no place twice."""
    if table.rows.shape[1] < 2:
        return
    seen = Seen(known, table, offsets)
    first = table.rows.max(axis=0)
    if known.calls.on_host[first[0]] and all(
        known.groups[rank] is not None for rank in known.calls.rank[first].tolist()
    ):
        yield from of_listed(known, seen)
    else:
        yield from _of_any(known, seen)


def _of_any(known: Attendance, seen: Seen) -> Iterator[list[int]]:
    """Where no groups are listed."""
    if not seen.binds:
        return
    count = seen.rows.shape[1]
    everyone = np.arange(count)
    if len(np.unique(seen.rank)) == count and seen.bound(0, widest := seen.widest(0)).all():
        same = widest <= seen.limit(0) and not seen.is_mixed(0, everyone)
        if same or seen.leave_nearer(everyone, _WIDE):
            yield everyone.tolist()
            return
    done = np.zeros(count, np.bool_)
    for one in range(min(count, max(4, PIVOTS // max(seen.end.size, 1)))):
        if not done[one] and len(members := _with(known, seen, one)) and not done[members].any():
            done[members] = True
            yield members.tolist()


def _with(known: Attendance, seen: Seen, one: int) -> Int64s:
    """Who is in one group with this one for certain; nobody if that is not certain."""
    maybe, sure = seen.together(one), seen.bound(one, seen.limit(one))
    waited = bool((sure >= maybe).all())
    members = np.flatnonzero(sure if waited else maybe)
    if not len(np.unique(seen.rank[members])) == len(members) > 1:
        return np.empty(0, np.int64)
    told = waited or _is_alone(known, seen, one, members)
    if seen.on_host:  # who waited now for this one and now for that one is in several groups
        told = told and bool((sure <= maybe).all()) and not seen.is_mixed(one, members)
    return members if told or seen.leave_nearer(members) else np.empty(0, np.int64)


def _is_alone(known: Attendance, seen: Seen, one: int, members: Int64s) -> bool:
    """Whether there is nobody else that these could be in a group with, and they are no two groups."""
    if len(members) == 2 and seen.whole:
        other = int(members[members != one][0])
        return np.array_equal(np.flatnonzero(seen.together(other)), members)
    return not seen.on_host and known.sequences == 1 and len(members) == known.everyone
