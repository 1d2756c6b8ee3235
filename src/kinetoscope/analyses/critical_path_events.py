"""What lies on the critical path, by name or event by event."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.critical_path.path import CAUSES, OF_WHOLE_RANK, CriticalPath, critical_path, run_path
from kinetoscope.model.execution.calls import call_names, names_of_calls
from kinetoscope.model.steps.scope import Scope, origin_of_time, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import steps
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Param, Schema, ShareOf

GroupBy = Literal["name", "event"]
PathOf = Literal["step", "run"]

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("cause", pl.String, "What the time is spent on: the columns of `critical_path`."),
    Column("name", pl.String, "The call or device work; of gaps the work that came after. Null for nothing recorded."),
    Column("pieces", pl.Int64, "Pieces of the path: a call that calls others may be in several."),
    Column("time", pl.Int64, "Length of these pieces.", "ns"),
    Column("share", pl.Float64, "Time / length of the paths of the selected steps.", "fraction"),
    Column("step", pl.Int64, "Number of the step; null by name."),
    Column(
        "start", pl.Int64, "Start of the piece, from the first event of the trace on; null by name.", "ns", instant=True
    ),
    Column("event", pl.Int64, "Row of the event; null by name, and for nothing recorded."),
    Column("thread", pl.Int64, "Thread of a call; null on devices, and by name."),
    Column("device", pl.Int64, "Device of device work; null on the host, and by name."),
    Column("stream", pl.Int64, "Stream of device work; null on the host, and by name."),
    across={
        "sum": "pieces time",
        ShareOf("time"): "share",
        "key": "step",
        "own": "start",
        "agreed": "event thread stream",
        "device": "device",
    },
)


def critical_path_events(
    trace: Trace,
    select: Selection,
    *,
    path: Annotated[
        PathOf, Param("step: the path to the end of each step; run: one path to the end of the last.")
    ] = "step",
    group_by: Annotated[
        GroupBy, Param("name: a row a cause and name; event: the path itself, piece by piece.")
    ] = "name",
) -> Partial:
    """Which calls and kernels are on the critical path?

    Method. The path of each selected step is that of `critical_path`. On a host thread it belongs, at each instant, to
    the innermost call; on a device to the work that runs; between them to the launch call, the work after a gap, or the
    call that waits. By name the pieces of all selected steps are summed, the longest first; by event they stand in
    order of time and fill the steps.

    How to read it. What stands first is what to make faster: nothing else shortens the step. Ask `critical_path` with
    `what_if` and the name what it would bring: the gain is less where another path is nearly as long.

    Limits. Those of `critical_path`. Calls of different steps that differ in their name only by the number of the step
    count as one by name.
    """
    view = scope(trace, select)
    pieces = (critical_path if path == "step" else run_path)(trace, select.steps_by)
    start, end = view.clipped(pieces.start, pieces.end)
    chosen = np.flatnonzero(np.isin(pieces.step, view.places) & (end > start))
    time = (end - start)[chosen]
    frame = _by_name(view, pieces, chosen, time) if group_by == "name" else _by_event(view, pieces, chosen, start, time)
    total = max(int(time.sum()), 1)
    frame = frame.with_columns((pl.col("time") / total).alias("share")).select(RESULT.names[1:])
    notes = []
    if select.devices is not None or select.streams is not None or select.is_within_steps:
        notes.append(OF_WHOLE_RANK)
    return Partial(frame, tuple(notes))


ANALYSIS = Analysis(
    "Critical path events",
    critical_path_events,
    RESULT,
    chart=Bars("name", "time"),
    of_calls=False,
    selection_notes="always",
)


def _by_name(view: Scope, path: CriticalPath, chosen: Int64s, time: Int64s) -> pl.DataFrame:
    trace, row = view.trace, path.row[chosen]
    name = np.where(row >= 0, call_names(trace)[row], -1) if len(trace) else row
    codes, first = group(path.cause[chosen], name)
    frame = pl.DataFrame(
        {
            "cause": [CAUSES[cause] for cause in path.cause[chosen][first].tolist()],
            "name": names_of_calls(trace, row[first]).cast(pl.String),
            "pieces": np.bincount(codes, minlength=len(first)),
            "time": sum_by(codes, len(first), time),
        },
        schema_overrides={"cause": pl.String},
    )
    rest = {name: pl.lit(None, pl.Int64) for name in RESULT.names if name not in (*frame.columns, "rank", "share")}
    return frame.with_columns(**rest).sort("time", "cause", "name", descending=[True, False, False], nulls_last=True)


def _by_event(view: Scope, path: CriticalPath, chosen: Int64s, start: Int64s, time: Int64s) -> pl.DataFrame:
    trace, row = view.trace, path.row[chosen]
    work = view.device_work
    place = np.full(len(trace) + 1, -1, np.int64)
    place[work.rows] = np.arange(len(work))
    on_device = place[row] >= 0
    at = np.maximum(place[row], 0)
    device = work.device[at] if len(work) else np.full(len(row), -1)
    stream = work.stream[at] if len(work) else np.full(len(row), -1)
    thread = trace.tracks.integer_tids()[trace.track[row]] if len(trace) else row
    numbers = steps(trace, view.select.steps_by).number
    return pl.DataFrame(
        {
            "cause": polars_columns.labelled(path.cause[chosen], CAUSES.__getitem__).cast(pl.String),
            "name": polars_columns.texts(
                trace.strings, np.where(row >= 0, trace.name[row], -1) if len(trace) else row
            ).cast(pl.String),
            "pieces": np.ones(len(row), np.int64),
            "time": time,
            "step": numbers[path.step[chosen]],
            "start": start[chosen] - origin_of_time(trace),
            "event": polars_columns.rows(row.astype(np.int64)),
            "thread": polars_columns.column(thread.astype(np.int64), (row >= 0) & ~on_device),
            "device": polars_columns.column(device, on_device & (device >= 0)),
            "stream": polars_columns.column(stream, on_device & (stream >= 0)),
        }
    )
