"""Calls of different ranks side by side by their order in a process group; and what matches tell of clocks."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.alignment.alignment import aligned_pairs
from kinetoscope.algorithms.alignment.clocks import Fit, fit
from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.model.matching.columns import Calls

_PAIRINGS: Final = 4096
"""Pairs of ranks that are looked at for calls of unknown groups, about."""

_ENDS: Final = 50_000
"""Ends of collectives that clocks are compared by, about."""


def by_order(calls: Calls, free: Bools, bucket: Int64s, offsets: Offsets, *, rounds: int) -> Int64s:
    """Calls of one bucket side by side, rank after rank with the one that has most; what is left over once more."""
    found = np.full(len(calls.rank), -1, np.int64)
    rows = np.flatnonzero(free)
    rows = rows[np.argsort(bucket[rows], kind="stable")]  # within a bucket by rank and start, as all rows are
    number = 0
    for mine in np.split(rows, np.flatnonzero(np.diff(bucket[rows])) + 1):
        parts = np.split(mine, np.flatnonzero(np.diff(calls.rank[mine])) + 1)
        left = max(1, min(rounds, _PAIRINGS // max(len(parts), 1)))
        while left and len(parts) > 1:
            pivot = max(range(len(parts)), key=lambda place: (len(parts[place]), -place))
            number = _beside(calls, found, parts.pop(pivot), parts, offsets, number)
            parts = [rest for part in parts if len(rest := part[found[part] < 0])]
            left -= 1
    return found


def _beside(calls: Calls, found: Int64s, pivot: Int64s, parts: list[Int64s], offsets: Offsets, number: int) -> int:
    """Number the calls of one rank that others have too, from `number` on; the next free number comes back."""
    one = calls.witness(pivot)
    pairs = []
    for part in parts:
        pairs.append(aligned_pairs(one, calls.witness(part), offsets.between(pivot[0], part[0]), gaps=calls.gaps))
    taken = np.zeros(len(pivot), np.bool_)
    for part, (mine, theirs) in zip(parts, pairs, strict=True):
        found[part[theirs]] = number + mine
        taken[mine] = True
    found[pivot[taken]] = number + np.flatnonzero(taken)
    return number + len(pivot)


class Offsets:
    """How far each clock is ahead, by what is matched so far; worked out when somebody asks."""

    def __init__(self, calls: Calls, ids: Int64s) -> None:
        self._calls, self._ids = calls, ids
        self._fit: Fit | None = None

    def between(self, one: np.int64, other: np.int64) -> int | None:
        """How far the clock of one row's rank is behind that of another row's; None if nothing joins them."""
        mine, theirs = self._calls.clock[one], self._calls.clock[other]
        if mine == theirs:
            return 0
        self._fit = self._fit or self._fitted()
        if self._fit.component[mine] != self._fit.component[theirs]:
            return None
        return int(self._fit.offset[theirs] - self._fit.offset[mine])

    def _fitted(self) -> Fit:
        calls, ids = self._calls, self._ids
        rows = np.flatnonzero((ids >= 0) & calls.binding)
        clocks = int(calls.clock.max(initial=-1)) + 1
        seen = pl.DataFrame({"id": ids[rows], "clock": calls.clock[rows], "end": calls.end[rows]})
        seen = seen.group_by("id", "clock").agg(pl.col("end").quantile(0.5, "lower").cast(pl.Int64))
        seen = seen.filter(pl.len().over("id") > 1).sort("id", "clock")
        seen = seen.filter((pl.col("id").rank("dense") - 1) % (1 + len(seen) // _ENDS) == 0)
        event = (seen["id"].rank("dense").cast(pl.Int64) - 1).to_numpy()
        time = (seen["end"] - seen["end"].min()).cast(pl.Float64).to_numpy() if len(seen) else np.empty(0)
        return fit(seen["clock"].to_numpy(), event, time, np.zeros(clocks, np.bool_))
