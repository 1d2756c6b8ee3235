"""How well each device is used, bucket by bucket of time."""

from __future__ import annotations

from typing import Annotated, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.charts import Lines
from kinetoscope.errors import UsageError
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.busy import counted_work, no_work_note
from kinetoscope.model.device.utilization import Kernels, fill_notes, kernels_of, use_of
from kinetoscope.model.steps.scope import Scope, origin_of_time, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.event_kinds import DEVICE_WORK, HOST_KINDS
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Param, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.Int64, "Device of the rank."),
    Column("time", pl.Int64, "Start of the bucket, from the first event of the trace on.", "ns", instant=True),
    Column("duration", pl.Int64, "Length of the bucket; the last one ends with the window.", "ns"),
    Column("utilization", pl.Float64, "Share of the bucket with a kernel running.", "fraction"),
    Column(
        "sm_efficiency", pl.Float64, "Estimated share of the multiprocessors with a block, mean over it.", "fraction"
    ),
    Column("occupancy", pl.Float64, "Estimated achieved occupancy of the kernels, weighted by time.", "fraction"),
    Column(
        "matrix_unit_share",
        pl.Float64,
        "Share of computation on tensor or matrix cores, where names tell; null without such units.",
        "fraction",
    ),
    across={
        "device": "device",
        "key": "time",
        "own": "duration utilization sm_efficiency occupancy matrix_unit_share",
    },
)

_DEFAULT_BUCKETS: Final = 100
"""Buckets at most where nobody says how long one is, as in the TensorBoard plugin."""

_MAX_BUCKETS: Final = 1_000_000
_SHORTEST_BUCKET_NS: Final = 1_000


def device_utilization_series(
    trace: Trace,
    select: Selection,
    *,
    bucket: Annotated[
        int | None,
        Param("Length of a bucket; by default the least power of ten with 100 buckets at most.", "ns", least=1),
    ] = None,
) -> Partial:
    """How does the use of each device change over time?

    Method. The time from the first to the last event of host calls and device work (or of the selected device steps, or
    the time range) is cut into buckets of one length. Each number is that of `device_utilization` for the bucket:
    kernels count as far as they lie in it.

    How to read it. A pattern that repeats with the steps shows where in a step the device starves; a drift over the
    steps is worth more attention than one low bucket. Choose a bucket well below the length of a step.

    Limits. Edges of buckets cut kernels and steps. In a bucket without a kernel utilization is 0; occupancy and
    matrix_unit_share are null.
    """
    view = scope(trace, select)
    devices = np.unique(view.device_work.device[counted_work(view)]).tolist()
    if not devices:
        return Partial(RESULT.per_rank.empty(), (no_work_note(view),))
    buckets = _buckets(*_window(view), bucket)
    notes = []
    frames = []
    for device in devices:
        kernels = kernels_of(view, device)
        frames.append(_of_device(trace, kernels, device, buckets))
        notes.extend(fill_notes(kernels, device))
    return Partial(pl.concat(frames), tuple(notes))


ANALYSIS = Analysis(
    "Device utilization over time",
    device_utilization_series,
    RESULT,
    chart=Lines("time", "utilization", by=("rank", "device")),
)


def _window(view: Scope) -> tuple[int, int]:
    if view.clip is not None:
        return view.clip
    if view.select.steps is not None:
        return int(view.steps.device.start[0]), int(view.steps.device.end[-1])
    trace = view.trace
    ends = trace.end[np.isin(trace.kind, (*HOST_KINDS, *DEVICE_WORK))]
    return origin_of_time(trace), int(ends.max())


def _buckets(first: int, last: int, size: int | None) -> Intervals:
    """The window cut into buckets; one empty bucket if it is empty."""
    if size is None:
        size = _SHORTEST_BUCKET_NS
        while (last - first) > _DEFAULT_BUCKETS * size:
            size *= 10
    count = -(-(last - first) // size)
    if count > _MAX_BUCKETS:
        raise UsageError(
            f"buckets of {size:,} ns would be {count:,} rows a device, {_MAX_BUCKETS:,} at most: make them longer"
        )
    start = first + size * np.arange(max(count, 1), dtype=np.int64)
    return Intervals(start, np.append(start[1:], np.int64(last)))


def _of_device(trace: Trace, kernels: Kernels, device: int, buckets: Intervals) -> pl.DataFrame:
    use = use_of(kernels, buckets)
    frame = pl.DataFrame(
        {
            "device": polars_columns.rows(np.full(len(use.length), device, np.int64)),
            "time": buckets.start - origin_of_time(trace),
            "duration": use.length,
            **use.shares(),
        }
    )
    return frame.select(RESULT.per_rank.names)
