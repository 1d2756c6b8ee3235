"""What each operator, annotation and runtime call cost: on the host, on the device, and in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int8s, Int32s
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.busy import no_work_note
from kinetoscope.model.execution.calls import ShownCalls, calls, is_outside_calls
from kinetoscope.model.execution.profiler_overhead import profiler_overhead
from kinetoscope.model.memory.allocator import allocations
from kinetoscope.model.operators.call_stacks import call_stacks
from kinetoscope.model.operators.categories import OTHER, categories_of_names, labels, longest, work_categories
from kinetoscope.model.operators.costs import (
    KINDS,
    CallGroups,
    GroupingKeys,
    Values,
    device_costs,
    grouped,
    host_costs,
    launched,
    memory_costs,
    texts,
)
from kinetoscope.model.operators.matrix_units import matrix_unit_costs
from kinetoscope.model.roofline.group_floors import group_floors
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.event_kinds import MEMORY_NAME, EventKind
from kinetoscope.model.trace.recording import not_recorded
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, MeanBy, Param, Schema
from kinetoscope.views.numbers import shown

GroupBy = Literal["name", "shapes", "stack"]
Runtime = Literal["separate", "include"]

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("name", pl.String, "Name of the call; all steps of the profiler are ProfilerStep*."),
    Column("kind", pl.String, "operator, annotation, runtime, python; memory: allocations inside no call."),
    Column("category", pl.String, "What it computes: GEMM, attention, … (see `categories`); null if nothing tells."),
    Column("input_shapes", pl.String, "Shape of each input; null if grouped by name, or if none was recorded."),
    Column("call_stack", pl.String, "Python calls around, outermost first; null unless grouped by stack, or if none."),
    Column("calls", pl.Int64, "How many calls began in the selection."),
    Column(
        "host_total",
        pl.Int64,
        "Time in which the calls ran on the host; one inside another of the name adds nothing.",
        "ns",
    ),
    Column("host_self", pl.Int64, "Time in which the calls ran and no call inside them.", "ns"),
    Column("device_total", pl.Int64, "Sum of the durations of the device work launched in the calls.", "ns"),
    Column(
        "device_self", pl.Int64, "Durations of the device work launched in the calls and in none inside them.", "ns"
    ),
    Column("host_mean", pl.Int64, "Host_total / calls, rounded to the nanosecond.", "ns"),
    Column("device_mean", pl.Int64, "Device_total / calls, rounded to the nanosecond.", "ns"),
    Column("matrix_eligible", pl.Boolean, "Is it, or a call inside it, a product that tensor or matrix cores compute."),
    Column("matrix_self_share", pl.Float64, "Device_self on matrix units / that of work whose name tells.", "fraction"),
    Column("matrix_total_share", pl.Float64, "The same of device_total.", "fraction"),
    Column("device_total_busy", pl.Int64, "Time in which work of device_total ran, each instant once.", "ns"),
    Column("device_self_busy", pl.Int64, "Time in which work of device_self ran, each instant once.", "ns"),
    Column("host_memory_total", pl.Int64, "Host memory taken less given back while the calls ran.", "bytes"),
    Column("host_memory_self", pl.Int64, "Host memory taken less given back while no call inside them ran.", "bytes"),
    Column("device_memory_total", pl.Int64, "Device memory taken less given back while the calls ran.", "bytes"),
    Column(
        "device_memory_self", pl.Int64, "Device memory taken less given back while no call inside them ran.", "bytes"
    ),
    Column("floor", pl.Int64, "Time of device_self at the device's peaks (see `roofline`); null if unknown.", "ns"),
    Column("efficiency", pl.Float64, "Floor / that of device_self that has one; above 1 in a cache.", "fraction"),
    Column("headroom", pl.Int64, "Of device_self, time above the floor.", "ns"),
    across={
        "sum": "calls host_total host_self device_total device_self device_total_busy device_self_busy "
        "host_memory_total host_memory_self device_memory_total device_memory_self floor headroom",
        MeanBy("calls"): "host_mean device_mean",
        MeanBy("device_self"): "matrix_self_share efficiency",
        MeanBy("device_total"): "matrix_total_share",
        "agreed": "category",
    },
)


_SCHEMA: Final = RESULT.per_rank.types


def operators(
    trace: Trace,
    select: Selection,
    *,
    group_by: Annotated[
        GroupBy,
        Param("name: a row a name; shapes: a row a name and shapes of the inputs; stack: a row a name and call stack."),
    ] = "name",
    python: Annotated[bool, Param("Rows for Python calls, where stacks were recorded.")] = False,
    runtime: Annotated[
        Runtime,
        Param(
            "separate: calls of the device's runtime have rows; include: their time is that of the call around them."
        ),
    ] = "separate",
) -> Partial:
    """Which operators cost the most: calls, time on the host and on the device, memory?

    Method. Calls nest by time on their thread; a row sums over the calls of one name. Self is the time in which a call
    runs and no call with a row that began later, so that calls which overlap only in part share no instant. A call
    directly inside a call of its name is that call, whatever stands beside it: torch calls an overload or an
    out-variant from another. Totals of a name count each instant of a thread, and each piece of device work, once, also
    where its calls lie in each other at a greater depth. Device work counts to the call in which it was launched and to
    all calls around it; if the launch was not recorded, to the operator of its External id. Memory is what the
    allocator took less what it gave back, on any thread, while the call ran. With `group_by="stack"` calls count apart
    by the Python calls around them, as the file spells them out or as recorded; `operator_stacks` shows them for one
    operator. Eligible for matrix units is, by the TensorBoard plugin's rule, a GEMM, a convolution or (not there) an
    attention by its name, what launched a kernel on matrix units, and any call with such a call inside.

    How to read it. Sorted by device_self if there is device work, else by host_self: what stands first takes the time.
    Self columns add up over rows (those of memory only if one thread has calls); total columns do not, as calls nest.
    device_total much larger than device_total_busy: streams overlap. A launch call has in device_total what it
    launched, in device_self only what was launched outside all other calls. An eligible operator with a matrix share of
    0 computes in plain FP32, or on sizes that do not fit.

    Limits. Python calls have rows only with `python=True`; else their time is self time of the call around them. Work
    that a call starts on another thread is not inside it: the backward pass is not inside `backward`. With a time
    range, times are of what lies inside it, calls of those that begin in it. Device work of several devices adds up. An
    operator recorded with the name of its overload is counted without it.
    """
    view = scope(trace, select)
    hidden = {EventKind.PYTHON: not python, EventKind.RUNTIME: runtime == "include"}
    nested = calls(trace, *(kind for kind, is_hidden in hidden.items() if is_hidden))
    stacks = call_stacks(trace, python) if group_by == "stack" else None
    details = GroupingKeys(group_by == "shapes", stacks)
    groups = grouped(view, nested, details)
    work = launched(view, nested)
    values = {
        **host_costs(view, nested, groups),
        **device_costs(view, nested, groups, work),
        **memory_costs("host_memory", view, nested, groups, allocations(trace, of_host=True)),
        **memory_costs("device_memory", view, nested, groups, allocations(trace, of_host=False)),
    }
    notes: list[Note] = []
    numbers = {name: [None] * len(groups) if column is None else column for name, column in values.items()}
    names = {**texts(trace, groups, details), "category": labels(_categories(view, groups, work.own))}
    more = {
        **_means(values),
        **matrix_unit_costs(view, nested, groups, work, values),
        **_floors(view, groups, work.own),
    }
    frame = pl.DataFrame({**names, **numbers, **more}, schema=_SCHEMA)
    notes += [*_device_notes(view, groups, work.own), *_notes(view, frame, group_by, python)]
    return Partial(_sorted(view, nested, frame), tuple(notes))


ANALYSIS = Analysis(
    "Operators",
    operators,
    RESULT,
    chart=Bars("name", "device_self", instead="host_self"),
    of_operators=True,
    counts_warm_up=True,
    of_sums=(
        "calls",
        "host_total",
        "host_self",
        "host_mean",
        "device_mean",
        "device_total_busy",
        "device_self_busy",
    ),
)


# --- rows and notes


def _categories(view: Scope, groups: CallGroups, own: Int32s) -> Int8s:
    """Of operators by their names, else by what the calls launched themselves: int8 [groups], −1 for annotations."""
    trace, work, chosen = view.trace, view.device_work, view.device_work_mask
    code = np.where(own >= 0, groups.code[own], np.int32(-1)) if len(trace) else own
    launched_itself = longest(code, len(groups), work_categories(trace)[chosen], work.duration[chosen])
    named = categories_of_names(trace, trace.name[groups.first])
    kind = trace.kind[groups.first]
    of_call = np.where((kind == EventKind.HOST_OP) & (named != OTHER), named, launched_itself)
    return np.where(kind == EventKind.ANNOTATION, -1, of_call).astype(np.int8)


def _floors(view: Scope, groups: CallGroups, own: Int32s) -> dict[str, pl.Series]:
    work, chosen = view.device_work, np.flatnonzero(view.device_work_mask)
    start, end = view.clipped(work.start[chosen], work.end[chosen])
    codes = np.where(own >= 0, groups.code[own], np.int32(-1)) if len(view.trace) else own
    return group_floors(view.trace, codes, len(groups), chosen, end - start)


def _means(values: Values) -> dict[str, pl.Series]:
    """Time of a call on the host and on the device; null for calls that began before the range."""
    frame = pl.DataFrame({name: values[name] for name in ("calls", "host_total", "device_total")})
    calls = pl.when(pl.col("calls") > 0).then(pl.col("calls"))
    means = {
        f"{what}_mean": (2 * pl.col(f"{what}_total").cast(pl.Int64) + calls) // (2 * calls)
        for what in ("host", "device")
    }
    return frame.select(**means).to_dict()


def _sorted(view: Scope, nested: ShownCalls, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows in order, those of memory outside all calls among them; without those that have nothing in the range."""
    if view.clip is not None:
        frame = frame.filter(pl.any_horizontal(pl.col(name) != 0 for name in ("calls", "host_total", "device_total")))
    frame = pl.concat([frame, _outside(view, nested)])
    order = ["device_self", "host_self", "name", "kind", "input_shapes", "call_stack"]
    return frame.sort(order, descending=[True, True, False, False, False, False], nulls_last=True)


