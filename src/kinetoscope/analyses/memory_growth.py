"""Does memory grow from step to step, and what is kept that does not end with its step?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.algorithms.statistics import student_t
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.memory.allocator import NO_ADDRESS, NOT_RECORDED, Instants, memory_instants
from kinetoscope.model.memory.blocks import memory_blocks
from kinetoscope.model.memory.record import MemoryRecord, StepAllocations
from kinetoscope.model.memory.windows import MemoryWindows
from kinetoscope.model.memory_records.records import memory_records
from kinetoscope.model.snapshot.of_trace import memory_scope, snapshot_of
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import Steps
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.String, "Whose memory: cpu, or a device as torch names it, such as cuda:0."),
    Column(
        "kind", pl.String, "device: all of its memory; else what allocated blocks: operator, annotation, memory, stack."
    ),
    Column(
        "name",
        pl.String,
        "The device; else the operator or annotation that allocated, [memory] for neither; of a stack the user's line.",
    ),
    Column("module", pl.String, "Innermost nn.Module whose forward allocated them; null without Python stacks."),
    Column("verdict", pl.String, "Of the device: leak, no growth, unclear, or too few steps."),
    Column("per_step", pl.Float64, "Growth a step: the slope for the device, the mean for blocks kept.", "bytes"),
    Column("standard_error", pl.Float64, "Standard error of the slope.", "bytes"),
    Column("size", pl.Int64, "Growth from the first to the last of the steps; size of the blocks kept.", "bytes"),
    Column("blocks", pl.Int64, "Blocks that were kept."),
    Column("steps", pl.Int64, "Steps that were looked at; in how many of them blocks were allocated and kept."),
    Column("evidence", pl.String, "What the verdict rests on."),
    Column(
        "held_by",
        pl.String,
        "From a snapshot: references (its free was not requested), stream (freed; work of another stream must end"
        " first), graph pool (private pool of a CUDA graph); else null.",
    ),
    Column("source", pl.String, "snapshot: the allocator's own record; trace: the profiler's events."),
    Column("stack", pl.String, "From a snapshot: frames that allocated the blocks, the outermost first; else null."),
    across={
        "device": "device",
        "agreed": "verdict steps evidence",
        "sum": "per_step size blocks",
        "own": "standard_error",
    },
)

_MIN_STEPS: Final = 3
"""Steps from which a slope has a standard error."""

_CONSTANT_SHARE: Final = 0.001
"""Share of what is in use by which it may grow in a step and count as constant."""

_COLUMNS: Final = RESULT.without("rank", "device", "source").types


def memory_growth(
    trace: Trace,
    select: Selection,
    *,
    warmup: Annotated[int, Param("Steps at the beginning of the recording that are left out.", least=0)] = 1,
) -> Partial:
    """Does memory grow from step to step: is there a leak, and what allocates it?

    Method. A line is fitted over the steps to the memory in use on a device at the end of each step on the host (least
    squares, with the standard error of the slope). *leak*: the slope is above 0 with 99 % confidence (Student's t), and
    the level rises in both halves of the steps. *no growth*: the slope is not above 0, or with 99 % confidence below
    0.1 % of what is in use; or the later half of the steps falls back to the lowest level of the earlier half; or the
    level has not risen for at least 3 steps and half as many again as before. *unclear*: neither. *too few steps*:
    fewer than 3. Below the row of the device are the blocks that outlive their step: allocated in any step but the last
    and in use at the end of the last, by what allocated them (as in `memory_peak`).

    Where the rank has a memory snapshot, it answers for its devices, in bytes requested. The level is what is in use at
    the end of a step and was allocated before the step began, so that batches of different sizes are no growth. What a
    step itself allocated and holds at its end is judged likewise, for a cache may be replaced by a larger one in each
    step; where the rest of what steps allocate grows, too, that is *unclear*, or, if the rest grows by more, no growth.
    What allocated the blocks are the stacks of the allocator's record, and a row says what holds them. Steps are those
    of the trace, or of the snapshot's annotations and metadata; where there are none, periods of the allocations.

    How to read it. A leak has rows below it that account for the slope, allocated in every step: the operator says what
    is kept (a loss with its graph, outputs in a list), the module where. Rows allocated in a single step are caches and
    buffers made late.

    Limits. The first step allocates what is kept for good, such as the optimizer's state, and is left out. A slow leak
    needs more steps than are mostly recorded; one that garbage collection interrupts looks unclear. Memory of other
    processes, and memory allocated past torch's allocators, does not show. Steps and a time range choose steps, numbers
    of devices choose those whose memory it is; streams, threads and annotations choose nothing.
    """
    view, instants = memory_scope(trace, select), memory_instants(trace)
    frames, notes = [RESULT.per_rank.empty()], []
    for record in memory_records(view, select.devices):
        every = record.windows(view)
        frames.append(_of_record(record, every.at(every.places >= warmup)))
        if record.source == "snapshot" and every.note:
            notes.append(every.note)
    if len(instants) or snapshot_of(trace) is None:
        notes += _notes(trace, instants, view.steps)
    return Partial(pl.concat(frames), tuple(dict.fromkeys(notes)))


ANALYSIS = Analysis(
    "Memory growth",
    memory_growth,
    RESULT,
    chart=Bars("name", "per_step"),
    of_device_work=False,
    of_calls=False,
    selection_notes="never",
)


def _of_record(record: MemoryRecord, steps: MemoryWindows) -> pl.DataFrame:
    """The row of a device, and those of what outlives its step."""
    growth, rows = _growth(np.zeros(len(steps), np.int64), steps.places), pl.DataFrame(schema=_COLUMNS)
    if len(steps) >= _MIN_STEPS:
        growth = _growth(record.carried_over(steps), steps.places)
        rows = _persistent(record, steps)
        if growth["verdict"] != "leak" and (own := record.step_allocations(steps)) is not None:
            held, others = (_growth(each, steps.places) for each in (own.held, own.others))
            larger = others["verdict"] == "leak"
            if held["verdict"] == "leak" and not (larger and others["per_step"] >= held["per_step"]):
                growth = held | {"verdict": "unclear" if larger else "leak"}
                rows = pl.concat([_replaced(own, len(steps)), rows])
    whole = pl.DataFrame([{"kind": "device", "name": record.device, **growth}], schema=_COLUMNS)
    facts = {"device": pl.lit(record.device), "source": pl.lit(record.source)}
    return pl.concat([whole, rows]).with_columns(**facts).select(RESULT.names[1:])


def _replaced(own: StepAllocations, steps: int) -> pl.DataFrame:
    """Stacks of which each step leaves more, by how much."""
    frame = own.owners.with_columns(per_step=own.growth / (steps - 1), size=own.growth, blocks=own.blocks)
    return pl.concat([pl.DataFrame(schema=_COLUMNS), frame], how="diagonal_relaxed").cast(_COLUMNS)


def _persistent(record: MemoryRecord, steps: MemoryWindows) -> pl.DataFrame:
    """Blocks of a step but the last that are in use at the end of the last: by what allocated them, largest first."""
    rows = np.flatnonzero(record.active(int(steps.end[-1]) - 1))
    step = steps.of(record.allocated_at[rows])
    earlier = (step >= 0) & (step < len(steps) - 1)
    rows, step = rows[earlier], step[earlier]
    codes, frame = record.persistent(rows, steps)
    size = sum_by(codes, len(frame), record.size[rows])
    _, first = group(codes, step)  # one for each step in which a group has blocks
    frame = frame.with_columns(
        size=pl.Series(size, dtype=pl.Int64),
        per_step=pl.Series(size / (len(steps) - 1), dtype=pl.Float64),
        blocks=pl.Series(np.bincount(codes, minlength=len(frame)), dtype=pl.Int64),
        steps=pl.Series(np.bincount(codes[first], minlength=len(frame)), dtype=pl.Int64),
    )
    frame = pl.concat([pl.DataFrame(schema=_COLUMNS), frame], how="diagonal")
    order = ["size", "name", "kind", "module", "stack"]
    return frame.sort(order, descending=[True, *[False] * 4], nulls_last=True)


# --- the line through the levels at the ends of the steps


def _growth(level: Int64s, places: Int64s) -> dict[str, Any]:
    """The verdict on the levels of steps, and its numbers."""
    if len(level) < _MIN_STEPS:
        left = f"{len(level)} step{'' if len(level) == 1 else 's'} after the warm-up; it takes {_MIN_STEPS} to tell."
        return {"steps": len(level), "verdict": "too few steps", "evidence": left}
    slope, error = _line(places, level)
    rises = int((np.diff(level) > 0).sum())
    return {
        "steps": len(level),
        "verdict": _verdict(level, slope, error),
        "per_step": slope,
        "standard_error": error,
        "size": int((level[-1:] - level[:1])[0]),
        "evidence": f"{rises} of {len(level) - 1} steps end higher than the one before.",
    }


def _line(x: Int64s, y: Int64s) -> tuple[float, float]:
    """Slope of the line of least squares, and its standard error."""
    across, up = x - x.mean(), (y - y[0]).astype(np.float64)
    up -= up.mean()
    spread = float((across**2).sum())
    slope = float((across * up).sum()) / spread
    return slope, math.sqrt(float(((up - slope * across) ** 2).sum()) / (len(x) - 2) / spread)


def _verdict(level: Int64s, slope: float, error: float) -> str:
    half = len(level) // 2
    margin = student_t(0.99, len(level) - 2) * error
    if slope > margin and level[0] < level[half] < level[-1]:
        return "leak"
    constant = slope <= 0 or slope + margin <= _CONSTANT_SHARE * float(level.max())
    falls_back = level[half:].min() <= level[:half].min()
    risen = int(np.flatnonzero(np.diff(level) > 0).max(initial=-1)) + 1
    stopped = len(level) - 1 - risen >= max(_MIN_STEPS, 1.5 * risen)
    return "no growth" if constant or falls_back or stopped else "unclear"


def _notes(trace: Trace, instants: Instants, steps: Steps) -> Iterator[Note]:
    if not len(instants):
        yield NOT_RECORDED
        return
    if steps.note:
        yield steps.note
    if not len(memory_blocks(trace)):
        yield NO_ADDRESS
