"""How much memory was in use, instant by instant."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from kinetoscope.model.job import Job, Partial
from kinetoscope.model.memory.allocator import (
    NONE_SELECTED,
    NOT_RECORDED,
    Instants,
    instants_in,
    memory_instants,
    out_of_memory,
)
from kinetoscope.model.steps.scope import Scope, origin_of_time, scope
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Analysis, Column, Lines, Result, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.String, "Whose memory: cpu, or a device as torch names it, such as cuda:0."),
    Column(
        "time",
        pl.Int64,
        "When memory was taken or given back, from the first event of the trace on.",
        "ns",
        instant=True,
    ),
    Column("allocated", pl.Int64, "Bytes in use on the device from then on.", "bytes"),
    Column("reserved", pl.Int64, "Bytes that the device's allocator holds, in use or not; null for the host.", "bytes"),
    Column("change", pl.Int64, "Bytes taken, or given back if negative.", "bytes"),
    across={"device": "device", "key": "time", "own": "allocated reserved change"},
)


def memory_curve(job: Job, *, select: Selection = ALL) -> Result:
    """How much memory was in use on each device, over time?

    Method. A row for each instant at which an allocator took or gave back memory, in order of device and time.
    `allocated` is the allocator's own number (`Total Allocated`); old files lack it, and a note says that changes are
    summed from the beginning of the recording.

    How to read it. The highest point is the peak; `memory_peak` says what was in use there. A floor that rises from
    step to step is growth; see `memory_growth`. `reserved` far above `allocated` is memory that the caching allocator
    holds for later, or that fragmentation keeps from being used.

    Limits. The host's curve is of torch's allocator since profiling began, not of the process. Memory allocated past
    torch's allocators (by NCCL, cuBLAS, the driver) is in no curve. A selection chooses instants; streams choose
    nothing, and numbers of devices choose those whose memory it is.
    """
    return job.map(_of_trace, ANALYSIS, select)


ANALYSIS = Analysis(
    "Memory curve", memory_curve, RESULT, chart=Lines("time", "allocated", by=("device",)), of_device_work=False
)


def _of_trace(trace: Trace, select: Selection) -> Partial:
    view = scope(trace, select)
    instants = memory_instants(trace)
    rows = np.flatnonzero(instants_in(view))
    rows = rows[np.argsort(instants.device[rows], kind="stable")]
    frame = pl.DataFrame(
        {
            "device": polars_columns.labelled(instants.device[rows], instants.device_name),
            "time": instants.time[rows] - origin_of_time(trace),
            "allocated": instants.allocated[rows],
            "reserved": polars_columns.rows(instants.reserved[rows]),
            "change": instants.size[rows],
        }
    )
    return Partial(frame, tuple(_notes(view, instants, frame)))


def _notes(view: Scope, instants: Instants, frame: pl.DataFrame) -> Iterator[str]:
    if view.select.steps is not None and view.steps.note:
        yield view.steps.note
    if not len(frame):
        yield NONE_SELECTED if len(instants) else NOT_RECORDED
    if len(frame):
        yield from instants.notes()
    if times := out_of_memory(view.trace):
        yield f"An allocator ran out of memory ({times:,} times)."
