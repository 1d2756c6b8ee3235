"""What each rank costs the others in each step, as its collectives are charged."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope.model.stragglers.arrivals import Rows
from kinetoscope.model.stragglers.blame import CAUSES, Charges
from kinetoscope.model.stragglers.own_time import COLUMNS, OWN

DELAY: Final = "delay "
"""Begins the names of columns: what each of those who waited lost on average, by cause, ns."""

OWN_CAUSES: Final = [CAUSES.index(name) for name in OWN]
"""Places of OWN in CAUSES."""


def rank_costs(rows: Rows, calls: pl.DataFrame, charges: Charges) -> pl.DataFrame:
    """A line for each rank and step.

    Args:
        rows: the collectives as ranks took part in them.
        calls: the frame of these; see `histories.rows_of`.
        charges: what they cost, and who is charged.

    Returns:
        rank, step, step_time; calls, those that are matched; last, in how many of them the rank came last; late, by how
        much at most; carried; lost, and of that the part of each of CAUSES, and with DELAY the delays.
    """
    is_last = np.zeros(len(rows), np.bool_)
    is_last[charges.last] = ~rows.pairwise[charges.last]
    is_last &= calls["matched"].to_numpy()
    of_match = rows.match[is_last]
    late, carried = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    late[is_last], carried[is_last] = charges.late[of_match], charges.carried[of_match]
    each = calls.select("rank", "step", "step_time", "matched").with_columns(
        collective=pl.Series(~rows.pairwise) & pl.col("matched"),
        last=pl.Series(is_last),
        late=pl.Series(late),
        carried=pl.Series(carried),
        **{name: pl.Series(charges.charged[:, place]) for place, name in enumerate(CAUSES)},
        **{DELAY + name: pl.Series(charges.delay[:, place]) for place, name in enumerate(CAUSES)},
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


def held_time(calls: pl.DataFrame, charges: Charges) -> pl.DataFrame:
    """How long each rank's host left transfer in the open in each step, by what it did meanwhile."""
    by = {name: charges.held[:, place] for name, place in zip(COLUMNS, OWN_CAUSES, strict=True)}
    return calls.select("rank", "step").with_columns(**by).group_by("rank", "step").agg(pl.col(COLUMNS).sum())
