"""Rows of different ranks matched as one collective.

By process group and number (`Seq`), which files of newer torch have; else by the order of calls within a process group;
else, where no group is recorded, by the order of like calls. Never by the place in a file. Training repeats itself: in
recordings that begin in different steps, clocks or the numbers of the profiler's steps identify calls. Ambiguous calls
stay unmatched and are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Int64s, scattered
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.collectives.calls import collective_calls, with_source
from kinetoscope.model.matching.clocks import Clocks, aligned, clocks
from kinetoscope.model.matching.columns import CallArrays
from kinetoscope.model.matching.inferred_groups import agreed_groups, inferred_groups
from kinetoscope.model.matching.order import Offsets, by_order
from kinetoscope.model.matching.point_to_point import between_two, between_unnamed
from kinetoscope.model.matching.sequences import by_shape
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note

SEQUENCE, ORDER, SHAPE = "sequence", "order", "shape"
MATCH_METHODS: Final = (SEQUENCE, ORDER, SHAPE)
"""Evidence of a match, the most certain first: process group and number; process group and order of calls; order of
calls that are alike in kind, type and size."""

_MAX_OFFSET_NS: Final = 1 << 53
"""Offset of ranks that ran together: a hundred days."""


@dataclass(frozen=True)
class Matched:
    """The calls of all ranks.

    Attributes:
        frame: sorted by rank, start, end and row, with `match`, the number of the collective, the same on all its ranks
            and ascending in time, null where none is known; and `matched_by`, one of `MATCH_METHODS`.
        ranks: how many ranks there are.
        calls, unmatched: how many calls, and how many of them have no match.
        notes: what was not matched, and by what evidence the others were.
    """

    frame: pl.DataFrame
    ranks: int
    calls: int
    unmatched: int
    notes: tuple[Note, ...]


@dataclass(frozen=True)
class Aligned:
    """Matched calls on one clock.

    Attributes:
        frame: as of `Matched`.
        clocks: how the clocks were set against each other.
        notes: what was not matched, or not aligned.
    """

    frame: pl.DataFrame
    clocks: Clocks
    notes: tuple[Note, ...]


def join(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """The rows of two sets of ranks."""
    return pl.concat([one, other])


def match_and_align(frame: pl.DataFrame) -> Aligned:
    """Match the calls of all ranks, and set their clocks by it."""
    matched = match(frame)
    offsets = clocks(matched.frame)
    return Aligned(aligned(matched.frame, offsets), offsets, (*matched.notes, *offsets.notes))


def rank_offsets(traces: Sequence[Trace]) -> tuple[list[int], tuple[str, ...]]:
    """Offsets of the time 0 of each trace from that of the first, on one clock, so that ranks can be drawn together.

    Returns ns by trace, and notes on how they were set.
    """
    if len(traces) < 2:
        return [0] * len(traces), ()
    return offsets_of(
        pl.concat([with_source(collective_calls(trace), trace) for trace in traces]),
        pl.concat([origin_row(trace) for trace in traces]),
    )


def origin_row(trace: Trace) -> pl.DataFrame:
    """The time 0 of a trace as `end`, ns since 1970, with what identifies its clock."""
    return with_source(pl.DataFrame({"end": [trace.base + origin_of_time(trace)]}, {"end": pl.Int64}), trace)


def offsets_of(calls: pl.DataFrame, origins: pl.DataFrame) -> tuple[list[int], tuple[str, ...]]:
    """Offsets of `origins`, rows of `origin_row`, from the first, as `rank_offsets` has them, by all collectives."""
    times = origins["end"].to_list()
    notes: tuple[Note, ...] = (
        Note("CLOCKS_NOT_ALIGNED", "No collectives were recorded: clocks of ranks are as the files have them."),
    )
    if len(calls):
        collectives = match_and_align(calls)
        times, notes = aligned(origins, collectives.clocks)["end"].to_list(), collectives.clocks.notes
    shifts = [time - times[0] for time in times]
    if max(map(abs, shifts)) > _MAX_OFFSET_NS:
        note = Note(
            "RANKS_DAYS_APART",
            "The ranks were recorded more than a hundred days apart: each is shown from its own beginning.",
        )
        return [0] * len(shifts), (note,)
    return shifts, notes


def match(frame: pl.DataFrame) -> Matched:
    """Match the calls of all ranks: rows of `collective_calls` with a `rank` and a `host`, in any order."""
    frame = agreed_groups(frame.sort("rank", "start", "end", "row", "name"))
    calls = CallArrays.of(frame)
    ids = np.full(len(frame), -1, np.int64)
    how = np.full(len(frame), -1, np.int8)
    ambiguous: list[int] = []
    for place, numbers in _numbers(calls, ids, ambiguous):
        chosen = (numbers >= 0) & (ids < 0)
        ids[chosen] = numbers[chosen] + (ids.max(initial=-1) + 1)
        how[chosen] = place
    ids = _renumbered(ids, calls.start)
    how[ids < 0] = -1
    matched = frame.with_columns(
        match=polars_columns.rows(ids),
        matched_by=polars_columns.labelled(how, lambda place: MATCH_METHODS[place]).cast(pl.String),
    )
    matched = inferred_groups(matched)
    unmatched = int((ids < 0).sum())
    ranks = int(calls.rank.max(initial=-1)) + 1
    return Matched(matched, ranks, len(frame), unmatched, tuple(_notes(matched, ranks, sum(ambiguous))))


def _numbers(calls: CallArrays, ids: Int64s, ambiguous: list[int]) -> Iterator[tuple[int, Int64s]]:
    """Matches by one kind of evidence after the other: its place in `MATCH_METHODS`; a number for each call, or −1.

    `ids` are the matches so far, which the caller updates. The number of calls that may be of several groups is added
    to `ambiguous`.
    """
    yield MATCH_METHODS.index(SEQUENCE), _by_sequence(calls)
    offsets = Offsets(calls, ids)
    free = (ids < 0) & calls.recorded & ~calls.single & (calls.seq < 0)
    yield MATCH_METHODS.index(ORDER), by_order(calls, free, calls.group, offsets, rounds=1)
    offsets = Offsets(calls, ids)
    free = (ids < 0) & ~calls.recorded & ~calls.single
    free &= ~calls.other
    numbers, count = by_shape(calls, free, ids)
    ambiguous.append(count)
    yield MATCH_METHODS.index(SHAPE), numbers
    yield MATCH_METHODS.index(ORDER), between_two(calls, Offsets(calls, ids))
    yield MATCH_METHODS.index(SHAPE), between_unnamed(calls, Offsets(calls, ids))


# --- by number


def _by_sequence(calls: CallArrays) -> Int64s:
    """Calls of one process group, number and kind; point-to-point numbers are each rank's own."""
    rows = np.flatnonzero(calls.recorded & ~calls.single & (calls.seq >= 0))
    codes, _ = group(calls.group[rows], calls.seq[rows], calls.kind[rows])
    codes, _ = group(codes, _occurrence(codes, calls.rank[rows]))
    return scattered(
        len(calls.rank), rows, np.where(np.bincount(codes)[codes] > 1, codes, -1) if len(codes) else codes, np.int64
    )


