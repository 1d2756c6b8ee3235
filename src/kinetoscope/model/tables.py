"""The declared tables of a trace: what analyses, `sql`, Parquet files and the docs may see of it, column by column.

A table is computed when it is first asked for, once, and nobody may change it. Texts are Enums where they can be;
`schema.conform` makes them String, which it must before the tables of two ranks are joined.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.grouping import group, reduce_by
from kinetoscope.errors import UsageError
from kinetoscope.model import arguments, arrays
from kinetoscope.model.arguments import ARGUMENTS
from kinetoscope.model.calltree import MODULE, call_tree, enclosing_op, self_times
from kinetoscope.model.device import device_work
from kinetoscope.model.kinds import DEVICE_WORK, EventKind, WorkKind
from kinetoscope.model.matrix_units import matrix_unit
from kinetoscope.model.steps import steps
from kinetoscope.model.trace import Trace
from kinetoscope.schema import Column, Schema, Unit

Rows = NDArray[np.int32]
Values = dict[str, NDArray[Any] | pl.Series]


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a table, and the argument of the event that it is, if it is one.

    Attributes:
        column: name, type, meaning, unit.
        argument: name in ARGUMENTS; "" for what is computed or stands in the event itself.
        scale: what the file's number is multiplied by, to be in the column's unit.
    """

    column: Column
    argument: str = ""
    scale: float = 1.0

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in the file, by era, the newest first."""
        return ARGUMENTS[self.argument] if self.argument else ()


@dataclass(frozen=True, slots=True)
class Table:
    """A table: what a row is, its columns, which rows it has, and how the columns that are no arguments are found."""

    doc: str
    fields: tuple[Field, ...]
    rows: Callable[[Trace], Rows]
    derive: Callable[[Trace, Rows], Values]

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
        near = difflib.get_close_matches(name, TABLES, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"tables: {', '.join(TABLES)}"
        raise UsageError(f"there is no table {name!r}; {hint}")
    return trace.of(_build, name)


def _build(trace: Trace, name: str) -> pl.DataFrame:
    declared = TABLES[name]
    rows = declared.rows(trace)
    values = declared.derive(trace, rows)
    for field in declared.fields:
        if field.argument:
            values[field.column.name] = _argument(trace, field, rows)
    return pl.DataFrame([_typed(values[column.name], column) for column in declared.schema])


def _argument(trace: Trace, field: Field, rows: Rows) -> pl.Series:
    dtype = field.column.dtype
    if dtype == pl.Float64:
        return arrays.numbers(arguments.floats(trace, field.argument, rows) * field.scale)
    if dtype == pl.String:
        return arrays.texts(trace.strings, arguments.codes(trace, field.argument, rows))
    if dtype == pl.List(pl.Int64):
        return arrays.lists(trace.strings, arguments.codes(trace, field.argument, rows))
    values = arguments.integers(trace, field.argument, rows)
    return arrays.column(values, arguments.given(trace, field.argument, rows))


def _typed(values: NDArray[Any] | pl.Series, column: Column) -> pl.Series:
    series = values if isinstance(values, pl.Series) else arrays.column(values)
    return (series if isinstance(series.dtype, pl.Enum) else series.cast(column.dtype)).alias(column.name)


# --- what the rows are, and the columns that are computed


def _of_kind(*kinds: EventKind) -> Callable[[Trace], Rows]:
    return lambda trace: trace.rows(*kinds)


def _span(trace: Trace, rows: Rows) -> Values:
    threads = trace.tracks.integer_tids()[trace.track[rows]]
    start, end = trace.start[rows], trace.end[rows]
    return {
        "row": rows,
        "name": arrays.texts(trace.strings, trace.name[rows]),
        "thread": arrays.rows(threads),
        "start": start,
        "end": end,
        "duration": end - start,
    }


def _call(trace: Trace, rows: Rows) -> Values:
    calls = trace.of(call_tree)
    nested = {"parent": arrays.rows(calls.parent[rows]), "depth": arrays.rows(calls.depth[rows])}
    return _span(trace, rows) | nested | {"self_duration": trace.of(self_times)[rows]}


def _frame(trace: Trace, rows: Rows) -> Values:
    names = trace.name[rows]
    modules = [code for code in np.unique(names).tolist() if trace.strings.label(code).startswith(MODULE)]
    return _call(trace, rows) | {"is_module": np.isin(names, modules)}


def _annotation(trace: Trace, rows: Rows) -> Values:
    return _call(trace, rows) | {"on_device": trace.kind[rows] == EventKind.DEVICE_ANNOTATION}


def _event(trace: Trace, rows: Rows) -> Values:
    track, tracks = trace.track[rows], trace.tracks
    return _span(trace, rows) | {
        "phase": arrays.labelled(trace.ph.astype(np.int64), lambda byte: chr(byte) if byte else ""),
        "category": arrays.texts(trace.strings, trace.category),
        "kind": arrays.labelled(trace.kind, lambda kind: EventKind(kind).name.lower()),
        "track": track,
        "process": arrays.labelled(track, lambda code: str(tracks.pids[code])),
        "thread": arrays.labelled(track, lambda code: str(tracks.tids[code])),
    }


def _kernel(trace: Trace, rows: Rows) -> Values:
    work = trace.of(device_work)
    names = trace.name[work.rows]
    return {
        "row": rows,
        "name": arrays.texts(trace.strings, names),
        "kind": arrays.labelled(work.kind, lambda kind: WorkKind(kind).name.lower()),
        "device": arrays.rows(work.device),
        "stream": arrays.rows(work.stream),
        "start": work.start,
        "end": work.end,
        "duration": work.duration,
        "launch": arrays.rows(work.launch),
        "op": arrays.rows(work.op),
        "op_name": _names_of(trace, work.op),
        "matrix_unit": arrays.labelled(names, lambda code: matrix_unit(trace.strings.label(code))),
    }


def _launched(trace: Trace) -> Rows:
    launch = trace.of(device_work).launch
    return np.unique(launch[launch >= 0])


def _launch(trace: Trace, rows: Rows) -> Values:
    work = trace.of(device_work)
    linked = np.flatnonzero(work.launch >= 0)
    in_time = linked[np.argsort(work.start[linked], kind="stable")]
    codes, first = group(work.launch[in_time])  # the first row of a group is the work that started first
    order = np.argsort(work.launch[in_time[first]])
    counts = reduce_by(codes, len(first), work.start[in_time]).rows
    first_work = in_time[first[order]]
    op = trace.of(enclosing_op)[rows]
    return _span(trace, rows) | {
        "op": arrays.rows(op),
        "op_name": _names_of(trace, op),
        "work": counts[order],
        "first_work": work.rows[first_work],
        "delay": np.maximum(work.start[first_work] - trace.end[rows], 0),
    }


def _names_of(trace: Trace, rows: NDArray[np.int32]) -> pl.Series:
    return arrays.texts(trace.strings, np.where(rows >= 0, trace.name[rows], -1) if len(trace) else rows)


def _steps(trace: Trace, rows: Rows) -> Values:
    found = trace.of(steps, None)
    return {
        "step": found.number,
        "host_start": found.host.start,
        "host_end": found.host.end,
        "device_start": found.device.start,
        "device_end": found.device.end,
        "origin": pl.Series([found.origin] * len(rows), dtype=pl.String),
    }


# --- the tables


def _plain(name: str, dtype: Any, doc: str, unit: Unit = "") -> Field:
    return Field(Column(name, dtype, doc, unit))


def _from(name: str, dtype: Any, doc: str, unit: Unit = "", *, argument: str = "", scale: float = 1.0) -> Field:
    return Field(Column(name, dtype, doc, unit), argument or name, scale)


_ROW = _plain("row", pl.Int32, "Place of the event in the file, from 0: its identity everywhere.")
_NAME = _plain("name", pl.String, "Name.")
_THREAD = _plain("thread", pl.Int64, "Number of the thread; on a device the number of the stream.")
_TIMES = (
    _plain("start", pl.Int64, "First instant, as the file counts time.", "ns"),
    _plain("end", pl.Int64, "Instant after the last.", "ns"),
    _plain("duration", pl.Int64, "End less start.", "ns"),
)
_SELF = _plain("self_duration", pl.Int64, "Duration less that of the calls directly inside.", "ns")
_NESTED = (
    _plain("parent", pl.Int32, "Row of the call around it; null for outermost calls."),
    _plain("depth", pl.Int32, "How many calls are around it; null for what takes no part in the call tree."),
)
_OP = (
    _plain("op", pl.Int32, "Row of the operator that it was called for; null if unknown."),
    _plain("op_name", pl.String, "Name of that operator."),
)
_CORRELATION = _from("correlation", pl.Int64, "Id that device work has in common with the call that launched it.")
_EXTERNAL_ID = _from("external_id", pl.Int64, "Id of the operator; 2022–2023 the correlation id stands here.")

_EVENT_FIELDS = (
    _ROW,
    _plain("phase", pl.String, "Phase of the Chrome trace format: X for spans, i for instants, s and f for flows."),
    _plain("category", pl.String, "Category as it stands in the file."),
    _plain("kind", pl.String, "What the event is, whatever the era and vendor."),
    _NAME,
    _plain("track", pl.Int32, "Number of the lane."),
    _plain("process", pl.String, "Process or device of the lane, as it stands in the file."),
    _plain("thread", pl.String, "Thread or stream of the lane, as it stands in the file."),
    *_TIMES,
)
_OP_FIELDS = (
    _ROW,
    _NAME,
    _THREAD,
    *_TIMES,
    _SELF,
    *_NESTED,
    _EXTERNAL_ID,
    _from("sequence", pl.Int64, "Number that an operator has in common with its backward pass."),
    _from("forward_thread", pl.Int64, "Thread of the forward pass, as torch numbers them; 0 in the forward pass."),
    _from("input_dims", pl.String, "Shapes of the inputs, as JSON."),
    _from("input_types", pl.String, "Types of the inputs, as JSON."),
    _from("input_strides", pl.String, "Strides of the inputs, as JSON."),
    _from("concrete_inputs", pl.String, "Values of the inputs that are no tensors, as JSON."),
    _from("call_stack", pl.String, "Python stack, innermost frame first, parted by semicolons."),
)
_KERNEL_FIELDS = (
    _ROW,
    _NAME,
    _plain("kind", pl.String, "computation, communication, memcpy or memset."),
    _plain("device", pl.Int64, "Number of the device; null where the file does not say."),
    _plain("stream", pl.Int64, "Number of the stream; null where the file does not say."),
    *_TIMES,
    _plain("launch", pl.Int32, "Row of the call that launched it; null if that was not recorded."),
    *_OP,
    _CORRELATION,
    _EXTERNAL_ID,
    _from("grid", pl.List(pl.Int64), "Blocks in x, y and z."),
    _from("block", pl.List(pl.Int64), "Threads of a block in x, y and z."),
    _from("registers", pl.Int64, "Registers per thread."),
    _from("shared_memory", pl.Int64, "Shared memory per block.", "bytes"),
    _from("blocks_per_sm", pl.Float64, "Blocks / multiprocessors of the device."),
    _from("warps_per_sm", pl.Float64, "Warps / multiprocessors of the device."),
    _from("occupancy", pl.Float64, "Estimated achieved occupancy.", "fraction", scale=0.01),
    _plain("matrix_unit", pl.String, "Does it use tensor or matrix cores: yes, no, unknown (by its name)."),
    _from("bytes", pl.Int64, "Bytes copied or set.", "bytes"),
    _from("bandwidth", pl.Float64, "Bytes / duration, as recorded.", "bytes/s", scale=1e9),
    _from("graph", pl.Int64, "Id of the graph that it belongs to."),
    _from("graph_node", pl.Int64, "Id of its node in that graph."),
)
_LAUNCH_FIELDS = (
    _ROW,
    _NAME,
    _THREAD,
    *_TIMES,
    *_OP,
    _CORRELATION,
    _plain("work", pl.Int64, "Pieces of device work that it launched: more than one if it started a graph."),
    _plain("first_work", pl.Int32, "Row of the one that started first."),
    _plain("delay", pl.Int64, "From the end of the call to the start of the first work; 0 if that began before.", "ns"),
)
_STEP_FIELDS = (
    _plain("step", pl.Int64, "Number, as in ProfilerStep#N; counted from 0 where nothing numbers them."),
    _plain("host_start", pl.Int64, "When the host began it, as the file counts time.", "ns"),
    _plain("host_end", pl.Int64, "When the host was through with it.", "ns"),
    _plain("device_start", pl.Int64, "Later of the host's start and the device's end of the step before.", "ns"),
    _plain("device_end", pl.Int64, "Later of the host's end and the last end of what was launched in it.", "ns"),
    _plain("origin", pl.String, "What the steps rest on: profiler, annotation, repetition or window."),
)
_MEMORY_FIELDS = (
    _ROW,
    _THREAD,
    _plain("start", pl.Int64, "When, as the file counts time.", "ns"),
    _from("bytes", pl.Int64, "Bytes taken, or given back if negative.", "bytes", argument="memory_bytes"),
    _from("address", pl.Int64, "Address."),
    _from("allocated", pl.Int64, "Bytes in use on the device afterwards.", "bytes"),
    _from("reserved", pl.Int64, "Bytes that the allocator holds afterwards.", "bytes"),
    _from("device_type", pl.Int64, "Type of device as c10 numbers them: 0 CPU, 1 CUDA or ROCm.", argument="memory_device_type"),
    _from("device", pl.Int64, "Number of the device; −1 for the host.", argument="memory_device"),
)
_ANNOTATION_FIELDS = (
    _ROW,
    _NAME,
    _plain("on_device", pl.Boolean, "Is it the shadow of an annotation on a stream?"),
    _THREAD,
    *_TIMES,
    *_NESTED,
)
_FRAME_FIELDS = (
    _ROW,
    _NAME,
    _plain("is_module", pl.Boolean, "Is it the forward of an nn.Module?"),
    _THREAD,
    *_TIMES,
    _SELF,
    *_NESTED,
    _from("python_id", pl.Int64, "Id of the call."),
    _from("python_parent", pl.Int64, "Id of the Python call around it."),
    _from("python_module", pl.Int64, "Number of the module among those of its class."),
)

TABLES: Final[dict[str, Table]] = {
    "events": Table(
        "Everything in the file.", _EVENT_FIELDS, lambda trace: np.arange(len(trace), dtype=np.int32), _event
    ),
    "ops": Table("Operators of torch on the host.", _OP_FIELDS, _of_kind(EventKind.HOST_OP), _call),
    "kernels": Table("Kernels, copies and sets on devices.", _KERNEL_FIELDS, _of_kind(*DEVICE_WORK), _kernel),
    "launches": Table("Calls that launched device work.", _LAUNCH_FIELDS, _launched, _launch),
    "steps": Table(
        "Steps of the training loop.",
        _STEP_FIELDS,
        lambda trace: np.arange(len(trace.of(steps, None)), dtype=np.int32),
        _steps,
    ),
    "memory": Table("Instants at which memory was taken or given back.", _MEMORY_FIELDS, _of_kind(EventKind.MEMORY), _span),
    "annotations": Table(
        "Ranges that the user or a library named.",
        _ANNOTATION_FIELDS,
        _of_kind(EventKind.ANNOTATION, EventKind.DEVICE_ANNOTATION),
        _annotation,
    ),
    "frames": Table("Calls of Python functions.", _FRAME_FIELDS, _of_kind(EventKind.PYTHON), _frame),
}
"""All declared tables, by name."""
