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

from kinetoscope.algorithms.arrays import Bools, Float32s, Floats, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, exclusive, union
from kinetoscope.errors import BrokenTraceError
from kinetoscope.model.history.noise import cleaned

PARTS: Final = ("data", "gap", "forward", "backward", "optimizer", "rest")
"""What the time of a step on the host is made of: `rest` is what of the step is in no other part."""

MEASURED: Final = (*PARTS, "device")

MEMORY: Final = ("memory_used", "memory_reserved", "resident")

EXPLAINING: Final = ("evaluation", "save", "compile", "collection", "window")
"""Kinds of marks that explain time, outer ones first: what one explains is not explained again."""

MOST_MISSING: Final = 16
"""Numbers of steps per step that a series has at most; more are no numbers of steps."""

_NEAR: Final = 10
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
    same = np.concatenate([[False], attempt[1:] == attempt[:-1]])
    pause = np.maximum(np.concatenate([[0], start[1:] - end[:-1]]), 0)
    gap = np.where(same, pause, 0)
    time = np.maximum(end - start, 0) + gap
    last = _is_last(step, first, span)
    rows = np.flatnonzero(last)
    places = step[rows] - first
    explained = _explained(Intervals(end[rows] - time[rows], end[rows]), marks)

    dense = _dense(time[rows], places, span)
    clean = cleaned(dense)
    parts = _parts(frame, rows, gap[rows], time[rows])
    above = np.maximum(dense - clean.level, 0)[places]
    explained *= np.minimum(1, above / np.maximum(explained.sum(axis=1), 1))[:, None]
    # What a mark explains may come as often as it likes.
    has_mark = explained.sum(axis=1) >= _EXPLAINED * above
    rows_of_spikes = np.flatnonzero(clean.spike[places] | (clean.high[places] & has_mark))
    spikes = _spikes(rows_of_spikes, above, step[rows], explained, parts)

    begin = first // block
    pad, count = first - begin * block, (first + span - 1) // block - begin + 1
    at = (places + pad) // block
    steps = np.bincount(at, minlength=count)
    rest = time[rows] - explained.sum(axis=1)
    rest[rows_of_spikes] -= spikes.left
    return RankSeries(
        rank=rank,
        first=first,
        times=dense.astype(np.float32),
        first_block=begin,
        means=_mean(at, count, clean.clipped[places], steps),
        steps=steps,
        clean=np.asarray(np.bincount(at, rest, count), np.float64),
        parts=np.stack([_mean(at, count, each, steps) for each in parts]).astype(np.float32),
        memory=np.stack([_least(at, count, _floats(frame, name)[rows]) for name in MEMORY]).astype(np.float32),
        spikes=spikes,
        explained=dict(zip(EXPLAINING, explained.sum(axis=0).tolist(), strict=True)),
        restart=int(pause[~same].sum()),
        repeated=int(time[~last].sum()),
        whole=int(time.sum() + pause[~same].sum()),
    )


def _is_last(step: Int64s, first: int, span: int) -> Bools:
    """The rows that are the last ones of their step."""
    if len(step) < 2 or bool((step[1:] > step[:-1]).all()):
        return np.ones(len(step), np.bool_)
    row = np.zeros(span, np.int64)
    np.maximum.at(row, step - first, np.arange(len(step)))
    return np.asarray(row[step - first] == np.arange(len(step)))


def _dense(values: Int64s, places: Int64s, span: int) -> Floats:
    if len(values) == span:
        return np.asarray(values[np.argsort(places)] if (np.diff(places) < 0).any() else values, np.float64)
    dense = np.full(span, np.nan)
    dense[places] = values
    return dense


def _explained(windows: Intervals, marks: pl.DataFrame) -> Floats:
    """How much of each window marks of each kind cover, each instant once: float64 [windows, EXPLAINING]."""
    covered = np.zeros((len(windows.start), len(EXPLAINING)))
    marks = marks.filter(pl.col("kind").is_in(EXPLAINING), pl.col("end") > pl.col("start"))
    if not marks.height or not len(windows.start):
        return covered
    low = np.searchsorted(windows.end, marks["start"].to_numpy(), side="right")
    high = np.searchsorted(windows.end, marks["end"].to_numpy(), side="left") + 1
    edges = np.zeros(len(windows.end) + 2, np.int64)
    np.add.at(edges, low, 1)
    np.add.at(edges, np.minimum(np.maximum(high, low), len(windows.end) + 1), -1)
    touched = np.flatnonzero(np.cumsum(edges)[: len(windows.end)] > 0)
    kinds = [marks.filter(kind=kind) for kind in EXPLAINING]
    unions = [union(each["start"].to_numpy(), each["end"].to_numpy()) for each in kinds]
    some = Intervals(windows.start[touched], windows.end[touched])
    covered[touched] = exclusive(some, unions)[:, :-1]
    return covered


def _parts(frame: pl.DataFrame, rows: Int64s, gap: Int64s, time: Int64s) -> list[Floats]:
    """Each of MEASURED by step, ns; NaN where it is not known."""
    known = {name: _floats(frame, name)[rows] for name in MEASURED if name not in ("gap", "rest")}
    rest = (time - gap).astype(np.float64)
    for name in PARTS:
        if name in known:
            rest -= np.nan_to_num(known[name])
    known |= {"gap": gap.astype(np.float64), "rest": np.maximum(rest, 0)}
    return [known[name] for name in MEASURED]


def _floats(frame: pl.DataFrame, name: str) -> Floats:
    return frame[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _spikes(rows: Int64s, above: Floats, step: Int64s, explained: Floats, parts: list[Floats]) -> Spikes:
    """The spikes, which are some of the rows, and what marks and parts make up half of each and more."""
    excess = above[rows]
    near = np.clip(rows[:, None] + np.arange(-_NEAR, _NEAR + 1), 0, max(len(step) - 1, 0))
    grown = np.stack([each[rows] - np.median(each[near], axis=1) for each in parts[: len(PARTS)]], axis=1)
    grown = np.nan_to_num(grown)
    has_part = grown.max(axis=1) >= _EXPLAINED * excess
    mark = explained[rows]
    has_mark = mark.sum(axis=1) >= _EXPLAINED * excess
    return Spikes(
        step[rows],
        excess,
        np.maximum(excess - mark.sum(axis=1), 0),
        [EXPLAINING[kind] if known else "" for kind, known in zip(mark.argmax(axis=1), has_mark, strict=True)],
        [PARTS[part] if known else "" for part, known in zip(grown.argmax(axis=1), has_part, strict=True)],
    )


def _mean(at: Int64s, count: int, values: Floats, steps: Int64s) -> Floats:
    known = ~np.isnan(values)
    if not known.any():
        return np.full(count, np.nan)
    number = steps if known.all() else np.bincount(at[known], minlength=count)
    total = np.bincount(at[known], values[known], count)
    return np.asarray(np.where(number > 0, total / np.maximum(number, 1), np.nan))


def _least(at: Int64s, count: int, values: Floats) -> Floats:
    least = np.full(count, np.inf)
    known = ~np.isnan(values)
    if known.any():
        np.minimum.at(least, at[known], values[known])
    return np.asarray(np.where(np.isinf(least), np.nan, least))


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
