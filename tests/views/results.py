"""Results drawn in code, for tests of what shows them."""

from __future__ import annotations

from typing import Any

import polars as pl

from kinetoscope.charts import Bars, Chart, StackedBars
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Result, Schema

KERNELS = Schema(
    Column("rank", pl.Int64, "Rank."),
    Column("name", pl.String, "Name of the kernel."),
    Column("kind", pl.String, "Kind of device work."),
    Column("calls", pl.Int64, "How often it ran."),
    Column("total", pl.Int64, "Time of all calls.", "ns"),
    Column("share", pl.Float64, "Share of all kernels.", "fraction"),
)

STEPS = Schema(
    Column("rank", pl.Int64, "Rank."),
    Column("step", pl.Int64, "Step."),
    Column("computation", pl.Int64, "Time in kernels.", "ns"),
    Column("communication", pl.Int64, "Time in collectives.", "ns"),
    Column("other", pl.Int64, "The rest.", "ns"),
)


def kernels(*rows: tuple[Any, ...], notes: tuple[Note, ...] = (), chart: Chart | None = None) -> Result:
    """A table of kernels: rows of name, kind, calls, total, share, all of rank 0."""
    frame = pl.DataFrame([(0, *row) for row in rows], schema=_types(KERNELS), orient="row")
    return Result(frame, KERNELS, notes, "kernels", {"min_calls": 2}, chart)


def steps(*rows: tuple[int, int, int], rank: int = 0) -> Result:
    """A table of steps: rows of computation, communication, other."""
    frame = pl.DataFrame([(rank, step, *row) for step, row in enumerate(rows)], schema=_types(STEPS), orient="row")
    return Result(frame, STEPS, (), "steps", {}, STACK)


BARS = Bars("name", "total")
STACK = StackedBars("step", ("computation", "communication", "other"))


def _types(schema: Schema) -> dict[str, Any]:
    return {column.name: column.dtype for column in schema}
