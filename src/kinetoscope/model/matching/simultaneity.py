"""Times of like calls side by side, whose process group is not recorded: ranks that leave together, and that wait."""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.alignment.waiting_together import (
    MIN_WAITS,
    ComparedEnds,
    compared_ends,
    depart_closer_than_arrive,
    joined_by_waiting,
)
from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.model.matching.membership import Attendance, SideBySide
from kinetoscope.model.matching.order import Offsets

_SAMPLE_SIZE: Final = 512
"""Collectives of a sequence that are compared."""

_MAX_JITTER_RATIO: Final = 5.0
"""Variation of the ends of others in a group / that of the two that vary least."""

SHORTEST_JITTER_NS: Final = 5_000.0
"""Variation of ends that is allowed in any case."""

_SHARE_IN_ORDER: Final = 0.95
"""Share of the collectives that must comply; others may have been disturbed."""

_MAX_ASTRAY_SHARE: Final = 0.05
"""Share of collectives that may end apart, if all are of one group."""

_SPREAD_RATIO: Final = 4.0
"""Required ratio of arrival spread to departure spread."""

MAX_COMPARED: Final = 1 << 22
"""Ends that are compared at most, about, in ambiguous cases."""

_MIN_FOR_JITTER: Final = 4
"""Collectives from which on variation is known."""

_MIN_FOR_WAITING: Final = 8
"""Collectives from which on waiting is known: the shortest of them shows the duration without."""

_MAX_APART_SHARE: Final = 0.25
"""Share of collectives that two members of a group may leave apart, for whatever reason."""

_TRANSFER_VARIATION: Final = 0.25
"""Variation of a transfer / its duration, about."""


class Simultaneity:
    """The times of a sample of the calls of a table."""

    def __init__(self, attendance: Attendance, table: SideBySide, offsets: Offsets) -> None:
        calls, self.rows, self._offsets = attendance.calls, table.rows, offsets
        self.calls = calls
        self.example = self.rows.max(axis=0)  # a call of each sequence
        self.rank = calls.rank[self.example]
        self.on_host = bool(calls.on_host[self.example[0]])
        of_place = self.rows.max(axis=1)
        # A rank may wait for one that was not recorded.
        self.is_complete = (
            attendance.is_complete
            and not calls.gaps
            and attendance.ranks_calling(calls.signature[of_place]) <= set(self.rank.tolist())
        )
        places = np.flatnonzero(calls.binding[of_place])
        self.binds = len(places) > 0
        places = (
            places[np.unique(np.linspace(0, len(places) - 1, _SAMPLE_SIZE).astype(np.int64))] if self.binds else places
        )
        sample = self.rows[places]
        is_recorded = sample >= 0
        origin = int(calls.end[self.example].min())
        self.end = np.where(is_recorded, calls.end[sample] - origin, np.nan)
        self.shortest = np.where(is_recorded, attendance.shortest[sample], 0).astype(np.float64)
        self.wait = np.where(is_recorded, calls.end[sample] - attendance.arrival[sample] - self.shortest, 0.0)
        self.arrival = np.where(is_recorded, attendance.arrival[sample] - origin, np.nan)
        self._ends: dict[int, ComparedEnds] = {}

    def ends(self, one: int) -> ComparedEnds:
        """The ends of all compared with this one's."""
        if one not in self._ends:
            self._ends[one] = compared_ends(self.end, one)
        return self._ends[one]

    def limit(self, one: int) -> float:
        """Allowed variation of the ends of those who leave with this one, ns."""
        ends = self.ends(one)
        several = (~np.isnan(ends.residual)).sum(axis=0) >= _MIN_FOR_JITTER
        shortest = np.delete(np.where(several, ends.jitter, np.inf), one).min(initial=np.inf)
        return float(
            max(SHORTEST_JITTER_NS, _MAX_JITTER_RATIO * shortest if np.isfinite(shortest) else 0.0) + ends.doubt
        )

    def together(self, one: int) -> Bools:
        """Sequences that may have left with this one, time after time: bool [sequences]."""
        ends, limit = self.ends(one), self.limit(one)
        is_recorded = ~np.isnan(ends.residual)
        astray = (np.abs(ends.residual) > 3 * limit).sum(axis=0) > _MAX_APART_SHARE * is_recorded.sum(axis=0)
        apart = np.isnan(ends.offset) | (ends.jitter > limit) | astray
        for other in np.flatnonzero(~apart).tolist():
            between = self._offsets.between(self.example[one], self.example[other])
            apart[other] = between is not None and abs(ends.offset[other] - between) > _MAX_JITTER_RATIO * limit
        apart[one] = False
        return np.asarray(~apart)

    def waits(self, one: int, limit: float) -> tuple[Bools, Bools]:
        """Members that left with this one and had waited, and others that may be members: bool [events, sequences]."""
        residual = np.abs(self.ends(one).residual)
        waits = (residual <= limit) & (self.wait >= 2 * limit + _TRANSFER_VARIATION * self.shortest)
        return np.asarray(waits), np.asarray(~waits & ~(residual > 3 * limit))

    def bound(self, one: int, limit: float) -> Bools:
        """Sequences that were certainly in collectives with this one: bool [sequences]."""
        if not self.is_complete or len(self.end) < _MIN_FOR_WAITING:
            return np.asarray(np.arange(len(self.rank)) == one)
        label = joined_by_waiting(*self.waits(one, limit))
        return np.asarray(label == label[one])

    def waited_for_others(self, members: Int64s) -> bool:
        """True if all of these waited for somebody else who left with them."""
        if not self.is_complete or len(self.end) < _MIN_FOR_WAITING:
            return False
        one = int(members[0])
        waits, late = self.waits(one, self.limit(one))
        late &= ~np.isnan(self.end)
        return bool((waits[:, members].all(axis=1) & late.any(axis=1)).sum() >= MIN_WAITS)

    def leave_nearer(self, members: Int64s, times: float = _SPREAD_RATIO) -> bool:
        """True if these leave together and arrive one by one; a rank that was not recorded may have arrived last."""
        share = 1.0 if self.on_host else _SHARE_IN_ORDER  # no stream shows that all are of one group
        return self.is_complete and depart_closer_than_arrive(
            self.end[:, members], self.arrival[:, members], times, share
        )

    def is_mixed(self, one: int, members: Int64s) -> bool:
        """True if some of the events may be of other groups than the rest: on a host no stream divides them."""
        if not self.on_host:
            return False
        residual = self.ends(one).residual[:, members]
        astray = (np.abs(residual) > 3 * self.limit(one)).sum(axis=0)
        return bool((astray > _MAX_ASTRAY_SHARE * len(residual)).any()) or not self.calls.sized[self.example[one]]

    def widest(self, one: int) -> float:
        """Allowed variation of all ends if they are of one group and some are less exact, ns."""
        ends = self.ends(one)
        return max(SHORTEST_JITTER_NS, _MAX_JITTER_RATIO * float(np.nanmax(ends.jitter, initial=0.0))) + ends.doubt
