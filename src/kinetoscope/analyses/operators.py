"""How often each operator, annotation and runtime call ran, and what it cost on the host, on the device and in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.charging import charge
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.model.allocations import allocations
from kinetoscope.model.calls import (
    Calls,
    call_label,
    call_names,
    calls,
    input_dims,
    input_dims_label,
    is_outside_calls,
)
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
"""Columns by name: int64 [groups] each, or null."""

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
    Column("device_total_busy", pl.Int64, "Time in which work of device_total ran: what ran at once counts once.", "ns"),
    Column("device_self_busy", pl.Int64, "Time in which work of device_self ran: what ran at once counts once.", "ns"),
    Column("host_memory_total", pl.Int64, "Host memory taken less given back while the calls ran.", "bytes"),
    Column("host_memory_self", pl.Int64, "Of that, what was not while a call directly inside them ran.", "bytes"),
    Column("device_memory_total", pl.Int64, "Device memory taken less given back while the calls ran.", "bytes"),
    Column("device_memory_self", pl.Int64, "Of that, what was not while a call directly inside them ran.", "bytes"),
)


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

    Method. Calls nest by time on their thread, by the rule of torch's `key_averages`, and rows sum over the calls of one
    name. Total is the whole call; self leaves out the calls directly inside it that have rows. A call that is the only
    one inside a call of the same name is that call recorded twice, and counts once. Device work counts to the call in
    which it was launched and to all calls around that one; if the launch was not recorded, to the operator that its
    External id names. Memory is what the allocator took less what it gave back, on any thread, while the call ran.

    How to read it. Sorted by device_self if there is device work, else by host_self: what stands first is where the
    time is spent. The self columns of all rows sum to the whole; total columns do not, as calls nest, and a
    recursive call counts at each level. device_total much larger than device_total_busy means that streams overlap.
    A launch call has in device_total what it launched; in device_self only what was launched outside all other calls.

    Limits. Python calls have no rows unless `python=True`: their time is self time of the call around them. Work that a
    call starts on another thread is not inside it (the backward pass is not inside `backward`). A call counts where it
    begins: of one that begins before a selected range of time nothing counts, one that outlasts it is cut at its end.
    With several devices, busy time is that of each device, summed. With `python=True` equal to torch's `key_averages` on
    host activity. Operators equal the TensorBoard plugin's, except TBD.
    """
    return job.map(_of_trace, RESULT, select, group_by=group_by, python=python, runtime=runtime)


ANALYSIS = Analysis("Operators", operators, RESULT, chart=Bars("name", "host_self"))


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
    linked, device_time = _device_time(view, found, groups)
    values = {
        "calls": sum_by(groups.code, len(groups), np.ones(len(trace), np.int64)),
        **_host_time(view, found, groups),
        **device_time,
        **_memory(view, found, groups, on_device=False),
        **_memory(view, found, groups, on_device=True),
    }
    frame = pl.concat([_frame(trace, groups, values), _outside(view)], how="diagonal")
    frame = frame.sort("device_self", "host_self", "name", descending=[True, True, False], nulls_last=True)
    return Partial(frame, tuple(_notes(view, python, group_by, groups, linked)))


def _hidden(python: bool, runtime: Runtime) -> list[EventKind]:
    return ([] if python else [EventKind.PYTHON]) + ([EventKind.RUNTIME] if runtime == "include" else [])


def _grouped(view: Scope, found: Calls, *, by_shapes: bool) -> _Groups:
    trace = view.trace
    rows = np.flatnonzero(found.shown & view.host).astype(np.int32)
    keys: list[Any] = [trace.of(call_names)[rows], trace.kind[rows]]
    if by_shapes:
        keys.append(input_dims(trace, rows))
    codes, first = group(*keys)
    code = np.full(len(trace), -1, np.int32)
    code[rows] = codes
    around = np.where(found.parent >= 0, code[found.parent], np.int32(-1))
    around[found.asynchronous] = code[found.asynchronous]  # as if inside itself: nothing of it is self
    shapes = keys[2][first] if by_shapes else np.full(len(first), -1, np.int64)
    return _Groups(code, around, rows[first], shapes)


def _host_time(view: Scope, found: Calls, groups: _Groups) -> Values:
    start, end = view.clipped(view.trace.start, view.trace.end)
    return _total_and_self("host", np.maximum(end - start, 0), groups)


def _total_and_self(what: str, values: Int64s, groups: _Groups) -> Values:
    """Sums over the calls of each group, and the same less what belongs to the calls directly inside them."""
    total = sum_by(groups.code, len(groups), values)
    return {f"{what}_total": total, f"{what}_self": total - sum_by(groups.around, len(groups), values)}


