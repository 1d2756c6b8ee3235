"""Delay that each rank causes in each step: by single collectives, and by whole steps where these are not matched.

By whole steps a rank delays the others if its own time is longer, and the others are in collectives for as much longer,
step after step. That needs neither clocks nor matches: ranks number their steps alike. The delay of its peers is its
excess own time, but no more than their excess time in collectives: in all, and without computation meanwhile. It counts
if both exceed chance, so it takes several steps. Most ranks must be recorded: otherwise the missing ones may be the
cause.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Floats, Int64s
from kinetoscope.algorithms.outliers import CERTAIN_Z_SCORE, MIN_PLACES, Excess
from kinetoscope.model.stragglers.arrivals import Arrivals
from kinetoscope.model.stragglers.attribution import CAUSES, Attribution
from kinetoscope.model.stragglers.own_time import (
    COLUMNS,
    IN_COLLECTIVES,
    ON_HOST,
    OWN,
    PARTS,
    excesses,
    is_constant,
    whole_steps,
)
from kinetoscope.model.stragglers.pipeline_stages import same_stage

DELAY: Final = "delay "
"""Prefix of columns: average loss of those who waited, by cause, ns."""

OWN_CAUSES: Final = [CAUSES.index(name) for name in OWN]
"""Places of OWN in CAUSES."""

_OF_MATCHED: Final = ("calls", "last", "late", "carried")

_MIN_SHARE: Final = 0.5
"""Fraction of the largest excess above which a rank is charged. Waiting in collectives hides host activities: a rank
that waits for the same straggler elsewhere hides fewer, and seems to do more itself, at most by the lateness of the
straggler, which itself hides as little."""


def delays_by_rank(arrivals: Arrivals, calls: pl.DataFrame, attribution: Attribution) -> pl.DataFrame:
    """The cost of each rank in each step, as its collectives are charged.

    Args:
        arrivals: the collectives as ranks took part in them.
        calls: the frame of these; see `arrivals_of`.
        attribution: cost of the collectives, and the ranks that it is charged to.

    Returns:
        rank, step, step_time; calls, those that are matched; last, in how many of them the rank arrived last; late, the
        greatest lateness; carried; lost, and of that the part of each of CAUSES, and with DELAY the delays.
    """
    is_last = np.zeros(len(arrivals), np.bool_)
    is_last[attribution.last] = ~arrivals.pairwise[attribution.last]
    is_last &= calls["matched"].to_numpy()
    of_match = arrivals.match[is_last]
    late, carried = np.zeros(len(arrivals), np.int64), np.zeros(len(arrivals), np.int64)
    late[is_last], carried[is_last] = attribution.late[of_match], attribution.carried[of_match]
    each = calls.select("rank", "step", "step_time", "matched").with_columns(
        collective=pl.Series(~arrivals.pairwise) & pl.col("matched"),
        last=pl.Series(is_last),
        late=pl.Series(late),
        carried=pl.Series(carried),
        **{name: pl.Series(attribution.charged[:, place]) for place, name in enumerate(CAUSES)},
        **{DELAY + name: pl.Series(attribution.delay[:, place]) for place, name in enumerate(CAUSES)},
    )
    return each.group_by("rank", "step").agg(
        pl.col("step_time").first(),
        calls=pl.col("collective").sum().cast(pl.Int64),
        last=pl.col("last").sum().cast(pl.Int64),
        late=pl.col("late").max(),
        carried=pl.col("carried").sum(),
        lost=pl.sum_horizontal(CAUSES).sum(),
        **{name: pl.col(name).sum() for name in (*CAUSES, *(DELAY + name for name in CAUSES))},
    )


def host_exposed_time(calls: pl.DataFrame, attribution: Attribution) -> pl.DataFrame:
    """Time in which each rank's host left transfer exposed in each step, by what it did meanwhile."""
    times = {name: attribution.host_exposed[:, place] for name, place in zip(COLUMNS, OWN_CAUSES, strict=True)}
    return calls.select("rank", "step").with_columns(**times).group_by("rank", "step").agg(pl.col(COLUMNS).sum())


