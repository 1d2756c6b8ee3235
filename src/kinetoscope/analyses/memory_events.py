"""Each block of memory: who took it, when, and when it was given back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.trees.tree import NO_ROW
from kinetoscope.model.execution.call_tree import enclosing_frame, enclosing_module, enclosing_op
from kinetoscope.model.execution.calls import calls, names_of_calls
from kinetoscope.model.job import Job, Partial
from kinetoscope.model.memory.allocator import (
    NO_ADDRESS,
    NONE_SELECTED,
    NOT_RECORDED,
    gather_parent,
    innermost_calls,
    instants_in,
    memory_instants,
    names_of_modules,
)
from kinetoscope.model.memory.blocks import MemoryBlocks, memory_blocks
from kinetoscope.model.memory.uses import USES, block_uses
from kinetoscope.model.steps.scope import origin_of_time, scope
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.steps.steps import step_of, steps
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.recording import not_recorded
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Analysis, Column, Result, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.String, "Whose memory: cpu, or a device as torch names it, such as cuda:0."),
    Column("operator", pl.String, "Innermost operator that took it; null if it was taken in none, or earlier."),
    Column("parent", pl.String, "Operator or annotation around that operator."),
    Column("size", pl.Int64, "Bytes of the block.", "bytes"),
    Column(
        "allocated_at",
        pl.Int64,
        "When it was taken, from the first event of the trace on; null if before it.",
        "ns",
        instant=True,
    ),
    Column(
        "released_at", pl.Int64, "When it was given back, likewise; null if that was not recorded.", "ns", instant=True
    ),
    Column("duration", pl.Int64, "From the one to the other.", "ns"),
    Column("step", pl.Int64, "Number of the step in which it was taken, as in ProfilerStep#N."),
    Column("thread", pl.Int64, "Number of the thread that took it; that gave it back, if it was taken earlier."),
    Column("module", pl.String, "Innermost nn.Module whose forward took it; null without Python stacks."),
    Column("python", pl.String, "Innermost Python call that took it; null without Python stacks."),
    Column("use", pl.String, "What it was for, as in `memory_peak`; null if it was taken earlier."),
    across={"device": "device", "own": "size released_at duration step thread", "key": "allocated_at"},
)


def memory_events(job: Job, *, select: Selection = ALL) -> Result:
    """Which blocks of memory were taken, by what, and how long did they live?

    Method. Allocations and releases are paired by device and address, over the whole recording: a block ends at the
    next instant at its address. Its owner is what ran on that thread when it was taken.

    How to read it. Largest first. A block without `released_at` was still in use when the recording ended; one without
    `allocated_at` was taken before it began. `aten::empty` and its like take memory for the operator in `parent`. Large
    blocks that live long, taken in the forward pass, are activations: candidates for checkpointing.

    Limits. Blocks that were there all the time do not show. If an address is given out again without a release, the
    release was not recorded, and the block has no `released_at`. The backward pass runs on a thread of its own and has
    no modules. A selection chooses blocks by the instant at which they were taken, else given back; streams choose
    nothing, and numbers of devices choose those whose memory it is.
    """
    return job.map(_of_trace, ANALYSIS, select)


ANALYSIS = Analysis("Memory events", memory_events, RESULT, of_device_work=False)


def _of_trace(trace: Trace, select: Selection) -> Partial:
    instants, blocks = memory_instants(trace), memory_blocks(trace)
    chosen = np.flatnonzero(instants_in(scope(trace, select))[blocks.shown_at])
    shown = blocks.shown_at[chosen]
    chosen = chosen[np.lexsort((shown, -blocks.size[chosen], instants.device[shown]))]
    times, callers = _times(trace, blocks, chosen, select), _callers(trace, blocks, chosen)
    frame = pl.DataFrame({**times, **callers}).select(RESULT.names[1:])
    return Partial(frame, tuple(_notes(trace, blocks, frame, select)))


def _times(trace: Trace, blocks: MemoryBlocks, chosen: Int64s, select: Selection) -> dict[str, pl.Series]:
    instants, origin = memory_instants(trace), origin_of_time(trace)
    taken, released, shown = blocks.taken[chosen], blocks.released[chosen], blocks.shown_at[chosen]
    known, ended = taken >= 0, released >= 0
    windows = steps(trace, select.steps_by)
    step = np.where(known, step_of(windows.host, instants.time[taken]), -1)
    return {
        "device": polars_columns.labelled(instants.device[shown], instants.device_name),
        "size": polars_columns.column(blocks.size[chosen]),
        "allocated_at": polars_columns.column(instants.time[taken] - origin, known),
        "released_at": polars_columns.column(instants.time[released] - origin, ended),
        "duration": polars_columns.column(instants.time[released] - instants.time[taken], known & ended),
        "step": polars_columns.column(windows.number[step], step >= 0),
        "thread": polars_columns.rows(trace.tracks.integer_tids()[trace.track[instants.rows[shown]]]),
    }


def _callers(trace: Trace, blocks: MemoryBlocks, chosen: Int64s) -> dict[str, pl.Series]:
    taken = blocks.taken[chosen]
    row = np.where(taken >= 0, innermost_calls(trace)[taken], np.int32(NO_ROW))
    op = gather_parent(enclosing_op(trace), row)
    nested = calls(trace, EventKind.PYTHON, EventKind.RUNTIME)
    return {
        "operator": names_of_calls(trace, op),
        "parent": names_of_calls(trace, gather_parent(nested.parent, gather_parent(nested.around, op))),
        "module": names_of_modules(trace, gather_parent(enclosing_module(trace), row)),
        "python": names_of_calls(trace, gather_parent(enclosing_frame(trace), row)),
        "use": polars_columns.labelled(block_uses(trace)[chosen], lambda use: USES[use]),
    }


def _notes(trace: Trace, blocks: MemoryBlocks, frame: pl.DataFrame, select: Selection) -> Iterator[str]:
    records = len(memory_instants(trace))
    if not len(frame):
        yield NOT_RECORDED if not records else NONE_SELECTED if len(blocks) else NO_ADDRESS
        return
    if note := steps(trace, select.steps_by).note:
        yield note
    if blocks.addressless:
        yield f"{blocks.addressless:,} of {records:,} records of memory have no address and are in no row."
    if not (trace.kind == EventKind.PYTHON).any():
        yield not_recorded("Python calls", "module and python are empty")
