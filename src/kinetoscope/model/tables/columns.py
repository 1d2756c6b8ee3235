"""The columns of the declared tables: type, unit, meaning, and the keys of each era."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from kinetoscope.model.trace.arguments import ARGUMENTS
from kinetoscope.schema import Column, DType, Unit


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a table, and the argument of the event that it is, if it is one.

    Attributes:
        column: name, type, meaning, unit.
        argument: name in ARGUMENTS; "" for a computed column or a member of the event itself.
        scale: factor from the file's number to the column's unit.
    """

    column: Column
    argument: str = ""
    scale: float = 1.0

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in the file, by era, the newest first."""
        return ARGUMENTS[self.argument] if self.argument else ()


def _plain(name: str, dtype: DType, doc: str, unit: Unit = "") -> Field:
    return Field(Column(name, dtype, doc, unit))


def _instant(name: str, doc: str) -> Field:
    return Field(Column(name, pl.Int64, doc, "ns", instant=True))


def _from(name: str, dtype: DType, doc: str, unit: Unit = "", *, argument: str = "", scale: float = 1.0) -> Field:
    return Field(Column(name, dtype, doc, unit), argument or name, scale)


_ROW = _plain("row", pl.Int32, "Place of the event in the file, from 0: its identity everywhere.")
_NAME = _plain("name", pl.String, "Name.")
_THREAD = _plain("thread", pl.Int64, "Number of the thread; on a device the number of the stream.")
_TIMES = (
    _instant("start", "First instant, as the file counts time."),
    _instant("end", "Instant after the last."),
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

EVENT_FIELDS = (
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
ARGUMENT_FIELDS = (
    _plain("row", pl.Int32, "Row of the event."),
    _plain("key", pl.String, "Name of the argument, as it stands in the file."),
    _plain("value", pl.String, "Its value as text: lists and objects as JSON; null for null."),
    _plain("number", pl.Float64, "Its value where that is a number."),
)
OP_FIELDS = (
    _ROW,
    _NAME,
    _plain("category", pl.String, "What it computes: GEMM, attention, …, by its name; other where that does not tell."),
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
KERNEL_FIELDS = (
    _ROW,
    _NAME,
    _plain("kind", pl.String, "computation, communication, memcpy or memset."),
    _plain("device", pl.Int64, "Number of the device; null where the file does not say."),
    _plain("stream", pl.Int64, "Number of the stream; null where the file does not say."),
    *_TIMES,
    _plain("launch", pl.Int32, "Row of the call that launched it; null if that was not recorded."),
    *_OP,
    _plain("annotation", pl.Int32, "Row of the innermost annotation around its launch; null for none."),
    _plain("annotation_stack", pl.List(pl.String), "Names of the annotations around its launch, outermost first."),
    _CORRELATION,
    _EXTERNAL_ID,
    _from("grid", pl.List(pl.Int64), "Blocks in x, y and z."),
    _from("block", pl.List(pl.Int64), "Threads of a block in x, y and z."),
    _from("registers", pl.Int64, "Registers per thread."),
    _from("shared_memory", pl.Int64, "Shared memory per block.", "bytes"),
    _from("blocks_per_sm", pl.Float64, "Blocks / multiprocessors of the device."),
    _from("warps_per_sm", pl.Float64, "Warps / multiprocessors of the device."),
    _from("occupancy", pl.Float64, "Estimated achieved occupancy.", "fraction", scale=0.01),
    _plain("category", pl.String, "What it computes: GEMM, attention, …, by the name of its operator, else its own."),
    _plain("matrix_unit", pl.String, "Does it use tensor or matrix cores: yes, no, unknown (by its name)."),
    _from("bytes", pl.Int64, "Bytes copied or set.", "bytes"),
    _from("bandwidth", pl.Float64, "Bytes / duration, as recorded.", "bytes/s", scale=1e9),
    _from("graph", pl.Int64, "Id of the graph that it belongs to."),
    _from("graph_node", pl.Int64, "Id of its node in that graph."),
)
LAUNCH_FIELDS = (
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
STEP_FIELDS = (
    _plain("step", pl.Int64, "Number, as in ProfilerStep#N; counted from 0 where nothing numbers them."),
    _instant("host_start", "When the host began it, as the file counts time."),
    _instant("host_end", "When the host was through with it."),
    _instant("device_start", "Later of the host's start and the device's end of the step before."),
    _instant("device_end", "Later of the host's end and the last end of what was launched in it."),
    _plain("steady", pl.Boolean, "Is it neither a step of the warm-up nor an empty last one?"),
    _plain("origin", pl.String, "What the steps rest on: profiler, annotation, engine, repetition or window."),
)
MEMORY_FIELDS = (
    _ROW,
    _THREAD,
    _instant("start", "When, as the file counts time."),
    _from("bytes", pl.Int64, "Bytes allocated, or freed if negative.", "bytes", argument="memory_bytes"),
    _from("address", pl.Int64, "Address."),
    _from("allocated", pl.Int64, "Bytes in use on the device afterwards.", "bytes"),
    _from("reserved", pl.Int64, "Bytes that the allocator has reserved afterwards.", "bytes"),
    _from("device_type", pl.Int64, "As c10 numbers them: 0 CPU, 1 CUDA or ROCm.", argument="memory_device_type"),
    _from("device", pl.Int64, "Number of the device; −1 for the host.", argument="memory_device"),
)
ANNOTATION_FIELDS = (
    _ROW,
    _NAME,
    _plain("on_device", pl.Boolean, "Is it the shadow of an annotation on a stream?"),
    _THREAD,
    *_TIMES,
    *_NESTED,
)
FRAME_FIELDS = (
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
COLLECTIVE_FIELDS = (
    _ROW,
    _NAME,
    _plain("on_device", pl.Boolean, "Is it work of a device? Else it is the call on the host."),
    _plain("kind", pl.String, "all_reduce, all_gather, …, send, recv, barrier; null where nothing tells."),
    _from("collective", pl.String, "What the collective is called in the file."),
    _from("process_group", pl.String, "Name of the process group."),
    _from("process_group_description", pl.String, "What the process group is for, in words."),
    _from("group_size", pl.Int64, "Ranks in the process group."),
    _plain("ranks", pl.List(pl.Int64), "The ranks of the process group."),
    _from("sequence", pl.Int64, "Number of the collective in its process group.", argument="collective_sequence"),
    _THREAD,
    *_TIMES,
    _from("element_type", pl.String, "Type of the elements, as c10 names it."),
    _from("elements_in", pl.Int64, "Elements that this rank puts in."),
    _from("elements_out", pl.Int64, "Elements that this rank gets out."),
    _plain(
        "bytes", pl.Int64, "Size as nccl-tests counts it: the buffer, the gathered output or the whole input.", "bytes"
    ),
    _from("source_rank", pl.Int64, "Rank that sends, of point-to-point work."),
    _from("destination_rank", pl.Int64, "Rank that receives, of point-to-point work."),
)
MODULE_FIELDS = (
    _ROW,
    _NAME,
    _plain("module", pl.String, "Class and number of the module, as in Linear_0."),
    _plain("parent", pl.Int32, "Row of the call of a module around it; null for outermost ones."),
    _plain("parent_name", pl.String, "Name of that call."),
    _plain("depth", pl.Int32, "How many calls of modules are around it."),
    _THREAD,
    *_TIMES,
)
COUNTER_FIELDS = (
    _ROW,
    _NAME,
    _plain("track", pl.Int32, "Number of the lane."),
    _plain("process", pl.String, "Process or device of the lane, as it stands in the file."),
    _instant("start", "When, as the file counts time."),
    _plain("key", pl.String, "Name of the series."),
    _plain("value", pl.Float64, "Value from then on; null where it is no finite number."),
)

_LINE = _plain("line", pl.String, "Line of the user's program that requested it, as in train.py:12; null if unknown.")
_STACK = _plain("stack", pl.String, "Frames that requested it, the outermost first, parted by semicolons.")
_DEVICE = _plain("device", pl.Int64, "Number of the device.")
_ADDRESS = _plain("address", pl.Int64, "Address.")
_STREAM = _plain("stream", pl.Int64, "Pointer of the CUDA stream; 0 for the default one.")
_POOL = _plain("pool", pl.String, "Its pool as torch names it: (0, 0) is the default one; null if the file is older.")
SEGMENT_FIELDS = (
    _plain("segment", pl.Int32, "Place of the segment in the snapshot."),
    _DEVICE,
    _ADDRESS,
    _plain("size", pl.Int64, "Bytes.", "bytes"),
    _plain("allocated", pl.Int64, "Bytes of its blocks in use.", "bytes"),
    _plain("active", pl.Int64, "The same with blocks whose free waits for another stream.", "bytes"),
    _plain("requested", pl.Int64, "Bytes requested of these; null before torch 2.1.", "bytes"),
    _STREAM,
    _plain("is_small", pl.Boolean, "Is it for requests up to 1 MiB?"),
    _plain("is_expandable", pl.Boolean, "Is it a mapped range of an expandable segment?"),
    _POOL,
    _LINE,
    _STACK,
)
BLOCK_FIELDS = (
    _plain("segment", pl.Int32, "Place of its segment in `segments`."),
    _DEVICE,
    _ADDRESS,
    _plain("size", pl.Int64, "Bytes, as rounded.", "bytes"),
    _plain("requested", pl.Int64, "Bytes requested; 0 of inactive blocks.", "bytes"),
    _plain("state", pl.String, "active_allocated, active_pending_free or inactive."),
    _LINE,
    _STACK,
)
ALLOCATION_FIELDS = (
    _DEVICE,
    _ADDRESS,
    _plain("requested", pl.Int64, "Bytes requested.", "bytes"),
    _plain("size", pl.Int64, "Bytes, as rounded.", "bytes"),
    _STREAM,
    _POOL,
    _instant(
        "allocated_at", "When it was allocated, as the trace counts time; null before the history or without times."
    ),
    _instant("free_requested_at", "When its free was requested; null if it was not, or that was not recorded."),
    _instant("freed_at", "When its free was complete; null where it was still there."),
    _plain("category", pl.String, "What it is for, as in `memory_peak`."),
    _plain("evidence", pl.String, "How that is known; null where it is unknown."),
    _LINE,
    _STACK,
)
ALLOCATOR_EVENT_FIELDS = (
    _DEVICE,
    _plain("action", pl.String, "alloc, free_requested, free_completed, segment_alloc, …, oom; null for a newer one."),
    _instant("time", "When, as the trace counts time; null before torch 2.2."),
    _plain("address", pl.Int64, "Address; of oom the bytes that were free on the device."),
    _plain("size", pl.Int64, "Bytes: as requested of allocations, of the range of segments.", "bytes"),
    _STREAM,
    _POOL,
    _plain("metadata", pl.String, "What the program said (`_set_memory_metadata`, `_annotate_tensor`)."),
    _plain("compile_context", pl.String, "The compiled region; null for none."),
    _LINE,
    _STACK,
)
