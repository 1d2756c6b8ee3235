"""Step times at any scale: by whole steps, the fastest, the median and the slowest rank, and how far each is behind.

A bucket is `size` steps, a power of four, counted from step 0, so that it is the same for all ranks, and stays the
same while a run grows. Of each rank the least and the greatest time of a step in it are exact, whatever the size: a
spike never vanishes. Sums over 16 steps and more are held and appended; smaller buckets are made of the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Float32s, Floats, Int64s
from kinetoscope.errors import BrokenTraceError
from kinetoscope.model.history.rank_series import MOST_MISSING

STRIDE: Final = 4
"""Buckets of a size in one of the next."""

_LEAST_HELD_STEPS: Final = 16
"""Steps of the smallest buckets that are held."""

_LEAST, _GREATEST, _SUM, _OWN, _COUNT = range(5)
_FIELDS: Final = 5
"""Rows of sums: least, greatest and sum of step times, sum of the rank's own work, ns; and how many steps."""

_EMPTY_BUCKET: Final = np.array([[np.inf], [-np.inf], [0], [0], [0]], np.float32)


@dataclass(frozen=True)
class Bands:
    """Buckets of a stretch over all ranks; NaN where there is no step.

    Attributes:
        size: steps of a bucket; first: number of the first step of the first one.
        fastest, median, slowest: float32 [buckets], ns: the least time of a step of any rank, the median over ranks of
            their means, the greatest time of a step of any rank.
        rank: int64 [buckets], whose step took longest; −1 where there is none.
        behind: float32 [rows, buckets]: by how much a rank's own work is above the median of the ranks, as a share of
            the median step; of several ranks in a row that of the slowest.
        rows: int64 [rows + 1], where the ranks of each row begin in `ranks`.
        ranks: their numbers.
    """

    size: int
    first: int
    fastest: Float32s
    median: Float32s
    slowest: Float32s
    rank: Int64s
    behind: Float32s
    rows: Int64s
    ranks: Int64s


