"""What is known of like calls whose process group is not recorded, before their times are looked at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.collectives.process_groups import ranks_of, read_back
from kinetoscope.model.matching.columns import Calls


@dataclass(frozen=True)
class Table:
    """Like calls of several sequences side by side.

    Attributes:
        rows: int64 [places, sequences], −1 for none.
        told: bool [sequences], those whose places beside the first's times tell; else it is their order only.
    """

    rows: Int64s
    told: Bools

    def without(self, members: list[int]) -> Table:
        """Less some sequences."""
        gone = np.array(members, np.int64)
        told = self.told & (0 not in members)
        return Table(np.delete(self.rows, gone, axis=1), np.delete(told, gone))


@dataclass(frozen=True)
class Attendance:
    """What is known of all calls.

    Attributes:
        free: bool [calls], those whose group is looked for.
        arrival: int64 [calls], when each was there at the latest.
        least: int64 [calls], the shortest duration of like calls of its sequence.
        sequences: how many sequences of calls (streams) a rank has at most.
        everyone: number of ranks that have such calls; of the job, as far as that is known.
        whole: whether the files of all ranks are there.
    """

    calls: Calls
    free: Bools
    arrival: Int64s
    least: Int64s
    sequences: int
    everyone: int
    whole: bool

    @classmethod
    def of(cls, calls: Calls, free: Bools) -> Attendance:
        """Of calls, some of which are of unknown groups."""
        rows = np.flatnonzero(free & calls.binding)
        streams = rows[group(calls.rank[rows], calls.stream[rows])[1]] if len(rows) else rows
        each = np.bincount(calls.rank[streams], minlength=1)
        least = _least(calls)
        most = int(each.max()) + bool(calls.single.any())  # sends and receives: not all ranks do the same
        return cls(calls, free, _arrivals(calls), least, most, int((each > 0).sum()), _is_whole(calls))

    @cached_property
    def groups(self) -> dict[int, list[frozenset[int]] | None]:
        """Of each rank the groups of several that it is in, as numbers of ranks; None where they are not listed."""
        found: dict[int, list[frozenset[int]] | None] = {}
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
            found[rank] = several if len(listed) == len(sets) and several and rank not in found else None
        return found

    @cached_property
    def there(self) -> dict[int, int]:
        """The place of each rank by its number."""
        places, first = np.unique(self.calls.rank, return_index=True)
        return dict(zip(self.calls.number[first].tolist(), places.tolist(), strict=True))

    @cached_property
    def _ranks(self) -> dict[int, set[int]]:
        """Of each kind of call the ranks that make such."""
        rows = np.flatnonzero(self.free)
        found: dict[int, set[int]] = {}
        for row in rows[group(self.calls.rank[rows], self.calls.signature[rows])[1]].tolist():
            found.setdefault(int(self.calls.signature[row]), set()).add(int(self.calls.rank[row]))
        return found

    def doing(self, signatures: Int64s) -> set[int]:
        """Ranks that make calls of any of these kinds."""
        return set().union(*(self._ranks.get(each, ()) for each in np.unique(signatures).tolist()))


def _is_whole(calls: Calls) -> bool:
    """Whether the files of all ranks are there; of a job that does not say how many there are, if it looks like that.

    Machines hold 2, 4 or 8 devices: of another number the last are probably missing.
    """
    here = int(calls.rank.max(initial=-1)) + 1
    if calls.world:
        return calls.world <= here
    return int(calls.number.max(initial=-1)) < here and here & (here - 1) == 0


def _least(calls: Calls) -> Int64s:
    took = calls.end - calls.start
    codes, first = group(calls.rank, calls.stream, calls.signature) if len(took) else (took, took)
    least = np.full(len(first), np.iinfo(np.int64).max)
    np.minimum.at(least, codes, took)
    return least[codes]


def _arrivals(calls: Calls) -> Int64s:
    """When each call was there: on a host one may have to wait until those before it are done."""
    found = calls.start.copy()
    rows = np.flatnonzero(calls.on_host)
    for mine in np.split(rows, np.flatnonzero(np.diff(calls.rank[rows])) + 1):
        if len(mine) > 1:
            before = np.maximum.accumulate(calls.end[mine])[:-1]
            found[mine[1:]] = np.minimum(np.maximum(calls.start[mine[1:]], before), calls.end[mine[1:]])
    return found
