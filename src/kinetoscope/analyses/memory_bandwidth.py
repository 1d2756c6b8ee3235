"""What copies and sets of device memory move, and how fast."""

from __future__ import annotations

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Floats, Int64s
from kinetoscope.algorithms.grouping import sum_by
from kinetoscope.algorithms.intervals.intervals import Intervals, intersection, union
from kinetoscope.algorithms.intervals.sweeps import greatest, level_statistics
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.copies import Transfers, transfers
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, MeanBy, Schema, ShareOf

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.Int64, "Device of the rank."),
    Column("direction", pl.String, "HtoD, DtoH, DtoD, PtoP (H host, D device, P peer, S shared), memset, or unknown."),
    Column("calls", pl.Int64, "Copies, or sets."),
    Column("unsized", pl.Int64, "Copies and sets whose size was not recorded."),
    Column("bytes", pl.Int64, "Bytes of those whose size was recorded; null if it was of none.", "bytes"),
    Column("total", pl.Int64, "Sum of the durations.", "ns"),
    Column("busy", pl.Int64, "Time with one or more running.", "ns"),
    Column("busy_share", pl.Float64, "Busy / from the first to the last device work of the device.", "fraction"),
    Column("copy_bandwidth", pl.Float64, "Mean of bytes / duration, weighted by duration.", "bytes/s"),
    Column("bandwidth", pl.Float64, "Bytes / time with one or more of known size running.", "bytes/s"),
    Column("max_bandwidth", pl.Float64, "Greatest sum of bytes / duration of all that run at a time.", "bytes/s"),
    Column("min_bandwidth", pl.Float64, "Least such sum while any runs.", "bytes/s"),
    Column("p25_bandwidth", pl.Float64, "The least such sum that is not exceeded in 25 % of that time.", "bytes/s"),
    Column("median_bandwidth", pl.Float64, "The same in 50 %.", "bytes/s"),
    Column("p75_bandwidth", pl.Float64, "The same in 75 %.", "bytes/s"),
    Column("std_bandwidth", pl.Float64, "Standard deviation of that sum over that time.", "bytes/s"),
    Column("mean_bytes", pl.Int64, "Mean size of a copy or set, rounded to the byte.", "bytes"),
    Column("median_bytes", pl.Int64, "Median size of one.", "bytes"),
    Column("min_bytes", pl.Int64, "Smallest.", "bytes"),
    Column("max_bytes", pl.Int64, "Largest.", "bytes"),
    Column("std_bytes", pl.Float64, "Standard deviation of their sizes.", "bytes"),
    across={
        "device": "device",
        "sum": "calls unsized bytes total busy",
        ShareOf("busy"): "busy_share",
        MeanBy("total"): "copy_bandwidth",
        MeanBy("busy"): "bandwidth",
        "greatest": "max_bandwidth max_bytes",
        "least": "min_bandwidth min_bytes",
        MeanBy("calls"): "mean_bytes",
        "own": "p25_bandwidth median_bandwidth p75_bandwidth std_bandwidth median_bytes std_bytes",
    },
)


