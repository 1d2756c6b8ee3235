"""Which operators allocated and freed memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.algorithms.trees.tree import subtree_sum
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.calls import ShownCalls, call_names, calls, names_of_calls
from kinetoscope.model.memory.allocator import (
    CALL_KINDS,
    IN_NO_CALL,
    NONE_SELECTED,
    NOT_RECORDED,
    gather_parent,
    innermost_calls,
    instants_in,
    memory_instants,
)
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.event_kinds import MEMORY_NAME, EventKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.String, "Whose memory: cpu, or a device as torch names it, such as cuda:0."),
    Column("name", pl.String, "Name of the operator or annotation; [memory]: in no call."),
    Column("kind", pl.String, "operator, annotation; memory: what was allocated or freed in no call."),
    Column("calls", pl.Int64, "How many calls began in the selection; of [memory] how many records."),
    Column("size_increase", pl.Int64, "Bytes allocated less bytes freed in the calls.", "bytes"),
    Column(
        "self_size_increase",
        pl.Int64,
        "Bytes allocated less bytes freed in the calls and in none inside them.",
        "bytes",
    ),
    Column("allocations", pl.Int64, "How often memory was allocated in the calls."),
    Column("self_allocations", pl.Int64, "How often memory was allocated in the calls and in none inside them."),
    Column("allocation_size", pl.Int64, "Bytes allocated in the calls, whatever was freed.", "bytes"),
    Column("self_allocation_size", pl.Int64, "Bytes allocated in the calls and in none inside them.", "bytes"),
    across={
        "device": "device",
        "sum": "calls size_increase self_size_increase allocations self_allocations allocation_size "
        "self_allocation_size",
    },
)

_MEASURES: Final = ("size_increase", "allocations", "allocation_size")


def memory_by_operator(trace: Trace, select: Selection) -> Partial:
    """Which operators allocate memory, and which free it?

    Method. What an allocator allocated or freed is charged to the innermost operator or annotation that ran on that
    thread at that instant (from its start on, before its end), and counts to all those around it too. The size increase
    is bytes allocated less bytes freed; the allocation size is bytes allocated. A row sums over the calls of one name,
    for each device. Calls that touched no memory have no row; memory outside all calls has one.

    How to read it. Largest self_allocation_size first: the most pressure on the allocator. A large increase is memory
    that outlives the call: activations in the forward pass, gradients in the backward pass. Self columns add up over
    rows: all self_size_increase of a device is the change of its memory. Other columns do not, as calls nest.

    Limits. Freed memory is charged to whatever runs at that instant, not to what allocated it; `memory_events` pairs
    the two. Only the calls of the allocating thread count here; `operators`, as torch's `key_averages`, charges what
    any thread did while a call ran. Streams choose nothing, and numbers of devices choose those whose memory it is.
    """
    view = scope(trace, select)
    instants = memory_instants(trace)
    chosen = instants_in(view)
    nested = calls(trace, EventKind.PYTHON, EventKind.RUNTIME)
    own = gather_parent(nested.around, innermost_calls(trace))
    rows = _rows(view, nested)
    frames = [RESULT.per_rank.empty()]
    for device in np.unique(instants.device[chosen]).tolist():
        here = np.flatnonzero(chosen & (instants.device == device))
        name = pl.lit(instants.device_name(device)).alias("device")
        for part in (
            _of_calls(trace, nested, rows, own[here], instants.size[here]),
            _outside(own[here], instants.size[here]),
        ):
            frames.append(part.select(name, pl.all()))
    return Partial(pl.concat(frames), tuple(_notes(view, len(instants), bool(chosen.any()))))


ANALYSIS = Analysis(
    "Memory by operator",
    memory_by_operator,
    RESULT,
    chart=Bars("name", "self_allocation_size"),
    of_device_work=False,
    selection_notes="never",
)


@dataclass(frozen=True)
class _Rows:
    """Calls by name and kind.

    Attributes:
        code: int32 [events], the row of each call that is shown, −1 for other events.
        first: int32 [rows], a call of each.
        calls: int64 [rows], how many of the calls are selected.
    """

    code: Int32s
    first: Int32s
    calls: Int64s


def _rows(view: Scope, nested: ShownCalls) -> _Rows:
    trace = view.trace
    shown = np.flatnonzero(nested.shown & ~nested.asynchronous).astype(np.int32)
    codes, first = group(call_names(trace)[shown], trace.kind[shown])
    code = np.full(len(trace), -1, np.int32)
    code[shown] = codes
    return _Rows(code, shown[first], np.bincount(codes[view.host_mask[shown]], minlength=len(first)))


def _of_calls(trace: Trace, nested: ShownCalls, rows: _Rows, own: Int32s, size: Int64s) -> pl.DataFrame:
    """A row for each name of calls in which memory was touched."""
    values: dict[str, Int64s] = {}
    order = call_tree(trace).order
    for name, measure in zip(_MEASURES, _measured(size), strict=True):
        own_sum = sum_by(own, len(trace), measure)
        total = subtree_sum(own_sum, nested.parent, order)
        values[f"self_{name}"] = sum_by(rows.code, len(rows.first), own_sum)
        values[name] = sum_by(rows.code, len(rows.first), total)
    kinds = [CALL_KINDS[kind] for kind in trace.kind[rows.first].tolist()]
    frame = pl.DataFrame(
        {
            "name": names_of_calls(trace, rows.first).cast(pl.String),
            "kind": pl.Series(kinds, dtype=pl.String),
            "calls": rows.calls,
            **values,
        }
    )
    order_of_rows = ["self_allocation_size", "allocation_size", "name", "kind"]
    touched = pl.any_horizontal(pl.col(name) != 0 for name in values)
    return frame.filter(touched).sort(order_of_rows, descending=[True, True, False, False]).select(RESULT.names[2:])


def _measured(size: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    return size, (size > 0).astype(np.int64), np.maximum(size, 0)


def _outside(own: Int32s, size: Int64s) -> pl.DataFrame:
    """A row for what happened in no call, if anything did."""
    alone = own < 0
    sums = {name: int(measure[alone].sum()) for name, measure in zip(_MEASURES, _measured(size), strict=True)}
    row = {"name": MEMORY_NAME, "kind": IN_NO_CALL, "calls": int(alone.sum())}
    for name, value in sums.items():
        row |= {name: value, f"self_{name}": value}
    return pl.DataFrame([row] if alone.any() else [], schema=RESULT.without("rank", "device").types)


def _notes(view: Scope, records: int, any_chosen: bool) -> Iterator[Note]:
    if view.select.steps is not None and view.steps.note:
        yield view.steps.note
    if not any_chosen:
        yield NONE_SELECTED if records else NOT_RECORDED
