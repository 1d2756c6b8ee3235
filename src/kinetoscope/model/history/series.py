"""The series of a run: a row for each step of each rank, and a row for each mark that explains steps.

The recorder writes them, readers give them, and all answers about a whole run are made of nothing else.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from kinetoscope.schema import Column, Schema

STEPS: Final = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("attempt", pl.Int64, "How often the run was started before this, by its launcher; from 0 on."),
    Column("step", pl.Int64, "Number of the step in the run."),
    Column("start", pl.Int64, "When it starts on the host, ns since 1970."),
    Column("end", pl.Int64, "When it ends on the host, ns since 1970; what lies between two steps is in none of them."),
    Column("data", pl.Int64, "Its time on the host in the data loader; null where unknown.", "ns"),
    Column("forward", pl.Int64, "Its time on the host in the forward pass; null where unknown.", "ns"),
    Column("backward", pl.Int64, "Its time on the host in the backward pass; null where unknown.", "ns"),
    Column("optimizer", pl.Int64, "Its time on the host in the optimizer; null where unknown.", "ns"),
    Column("device", pl.Int64, "From its first to its last point on the device's stream; null without.", "ns"),
    Column("memory_used", pl.Int64, "Memory of the allocator in use at its end; null without a device.", "bytes"),
    Column("memory_reserved", pl.Int64, "Memory that the allocator holds at its end; null without one.", "bytes"),
    Column("resident", pl.Int64, "Resident memory of the process, last asked before its end; null: unasked.", "bytes"),
    Column("samples", pl.Int64, "Samples of it; null where unknown."),
)
"""By rank, attempt, and time."""

MARKS: Final = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("attempt", pl.Int64, "How often the run was started before this."),
    Column("kind", pl.String, "collection (of garbage), save, evaluation, compile, window, phase, restart or end."),
    Column("detail", pl.String, "Generation of a collection, file of a window, name of a phase; else null."),
    Column("step", pl.Int64, "Number of the step in which, or before which, it starts."),
    Column("start", pl.Int64, "When it starts, ns since 1970."),
    Column("end", pl.Int64, "When it ends, ns since 1970."),
)
"""By rank, attempt, and time."""
