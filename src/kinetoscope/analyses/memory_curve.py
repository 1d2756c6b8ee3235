"""How much memory was in use, instant by instant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.layout.bands import highest_places
from kinetoscope.charts import Lines
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.memory.allocator import NONE_SELECTED, NOT_RECORDED, Instants, memory_instants, out_of_memory
from kinetoscope.model.memory.record import MemoryRecord
from kinetoscope.model.memory_records.records import memory_records
from kinetoscope.model.snapshot.of_trace import memory_scope, notes_of_snapshot
from kinetoscope.model.steps.scope import Scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.String, "Whose memory: cpu, or a device as torch names it, such as cuda:0."),
    Column(
        "time",
        pl.Int64,
        "When memory was allocated or freed, from the first event of the trace on.",
        "ns",
        instant=True,
    ),
    Column("allocated", pl.Int64, "Bytes in use on the device from then on.", "bytes"),
    Column("reserved", pl.Int64, "Bytes that the allocator has reserved, in use or not; null for the host.", "bytes"),
    Column("change", pl.Int64, "Bytes allocated, or freed if negative; since the row before.", "bytes"),
    Column("requested", pl.Int64, "Bytes in use as requested, before rounding; null without a snapshot.", "bytes"),
    Column("source", pl.String, "snapshot, or trace: Kineto's records."),
    across={"device": "device", "key": "time", "own": "allocated reserved change requested"},
)


def memory_curve(
    trace: Trace,
    select: Selection,
    *,
    points: Annotated[
        int, Param("Instants of a device's curve from a snapshot; 0: one for each event.", least=0)
    ] = 2000,
) -> Partial:
    """How much memory was in use on each device, over time?

    Method. A row for each instant at which an allocator allocated or freed memory, in order of device and time.
    `allocated` is the allocator's own number (`Total Allocated`); old files lack it, and a note says that changes are
    summed from the beginning of the recording. Of the devices of a memory snapshot the levels follow from its history,
    undone backwards; `points` instants stand for all: in each of as many stretches of events the one at which most was
    in use as requested.

    How to read it. The highest point is the peak; `memory_peak` says what was in use there. A floor that rises from
    step to step is growth; see `memory_growth`. `reserved` far above `allocated` is memory that the caching allocator
    reserves for later, or that fragmentation keeps from being used.

    Limits. The host's curve is of torch's allocator since profiling began, not of the process. Memory allocated past
    torch's allocators (by NCCL, cuBLAS, the driver) is in no curve. A selection chooses instants; streams choose
    nothing, and numbers of devices choose those whose memory it is.
    """
    view = memory_scope(trace, select)
    frames = [_curve(record, record.selected(view), points) for record in memory_records(view, select.devices)]
    frame = pl.concat([RESULT.per_rank.empty(), *frames])
    return Partial(frame, (*_notes(view, memory_instants(trace), frame), *notes_of_snapshot(trace)))


ANALYSIS = Analysis(
    "Memory curve",
    memory_curve,
    RESULT,
    chart=Lines("time", "allocated", by=("device",)),
    of_device_work=False,
    selection_notes="never",
)


def _curve(record: MemoryRecord, chosen: Int64s, points: int) -> pl.DataFrame:
    if points and record.source == "snapshot":
        chosen = chosen[highest_places(record.in_use[chosen + 1], points)]
    levels = record.levels()
    total = np.concatenate([[0], np.cumsum(record.change)])
    before = np.concatenate([chosen[:1], chosen[:-1] + 1])
    columns = {
        "time": record.instants(chosen),
        "allocated": levels["allocated"][chosen + 1],
        "reserved": polars_columns.rows(levels["reserved"][chosen + 1]),
        "change": total[chosen + 1] - total[before],
        "requested": record.in_use[chosen + 1] if "requested" in levels else None,
    }
    facts = {"device": pl.lit(record.device), "source": pl.lit(record.source)}
    return polars_columns.fitted(pl.DataFrame(columns).with_columns(**facts), RESULT.per_rank.types)


def _notes(view: Scope, instants: Instants, frame: pl.DataFrame) -> Iterator[Note]:
    if view.select.steps is not None and view.steps.note:
        yield view.steps.note
    if not len(frame):
        yield NONE_SELECTED if len(instants) else NOT_RECORDED
    if len(frame):
        yield from instants.notes()
    if times := out_of_memory(view.trace):
        yield Note("OUT_OF_MEMORY", f"An allocator ran out of memory ({times:,} times).")
