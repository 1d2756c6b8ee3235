"""The declared tables of a trace, for `sql`, Parquet files and the docs.

Texts are Enums where they can be; `schema.conform` makes them String before the tables of two ranks are joined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.grouping import group, reduce_by
from kinetoscope.errors import UsageError, nearest
from kinetoscope.model.collectives.attributes import collective_rows, kinds, members, sizes
from kinetoscope.model.collectives.calls import collective_calls
from kinetoscope.model.device.tensor_cores import ANSWERS, kernel_units
from kinetoscope.model.execution.call_tree import call_tree, enclosing_module, enclosing_op, self_times
from kinetoscope.model.execution.calls import launching_calls
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import MODULE
from kinetoscope.model.operators.annotations import annotation_stacks, launch_stacks, named_ranges
from kinetoscope.model.operators.categories import categories_of_names, labels, work_categories
from kinetoscope.model.steps.scope import steady_places
from kinetoscope.model.steps.steps import steps
from kinetoscope.model.tables import columns, snapshot_tables
from kinetoscope.model.tables.columns import Field
from kinetoscope.model.tables.event_arguments import keys_and_values, rows_of_arguments
from kinetoscope.model.trace import arguments, polars_columns
from kinetoscope.model.trace.counters import counters
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import DEVICE_WORK, EventKind, WorkKind
from kinetoscope.model.trace.recording import has_timeline
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Schema

Rows = NDArray[np.int32]
Values = dict[str, NDArray[Any] | pl.Series]


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """A table: the meaning of a row, its columns, its rows, and a function for the columns that are no arguments.

    `stored`: it is written as a file of its own where a trace is converted to Parquet.
    """

    doc: str
    fields: tuple[Field, ...]
    rows: Callable[[Trace], Rows]
    derive: Callable[[Trace, Rows], Values]
    stored: bool = True

    @property
    def schema(self) -> Schema:
        """The columns."""
        return Schema(*(field.column for field in self.fields))


def table(trace: Trace, name: str) -> pl.DataFrame:
    """A declared table of a trace.

    Raises:
        UsageError: no table is called that.
    """
    if name not in TABLES:
        raise UsageError(f"there is no table {name!r}{nearest(name, TABLES)}; tables: {', '.join(TABLES)}")
    return _build(trace, name)


@derived
def _build(trace: Trace, name: str) -> pl.DataFrame:
    declared = TABLES[name]
    rows = declared.rows(trace)
    if not len(rows):
        return declared.schema.empty()
    values = declared.derive(trace, rows)
    for field in declared.fields:
        if field.argument:
            values[field.column.name] = _argument(trace, field, rows)
    frame = pl.DataFrame([_typed(values[column.name], column) for column in declared.schema])
    return frame if has_timeline(trace) else _without_times(frame, declared.schema)


def _without_times(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """The rows of a trace without timeline: instants are unknown, and how long calls of the host took."""
    unknown = [column.name for column in schema if column.instant]
    if "parent" in schema.names:
        unknown += [name for name in ("duration", "self_duration") if name in schema.names]
    return frame.with_columns(pl.lit(None, pl.Int64).alias(name) for name in unknown)


def _argument(trace: Trace, field: Field, rows: Rows) -> pl.Series:
    dtype = field.column.dtype
    if dtype == pl.Float64:
        return polars_columns.numbers(arguments.floats(trace, field.argument, rows) * field.scale)
    if dtype == pl.String:
        return polars_columns.texts(trace.strings, arguments.codes(trace, field.argument, rows))
    if dtype == pl.List(pl.Int64):
        return polars_columns.lists(trace.strings, arguments.codes(trace, field.argument, rows))
    values = arguments.integers(trace, field.argument, rows)
    return polars_columns.column(values, arguments.given(trace, field.argument, rows))


def _typed(values: NDArray[Any] | pl.Series, column: Column) -> pl.Series:
    series = values if isinstance(values, pl.Series) else polars_columns.column(values)
    return (series if isinstance(series.dtype, pl.Enum) else series.cast(column.dtype)).alias(column.name)


# --- rows, and columns that are computed


def _span(trace: Trace, rows: Rows) -> Values:
    threads = trace.tracks.integer_tids()[trace.track[rows]]
    start, end = trace.start[rows], trace.end[rows]
    return {
        "row": rows,
        "name": polars_columns.texts(trace.strings, trace.name[rows]),
        "thread": polars_columns.rows(threads),
        "start": start,
        "end": end,
        "duration": end - start,
    }


def _call(trace: Trace, rows: Rows) -> Values:
    calls = call_tree(trace)
    nested = {"parent": polars_columns.rows(calls.parent[rows]), "depth": polars_columns.rows(calls.depth[rows])}
    return _span(trace, rows) | nested | {"self_duration": self_times(trace)[rows]}


def _op(trace: Trace, rows: Rows) -> Values:
    return _call(trace, rows) | {"category": labels(categories_of_names(trace, trace.name[rows]))}


def _frame(trace: Trace, rows: Rows) -> Values:
    names = trace.name[rows]
    modules = [code for code in np.unique(names).tolist() if trace.strings.label(code).startswith(MODULE)]
    return _call(trace, rows) | {"is_module": np.isin(names, modules)}


def _event(trace: Trace, rows: Rows) -> Values:
    track, tracks = trace.track[rows], trace.tracks
    return _span(trace, rows) | {
        "phase": polars_columns.labelled(trace.ph[rows].astype(np.int64), lambda byte: chr(byte) if byte else ""),
        "category": polars_columns.texts(trace.strings, trace.category[rows]),
        "kind": polars_columns.labelled(trace.kind[rows], lambda kind: EventKind(kind).name.lower()),
        "track": track,
        "process": polars_columns.labelled(track, lambda code: _shown(tracks.pids[code])),
        "thread": polars_columns.labelled(track, lambda code: _shown(tracks.tids[code])),
    }


def _kernel(trace: Trace, rows: Rows) -> Values:
    work = device_work(trace)
    names = trace.name[work.rows]
    return {
        "row": rows,
        "name": polars_columns.texts(trace.strings, names),
        "kind": polars_columns.labelled(work.kind, lambda kind: WorkKind(kind).name.lower()),
        "device": polars_columns.rows(work.device),
        "stream": polars_columns.rows(work.stream),
        "start": work.start,
        "end": work.end,
        "duration": work.duration,
        "launch": polars_columns.rows(work.launch),
        "op": polars_columns.rows(work.op),
        "op_name": _names_of(trace, work.op),
        "category": labels(work_categories(trace)),
        "matrix_unit": polars_columns.labelled(kernel_units(trace), ANSWERS.__getitem__),
        **_annotations_of(trace),
    }


def _annotations_of(trace: Trace) -> Values:
    """The innermost named range around the launch of each piece of device work, and the names of all around it."""
    innermost = launching_calls(named_ranges(trace).host, device_work(trace))
    names = pl.Series([list(each) for each in annotation_stacks(trace).names], dtype=pl.List(pl.String))
    return {
        "annotation": polars_columns.rows(innermost),
        "annotation_stack": names.gather(polars_columns.rows(launch_stacks(trace)).cast(pl.UInt32)),
    }


def _launch(trace: Trace, rows: Rows) -> Values:
    work = device_work(trace)
    linked = np.flatnonzero(work.launch >= 0)
    in_time = linked[np.argsort(work.start[linked], kind="stable")]
    codes, first = group(work.launch[in_time])  # the first row of a group is the work that started first
    order = np.argsort(work.launch[in_time[first]])
    counts = reduce_by(codes, len(first), work.start[in_time]).rows
    first_work = in_time[first[order]]
    op = enclosing_op(trace)[rows]
    return _span(trace, rows) | {
        "op": polars_columns.rows(op),
        "op_name": _names_of(trace, op),
        "work": counts[order],
        "first_work": work.rows[first_work],
        "delay": np.maximum(work.start[first_work] - trace.end[rows], 0),
    }


def _names_of(trace: Trace, rows: NDArray[np.int32]) -> pl.Series:
    return polars_columns.texts(trace.strings, np.where(rows >= 0, trace.name[rows], -1) if len(trace) else rows)


def _steps(trace: Trace, rows: Rows) -> Values:
    every = steps(trace, None)
    return {
        "step": every.number,
        "host_start": every.host.start,
        "host_end": every.host.end,
        "device_start": every.device.start,
        "device_end": every.device.end,
        "steady": np.isin(rows, steady_places(trace, None)),
        "origin": pl.Series([every.origin] * len(rows), dtype=pl.String),
    }


def _collective(trace: Trace, rows: Rows) -> Values:
    kind = kinds(trace, rows)
    frame = pl.DataFrame({"row": rows.astype(np.int64), "kind": kind, "bytes": sizes(trace, rows, kind)})
    # Work without arguments has the kind and size of its call on the host.
    calls = collective_calls(trace, None).select("row", "kind", "bytes").filter(pl.col("kind") != "other")
    joined = frame.join(calls, on="row", how="left", suffix="_of_call", maintain_order="left")
    return _span(trace, rows) | {
        "on_device": np.isin(trace.kind[rows], DEVICE_WORK),
        "kind": joined.select(pl.coalesce("kind_of_call", "kind")).to_series(),
        "ranks": members(trace, rows),
        "bytes": joined.select(pl.coalesce("bytes_of_call", "bytes")).to_series(),
    }


def _module_rows(trace: Trace) -> Rows:
    return np.flatnonzero(enclosing_module(trace) == np.arange(len(trace))).astype(np.int32)


def _module(trace: Trace, rows: Rows) -> Values:
    calls, modules = call_tree(trace), enclosing_module(trace)
    around = calls.parent[rows]
    parent = np.where(around >= 0, modules[around], -1).astype(np.int32)
    depth = np.zeros(len(trace) + 1, np.int32)
    for _ in range(int(calls.depth[rows].max(initial=0)) + 1):  # as deep as modules nest
        deeper = np.where(parent >= 0, depth[parent] + 1, 0)
        if np.array_equal(deeper, depth[rows]):
            break
        depth[rows] = deeper
    return _span(trace, rows) | {
        "module": polars_columns.labelled(
            trace.name[rows], lambda code: trace.strings.label(code).removeprefix(MODULE)
        ),
        "parent": polars_columns.rows(parent),
        "parent_name": _names_of(trace, parent),
        "depth": depth[rows],
    }


def _shown(identity: Any) -> str:
    """A pid or tid as frames can hold it: halves of surrogate pairs replaced."""
    return str(identity).encode("utf-8", "replace").decode()


def _counter(trace: Trace, rows: Rows) -> Values:
    samples = counters(trace)
    track, tracks = trace.track[rows], trace.tracks
    return _span(trace, rows) | {
        "track": track,
        "process": polars_columns.labelled(track, lambda code: _shown(tracks.pids[code])),
        "key": polars_columns.texts(trace.strings, samples.key),
        "value": polars_columns.numbers(samples.value),
    }


# --- the tables

TABLES: Final[dict[str, DeclaredTable]] = {
    "events": DeclaredTable(
        "Everything in the file.", columns.EVENT_FIELDS, lambda trace: np.arange(trace.recorded, dtype=np.int32), _event
    ),
    "ops": DeclaredTable(
        "Operators of torch on the host.", columns.OP_FIELDS, lambda trace: trace.rows(EventKind.HOST_OP), _op
    ),
    "kernels": DeclaredTable(
        "Kernels, copies and sets on devices.", columns.KERNEL_FIELDS, lambda trace: trace.rows(*DEVICE_WORK), _kernel
    ),
    "launches": DeclaredTable(
        "Calls that launched device work.",
        columns.LAUNCH_FIELDS,
        lambda trace: np.setdiff1d(device_work(trace).launch, [-1]),
        _launch,
    ),
    "steps": DeclaredTable(
        "Steps of the training loop.",
        columns.STEP_FIELDS,
        lambda trace: np.arange(len(steps(trace, None)), dtype=np.int32),
        _steps,
    ),
    "memory": DeclaredTable(
        "Instants at which memory was allocated or freed.",
        columns.MEMORY_FIELDS,
        lambda trace: trace.rows(EventKind.MEMORY),
        _span,
    ),
    "annotations": DeclaredTable(
        "Ranges that the user or a library named.",
        columns.ANNOTATION_FIELDS,
        lambda trace: trace.rows(EventKind.ANNOTATION, EventKind.DEVICE_ANNOTATION),
        lambda trace, rows: _call(trace, rows) | {"on_device": trace.kind[rows] == EventKind.DEVICE_ANNOTATION},
    ),
    "frames": DeclaredTable(
        "Calls of Python functions.", columns.FRAME_FIELDS, lambda trace: trace.rows(EventKind.PYTHON), _frame
    ),
    "modules": DeclaredTable("Calls of the forward of an nn.Module.", columns.MODULE_FIELDS, _module_rows, _module),
    "collectives": DeclaredTable(
        "Collectives: the calls on the host, and the work on devices.",
        columns.COLLECTIVE_FIELDS,
        collective_rows,
        _collective,
    ),
    "counters": DeclaredTable(
        "Samples of the counters that the file holds.",
        columns.COUNTER_FIELDS,
        lambda trace: counters(trace).rows,
        _counter,
    ),
    "segments": DeclaredTable(
        "What the allocators had reserved of the devices when the memory snapshot was taken.",
        columns.SEGMENT_FIELDS,
        snapshot_tables.segment_rows,
        snapshot_tables.segments,
    ),
    "blocks": DeclaredTable(
        "The pieces of these segments, holes too.",
        columns.BLOCK_FIELDS,
        snapshot_tables.block_rows,
        snapshot_tables.blocks,
    ),
    "allocations": DeclaredTable(
        "What was requested once of an allocator, from then to its free, as the memory snapshot tells.",
        columns.ALLOCATION_FIELDS,
        snapshot_tables.allocation_rows,
        snapshot_tables.allocations,
    ),
    "allocator_events": DeclaredTable(
        "The allocators' histories in the memory snapshot.",
        columns.ALLOCATOR_EVENT_FIELDS,
        snapshot_tables.event_rows,
        snapshot_tables.events,
    ),
    "arguments": DeclaredTable(
        "Each argument of each event: the largest table.",
        columns.ARGUMENT_FIELDS,
        rows_of_arguments,
        lambda trace, rows: {**keys_and_values(trace, rows)},
        stored=False,
    ),
}
"""All declared tables, by name."""

STORED_TABLES: Final = tuple(name for name, declared in TABLES.items() if declared.stored)
