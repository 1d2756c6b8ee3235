"""A run's steps over its ranks: each step as the slowest rank had it, and what lies between steps."""

from __future__ import annotations

from typing import Final

import polars as pl

HOST_PARTS: Final = ("data", "forward", "backward", "optimizer")
"""Columns of `STEPS` with what a step's time on the host is made of; the rest is in none."""


def with_gaps(steps: pl.DataFrame) -> pl.DataFrame:
    """Rows of `STEPS` with the time since the step before ended, `gap`, ns; null of the first of a rank's attempt.

    It is 0 where steps overlap, as calls of several threads do.
    """
    before = pl.col("end").shift(1).over("rank", "attempt", order_by="start")
    return steps.with_columns(gap=(pl.col("start") - before).clip(lower_bound=0))


def slowest(steps: pl.DataFrame) -> pl.DataFrame:
    """Each step of the run as its slowest rank had it, by attempt and step: its row, and two columns in ns.

    `duration`; and `difference`, by how much that rank was slower than the fastest one. A step of two attempts is there
    twice.
    """
    whole = steps.with_columns(duration=pl.col("end") - pl.col("start"))
    least = pl.col("duration").min().over("attempt", "step")
    ordered = whole.with_columns(difference=pl.col("duration") - least).sort(
        "attempt", "step", "duration", "rank", descending=[False, False, True, False]
    )
    return ordered.unique(["attempt", "step"], keep="first", maintain_order=True)
