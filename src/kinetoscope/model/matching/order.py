"""Calls of different ranks side by side by their order in a process group; and offsets of clocks by matches."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.alignment.alignment import aligned_pairs
from kinetoscope.algorithms.alignment.clocks import Fit, fit
from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.model.matching.columns import CallArrays

_MAX_PAIRINGS: Final = 4096
"""Pairs of ranks that are compared for calls of unknown groups, about."""

_MAX_ENDS: Final = 50_000
"""Ends of collectives that clocks are compared by, about."""


def by_order(calls: CallArrays, free: Bools, bucket: Int64s, offsets: Offsets, *, rounds: int) -> Int64s:
    """Numbers of calls of one bucket side by side, rank after rank with the one that has most, in several rounds."""
    ids = np.full(len(calls.rank), -1, np.int64)
    rows = np.flatnonzero(free)
    rows = rows[np.argsort(bucket[rows], kind="stable")]  # within a bucket by rank and start, as all rows are
    number = 0
    for mine in np.split(rows, np.flatnonzero(np.diff(bucket[rows])) + 1):
        parts = np.split(mine, np.flatnonzero(np.diff(calls.rank[mine])) + 1)
        rounds_left = max(1, min(rounds, _MAX_PAIRINGS // max(len(parts), 1)))
        while rounds_left and len(parts) > 1:
            pivot = max(range(len(parts)), key=lambda place: (len(parts[place]), -place))
            number = _numbered_with_pivot(calls, ids, parts.pop(pivot), parts, offsets, number)
            parts = [rest for part in parts if len(rest := part[ids[part] < 0])]
            rounds_left -= 1
    return ids


def _numbered_with_pivot(
    calls: CallArrays, ids: Int64s, pivot: Int64s, parts: list[Int64s], offsets: Offsets, number: int
) -> int:
    """Number the calls of one rank that others have too, from `number` on; returns the next free number."""
    one = calls.witness(pivot)
    pairs = []
    for part in parts:
        pairs.append(aligned_pairs(one, calls.witness(part), offsets.between(pivot[0], part[0]), gaps=calls.gaps))
    taken = np.zeros(len(pivot), np.bool_)
    for part, (mine, theirs) in zip(parts, pairs, strict=True):
        ids[part[theirs]] = number + mine
        taken[mine] = True
    ids[pivot[taken]] = number + np.flatnonzero(taken)
    return number + len(pivot)


class Offsets:
    """Offsets of clocks by the matches so far; fitted on first use."""

    def __init__(self, calls: CallArrays, ids: Int64s) -> None:
        self._calls, self._ids = calls, ids
        self._fit: Fit | None = None

    def between(self, one: np.int64, other: np.int64) -> int | None:
        """Offset of another row's clock from that of one row; None if no collectives join them."""
        mine, theirs = self._calls.clock[one], self._calls.clock[other]
        if mine == theirs:
            return 0
        self._fit = self._fit or self._fit_clocks()
        if self._fit.component[mine] != self._fit.component[theirs]:
            return None
        return int(self._fit.offset[theirs] - self._fit.offset[mine])

    def _fit_clocks(self) -> Fit:
        calls, ids = self._calls, self._ids
        rows = np.flatnonzero((ids >= 0) & calls.binding)
        clocks = int(calls.clock.max(initial=-1)) + 1
        ends = pl.DataFrame({"id": ids[rows], "clock": calls.clock[rows], "end": calls.end[rows]})
        ends = ends.group_by("id", "clock").agg(pl.col("end").quantile(0.5, "lower").cast(pl.Int64))
        ends = ends.filter(pl.len().over("id") > 1).sort("id", "clock")
        ends = ends.filter((pl.col("id").rank("dense") - 1) % (1 + len(ends) // _MAX_ENDS) == 0)
        event = (ends["id"].rank("dense").cast(pl.Int64) - 1).to_numpy()
        time = (ends["end"] - ends["end"].min()).cast(pl.Float64).to_numpy() if len(ends) else np.empty(0)
        return fit(ends["clock"].to_numpy(), event, time, np.zeros(clocks, np.bool_))
