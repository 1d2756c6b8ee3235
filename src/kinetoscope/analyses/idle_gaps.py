"""Each gap in which a device ran nothing, the longest first."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import polars as pl

from kinetoscope.algorithms.grouping import reduce_by
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.busy import counted_work, no_work_note
from kinetoscope.model.device.gaps import gaps
from kinetoscope.model.device.idle_causes import DETAILS, REASONS, By, idle_charges
from kinetoscope.model.execution.calls import names_of_calls
from kinetoscope.model.execution.work_before import LAUNCH_LATENCY_NS
from kinetoscope.model.steps.scope import origin_of_time, scope, unclipped
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import step_of
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.Int64, "Device of the rank."),
    Column("stream", pl.Int64, "Stream of the device; null by device."),
    Column("start", pl.Int64, "When it begins, from the first event of the trace on.", "ns", instant=True),
    Column("duration", pl.Int64, "How long nothing runs.", "ns"),
    Column("reason", pl.String, "Why, for the largest part of it; `idle_breakdown` says what each reason means."),
    Column("detail", pl.String, "What in particular, for that part."),
    Column("detail_time", pl.Int64, "Length of that part.", "ns"),
    Column("step", pl.Int64, "Step of the devices' time that it begins in; null outside of steps."),
    Column("kernel", pl.String, "Name of the work that ends it; null where a selected step ends."),
    Column("operator", pl.String, "Operator that launched this work; null if unknown."),
    Column("row", pl.Int64, "Row of this work among the events of the trace."),
    across={"device": "device", "key": "stream start step row", "sum": "duration detail_time"},
)


def idle_gaps(
    trace: Trace,
    select: Selection,
    *,
    by: Annotated[By, Param("Gaps of whole devices, or of each stream.")] = "device",
    min_duration: Annotated[int, Param("Gaps that are shorter are left out.", "ns")] = 0,
    launch_latency: Annotated[
        int, Param("What a launch takes to reach an idle device, at most.", "ns")
    ] = LAUNCH_LATENCY_NS,
) -> Partial:
    """When did each device run nothing, for how long, and what ended it?

    Method. The gaps of `idle_breakdown`, a row for each, the longest first. A gap may have several reasons, as when the
    host loads data and then launches; the one of its largest part is shown. Together the gaps are the idle time there.

    How to read it. The first rows are worth a look in the timeline: `start` and `row` say where. Many gaps of one
    operator are a pattern, see `idle_breakdown`. For stretches in which a device is busy but mostly empty, ask
    `device_utilization_series` with `--where "utilization < 0.5"`.

    Limits. As of `idle_breakdown`: only the launching thread is examined.
    """
    view = scope(trace, select)
    notes: list[Note] = []
    if not counted_work(unclipped(view)).any():
        return Partial(RESULT.per_rank.empty(), (*notes, no_work_note(view)))
    idle = gaps(view, by_stream=by == "stream")
    charges = idle_charges(view, idle, by, launch_latency)
    largest = reduce_by(charges.gap.astype(np.int32), len(idle), charges.time).greatest
    parts = np.flatnonzero(charges.time == largest[charges.gap])
    gap, first = np.unique(charges.gap[parts], return_index=True)
    part, long_enough = parts[first], idle.length[gap] >= min_duration
    gap, part = gap[long_enough], part[long_enough]
    if left_out := len(idle) - len(gap):
        notes.append(Note("SHORT_GAPS", f"{left_out:,} of {len(idle):,} gaps are shorter than min_duration, or empty."))
    work, every = idle.work[gap], view.device_work
    row = np.where(work >= 0, every.rows[work], -1)
    step = step_of(view.steps.device, idle.start[gap])
    frame = pl.DataFrame(
        {
            "device": polars_columns.rows(idle.device[gap]),
            "stream": polars_columns.rows(idle.stream[gap]),
            "start": idle.start[gap] - origin_of_time(trace),
            "duration": idle.length[gap],
            "reason": [REASONS[place] for place in charges.reason[part].tolist()],
            "detail": [DETAILS[place] for place in charges.detail[part].tolist()],
            "detail_time": charges.time[part],
            "step": polars_columns.column(np.append(view.steps.number, -1)[step], step >= 0),
            "kernel": polars_columns.texts(trace.strings, np.where(row >= 0, trace.name[row], -1)).cast(pl.String),
            "operator": names_of_calls(trace, np.where(work >= 0, every.op[work], -1).astype(np.int32)).cast(pl.String),
            "row": polars_columns.rows(row),
        },
        schema_overrides=RESULT.per_rank.types,
    )
    frame = frame.sort("duration", "device", "stream", "start", descending=[True, False, False, False])
    return Partial(frame, tuple(notes))


ANALYSIS = Analysis("Idle gaps", idle_gaps, RESULT, chart=Bars("operator", "duration"), counts_warm_up=True)
