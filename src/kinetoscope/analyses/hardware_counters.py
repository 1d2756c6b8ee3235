"""What the hardware counted while kernels ran, by the operator that launched them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Floats, Int32s
from kinetoscope.algorithms.grouping import group, match_first, reduce_by
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.execution.call_tree import call_tree, enclosing_op, outermost_op
from kinetoscope.model.execution.calls import call_name, call_names
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.counters import counters
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.recording import not_recorded
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, MeanBy, Param, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("outer_operator", pl.String, "The outermost operator around the launch; null if there is none."),
    Column("operator", pl.String, "The innermost operator around the launch; null if there is none."),
    Column("kernel", pl.String, "Name of the kernel; null if the row is of several."),
    Column("counter", pl.String, "Name of the counter, as the device's vendor spells it."),
    Column("calls", pl.Int64, "Kernels that have this counter."),
    Column("total", pl.Float64, "Sum over the kernels; null for averages, shares and rates, which cannot be summed."),
    Column("mean", pl.Float64, "Mean over the kernels."),
    Column("min", pl.Float64, "Least value of a kernel."),
    Column("max", pl.Float64, "Greatest value of a kernel."),
    across={"sum": "calls total", MeanBy("calls"): "mean", "least": "min", "greatest": "max"},
)

By = Literal["operator", "kernel"]


def hardware_counters(
    trace: Trace,
    select: Selection,
    *,
    by: Annotated[By, Param("A row for each operator, or for each operator and kernel, and counter.")] = "operator",
) -> Partial:
    """What did the device's hardware counters count, for which operators?

    Method. CUPTI's range profiler replays each kernel alone while counters are read; the file then holds a range for
    each kernel instead of the kernel. Only the order links a range to its launch: the n-th range belongs to the n-th
    kernel launch. That holds if there are as many ranges as launch calls, either of all launch calls or of
    `cudaLaunchKernel` and its kin alone. Operators are those around the launch. Sorted by counter (those that are 0
    everywhere last), then by total or mean.

    How to read it. `…_op_ffma_pred_on.sum` and the like count instructions of threads: 2 × ffma + fadd + fmul (and the
    same for d and h) are the FLOPs that the kernel executed; `flops` gives those that the mathematics needs.

    Of Intel's GPUs, PTI counts while kernels run as they do, and the file has both: the kernel, and a copy of it with
    the values. So it is with AMD's counters in databases of rocprofv3, which runs kernels one by one for them. Where
    each range has the times of a kernel, it is that kernel's.

    Limits. If ranges and launches differ in number, operators are null and a note says so. Ranges that the user named
    are no kernels and have the name of the range. Times are those of the replay and left out. To record counters:
    `experimental_config=_ExperimentalConfig(profiler_metrics=[…], profiler_measure_per_kernel=True)`, in torch before
    mid-2026.
    """
    view = scope(trace, select)
    values = counters(trace, EventKind.COUNTER_RANGE)
    if not len(values.rows):
        note = not_recorded("counters")
        return Partial(RESULT.per_rank.empty(), (note,))
    launch, notes = _launches(trace)
    of_event = launch[values.rows]
    chosen = view.host_mask[np.where(of_event >= 0, of_event, values.rows)] & ~np.isnan(values.value)
    chosen &= values.key != trace.strings.code(_NO_COUNTER)
    samples = _Samples(values.rows[chosen], values.key[chosen], values.value[chosen], of_event[chosen])
    return Partial(_frame(view, samples, by), tuple(notes))


ANALYSIS = Analysis(
    "Hardware counters", hardware_counters, RESULT, chart=Bars("operator", "total"), of_device_work=False
)

_NO_COUNTER: Final = "kernel_id"
"""The number that Intel's profiler puts among the counters of a kernel."""

_LAUNCH_OF_RUNTIME: Final = re.compile(r"(?:cuda|hip)LaunchKernel")
_SUM_NAME: Final = re.compile(r"\.sum$|^[^.]+$")
"""Names of counters that can be added up: what was summed over the units of the device, and Kineto's own sums."""


@dataclass(frozen=True)
class _Samples:
    """Values of counters: int32 [samples] codes and rows, −1 for none; float64 [samples] values."""

    event: Int32s
    key: Int32s
    value: Floats
    launch: Int32s


