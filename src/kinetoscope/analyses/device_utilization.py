"""How well each device is used over the steps."""

from __future__ import annotations

import numpy as np
import polars as pl

from kinetoscope.algorithms.intervals.intervals import Intervals, intersection, union
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.counters.sampled_use import sm_active
from kinetoscope.model.device.busy import counted_work, no_work_note
from kinetoscope.model.device.utilization import Kernels, fill_notes, kernels_of, use_of
from kinetoscope.model.steps.scope import origin_of_time, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import step_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, MeanBy, RatioOf, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.Int64, "Device of the rank."),
    Column(
        "start", pl.Int64, "Start of the first device step, from the first event of the trace on.", "ns", instant=True
    ),
    Column("end", pl.Int64, "End of the last device step, from the first event of the trace on.", "ns", instant=True),
    Column("window", pl.Int64, "Time from start to end; of selected steps, the time in them.", "ns"),
    Column("calls", pl.Int64, "Kernels that start in the window."),
    Column("kernel_time", pl.Int64, "Time of the window with a kernel running.", "ns"),
    Column("utilization", pl.Float64, "Kernel time / window.", "fraction"),
    Column(
        "sm_efficiency", pl.Float64, "Estimated share of the multiprocessors with a block, mean over it.", "fraction"
    ),
    Column("occupancy", pl.Float64, "Estimated achieved occupancy of the kernels, weighted by duration.", "fraction"),
    Column(
        "matrix_unit_share",
        pl.Float64,
        "Share of computation on tensor or matrix cores, where names tell; null without such units.",
        "fraction",
    ),
    Column("told_time", pl.Int64, "Sum of the time of computation whose names tell; 0 without matrix units.", "ns"),
    Column("unknown_share", pl.Float64, "Share of the time of computation whose names do not tell.", "fraction"),
    Column("computation_time", pl.Int64, "Time of computation, as a sum.", "ns"),
    Column(
        "sm_active",
        pl.Float64,
        "Share of the multiprocessors that had work, as counters sampled it over the window; null without such.",
        "fraction",
    ),
    Column("sm_active_in_kernels", pl.Float64, "The same over the time with a kernel running.", "fraction"),
    across={
        "device": "device",
        "own": "start end",
        "sum": "window calls kernel_time told_time computation_time",
        RatioOf("kernel_time", "window"): "utilization",
        MeanBy("window"): "sm_efficiency sm_active",
        MeanBy("kernel_time"): "occupancy sm_active_in_kernels",
        MeanBy("told_time"): "matrix_unit_share",
        MeanBy("computation_time"): "unknown_share",
    },
)


def device_utilization(trace: Trace, select: Selection) -> Partial:
    """How busy was each device, and how well did its kernels fill it?

    Method. The window is from the start of the first to the end of the last device step (see `step_breakdown`), or the
    time in the selected steps. Kernels count as far as they lie in it, collectives included, copies and sets not.
    Utilization is the share of the window with any kernel running. SM efficiency is the mean over the window of min(1,
    blocks per multiprocessor of all running kernels). Occupancy is the mean of the kernels' own estimates, weighted by
    duration; an estimate of 0 counts as 0. Kernels on matrix units (tensor cores, matrix cores) are recognised by name.
    matrix_unit_share leaves out collectives, copies and what has an unknown name, whose share stands beside it: it is
    that of the column `matrix_unit` of `kernels`, and null for a device without such units, or if no name tells.
    `sm_active` is no estimate: it is what a sampler of the device counted (DCGM, CUPTI's, Nsight's GPU metrics).

    How to read it. Low utilization: the device waits for the host, see `idle_breakdown` and `step_breakdown`. High
    utilization with low SM efficiency: kernels are too small for the device. A low share of matrix units in a model of
    large matrix products asks for a half-precision type. `sm_active_in_kernels` far below 1: a kernel is running, and
    most of the device does nothing. `device_utilization_series` shows when.

    Limits. SM efficiency and occupancy are Kineto's estimates from launch configurations, not measurements. ROCm, XPU
    and MTIA record neither: null.
    """
    view = scope(trace, select)
    devices = np.unique(view.device_work.device[counted_work(view)]).tolist()
    if not devices:
        return Partial(RESULT.per_rank.empty(), (no_work_note(view),))
    # The device's time in the steps: from the first to the last, or in those selected; clipped to a range of time.
    start, end = view.steps.device
    if view.select.steps is None:
        start, end = start[:1], end[-1:]
    windows = union(*view.clipped(start, end))
    if not windows.length:
        note = Note("NO_WINDOW", "No device step takes any time in what was selected: there is no window.")
        return Partial(RESULT.per_rank.empty(), (note,))
    notes: list[Note] = []
    frames = []
    for device in devices:
        kernels = kernels_of(view, device)
        frames.append(_of_device(trace, kernels, windows, device))
        notes += _outside(kernels, windows, device) + fill_notes(kernels, device)
    return Partial(pl.concat(frames), tuple(notes))


ANALYSIS = Analysis(
    "Device utilization",
    device_utilization,
    RESULT,
    chart=Bars("device", "utilization"),
    selection_notes="always",
    counts_warm_up=True,
)


def _of_device(trace: Trace, kernels: Kernels, windows: Intervals, device: int) -> pl.DataFrame:
    use, origin = use_of(kernels, windows).in_all(), origin_of_time(trace)
    row = {
        "device": device if device >= 0 else None,
        "start": int(windows.start[0]) - origin,
        "end": int(windows.end[-1]) - origin,
        "window": windows.length,
        "calls": int((step_of(windows, kernels.start) >= 0).sum()),
        "kernel_time": int(use.busy[0]),
        "told_time": int(use.named[0]),
        "computation_time": int(use.time[0]),
        "sm_active": sm_active(trace, device, windows),
        "sm_active_in_kernels": sm_active(trace, device, intersection(windows, union(kernels.start, kernels.end))),
    }
    types = {"device": pl.Int64, "sm_active": pl.Float64, "sm_active_in_kernels": pl.Float64}
    return pl.DataFrame([row], schema_overrides=types).with_columns(**use.shares())


def _outside(kernels: Kernels, windows: Intervals, device: int) -> list[Note]:
    outside = int(((kernels.end <= windows.start[0]) | (kernels.start >= windows.end[-1])).sum())
    if not outside:
        return []
    which = f"{outside:,} of {len(kernels):,} kernels on device {device}"
    return [Note("OUTSIDE_STEPS", f"{which} ran before or after the steps and do not count.")]
