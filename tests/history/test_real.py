"""A real loop: 5,000 steps of a small model on two cores that six other processes wanted, at the lowest priority.

Every fifth step was put aside for a time slice or more: the median step took 0.5 ms, the mean one 5 ms.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from kinetoscope.model.history.history import history
from kinetoscope.model.history.series import MARKS, STEPS
from tests.history.drawn import START
from tests.history.scored import alarms_of

LOOP = Path(__file__).parent / "real" / "loop.parquet"
"""step; start and end, µs after the first start; data, forward, backward, optimizer, µs."""


def loop() -> pl.DataFrame:
    known = pl.read_parquet(LOOP).with_columns(pl.all().exclude("step").cast(pl.Int64) * 1000)
    known = known.with_columns(pl.col("start") + START, pl.col("end") + START, rank=pl.lit(0), attempt=pl.lit(0))
    return STEPS.conform(known.with_columns(pl.lit(None).alias(name) for name in STEPS.names if name not in known))


def test_a_machine_that_is_wanted_by_many_is_no_change() -> None:
    assert alarms_of(history([loop()], MARKS.empty())) == []


def test_a_change_in_it_is_one() -> None:
    slower = pl.when(pl.col("step") >= 3000).then(6_000_000).otherwise(0)
    steps = loop().with_columns(pl.col("forward") + slower, end=pl.col("end") + slower)
    moved = (slower.cum_sum() - slower).alias("moved")
    steps = steps.with_columns(moved).with_columns(pl.col("start", "end") + pl.col("moved")).drop("moved")
    (change,) = history([steps], MARKS.empty()).changes
    assert abs(change["step"] - 3000) <= 50
    assert change["part"] == "forward"
