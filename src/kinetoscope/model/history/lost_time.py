"""The time of a run: its steps at the best steady level, and what was lost beyond it, by cause.

The rows add up to the whole: each step's time is the best level, what marks and spikes explain, and the rest, which
belongs to the level of its stretch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools
from kinetoscope.model.history.causes import Cause
from kinetoscope.model.history.rank_series import RankSeries
from kinetoscope.model.history.returns import Return
from kinetoscope.model.history.run_series import RunSeries
from kinetoscope.model.history.shifts import Shift
from kinetoscope.model.history.tables import LOST

Why = tuple[str, int | None, str | None]
"""Cause, number of the change, part."""


def lost_time(
    run: RunSeries, shifts: Sequence[Shift], causes: Sequence[Cause], returns: Sequence[Return], events: pl.DataFrame
) -> pl.DataFrame:
    """The rows of LOST.

    Args:
        run: the series.
        shifts: of its step time; `change` is the place of one in them, from 1.
        causes: of each shift.
        returns: ranks that are slowest again and again.
        events: those of `spike_events`.
    """
    total: defaultdict[Why, float] = defaultdict(float)
    for row, rank in enumerate(run.ranks):
        for why, time in _of_rank(run, row, shifts, causes, returns).items():
            total[why] += time
        total["restart", None, None] += rank.restart
        total["repeated", None, None] += rank.repeated
        for kind, time in rank.explained.items():
            total[kind, None, None] += time
    for (cause, part), time in _of_spikes(run, events):
        total[cause or "spike", None, part or None] += time
    ranks = len(run.ranks)
    whole = sum(each.whole for each in run.ranks) / ranks
    best = total.pop(("best", None, None))
    rows = sorted(((*why, time / ranks) for why, time in total.items() if time), key=lambda row: -row[3])
    table = [("best", None, None, best / ranks), *rows]
    return LOST.frame([(number, *row, row[3] / max(whole, 1)) for number, row in enumerate(table, 1)])


def _of_spikes(run: RunSeries, events: pl.DataFrame) -> list[tuple[tuple[str, str], float]]:
    """Time of spikes that no mark of the own rank explains, by their cause, on whichever rank that is."""
    own = pl.concat(pl.DataFrame({"step": each.spikes.step, "left": each.spikes.left}) for each in run.ranks)
    origin = events.select("step", "cause", "part").unique("step", keep="first", maintain_order=True)
    joined = own.join(origin, on="step").group_by("cause", "part").agg(pl.col("left").sum())
    return [((cause, part), left) for cause, part, left in joined.iter_rows()]


def _of_rank(
    run: RunSeries, row: int, shifts: Sequence[Shift], causes: Sequence[Cause], returns: Sequence[Return]
) -> dict[Why, float]:
    """The time of a rank's steps without spikes: at its best level, and above it by the change that led there."""
    rank = run.ranks[row]
    begin = rank.first_block - run.first // run.block
    here = [(number, each) for number, each in enumerate(shifts) if each.rows[row] and not each.is_drift]
    edges = sorted({0, *(min(max(each.place - begin, 0), len(rank.steps)) for _, each in here), len(rank.steps)})
    pieces = [(low, high) for low, high in pairwise(edges) if rank.steps[low:high].sum()]
    slow = [each.slow[begin : begin + len(rank.steps)] for each in returns]
    usual = ~np.any([np.zeros(len(rank.steps), np.bool_), *slow], axis=0)
    level = [_level(rank, low, high, usual) for low, high in pieces]
    lost: defaultdict[Why, float] = defaultdict(float)
    for (low, high), own in zip(pieces, level, strict=True):
        above = rank.clean[low:high] - own * rank.steps[low:high]
        for each, mask in zip(returns, slow, strict=True):
            lost["slowest rank", None, each.part] += float(above[mask[low:high]].sum())
        count = int(rank.steps[low:high].sum())
        lost["best", None, None] += min(level) * count
        # What is not as usual is above its own level; the rest adds up to nothing.
        why = _because(here, low + begin, high + begin, causes)
        lost[why] += (own - min(level)) * count
    for number, shift in enumerate(shifts):
        if shift.is_drift and shift.rows[row]:
            # A drift is in the best level with half of its size.
            grown = abs(shift.after - shift.before) / 2 * int(rank.steps.sum())
            lost["best", None, None] -= grown
            lost["drift", number + 1, causes[number].part] += grown
    return lost


def _level(rank: RankSeries, low: int, high: int, usual: Bools) -> float:
    """The mean time of the usual steps; of all where none is."""
    some = usual[low:high] if rank.steps[low:high][usual[low:high]].any() else np.ones(high - low, np.bool_)
    return float(rank.clean[low:high][some].sum() / rank.steps[low:high][some].sum())


def _because(here: list[tuple[int, Shift]], low: int, high: int, causes: Sequence[Cause]) -> Why:
    """The change to which a slow stretch is due: the last one to a higher level before it, else the next to a lower."""
    before = [number for number, each in here if each.place <= low and each.after > each.before]
    after = [number for number, each in here if each.place >= high and each.after < each.before]
    number = before[-1] if before else after[0] if after else None
    return ("noise", None, None) if number is None else ("change", number + 1, causes[number].part)