def _device_time(view: Scope, found: Calls, groups: _Groups) -> tuple[Bools, Values]:
    """Which of the selected device work counts to a call, and the columns; null where none does."""
    trace, work = view.trace, view.device_work
    launched_by = np.where(work.launch >= 0, work.launch, work.op)[view.work]
    row = np.where(launched_by >= 0, found.around[launched_by], np.int32(-1))
    linked = row >= 0
    names = ("device_total", "device_self", "device_total_busy", "device_self_busy")
    if not linked.any():
        return linked, dict.fromkeys(names)
    start, end = view.clipped(work.start[view.work], work.end[view.work])
    device = work.device[view.work]
    own = _past_runtime(trace, found, row)
    result = {name: np.zeros(len(groups), np.int64) for name in names}
    for each in np.unique(device).tolist():
        on = device == each
        for what, rows, climb in (("total", row, True), ("self", own, False)):
            charged = charge(
                start[on], end[on], rows[on], found.parent, groups.code, len(groups), climb=climb
            )
            result[f"device_{what}"] += charged.total
            result[f"device_{what}_busy"] += charged.covered
    return linked, {**result}


def _past_runtime(trace: Trace, found: Calls, row: Int32s) -> Int32s:
    """The call that launches: not the call of the runtime by which it does, unless that stands alone."""
    own = row.copy()
    while True:
        runtime = (own >= 0) & (trace.kind[own] == EventKind.RUNTIME)
        if not runtime.any():
            return np.where(own >= 0, own, row)
        own[runtime] = found.parent[own[runtime]]


def _memory(view: Scope, found: Calls, groups: _Groups, *, on_device: bool) -> Values:
    trace = view.trace
    what = "device_memory" if on_device else "host_memory"
    changes = allocations(trace, on_device=on_device)
    if not len(changes):
        return {f"{what}_total": None, f"{what}_self": None}
    rows = np.flatnonzero(found.shown)
    start, end = trace.start[rows], trace.end[rows]
    if view.clip is not None:
        start, end = np.maximum(start, view.clip[0]), np.minimum(end, view.clip[1] - 1)
    values = np.zeros(len(trace), np.int64)
    values[rows] = changes.change_within(start, end)
    return _total_and_self(what, values, groups)


def _frame(trace: Trace, groups: _Groups, values: Values) -> pl.DataFrame:
    names = trace.of(call_names)[groups.first].tolist()
    shapes = [input_dims_label(trace, code) for code in groups.shapes.tolist()]
    texts = {
        "name": [call_label(trace, code) for code in names],
        "kind": [KINDS[kind] for kind in trace.kind[groups.first].tolist()],
        "input_shapes": pl.Series(shapes, dtype=pl.String),
    }
    columns = {
        name: pl.Series(np.full(len(groups), None) if column is None else column, dtype=pl.Int64)
        for name, column in values.items()
    }
    return pl.DataFrame({**texts, **columns}, schema=RESULT.without("rank").empty().schema)


def _outside(view: Scope) -> pl.DataFrame:
    """One row for the selected allocations inside no call, none if there are none."""
    schema = RESULT.without("rank").empty().schema
    row: dict[str, Any] = {"name": MEMORY_NAME, "kind": KINDS[EventKind.MEMORY], "calls": 0}
    for what, on_device in (("host", False), ("device", True)):
        changes = allocations(view.trace, on_device=on_device)
        alone = view.host[changes.rows] & is_outside_calls(view.trace, changes.time)
        row["calls"] += int(alone.sum())
        if len(changes):
            row[f"{what}_memory_total"] = row[f"{what}_memory_self"] = int(changes.size[alone].sum())
    return pl.DataFrame([row] if row["calls"] else [], schema=schema)


def _notes(view: Scope, python: bool, group_by: GroupBy, groups: _Groups, linked: Bools) -> Iterator[str]:
    trace, work = view.trace, view.device_work
    if view.select.steps is not None:
        yield from view.notes
    if not view.work.any():
        yield "No device work was recorded, or none is selected: the device columns are empty."
    elif not linked.all():
        time = work.duration[view.work]
        share = time[~linked].sum() / max(int(time.sum()), 1)
        yield (
            f"{(~linked).sum():,} of {len(linked):,} pieces of device work ({share:.1%} of device time) are in no row: "
            "the call that launched them was not recorded."
        )
    if group_by == "shapes" and (groups.shapes < 0).all():
        yield "Input shapes were not recorded: rows are by name only. record_shapes=True records them."
    if not len(trace.rows(EventKind.MEMORY)):
        yield "Memory was not recorded: its columns are empty. profile_memory=True records it."
    frames = 0 if python else int((view.host & (trace.kind == EventKind.PYTHON)).sum())
    if frames:
        yield f"{frames:,} Python calls have no rows: their time is self time of the calls around them."
