"""Each block of memory: who allocated it, when, and when it was freed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int32s, Int64s, marked
from kinetoscope.algorithms.trees.tree import NO_ROW
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.memory.allocator import NO_ADDRESS, NONE_SELECTED, NOT_RECORDED, memory_instants
from kinetoscope.model.memory.blocks import memory_blocks
from kinetoscope.model.memory.categories import CATEGORIES
from kinetoscope.model.memory.record import MemoryRecord
from kinetoscope.model.memory_records.records import memory_records
from kinetoscope.model.snapshot.of_trace import memory_scope, snapshot_of
from kinetoscope.model.steps.scope import Scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import step_of, steps
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.recording import not_recorded
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.String, "Whose memory: cpu, or a device as torch names it, such as cuda:0."),
    Column("operator", pl.String, "Innermost operator that allocated it; null if none did, or earlier."),
    Column("parent", pl.String, "Operator or annotation around that operator."),
    Column("size", pl.Int64, "Bytes of the block.", "bytes"),
    Column(
        "allocated_at",
        pl.Int64,
        "When it was allocated, from the first event of the trace on; null if before it.",
        "ns",
        instant=True,
    ),
    Column("freed_at", pl.Int64, "When it was freed, likewise; null if that was not recorded.", "ns", instant=True),
    Column("duration", pl.Int64, "From the one to the other.", "ns"),
    Column("step", pl.Int64, "Number of the step in which it was allocated, as in ProfilerStep#N."),
    Column(
        "thread", pl.Int64, "Number of the thread that allocated it; where only its free was recorded, that freed it."
    ),
    Column("module", pl.String, "Innermost nn.Module whose forward allocated it; null without Python stacks."),
    Column("python", pl.String, "Innermost Python call that allocated it; null without Python stacks."),
    Column("use", pl.String, "What it was for, as in `memory_peak`; null if it was allocated earlier."),
    Column("source", pl.String, "snapshot, or trace: Kineto's records."),
    across={"device": "device", "own": "size freed_at duration step thread", "key": "allocated_at"},
)


def memory_events(
    trace: Trace,
    select: Selection,
    *,
    largest: Annotated[int, Param("How many blocks of a device in a snapshot, the largest; 0: all.", least=0)] = 10_000,
) -> Partial:
    """Which blocks of memory were allocated, by what, and how long did they live?

    Method. Allocations and frees are paired by device and address, over the whole recording: a block ends at the
    next instant at its address. Its owner is what ran on that thread when it was allocated. Of the devices of a memory
    snapshot the blocks are those of its history and those that were there before, of sizes as requested; `operator`,
    `module` and `python` (the line of the program) follow from the stack of the request, `use` as in `memory_peak`.

    How to read it. Largest first. A block without `freed_at` was still in use when the recording ended; one without
    `allocated_at` was allocated before it began. `aten::empty` and its like allocate memory for the operator in
    `parent`. Large blocks that live long, allocated in the forward pass, are activations: candidates for checkpointing.

    Limits. Blocks that were there all the time do not show. If an address is allocated again without a free, the
    free was not recorded, and the block has no `freed_at`. The backward pass runs on a thread of its own and has
    no modules. A selection chooses blocks by the instant at which they were allocated, else freed; streams choose
    nothing, and numbers of devices choose those whose memory it is.
    """
    view, frames, notes = memory_scope(trace, select), [RESULT.per_rank.empty()], []
    for record in memory_records(view, select.devices):
        blocks = _chosen(record, view)
        shown = blocks
        if record.source == "snapshot" and 0 < largest < len(blocks):
            shown = blocks[np.argpartition(-record.requested[blocks], largest - 1)[:largest]]
            notes.append(
                Note(
                    "LARGEST_BLOCKS",
                    f"Of {record.device} the {largest:,} largest of {len(blocks):,} blocks; --largest 0 shows all.",
                )
            )
        frames.append(_rows(record, shown[np.lexsort((_shown_at(record)[shown], -record.requested[shown]))], select))
    frame = pl.concat(frames)
    return Partial(frame, (*_notes(trace, frame, select), *notes))


ANALYSIS = Analysis("Memory events", memory_events, RESULT, of_device_work=False, selection_notes="never")


def _shown_at(record: MemoryRecord) -> Int32s:
    """The change at which each block was allocated, else freed; −1 for one that was there all the time."""
    return np.where(record.allocated_at >= 0, record.allocated_at, record.freed_at)


def _chosen(record: MemoryRecord, view: Scope) -> Int64s:
    """Blocks that are selected; all the time are those of the whole recording."""
    is_selected = marked(len(record.time) + 1, record.selected(view))
    is_selected[-1] = view.select.steps is None and view.clip is None
    return np.flatnonzero(is_selected[_shown_at(record)])


def _rows(record: MemoryRecord, blocks: Int64s, select: Selection) -> pl.DataFrame:
    begin, end = record.allocated_at[blocks], record.freed_at[blocks]
    allocated_at, freed_at = (record.instants(each).set(pl.Series(each < 0), None) for each in (begin, end))
    time = np.append(record.time, 0)
    windows = steps(record.trace, select.steps_by)
    step = np.where(begin >= 0, step_of(windows.host, time[begin]), NO_ROW)
    columns = {
        "size": polars_columns.column(record.requested[blocks]),
        "allocated_at": allocated_at,
        "freed_at": freed_at,
        "duration": freed_at - allocated_at,
        "step": polars_columns.column(windows.number[step], step >= 0),
        "use": polars_columns.labelled(record.category[blocks], CATEGORIES.__getitem__),
        **record.callers(blocks),
    }
    facts = {"device": pl.lit(record.device), "source": pl.lit(record.source)}
    return polars_columns.fitted(pl.DataFrame(columns).with_columns(**facts), RESULT.per_rank.types)


def _notes(trace: Trace, frame: pl.DataFrame, select: Selection) -> Iterator[Note]:
    records, blocks = len(memory_instants(trace)), memory_blocks(trace)
    if not len(frame):
        yield NOT_RECORDED if not records else NONE_SELECTED if len(blocks) else NO_ADDRESS
        return
    if note := steps(trace, select.steps_by).note:
        yield note
    if blocks.addressless:
        yield Note(
            "ROWS_WITHOUT_ADDRESS",
            f"{blocks.addressless:,} of {records:,} records of memory have no address and are in no row.",
        )
    if snapshot_of(trace) is None and not (trace.kind == EventKind.PYTHON).any():
        yield not_recorded("Python calls", "module and python are empty")
