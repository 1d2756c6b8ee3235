"""What memory was used for, over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.charts import Lines
from kinetoscope.errors import UsageError
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.job import Job, Partial
from kinetoscope.model.memory.allocator import (
    CUDA,
    NONE_SELECTED,
    NOT_RECORDED,
    device_name,
    instants_in,
    memory_instants,
)
from kinetoscope.model.memory.blocks import memory_blocks
from kinetoscope.model.memory.category_series import SERIES_USES, series_of
from kinetoscope.model.memory.uses import USES, block_uses
from kinetoscope.model.snapshot.bands import bands, categories, category_changes
from kinetoscope.model.snapshot.of_trace import events_in, memory_scope, snapshot_of
from kinetoscope.model.snapshot.owners import CATEGORIES
from kinetoscope.model.snapshot.replay import history
from kinetoscope.model.snapshot.snapshot import NONE
from kinetoscope.model.steps.scope import Scope, origin_of_time
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.steps.steps import step_of
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Param, Result, Schema

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
    job: Job,
    *,
    select: Selection = ALL,
    points: Annotated[int, Param("Instants of each device at most: the highest of so many equal parts of time.")] = 240,
) -> Result:
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
    if not 1 <= points <= _MAX_POINTS:
        raise UsageError(f"points is {points}; give a number from 1 to {_MAX_POINTS:,}")
    return job.map(_of_trace, ANALYSIS, select, points=points)


ANALYSIS = Analysis(
    "Memory over time", memory_timeline, RESULT, chart=Lines("time", "size", by=("device", "use")), of_device_work=False
)


def _of_trace(trace: Trace, select: Selection, *, points: int) -> Partial:
    view = memory_scope(trace, select)
    frames = [*_of_snapshot(view, points), *_of_series(view, points)]
    recorded = {frame.get_column("device")[0] for frame in frames}
    frames += _of_instants(view, points, recorded)
    notes = [view.steps.note] if select.steps is not None and view.steps.note else []
    if not frames:
        known = len(memory_instants(trace)) or snapshot_of(trace) is not None
        notes.append(NONE_SELECTED if known else NOT_RECORDED)
    return Partial(pl.concat([RESULT.per_rank.empty(), *frames]), tuple(notes))


def _of_snapshot(view: Scope, points: int) -> Iterator[pl.DataFrame]:
    trace, snapshot = view.trace, snapshot_of(view.trace)
    for device in snapshot.devices if snapshot is not None else ():
        past = history(trace, device)
        if past is None or (view.select.devices is not None and device not in view.select.devices):
            continue
        time = past.events.time - trace.base
        chosen = np.flatnonzero(events_in(view, time))
        if not len(chosen):
            continue
        first, last = int(chosen[0]), int(chosen[-1])
        known = past.events.time != NONE
        # Before torch 2.2 events have no times: then the history is cut into parts of as many events.
        axis = np.maximum.accumulate(time[first : last + 1]) if known.all() else np.arange(first, last + 1)
        begins = _parts(axis, points) + first
        kinds = len(CATEGORIES)
        found = bands(past, categories(trace, device), kinds, category_changes(trace, device), begins)
        event = np.maximum(found.event, 0)
        yield _frame(
            view, device_name(CUDA, device), time[event], found.levels, CATEGORIES, "snapshot", known=known[event]
        )


def _of_series(view: Scope, points: int) -> Iterator[pl.DataFrame]:
    """The frame of a file of `export_memory_timeline`."""
    series = series_of(view.trace)
    if series is None:
        return
    time = series.time - view.trace.base
    chosen = np.flatnonzero(events_in(view, time))
    if len(chosen):
        levels = series.levels[chosen]
        at = _highest(levels.sum(axis=1), _parts(time[chosen], points))
        yield _frame(view, None, time[chosen][at], levels[at], SERIES_USES, "timeline file")


def _of_instants(view: Scope, points: int, recorded: set[str]) -> Iterator[pl.DataFrame]:
    """The frames of devices of which only the profiler's events tell."""
    trace, instants, blocks = view.trace, memory_instants(view.trace), memory_blocks(view.trace)
    chosen = instants_in(view)
    uses = block_uses(trace)
    for device in np.unique(instants.device[chosen]).tolist():
        name = instants.device_name(device)
        if name in recorded:
            continue
        places = np.flatnonzero(chosen & (instants.device == device))
        at = places[_highest(instants.allocated[places], _parts(instants.time[places], points))]
        of_device = (blocks.allocated_at >= 0) & (instants.device[blocks.shown_at] == device)
        levels = np.zeros((len(at), len(USES) + 1), np.int64)
        for use in range(len(USES)):
            rows = of_device & (uses == use)
            ended = rows & (blocks.ended_at >= 0)
            levels[:, use] = _sums_until(blocks.allocated_at[rows], blocks.size[rows], at)
            levels[:, use] -= _sums_until(blocks.ended_at[ended], blocks.size[ended], at)
        levels[:, -1] = instants.allocated[at] - levels.sum(axis=1)
        yield _frame(view, name, instants.time[at], levels, (*USES, CATEGORIES[-1]), "trace")


def _frame(
    view: Scope,
    device: str | None,
    time: Int64s,
    levels: Int64s,
    uses: tuple[str, ...],
    source: str,
    known: Bools | None = None,
) -> pl.DataFrame:
    """A row for each instant and each use that there ever is."""
    present = np.flatnonzero(levels.any(axis=0))
    step = step_of(view.steps.host, time)
    number = np.append(view.steps.number, -1)[step]
    count = len(present)
    known = np.ones(len(time), np.bool_) if known is None else known
    return pl.DataFrame(
        {
            "device": pl.Series([device], dtype=pl.String).new_from_index(0, len(time) * count),
            "time": polars_columns.column(np.repeat(time - origin_of_time(view.trace), count), np.repeat(known, count)),
            "use": pl.Series([uses[each] for each in present.tolist()] * len(time), dtype=pl.String),
            "size": levels[:, present].ravel(),
            "step": polars_columns.column(np.repeat(number, count), np.repeat((step >= 0) & known, count)),
            "source": pl.Series([source], dtype=pl.String).new_from_index(0, len(time) * count),
        },
        schema=RESULT.per_rank.types,
    )


def _parts(time: Int64s, points: int) -> Int64s:
    """Where each of so many equal parts of the time begins, and the last one ends: places; empty parts are left out."""
    edges = np.linspace(int(time[0]), int(time[-1]), points + 1)[1:-1]
    return np.unique(np.concatenate([[0], np.searchsorted(time, edges), [len(time)]]))


def _highest(level: Int64s, begins: Int64s) -> Int64s:
    """The place of the highest level of each part."""
    highest = np.maximum.reduceat(level, begins[:-1])
    at = np.flatnonzero(level == np.repeat(highest, np.diff(begins)))
    return at[np.searchsorted(at, begins[:-1])]


def _sums_until(places: Int64s, sizes: Int64s, at: Int64s) -> Int64s:
    """The sum of the sizes whose places are not behind each of `at`."""
    order = np.argsort(places, kind="stable")
    sums = np.concatenate([[0], np.cumsum(sizes[order])]).astype(np.int64)
    return sums[np.searchsorted(places[order], at, side="right")]
