"""Each block of memory: who allocated it, when, and when it was freed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.trees.tree import NO_ROW
from kinetoscope.errors import UsageError
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.execution.call_tree import enclosing_frame, enclosing_module, enclosing_op
from kinetoscope.model.execution.calls import calls, names_of_calls
from kinetoscope.model.job import Job, Partial
from kinetoscope.model.memory.allocator import (
    CUDA,
    NO_ADDRESS,
    NONE_SELECTED,
    NOT_RECORDED,
    device_name,
    gather_parent,
    innermost_calls,
    instants_in,
    memory_instants,
    names_of_modules,
)
from kinetoscope.model.memory.blocks import MemoryBlocks, memory_blocks
from kinetoscope.model.memory.uses import USES, block_uses
from kinetoscope.model.snapshot.of_trace import events_in, memory_scope, snapshot_of
from kinetoscope.model.snapshot.owners import CATEGORIES, owners
from kinetoscope.model.snapshot.replay import history
from kinetoscope.model.snapshot.sites import stack_sites
from kinetoscope.model.snapshot.snapshot import NONE
from kinetoscope.model.steps.scope import Scope, origin_of_time
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.steps.steps import step_of, steps
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.recording import not_recorded
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Param, Result, Schema

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
    job: Job,
    *,
    select: Selection = ALL,
    largest: Annotated[int, Param("How many blocks of a device in a snapshot, the largest; 0: all.")] = 10_000,
) -> Result:
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
    if largest < 0:
        raise UsageError(f"largest is {largest}; give a number of blocks, or 0 for all")
    return job.map(_of_trace, ANALYSIS, select, largest=largest)


ANALYSIS = Analysis("Memory events", memory_events, RESULT, of_device_work=False)


def _of_trace(trace: Trace, select: Selection, *, largest: int = 10_000) -> Partial:
    instants, blocks = memory_instants(trace), memory_blocks(trace)
    view, snapshot = memory_scope(trace, select), snapshot_of(trace)
    chosen = np.flatnonzero(instants_in(view)[blocks.shown_at])
    if snapshot is not None:  # of its devices it has all, and exactly
        chosen = chosen[~instants.of_devices(CUDA, snapshot.devices)[instants.device[blocks.shown_at[chosen]]]]
    shown = blocks.shown_at[chosen]
    chosen = chosen[np.lexsort((shown, -blocks.size[chosen], instants.device[shown]))]
    times, callers = _times(trace, blocks, chosen, select), _callers(trace, blocks, chosen)
    frames = [_fitted(pl.DataFrame({**times, **callers}).with_columns(source=pl.lit("trace")))]
    notes: list[str] = []
    for device in snapshot.devices if snapshot is not None else ():
        if select.devices is None or device in select.devices:
            frame, count = _of_snapshot(view, device, largest)
            frames.append(frame)
            if count > len(frame):
                name = device_name(CUDA, device)
                notes.append(f"Of {name} the {len(frame):,} largest of {count:,} blocks; --largest 0 shows all.")
    frame = pl.concat(frames)
    return Partial(frame, (*_notes(trace, blocks, frame, select, snapshot is not None), *notes))


def _fitted(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(pl.col(name).cast(kind) for name, kind in RESULT.per_rank.types.items())


def _of_snapshot(view: Scope, device: int, largest: int) -> tuple[pl.DataFrame, int]:
    """The blocks of a device of a snapshot, the largest first, and how many there are."""
    trace, past = view.trace, history(view.trace, device)
    sites, categories = stack_sites(trace), owners(trace, device)
    assert past is not None  # the snapshot has the device
    assert sites is not None
    assert categories is not None
    event = np.where(past.allocated_at != NONE, past.allocated_at, past.freed_at)
    whole = view.select.steps is None and view.clip is None
    is_chosen = np.ones(len(past), np.bool_) if whole else event != NONE
    if not whole:
        is_chosen[is_chosen] = events_in(view, past.events.time - trace.base)[event[is_chosen]]
    rows = np.flatnonzero(is_chosen)
    count = len(rows)
    if largest and count > largest:
        rows = rows[np.argpartition(-past.requested[rows], largest - 1)[:largest]]
    rows = rows[np.lexsort((event[rows], -past.requested[rows]))]
    known, ended = past.allocated_at[rows] != NONE, past.freed_at[rows] != NONE
    times = past.events.time if len(past.events) else np.full(1, NONE, np.int64)
    begin, end = (times[np.maximum(each[rows], 0)] - trace.base for each in (past.allocated_at, past.freed_at))
    windows = steps(trace, view.select.steps_by)
    step = np.where(known, step_of(windows.host, begin), NONE)
    stack = past.stack[rows]

    def told(text: Callable[[int], str]) -> pl.Series:
        return polars_columns.labelled(stack, text).cast(pl.String).replace("", None)

    origin, has_times = origin_of_time(trace), bool((past.events.time != NONE).all())
    columns = {
        "operator": told(lambda each: sites.operator_of(int(sites.operator[each]))),
        "size": polars_columns.column(past.requested[rows]),
        "allocated_at": polars_columns.column(begin - origin, known & has_times),
        "freed_at": polars_columns.column(end - origin, ended & has_times),
        "duration": polars_columns.column(end - begin, known & ended & has_times),
        "step": polars_columns.column(windows.number[step], step >= 0),
        "module": told(lambda each: sites.line_of(int(sites.module[each]))),
        "python": told(sites.line),
        "use": polars_columns.labelled(categories.category[rows], CATEGORIES.__getitem__),
    }
    none = {name: pl.lit(None) for name in ("parent", "thread")}
    facts = {"device": pl.lit(device_name(CUDA, device)), "source": pl.lit("snapshot"), **none}
    return _fitted(pl.DataFrame(columns).with_columns(**facts)), count


def _times(trace: Trace, blocks: MemoryBlocks, chosen: Int64s, select: Selection) -> dict[str, pl.Series]:
    instants, origin = memory_instants(trace), origin_of_time(trace)
    allocated_at, freed_at, shown = blocks.allocated_at[chosen], blocks.freed_at[chosen], blocks.shown_at[chosen]
    known, ended = allocated_at >= 0, freed_at >= 0
    windows = steps(trace, select.steps_by)
    step = np.where(known, step_of(windows.host, instants.time[allocated_at]), -1)
    return {
        "device": polars_columns.labelled(instants.device[shown], instants.device_name),
        "size": polars_columns.column(blocks.size[chosen]),
        "allocated_at": polars_columns.column(instants.time[allocated_at] - origin, known),
        "freed_at": polars_columns.column(instants.time[freed_at] - origin, ended),
        "duration": polars_columns.column(instants.time[freed_at] - instants.time[allocated_at], known & ended),
        "step": polars_columns.column(windows.number[step], step >= 0),
        "thread": polars_columns.rows(trace.tracks.integer_tids()[trace.track[instants.rows[shown]]]),
    }


def _callers(trace: Trace, blocks: MemoryBlocks, chosen: Int64s) -> dict[str, pl.Series]:
    allocated_at = blocks.allocated_at[chosen]
    row = np.where(allocated_at >= 0, innermost_calls(trace)[allocated_at], np.int32(NO_ROW))
    op = gather_parent(enclosing_op(trace), row)
    nested = calls(trace, EventKind.PYTHON, EventKind.RUNTIME)
    return {
        "operator": names_of_calls(trace, op),
        "parent": names_of_calls(trace, gather_parent(nested.parent, gather_parent(nested.around, op))),
        "module": names_of_modules(trace, gather_parent(enclosing_module(trace), row)),
        "python": names_of_calls(trace, gather_parent(enclosing_frame(trace), row)),
        "use": polars_columns.labelled(block_uses(trace)[chosen], lambda use: USES[use]),
    }


def _notes(
    trace: Trace, blocks: MemoryBlocks, frame: pl.DataFrame, select: Selection, has_snapshot: bool
) -> Iterator[str]:
    records = len(memory_instants(trace))
    if not len(frame):
        yield NOT_RECORDED if not records else NONE_SELECTED if len(blocks) else NO_ADDRESS
        return
    if note := steps(trace, select.steps_by).note:
        yield note
    if blocks.addressless:
        yield f"{blocks.addressless:,} of {records:,} records of memory have no address and are in no row."
    if not has_snapshot and not (trace.kind == EventKind.PYTHON).any():
        yield not_recorded("Python calls", "module and python are empty")
