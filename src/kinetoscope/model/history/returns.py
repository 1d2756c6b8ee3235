"""Ranks that are the slowest again and again: the same one in many stretches of a run, more often than chance has it.

A rank's own time counts, not that of its step: where ranks wait for each other, all steps are as long as the slowest
one's. A rank is slower by the part in which it is furthest above the middle one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Floats, Int64s
from kinetoscope.algorithms.outliers import median_of_others
from kinetoscope.algorithms.statistics import SIGMA_PER_MAD
from kinetoscope.model.history.causes import Cause
from kinetoscope.model.history.rank_series import PARTS
from kinetoscope.model.history.run_series import RunSeries
from kinetoscope.model.history.shifts import Shift
from kinetoscope.model.history.spikes import period_of
from kinetoscope.model.history.tables import RETURNS

MIN_EXCESS: Final = 0.03
"""Share of a step by which the slowest rank is above the others at least."""

MIN_EPISODES: Final = 3

SHORTEST_EPISODE: Final = 3
"""Blocks of an episode at least; what is shorter is a spike."""

_LONGEST_EPISODE: Final = 0.5
"""Share of its slow blocks that lie in one episode at most: else it is slow once, which is a change."""

_ORDER: Final = ("data", "gap", "forward", "optimizer", "rest", "backward")
"""Parts, those first in which ranks wait least for others: of two ranks each is above the other in some part."""

_CHANCE_ERRORS: Final = 6.0

_ERRORS: Final = 6.0
"""Deviations of a part's blocks by which it is above the others."""


@dataclass(frozen=True)
class Return:
    """A rank that is the slowest again and again.

    Attributes:
        row: of the rank.
        slow: bool [blocks], the blocks of its episodes.
        episodes: the blocks with which they begin.
        part: in which it is slower.
        excess: by how much in the middle one of these blocks, ns.
    """

    row: int
    slow: Bools
    episodes: Int64s
    part: str
    excess: float


def returns_of(run: RunSeries, shifts: Sequence[Shift], causes: Sequence[Cause]) -> list[Return]:
    """The ranks that are the slowest again and again; where one is slower for good, that is a change."""
    count = run.means.shape[1]
    if len(run.ranks) < 2 or count < MIN_EPISODES * 2:
        return []
    excess, part = _excess(run)
    for shift, cause in zip(shifts, causes, strict=True):
        excess[cause.rows, shift.place : shift.high] = -np.inf
    slowest = excess.argmax(axis=0)
    greatest = excess[slowest, np.arange(count)]
    counts = greatest >= MIN_EXCESS * run.common
    chance = counts.sum() / len(run.ranks)
    returns = []
    for row in np.unique(slowest[counts]).tolist():
        slow, episodes = _episodes(counts & (slowest == row))
        # Neighbouring blocks are no independent witnesses: episodes are.
        more = slow.sum() - chance
        if episodes is not None and more >= _CHANCE_ERRORS / 2 * np.sqrt(chance * slow.sum() / len(episodes)):
            name = _ORDER[int(np.bincount(part[row][slow]).argmax())]
            returns.append(Return(row, slow, episodes, name, float(np.median(greatest[slow]))))
    return returns


def returns_table(run: RunSeries, returns: Sequence[Return]) -> pl.DataFrame:
    """The rows of RETURNS."""
    rows = []
    for each in returns:
        blocks = np.flatnonzero(each.slow)
        period = period_of(run.first + each.episodes * run.block)
        rows.append(
            {
                "rank": run.ranks[each.row].rank,
                "episodes": len(each.episodes),
                "steps": len(blocks) * run.block,
                "share": len(blocks) / len(each.slow),
                "first": run.step_of(int(blocks[0])),
                "last": run.step_of(int(blocks[-1]) + 1) - 1,
                "period": period.steps if period else None,
                "part": each.part,
                "excess": each.excess,
                "certainty": "likely" if len(each.episodes) > MIN_EPISODES + 1 else "guess",
            }
        )
    return RETURNS.frame(rows)


def _excess(run: RunSeries) -> tuple[Floats, Int64s]:
    """By how much each rank is above the others, and in which of _ORDER: [ranks, blocks] each."""
    best = np.full(run.means.shape, -np.inf)
    part = np.zeros(run.means.shape, np.int64)
    for number, name in enumerate(_ORDER):
        values = np.nan_to_num(run.parts[:, PARTS.index(name)].astype(np.float64))
        above = values - (median_of_others(values) if len(values) < 6 else np.median(values, axis=0))
        change = np.diff(above, axis=1)
        noise = SIGMA_PER_MAD * np.median(np.abs(change), axis=1, keepdims=True) / math.sqrt(2)
        above = np.where(above >= _ERRORS * np.maximum(noise, np.median(noise)), above, -np.inf)
        # A part in which ranks wait counts only where it is clearly more than what another one explains.
        better = above > np.where(np.isfinite(best), best * 1.25, -np.inf)
        best, part = np.where(better, above, best), np.where(better, number, part)
    return best, part


def _episodes(slow: Bools) -> tuple[Bools, Int64s | None]:
    """The blocks of episodes that last, and those with which they begin; None of too few, or where one is most."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], slow, [False]]).astype(np.int8)))
    begins, ends = edges[::2], edges[1::2]
    # Episodes that are a block or two apart are one.
    apart = np.concatenate([[True], begins[1:] - ends[:-1] > 2])
    begins, ends = begins[apart], ends[np.concatenate([apart[1:], [True]])]
    lasting = ends - begins >= SHORTEST_EPISODE
    begins, ends = begins[lasting], ends[lasting]
    inside = np.zeros(len(slow), np.bool_)
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        inside[begin:end] = True
    is_enough = len(begins) >= MIN_EPISODES and (ends - begins).max() <= _LONGEST_EPISODE * inside.sum()
    return inside, begins if is_enough else None
