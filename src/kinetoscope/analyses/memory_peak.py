"""What was in use when the most memory was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.health.snapshots import contradictions
from kinetoscope.model.memory.allocator import NO_ADDRESS, NONE_SELECTED, NOT_RECORDED, Instants, memory_instants
from kinetoscope.model.memory.blocks import memory_blocks
from kinetoscope.model.memory.record import GroupBy, MemoryRecord, highest_in
from kinetoscope.model.memory_records.of_snapshot import SnapshotRecord
from kinetoscope.model.memory_records.records import memory_records
from kinetoscope.model.snapshot.of_trace import memory_scope, notes_of_snapshot, time_apart
from kinetoscope.model.snapshot.windows import history_not_selected
from kinetoscope.model.steps.scope import Scope, origin_of_time
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, Schema, ShareOf

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.String, "Whose memory: cpu, or a device as torch names it, such as cuda:0."),
    Column(
        "time",
        pl.Int64,
        "The instant, from the first event of the trace on: the rows hold from then on.",
        "ns",
        instant=True,
    ),
    Column("name", pl.String, "What allocated: an operator or annotation; in brackets what no call allocated."),
    Column(
        "kind",
        pl.String,
        "operator, annotation; memory: allocated in no call; before: earlier; unpaired: see limits.",
    ),
    Column("module", pl.String, "Innermost nn.Module whose forward allocated it; null without Python stacks."),
    Column("blocks", pl.Int64, "How many blocks of memory; null where that is not known."),
    Column("size", pl.Int64, "Bytes in use; the rows of a device sum to what its allocator says.", "bytes"),
    Column("share", pl.Float64, "Size / sum over the device; null where parts are negative.", "fraction"),
    Column(
        "use",
        pl.String,
        "What it is for, as the glossary says; the profiler tells activation, gradient, optimizer state and temporary.",
    ),
    Column("input_shapes", pl.String, "By shapes: those of the inputs of the operator; null if unknown."),
    Column("input_types", pl.String, "By shapes: the types of these inputs."),
    Column("modules", pl.Int64, "By class: how many modules of the class allocated it; else null."),
    Column(
        "line", pl.String, "Line of the user's program that allocated it; of several the one that most bytes share."
    ),
    Column("stack", pl.String, "By stack: the frames that allocated it, the outermost first, parted by semicolons."),
    Column(
        "repeats", pl.Int64, "From a snapshot: number of equal blocks from the same stack, mostly the number of layers."
    ),
    Column(
        "each", pl.Int64, "Bytes per repetition: of the blocks that repeat, those allocated through `line`.", "bytes"
    ),
    Column("evidence", pl.String, "From a snapshot: how the use is known, the most bytes first; see limits."),
    Column("source", pl.String, "snapshot: the allocator's own record; trace: the profiler's events."),
    across={"device": "device", "own": "time repeats each", "sum": "blocks size modules", ShareOf("size"): "share"},
)

APART: Final = Note(
    "SNAPSHOT_OF_ANOTHER_TIME",
    "The memory snapshot is of another time than the trace, or of another run: it has no instants here.",
)


def memory_peak(
    trace: Trace,
    select: Selection,
    *,
    at: Annotated[
        int | None, Param("Time to look at instead of the peak, from the beginning of the trace.", "ns", least=0)
    ] = None,
    group_by: Annotated[
        GroupBy,
        Param(
            "call: a row for each call and module; class: for each class of modules, else call; shapes: for each call,"
            " module, shapes and types of the inputs; use, module, line, stack: for each of these and use."
        ),
    ] = "call",
) -> Partial:
    """What was in use when each device had the most memory in use?

    Method. The peak is the first instant with the most memory in use, of those selected and their beginning. In use are
    the blocks allocated and not yet freed, paired by device and address, grouped by what allocated them: the innermost
    operator (of `aten::empty` and its like, the operator around it), else annotation, and the module. The allocator's
    own number less those blocks is the row `before`: allocated before the recording. So the rows of a device sum to its
    peak exactly. The use follows from the passes that allocated and freed a block: an activation is allocated outside
    the backward pass and freed during it; a gradient is allocated in the backward pass and not freed there; the
    optimizer's state likewise; unknown was allocated earlier, or elsewhere and not freed; the rest is temporary.

    Where the rank has a memory snapshot, it answers for its devices: sizes are bytes as requested, the peak is the most
    of them, and what was there before its history is known too, block by block. What allocated a block is the outermost
    operator of its stack, else the line of the user's program; a module is named by the line that calls it, or by the
    trace of the same run, where that recorded the same block. The use is a category, known by the stack (of optimizers,
    constructors, collectives, workspaces), by an annotation, by the pool (of a CUDA graph), or by the lifetime: a
    gradient outlives the backward pass that allocated it; an activation lives until a backward pass; anything else is
    temporary.
    Of what was there before the history, as many blocks as there are gradients of their size are parameters, further
    ones the optimizer's state (size). `line` is the innermost line of
    user code on the stack of at least 80 % of the bytes.

    How to read it. Activations stand under operators such as `aten::addmm` with a module, gradients under those of the
    backward pass; weights and the optimizer's state are mostly `before`. With `at`, it is any other instant: the floor
    between two steps, say. By use, `repeats` × `each` reads as layers × bytes of each: `repeats` is the number of equal
    blocks from the same stack, usually the number of layers; `each` counts the stacks and sizes that half as many
    blocks have, or more, and `line` is then on the stack of 95 % of these bytes. By stack, the rows are those of a
    flame graph.

    Limits. Records without an address (old files) cannot be paired: their changes are one row, `unpaired`. If the file
    does not say how much was in use, it is counted from 0 at the beginning of the recording, and `before` is negative
    if more of what was there was freed. Reserved memory, and memory allocated past torch's allocators, do not count.
    Streams choose nothing, and numbers of devices choose those whose memory it is. A snapshot's stacks have neither
    classes nor shapes: by class is by module there, by shapes by call. Blocks of which neither stack nor lifetime nor
    size tells what they are for are `unknown`.
    """
    view, records = memory_scope(trace, select), []
    frames, notes = [RESULT.per_rank.empty()], list(_snapshot_notes(trace))
    for record in memory_records(view, select.devices):
        chosen = record.selected(view)
        if not len(chosen) and (at is None or record.source == "trace") and len(record.time):
            if record.source == "snapshot":
                notes.append(history_not_selected(str(record.device)))
            continue
        place, time = _instant(record, view, chosen, at)
        frames.append(_placed(record.owners(place, group_by), str(record.device), time, record.source))
        records.append(record.source)
        notes += _device_notes(trace, record, len(frames[-1]))
    if "trace" in records or not records:
        notes = [*_notes(view, memory_instants(trace), "trace" in records), *notes]
    return Partial(pl.concat(frames), tuple(notes))


ANALYSIS = Analysis(
    "Memory at its peak", memory_peak, RESULT, chart=Bars("name", "size"), of_device_work=False, selection_notes="never"
)


def _instant(record: MemoryRecord, view: Scope, chosen: Int64s, at: int | None) -> tuple[int, int | None]:
    """The change after which most is in use, or that is the last up to a time (−1 is before all), and its time."""
    origin = origin_of_time(view.trace)
    if at is not None:
        place = int(np.searchsorted(record.time, origin + at, side="right")) - 1
    else:
        place = highest_in(record.in_use, chosen)
    is_timed = not len(record.time) or record.instants(np.array([place], np.int64)).null_count() == 0
    if at is not None or not is_timed:
        return place, at if is_timed else None
    first = view.clip[0] if view.clip else origin
    return place, max(int(record.time[place]) if place >= 0 else origin, first) - origin


def _placed(frame: pl.DataFrame, device: str, time: int | None, source: str) -> pl.DataFrame:
    """With the device, the instant, the shares and the source, in the order of the result."""
    facts = {"device": pl.lit(device), "time": pl.lit(time), "source": pl.lit(source)}
    facts |= {name: pl.lit(None) for name in RESULT.names[1:] if name not in frame.columns and name not in facts}
    placed = frame.with_columns(**facts)
    return _shared(placed).select(pl.col(column.name).cast(column.dtype) for column in RESULT.per_rank)


def _snapshot_notes(trace: Trace) -> Iterator[Note]:
    yield from notes_of_snapshot(trace)
    if time_apart(trace):
        yield APART


def _device_notes(trace: Trace, record: MemoryRecord, rows: int) -> Iterator[Note]:
    if isinstance(record, SnapshotRecord):
        yield from contradictions(trace, record.past)
        if record.past.is_truncated:
            events = len(record.time)
            yield Note(
                "HISTORY_TRUNCATED",
                f"The history of {record.device} is truncated: its ring of {events:,} entries was full.",
            )
    elif not rows:
        yield Note("NOTHING_IN_USE", f"Nothing was in use on {record.device}.")


def _shared(frame: pl.DataFrame) -> pl.DataFrame:
    """With the share of each row, the largest first."""
    size = pl.col("size").cast(pl.Float64)
    share = pl.when(size.min() > 0).then(size / size.sum())
    order = ["size", "name", "kind", "module", "use", "input_shapes", "input_types"]
    return frame.with_columns(share=share).sort(order, descending=[True, *[False] * 6], nulls_last=True)


def _notes(view: Scope, instants: Instants, any_chosen: bool) -> Iterator[Note]:
    if view.select.steps is not None and view.steps.note:
        yield view.steps.note
    if not any_chosen:
        yield NONE_SELECTED if len(instants) else NOT_RECORDED
        return
    yield from instants.notes()
    blocks = memory_blocks(view.trace)
    if not len(blocks):
        yield NO_ADDRESS
    elif blocks.addressless:
        yield Note(
            "RECORDS_WITHOUT_ADDRESS",
            f"{blocks.addressless:,} of {len(instants):,} records of memory have no address and cannot be paired.",
        )
