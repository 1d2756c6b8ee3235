"""Each call that launches device work."""

from __future__ import annotations

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.launches import Launches, is_selected, launch_notes
from kinetoscope.model.device.launches import launches as find_launches
from kinetoscope.model.execution.call_tree import enclosing_op
from kinetoscope.model.execution.calls import names_of_calls
from kinetoscope.model.steps.scope import Scope, origin_of_time, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import arguments, polars_columns
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("start", pl.Int64, "Start of the call, from the first event of the trace on.", "ns", instant=True),
    Column("name", pl.String, "Name of the call."),
    Column("duration", pl.Int64, "Duration of the call on the host.", "ns"),
    Column("delay", pl.Int64, "From the end of the call to the start of its first work; 0 if that began before.", "ns"),
    Column("work_duration", pl.Int64, "Time in which what it launched ran; of a graph the union of its kernels.", "ns"),
    Column("work_name", pl.String, "Name of the kernel, copy or set that it launched; of several the first."),
    Column("kind", pl.String, "computation, communication, memcpy or memset, of the first work."),
    Column("work", pl.Int64, "Pieces of device work that it launched: more than one for a graph, 0 if none is known."),
    Column("device", pl.Int64, "Device of the first work."),
    Column("stream", pl.Int64, "Stream of the first work."),
    Column("thread", pl.Int64, "Thread of the host that made the call."),
    Column("operator", pl.String, "Innermost operator that the call stands in."),
    Column("correlation", pl.Int64, "Correlation id of the call."),
    across={"key": "start", "own": "duration delay work_duration work stream thread correlation", "device": "device"},
)


def launches(trace: Trace, select: Selection) -> Partial:
    """Which call launched what, how long did the call take, and how long until its work began?

    Method. A row for each call of the runtime or driver that launches device work: every call that device work refers
    to by its correlation id, of any vendor and name, and calls whose name says that they launch but whose work was not
    recorded. The launch of a graph is one row: its delay is to the first kernel, its work the union of all its kernels.
    In order of time.

    How to read it. A kernel that is shorter than its call (`work_duration < duration`) keeps the device waiting for the
    host: fuse such kernels, or capture them in a graph. A long call is blocked: by a full queue, by an allocation, by
    the first load of a kernel. A long delay is good where the queue holds work, and bad where the device idles (see
    `idle_breakdown`).

    Limits. Null delay and work: the work was not recorded. Filters of devices and streams go by the first work.
    """
    view = scope(trace, select)
    calls = find_launches(trace)
    chosen = np.flatnonzero(is_selected(view, calls))
    notes = launch_notes(view, calls, chosen)
    return Partial(_frame(view, calls, chosen), tuple(notes))


ANALYSIS = Analysis("Launches", launches, RESULT)


def _frame(view: Scope, calls: Launches, chosen: Int64s) -> pl.DataFrame:
    trace, work = view.trace, view.device_work
    rows, first = calls.rows[chosen], calls.first[chosen]
    known = first >= 0

    def of_work(values: Int64s) -> pl.Series:
        return polars_columns.rows(np.where(known, values[first], -1) if len(values) else first)

    return pl.DataFrame(
        {
            "start": trace.start[rows] - origin_of_time(trace),
            "name": polars_columns.texts(trace.strings, trace.name[rows]),
            "duration": np.maximum(trace.end[rows] - trace.start[rows], 0),
            "delay": polars_columns.column(calls.delay[chosen], known),
            "work_duration": polars_columns.column(calls.busy[chosen], known),
            "work_name": polars_columns.texts(
                trace.strings, np.where(known, trace.name[work.rows[first]], -1) if len(work) else first
            ),
            "kind": polars_columns.labelled(
                np.where(known, work.kind[first], -1) if len(work) else first, lambda code: WorkKind(code).name.lower()
            ),
            "work": calls.pieces[chosen],
            "device": of_work(work.device),
            "stream": of_work(work.stream),
            "thread": polars_columns.rows(trace.tracks.integer_tids()[trace.track[rows]]),
            "operator": names_of_calls(trace, enclosing_op(trace)[rows]),
            "correlation": polars_columns.rows(arguments.integers(trace, "correlation", rows)),
        }
    )