def memory_bandwidth(trace: Trace, select: Selection) -> Partial:
    """How much do copies and sets of device memory move in each direction, and how fast?

    Method. The bandwidth of a copy is its bytes / its duration; `copy_bandwidth` is its mean over the copies, weighted
    by duration. At each instant the bandwidths of all running copies are added: `bandwidth` is the mean of that sum
    over the time in which any runs, `max_bandwidth` its greatest value. The direction follows from the name, on MTIA
    from an argument; the size from the copy or, on ROCm, from the call that launched only this copy.

    How to read it. Host to device well below the bus (PCIe 4.0 x16: some 25 GB/s) is copying from pageable memory, or
    many small copies: compare bytes with calls. Device to host in a training loop is often a hidden synchronization.

    Limits. Kernels that copy are kernels. Traces of before 2024 have whole microseconds, so the bandwidth of short
    copies is rough. Copies and sets without a size or a duration are counted, and in no bandwidth; where none has a
    size, bytes is null. With a time range, times are cut to it; calls and bytes are of those that start in it. Selected
    steps choose copies by their launches and cut only busy_share, which is of the time in these steps.
    """
    view = scope(trace, select)
    copies = transfers(view)
    groups = len(copies)
    if not groups:
        return Partial(RESULT.per_rank.empty(), copies.notes)
    has = ~np.isnan(copies.rate)
    duration = copies.end - copies.start
    measured = sum_by(copies.group[has], groups, duration[has])
    moved = np.asarray(np.bincount(copies.group[has], copies.rate[has] * (duration[has] / 1e9), groups), np.float64)
    every = [_busy(copies, copies.group == group) for group in range(groups)]
    busy_measured = np.array([_busy(copies, has & (copies.group == group)).length for group in range(groups)])
    sized = copies.begins & (copies.bytes >= 0)
    calls = sum_by(copies.group, groups, copies.begins.astype(np.int64))
    of_known = sum_by(copies.group, groups, sized.astype(np.int64))
    frame = pl.DataFrame(
        {
            "device": polars_columns.rows(copies.device),
            "direction": copies.direction,
            "calls": calls,
            "unsized": calls - of_known,
            "bytes": polars_columns.column(sum_by(copies.group[sized], groups, copies.bytes[sized]), of_known > 0),
            "total": sum_by(copies.group, groups, duration),
            "busy": [each.length for each in every],
            "busy_share": [_share(view, each, device) for each, device in zip(every, copies.device, strict=True)],
            "copy_bandwidth": _rate(moved, measured),
            "bandwidth": _rate(moved, busy_measured),
            "max_bandwidth": polars_columns.column(greatest(copies.bandwidth, groups), measured > 0),
            **_bandwidths(copies, groups),
            **_sizes(copies, sized),
        },
        schema_overrides={"busy_share": pl.Float64},
    )
    return Partial(frame, copies.notes)


ANALYSIS = Analysis("Memory bandwidth", memory_bandwidth, RESULT, chart=Bars("direction", "bandwidth"))


def _busy(copies: Transfers, chosen: Bools) -> Intervals:
    return union(copies.start[chosen], copies.end[chosen])


def _bandwidths(copies: Transfers, groups: int) -> dict[str, pl.Series]:
    """Statistics of the bandwidth over the time in which it is not 0."""
    every = copies.bandwidth
    length, running = every.length, every.level > 0
    time = sum_by(every.group[running], groups, length[running])
    values = level_statistics(every, groups, np.zeros(groups, np.int64), above=0)
    parts = zip(("min", "p25", "median", "p75", "std"), values, strict=True)
    return {f"{name}_bandwidth": polars_columns.column(part, time > 0) for name, part in parts}


def _sizes(copies: Transfers, sized: Bools) -> dict[str, pl.Series]:
    """Statistics of the sizes that were recorded."""
    parts = ("mean", "median", "min", "max", "std")
    columns = polars_columns.statistics(copies.group[sized], len(copies), copies.bytes[sized], *parts)
    return {f"{name}_bytes": column for name, column in columns.items()}


def _share(view: Scope, busy: Intervals, device: int) -> float | None:
    """Of the window: the range of time, the time in the steps, or from the first to the last work of the device."""
    if view.select.steps is not None:
        window = union(*view.clipped(*view.steps.device))
        busy = intersection(busy, window)
        length = window.length
    elif view.clip is not None:
        length = view.clip[1] - view.clip[0]
    else:
        here = view.device_work_mask & (view.device_work.device == device)
        length = int(view.device_work.end[here].max() - view.device_work.start[here].min())
    return busy.length / length if length else None


def _rate(moved: Floats, time: Int64s) -> pl.Series:
    return polars_columns.numbers(moved / np.where(time > 0, time / 1e9, np.nan))