def _occurrence(*keys: NDArray[Any]) -> Int64s:
    """Number of earlier rows with the same keys: int64 [rows]."""
    codes, _ = group(*keys) if len(keys[0]) else (np.empty(0, np.int32), None)
    order = np.argsort(codes, kind="stable")
    begins = np.concatenate([[True], np.diff(codes[order]) != 0])[: len(codes)]
    first = np.maximum.accumulate(np.where(begins, np.arange(len(codes)), 0))
    result = np.empty(len(codes), np.int64)
    result[order] = np.arange(len(codes)) - first
    return result


# --- what came out


def _renumbered(ids: Int64s, start: Int64s) -> Int64s:
    """The numbers that several calls have, from 0 on in order of their first start, then of the first row."""
    rows = np.flatnonzero(ids >= 0)
    if not len(rows):
        return ids
    frame = pl.DataFrame({"id": ids[rows], "start": start[rows], "row": rows})
    places = frame.group_by("id").agg(pl.len(), pl.col("start").min(), pl.col("row").min()).filter(pl.col("len") > 1)
    places = places.sort("start", "row").with_row_index("place")
    numbers = scattered(int(ids.max()) + 1, places["id"].to_numpy(), places["place"].to_numpy(), np.int64)
    return np.where(ids >= 0, numbers[np.maximum(ids, 0)], -1)


def _notes(frame: pl.DataFrame, ranks: int, ambiguous: int) -> Iterator[Note]:
    if ranks < 2 or not len(frame):
        return
    counts = frame.group_by("match").agg(pl.len(), by=pl.col("matched_by").first())
    unmatched = frame.filter(pl.col("match").is_null())
    if len(unmatched):
        kinds = unmatched["kind"].value_counts(sort=True).sort("count", "kind", descending=[True, False])
        listed = ", ".join(f"{count} {kind}" for kind, count in kinds.iter_rows())
        yield Note(
            "CALLS_UNMATCHED",
            f"{len(unmatched):,} of {len(frame):,} calls have no counterpart on another rank ({listed}): "
            "their waiting is unknown.",
        )
    if ambiguous:
        yield Note(
            "GROUPS_AMBIGUOUS",
            f"{ambiguous:,} of these calls name no process group, and several groups that act alike at the same time "
            "fit: they are left unmatched (torch 2.4 and newer record the group of NCCL's collectives).",
        )
    by = {how: len(counts.filter(by=how)) for how in MATCH_METHODS}
    if by[SHAPE]:
        yield Note(
            "MATCHED_BY_SHAPE",
            f"{by[SHAPE]:,} collectives name no process group: they are matched by the order of calls that are alike, "
            "and by overlap in time.",
        )
    if by[ORDER]:
        yield Note(
            "MATCHED_BY_ORDER",
            f"{by[ORDER]:,} collectives have no number (Seq): they are matched by their order in the process group.",
        )
