"""How far the host runs ahead of each stream."""

from __future__ import annotations

from typing import Annotated, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.grouping import sum_by
from kinetoscope.algorithms.intervals.sweeps import greatest, level_statistics, time_at_least
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.queues import queues
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, MeanBy, Param, RatioOf, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.Int64, "Device of the rank."),
    Column("stream", pl.Int64, "Stream of the device."),
    Column("calls", pl.Int64, "Launches; that of a graph is one."),
    Column("window", pl.Int64, "From the first launch to the last start of device work on any stream.", "ns"),
    Column("mean", pl.Float64, "Mean length of the queue over the window."),
    Column("max", pl.Int64, "Greatest length of the queue."),
    Column("min", pl.Int64, "Least length."),
    Column("p25", pl.Int64, "The least length that is not exceeded in 25 % of the window."),
    Column("median", pl.Int64, "The same in 50 %."),
    Column("p75", pl.Int64, "The same in 75 %."),
    Column("std", pl.Float64, "Standard deviation of the length over the window."),
    Column("queued", pl.Int64, "Time with a launch or more in the queue.", "ns"),
    Column("queued_share", pl.Float64, "Queued / window.", "fraction"),
    Column("full", pl.Int64, "Time with `full_at` launches in the queue, or more.", "ns"),
    Column("full_share", pl.Float64, "Full / window.", "fraction"),
    across={
        "device": "device",
        "key": "stream",
        "sum": "calls window queued full",
        MeanBy("window"): "mean",
        "greatest": "max",
        "least": "min",
        "own": "p25 median p75 std",
        RatioOf("queued", "window"): "queued_share",
        RatioOf("full", "window"): "full_share",
    },
)

_CUDA_QUEUE_LENGTH: Final = 1024


def queue_length(
    trace: Trace,
    select: Selection,
    *,
    full_at: Annotated[
        int, Param("Length from which a queue is full and the next launch blocks the host.", least=1)
    ] = _CUDA_QUEUE_LENGTH,
) -> Partial:
    """How many launches wait in the queue of each stream, and for how long is it full?

    Method. A launch enters the queue of a stream when its call starts, and leaves it when its first work on that stream
    starts. The mean is over time: the sum of these waits / the window, which is the same for all streams of a rank. So
    are quartiles and standard deviation; HTA's are over the points of the series, each of which counts alike. Launches
    are all calls that device work was correlated with, of any vendor: kernels, copies, sets, and graphs, which are one
    entry each.

    How to read it. A queue that is never empty: the device is the bottleneck. A mean near 0: the device waits for the
    host, see `idle_breakdown`. At 1024 launches a queue of CUDA is full: the host blocks in the launch, which then
    looks slow but is not the cause.

    Limits. With a time range, that is the window: waits are cut to it, and calls are those that start in it. Selected
    steps choose launches by their calls and cut nothing. Work that starts before its call, because the clocks of host
    and device disagree, waited 0 ns; notes count such cases.
    """
    waits = queues(trace, select)
    streams, length = len(waits), waits.length
    if not streams:
        return Partial(RESULT.per_rank.empty(), waits.notes)
    first, last = waits.window
    begins = np.ones(len(waits.queue), np.bool_)
    if waits.clip is not None:
        begins = (waits.start >= first) & (waits.start < last)
    waited = sum_by(waits.queue, streams, waits.clipped.end - waits.clipped.start)
    queued, full = time_at_least(length, streams, 1), time_at_least(length, streams, full_at)
    whole = (last - first) or np.nan
    over_time = level_statistics(length, streams, (last - first) - sum_by(length.group, streams, length.length))
    frame = pl.DataFrame(
        {
            "device": polars_columns.rows(waits.device),
            "stream": polars_columns.rows(waits.stream),
            "calls": np.bincount(waits.queue[begins], minlength=streams),
            "window": np.full(streams, last - first, np.int64),
            "mean": polars_columns.numbers(waited / whole),
            "max": greatest(length, streams),
            "min": over_time.least,
            "p25": over_time.lower,
            "median": over_time.median,
            "p75": over_time.upper,
            "std": over_time.deviation,
            "queued": queued,
            "queued_share": polars_columns.numbers(queued / whole),
            "full": full,
            "full_share": polars_columns.numbers(full / whole),
        }
    )
    return Partial(frame, waits.notes)


ANALYSIS = Analysis("Queue length", queue_length, RESULT, chart=Bars("stream", "mean"))
