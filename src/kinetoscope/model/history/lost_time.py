"""Where the time of a run went: its steps at the best steady level, and what was lost beyond it, by cause.

The rows add up to the whole: each step's time is the best level, what marks and spikes explain, and the rest, which
belongs to the level of its stretch.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import polars as pl

from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.model.history.causes import cause_of
from kinetoscope.model.history.run_series import RunSeries
from kinetoscope.model.history.shifts import Shift
from kinetoscope.model.history.tables import LOST

Cause = tuple[str, int | None, str | None]


def lost_time(run: RunSeries, shifts: list[Shift], events: pl.DataFrame) -> pl.DataFrame:
    """The rows of LOST; `change` is the place of a shift in `shifts`, from 1; `events` are those of `spike_events`."""
    total: defaultdict[Cause, float] = defaultdict(float)
    parts = [cause_of(run, shift).part for shift in shifts]
    for row, rank in enumerate(run.ranks):
        for why, time in _of_rank(run, row, shifts, parts).items():
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
    rows = sorted(((*cause, time / ranks) for cause, time in total.items() if time), key=lambda row: -row[3])
    table = [("best", None, None, best / ranks), *rows]
    return LOST.frame([(number, *row, row[3] / max(whole, 1)) for number, row in enumerate(table, 1)])


def _of_spikes(run: RunSeries, events: pl.DataFrame) -> list[tuple[tuple[str, str], float]]:
    """What no mark of the own rank explains of spikes, by what they come from, on whichever rank that is."""
    own = pl.concat(pl.DataFrame({"step": each.spikes.step, "left": each.spikes.left}) for each in run.ranks)
    origin = events.select("step", "cause", "part").unique("step", keep="first", maintain_order=True)
    joined = own.join(origin, on="step").group_by("cause", "part").agg(pl.col("left").sum())
    return [((cause, part), left) for cause, part, left in joined.iter_rows()]


def _of_rank(run: RunSeries, row: int, shifts: list[Shift], parts: list[str | None]) -> dict[Cause, float]:
    """The time of a rank's steps without spikes: at its best level, and above it by the change that led there."""
    rank = run.ranks[row]
    begin = rank.first_block - run.first // run.block
    here = [(number, each) for number, each in enumerate(shifts) if each.rows[row] and not each.is_drift]
    edges = sorted({0, *(min(max(each.place - begin, 0), len(rank.steps)) for _, each in here), len(rank.steps)})
    pieces = [(low, high) for low, high in pairwise(edges) if rank.steps[low:high].sum()]
    level = [_level(rank.clean[low:high], rank.steps[low:high]) for low, high in pieces]
    best = min(level)
    lost: defaultdict[Cause, float] = defaultdict(float)
    drift = next((number for number, each in enumerate(shifts) if each.is_drift and each.rows[row]), None)
    for (low, high), own in zip(pieces, level, strict=True):
        count = int(rank.steps[low:high].sum())
        lost["best", None, None] += best * count
        cause = _because(here, low + begin, high + begin, parts)
        lost[cause] += (own - best) * count
    if drift is not None:
        _split_drift(lost, shifts[drift], drift, parts[drift], int(rank.steps.sum()))
    return lost


def _level(clean: Floats, steps: Int64s) -> float:
    return float(clean.sum() / steps.sum())


def _because(here: list[tuple[int, Shift]], low: int, high: int, parts: list[str | None]) -> Cause:
    """The change to which a slow stretch is due: the last one to a higher level before it, else the next to a lower."""
    before = [(number, each) for number, each in here if each.place <= low and each.after > each.before]
    if before:
        number = before[-1][0]
        return "change", number + 1, parts[number]
    after = [(number, each) for number, each in here if each.place >= high and each.after < each.before]
    return ("change", after[0][0] + 1, parts[after[0][0]]) if after else ("noise", None, None)


def _split_drift(lost: defaultdict[Cause, float], shift: Shift, number: int, part: str | None, steps: int) -> None:
    """Take from the best level what a drift added to it: half of its size in each step."""
    grown = abs(shift.after - shift.before) / 2 * steps
    lost["best", None, None] -= grown
    lost["drift", number + 1, part] += grown
