"""What each operator, annotation and runtime call cost: on the host, on the device, and in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.charging import charge
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.model import arguments
from kinetoscope.model.allocations import Allocations, device_allocations, host_allocations
from kinetoscope.model.calls import Calls, call_name, call_names, calls, is_outside_calls, launching_calls, past_runtime
from kinetoscope.model.job import Job, Partial
from kinetoscope.model.kinds import MEMORY_NAME, EventKind
from kinetoscope.model.scope import Scope, scope
from kinetoscope.model.selection import ALL, Selection
from kinetoscope.model.trace import Trace
from kinetoscope.schema import Analysis, Bars, Column, Param, Result, Schema

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]
Values = dict[str, Int64s | None]
"""Columns by name: int64 [groups] each; None for a column of nulls."""

GroupBy = Literal["name", "shapes"]
Runtime = Literal["separate", "include"]

KINDS: Final[dict[int, str]] = {
    EventKind.HOST_OP: "operator",
    EventKind.ANNOTATION: "annotation",
    EventKind.RUNTIME: "runtime",
    EventKind.PYTHON: "python",
    EventKind.MEMORY: "memory",
}
"""What the column `kind` says of each kind of event."""

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("name", pl.String, "Name of the call; all steps of the profiler are ProfilerStep*."),
    Column("kind", pl.String, "operator, annotation, runtime, python; memory: allocations inside no call."),
    Column("input_shapes", pl.String, "Shape of each input; null if grouped by name, or if none was recorded."),
    Column("calls", pl.Int64, "How many calls began in the selection."),
    Column("host_total", pl.Int64, "Duration of the calls on the host.", "ns"),
    Column("host_self", pl.Int64, "Duration of the calls less that of the calls directly inside them.", "ns"),
    Column("device_total", pl.Int64, "Sum of the durations of the device work launched in the calls.", "ns"),
    Column("device_self", pl.Int64, "Of that, what was launched in none of the calls inside them.", "ns"),
    Column("device_total_busy", pl.Int64, "Time in which work of device_total ran, each instant once.", "ns"),
    Column("device_self_busy", pl.Int64, "Time in which work of device_self ran, each instant once.", "ns"),
    Column("host_memory_total", pl.Int64, "Host memory taken less given back while the calls ran.", "bytes"),
    Column("host_memory_self", pl.Int64, "Of that, what was not while a call directly inside them ran.", "bytes"),
    Column("device_memory_total", pl.Int64, "Device memory taken less given back while the calls ran.", "bytes"),
    Column("device_memory_self", pl.Int64, "Of that, what was not while a call directly inside them ran.", "bytes"),
)


_BLOCK: Final = 1 << 19
"""Events that are measured at once."""

_SCHEMA: Final = RESULT.without("rank").empty().schema


def operators(
    job: Job,
    *,
    select: Selection = ALL,
    group_by: Annotated[
        GroupBy, Param("name: a row a name; shapes: a row a name and shapes of the inputs.", choices=("name", "shapes"))
    ] = "name",
    python: Annotated[bool, Param("Rows for Python calls, where stacks were recorded.")] = False,
    runtime: Annotated[
        Runtime,
        Param(
            "separate: calls of the device's runtime have rows; include: their time is that of the call around them.",
            choices=("separate", "include"),
        ),
    ] = "separate",
) -> Result:
    """Which operators cost the most: calls, time on the host and on the device, memory?

    Method. Calls nest by time on their thread, by the rule of torch's `key_averages`; a row sums over the calls of one
    name. Total is the whole call; self leaves out the calls directly inside it that have rows. A call that is the only
    one inside a call of the same name is that call recorded twice, and counts once. Device work counts to the call in
    which it was launched and to all calls around that one; if the launch was not recorded, to the operator that its
    External id names. Memory is what the allocator took less what it gave back, on any thread, while the call ran.

    How to read it. Sorted by device_self if there is device work, else by host_self: what stands first is where the
    time is spent. Self columns can be added up over rows; total columns cannot, as calls nest, and a recursive call
    counts at each level. device_total much larger than device_total_busy means that streams overlap. A launch call has
    in device_total what it launched, in device_self only what was launched outside all other calls.

    Limits. Python calls have no rows unless `python=True`: their time is self time of the call around them. Work that a
    call starts on another thread is not inside it: the backward pass is not inside `backward`. With a time range, times
    are of what lies inside it, and calls those that begin in it. Device work of several devices adds up, also where
    they are busy at once. An operator that was recorded with the name of its overload is counted without it.

    With `python=True` host time and memory are those of torch's `key_averages`. Operators, by name and by shapes, are
    those of the TensorBoard plugin on the samples that it came with. On newer traces it differs: it leaves out calls
    that overlap another one partly, counts an operator again inside an overload of its own, and links launches by the
    External id, which in files of 2022 and 2023 is another number.
    """
    return job.map(_of_trace, RESULT, select, group_by=group_by, python=python, runtime=runtime)


ANALYSIS = Analysis("Operators", operators, RESULT, chart=Bars("name", "device_self", instead="host_self"))


@dataclass(frozen=True)
class _Groups:
    """Calls by what they have in common.

    Attributes:
        code: int32 [events], the group of each call that is shown and selected, −1 for all other events.
        around: int32 [events], the group of the call directly around each call that is shown, −1 for all other events.
        first: int32 [groups], the first row of each.
        shapes: int64 [groups], codes of the input shapes, −1 for none.
    """

    code: Int32s
    around: Int32s
    first: Int32s
    shapes: Int64s

    def __len__(self) -> int:
        return len(self.first)


def _of_trace(trace: Trace, select: Selection, *, group_by: GroupBy, python: bool, runtime: Runtime) -> Partial:
    view = scope(trace, select)
    found = calls(trace, *_hidden(python, runtime))
    groups = _grouped(view, found, by_shapes=group_by == "shapes")
    row = launching_calls(found, view.device_work)[view.work]
    own = past_runtime(trace, found, row)
    values = {
        **_host(view, found, groups),
        **_device_time(view, found, groups, row, own),
        **_memory("host_memory", view, found, groups, trace.of(host_allocations)),
        **_memory("device_memory", view, found, groups, trace.of(device_allocations)),
    }
    asked = (select.steps, select.threads, select.annotation)
    notes = list(view.notes) if any(each is not None for each in asked) else []
    notes += [*_device_notes(view, groups, own), *_notes(view, groups, group_by, python)]
    return Partial(_sorted(view, _frame(trace, groups, values)), tuple(notes))


def _hidden(python: bool, runtime: Runtime) -> list[EventKind]:
    return ([] if python else [EventKind.PYTHON]) + ([EventKind.RUNTIME] if runtime == "include" else [])


def _grouped(view: Scope, found: Calls, *, by_shapes: bool) -> _Groups:
    trace = view.trace
    # Of a call that only reaches into a range of time, the part inside counts, though not the call.
    rows = np.flatnonzero(found.shown & view.host_any_time).astype(np.int32)
    shapes = arguments.codes(trace, "input_dims", rows) if by_shapes else np.full(len(rows), -1, np.int64)
    codes, first = group(trace.of(call_names)[rows], trace.kind[rows], *([shapes] if by_shapes else []))
    code = np.full(len(trace), -1, np.int32)
    code[rows] = codes
    around = np.where(found.parent >= 0, code[found.parent], np.int32(-1))
    around[found.asynchronous] = code[found.asynchronous]  # as if inside itself: nothing of it is self
    return _Groups(code, around, rows[first], shapes[first])


# --- columns


def _host(view: Scope, found: Calls, groups: _Groups) -> Values:
    trace = view.trace

    def time(rows: Int32s) -> Int64s:
        start, end = view.clipped(trace.start[rows], trace.end[rows])
        return np.asarray(np.maximum(end - start, 0))

    began = groups.code[view.host & (groups.code >= 0)]
    return {"calls": np.bincount(began, minlength=len(groups)), **_total_and_self("host", found, groups, time)}


def _total_and_self(what: str, found: Calls, groups: _Groups, measure: Callable[[Int32s], Int64s]) -> Values:
    """Sums over the calls of each group, and the same less what belongs to the calls directly inside them.

    Goes by blocks, so that what is measured of calls never takes the memory of a column.
    """
    total, inside = np.zeros(len(groups), np.int64), np.zeros(len(groups), np.int64)
    for begin in range(0, len(found.shown), _BLOCK):
        rows = (np.flatnonzero(found.shown[begin : begin + _BLOCK]) + begin).astype(np.int32)
        values = measure(rows)
        total += sum_by(groups.code[rows], len(groups), values)
        inside += sum_by(groups.around[rows], len(groups), values)
    return {f"{what}_total": total, f"{what}_self": total - inside}


def _device_time(view: Scope, found: Calls, groups: _Groups, row: Int32s, own: Int32s) -> Values:
    """Columns of device time; null where no device work counts to any call."""
    names = ("device_total", "device_self", "device_total_busy", "device_self_busy")
    if not (row >= 0).any():
        return dict.fromkeys(names)
    work = view.device_work
    start, end = view.clipped(work.start[view.work], work.end[view.work])
    device = work.device[view.work]
    sums = {name: np.zeros(len(groups), np.int64) for name in names}
    for each in np.unique(device).tolist():
        on = device == each
        for what, rows, climb in (("total", row, True), ("self", own, False)):
            charged = charge(start[on], end[on], rows[on], found.parent, groups.code, len(groups), climb=climb)
            sums[f"device_{what}"] += charged.total
            sums[f"device_{what}_busy"] += charged.covered
    return {**sums}


def _memory(what: str, view: Scope, found: Calls, groups: _Groups, changes: Allocations) -> Values:
    """Columns of memory; null where nothing was recorded of it."""
    if not len(changes):
        return {f"{what}_total": None, f"{what}_self": None}
    trace = view.trace

    def change(rows: Int32s) -> Int64s:
        first, last = trace.start[rows], trace.end[rows]
        if view.clip is not None:
            first, last = np.maximum(first, view.clip[0]), np.minimum(last, view.clip[1] - 1)
        return changes.change_within(first, last)

    return _total_and_self(what, found, groups, change)


# --- rows and notes


def _frame(trace: Trace, groups: _Groups, values: Values) -> pl.DataFrame:
    names = trace.strings.labels(trace.name[groups.first].tolist())
    kinds = trace.kind[groups.first].tolist()
    shapes = [json.dumps(trace.strings.nested(code)) if code >= 0 else None for code in groups.shapes.tolist()]
    texts: dict[str, Any] = {
        "name": [call_name(name, kind) for name, kind in zip(names, kinds, strict=True)],
        "kind": [KINDS[kind] for kind in kinds],
        "input_shapes": shapes,
    }
    numbers = {name: [None] * len(groups) if column is None else column for name, column in values.items()}
    return pl.DataFrame({**texts, **numbers}, schema=_SCHEMA)


def _sorted(view: Scope, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows in order, those of memory outside all calls among them; without those that have nothing in the range."""
    if view.clip is not None:
        frame = frame.filter(pl.any_horizontal(pl.col(name) != 0 for name in ("calls", "host_total", "device_total")))
    frame = pl.concat([frame, _outside(view)])
    order = ["device_self", "host_self", "name", "kind", "input_shapes"]
    return frame.sort(order, descending=[True, True, False, False, False], nulls_last=True)


