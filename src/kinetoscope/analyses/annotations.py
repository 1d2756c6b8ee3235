"""What happens in the ranges that users and libraries name, on the host and on the device."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.grouping import sum_by
from kinetoscope.algorithms.intervals.intervals import length
from kinetoscope.algorithms.intervals.priority_sweep import charge
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.busy import no_work_note
from kinetoscope.model.execution.calls import launching_calls
from kinetoscope.model.operators.annotations import Annotations, named_ranges, shadowed
from kinetoscope.model.operators.costs import CallGroups, Launched, device_costs, groups_of, host_costs
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, MeanBy, Param, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("name", pl.String, "Name of the range; all steps of the profiler are ProfilerStep*."),
    Column("calls", pl.Int64, "How many such ranges began on the host in the selection."),
    Column("host_total", pl.Int64, "Duration of the ranges on the host.", "ns"),
    Column("host_self", pl.Int64, "Duration of the ranges less that of the ranges directly inside them.", "ns"),
    Column("device_calls", pl.Int64, "How many shadows of the ranges began on streams; null if none were recorded."),
    Column("device_span", pl.Int64, "Sum of the durations of the shadows, gaps between kernels included.", "ns"),
    Column("work", pl.Int64, "Pieces of device work in the ranges."),
    Column("work_self", pl.Int64, "Of those, what is in none of the ranges inside them."),
    Column("device_total", pl.Int64, "Sum of the durations of that device work.", "ns"),
    Column("device_self", pl.Int64, "Device time in the ranges and in none of the ranges inside them.", "ns"),
    Column("device_total_busy", pl.Int64, "Time in which work of device_total ran, each instant once.", "ns"),
    Column("device_self_busy", pl.Int64, "Time in which work of device_self ran, each instant once.", "ns"),
    Column("host_mean", pl.Int64, "Mean duration of a range, rounded to the nanosecond.", "ns"),
    Column("host_min", pl.Int64, "Shortest range.", "ns"),
    Column("host_max", pl.Int64, "Longest range.", "ns"),
    Column("device_span_mean", pl.Int64, "Mean duration of a shadow, rounded to the nanosecond.", "ns"),
    Column("device_span_min", pl.Int64, "Shortest shadow.", "ns"),
    Column("device_span_max", pl.Int64, "Longest shadow.", "ns"),
    across={
        "sum": "calls host_total host_self device_calls device_span work work_self device_total device_self "
        "device_total_busy device_self_busy",
        MeanBy("calls"): "host_mean",
        "least": "host_min device_span_min",
        "greatest": "host_max device_span_max",
        MeanBy("device_calls"): "device_span_mean",
    },
)

By = Literal["launch", "stream"]


def annotations(
    trace: Trace,
    select: Selection,
    *,
    by: Annotated[
        By,
        Param(
            "launch: device work launched in a range; stream: work that starts in the shadow of a range on its stream."
        ),
    ] = "launch",
) -> Partial:
    """How much time do the ranges take that the code names, on the host, and with the device work launched in them?

    Method. Ranges are annotations: `record_function`, the profiler's steps, names given by optimizers, loaders, DDP and
    collectives. A row sums over the ranges of one name; self leaves out the ranges directly inside. Device work belongs
    to all ranges around its launch (total) and to the innermost of them (self). A range has a shadow on each stream
    that it launched work to, from the first to the last of that work (device_span). With `by="stream"` work belongs to
    the shadows that run on its stream when it starts; the innermost is the one that began last.

    How to read it. Sorted by device_total, then by host_total. A device_span far above device_total has gaps: the host
    launched too slowly, or waited. Self columns add up over rows; total columns do not, as ranges nest.

    Limits. Work that a range has another thread launch is not inside it: the backward pass is not inside `backward` on
    the host. `by="stream"` also counts work of other ranges in between. Annotations of gloo's collectives end on
    another thread than they begin on, so nothing is inside them. Files of 2021 hold ranges as operators: those of the
    profiler, loaders, optimizers and DDP are recognised by name. With a time range, totals are of the time inside it;
    calls, means and extremes of the ranges that begin in it.
    """
    view, ranges = scope(trace, select), named_ranges(trace)
    notes: list[Note] = []
    if not ranges.names:
        notes.append(
            Note(
                "NO_ANNOTATIONS",
                "No annotations were recorded (`with torch.profiler.record_function(name):` makes one).",
            )
        )
        return Partial(pl.DataFrame(schema=_SCHEMA), tuple(notes))
    shadows = _selected(view, ranges)
    began = np.flatnonzero(ranges.host.shown & view.host_mask)
    costs = host_costs(view, ranges.host, _groups(view, ranges))
    host = _statistics("host", view.trace, ranges, began)
    values: Values = {**costs, **host, **_device_spans(view, ranges, shadows)}
    if not view.device_work_mask.any():
        notes.append(no_work_note(view, "the columns of device work are empty"))
    elif by == "launch":
        row = launching_calls(ranges.host, view.device_work)[view.device_work_mask]
        values |= _launched(view, ranges, row)
        notes += _outside(view, row < 0)
    elif len(ranges.shadows):
        values |= _under_shadows(view, ranges, shadows)
    else:
        notes.append(Note("NO_SHADOWS", "Annotations have no shadows on streams in this file: see by=launch."))
    return Partial(_frame(ranges, values), tuple(notes))


ANALYSIS = Analysis(
    "Annotations", annotations, RESULT, chart=Bars("name", "device_total", instead="host_total"), of_operators=True
)

_WORK: Final = ("work", "work_self", "device_total", "device_self", "device_total_busy", "device_self_busy")
_SCHEMA: Final = RESULT.per_rank.types

Values = dict[str, pl.Series | Int64s | None]


def _frame(ranges: Annotations, values: Values) -> pl.DataFrame:
    nothing = [None] * len(ranges.names)
    columns = {name: ranges.names if name == "name" else values.get(name) for name in _SCHEMA}
    frame = pl.DataFrame({name: nothing if each is None else each for name, each in columns.items()}, schema=_SCHEMA)
    occurs = pl.any_horizontal(pl.col("calls", "host_total", "device_calls", "device_span", "work").fill_null(0) != 0)
    order = ["device_total", "host_total", "name"]
    return frame.filter(occurs).sort(order, descending=[True, True, False], nulls_last=True)


# --- the ranges


def _groups(view: Scope, ranges: Annotations) -> CallGroups:
    chosen = ranges.host.shown & view.host_mask_untimed
    code = np.where(chosen, ranges.code, np.int32(-1))
    return groups_of(view.trace, ranges.host, code, np.zeros(len(ranges.names), np.int32))


def _device_spans(view: Scope, ranges: Annotations, shadows: Bools) -> Values:
    """Of the shadows selected; null columns where the file has none."""
    if not len(ranges.shadows):
        return {}
    trace, rows = view.trace, ranges.shadows[shadows]
    start, end = view.clipped(trace.start[rows], trace.end[rows])
    began = rows[view.begins(trace.start[rows])]
    return {
        "device_calls": np.bincount(ranges.code[began], minlength=len(ranges.names)),
        "device_span": sum_by(ranges.code[rows], len(ranges.names), np.maximum(end - start, 0)),
        **_statistics("device_span", trace, ranges, began),
    }


def _statistics(what: str, trace: Trace, ranges: Annotations, rows: NDArray[np.signedinteger]) -> Values:
    """Mean, least and greatest duration of the ranges of each name; null where there are none."""
    duration = np.maximum(trace.end[rows] - trace.start[rows], 0)
    parts = polars_columns.statistics(ranges.code[rows], len(ranges.names), duration, "mean", "min", "max")
    return {f"{what}_{part}": numbers for part, numbers in parts.items()}


def _selected(view: Scope, ranges: Annotations) -> Bools:
    """Which shadows are selected: those of selected ranges; where that is not known those that start in a step."""
    by = np.where(ranges.original >= 0, ranges.original, ranges.shadows)
    chosen = view.host_mask_untimed[by]
    track = view.trace.track[ranges.shadows]
    if view.select.devices is not None:
        chosen &= np.isin(view.trace.tracks.integer_pids()[track], view.select.devices)
    if view.select.streams is not None:
        chosen &= np.isin(view.trace.tracks.integer_tids()[track], view.select.streams)
    return chosen


# --- the device work in them


def _launched(view: Scope, ranges: Annotations, row: Int32s) -> Values:
    """By the innermost range around each launch, −1 for none: int32 [selected work]."""
    groups = _groups(view, ranges)
    each = np.arange(len(row), dtype=np.int64)  # an instant of its own for each piece of work: what is covered, counts

    def count(climb: bool) -> Int64s:
        return charge(each, each + 1, row, ranges.host.parent, groups.code, len(groups), climb=climb).covered

    costs = device_costs(view, ranges.host, groups, Launched(row, row))
    zeros = np.zeros(len(groups), np.int64)
    times = {name: zeros if column is None else column for name, column in costs.items()}
    return {"work": count(True), "work_self": count(False), **times}


def _outside(view: Scope, outside: Bools) -> Iterator[Note]:
    if outside.any():
        count = view.count_of_work(outside)
        yield Note(
            "OUTSIDE_RANGES",
            f"{count} are in no range: launched outside all of them, or by a call that was not recorded.",
        )


def _under_shadows(view: Scope, ranges: Annotations, shadows: Bools) -> Values:
    inside = shadowed(view.trace, ranges, shadows)
    own = np.flatnonzero(inside.innermost >= 0)
    total = _of_work(view, ranges, inside.work, inside.code)
    alone = _of_work(view, ranges, own, inside.innermost[own])
    return dict(zip(_WORK, (part for pair in zip(total, alone, strict=True) for part in pair), strict=True))


def _of_work(view: Scope, ranges: Annotations, work: Int64s, code: Int32s) -> tuple[Int64s, Int64s, Int64s]:
    """Count, sum and union of the selected work of each name."""
    chosen = view.device_work_mask[work]
    work, code = work[chosen], code[chosen]
    every, names = view.device_work, len(ranges.names)
    start, end = view.clipped(every.start[work], every.end[work])
    busy = np.zeros(names, np.int64)
    order = np.lexsort((every.device[work], code))
    edges = np.flatnonzero(np.diff(code[order], prepend=-1) | np.diff(every.device[work][order], prepend=-1))
    for first, last in pairwise([*edges.tolist(), len(order)]):
        some = order[first:last]
        busy[code[some[0]]] += length(start[some], end[some])
    return np.bincount(code, minlength=names), sum_by(code, names, end - start), busy
