"""The steps of all ranks together, by blocks: what answers about a whole run are made of.

A rank is read and reduced after the other, so that a run of any size needs memory for its step times and blocks alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Bools, Float32s, Floats
from kinetoscope.errors import BrokenTraceError
from kinetoscope.model.history.noise import block_length, filled
from kinetoscope.model.history.rank_series import MEASURED, MEMORY, MOST_MISSING, RankSeries, of_rank, rank_series
from kinetoscope.model.trace.text import listed


@dataclass(frozen=True)
class RunSeries:
    """All ranks of a run.

    Attributes:
        ranks: by number.
        block: steps of a block.
        first: number of the first step of the first block.
        marks: those of all ranks.
    """

    ranks: Sequence[RankSeries]
    block: int
    first: int
    marks: pl.DataFrame

    @cached_property
    def means(self) -> Floats:
        """Mean times without outliers: float64 [ranks, blocks]; what is missing is as the block before it."""
        return filled(self._stacked([each.means for each in self.ranks]))

    @cached_property
    def common(self) -> Floats:
        """The median of the ranks: float64 [blocks]."""
        return np.asarray(np.median(self.means, axis=0))

    @cached_property
    def parts(self) -> Float32s:
        """Mean parts: float32 [ranks, MEASURED, blocks], NaN where unknown."""
        return np.stack([self._stacked([each.parts[row] for each in self.ranks]) for row in range(len(MEASURED))], 1)

    @cached_property
    def memory(self) -> Float32s:
        """Least memory: float32 [ranks, MEMORY, blocks], NaN where unknown."""
        return np.stack([self._stacked([each.memory[row] for each in self.ranks]) for row in range(len(MEMORY))], 1)

    @property
    def numbers(self) -> list[int]:
        """The ranks' numbers."""
        return [each.rank for each in self.ranks]

    @property
    def last(self) -> int:
        """Number of the last step."""
        return max(each.first + len(each.times) - 1 for each in self.ranks)

    @property
    def steps(self) -> int:
        """How many numbers of steps there are, from the first to the last."""
        return self.last - min(each.first for each in self.ranks) + 1

    def step_of(self, block: int) -> int:
        """Number of the first step of a block."""
        return self.first + block * self.block

    def times(self, low: int, high: int) -> Floats:
        """Times of steps from `low` to before `high`, by number: float64 [ranks, steps], NaN where there is none."""
        times = np.full((len(self.ranks), high - low), np.nan)
        for row, each in enumerate(self.ranks):
            begin, end = max(low, each.first), min(high, each.first + len(each.times))
            if begin < end:
                times[row, begin - low : end - low] = each.times[begin - each.first : end - each.first]
        return times

    def _stacked(self, rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
        first = self.first // self.block
        count = max(each.first_block + len(each.means) for each in self.ranks) - first
        stacked = np.full((len(rows), count), np.nan, rows[0].dtype)
        for row, each in enumerate(self.ranks):
            begin = each.first_block - first
            stacked[row, begin : begin + len(rows[row])] = rows[row]
        return stacked


def run_series(frames: Iterable[pl.DataFrame], marks: pl.DataFrame) -> RunSeries | None:
    """The series of a run; None where it has no step.

    Args:
        frames: of STEPS, each with all rows of its ranks, in order of time.
        marks: of MARKS.

    Raises:
        BrokenTraceError: numbers of steps are none.
    """
    by_rank = {key[0]: rows for key, rows in marks.partition_by("rank", as_dict=True).items()}
    run = series_of_ranks((frame, by_rank.get(rank, marks.clear())) for rank, frame in of_rank(frames))
    return None if run is None else replace(run, marks=marks)


def series_of_ranks(tables: Iterable[tuple[pl.DataFrame, pl.DataFrame]]) -> RunSeries | None:
    """The same of the rows and the marks of one rank after the other.

    Raises: as `run_series`.
    """
    ranks: list[RankSeries] = []
    marks: list[pl.DataFrame] = []
    block = 0
    for frame, own in tables:
        block = block or block_length(int(frame["step"].max() - frame["step"].min()) + 1)  # type: ignore[operator,arg-type]
        ranks.append(rank_series(frame, own, block))
        marks.append(own)
    if not ranks:
        return None
    ranks.sort(key=lambda each: each.rank)
    run = RunSeries(ranks, block, min(each.first_block for each in ranks) * block, pl.concat(marks))
    if run.steps > MOST_MISSING * max(len(each.times) for each in ranks) + 1000:
        raise BrokenTraceError(
            f"ranks have steps from {run.first} to {run.last}, but none has more than a part of them"
        )
    return run


def who(run: RunSeries, rows: Bools) -> dict[str, Any]:
    """The columns that say which ranks: the only one, how many, and their numbers."""
    numbers = [run.ranks[row].rank for row in np.flatnonzero(rows).tolist()]
    text = "all" if len(numbers) == len(run.ranks) > 1 else listed(numbers, limit=len(numbers))
    return {"rank": numbers[0] if len(numbers) == 1 else None, "ranks": len(numbers), "who": text}
