"""Where the time of each device goes, over the whole recording."""

from __future__ import annotations

import polars as pl

from kinetoscope.algorithms.intervals.intervals import difference, merge
from kinetoscope.charts import StackedBars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.busy import Busy, busy, no_work_note
from kinetoscope.model.execution.work_before import notes_of_earlier_work
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, RatioOf, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.Int64, "Device of the rank."),
    Column(
        "window",
        pl.Int64,
        "From the start of the first to the end of the last device work, or the steps, or the range of time.",
        "ns",
    ),
    Column("computation", pl.Int64, "Time with a computation kernel running.", "ns"),
    Column("exposed_communication", pl.Int64, "Time with communication and no computation running.", "ns"),
    Column("exposed_memory", pl.Int64, "Time with a copy or set and neither computation nor communication.", "ns"),
    Column("idle", pl.Int64, "Time with nothing running on the device.", "ns"),
    Column("non_computation", pl.Int64, "Window less computation and idle (HTA's non-compute time).", "ns"),
    Column("computation_share", pl.Float64, "Computation / window.", "fraction"),
    Column("idle_share", pl.Float64, "Idle / window.", "fraction"),
    across={
        "device": "device",
        "sum": "window computation exposed_communication exposed_memory idle non_computation",
        RatioOf("computation", "window"): "computation_share",
        RatioOf("idle", "window"): "idle_share",
    },
)


def temporal_breakdown(trace: Trace, select: Selection) -> Partial:
    """Where does the time of each device go: computing, communicating, copying, or nothing?

    Method. The window is from the start of the first to the end of the last device work, or the device's time in the
    selected steps (see `step_breakdown`), or the selected range of time; less work from before the recording. Each
    instant is charged once: to computation if a computation kernel runs on any stream, else to communication, else to
    copies and sets, else to idle. The four parts sum to the window.

    How to read it. Idle is time in which the host did not keep the device busy; exposed communication is what overlap
    with computation did not hide. A device that waits inside a collective counts as communicating.

    Limits. The window includes the time between steps; `step_breakdown` tells steps apart. Ranks without device work
    have no row.
    """
    view = scope(trace, select)
    devices = busy(view)
    rows = [_row(each) for each in devices]
    notes = [] if rows else [no_work_note(view)]
    if select == ALL and any(len(each.window.start) > 1 for each in devices):  # work from before is what parts it
        notes += notes_of_earlier_work(trace)
    return Partial(RESULT.per_rank.frame(rows), tuple(notes))


ANALYSIS = Analysis(
    "Temporal breakdown",
    temporal_breakdown,
    RESULT,
    chart=StackedBars("rank", ("computation", "exposed_communication", "exposed_memory", "idle")),
    counts_warm_up=True,
)


def _row(each: Busy) -> tuple[int | float | None, ...]:
    computation, window, idle = each.computation.length, each.window.length, each.gaps.length
    covered = merge(each.computation, each.communication)
    return (
        each.number,
        window,
        computation,
        difference(each.communication, each.computation).length,
        difference(each.memory, covered).length,
        idle,
        window - computation - idle,
        computation / window if window else None,
        idle / window if window else None,
    )
