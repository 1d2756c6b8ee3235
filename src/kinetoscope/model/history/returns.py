"""Ranks that are the slowest again and again: the same one in many stretches of a run, more often than chance has it.

A rank's own time counts, not that of its step: where ranks wait for each other, all steps are as long as the slowest
one's. A rank is slower by the part in which it is furthest above the middle one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Floats, Int64s
from kinetoscope.algorithms.outliers import median_of_others
from kinetoscope.model.history.causes import cause_of
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

_LONGEST_SHARE: Final = 0.5
"""Share of its slow blocks that lie in one episode at most: else it is slow once, which is a change."""

_ORDER: Final = ("data", "gap", "forward", "optimizer", "rest", "backward")
"""Of two ranks each is above the other in some part; the part in which less is waited for others counts."""

_CHANCE_ERRORS: Final = 6.0

_ERRORS: Final = 6.0
"""Deviations of a part's blocks by which it is above the others."""


def returns_of(run: RunSeries, shifts: Sequence[Shift]) -> pl.DataFrame:
    """The rows of RETURNS: not where a rank is slower for good, which is a change."""
    count = run.means.shape[1]
    if len(run.ranks) < 2 or count < MIN_EPISODES * 2:
        return RETURNS.empty()
    excess, part = _excess(run)
    for shift in shifts:
        excess[cause_of(run, shift).rows, shift.place : shift.high] = -np.inf
    slowest = excess.argmax(axis=0)
    greatest = excess[slowest, np.arange(count)]
    counts = greatest >= MIN_EXCESS * run.common
    rows = [
        row
        for rank in np.unique(slowest[counts]).tolist()
        if (row := _row(run, rank, counts & (slowest == rank), greatest, part[rank], int(counts.sum()))) is not None
    ]
    return RETURNS.frame(rows)


def _excess(run: RunSeries) -> tuple[Floats, Int64s]:
    """By how much each rank is above the others, and in which of _ORDER: [ranks, blocks] each."""
    best = np.full(run.means.shape, -np.inf)
    part = np.zeros(run.means.shape, np.int64)
    for number, name in enumerate(_ORDER):
        values = np.nan_to_num(run.parts[:, PARTS.index(name)].astype(np.float64))
        above = values - (median_of_others(values) if len(values) < 6 else np.median(values, axis=0))
        change = np.diff(above, axis=1)
        noise = 1.4826 * np.median(np.abs(change), axis=1, keepdims=True) / np.sqrt(2)
        above = np.where(above >= _ERRORS * np.maximum(noise, np.median(noise)), above, -np.inf)
        # A part in which ranks wait counts only where it is clearly more than what another one explains.
        better = above > np.where(np.isfinite(best), best * 1.25, -np.inf)
        best, part = np.where(better, above, best), np.where(better, number, part)
    return best, part


def _row(run: RunSeries, row: int, slow: Bools, excess: Floats, part: Int64s, among: int) -> dict[str, Any] | None:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], slow, [False]]).astype(np.int8)))
    begins, ends = edges[::2], edges[1::2]
    # Episodes that are a block or two apart are one.
    apart = np.concatenate([[True], begins[1:] - ends[:-1] > 2])
    begins, ends = begins[apart], ends[np.concatenate([apart[1:], [True]])]
    lasting = ends - begins >= SHORTEST_EPISODE
    begins, ends = begins[lasting], ends[lasting]
    if len(begins) < MIN_EPISODES:
        return None
    number, ranks = int((ends - begins).sum()), len(run.ranks)
    chance = among / ranks
    error = np.sqrt(max(chance * (1 - 1 / ranks), 1.0))
    once = (ends - begins).max() > _LONGEST_SHARE * (ends - begins).sum()
    if once or (number - chance) < _CHANCE_ERRORS * min(error, np.sqrt(number)) / 2:
        return None
    steps = np.array([run.step_of(int(each)) for each in begins])
    period = period_of(steps)
    return {
        "rank": run.ranks[row].rank,
        "episodes": len(begins),
        "steps": number * run.block,
        "share": number / len(slow),
        "first": run.step_of(int(begins[0])),
        "last": run.step_of(int(ends[-1])) - 1,
        "period": period.steps if period else None,
        "part": _ORDER[int(np.bincount(part[slow]).argmax())],
        "excess": float(np.median(excess[slow])),
        "certainty": "likely" if len(begins) > MIN_EPISODES + 1 else "guess",
    }
