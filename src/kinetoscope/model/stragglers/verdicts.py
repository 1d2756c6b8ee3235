"""Verdicts on ranks: costs of the others, weighed against chance and accidents.

A straggler is one by its own time, in each step. So of several steps the one in which it cost most is left out, and its
excess over others in each step has to exceed their variation (`model.stragglers.own_time`). A constantly slow host that
only delays others in the first step (later hidden by run-ahead) is still a straggler.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.outliers import CERTAIN_Z_SCORE, MIN_PLACES
from kinetoscope.model.stragglers.attribution import CAUSES
from kinetoscope.model.stragglers.delays import DELAY
from kinetoscope.model.stragglers.own_time import OWN, OwnTime, is_constant

_CERTAIN: Final = "certain "
"""Prefix of columns: whether a cause is beyond doubt."""

_CONSTANT: Final = "constant "
"""Prefix of columns: whether the rank's host has as much excess time in each step as in the one left out."""

_LEFT_OUT_PREFIX: Final = "left out "
"""Prefix of columns: the delay of the step that was left out."""

_MIN_RATIO_TO_MIDDLE: Final = 3
"""Cost of a straggler / cost of the rank in the middle, by the same cause: where all are late in turn, none is one."""

_MIN_CAUSE_SHARE: Final = 0.2
"""Cost by a cause of a straggler / cost by its greatest cause, whether its own or not."""


