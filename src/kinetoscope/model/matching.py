"""Which rows of different ranks are one collective.

By process group and number (`Seq`), which files of newer torch have; else by the order of calls within a process group;
else, where no group is recorded, by the order of like calls. Never by the place in a file. What cannot be told stays
unmatched and is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.alignment import Witness, aligned_pairs
from kinetoscope.algorithms.grouping import group
from kinetoscope.model import arrays
from kinetoscope.model.collectives import BINDING, POINT_TO_POINT, UNEVEN
from kinetoscope.model.matched_groups import agreed_groups, inferred_groups

SEQUENCE, ORDER, SHAPE = "sequence", "order", "shape"
HOW: Final = (SEQUENCE, ORDER, SHAPE)
"""What a match rests on, the most certain first: process group and number; process group and order of calls; order of
calls that are alike in kind, type and size."""

SYNCHRONIZING: Final = BINDING
"""Kinds of which no rank leaves before all have come."""

_PAIRINGS: Final = 4096
"""Pairs of ranks that are looked at for calls of unknown groups, about."""

_ROUNDS: Final = 16

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Matched:
    """The calls of all ranks.

    Attributes:
        frame: sorted by rank, start, end and row, with `match`, the number of the collective, the same on all its ranks
            and ascending in time, null where none is known; and `matched_by`, one of `HOW`.
        ranks: how many ranks there are.
        calls, unmatched: how many calls, and how many of them have no match.
        notes: what must be said.
    """

    frame: pl.DataFrame
    ranks: int
    calls: int
    unmatched: int
    notes: tuple[str, ...]


def join(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """The rows of two sets of ranks."""
    return pl.concat([one, other])


def match(frame: pl.DataFrame) -> Matched:
    """Match the calls of all ranks: rows of `collective_calls` with a `rank` and a `host`, in any order."""
    frame = agreed_groups(frame.sort("rank", "start", "end", "row", "name"))
    calls = _Calls.of(frame)
    ids = np.full(len(frame), -1, np.int64)
    how = np.full(len(frame), -1, np.int8)
    for place, found in _found(calls, ids):
        chosen = (found >= 0) & (ids < 0)
        ids[chosen] = found[chosen] + (ids.max(initial=-1) + 1)
        how[chosen] = place
    ids = _renumbered(ids, calls.start)
    how[ids < 0] = -1
    matched = frame.with_columns(
        match=arrays.rows(ids), matched_by=arrays.labelled(how, lambda place: HOW[place]).cast(pl.String)
    )
    matched = inferred_groups(matched)
    unmatched = int((ids < 0).sum())
    ranks = int(calls.rank.max(initial=-1)) + 1
    return Matched(matched, ranks, len(frame), unmatched, tuple(_notes(matched, ranks)))


@dataclass(frozen=True)
class _Calls:
    """The columns that matching needs, int64 or bool [calls]; codes are numbers of distinct values."""

    rank: Int64s
    number: Int64s
    start: Int64s
    end: Int64s
    group: Int64s
    signature: Int64s
    kind: Int64s
    seq: Int64s
    source: Int64s
    destination: Int64s
    recorded: NDArray[np.bool_]
    binding: NDArray[np.bool_]
    single: NDArray[np.bool_]
    sends: NDArray[np.bool_]
    on_host: NDArray[np.bool_]
    other: NDArray[np.bool_]

    @classmethod
    def of(cls, frame: pl.DataFrame) -> _Calls:
        uneven = pl.col("kind").is_in(UNEVEN)
        size = pl.when(~uneven).then(pl.col("bytes"))
        name = pl.when(pl.col("bytes").is_null() & ~uneven & (pl.col("kind") != "barrier")).then(pl.col("name"))
        facts = frame.select(
            rank=pl.col("rank").rank("dense") - 1,
            group=_code("group"),
            signature=pl.struct("kind", "dtype", size.alias("size"), name.alias("name"), "on_host").rank("dense"),
            kind=_code("kind"),
            recorded=pl.col("candidates").is_null() & pl.col("group").is_not_null(),
            binding=pl.col("kind").is_in(BINDING),
            single=pl.col("kind").is_in(POINT_TO_POINT),
            sends=pl.col("kind") == "send",
            on_host=pl.col("on_host"),
            other=pl.col("kind") == "other",
        )
        numbers = {
            name: arrays.integers(frame[column].fill_null(-1))[0]
            for name, column in (
                ("number", "rank"), ("start", "start"), ("end", "end"), ("seq", "seq"),
                ("source", "source_rank"), ("destination", "destination_rank"),
            )
        }  # fmt: skip
        flags = {each: facts[each].to_numpy() for each in ("recorded", "binding", "single", "sends", "on_host", "other")}
        codes = {each: arrays.integers(facts[each])[0] for each in ("rank", "group", "signature", "kind")}
        return cls(**codes, **numbers, **flags)

    def witness(self, rows: Int64s) -> Witness:
        return Witness(self.start[rows], self.end[rows], self.signature[rows], self.binding[rows])


def _code(column: str) -> pl.Expr:
    return pl.col(column).rank("dense").fill_null(0).cast(pl.Int64)


def _found(calls: _Calls, ids: Int64s) -> Iterator[tuple[int, Int64s]]:
    """Matches of one way after the other: its place in `HOW`, and a number for each call, −1 for none.

    `ids` are those found so far, as the caller keeps them between one way and the next.
    """
    yield HOW.index(SEQUENCE), _by_sequence(calls)
    offsets = _offsets(calls, ids)
    free = (ids < 0) & calls.recorded & ~calls.single & (calls.seq < 0)
    yield HOW.index(ORDER), _by_order(calls, free, calls.group, offsets, rounds=1)
    offsets = _offsets(calls, ids)
    free = (ids < 0) & ~calls.recorded & ~calls.single
    free &= ~calls.other
    yield HOW.index(SHAPE), _by_order(calls, free, calls.on_host.astype(np.int64), offsets, rounds=_ROUNDS)
    yield HOW.index(ORDER), _between_two(calls, _offsets(calls, ids))
    yield HOW.index(SHAPE), _between_unnamed(calls, _offsets(calls, ids))


# --- by number


def _by_sequence(calls: _Calls) -> Int64s:
    """Calls of one process group, number and kind; point-to-point numbers are each rank's own and tell nothing."""
    rows = np.flatnonzero(calls.recorded & ~calls.single & (calls.seq >= 0))
    codes, _ = group(calls.group[rows], calls.seq[rows], calls.kind[rows])
    codes, _ = group(codes, _occurrence(codes, calls.rank[rows]))
    found = np.full(len(calls.rank), -1, np.int64)
    found[rows] = codes
    return _of_several(found)