def delays_by_step(
    cells: pl.DataFrame, calls: pl.DataFrame, costs: pl.DataFrame, step_time: int
) -> pl.DataFrame | None:
    """The cost of each rank in each step by whole steps, in the columns of `delays_by_rank`; None if it is not known.

    Args:
        cells: `own_steps` of all ranks, with `rank`, and `calls`, the collectives that the rank had in the step.
        calls: the collectives of all ranks, with `place` and LAUNCHED.
        costs: `delays_by_rank`: what is known of those that are matched.
        step_time: duration of a typical step, ns.
    """
    most_missing = calls.select(2 * pl.col("rank").n_unique() <= pl.col("world").max()).item()
    if most_missing or cells[IN_COLLECTIVES[0]].null_count():
        return None  # or steps are not numbered alike
    whole = whole_steps(cells).group_by("rank", "step").agg(pl.col("step_time", *IN_COLLECTIVES, *PARTS).sum())
    if whole["step"].n_unique() < MIN_PLACES or (stages := same_stage(calls)) is None:
        return None  # of chance nothing is known, or of who does the same
    columns = [pl.sum_horizontal(COLUMNS), *(-pl.col(name) for name in IN_COLLECTIVES), *map(pl.col, PARTS)]
    rank, step, (own, less, less_alone, *others) = excesses(whole, stages, step_time, columns)
    by_cause, on_host = dict(zip(OWN, others, strict=False)), dict(zip(ON_HOST, others[len(OWN) :], strict=True))
    delay = np.minimum(np.minimum(own.each, less.each), less_alone.each)
    is_slow_host = np.any([is_constant(by_cause[name], above) for name, above in on_host.items()], axis=0)
    delay[~_is_charged(own, less_alone, is_slow_host)] = 0
    parts = _divided(delay, np.stack([cause.each for cause in by_cause.values()], axis=2)).reshape(-1, len(OWN))
    of_rank = pl.DataFrame({"rank": rank}).join(stages, on="rank", how="left", maintain_order="left")
    peers = of_rank.select(pl.len().over("stage") - 1).to_series().to_numpy().repeat(len(step))
    table = pl.DataFrame({"rank": np.repeat(rank, len(step)), "step": np.tile(step, len(rank))})
    zero = np.zeros(len(table), np.int64)
    delays = {name: parts[:, OWN.index(name)] if name in OWN else zero for name in CAUSES}
    table = table.with_columns(
        pl.Series("lost", parts.sum(axis=1) * peers),
        *(pl.Series(name, each * peers) for name, each in delays.items()),
        *(pl.Series(DELAY + name, each) for name, each in delays.items()),
    ).join(whole.select("rank", "step", "step_time"), on=["rank", "step"])
    table = table.join(costs.select("rank", "step", *_OF_MATCHED), on=["rank", "step"], how="left")
    return table.with_columns(pl.col("calls", "last", "carried").fill_null(0)).select(costs.columns)


def _is_charged(own: Excess, less_alone: Excess, is_slow_host: Bools) -> Bools:
    """Ranks with certainly more own time and less time in collectives, by more than half of the greatest excess.

    That others are in collectives for less time, too, is no reason to doubt: all wait for those whom the late one
    delays. Of hosts that are constantly slow one step is enough.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        z_score = less_alone.level / less_alone.noise * np.sqrt(np.isfinite(less_alone.each).sum(axis=1))
        greatest = np.nan_to_num(less_alone.each / less_alone.noise[:, None]).max(axis=1, initial=0)
    most, peak = np.nanmax(own.level, initial=0), np.nan_to_num(own.each).max(axis=1, initial=0)
    is_certain = (own.z_score > CERTAIN_Z_SCORE) & (z_score > CERTAIN_Z_SCORE)
    is_slow_once = is_slow_host & (greatest > CERTAIN_Z_SCORE) & (peak > _MIN_SHARE * peak.max(initial=0))
    return np.asarray((is_certain & (own.level > _MIN_SHARE * most)) | is_slow_once)


def _divided(delay: Floats, excess: Floats) -> Int64s:
    """Each delay, 0 where there is none, divided in proportion to the excess: int64 [ranks, steps, causes]."""
    excess = np.nan_to_num(excess).clip(0)
    total = excess.sum(axis=2, keepdims=True)
    shares = np.nan_to_num(delay).clip(0)[:, :, None] * excess
    return np.asarray(np.divide(shares, total, out=np.zeros_like(excess), where=total > 0), np.int64)