def _outside(view: Scope) -> pl.DataFrame:
    """A row for the selected allocations that happened while no call ran, if there are any."""
    row: dict[str, Any] = {"name": MEMORY_NAME, "kind": KINDS[EventKind.MEMORY], "calls": 0}
    for what, of in (("host_memory", host_allocations), ("device_memory", device_allocations)):
        changes = view.trace.of(of)
        alone = view.host[changes.rows] & is_outside_calls(view.trace, changes.time)
        row["calls"] += int(alone.sum())
        if len(changes):
            row[f"{what}_total"] = row[f"{what}_self"] = int(changes.size[alone].sum())
    return pl.DataFrame([row] if row["calls"] else [], schema=_SCHEMA)


def _device_notes(view: Scope, groups: _Groups, own: Int32s) -> Iterator[str]:
    if not len(own):
        yield "There is no device work, or none is selected: the columns of device time are empty."
        return
    work = view.device_work
    start, end = view.clipped(work.start[view.work], work.end[view.work])

    def counted(which: Bools) -> str:
        share = int((end - start)[which].sum()) / max(int((end - start).sum()), 1)
        return f"{which.sum():,} of {len(own):,} pieces of device work ({share:.1%} of device time)"

    lost = (own < 0) | (groups.code[own] < 0)
    if lost.any():
        yield f"{counted(lost)} are in no row: what launched them was not recorded, not selected, or has no row."
    alone = ~lost & (view.trace.kind[own] == EventKind.RUNTIME)
    if alone.any():
        yield f"{counted(alone)} were launched outside all operators: they are device_self of the launch calls."


def _notes(view: Scope, groups: _Groups, group_by: GroupBy, python: bool) -> Iterator[str]:
    trace = view.trace
    if group_by == "shapes" and (groups.shapes < 0).all():
        yield "Input shapes were not recorded (record_shapes=True records them): rows are by name only."
    if not (trace.kind == EventKind.MEMORY).any():
        yield "Memory was not recorded (profile_memory=True records it): its columns are empty."
    frames = 0 if python else int((view.host & (trace.kind == EventKind.PYTHON)).sum())
    if frames:
        yield f"Python calls have no rows (there are {frames:,}; python=True): the call around them has their time."