def _occurrence(*keys: NDArray[Any]) -> Int64s:
    """How often the same keys occurred before each row: int64 [rows]."""
    codes, _ = group(*keys) if len(keys[0]) else (np.empty(0, np.int32), None)
    order = np.argsort(codes, kind="stable")
    begins = np.concatenate([[True], np.diff(codes[order]) != 0])[: len(codes)]
    first = np.maximum.accumulate(np.where(begins, np.arange(len(codes)), 0))
    result = np.empty(len(codes), np.int64)
    result[order] = np.arange(len(codes)) - first
    return result


def _of_several(found: Int64s) -> Int64s:
    """The numbers that several calls have, the others −1; a number has a rank once by how it is made."""
    counts = np.bincount(found[found >= 0], minlength=1)
    return np.where((found >= 0) & (counts[np.maximum(found, 0)] > 1), found, -1)


# --- by order


def _by_order(calls: _Calls, free: NDArray[np.bool_], bucket: Int64s, offsets: Int64s, *, rounds: int) -> Int64s:
    """Calls of one bucket side by side, rank after rank with the one that has most; what is left over once more."""
    found = np.full(len(calls.rank), -1, np.int64)
    rows = np.flatnonzero(free)
    rows = rows[np.argsort(bucket[rows], kind="stable")]  # within a bucket by rank and start, as all rows are
    number = 0
    for mine in np.split(rows, np.flatnonzero(np.diff(bucket[rows])) + 1):
        parts = np.split(mine, np.flatnonzero(np.diff(calls.rank[mine])) + 1)
        left = max(1, min(rounds, _PAIRINGS // max(len(parts), 1)))
        while left and len(parts) > 1:
            pivot = max(range(len(parts)), key=lambda place: (len(parts[place]), -place))
            number = _beside(calls, found, parts.pop(pivot), parts, offsets, number)
            parts = [rest for part in parts if len(rest := part[found[part] < 0])]
            left -= 1
    return found


def _beside(
    calls: _Calls, found: Int64s, pivot: Int64s, parts: list[Int64s], offsets: Int64s, number: int
) -> int:
    """Number the calls of one rank that others have too, from `number` on; the next free number comes back."""
    one = calls.witness(pivot)
    taken = np.zeros(len(pivot), np.bool_)
    for part in parts:
        offset = int(offsets[calls.rank[part[0]]] - offsets[calls.rank[pivot[0]]])
        mine, theirs = aligned_pairs(one, calls.witness(part), offset)
        found[part[theirs]] = number + mine
        taken[mine] = True
    found[pivot[taken]] = number + np.flatnonzero(taken)
    return number + len(pivot)


def _offsets(calls: _Calls, ids: Int64s) -> Int64s:
    """How far the clock of each rank is ahead of the others', by what is matched: int64 [ranks], ns."""
    ranks = int(calls.rank.max(initial=-1)) + 1
    rows = np.flatnonzero((ids >= 0) & calls.binding)
    if not len(rows):
        return np.zeros(ranks, np.int64)
    frame = pl.DataFrame({"id": ids[rows], "rank": calls.rank[rows], "end": calls.end[rows]})
    ahead = frame.select("rank", ahead=pl.col("end") - pl.col("end").min().over("id"))
    middle = ahead.group_by("rank").agg(pl.col("ahead").quantile(0.5, "lower"))
    result = np.zeros(ranks, np.int64)
    result[middle["rank"].to_numpy()] = middle["ahead"].cast(pl.Int64).to_numpy()
    return result


# --- point to point


def _between_two(calls: _Calls, offsets: Int64s) -> Int64s:
    """Sends and receives of one pair of ranks, in order; an exchange in one kernel if both exchange with one rank."""
    found = np.full(len(calls.rank), -1, np.int64)
    low, high = np.minimum(calls.source, calls.destination), np.maximum(calls.source, calls.destination)
    known = calls.single & (calls.source >= 0) & (calls.destination >= 0)
    one_way = known & ((calls.number == calls.source) | (calls.number == calls.destination)) & (low != high)
    rows = np.flatnonzero(one_way & ~_is_exchange(calls))
    number = _paired(calls, found, rows, (calls.group, calls.source, calls.destination), calls.sends, offsets, 0)
    rows = np.flatnonzero(calls.single & _is_exchange(calls) & (low >= 0) & (low == high) & (low != calls.number))
    peers = np.minimum(calls.number, low), np.maximum(calls.number, low)
    _paired(calls, found, rows, (calls.group, *peers), calls.number < low, offsets, number)
    return found


def _is_exchange(calls: _Calls) -> NDArray[np.bool_]:
    """Kernels that send and receive at once: both peers are told, and neither is the rank itself."""
    return (calls.source != calls.number) & (calls.destination != calls.number)


def _paired(
    calls: _Calls, found: Int64s, rows: Int64s, keys: tuple[Int64s, ...], is_first: NDArray[np.bool_],
    offsets: Int64s, number: int,
) -> int:  # fmt: skip
    """Number what the two sides of each key have in common, from `number` on; the next free number comes back."""
    if not len(rows):
        return number
    codes, _ = group(*(key[rows] for key in keys))
    order = np.argsort(codes, kind="stable")
    for mine in np.split(rows[order], np.flatnonzero(np.diff(codes[order])) + 1):
        one, other = (part[np.argsort(calls.start[part], kind="stable")] for part in
                      (mine[is_first[mine]], mine[~is_first[mine]]))  # fmt: skip
        if not len(one) or not len(other):
            continue
        offset = int(offsets[calls.rank[other[0]]] - offsets[calls.rank[one[0]]])
        places, theirs = aligned_pairs(_alike(calls, one), _alike(calls, other), offset)
        # Nothing is received before it is sent.
        late = calls.end[other[theirs]] - offset >= calls.start[one[places]]
        found[one[places[late]]] = number + places[late]
        found[other[theirs[late]]] = number + places[late]
        number += len(one)
    return number


def _alike(calls: _Calls, rows: Int64s) -> Witness:
    """Both sides of point-to-point calls have signatures of their own: what must agree here is their order."""
    return Witness(calls.start[rows], calls.end[rows], np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_))


def _between_unnamed(calls: _Calls, offsets: Int64s) -> Int64s:
    """Sends and receives that name no rank, as gloo's, where only one rank sends and only one receives at all."""
    found = np.full(len(calls.rank), -1, np.int64)
    rows = np.flatnonzero(calls.single & (calls.source < 0) & (calls.destination < 0))
    sends, receives = rows[calls.sends[rows]], rows[~calls.sends[rows]]
    if len(np.unique(calls.rank[sends])) == len(np.unique(calls.rank[receives])) == 1 and len(sends) == len(receives):
        same = np.zeros(len(calls.rank), np.int64)
        _paired(calls, found, rows, (same,), calls.sends, offsets, 0)
    return found


# --- what came out


def _renumbered(ids: Int64s, start: Int64s) -> Int64s:
    """The numbers that several calls have, from 0 on in order of their first start, then of the first row."""
    rows = np.flatnonzero(ids >= 0)
    if not len(rows):
        return ids
    frame = pl.DataFrame({"id": ids[rows], "start": start[rows], "row": rows})
    places = frame.group_by("id").agg(pl.len(), pl.col("start").min(), pl.col("row").min()).filter(pl.col("len") > 1)
    places = places.sort("start", "row").with_row_index("place")
    numbers = np.full(int(ids.max()) + 1, -1, np.int64)
    numbers[places["id"].to_numpy()] = places["place"].to_numpy()
    return np.where(ids >= 0, numbers[np.maximum(ids, 0)], -1)


def _notes(frame: pl.DataFrame, ranks: int) -> Iterator[str]:
    if ranks < 2 or not len(frame):
        return
    counts = frame.group_by("match").agg(pl.len(), by=pl.col("matched_by").first())
    unmatched = frame.filter(pl.col("match").is_null())
    if len(unmatched):
        kinds = unmatched["kind"].value_counts(sort=True).sort("count", "kind", descending=[True, False])
        listed = ", ".join(f"{count} {kind}" for kind, count in kinds.iter_rows())
        yield (
            f"{len(unmatched):,} of {len(frame):,} calls have no counterpart on another rank ({listed}): "
            "waiting cannot be told for them."
        )
    by = {how: len(counts.filter(by=how)) for how in HOW}
    if by[SHAPE]:
        yield (
            f"{by[SHAPE]:,} collectives name no process group: they are matched by the order of calls that are alike, "
            "and by overlap in time."
        )
    if by[ORDER]:
        yield f"{by[ORDER]:,} collectives have no number (Seq): they are matched by their order in the process group."