def straggler_verdicts(costs: pl.DataFrame, own: OwnTime, least: int, *, each_step: bool) -> pl.DataFrame:
    """The verdict on each rank, or on each rank in each step.

    Args:
        costs: a row for each rank and step: rank, step, step_time (null outside of steps), `lost`, and for each of
            CAUSES the loss and, with DELAY, the delay; and more columns, which sums are made of, `late` apart.
        own: own times of the same steps.
        least: the least cost of a straggler in each step, ns.
        each_step: judge ranks in each step.

    Returns:
        A row for each rank, or each rank and step, sorted: sums of the columns; `straggler`; `cause` and `cause_share`,
        null where nothing is lost; `one_off`, whether the whole cost of a rank was in one step; and
        `hidden_by_run_ahead`, whether a straggler is one by one step alone, and by its host's excess in all of them.
    """
    costs = costs.with_columns(steps=pl.col("step_time").is_not_null().cast(pl.Int64))
    nothing = [pl.lit(0, pl.Int64).alias(_LEFT_OUT_PREFIX + name) for name in CAUSES]
    table = costs.with_columns(nothing) if each_step else _without_worst_step(costs)
    keys = ["rank", "step"] if each_step else ["rank"]
    together = pl.col("step") if each_step else pl.lit(0)
    table = table.sort(keys).join(
        _evidence(own, least, each_step=each_step), on=keys, how="left", nulls_equal=True, maintain_order="left"
    )

    def of_middle(column: pl.Expr) -> pl.Expr:
        """The value of the rank in the middle."""
        return column.sort().gather((pl.len() - 1) // 2).first().over(together)

    delay, worst = (pl.sum_horizontal(prefix + name for name in OWN) for prefix in (DELAY, _LEFT_OUT_PREFIX))
    costly = delay - of_middle(delay) > least * pl.max_horizontal("steps", 1)
    costly_with_worst = delay + worst - of_middle(delay) > least * (pl.col("steps") + 1)
    # in few steps much is unknown, as it began before the recording; in more of them it is a reason to doubt
    counted = [name for name in CAUSES if name != "unknown" or len(own.step) >= MIN_PLACES]

    def is_cause(name: str, evidence: str, *parts: str) -> pl.Expr:
        """Is it beyond doubt, and a large share of the rank's cost, in all `parts` together?"""
        cost = {each: pl.sum_horizontal(part + each for part in parts) for each in counted}
        greatest = pl.max_horizontal(cost.values())
        least_cost = pl.max_horizontal(_MIN_CAUSE_SHARE * greatest, _MIN_RATIO_TO_MIDDLE * of_middle(cost[name]))
        return pl.col(evidence + name).fill_null(False) & (cost[name] >= least_cost)

    table = table.with_columns(
        *((costly & is_cause(name, _CERTAIN, DELAY)).alias(_CERTAIN + name) for name in OWN),
        *(
            (costly_with_worst & is_cause(name, _CONSTANT, DELAY, _LEFT_OUT_PREFIX)).alias(_CONSTANT + name)
            for name in OWN
        ),
    )
    certain, constant = (pl.any_horizontal(prefix + name for name in OWN) for prefix in (_CERTAIN, _CONSTANT))
    by_constant = ~certain & constant
    table = table.with_columns(straggler=certain | constant, hidden_by_run_ahead=by_constant & ~costly)
    table = table.with_columns(pl.col(_CERTAIN + name) | (by_constant & pl.col(_CONSTANT + name)) for name in OWN)
    one_off = ~pl.col("straggler") & ~costly & costly_with_worst & (worst > 0)
    return _with_cause(table.with_columns(one_off=one_off))


def _without_worst_step(costs: pl.DataFrame) -> pl.DataFrame:
    """Sums by rank; of steps and delays without the worst step, if there are several, whose delays stand beside."""
    delays = [DELAY + name for name in CAUSES]
    worst = (pl.len() >= MIN_PLACES).cast(pl.Int64)
    order = pl.sum_horizontal(delays)

    def rest(column: pl.Expr) -> pl.Expr:
        return column.sort_by(order, "step", descending=[True, False]).slice(worst).sum()

    sums = pl.all().exclude("step", "steps", "late", *delays).sum()
    left_out = {_LEFT_OUT_PREFIX + name: pl.col(DELAY + name).sum() - rest(pl.col(DELAY + name)) for name in CAUSES}
    return costs.group_by("rank").agg(
        sums, pl.col("late").max(), *(rest(pl.col(name)) for name in ("steps", *delays)), **left_out
    )


def _evidence(own: OwnTime, least: int, *, each_step: bool) -> pl.DataFrame:
    """For each of OWN whether the rank (in each step) exceeds its peers certainly, and by more than `least` a step.

    Where there are few steps nothing is known of chance: everything is certain. And whether its host's excess is
    constant.
    """
    several = len(own.step) >= MIN_PLACES
    limit = CERTAIN_Z_SCORE if several else 0.0
    total = own.above.each if each_step else own.above.level
    columns = {}
    for name, above in zip(OWN, own.causes, strict=True):
        part = above.each if each_step else above.level
        z_score = above.each / above.noise[:, None] if each_step else above.z_score
        columns[_CERTAIN + name] = ((part > least) & (total > least) & (z_score > limit)).ravel()
        constant = np.zeros(total.shape, np.bool_)
        if several and not each_step and name in own.on_host:
            constant = is_constant(above, own.on_host[name]) & (own.on_host[name].level > least)
        columns[_CONSTANT + name] = constant.ravel()
    if not each_step:
        return pl.DataFrame({"rank": own.rank, **columns})
    return pl.DataFrame(
        {"rank": np.repeat(own.rank, len(own.step)), "step": np.tile(own.step, len(own.rank)), **columns}
    )


def _with_cause(table: pl.DataFrame) -> pl.DataFrame:
    """With the cause: of a straggler the greatest that makes it one, of others the greatest."""
    costs = [
        pl.when(~pl.col("straggler") | (pl.col(_CERTAIN + name) if name in OWN else pl.lit(False))).then(pl.col(name))
        for name in CAUSES
    ]
    greatest = pl.max_horizontal(costs)
    cause = pl.coalesce(pl.when(each == greatest).then(pl.lit(name)) for name, each in zip(CAUSES, costs, strict=True))
    lost = pl.col("lost") > 0
    return table.with_columns(
        cause=pl.when(lost).then(cause), cause_share=pl.when(lost).then(greatest / pl.col("lost"))
    )