def _launches(trace: Trace) -> tuple[Int32s, list[Note]]:
    """The call that launched each range's kernel: int32 [events], −1 for none and for all other events."""
    ranges = _in_time(trace, trace.rows(EventKind.COUNTER_RANGE))
    work = device_work(trace)
    times = [np.concatenate([column[work.rows], column[ranges]]) for column in (trace.start, trace.end)]
    codes, _ = group(*times)
    kernel = match_first(codes[len(work) :].astype(np.int64), codes[: len(work)].astype(np.int64))
    if (kernel >= 0).all() and (work.launch[kernel] >= 0).any():
        result = np.full(len(trace), -1, np.int32)
        result[ranges] = work.launch[kernel]
        return result, []
    calls = _launch_calls(trace)
    of_runtime = [
        _LAUNCH_OF_RUNTIME.match(label) is not None for label in trace.strings.labels(trace.name[calls].tolist())
    ]
    result = np.full(len(trace), -1, np.int32)
    for candidates in (calls, calls[np.array(of_runtime, np.bool_)]):
        if len(candidates) == len(ranges):
            result[ranges] = candidates
            return result, []
    numbers = f"{len(ranges):,} ranges and {len(calls):,} calls that launch kernels"
    return result, [Note("COUNTERS_UNMATCHED", f"{numbers}: the counts differ, so the operators are unknown.")]


def _launch_calls(trace: Trace) -> Int32s:
    """Calls that launch a kernel, in order of time; one that is made by another (driver by runtime) is that one."""
    is_launch = runtime_call_kinds(trace) == RuntimeCallKind.LAUNCH
    parent = call_tree(trace).parent
    within = np.zeros(len(trace), np.bool_)
    inside = np.flatnonzero(is_launch & (parent >= 0))
    within[inside] = is_launch[parent[inside]]
    return _in_time(trace, np.flatnonzero(is_launch & ~within).astype(np.int32))


def _in_time(trace: Trace, rows: Int32s) -> Int32s:
    return rows[np.argsort(trace.start[rows], kind="stable")]


def _frame(view: Scope, samples: _Samples, by: By) -> pl.DataFrame:
    trace = view.trace
    names = call_names(trace)
    linked = samples.launch >= 0

    def named(of: Int32s) -> Int32s:
        row = np.where(linked, of[samples.launch], -1)
        return np.where(row >= 0, names[row], np.int32(-1))

    outer, inner = named(outermost_op(trace)), named(enclosing_op(trace))
    kernel = trace.name[samples.event]
    codes, first = group(samples.key, outer, inner, *([kernel] if by == "kernel" else []))
    calls = np.bincount(codes, minlength=len(first))
    total = np.bincount(codes, samples.value, len(first))
    least, greatest = np.full(len(first), np.inf), np.full(len(first), -np.inf)
    np.minimum.at(least, codes, samples.value)
    np.maximum.at(greatest, codes, samples.value)
    counter = trace.strings.labels(samples.key[first].tolist())
    summed = np.array([_SUM_NAME.search(name) is not None for name in counter], np.bool_) & np.isfinite(total)
    one = reduce_by(codes, len(first), kernel.astype(np.int64)).common
    frame = pl.DataFrame(
        {
            "outer_operator": _operators(trace, outer[first]),
            "operator": _operators(trace, inner[first]),
            "kernel": polars_columns.texts(trace.strings, one).cast(pl.String),
            "counter": counter,
            "calls": calls,
            "total": polars_columns.numbers(np.where(summed, total, np.nan)),
            "mean": polars_columns.numbers(np.where(np.isfinite(total), total / np.maximum(calls, 1), np.nan)),
            "min": polars_columns.numbers(least),
            "max": polars_columns.numbers(greatest),
        },
        schema=RESULT.per_rank.types,
    )
    nothing = ((pl.col("min") == 0) & (pl.col("max") == 0)).all().over("counter")
    order = [nothing, "counter", "total", "mean", "outer_operator", "operator", "kernel"]
    return frame.sort(order, descending=[False, False, True, True, False, False, False], nulls_last=True)


def _operators(trace: Trace, codes: Int32s) -> list[str | None]:
    return [call_name(trace.strings.label(code), EventKind.HOST_OP) if code >= 0 else None for code in codes.tolist()]
