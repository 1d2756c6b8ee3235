"""What is seen of like calls side by side, whose process group is not recorded: who left with whom, who waited."""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.alignment.waiting_together import (
    TWICE,
    Ends,
    compared_ends,
    joined_by_waiting,
    leave_nearer_than_they_come,
)
from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.model.matching.membership import Attendance, Table
from kinetoscope.model.matching.order import Offsets

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

    def together(self, one: int) -> Bools:
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

    def waits(self, one: int, limit: float) -> tuple[Bools, Bools]:
        """Who left with this one and had waited for another, and who else may have been with it: bool [events, …]."""
        residual = np.abs(self.ends(one).residual)
        waits = (residual <= limit) & (self.wait >= 2 * limit + _VARIES * self.least)
        return np.asarray(waits), np.asarray(~waits & ~(residual > 3 * limit))

    def bound(self, one: int, limit: float) -> Bools:
        """Who was in collectives with this one, for certain: bool [sequences]."""
        if not self.whole or len(self.end) < _TELLING:
            return np.asarray(np.arange(len(self.rank)) == one)
        label = joined_by_waiting(*self.waits(one, limit))
        return np.asarray(label == label[one])

    def waited_for_others(self, members: Int64s) -> bool:
        """Whether all of these waited for somebody else who left with them."""
        if not self.whole or len(self.end) < _TELLING:
            return False
        one = int(members[0])
        waits, late = self.waits(one, self.limit(one))
        late &= ~np.isnan(self.end)
        return bool((waits[:, members].all(axis=1) & late.any(axis=1)).sum() >= TWICE)

    def leave_nearer(self, members: Int64s, times: float = _NEARER) -> bool:
        """Whether these leave together and come one by one; who is not here may have come last."""
        share = 1.0 if self.on_host else _MOST  # no stream tells that all are of one group
        return self.whole and leave_nearer_than_they_come(self.end[:, members], self.come[:, members], times, share)

    def is_mixed(self, one: int, members: Int64s) -> bool:
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