class RankLevels:
    """The step times of one rank, and sums over them; grows at its end.

    Args:
        rank: its number.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.first = self.end = 0
        self._count = 0
        self._times = np.empty((2, 0), np.float32)
        self._levels: list[NDArray[np.float32]] = []

    def add(self, steps: Int64s, times: NDArray[np.number], own: NDArray[np.number]) -> None:
        """Add steps by number, their times and own work in ns; of a step that was run again the last counts.

        Raises:
            BrokenTraceError: the numbers are none.
        """
        if not len(steps):
            return
        low, high = int(steps.min()), int(steps.max()) + 1
        first, end = (min(low, self.first), max(high, self.end)) if self._count else (low, high)
        self._count += len(steps)
        require_numbers(self.rank, first, end, self._count)
        if first < self.first or not self.end:
            self._times, self._levels = self._moved(first), []
            self.first = first
        self.end = end
        self._times = _grown(self._times, end - first, np.float32(np.nan))
        self._times[:, steps - first] = times, own
        self._sum_up(low, high)

    def _sum_up(self, low: int, high: int) -> None:
        """Sums over the buckets that have steps from `low` to before `high`: of each size up to one that has all."""
        below, size = 1, _LEAST_HELD_STEPS
        while True:
            level, base, until = _level(size), self.first // size, (self.end - 1) // size + 1
            if level == len(self._levels):
                self._levels.append(np.empty((_FIELDS, 0), np.float32))
                low, high = self.first, self.end
            begin, end = low // size, (high - 1) // size + 1
            sums = summed(self._of_size(below, begin * (size // below), end * (size // below)), size // below)
            self._levels[level] = _grown(self._levels[level], until - base, _EMPTY_BUCKET)
            self._levels[level][:, begin - base : end - base] = sums
            if until - base <= 1:
                return
            below, size = size, size * STRIDE

    def buckets(self, size: int, low: int, high: int) -> NDArray[np.float32]:
        """Sums of the buckets from `low` to before `high`: float32 [_FIELDS, buckets]."""
        if not self._levels:
            return nothing(high - low)
        if size > _LEAST_HELD_STEPS * STRIDE ** (len(self._levels) - 1):  # all of it is in one bucket of the last level
            sums, place = nothing(high - low), self.first // size - low
            if 0 <= place < high - low:
                sums[:, place] = self._levels[-1][:, 0]
            return sums
        known = 1 if size < _LEAST_HELD_STEPS else size
        return summed(self._of_size(known, low * (size // known), high * (size // known)), size // known)

    def _of_size(self, size: int, low: int, high: int) -> NDArray[np.float32]:
        """Sums of the buckets of a size that is held: single steps, or a level."""
        if size == 1:
            begin, end = max(low, self.first), min(high, self.end)
            sums = nothing(high - low)
            if begin < end:
                sums[:, begin - low : end - low] = sums_of_steps(*self._times[:, begin - self.first : end - self.first])
            return sums
        level = self._levels[_level(size)]
        base = self.first // size
        sums = nothing(high - low)
        begin, end = max(low, base), min(high, (self.end - 1) // size + 1)
        if begin < end:
            sums[:, begin - low : end - low] = level[:, begin - base : end - base]
        return sums

    def _moved(self, first: int) -> NDArray[np.float32]:
        """The times, from an earlier step on."""
        if not self.end:
            return self._times
        before = np.full((2, self.first - first), np.nan, np.float32)
        return np.concatenate([before, self._times[:, : self.end - self.first]], axis=1)


def bands(ranks: Sequence[RankLevels], size: int, low: int, high: int, rows: int) -> Bands:
    """The buckets from `low` to before `high` over all ranks; `behind` has so many rows at most."""
    return over_ranks([each.rank for each in ranks], [each.buckets(size, low, high) for each in ranks], size, low, rows)


def over_ranks(ranks: Sequence[int], sums_of: Sequence[NDArray[np.float32]], size: int, low: int, rows: int) -> Bands:
    """The buckets of all ranks together, from those of each, the first of which is number `low`."""
    numbers = np.array(ranks, np.int64)
    sums = np.stack(sums_of)
    with np.errstate(invalid="ignore"):
        middle, own = _medians(sums[:, _SUM] / sums[:, _COUNT]), sums[:, _OWN] / sums[:, _COUNT]
    none = np.isnan(middle)
    starts = np.arange(0, len(ranks), max(-(-len(ranks) // max(rows, 1)), 1))
    behind = np.fmax.reduceat((own - _medians(own)) / middle, starts, axis=0)
    return Bands(
        size,
        low * size,
        np.where(none, np.nan, sums[:, _LEAST].min(axis=0)).astype(np.float32),
        middle,
        np.where(none, np.nan, sums[:, _GREATEST].max(axis=0)).astype(np.float32),
        np.where(none, -1, numbers[sums[:, _GREATEST].argmax(axis=0)]),
        behind.astype(np.float32),
        np.append(starts, len(ranks)).astype(np.int64),
        numbers,
    )


def size_for(steps: int, columns: int) -> int:
    """The least size of buckets at which so many steps fit into so many columns."""
    size = 1
    while size * columns < steps:
        size *= STRIDE
    return size


def step_times(steps: pl.DataFrame, before: dict[tuple[int, int], int]) -> tuple[Int64s, Floats, Floats]:
    """Number, time and own work of each row of one rank and attempt, in ns.

    The time is from the end of the step before it to its own end. A rank's own work is all but the backward pass, in
    which ranks wait for each other: who is behind in it makes all others wait. Where that is not known, it is all.

    Args:
        steps: rows of STEPS, in order of time.
        before: when the last step of each rank and attempt ended; it is renewed.
    """
    key = (int(steps["rank"][0]), int(steps["attempt"][0]))
    start, end = steps["start"].to_numpy(), steps["end"].to_numpy()
    last = np.concatenate([[before.get(key, start[0])], end[:-1]])
    before[key] = int(end[-1])
    time = (np.maximum(end - start, 0) + np.maximum(start - last, 0)).astype(np.float64)
    return steps["step"].to_numpy(), time, time - steps["backward"].fill_null(0).to_numpy()


def require_numbers(rank: int, first: int, end: int, count: int) -> None:
    """Refuse numbers of steps that are none.

    Raises:
        BrokenTraceError: they are not those of so many steps.
    """
    if first < 0 or end - first > MOST_MISSING * count + 1000:
        raise BrokenTraceError(f"rank {rank} has steps from {first} to {end - 1}, but only {count} of them")


def sums_of_steps(times: Float32s, own: Float32s) -> NDArray[np.float32]:
    """Buckets of one step each; NaN where there is none."""
    none = np.isnan(times)
    return np.stack(
        [
            np.where(none, np.float32(np.inf), times),
            np.where(none, np.float32(-np.inf), times),
            np.where(none, np.float32(0), times),
            np.where(none, np.float32(0), own),
            (~none).astype(np.float32),
        ]
    )


def buckets_of(dense: Float32s, size: int) -> NDArray[np.float32]:
    """Buckets of so many steps each, of times and own work of all numbers: float32 [2, steps], NaN where there is none.

    Most buckets have all of their steps, and need no care for what is not there.
    """
    whole = dense.reshape(2, -1, size)
    full = ~np.isnan(whole.sum(axis=2)).any(axis=0)
    times, own = whole[:, full] if not full.all() else whole
    made = np.empty((_FIELDS, whole.shape[1]), np.float32)
    made[:, full] = (
        times.min(axis=1),
        times.max(axis=1),
        times.sum(axis=1, dtype=np.float64),
        own.sum(axis=1, dtype=np.float64),
        np.full(len(times), size),
    )
    made[:, ~full] = summed(sums_of_steps(*whole[:, ~full].reshape(2, -1)), size)
    return made


def nothing(count: int) -> NDArray[np.float32]:
    """So many buckets without a step."""
    return np.tile(_EMPTY_BUCKET, count)


def summed(sums: NDArray[np.float32], of: int) -> NDArray[np.float32]:
    """Buckets of which each is so many of these."""
    if of == 1:
        return sums
    parts = sums.reshape(_FIELDS, -1, of)
    return np.stack(
        [
            parts[_LEAST].min(axis=1),
            parts[_GREATEST].max(axis=1),
            *parts[[_SUM, _OWN]].sum(axis=2, dtype=np.float64).astype(np.float32),
            parts[_COUNT].sum(axis=1),
        ]
    )


def _medians(values: NDArray[np.float32]) -> Float32s:
    """The median of each column, without NaN; NaN of none."""
    ordered = np.sort(values, axis=0)
    known = np.maximum((~np.isnan(ordered)).sum(axis=0), 1)
    pair = [np.take_along_axis(ordered, places[None], axis=0)[0] for places in ((known - 1) // 2, known // 2)]
    return np.asarray((pair[0] + pair[1]) / 2, np.float32)


def _level(size: int) -> int:
    return (size // _LEAST_HELD_STEPS).bit_length() // 2


def _grown(values: NDArray[np.float32], length: int, fill: NDArray[np.float32] | np.float32) -> NDArray[np.float32]:
    """An array with room for so many, half as much again where it was too short."""
    if values.shape[-1] >= length:
        return values
    grown = np.empty((*values.shape[:-1], max(length, values.shape[-1] * 3 // 2)), np.float32)
    grown[...] = fill
    grown[..., : values.shape[-1]] = values
    return grown
