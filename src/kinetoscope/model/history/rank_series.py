"""The steps of one rank as arrays: each step's time, its parts by blocks, its spikes, and what marks explain of it.

The time of a step is from the end of the step before it to its own end: the gap between two steps belongs to the
second. Blocks are of step numbers, the same for all ranks. Of a step that was run again after a restart the last run
counts; the time of the earlier ones is `repeated`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Float32s, Floats, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, exclusive, union
from kinetoscope.errors import BrokenTraceError
from kinetoscope.model.history.noise import cleaned
from kinetoscope.model.history.over_ranks import HOST_PARTS

PARTS: Final = ("data", "gap", *HOST_PARTS[1:], "rest")
"""Parts that the time of a step on the host is made of: `rest` is what of the step is in no other one."""

MEASURED: Final = (*PARTS, "device")

MEMORY: Final = ("memory_used", "memory_reserved", "resident")

EXPLAINING: Final = ("evaluation", "save", "compile", "collection", "window")
"""Kinds of marks that explain time, outer ones first: what one explains is not explained again."""

MOST_MISSING: Final = 16
"""Numbers of steps per step that a series has at most; more are no numbers of steps."""

_NEAR_STEPS: Final = 10
"""Steps on both sides of a spike that its parts are compared with."""

_EXPLAINED: Final = 0.5
"""Share of a spike that its cause makes up at least."""


@dataclass(frozen=True)
class Spikes:
    """Steps far above those around them, an element each.

    Attributes:
        step: number of the step.
        excess: time above the level around it, ns.
        left: what of that no mark explains, ns.
        cause: kind of the mark that makes up half of it and more; "" where none does.
        part: the part that does; "" where none does.
    """

    step: Int64s
    excess: Floats
    left: Floats
    cause: list[str]
    part: list[str]


@dataclass(frozen=True)
class RankSeries:
    """A rank's steps; blocks are counted from that of step 0.

    Attributes:
        rank: its number.
        first: number of the first step.
        times: float32 [steps from first to last], ns; NaN where there is none.
        first_block: number of the first block.
        means: float64 [blocks], mean time of its steps without spikes and outliers; NaN where there are none.
        steps: int64 [blocks], how many it has.
        clean: float64 [blocks], sum of their time without what spikes and marks explain.
        parts: float32 [MEASURED, blocks], mean; NaN where unknown.
        memory: float32 [MEMORY, blocks], least; NaN where unknown.
        samples: float32 [blocks], mean; NaN where unknown.
        spikes: of its steps.
        explained: time above the level around a step, by the mark that explains it, ns.
        restart: from the end of an attempt to the start of the next, ns.
        repeated: time of steps that were run again later, ns.
        whole: time of all of it, ns.
    """

    rank: int
    first: int
    times: Float32s
    first_block: int
    means: Floats
    steps: Int64s
    clean: Floats
    parts: Float32s
    memory: Float32s
    samples: Float32s
    spikes: Spikes
    explained: Mapping[str, float]
    restart: int
    repeated: int
    whole: int


def rank_series(frame: pl.DataFrame, marks: pl.DataFrame, block: int) -> RankSeries:
    """The series of one rank: its rows of STEPS and of MARKS, in order of time, in blocks of so many steps.

    Raises:
        BrokenTraceError: the numbers of its steps are none.
    """
    step, attempt, start, end = (frame[name].to_numpy() for name in ("step", "attempt", "start", "end"))
    rank, first, span = int(frame["rank"][0]), int(step.min()), int(step.max() - step.min()) + 1
    if span > MOST_MISSING * len(step) + 1000 or first < 0:
        raise BrokenTraceError(f"rank {rank} has steps from {first} to {step.max()}, but only {len(step)} of them")
    pause = np.maximum(start[1:] - end[:-1], 0)
    same = attempt[1:] == attempt[:-1]
    gap = np.zeros(len(step), np.int64)
    gap[1:] = np.where(same, pause, 0)
    every = np.maximum(end - start, 0) + gap
    restart = int(pause[~same].sum())

    rows = _last_rows(step, first, span)
    time, places = every[rows], step[rows] - first
    blocks = _Blocks.of(places, first, block)
    clean = cleaned(_dense(time, places, span))
    level = clean.level[places]
    windows = Intervals(end[rows] - time, end[rows])
    touched, explained = _explained(windows, time - level, marks)

    # What a mark explains may come as often as it likes.
    spike = clean.spike[places]
    by_mark = explained.sum(axis=1)
    spike[touched] |= clean.high[places[touched]] & (by_mark >= _EXPLAINED * (time - level)[touched])
    parts = _parts(frame, rows, gap[rows], time)
    marked = np.zeros((len(time), len(EXPLAINING))) if len(touched) else None
    if marked is not None:
        marked[touched] = explained
    spikes = _spikes(np.flatnonzero(spike), time - level, step[rows], marked, parts)
    rest = time.astype(np.float64)
    rest[touched] -= by_mark
    rest[spike] -= spikes.left
    return RankSeries(
        rank=rank,
        first=first,
        times=_dense(time, places, span).astype(np.float32),
        first_block=first // block,
        means=blocks.mean(clean.clipped[places]),
        steps=blocks.count,
        clean=blocks.total(rest),
        parts=np.stack([blocks.mean(each) for each in parts]).astype(np.float32),
        memory=np.stack([blocks.least(_known(frame[name], rows)) for name in MEMORY]).astype(np.float32),
        samples=blocks.mean(_known(frame["samples"], rows)).astype(np.float32),
        spikes=spikes,
        explained=dict(zip(EXPLAINING, explained.sum(axis=0).tolist(), strict=True)),
        restart=restart,
        repeated=int(every.sum() - time.sum()),
        whole=int(every.sum()) + restart,
    )


@dataclass(frozen=True)
class _Blocks:
    """Rows by block.

    Attributes:
        bounds: int64 [blocks], the first row of each.
        count: int64 [blocks], how many rows each has.
    """

    bounds: Int64s
    count: Int64s

    @classmethod
    def of(cls, places: Int64s, first: int, block: int) -> _Blocks:
        """The blocks of rows whose steps are `places` after the first one, in order."""
        pad = first % block
        edges = np.arange((int(places[-1]) + pad) // block + 2) * block - pad
        bounds = np.searchsorted(places, edges)
        return cls(bounds[:-1], np.diff(bounds))

    def total(self, values: NDArray[Any]) -> Floats:
        """The sum of each block, 0 of one without rows."""
        return np.where(self.count > 0, np.add.reduceat(values, self.bounds), 0).astype(np.float64)

    def mean(self, values: NDArray[Any] | None) -> Floats:
        """The mean of each block; NaN of one without known values."""
        if values is None:
            return np.full(len(self.count), np.nan)
        count = self.count
        if values.dtype == np.float64 and np.isnan(values[-1] + values.sum()):
            count = self.total(~np.isnan(values)).astype(np.int64)
            values = np.nan_to_num(values)
        return np.where(count > 0, self.total(values) / np.maximum(count, 1), np.nan)

    def least(self, values: NDArray[Any] | None) -> Floats:
        """The least value of each block; NaN of one without known values."""
        if values is None:
            return np.full(len(self.count), np.nan)
        return np.where(self.count > 0, np.fmin.reduceat(values, self.bounds), np.nan)


def _last_rows(step: Int64s, first: int, span: int) -> Int64s | slice:
    """The last row of each step, in order of steps."""
    if len(step) == span and bool((step[1:] > step[:-1]).all()):
        return slice(None)
    row = np.full(span, -1)
    row[step - first] = np.arange(len(step))
    return row[row >= 0]


def _dense(values: Int64s, places: Int64s, span: int) -> Floats:
    if len(values) == span:
        return values.astype(np.float64)
    dense = np.full(span, np.nan)
    dense[places] = values
    return dense


def _explained(windows: Intervals, above: Floats, marks: pl.DataFrame) -> tuple[Int64s, Floats]:
    """The windows with marks, and how much of what they are above marks of each kind explain, each instant once.

    Returns:
        Indices of windows, and float64 [these, EXPLAINING].
    """
    if not marks.height:
        return np.zeros(0, np.int64), np.zeros((0, len(EXPLAINING)))
    kind = marks["kind"].cast(pl.Enum(EXPLAINING), strict=False).to_physical().fill_null(len(EXPLAINING)).to_numpy()
    start, end = marks["start"].to_numpy(), marks["end"].to_numpy()
    counts = (kind < len(EXPLAINING)) & (end > start)
    low = np.searchsorted(windows.end, start[counts], side="right")
    high = np.searchsorted(windows.end, end[counts], side="left") + 1
    edges = np.zeros(len(windows.end) + 2, np.int64)
    np.add.at(edges, low, 1)
    np.add.at(edges, np.minimum(np.maximum(high, low), len(windows.end) + 1), -1)
    touched = np.flatnonzero(np.cumsum(edges)[: len(windows.end)] > 0)
    if not len(touched):
        return touched, np.zeros((0, len(EXPLAINING)))
    unions = [union(start[kind == each], end[kind == each]) for each in range(len(EXPLAINING))]
    covered = exclusive(Intervals(windows.start[touched], windows.end[touched]), unions)[:, :-1].astype(np.float64)
    covered *= np.clip(above[touched] / np.maximum(covered.sum(axis=1), 1), 0, 1)[:, None]
    return touched, covered


def _parts(frame: pl.DataFrame, rows: Int64s | slice, gap: Int64s, time: Int64s) -> list[NDArray[Any] | None]:
    """Each of MEASURED by step, ns; NaN where it is not known, None where it nowhere is."""
    known = {name: _known(frame[name], rows) for name in MEASURED if name not in ("gap", "rest")}
    rest: NDArray[Any] = time - gap
    for name in PARTS:
        if (part := known.get(name)) is not None:
            rest = rest - (np.nan_to_num(part) if part.dtype == np.float64 else part)
    known |= {"gap": gap, "rest": np.maximum(rest, 0)}
    return [known[name] for name in MEASURED]


def _known(column: pl.Series, rows: Int64s | slice) -> NDArray[Any] | None:
    """The values of a column, NaN where there is none; None if there nowhere is."""
    if column.null_count() == len(column):
        return None
    return column.to_numpy()[rows]


def _spikes(
    rows: Int64s, above: Floats, step: Int64s, explained: Floats | None, parts: list[NDArray[Any] | None]
) -> Spikes:
    """The spikes, which are some of the rows, and what marks and parts make up half of each and more."""
    excess = above[rows]
    near = np.clip(rows[:, None] + np.arange(-_NEAR_STEPS, _NEAR_STEPS + 1), 0, max(len(step) - 1, 0))
    none = np.zeros(len(rows))
    some = [none if each is None else each[rows] - np.median(each[near], axis=1) for each in parts[: len(PARTS)]]
    grown = np.nan_to_num(np.stack(some, axis=1))
    has_part = grown.max(axis=1) >= _EXPLAINED * excess
    mark = np.zeros((len(rows), len(EXPLAINING))) if explained is None else explained[rows]
    has_mark = mark.sum(axis=1) >= _EXPLAINED * excess
    return Spikes(
        step[rows],
        excess,
        np.maximum(excess - mark.sum(axis=1), 0),
        [EXPLAINING[kind] if known else "" for kind, known in zip(mark.argmax(axis=1), has_mark, strict=True)],
        [PARTS[part] if known else "" for part, known in zip(grown.argmax(axis=1), has_part, strict=True)],
    )


def of_rank(frames: Iterable[pl.DataFrame]) -> Iterable[tuple[Any, pl.DataFrame]]:
    """Each rank with its rows; a frame has all rows of its ranks."""
    for frame in frames:
        if not frame.height:
            continue
        if frame["rank"].n_unique() == 1:
            yield frame["rank"][0], frame
        else:
            for part in frame.partition_by("rank", maintain_order=True):
                yield part["rank"][0], part
