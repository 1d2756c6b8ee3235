"""What kinds of work each device runs, alone and at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kinetoscope.algorithms.intervals.intervals import Intervals, intersection
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.busy import Busy, busy, no_work_note
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Schema, ShareOf

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.Int64, "Device of the rank."),
    Column("kinds", pl.String, "Kinds that run at the same time: computation, communication, memory, joined by +."),
    Column("time", pl.Int64, "Time with exactly these kinds running; of a device it sums to its busy time.", "ns"),
    Column("share", pl.Float64, "Time / busy time of the device.", "fraction"),
    Column("total", pl.Int64, "Time with at least these kinds running, whatever else runs beside them.", "ns"),
    across={"device": "device", "sum": "time total", ShareOf("time"): "share"},
)


def kernel_kinds(trace: Trace, select: Selection) -> Partial:
    """How long does each device compute, communicate and copy, and which of these at the same time?

    Method. Device work is computation, communication (kernels of collective libraries) or memory (copies and sets).
    Each instant at which anything runs on the device belongs to one row: the combination of kinds that run then. So
    `time` sums to the busy time. `total` is the time in which the kinds of the row run together, with or without
    others; for a row of one kind, all the time in which that kind runs. Sorted by time, for each device.

    How to read it. `communication` alone is communication that nothing hides; `computation+communication` is hidden by
    overlap. Work that shares the device with another kind may run slower for it.

    Limits. This tells kinds apart, not kernels: see `kernels`. Ranks without device work have no row.
    """
    view = scope(trace, select)
    rows = [row for each in busy(view) for row in sorted(_rows(each), key=lambda row: (-row[2], row[1]))]
    notes = [] if rows else [no_work_note(view)]
    return Partial(RESULT.per_rank.frame(rows), tuple(notes))


ANALYSIS = Analysis("Kinds of device work", kernel_kinds, RESULT, chart=Bars("kinds", "time"), counts_warm_up=True)

_KINDS: Final = ("computation", "communication", "memory")

Row = tuple[int | None, str, int, float, int]


def _rows(each: Busy) -> Iterator[Row]:
    """A row for each combination of kinds that occurs."""
    computing, communicating, copying = each.computation, each.communication, each.memory
    both = intersection(computing, communicating)
    sets: dict[tuple[int, ...], Intervals] = {
        (0,): computing,
        (1,): communicating,
        (2,): copying,
        (0, 1): both,
        (0, 2): intersection(computing, copying),
        (1, 2): intersection(communicating, copying),
        (0, 1, 2): intersection(both, copying),
    }
    total = {kinds: each.length for kinds, each in sets.items()}
    whole = each.all.length
    for kinds, time in total.items():
        if time:
            # What else runs beside them, by inclusion and exclusion.
            exact = sum((-1) ** (len(more) - len(kinds)) * total[more] for more in total if set(kinds) <= set(more))
            yield each.number, "+".join(_KINDS[kind] for kind in kinds), exact, exact / whole, time
