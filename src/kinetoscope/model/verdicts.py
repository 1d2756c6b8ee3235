"""Who is a straggler, and why: what ranks cost the others, weighed against chance and accidents.

A rank is one by what it does itself, for good. So of several steps the one in which it cost most is left out, and what
it did more than others in each step has to be more than they vary by (`model.own_time`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.consistency import SEVERAL
from kinetoscope.model.charges import CAUSES
from kinetoscope.model.own_time import OWN, OwnTime
from kinetoscope.model.rank_costs import DELAY

_SURE: Final = "sure "
"""Begins the names of columns: whether a cause is beyond doubt."""

SIGMAS: Final = 5
"""Standard errors by which a straggler's own time exceeds that of the others."""

_OFTEN: Final = 3
"""How many times what the rank in the middle costs, by the same cause: where all are late in turn, none is one."""

_MUCH: Final = 0.2
"""Share of its greatest cause, whether its own or not, that a cause of a straggler is at least."""


def judged(costs: pl.DataFrame, own: OwnTime, least: int, *, each_step: bool) -> pl.DataFrame:
    """The verdict on each rank, or on each rank in each step.

    Args:
        costs: a line for each rank and step: rank, step, step_time (null outside of steps), `lost`, and for each of
            CAUSES the loss and, with DELAY, the delay; and more columns, which sums are made of, `late` apart.
        own: own times of the same steps.
        least: what a straggler costs in each step, ns.
        each_step: judge ranks in each step.

    Returns:
        A line for each rank, or each rank and step, sorted: sums of the columns; `straggler`; `cause` and
        `cause_share`, null where nothing is lost; and `once`, whether all that a rank cost was in one step.
    """
    costs = costs.with_columns(steps=pl.col("step_time").is_not_null().cast(pl.Int64))
    table = costs.with_columns(worst=pl.lit(0, pl.Int64)) if each_step else _lasting(costs)
    keys = ["rank", "step"] if each_step else ["rank"]
    together = pl.col("step") if each_step else pl.lit(0)
    table = table.sort(keys).join(
        _evidence(own, least, each_step=each_step), on=keys, how="left", nulls_equal=True, maintain_order="left"
    )

    def usual(column: pl.Expr) -> pl.Expr:
        """Of the rank in the middle."""
        return column.sort().gather((pl.len() - 1) // 2).first().over(together)

    delay = pl.sum_horizontal(DELAY + name for name in OWN)
    costly = delay - usual(delay) > least * pl.max_horizontal("steps", 1)
    # in few steps much is unknown, as it began before the recording; in more of them it is a reason to doubt
    most = pl.max_horizontal(DELAY + name for name in CAUSES if name != "unknown" or len(own.step) >= SEVERAL)
    table = table.with_columns(
        (
            (costly & pl.col(_SURE + name).fill_null(False))
            & (pl.col(DELAY + name) >= pl.max_horizontal(_MUCH * most, _OFTEN * usual(pl.col(DELAY + name))))
        ).alias(_SURE + name)
        for name in OWN
    )
    table = table.with_columns(straggler=pl.any_horizontal(_SURE + name for name in OWN))
    once = ~pl.col("straggler") & ~costly & (delay + pl.col("worst") - usual(delay) > least * (pl.col("steps") + 1))
    return _explained(table.with_columns(once=once & (pl.col("worst") > 0)))


def _lasting(costs: pl.DataFrame) -> pl.DataFrame:
    """Sums by rank; of steps and delays without the worst step, if there are several."""
    delays = [DELAY + name for name in CAUSES]
    own = pl.sum_horizontal(DELAY + name for name in OWN)
    worst = (pl.len() >= SEVERAL).cast(pl.Int64)
    order = pl.sum_horizontal(delays)

    def rest(column: pl.Expr) -> pl.Expr:
        return column.sort_by(order, "step", descending=[True, False]).slice(worst).sum()

    sums = pl.all().exclude("step", "steps", "late", *delays).sum()
    return costs.group_by("rank").agg(
        sums, pl.col("late").max(), *(rest(pl.col(name)) for name in ("steps", *delays)), worst=own.sum() - rest(own)
    )


def _evidence(own: OwnTime, least: int, *, each_step: bool) -> pl.DataFrame:
    """Which of OWN each rank (in each step) did more of than others beyond doubt, and by more than `least` a step.

    Where there are few steps nothing is known of chance: everything is beyond doubt.
    """
    sigmas = SIGMAS if len(own.step) >= SEVERAL else 0.0
    more = own.above.each if each_step else own.above.level
    sure = {}
    for name, above in zip(OWN, own.causes, strict=True):
        by = above.each if each_step else above.level
        doubt = above.each / above.noise[:, None] if each_step else above.sure
        sure[_SURE + name] = ((by > least) & (more > least) & (doubt > sigmas)).ravel()
    if not each_step:
        return pl.DataFrame({"rank": own.rank, **sure})
    place = {"rank": np.repeat(own.rank, len(own.step)), "step": np.tile(own.step, len(own.rank))}
    return pl.DataFrame({**place, **sure})


def _explained(table: pl.DataFrame) -> pl.DataFrame:
    """With the cause: of a straggler the greatest that makes it one, of others the greatest."""
    may = [
        pl.when(~pl.col("straggler") | (pl.col(_SURE + name) if name in OWN else pl.lit(False))).then(pl.col(name))
        for name in CAUSES
    ]
    greatest = pl.max_horizontal(may)
    cause = pl.coalesce(pl.when(each == greatest).then(pl.lit(name)) for name, each in zip(CAUSES, may, strict=True))
    lost = pl.col("lost") > 0
    return table.with_columns(
        cause=pl.when(lost).then(cause), cause_share=pl.when(lost).then(greatest / pl.col("lost"))
    )
