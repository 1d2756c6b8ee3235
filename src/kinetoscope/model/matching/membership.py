"""Facts about like calls whose process group is not recorded, apart from their times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.collectives.process_groups import ranks_of, read_back
from kinetoscope.model.matching.columns import CallArrays


@dataclass(frozen=True)
class SideBySide:
    """Like calls of several sequences side by side.

    Attributes:
        rows: int64 [places, sequences], −1 for none.
        is_timed: bool [sequences], those that times put beside the first; else it is their order only.
    """

    rows: Int64s
    is_timed: Bools

    def without(self, members: list[int]) -> SideBySide:
        """The table less some sequences."""
        gone = np.array(members, np.int64)
        is_timed = self.is_timed & (0 not in members)
        return SideBySide(np.delete(self.rows, gone, axis=1), np.delete(is_timed, gone))


@dataclass(frozen=True)
class Attendance:
    """Facts about all calls.

    Attributes:
        free: bool [calls], those whose group is unknown.
        arrival: int64 [calls], the latest instant at which each arrived.
        shortest: int64 [calls], the shortest duration of like calls of its sequence.
        sequences: the most sequences of calls (streams) that a rank has.
        callers: number of ranks that have such calls; of the job, as far as that is known.
        is_complete: whether the files of all ranks were read.
    """

    calls: CallArrays
    free: Bools
    arrival: Int64s
    shortest: Int64s
    sequences: int
    callers: int
    is_complete: bool

    @classmethod
    def of(cls, calls: CallArrays, free: Bools) -> Attendance:
        """The facts about calls, some of which are of unknown groups."""
        rows = np.flatnonzero(free & calls.binding)
        streams = rows[group(calls.rank[rows], calls.stream[rows])[1]] if len(rows) else rows
        each = np.bincount(calls.rank[streams], minlength=1)
        shortest = _shortest(calls)
        most = int(each.max()) + bool(calls.single.any())  # sends and receives: not all ranks do the same
        return cls(calls, free, _arrivals(calls), shortest, most, int((each > 0).sum()), _all_recorded(calls))

    @cached_property
    def groups(self) -> dict[int, list[frozenset[int]] | None]:
        """The groups of several that each rank is in, as numbers of ranks; None where they are not listed."""
        groups: dict[int, list[frozenset[int]] | None] = {}
        facts = self.calls.facts.filter(self.free).select("rank", "candidates").unique()
        known: dict[str, frozenset[int] | None] = {}
        for rank, text in facts.iter_rows():
            sets: set[frozenset[int] | None] = set()
            for line in (text or "").splitlines():
                if line not in known:
                    ranks = read_back(line).ranks
                    known[line] = None if ranks is None else frozenset(ranks_of(ranks))
                sets.add(known[line])
            listed = [each for each in sets if each is not None]
            several = sorted((each for each in listed if len(each) > 1), key=sorted)
            groups[rank] = several if len(listed) == len(sets) and several and rank not in groups else None
        return groups

    @cached_property
    def place_of(self) -> dict[int, int]:
        """The place of each rank by its number."""
        places, first = np.unique(self.calls.rank, return_index=True)
        return dict(zip(self.calls.number[first].tolist(), places.tolist(), strict=True))

    @cached_property
    def _ranks(self) -> dict[int, set[int]]:
        """The ranks that make calls of each signature."""
        rows = np.flatnonzero(self.free)
        ranks: dict[int, set[int]] = {}
        for row in rows[group(self.calls.rank[rows], self.calls.signature[rows])[1]].tolist():
            ranks.setdefault(int(self.calls.signature[row]), set()).add(int(self.calls.rank[row]))
        return ranks

    def ranks_calling(self, signatures: Int64s) -> set[int]:
        """Ranks that make calls of any of these signatures."""
        return set().union(*(self._ranks.get(each, ()) for each in np.unique(signatures).tolist()))


def _all_recorded(calls: CallArrays) -> bool:
    """True if the files of all ranks were read; of a job that does not record their number, whether that is likely.

    Machines hold 2, 4 or 8 devices: of another number the last are probably missing.
    """
    ranks = int(calls.rank.max(initial=-1)) + 1
    if calls.world:
        return calls.world <= ranks
    return int(calls.number.max(initial=-1)) < ranks and ranks & (ranks - 1) == 0


def _shortest(calls: CallArrays) -> Int64s:
    took = calls.end - calls.start
    codes, first = group(calls.rank, calls.stream, calls.signature) if len(took) else (took, took)
    shortest = np.full(len(first), np.iinfo(np.int64).max)
    np.minimum.at(shortest, codes, took)
    return shortest[codes]


def _arrivals(calls: CallArrays) -> Int64s:
    """The arrival of each call: on a host one may have to wait until those before it are done."""
    arrival = calls.start.copy()
    rows = np.flatnonzero(calls.on_host)
    for mine in np.split(rows, np.flatnonzero(np.diff(calls.rank[rows])) + 1):
        if len(mine) > 1:
            before = np.maximum.accumulate(calls.end[mine])[:-1]
            arrival[mine[1:]] = np.minimum(np.maximum(calls.start[mine[1:]], before), calls.end[mine[1:]])
    return arrival
