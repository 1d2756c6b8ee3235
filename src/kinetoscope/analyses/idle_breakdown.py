"""Why each device was idle."""

from __future__ import annotations

from typing import Annotated, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.grouping import group, reduce_by
from kinetoscope.algorithms.intervals.intervals import union
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.busy import counted_work, no_work_note
from kinetoscope.model.device.gaps import Gaps, device_lanes, gaps
from kinetoscope.model.device.idle_causes import DETAILS, REASONS, By, IdleCharges, idle_charges
from kinetoscope.model.execution.work_before import LAUNCH_LATENCY_NS, notes_of_earlier_work
from kinetoscope.model.health.data_quality import note_of_gaps
from kinetoscope.model.steps.scope import Scope, origin_of_time, scope, unclipped
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, MeanBy, Param, Schema, ShareOf

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.Int64, "Device of the rank."),
    Column("stream", pl.Int64, "Stream of the device; null by device."),
    Column("reason", pl.String, "Why nothing ran; the docstring says what each reason means."),
    Column("detail", pl.String, "What in particular: of a late launch what its thread did, of waiting for what."),
    Column("time", pl.Int64, "Idle time for that reason; of a device, or of a stream, it sums to the idle time.", "ns"),
    Column("share", pl.Float64, "Time / idle time of the device, or of the stream.", "fraction"),
    Column("window_share", pl.Float64, "Time / window of the device, or of the stream.", "fraction"),
    Column("gaps", pl.Int64, "Gaps that have such time; one gap may count in several rows."),
    Column("longest", pl.Int64, "The longest such time in one gap.", "ns"),
    Column("longest_at", pl.Int64, "Start of that gap, from the first event of the trace on.", "ns", instant=True),
    Column("mean", pl.Int64, "Mean such time of a gap that has any, rounded to the nanosecond.", "ns"),
    Column("min", pl.Int64, "The shortest such time.", "ns"),
    Column("p25", pl.Int64, "Lower quartile of these times, interpolated linearly.", "ns"),
    Column("median", pl.Int64, "Their median, of two middle ones the mean.", "ns"),
    Column("p75", pl.Int64, "Upper quartile.", "ns"),
    Column("std", pl.Float64, "Standard deviation of these times.", "ns"),
    across={
        "device": "device",
        "key": "stream",
        "sum": "time gaps",
        ShareOf("time", within=("stream",)): "share window_share",
        "greatest": "longest",
        "least": "min",
        MeanBy("gaps"): "mean",
        "own": "p25 median p75 std longest_at",
    },
)


def idle_breakdown(
    trace: Trace,
    select: Selection,
    *,
    by: Annotated[By, Param("Gaps of whole devices, or of each stream (HTA's).")] = "device",
    launch_latency: Annotated[
        int, Param("What a launch takes to reach an idle device, at most.", "ns")
    ] = LAUNCH_LATENCY_NS,
) -> Partial:
    """Why did each device run nothing: was the host late, or what did the device wait for?

    Method. A device is idle while nothing runs on any of its streams; time before its first recorded work may be work
    from before the recording (see Numbers and definitions), which is not idle. Each gap is charged to the work that
    ends it.

    - launch late: that work was launched after the gap began. The time until the launch is split by the activity of the
      launching thread, each instant once, in this order: profiler (its own buffers, in the call that they
      interrupt), data loading, synchronizing call, allocating call, graph capture, other runtime call, host operator,
      Python, nothing recorded. Then follow the `launch call` (of a copy that the host waits for at most
      `launch_latency`; the rest is a synchronizing call) and, for at most `launch_latency`, `launch to start`. The
      remainder is waiting.
    - launch latency: it was launched before the gap, by `launch_latency` at most.
    - waiting: it was launched earlier. `kernel to kernel`: its stream was busy until the gap began, and the gap is
      shorter than `launch_latency`. `stream or event`: everything else, such as an event of another stream, another
      device, or the host. A device with one stream has no such waiting: all of it is `launch to start`, the delay from
      the launch on an idle device.
    - unknown: its launch was not recorded.
    - end of step: a selected step ends before any of its work runs again.

    With `by="stream"`, gaps of each stream: host wait if the next work was launched after the gap began, kernel wait if
    the gap is shorter than `launch_latency`, else other. Sorted by time.

    How to read it. Launch late is the host's fault, and its details say where to look. `nothing recorded` is Python
    that was not recorded (`with_stack=True` records it), or a thread that slept. Kernel to kernel is the device's own
    overhead; graphs and fusion lower it. An idle stream costs nothing while others keep the device busy: look at the
    device first.

    Limits. Only the launching thread is examined: if it waited for another thread, that reads as nothing recorded. The
    profiler itself slows the host.
    """
    view = scope(trace, select)
    if not counted_work(unclipped(view)).any():
        return Partial(RESULT.per_rank.empty(), (no_work_note(view),))
    held_up = by == "device" and select == ALL and any(lane.left_out for lane in device_lanes(view, by_stream=False))
    notes = [*(notes_of_earlier_work(trace) if held_up else ()), *filter(None, (note_of_gaps(trace),))]
    idle = gaps(view, by_stream=by == "stream")
    return Partial(_frame(view, idle, idle_charges(view, idle, by, launch_latency), by), tuple(notes))


ANALYSIS = Analysis("Idle time", idle_breakdown, RESULT, chart=Bars("detail", "time"), counts_warm_up=True)

_STATISTICS: Final = ("mean", "min", "p25", "median", "p75", "std")


def _frame(view: Scope, idle: Gaps, charges: IdleCharges, by: By) -> pl.DataFrame:
    device, stream = idle.device[charges.gap], idle.stream[charges.gap]
    codes, first = group(device, stream, charges.reason, charges.detail)
    reduced = reduce_by(codes, len(first), charges.time)
    longest_at = np.full(len(first), np.iinfo(np.int64).max)
    longest = charges.time == reduced.greatest[codes]
    np.minimum.at(longest_at, codes[longest], idle.start[charges.gap[longest]])
    frame = pl.DataFrame(
        {
            "device": device[first],
            "stream": stream[first],
            "reason": [REASONS[place] for place in charges.reason[first].tolist()],
            "detail": [DETAILS[place] for place in charges.detail[first].tolist()],
            "time": reduced.total,
            "gaps": reduced.rows,
            "longest": reduced.greatest,
            **polars_columns.statistics(codes, len(first), charges.time, *_STATISTICS),
            "longest_at": longest_at - origin_of_time(view.trace),
        }
    )
    windows = [
        (lane.device, lane.stream, union(*view.clipped(*lane.window)).length)
        for lane in device_lanes(view, by_stream=by == "stream")
    ]
    whole = pl.DataFrame(windows, schema={"device": pl.Int64, "stream": pl.Int64, "window": pl.Int64}, orient="row")
    place = ["device", "stream"]
    frame = frame.join(whole, on=place, how="left", nulls_equal=True)
    frame = frame.sort([*place, "time", "reason", "detail"], descending=[False, False, True, False, False])
    return frame.select(
        pl.when(pl.col("device") >= 0).then("device").alias("device"),
        pl.when(pl.col("stream") >= 0).then("stream").alias("stream"),
        "reason",
        "detail",
        "time",
        (pl.col("time") / pl.col("time").sum().over(place)).alias("share"),
        (pl.col("time") / pl.col("window")).alias("window_share"),
        "gaps",
        "longest",
        "longest_at",
        *_STATISTICS,
    )
