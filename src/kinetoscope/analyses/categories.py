"""What the devices compute: GEMM, attention, convolution, and so on."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int8s, Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.algorithms.intervals.priority_sweep import charge
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.busy import no_work_note
from kinetoscope.model.execution.calls import calls
from kinetoscope.model.operators.categories import CATEGORIES, categories_of_names, work_categories
from kinetoscope.model.operators.costs import Values, grouped_as, host_costs
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import step_of, step_of_work
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Param, Schema, ShareOf

By = Literal["all", "step"]

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("step", pl.Int64, "Step in which the work was launched; null for all together, and outside of steps."),
    Column("category", pl.String, "What is computed; the docstring says what belongs to each category."),
    Column("work", pl.Int64, "Kernels, copies and sets."),
    Column("total", pl.Int64, "Sum of their durations.", "ns"),
    Column("share", pl.Float64, "Total / durations of all device work, of the step if by step.", "fraction"),
    Column("busy", pl.Int64, "Time in which such work ran on a device, each instant once.", "ns"),
    Column("per_step", pl.Int64, "Total / number of selected steps.", "ns"),
    Column("operators", pl.Int64, "Calls of operators with such names on the host."),
    Column("host_self", pl.Int64, "Duration of these calls less that of the operators directly inside them.", "ns"),
    across={
        "key": "step",
        "sum": "work total busy per_step operators host_self",
        ShareOf("total", within=("step",)): "share",
    },
)

_KEYS: Final = ("step", "category")
_DEVICE: Final = ("work", "total", "busy")
_HOST: Final = ("operators", "host_self")


def categories(
    trace: Trace,
    select: Selection,
    *,
    by: Annotated[By, Param("Rows for all that is selected, or for each step.")] = "all",
) -> Partial:
    """How much of the time is GEMM, attention, convolution, normalization, …?

    Method. Device work has the category of the operator that launched it, by words in the operator's name; where these
    say nothing, or no operator is known (graphs, compiled code), by words in the kernel's name.

    - GEMM: products of matrices and vectors, recurrent cells. attention: fused attention.
    - convolution. normalization: batch, layer, group, RMS. softmax: not that inside fused attention.
    - reduction: sums, losses, pooling, scans. elementwise: each element by itself; also random numbers, quantization.
    - embedding: tables and their updates. indexing: gather, scatter, sorting. MoE: routing and products of experts.
    - optimizer: updates of many tensors in one call (`_fused_`; `_foreach_` where an optimizer's steps were recorded,
      and else what it does to each tensor); other updates are elementwise.
    - copy: copies, casts, concatenations and fills, by kernels or the copy engine. communication: collectives.

    Host time is of operators by their own names, whatever they launch. Sorted by total, then by host_self.

    How to read it. Begin with the largest share: GEMM, attention and convolution gain from lower precision (see
    `matrix_unit` in `kernels`), elementwise, normalization and softmax from fusing (`torch.compile`), copy from fewer
    casts and transpositions. Total above busy: work of a category overlaps itself on several streams.

    Limits. Names decide. Attention that is written as products and softmax counts to these; a kernel that fuses several
    things counts to one. On the host, *other* has views, allocations and what no word tells.
    """
    view = scope(trace, select)
    notes = []
    has_device = bool(view.device_work_mask.any())
    if not has_device:
        notes.append(no_work_note(view, "the columns of device time are empty"))
    frame = _on_device(view, by).join(_on_host(view, by), on=_KEYS, how="full", coalesce=True, nulls_equal=True)
    frame = frame.with_columns(pl.col(_HOST + (_DEVICE if has_device else ())).fill_null(0))
    of = pl.col("total").sum().over("step")
    steps = 1 if by == "step" else len(view.steps)
    is_stepped = steps and view.steps.origin != "window"
    frame = frame.with_columns(
        category=pl.col("category").replace_strict(dict(enumerate(CATEGORIES)), return_dtype=pl.String),
        share=pl.when(of > 0).then(pl.col("total") / of),
        per_step=(2 * pl.col("total") + steps) // (2 * steps) if is_stepped else pl.lit(None, pl.Int64),
    )
    frame = frame.sort("step", "total", "host_self", "category", descending=[False, True, True, False], nulls_last=True)
    return Partial(frame.select(RESULT.per_rank.names), tuple(notes))


ANALYSIS = Analysis(
    "Categories",
    categories,
    RESULT,
    chart=Bars("category", "total", instead="host_self"),
    of_operators=True,
    counts_warm_up=True,
    of_sums=("busy", "per_step", "operators", "host_self"),
)


def _on_device(view: Scope, by: By) -> pl.DataFrame:
    work, chosen = view.device_work, np.flatnonzero(view.device_work_mask)
    number = _numbers(view, step_of_work(view.trace, work, view.steps)[chosen], by)
    category = work_categories(view.trace)[chosen]
    codes, first = group(category, number)
    span, device = view.clipped(work.start[chosen], work.end[chosen]), work.device[chosen]
    total, covered = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
    nowhere, own = np.full(len(first), -1, np.int32), np.arange(len(first), dtype=np.int32)
    for each in np.unique(device).tolist():
        on = device == each
        charged = charge(span.start[on], span.end[on], codes[on], nowhere, own, len(first), climb=False)
        total += charged.total
        covered += charged.covered
    numbers: Values = {"work": np.bincount(codes, minlength=len(first)), "total": total, "busy": covered}
    return _frame(category[first], number[first], numbers)


def _on_host(view: Scope, by: By) -> pl.DataFrame:
    trace = view.trace
    nested = calls(trace, EventKind.PYTHON, EventKind.RUNTIME, EventKind.ANNOTATION)
    rows = np.flatnonzero(nested.shown & view.host_mask_untimed & (trace.kind == EventKind.HOST_OP)).astype(np.int32)
    category = categories_of_names(trace, trace.name[rows])
    number = _numbers(view, step_of(view.steps.host, trace.start), by)
    groups = grouped_as(trace, nested, rows, category, number[rows])
    costs = host_costs(view, nested, groups)
    numbers: Values = {"operators": costs["calls"], "host_self": costs["host_self"]}
    return _frame(categories_of_names(trace, trace.name[groups.first]), number[groups.first], numbers)


def _numbers(view: Scope, place: Int64s, by: By) -> Int64s:
    """The numbers of steps at these places, −1 for none, and where all steps are together."""
    return np.append(view.steps.number, -1)[place] if by == "step" else np.full(len(place), -1, np.int64)


def _frame(category: Int8s, number: Int64s, numbers: Values) -> pl.DataFrame:
    """The rows of groups, of which `category` and `number`, that of the step, are those of one member."""
    keys = {"step": polars_columns.rows(number), "category": category}
    return pl.DataFrame({**keys, **numbers})
