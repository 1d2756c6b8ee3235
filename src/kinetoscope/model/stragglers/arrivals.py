"""Collectives as ranks went through them: the history of each rank, on one clock.

A *row* is one collective as one rank took part in it. It *arrives* when the rank enters the collective.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.model.collectives.attributes import POINT_TO_POINT
from kinetoscope.model.collectives.process_groups import ranks_of
from kinetoscope.model.stragglers.host_activity import ACTIVITIES, COVERED
from kinetoscope.model.stragglers.late_launches import HELD
from kinetoscope.model.stragglers.pipeline_stages import stages

_STILL: Final = 10
"""A rank stands still in a collective if it computes for no more than a tenth of it."""


@dataclass(frozen=True)
class Rows:
    """Collectives as the ranks took part in them, by rank and in the order of the program.

    Attributes:
        rank: int64 [rows]. part: int64 [rows], ascending: rows of one part have one history, a rank's in one recording.
        match: int32 [rows], which collective, from 0.
        arrival: int64 [rows], ns on one clock.
        came: int64 [rows], when this and all before it had arrived: streams overtake each other.
        role: int32 [rows], a code; only histories of equal roles are compared.
        pairwise: bool [rows], sending and receiving: waiting there is a pipeline bubble.
        stage: int32 [rows], a code for what the rank of the row sends and receives in each step: stages of a pipeline
            that differ in that do different work, and are not compared.
        did: int64 [rows, 6], ns of each activity since the rank came to the row before; communication includes waiting.
        barrier: bool [rows], whether the rank stood still, computing next to nothing, until the collective was over.
        computed: intervals in which the rank computed during the collective, ns on that clock: of row i those at
            offsets[i]:offsets[i + 1].
        held: intervals in which the host left a collective in the open, ns on that clock; held_row: int64 [held], the
            row of each, ascending; held_by: int64 [held], which of HOLDING.
    """

    rank: Int64s
    part: Int64s
    match: Int32s
    arrival: Int64s
    came: Int64s
    role: Int32s
    pairwise: Bools
    stage: Int32s
    did: Int64s
    barrier: Bools
    computed: Intervals
    offsets: Int64s
    held: Intervals
    held_row: Int64s
    held_by: Int64s

    def __len__(self) -> int:
        return len(self.rank)


def rows_of(frame: pl.DataFrame) -> tuple[Rows, pl.DataFrame]:
    """The rows of a frame of `before_collectives` of all ranks, on one clock, and that frame: one line a row.

    Needs the columns of `matching.match`. `match` is renumbered from 0; what is not `matched` has one of its own, in
    which nobody waits: it is part of what the rank went through. Calls that are not matched though all ranks of the
    group are there (parts of recordings are missing) are no rows: what was done before them counts for the next one.
    """
    ordered = frame.sort("rank", "cycle", "place").with_columns(matched=pl.col("match").is_not_null())
    ordered = ordered.with_columns(pl.col(ACTIVITIES).cum_sum().over("rank", "cycle"))
    ordered = ordered.filter(pl.col("matched") | pl.col("group_ranks").is_in(_incomplete(frame)))
    ordered = ordered.with_columns(
        pl.col(name) - pl.col(name).shift(1, fill_value=0).over("rank", "cycle") for name in ACTIVITIES
    )
    number = pl.col("match").rank("dense").cast(pl.Int64) - 1
    alone = pl.col("match").drop_nulls().n_unique() + (~pl.col("matched")).cum_sum() - 1
    ordered = ordered.with_columns(
        match=pl.when("matched").then(number).otherwise(alone).cast(pl.Int32),
        direction=pl.when(pl.col("kind").is_in(POINT_TO_POINT)).then(
            (pl.col("destination_rank") - pl.col("rank")).sign()
        ),
    ).with_columns(members=pl.len().over("match"))
    role = (
        ordered.select(pl.struct("kind", "direction", "group_description", "group_size").rank("dense"))
        .to_series()
        .to_numpy()
    )
    did = ordered.select(pl.col(ACTIVITIES)).to_numpy()
    count = ordered.select(pl.col(COVERED[0]).list.len()).to_series().to_numpy().astype(np.int64)
    start = ordered["start"].to_numpy()
    came = ordered.select(pl.col("start").cum_max().over("rank", "cycle")).to_series().to_numpy()
    computed = ordered.select(pl.col(COVERED[1]).list.sum() - pl.col(COVERED[0]).list.sum()).to_series().to_numpy()
    flat = ordered.filter(pl.col(COVERED[0]).list.len() > 0).select(pl.col(COVERED).explode())
    shift = np.repeat(start, count)
    held_row, held, held_by = _held(ordered, start)
    return Rows(
        rank=ordered["rank"].to_numpy(),
        part=ordered.select(pl.struct("rank", "cycle").rank("dense").cast(pl.Int64)).to_series().to_numpy(),
        match=ordered["match"].to_numpy(),
        arrival=start,
        came=came,
        role=role.astype(np.int32),
        pairwise=ordered.select(
            pl.col("kind").is_in(POINT_TO_POINT) & ((pl.col("kind") != "send_recv") | (pl.col("members") <= 2))
        )
        .to_series()
        .to_numpy(),
        stage=ordered.select("rank")
        .join(stages(frame), on="rank", how="left", maintain_order="left")["stage"]
        .to_numpy(),
        did=np.column_stack([did[:, :5], did[:, 5] + did[:, 6]]),
        barrier=(_STILL * computed <= ordered["end"].to_numpy() - start) & (start == came),
        computed=Intervals(flat[COVERED[0]].to_numpy() + shift, flat[COVERED[1]].to_numpy() + shift),
        offsets=np.concatenate([[0], np.cumsum(count)]),
        held=held,
        held_row=held_row,
        held_by=held_by,
    ), ordered


def _held(ordered: pl.DataFrame, start: Int64s) -> tuple[Int64s, Intervals, Int64s]:
    """HELD of the rows, which begin at `start`; nothing where there is no such column."""
    if HELD not in ordered.columns:
        nothing = np.empty(0, np.int64)
        return nothing, Intervals(nothing, nothing), nothing
    count = ordered.select(pl.col(HELD).list.len()).to_series().to_numpy().astype(np.int64) // 3
    flat = ordered.filter(pl.col(HELD).list.len() > 0)[HELD].explode().to_numpy().reshape(-1, 3)
    row = np.repeat(np.arange(len(ordered)), count)
    return row, Intervals(start[row] + flat[:, 0], start[row] + flat[:, 1]), flat[:, 2]


def _incomplete(frame: pl.DataFrame) -> list[str]:
    """Lists of ranks of which not all are here."""
    here = set(frame["rank"].unique().to_list())
    texts: list[str] = frame["group_ranks"].drop_nulls().unique().sort().to_list()
    return [text for text in texts if not here.issuperset(ranks_of(text))]


def parts_of(rows: Rows) -> list[slice]:
    """The rows of each history."""
    bounds = [0, *(np.flatnonzero(np.diff(rows.part)) + 1).tolist(), len(rows)]
    return [slice(low, high) for low, high in pairwise(bounds) if high > low]
