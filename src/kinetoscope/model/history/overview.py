"""A whole run in some hundred buckets: one rank after the other is summed up, so that none stays in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.model.history.bands import (
    Bands,
    buckets_of,
    nothing,
    over_ranks,
    require_numbers,
    size_for,
    step_times,
    summed,
)


class _RankBuckets(NamedTuple):
    """Sums of the buckets of a size of a rank, from bucket `low` on."""

    rank: int
    size: int
    low: int
    sums: NDArray[np.float32]

    @property
    def end(self) -> int:
        """Number of the step after the last bucket."""
        return (self.low + int(self.sums.shape[1])) * self.size


class Overview:
    """The buckets of the ranks so far.

    Args:
        columns: buckets at most.
    """

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._of_ranks: list[_RankBuckets] = []

    def add(self, attempts: Sequence[pl.DataFrame]) -> None:
        """Add a rank: its rows of STEPS, of each attempt.

        Raises:
            BrokenTraceError: the numbers of its steps are none.
        """
        some = [each for each in attempts if each.height]
        if not some:
            return
        rank = int(some[0]["rank"][0])
        step, *times = (np.concatenate(each) for each in zip(*(step_times(each, {}) for each in some), strict=True))
        first, end = int(step.min()), int(step.max()) + 1
        require_numbers(rank, first, end, len(step))
        size = size_for(end - first, self._columns)
        low, high = first // size, (end - 1) // size + 1
        dense = np.full((2, (high - low) * size), np.nan, np.float32)
        dense[:, step - low * size] = times
        self._of_ranks.append(_RankBuckets(rank, size, low, buckets_of(dense, size)))

    def bands(self) -> Bands | None:
        """The buckets over all ranks, a row for each; None without a step."""
        every = sorted(self._of_ranks)
        if not every:
            return None
        first, end = min(each.low * each.size for each in every), max(each.end for each in every)
        size = max(size_for(end - first, self._columns), *(each.size for each in every))
        low, high = first // size, (end - 1) // size + 1
        return over_ranks(
            [each.rank for each in every], [_of(each, size, low, high) for each in every], size, low, len(every)
        )


def _of(of: _RankBuckets, size: int, low: int, high: int) -> NDArray[np.float32]:
    """The sums of larger buckets, from number `low` to before `high`."""
    each = size // of.size
    sums = nothing((high - low) * each)
    begin = of.low - low * each
    sums[:, begin : begin + of.sums.shape[1]] = of.sums
    return summed(sums, each)
