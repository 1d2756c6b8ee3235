"""What each rank costs the others in each step, told by whole steps: of collectives that could not be matched.

Who makes the others wait does more by itself, and they are in collectives for as much longer, time after time. That
needs neither clocks nor pairs: ranks number their steps alike. A rank costs each of those that have the same to do what
it does more than they, but no more than they are longer in collectives: in all, and without computing meanwhile. It
counts if the rank does more, and they stand still longer, beyond chance: so it takes several steps. And most ranks of
the job must be there, lest those that are wait for others.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Floats, Int64s
from kinetoscope.algorithms.outliers import SEVERAL, SIGMAS, Excess
from kinetoscope.model.stragglers.blame import CAUSES
from kinetoscope.model.stragglers.delay_by_rank import DELAY
from kinetoscope.model.stragglers.own_time import (
    COLUMNS,
    IN_COLLECTIVES,
    ON_HOST,
    OWN,
    PARTS,
    compared,
    is_lasting,
    whole_steps,
)
from kinetoscope.model.stragglers.pipeline_stages import alike

_FACTS: Final = ("calls", "last", "late", "carried")

_SHARE: Final = 0.5
"""Of what any rank does more, by so much a rank must do more to be charged. Waiting in collectives hides what a host
does meanwhile. Who waits for the same rank, but elsewhere, hides less of that, and seems to do more itself: at most by
as much as that rank is late, which itself hides as little."""


def step_costs(cells: pl.DataFrame, calls: pl.DataFrame, costs: pl.DataFrame, step_time: int) -> pl.DataFrame | None:
    """A line for each rank and step, as `rank_costs` has them; None where it cannot be told.

    Args:
        cells: `own_steps` of all ranks, with `rank`, and `calls`, the collectives that the rank had in the step.
        calls: the collectives of all ranks, with `place` and LAUNCHED.
        costs: `rank_costs`: what is known of those that are matched.
        step_time: how long a step is, ns.
    """
    most_missing = calls.select(2 * pl.col("rank").n_unique() <= pl.col("world").max()).item()
    if most_missing or cells[IN_COLLECTIVES[0]].null_count():
        return None  # or steps are not numbered alike
    whole = whole_steps(cells).group_by("rank", "step").agg(pl.col("step_time", *IN_COLLECTIVES, *PARTS).sum())
    if whole["step"].n_unique() < SEVERAL or (kinds := alike(calls)) is None:
        return None  # of chance nothing is known, or of who does the same
    columns = [pl.sum_horizontal(COLUMNS), *(-pl.col(name) for name in IN_COLLECTIVES), *map(pl.col, PARTS)]
    rank, step, (own, longer, still, *found) = compared(whole, kinds, step_time, columns)
    by_cause, on_host = dict(zip(OWN, found, strict=False)), dict(zip(ON_HOST, found[len(OWN) :], strict=True))
    delay = np.minimum(np.minimum(own.each, longer.each), still.each)
    hosts = np.any([is_lasting(by_cause[name], above) for name, above in on_host.items()], axis=0)
    delay[~_is_charged(own, still, hosts)] = 0
    parts = _divided(delay, np.stack([cause.each for cause in by_cause.values()], axis=2)).reshape(-1, len(OWN))
    others = pl.DataFrame({"rank": rank}).join(kinds, on="rank", how="left", maintain_order="left")
    peers = others.select(pl.len().over("stage") - 1).to_series().to_numpy().repeat(len(step))
    table = pl.DataFrame({"rank": np.repeat(rank, len(step)), "step": np.tile(step, len(rank))})
    zero = np.zeros(len(table), np.int64)
    delays = {name: parts[:, OWN.index(name)] if name in OWN else zero for name in CAUSES}
    table = table.with_columns(
        pl.Series("lost", parts.sum(axis=1) * peers),
        *(pl.Series(name, each * peers) for name, each in delays.items()),
        *(pl.Series(DELAY + name, each) for name, each in delays.items()),
    ).join(whole.select("rank", "step", "step_time"), on=["rank", "step"])
    table = table.join(costs.select("rank", "step", *_FACTS), on=["rank", "step"], how="left")
    return table.with_columns(pl.col("calls", "last", "carried").fill_null(0)).select(costs.columns)


def _is_charged(own: Excess, still: Excess, hosts: Bools) -> Bools:
    """Which ranks do more by themselves than others, and stand still less, beyond doubt; more than half of the most.

    That others stand still less, too, is no reason to doubt: all wait for those whom the late one keeps. Of those whose
    hosts are slow for good one step is enough.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        errors = still.level / still.noise * np.sqrt(np.isfinite(still.each).sum(axis=1))
        once = np.nan_to_num(still.each / still.noise[:, None]).max(axis=1, initial=0) > SIGMAS
    most, peak = np.nanmax(own.level, initial=0), np.nan_to_num(own.each).max(axis=1, initial=0)
    lasting = (own.sure > SIGMAS) & (errors > SIGMAS) & (own.level > _SHARE * most)
    return np.asarray(lasting | (hosts & once & (peak > _SHARE * peak.max(initial=0))))


def _divided(delay: Floats, more: Floats) -> Int64s:
    """Each delay, 0 where there is none, divided among what the rank did more of: int64 [ranks, steps, causes]."""
    more = np.nan_to_num(more).clip(0)
    total = more.sum(axis=2, keepdims=True)
    parts = np.divide(more * np.nan_to_num(delay).clip(0)[:, :, None], total, out=np.zeros_like(more), where=total > 0)
    return np.asarray(parts, np.int64)
