"""Who is a straggler, and why: what ranks cost the others, weighed against chance and accidents.

A rank is one by what it does itself, for good. So of several steps the one in which it cost most is left out, and what
it did more than others in each step has to be more than they vary by (`model.stragglers.own_time`). But a host that is
as slow in each step, and makes the others wait only in the first, as it runs ahead of its device later, had no
accident.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools
from kinetoscope.algorithms.outliers import SEVERAL, SIGMAS
from kinetoscope.model.stragglers.blame import CAUSES
from kinetoscope.model.stragglers.delay_by_rank import DELAY
from kinetoscope.model.stragglers.own_time import OWN, OwnTime, is_lasting

_SURE: Final = "sure "
"""Begins the names of columns: whether a cause is beyond doubt."""

_AGAIN: Final = "again "
"""The same: whether the rank's host did as much more in each step as in the one left out."""

_LEFT: Final = "left out "
"""The same: the delay of the step that was left out."""

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
        `cause_share`, null where nothing is lost; `once`, whether all that a rank cost was in one step; and `hidden`,
        whether a straggler is one by that step, and by what its host did in all of them.
    """
    costs = costs.with_columns(steps=pl.col("step_time").is_not_null().cast(pl.Int64))
    nothing = [pl.lit(0, pl.Int64).alias(_LEFT + name) for name in CAUSES]
    table = costs.with_columns(nothing) if each_step else _lasting(costs)
    keys = ["rank", "step"] if each_step else ["rank"]
    together = pl.col("step") if each_step else pl.lit(0)
    table = table.sort(keys).join(
        _evidence(own, least, each_step=each_step), on=keys, how="left", nulls_equal=True, maintain_order="left"
    )

    def usual(column: pl.Expr) -> pl.Expr:
        """Of the rank in the middle."""
        return column.sort().gather((pl.len() - 1) // 2).first().over(together)

    delay, worst = (pl.sum_horizontal(what + name for name in OWN) for what in (DELAY, _LEFT))
    costly = delay - usual(delay) > least * pl.max_horizontal("steps", 1)
    costly_with_worst = delay + worst - usual(delay) > least * (pl.col("steps") + 1)
    # in few steps much is unknown, as it began before the recording; in more of them it is a reason to doubt
    counted = [name for name in CAUSES if name != "unknown" or len(own.step) >= SEVERAL]

    def is_cause(name: str, sure: str, *parts: str) -> pl.Expr:
        """Is it beyond doubt, and much of what the rank cost, in all `parts` together?"""
        cost = {each: pl.sum_horizontal(part + each for part in parts) for each in counted}
        much = pl.max_horizontal(_MUCH * pl.max_horizontal(cost.values()), _OFTEN * usual(cost[name]))
        return pl.col(sure + name).fill_null(False) & (cost[name] >= much)

    table = table.with_columns(
        *((costly & is_cause(name, _SURE, DELAY)).alias(_SURE + name) for name in OWN),
        *((costly_with_worst & is_cause(name, _AGAIN, DELAY, _LEFT)).alias(_AGAIN + name) for name in OWN),
    )
    by_rest, by_host = (pl.any_horizontal(which + name for name in OWN) for which in (_SURE, _AGAIN))
    table = table.with_columns(straggler=by_rest | by_host, hidden=~by_rest & by_host)
    table = table.with_columns(pl.col(_SURE + name) | (pl.col("hidden") & pl.col(_AGAIN + name)) for name in OWN)
    return _explained(table.with_columns(once=~pl.col("straggler") & ~costly & costly_with_worst & (worst > 0)))


def _lasting(costs: pl.DataFrame) -> pl.DataFrame:
    """Sums by rank; of steps and delays without the worst step, if there are several, whose delays stand beside."""
    delays = [DELAY + name for name in CAUSES]
    worst = (pl.len() >= SEVERAL).cast(pl.Int64)
    order = pl.sum_horizontal(delays)

    def rest(column: pl.Expr) -> pl.Expr:
        return column.sort_by(order, "step", descending=[True, False]).slice(worst).sum()

    sums = pl.all().exclude("step", "steps", "late", *delays).sum()
    left = {_LEFT + name: pl.col(DELAY + name).sum() - rest(pl.col(DELAY + name)) for name in CAUSES}
    return costs.group_by("rank").agg(
        sums, pl.col("late").max(), *(rest(pl.col(name)) for name in ("steps", *delays)), **left
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
        return pl.DataFrame({"rank": own.rank, **sure, **_again(own, least)})
    sure |= {_AGAIN + name: np.zeros(own.above.each.size, np.bool_) for name in OWN}
    place = {"rank": np.repeat(own.rank, len(own.step)), "step": np.tile(own.step, len(own.rank))}
    return pl.DataFrame({**place, **sure})


def _again(own: OwnTime, least: int) -> dict[str, Bools]:
    """Whether each rank's host did more than others in each step, beyond doubt, and about what was seen of it."""
    found = {_AGAIN + name: np.zeros(len(own.rank), np.bool_) for name in OWN}
    for name, above in own.on_host.items() if len(own.step) >= SEVERAL else ():
        found[_AGAIN + name] = is_lasting(own.causes[OWN.index(name)], above) & (above.level > least)
    return found


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
