"""Process groups of calls that do not record them: which ranks were in a collective together.

Ranks whose calls stand side by side did the same at much the same time; but several groups may have. Ranks form a group
if they leave at the same time and either early ones visibly wait for late ones, or arrivals differ widely
(`algorithms.alignment.waiting_together`); or if the groups of the job are listed and only one fits; or if there is only
one. Everything else stays open: a wrong pair is worse than none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.model.matching.membership import Attendance, SideBySide
from kinetoscope.model.matching.order import Offsets
from kinetoscope.model.matching.simultaneity import MAX_COMPARED, Simultaneity

_INEXACT_SPREAD_RATIO: Final = 2.0
"""Required ratio of arrival spread to departure spread where some ends are less exact, but all seem to have waited."""


def certain_groups(attendance: Attendance, table: SideBySide, offsets: Offsets) -> Iterator[list[int]]:
    """Sequences that are certainly of one group: lists of their places in the table, no place twice."""
    if table.rows.shape[1] < 2:
        return
    timing = Simultaneity(attendance, table, offsets)
    first = table.rows.max(axis=0)
    if attendance.calls.on_host[first[0]] and all(
        attendance.groups[rank] is not None for rank in attendance.calls.rank[first].tolist()
    ):
        yield from _of_listed(attendance, timing)
    else:
        yield from _of_unlisted(attendance, timing)


def _of_unlisted(attendance: Attendance, timing: Simultaneity) -> Iterator[list[int]]:
    """Groups where none are listed."""
    if not timing.binds:
        return
    count = timing.rows.shape[1]
    everyone = np.arange(count)
    if len(np.unique(timing.rank)) == count and timing.bound(0, widest := timing.widest(0)).all():
        same = widest <= timing.limit(0) and not timing.is_mixed(0, everyone)
        if same or timing.leave_nearer(everyone, _INEXACT_SPREAD_RATIO):
            yield everyone.tolist()
            return
    done = np.zeros(count, np.bool_)
    for one in range(min(count, max(4, MAX_COMPARED // max(timing.end.size, 1)))):
        if not done[one] and len(members := _members(attendance, timing, one)) and not done[members].any():
            done[members] = True
            yield members.tolist()


def _members(attendance: Attendance, timing: Simultaneity, one: int) -> Int64s:
    """The members of this one's group; none if they are not certain."""
    possible, certain = timing.together(one), timing.bound(one, timing.limit(one))
    waited = bool((certain >= possible).all())
    members = np.flatnonzero(certain if waited else possible)
    if not len(np.unique(timing.rank[members])) == len(members) > 1:
        return np.empty(0, np.int64)
    is_certain = waited or _is_alone(attendance, timing, one, members)
    if timing.on_host:  # a rank that waits for different ones in turn is in several groups
        is_certain = is_certain and bool((certain <= possible).all()) and not timing.is_mixed(one, members)
    return members if is_certain or timing.leave_nearer(members) else np.empty(0, np.int64)


def _is_alone(attendance: Attendance, timing: Simultaneity, one: int, members: Int64s) -> bool:
    """True if these could be in a group with nobody else, and are not two groups."""
    if len(members) == 2 and timing.is_complete:
        other = int(members[members != one][0])
        return np.array_equal(np.flatnonzero(timing.together(other)), members)
    return not timing.on_host and attendance.sequences == 1 and len(members) == attendance.callers


# --- groups that are listed


def _of_listed(attendance: Attendance, timing: Simultaneity) -> Iterator[list[int]]:
    """Groups of those that are listed for each rank: the only ones that fit the calls of one of their ranks."""
    options = _options(attendance, timing)
    reduced = False
    while options:
        counts = Counter(rank for ranks in options for rank in ranks)
        certain = [ranks for ranks in options if any(counts[rank] == 1 for rank in ranks)]
        if not certain and (reduced or not attendance.calls.sized[timing.example[0]]):
            return  # calls of unknown size are too much alike
        if not certain:
            _remove_impossible(timing, options)
            reduced = True
        for ranks in certain:
            if any(ranks & other for other in certain if other != ranks):
                options.pop(ranks, None)  # both cannot be
            elif ranks in options:
                members = options[ranks]
                if members is not None and len(members) > 1:
                    yield members.tolist()
                options = {each: places for each, places in options.items() if not each & ranks}


_Options = dict[frozenset[int], Int64s | None]
"""Candidate groups: their recorded ranks, and the places of these in the table; None if it lacks one of them."""


def _options(attendance: Attendance, timing: Simultaneity) -> _Options:
    """Groups all of whose ranks, as far as they are recorded, make such calls."""
    place = {rank: each for each, rank in enumerate(timing.rank.tolist())}
    callers = attendance.ranks_calling(attendance.calls.signature[timing.example[:1]])
    options: _Options = {}
    for rank in place:
        for numbers in attendance.groups[rank] or ():
            ranks = frozenset(attendance.place_of[each] for each in numbers if each in attendance.place_of)
            if ranks not in options and (ranks <= callers or attendance.calls.gaps):
                options[ranks] = np.array(sorted(place[each] for each in ranks)) if ranks <= place.keys() else None
    return dict(sorted(options.items(), key=lambda each: (-len(each[0]), sorted(each[0]))))


def _remove_impossible(timing: Simultaneity, options: _Options) -> None:
    """Remove the groups that cannot be."""
    if not timing.binds or timing.calls.gaps or timing.rows.shape[1] * timing.end.size > MAX_COMPARED:
        return
    place = {rank: each for each, rank in enumerate(timing.rank.tolist())}
    certain = {rank: timing.bound(each, timing.limit(each)) for rank, each in place.items()}
    for ranks, members in list(options.items()):
        wrong = any(not ranks >= set(timing.rank[certain[rank]].tolist()) for rank in ranks if rank in certain)
        if members is not None and not wrong:
            wrong = not all(timing.together(each)[members].all() for each in members.tolist())
            wrong |= timing.waited_for_others(members)
        if wrong:
            del options[ranks]