def _outside(view: Scope, nested: ShownCalls) -> pl.DataFrame:
    """A row for the selected allocations that happened while no call ran, if there are any."""
    row: dict[str, Any] = {"name": MEMORY_NAME, "kind": KINDS[EventKind.MEMORY], "calls": 0}
    for what, of_host in (("host_memory", True), ("device_memory", False)):
        changes = allocations(view.trace, of_host=of_host)
        alone = view.host_mask[changes.rows] & is_outside_calls(view.trace, nested, changes.time)
        row["calls"] += int(alone.sum())
        if len(changes):
            row[f"{what}_total"] = row[f"{what}_self"] = int(changes.size[alone].sum())
    return pl.DataFrame([row] if row["calls"] else [], schema=_SCHEMA)


def _device_notes(view: Scope, groups: CallGroups, own: Int32s) -> Iterator[Note]:
    if not len(own):
        yield no_work_note(view, "the columns of device time are empty")
        return
    lost = (own < 0) | (groups.code[own] < 0)
    if lost.any():
        count = view.count_of_work(lost)
        yield Note(
            "WORK_WITHOUT_ROW",
            f"{count} are in no row: what launched them was not recorded, not selected, or has no row.",
        )
    alone = ~lost & (view.trace.kind[own] == EventKind.RUNTIME)
    if alone.any():
        count = view.count_of_work(alone)
        yield Note(
            "OUTSIDE_OPERATORS",
            f"{count} were launched outside all operators: they are device_self of the launch calls.",
        )


def _notes(view: Scope, frame: pl.DataFrame, group_by: GroupBy, python: bool) -> Iterator[Note]:
    trace = view.trace
    row, call = profiler_overhead(trace)
    within = row[(call >= 0) & view.host_mask[call]] if len(row) else row
    if len(within):
        time = int(np.maximum(trace.end[within] - trace.start[within], 0).sum())
        yield Note(
            "PROFILER_BUFFERS",
            f"The profiler's own buffers took {shown(time, 'ns')} of the self times of calls that they interrupted.",
        )
    if group_by == "shapes" and not frame["input_shapes"].count():
        yield not_recorded("shapes", "rows are by name only")
    if group_by == "stack" and not frame["call_stack"].count():
        yield not_recorded("call stacks", "rows are by name only")
    if not (trace.kind == EventKind.MEMORY).any():
        yield not_recorded("memory", "its columns are empty")
    frames = 0 if python else int((view.host_mask & (trace.kind == EventKind.PYTHON)).sum())
    if frames:
        yield Note(
            "PYTHON_WITHOUT_ROWS",
            f"Python calls have no rows (there are {frames:,}; python=True): the call around them has their time.",
        )
