"""What memory was used for, over time."""

from __future__ import annotations

from typing import Annotated, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.charts import Lines
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.memory.allocator import NONE_SELECTED, NOT_RECORDED, memory_instants
from kinetoscope.model.memory.categories import CATEGORIES
from kinetoscope.model.memory.record import CategoryRecord
from kinetoscope.model.memory_records.records import category_records
from kinetoscope.model.snapshot.of_trace import memory_scope, snapshot_of
from kinetoscope.model.steps.scope import Scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import step_of
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Param, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.String, "Whose memory: cpu, or a device such as cuda:0; null where a file does not name it."),
    Column("time", pl.Int64, "The instant, from the first event of the trace on.", "ns", instant=True),
    Column("use", pl.String, "What the memory is used for: as in memory_peak; unknown: what was there before, too."),
    Column("size", pl.Int64, "Bytes in use for it; the rows of an instant sum to all that is in use.", "bytes"),
    Column("step", pl.Int64, "The step in which the instant lies; null for none."),
    Column("source", pl.String, "snapshot: the allocator's own record; trace: the profiler's; or timeline file."),
    across={"device": "device", "key": "time use", "own": "size step"},
)

_MAX_POINTS: Final = 100_000


def memory_timeline(
    trace: Trace,
    select: Selection,
    *,
    points: Annotated[
        int,
        Param(
            "Instants of each device at most: the highest of so many equal parts of time.", least=1, most=_MAX_POINTS
        ),
    ] = 240,
) -> Partial:
    """What was the memory of each device used for, over time?

    Method. The selected time is cut into equal parts, and each shows its highest instant, so that no peak is lost; a
    row is one use at one instant. The uses are those of `memory_peak`, and the rows of its instant are the same: from
    the rank's memory snapshot where there is one, in bytes as requested; else from the profiler's events. Files of
    `export_memory_timeline` hold such a series as torch's profiler computed it.

    How to read it. Activations rise in the forward pass and fall in the backward pass, while gradients rise; what the
    parameters and the optimizer's state take is the floor. What rises from step to step is in `memory_growth`.

    Limits. Of the profiler's events, what was there before the recording is `unknown`, and so is what has no address.
    A snapshot's ring of entries may have lost the beginning. Streams choose nothing, and numbers of devices choose
    those whose memory it is.
    """
    view, frames = memory_scope(trace, select), [RESULT.per_rank.empty()]
    for record in category_records(view, select.devices):
        if len(chosen := record.selected(view)):
            frames.append(_frame(view, record, *record.by_category(chosen, points)))
    notes = [view.steps.note] if select.steps is not None and view.steps.note else []
    if len(frames) == 1:
        known = len(memory_instants(trace)) or snapshot_of(trace) is not None
        notes.append(NONE_SELECTED if known else NOT_RECORDED)
    return Partial(pl.concat(frames), tuple(notes))


ANALYSIS = Analysis(
    "Memory over time",
    memory_timeline,
    RESULT,
    chart=Lines("time", "size", by=("device", "use")),
    of_device_work=False,
    selection_notes="never",
)


def _frame(view: Scope, record: CategoryRecord, places: Int64s, levels: Int64s) -> pl.DataFrame:
    """A row for each instant and each category that there ever is."""
    present = np.flatnonzero(levels.any(axis=0))
    instants = record.instants(places)
    step = step_of(view.steps.host, record.time[np.maximum(places, 0)])
    number = polars_columns.column(np.append(view.steps.number, -1)[step], (step >= 0) & ~instants.is_null().to_numpy())
    every = np.repeat(np.arange(len(places)), len(present))
    return pl.DataFrame(
        {
            "device": pl.Series([record.device], dtype=pl.String).new_from_index(0, len(every)),
            "time": instants[every],
            "use": pl.Series([CATEGORIES[each] for each in present.tolist()] * len(places), dtype=pl.String),
            "size": levels[:, present].ravel(),
            "step": number[every],
            "source": pl.Series([record.source], dtype=pl.String).new_from_index(0, len(every)),
        },
        schema=RESULT.per_rank.types,
    )
