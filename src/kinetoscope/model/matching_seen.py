"""What is seen of like calls side by side, whose process group is not recorded: who left with whom, who waited."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.grouping import group
from kinetoscope.algorithms.waiting_together import (
    TWICE,
    Ends,
    compared_ends,
    joined_by_waiting,
    leave_nearer_than_they_come,
)
from kinetoscope.model.matching_columns import Calls, Int64s
from kinetoscope.model.matching_order import Offsets
from kinetoscope.model.process_groups import ranks_of, read_back

_SAMPLE: Final = 512
"""Collectives of a sequence by which it is judged."""

_LOOSE: Final = 5.0
"""How many times as much as those of the two that vary least the ends of others in a group may vary."""

TOGETHER: Final = 5_000.0
"""How far ends may vary of those who leave together, ns, in any case."""

_MOST: Final = 0.95
"""Share of the collectives by which that is judged; others may have been disturbed."""

_MIXED: Final = 0.05
"""Share of collectives that may end astray, if all are of one group."""

_NEARER: Final = 4.0
"""How many times nearer together they leave than they come who are in a group, to be sure of it."""

PIVOTS: Final = 1 << 22
"""Ends that are compared, about, where it is hard to tell."""

_SEVERAL: Final = 4
"""Collectives from which on variation says something."""

_TELLING: Final = 8
"""Collectives from which on waiting says something: the shortest of them shows how long it takes without."""

_ASTRAY: Final = 0.25
"""Share of collectives that two who are in a group together may leave apart, for whatever reason."""

_VARIES: Final = 0.25
"""Share of its duration by which a transfer varies, about."""


@dataclass(frozen=True)
class Table:
    """Like calls of several sequences side by side.

    Attributes:
        rows: int64 [places, sequences], −1 for none.
        told: bool [sequences], those whose places beside the first's times tell; else it is their order only.
    """

    rows: Int64s
    told: NDArray[np.bool_]

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
    free: NDArray[np.bool_]
    arrival: Int64s
    least: Int64s
    sequences: int
    everyone: int
    whole: bool

    @classmethod
    def of(cls, calls: Calls, free: NDArray[np.bool_]) -> Attendance:
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


class Seen:
    """The times of the calls of a table, by sample."""

    def __init__(self, known: Attendance, table: Table, offsets: Offsets) -> None:
        calls, self.rows, self._offsets = known.calls, table.rows, offsets
        self.calls = calls
        self.some = self.rows.max(axis=0)  # a call of each
        self.rank = calls.rank[self.some]
        self.on_host = bool(calls.on_host[self.some[0]])
        any_ = self.rows.max(axis=1)
        # Who waits may wait for somebody who is not here.
        self.whole = known.whole and not calls.gaps and known.doing(calls.signature[any_]) <= set(self.rank.tolist())
        places = np.flatnonzero(calls.binding[any_])
        self.binds = len(places) > 0
        places = places[np.unique(np.linspace(0, len(places) - 1, _SAMPLE).astype(np.int64))] if self.binds else places
        sample = self.rows[places]
        there = sample >= 0
        origin = int(calls.end[self.some].min())
        self.end = np.where(there, calls.end[sample] - origin, np.nan)
        self.least = np.where(there, known.least[sample], 0).astype(np.float64)
        self.wait = np.where(there, calls.end[sample] - known.arrival[sample] - self.least, 0.0)
        self.come = np.where(there, known.arrival[sample] - origin, np.nan)
        self._ends: dict[int, Ends] = {}

    def ends(self, one: int) -> Ends:
        """How the ends of all compare with this one's."""
        if one not in self._ends:
            self._ends[one] = compared_ends(self.end, one)
        return self._ends[one]

    def limit(self, one: int) -> float:
        """How far the ends of those who leave with this one may vary, ns."""
        ends = self.ends(one)
        several = (~np.isnan(ends.residual)).sum(axis=0) >= _SEVERAL
        least = np.delete(np.where(several, ends.jitter, np.inf), one).min(initial=np.inf)
        return float(max(TOGETHER, _LOOSE * least if np.isfinite(least) else 0.0) + ends.doubt)

    def together(self, one: int) -> NDArray[np.bool_]:
        """Who may have left with this one, time after time: bool [sequences]."""
        ends, limit = self.ends(one), self.limit(one)
        there = ~np.isnan(ends.residual)
        astray = (np.abs(ends.residual) > 3 * limit).sum(axis=0) > _ASTRAY * there.sum(axis=0)
        apart = np.isnan(ends.offset) | (ends.jitter > limit) | astray
        for other in np.flatnonzero(~apart).tolist():
            between = self._offsets.between(self.some[one], self.some[other])
            apart[other] = between is not None and abs(ends.offset[other] - between) > _LOOSE * limit
        apart[one] = False
        return np.asarray(~apart)

    def waits(self, one: int, limit: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Who left with this one and had waited for another, and who else may have been with it: bool [events, …]."""
        residual = np.abs(self.ends(one).residual)
        waits = (residual <= limit) & (self.wait >= 2 * limit + _VARIES * self.least)
        return np.asarray(waits), np.asarray(~waits & ~(residual > 3 * limit))

    def bound(self, one: int, limit: float) -> NDArray[np.bool_]:
        """Who was in collectives with this one, for certain: bool [sequences]."""
        if not self.whole or len(self.end) < _TELLING:
            return np.asarray(np.arange(len(self.rank)) == one)
        label = joined_by_waiting(*self.waits(one, limit))
        return np.asarray(label == label[one])

    def waited_for_others(self, members: NDArray[np.int64]) -> bool:
        """Whether all of these waited for somebody else who left with them."""
        if not self.whole or len(self.end) < _TELLING:
            return False
        one = int(members[0])
        waits, late = self.waits(one, self.limit(one))
        late &= ~np.isnan(self.end)
        return bool((waits[:, members].all(axis=1) & late.any(axis=1)).sum() >= TWICE)

    def leave_nearer(self, members: NDArray[np.int64], times: float = _NEARER) -> bool:
        """Whether these leave together and come one by one; who is not here may have come last."""
        share = 1.0 if self.on_host else _MOST  # no stream tells that all are of one group
        return self.whole and leave_nearer_than_they_come(self.end[:, members], self.come[:, members], times, share)

    def is_mixed(self, one: int, members: NDArray[np.int64]) -> bool:
        """Whether some of the events may be of other groups than the rest: on a host no stream divides them."""
        if not self.on_host:
            return False
        residual = self.ends(one).residual[:, members]
        astray = (np.abs(residual) > 3 * self.limit(one)).sum(axis=0)
        return bool((astray > _MIXED * len(residual)).any()) or not self.calls.sized[self.some[one]]

    def widest(self, one: int) -> float:
        """How far the ends of all may vary if they are of one group and some are less exact, ns."""
        ends = self.ends(one)
        return max(TOGETHER, _LOOSE * float(np.nanmax(ends.jitter, initial=0.0))) + ends.doubt
