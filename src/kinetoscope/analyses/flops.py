"""How many floating-point operations the model took, and how near to the device's peak they ran."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Bools, Floats, Int32s
from kinetoscope.algorithms.grouping import group, reduce_by, sum_by
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.hardware import is_host_only
from kinetoscope.model.device.peaks import PRECISIONS, known_peaks
from kinetoscope.model.device.tensor_cores import ON_MATRIX_UNIT, kernel_units
from kinetoscope.model.execution.autograd import recomputed_ops
from kinetoscope.model.execution.calls import call_name
from kinetoscope.model.operators.modules import modules
from kinetoscope.model.roofline.rates import FlopRates, flop_rates
from kinetoscope.model.steps.scope import Scope, scope, unclipped
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import Steps, step_of
from kinetoscope.model.trace import arguments, polars_columns
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.recording import not_recorded, shapes_not_recorded
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, MeanBy, Param, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("step", pl.Int64, "Number of the step, as in ProfilerStep#N; null unless there is a row a step."),
    Column("name", pl.String, "Operator, or path of the module; null for calls that work for none, and for steps."),
    Column("input_shapes", pl.String, "Shape of each input; null unless there is a row an operator."),
    Column("dtype", pl.String, "Type of the elements; null unless there is a row an operator."),
    Column("precision", pl.String, "What it was computed in; null if nothing tells, or if several."),
    Column("calls", pl.Int64, "Counted calls: the innermost operators whose arguments tell what they take."),
    Column("flop", pl.Float64, "Floating-point operations of the calls; exact up to 2^53.", "flop"),
    Column(
        "recomputed_flop", pl.Float64, "Of these, what the backward pass computes of the forward pass again.", "flop"
    ),
    Column("device_time", pl.Int64, "Durations of the device work that they launched; null if none was.", "ns"),
    Column("host_time", pl.Int64, "Durations of the calls on the host.", "ns"),
    Column("rate", pl.Float64, "FLOPs / device time; where no device was used, / host time.", "flop/s"),
    Column("peak", pl.Float64, "Dense peak of the device in that precision; null if unknown, or if several.", "flop/s"),
    Column("peak_share", pl.Float64, "Time that the device would take at its peak / device time.", "fraction"),
    Column("intensity", pl.Float64, "FLOPs per byte, if each input is read and each output written once."),
    Column("duration", pl.Int64, "Length of the device step; null unless there is a row a step.", "ns"),
    Column("mfu", pl.Float64, "Time at the devices' peak, without what is computed again / duration.", "fraction"),
    Column("hfu", pl.Float64, "Time at the devices' peak, with all FLOPs / duration.", "fraction"),
    across={
        "key": "step",
        "agreed": "precision peak intensity",
        "sum": "calls flop recomputed_flop device_time host_time duration",
        MeanBy("device_time", "host_time"): "rate",
        MeanBy("device_time"): "peak_share",
        MeanBy("duration"): "mfu hfu",
    },
)

By = Literal["op", "module", "step"]
Values = dict[str, Any]

_SCHEMA: Final = RESULT.per_rank.types
_SHOWN_OPERATORS: Final = 3
"""How many operators a note names."""


def flops(
    trace: Trace,
    select: Selection,
    *,
    by: Annotated[By, Param("A row for each operator and its shapes, for each module, or each step.")] = "op",
) -> Partial:
    """How many floating-point operations do matrix products, convolutions and attention take, and how fast do they run?

    Method. FLOPs follow from shapes, with 2 for a multiplication and an addition: 2·m·n·k for a product of m × k by k ×
    n; for a convolution 2 for each element of its weight at each output position, and as much for each gradient of its
    backward pass; for attention 2 for each query, each key that it sees, and each element of query and of value, and
    2.5 times that backwards. Of nested operators the innermost with known arguments counts, with the device work
    launched under it. The peak is that of the device (see `peaks`) in the precision of the elements; whether FP32 was
    computed in TF32 follows from the kernels' names. MFU, model FLOPs utilization, is the time that a step's FLOPs
    would take at the peak / the length of the device step, over all devices that ran any; it leaves out what activation
    checkpointing computes again: operators of the forward pass within the backward pass. HFU, hardware FLOPs
    utilization, counts these, too. Operators belong to the step in which they start on the host.

    How to read it. Many FLOPs with a low `peak_share` are where speed can be had: shapes that are too small or not
    multiples of 8, or FP32 where half precision would do. Where `intensity` is below peak / memory bandwidth (some 150
    to 300 in half precision), memory is the limit. MFU is the share of your devices' arithmetic that trains the model;
    where HFU is higher, the difference pays for memory, and `recomputed_flop` says where.

    Limits. Input shapes are needed. Before torch 2.1 strides were not recorded: there convolutions go by the gradient
    of their output, and without one are not counted. Custom operators (Triton, experts of vLLM) and graphs are not
    counted; notes give their time on matrix units. Of packed sequences, whose lengths a file does not have, it is the
    least that their sum and the longest allow. Masks count only if causal or a window. Convolutions by Winograd's
    algorithm count like direct ones, so they may pass the peak. What is computed again is found by the spans of
    autograd's engine, which files of 2021 lack. With a time range, calls that start in it count with all of their
    device work, and whole steps that reach into it. A module has what it calls itself, not what modules inside it call.
    """
    view = scope(trace, select)
    view = unclipped(view) if by == "step" else view
    rates = flop_rates(view)
    notes: list[Note] = []
    if by == "op":
        frame = _by_op(trace, rates)
    elif by == "module":
        frame = _by_module(trace, rates)
    else:
        frame = _by_step(trace, rates, scope(trace, select).steps)
    frame, too_fast = _possible(frame)
    unseen = list(_unseen(view, rates, by))
    if by == "step" and unseen and frame["mfu"].count():
        unseen.append(Note("AT_LEAST", "So what stands here is the least that it can be, MFU and HFU too."))
    notes += [*unseen, *_peaks(trace, rates), *too_fast]
    return Partial(frame, tuple(notes))


ANALYSIS = Analysis("FLOPs", flops, RESULT, chart=Bars("name", "flop"), of_operators=True)


# --- rows


def _by_op(trace: Trace, rates: FlopRates) -> pl.DataFrame:
    variants = rates.counts.variants
    names = {name: number for number, name in enumerate(dict.fromkeys(each.name for each in variants))}
    types = {kind: number for number, kind in enumerate(dict.fromkeys(each.type for each in variants))}
    keys = [
        np.array([names[each.name] for each in variants], np.int64),
        np.array([each.shapes for each in variants], np.int64),
        np.array([types[each.type] for each in variants], np.int64),
    ]
    codes, first = group(*(key[rates.variant] for key in keys), rates.precision)
    chosen = [variants[place] for place in rates.variant[first].tolist()]
    texts = {
        "name": [each.name for each in chosen],
        "input_shapes": [json.dumps(trace.strings.nested(each.shapes)) for each in chosen],
        "dtype": [each.type.name if each.type else None for each in chosen],
    }
    frame = _frame(trace, rates, codes, len(first), texts)
    order = ["flop", "device_time", "name", "input_shapes", "dtype", "precision"]
    return frame.sort(order, descending=[True, True, False, False, False, False], nulls_last=True)


def _by_module(trace: Trace, rates: FlopRates) -> pl.DataFrame:
    tree = modules(trace)
    if not len(rates) or not len(tree):
        return RESULT.per_rank.empty()
    paths = tree.paths
    codes, first = group(tree.node[rates.rows])
    names = [paths[node] if node >= 0 else None for node in tree.node[rates.rows[first]].tolist()]
    frame = _frame(trace, rates, codes, len(first), {"name": names})
    return frame.sort(["flop", "name"], descending=[True, False], nulls_last=True)


def _by_step(trace: Trace, rates: FlopRates, steps: Steps) -> pl.DataFrame:
    codes = step_of(steps.host, trace.start[rates.rows]).astype(np.int32)
    duration = steps.device.end - steps.device.start
    kept, again = codes >= 0, recomputed_ops(trace)[rates.rows]
    ran = np.bincount(codes[kept], rates.ran[kept], len(steps)) > 0

    def utilization(counted: Bools) -> pl.Series:
        ideal = np.bincount(codes[counted], rates.ideal[counted], len(steps))
        return polars_columns.numbers(np.where(ran, ideal, np.nan) / _positive(duration * rates.devices))

    given: Values = {
        "step": steps.number,
        "duration": duration,
        "mfu": utilization(kept & ~again),
        "hfu": utilization(kept),
    }
    if _shapes_missing(trace, rates):
        given |= dict.fromkeys(("calls", "flop", "recomputed_flop", "host_time"), [None] * len(steps))
    return _frame(trace, rates, codes, len(steps), given)


def _shapes_missing(trace: Trace, rates: FlopRates) -> bool:
    return not rates.counts.is_product.any() and not bool(arguments.has(trace, "input_dims").any())


def _frame(trace: Trace, rates: FlopRates, codes: Int32s, groups: int, given: Values) -> pl.DataFrame:
    """The columns that all kinds of rows have; calls with a negative code count nowhere."""
    rows, kept = rates.rows, codes >= 0
    host = sum_by(codes, groups, np.maximum(trace.end[rows] - trace.start[rows], 0))
    device = sum_by(codes, groups, rates.device_time)

    def total(values: Floats) -> Floats:
        return np.bincount(codes[kept], values[kept].astype(np.float64), groups).astype(np.float64)

    flop, on_device = total(rates.flop), total(np.where(rates.ran, rates.flop, 0.0))
    ran = total(rates.ran.astype(np.float64)) > 0
    on_host = is_host_only(trace)
    moved = [each.bytes for each in rates.counts.variants]
    nbytes = np.array([np.nan if each is None else each for each in moved], np.float64)
    precision = reduce_by(codes, groups, rates.precision.astype(np.int64)).common
    values = {
        "precision": [PRECISIONS[code] if code >= 0 else None for code in precision.tolist()],
        "calls": np.bincount(codes[kept], minlength=groups),
        "flop": flop,
        "recomputed_flop": total(np.where(recomputed_ops(trace)[rows], rates.flop, 0.0)),
        "device_time": polars_columns.column(device, ran),
        "host_time": host,
        "rate": polars_columns.numbers((flop if on_host else on_device) / _positive(host if on_host else device) * 1e9),
        "peak": _common_peak(codes, groups, rates),
        "peak_share": polars_columns.numbers(total(rates.ideal) / _positive(device)),
        "intensity": polars_columns.numbers(
            flop / _positive(total(nbytes[rates.variant] if len(nbytes) else rates.flop))
        ),
    }
    every = {name: given.get(name, values.get(name, [None] * groups)) for name in _SCHEMA}
    return pl.DataFrame(every, schema=_SCHEMA)


def _positive(values: NDArray[Any]) -> Floats:
    """As divisors: NaN where there is nothing to divide by."""
    return np.where(values > 0, values, np.nan)


def _common_peak(codes: Int32s, groups: int, rates: FlopRates) -> pl.Series:
    """The peak of each group where all calls that ran on a device agree in it."""
    known = np.nan_to_num(rates.peak, nan=-1.0)
    peak = reduce_by(np.where(rates.ran, codes, -1).astype(np.int32), groups, known.astype(np.int64)).common
    return polars_columns.numbers(np.where(peak > 0, peak.astype(np.float64), np.nan))


def _possible(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[Note]]:
    """Shares of more than 1 are none: the peak or the shapes are not what was recorded."""
    shares = [pl.col(name) for name in ("peak_share", "mfu", "hfu")]
    count = frame.select(pl.any_horizontal(share > 1 for share in shares)).to_series().sum()
    frame = frame.with_columns(pl.when(share <= 1).then(share) for share in shares)
    if not count:
        return frame, []
    what = (
        "the peak is not that of this device, the shapes are not those that ran, or Winograd's algorithm needed fewer"
    )
    return frame, [Note("SHARES_LEFT_OUT", f"Shares of more than 1 are left out (rows: {count}): {what}.")]


# --- notes


def _unseen(view: Scope, rates: FlopRates, by: By) -> Iterator[Note]:
    trace, counts = view.trace, rates.counts
    missed = counts.uncounted[view.host_mask[counts.uncounted]]
    if not counts.is_product.any() and not len(missed):
        yield Note("NO_COUNTED_OPERATORS", "No operator was recorded whose operations can be counted.")
    elif _shapes_missing(trace, rates):
        yield shapes_not_recorded(trace, "nothing can be counted")
    elif len(missed):
        yield Note(
            "CALLS_WITHOUT_FLOPS",
            "Calls that have no FLOPs because their shapes, strides or lengths were not recorded: "
            f"{_most_frequent(trace, missed)}.",
        )
    if by == "module" and len(rates) and not len(modules(trace)):
        yield not_recorded("modules")
    yield from _ranges(rates)
    yield from _outside(view, rates)
    lost = ~rates.ran
    if not is_host_only(trace) and lost.any():
        share = rates.flop[lost].sum() / max(float(rates.flop.sum()), 1.0)
        yield Note(
            "FLOPS_WITHOUT_WORK",
            f"{share:.1%} of the FLOPs (calls: {int(lost.sum()):,}) are of calls that launched no device work that was "
            "recorded: they are in no rate, share, MFU or HFU.",
        )


def _ranges(rates: FlopRates) -> Iterator[Note]:
    """Of how much only the least is known."""
    costs = [each.cost for each in rates.counts.variants]
    most = rates.counts.of_calls([np.inf if each.is_least else each.flop_most for each in costs])[rates.place]
    is_range = most > 0
    if is_range.any():
        factor = most[is_range].sum() / max(float(rates.flop[is_range].sum()), 1.0)
        end = f"at most it is {factor:.1f} times as much" if np.isfinite(factor) else "of the most nothing is known"
        yield Note(
            "FLOPS_AT_LEAST",
            f"{rates.flop[is_range].sum() / max(float(rates.flop.sum()), 1.0):.1%} of the FLOPs (calls: "
            f"{int(is_range.sum()):,}) are the least that the arguments allow, as lengths, windows or wanted gradients "
            f"were not recorded; {end}.",
        )


def _most_frequent(trace: Trace, rows: Int32s) -> str:
    names = Counter(call_name(label, EventKind.HOST_OP) for label in trace.strings.labels(trace.name[rows].tolist()))
    most = sorted(names.items(), key=lambda item: (-item[1], item[0]))
    more = f" and {len(most) - _SHOWN_OPERATORS} more" if len(most) > _SHOWN_OPERATORS else ""
    return ", ".join(f"{name} ({count:,})" for name, count in most[:_SHOWN_OPERATORS]) + more


def _outside(view: Scope, rates: FlopRates) -> Iterator[Note]:
    """How much time on matrix units is of no counted call."""
    trace, work = view.trace, view.device_work
    kernels = np.flatnonzero(rates.work & work.of(WorkKind.COMPUTATION))
    kernels = kernels[kernel_units(trace)[kernels] == ON_MATRIX_UNIT]
    time = work.duration[kernels]
    call = rates.counts.call[kernels]
    lost = ~(np.append(rates.counts.is_product, np.False_)[call])
    if not lost.any():
        return
    op = work.op[kernels][lost]
    by_op: Counter[str] = Counter()
    for code in np.unique(np.where(op >= 0, trace.name[op], -1)).tolist():
        here = np.where(op >= 0, trace.name[op], -1) == code
        by_op[trace.strings.label(code) or "no recorded operator"] += int(time[lost][here].sum())
    [(most, _)] = sorted(by_op.items(), key=lambda item: (-item[1], item[0]))[:1]
    yield Note(
        "PRODUCTS_WITHOUT_FLOPS",
        f"{int(time[lost].sum()) / max(int(time.sum()), 1):.1%} of the time of kernels on matrix units has no FLOPs "
        f"({int(lost.sum()):,} of {len(kernels):,} kernels), most of it launched by {most}.",
    )


def _peaks(trace: Trace, rates: FlopRates) -> Iterator[Note]:
    if not rates.ran.any():
        return
    for number in np.unique(rates.device[rates.ran & (rates.device >= 0)]).tolist():
        yield known_peaks(trace, number).note
    on_device = rates.ran & (rates.device >= 0)
    codes = np.unique(rates.precision[on_device & np.isnan(rates.peak)]).tolist()
    without = [PRECISIONS[code] for code in codes if code >= 0]
    if without and any(known_peaks(trace, number).peak for number in np.unique(rates.device[on_device]).tolist()):
        yield Note("NO_PEAK_OF", f"No peak is known of this device in {', '.join(without)}.")
    open_ = on_device & (rates.precision < 0)
    if open_.any():
        share = rates.flop[open_].sum() / max(float(rates.flop.sum()), 1.0)
        yield Note(
            "PRECISION_UNKNOWN",
            f"Nothing tells what {share:.1%} of the FLOPs (calls: {int(open_.sum()):,}) were computed in, FP32 or TF32 "
            "or another: they have no share of the peak.",
        )
