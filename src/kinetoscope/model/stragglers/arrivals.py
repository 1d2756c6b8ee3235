"""Collectives as ranks went through them: the history of each rank, on one clock.

A *row* is one collective as one rank took part in it. It *arrives* when the rank enters the collective.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.deferred_waiting import DeferredWaiting, Rows, deferred_waiting
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, merge, union
from kinetoscope.model.collectives.attributes import POINT_TO_POINT
from kinetoscope.model.collectives.process_groups import ranks_of
from kinetoscope.model.stragglers.host_activity import ACTIVITIES, COVERED, QUEUED
from kinetoscope.model.stragglers.late_launches import HOST_EXPOSED
from kinetoscope.model.stragglers.pipeline_stages import stages

_MIN_BARRIER_RATIO: Final = 10
"""Length of a collective / computation during it, from which on the rank stands still in it."""


@dataclass(frozen=True)
class Arrivals:
    """Collectives as the ranks took part in them, by rank and in the order of the program.

    Attributes:
        rank: int64 [rows].
        history: int64 [rows], ascending: a code for the rank and the recording.
        match: int32 [rows], the number of the collective, from 0.
        arrival: int64 [rows], ns on one clock.
        reached: int64 [rows], when this and all before it had arrived: streams overtake each other.
        role: int32 [rows], a code; only histories of equal roles are compared.
        pairwise: bool [rows], sending and receiving: waiting there is a pipeline bubble.
        stage: int32 [rows], a code for what the rank of the row sends and receives in each step: stages of a pipeline
            that differ in that do different work, and are not compared.
        did: int64 [rows, 6], ns of each activity since the row before; communication includes waiting.
        barrier: bool [rows], whether the rank stood still, computing next to nothing, until the collective was over.
        computed: intervals in which the rank computed during the collective, ns on that clock: of row i those at
            offsets[i]:offsets[i + 1].
        end: int64 [rows], when the rank left, ns on that clock.
        stream: int64 [rows], a code for the history and the stream that the row ran on.
        queued: int64 [rows], how much sooner it could have begun, had its stream been free, ns.
        host_exposed: intervals in which the host left a collective exposed, ns on that clock; exposed_row: int64
            [intervals], the row of each, ascending; exposed_by: int64 [intervals], its place in HOST_CAUSES.
    """

    rank: Int64s
    history: Int64s
    match: Int32s
    arrival: Int64s
    reached: Int64s
    role: Int32s
    pairwise: Bools
    stage: Int32s
    did: Int64s
    barrier: Bools
    computed: Intervals
    offsets: Int64s
    end: Int64s
    stream: Int64s
    queued: Int64s
    host_exposed: Intervals
    exposed_row: Int64s
    exposed_by: Int64s

    def __len__(self) -> int:
        return len(self.rank)

    def histories(self) -> list[slice]:
        """The rows of each history."""
        bounds = [0, *(np.flatnonzero(np.diff(self.history)) + 1).tolist(), len(self)]
        return [slice(low, high) for low, high in pairwise(bounds) if high > low]

    def exposed_time(self, since: Int64s, until: Int64s) -> Int64s:
        """Time between two instants that no computation of each row's rank covers, ns: int64 [rows]."""
        row = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        inside = np.minimum(self.computed.end, until[row]) - np.maximum(self.computed.start, since[row])
        busy = np.zeros(len(self), np.int64)
        np.add.at(busy, row, np.maximum(inside, 0))
        return np.asarray(np.maximum(until - since, 0) - busy)

    def still(self, until: Int64s) -> Int64s:
        """Time at the end of each row, after `until`, in which its rank stands still: int64 [rows], ns.

        It computes nothing, nor is its host late. What rows have in common counts in the first of them.
        """
        row = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        since = until.copy()
        np.maximum.at(since, row, self.computed.end)
        np.maximum.at(since, self.exposed_row, self.host_exposed.end)
        for history in self.histories():
            ends = np.maximum.accumulate(self.end[history])[:-1]
            since[history][1:] = np.maximum(since[history][1:], ends)
        return np.asarray(np.maximum(self.end - since, 0), np.int64)

    def deferred(self, until: Int64s) -> DeferredWaiting:
        """Time that the waiting until some instants, beneath the computation of each row's rank, puts off."""
        in_the_open = self.exposed_time(self.arrival, until)
        rows = Rows(
            stream=self.stream,
            end=self.end,
            ready=self.arrival - self.queued,
            hidden=np.maximum(until - self.arrival, 0) - in_the_open,
            open=in_the_open,
            exposed=self.still(until),
        )
        return deferred_waiting(rows, self.arrival)

    def waiting(self, history: slice, until: Int64s, put_off: Int64s) -> Intervals:
        """The union of the intervals in which the rank of a history waits in collectives and computes nothing.

        Args:
            history: its rows.
            until: int64 [rows], when each row has waited long enough.
            put_off: int64 [rows], time at the end of each row that is late because of waiting.
        """
        low, high = int(self.offsets[history.start]), int(self.offsets[history.stop])
        computed = union(self.computed.start[low:high], self.computed.end[low:high])
        late = union(self.end[history] - put_off[history], self.end[history])
        return merge(difference(union(self.arrival[history], until[history]), computed), late)


def arrivals_of(frame: pl.DataFrame) -> tuple[Arrivals, pl.DataFrame]:
    """The arrivals of all ranks, and the calls that they are, in the same order.

    `frame` has the columns of `before_collectives` and `matching.match`, on one clock. `match` is renumbered from 0;
    what is not `matched` has a number of its own, in which nobody waits: it is part of the rank's history. Calls that
    are not matched though all ranks of the group are recorded (parts of recordings are missing) are no rows: the time
    before them counts for the next one.
    """
    calls = frame.sort("rank", "cycle", "place").with_columns(matched=pl.col("match").is_not_null())
    calls = calls.with_columns(pl.col(ACTIVITIES).cum_sum().over("rank", "cycle"))
    recorded = set(frame["rank"].to_list())
    lists = frame["group_ranks"].drop_nulls().unique().to_list()
    incomplete = [text for text in lists if not recorded.issuperset(ranks_of(text))]
    calls = calls.filter(pl.col("matched") | pl.col("group_ranks").is_in(incomplete))
    calls = calls.with_columns(
        pl.col(name) - pl.col(name).shift(1, fill_value=0).over("rank", "cycle") for name in ACTIVITIES
    )
    number = pl.col("match").rank("dense").cast(pl.Int64) - 1
    alone = pl.col("match").drop_nulls().n_unique() + (~pl.col("matched")).cum_sum() - 1
    single = pl.col("kind").is_in(POINT_TO_POINT)
    calls = calls.with_columns(
        match=pl.when("matched").then(number).otherwise(alone).cast(pl.Int32),
        direction=pl.when(single).then((pl.col("destination_rank") - pl.col("rank")).sign()),
    ).with_columns(members=pl.len().over("match"))

    def values(expression: pl.Expr) -> NDArray[Any]:
        return calls.select(expression).to_series().to_numpy()

    start, end = calls["start"].to_numpy(), calls["end"].to_numpy()
    reached = values(pl.col("start").cum_max().over("rank", "cycle"))
    did = calls.select(pl.col(ACTIVITIES)).to_numpy()
    row, computed, _ = _intervals(calls, COVERED)
    exposed_row, host_exposed, exposed_by = _intervals(calls, HOST_EXPOSED)
    covered = np.zeros(len(calls), np.int64)
    np.add.at(covered, row, computed.end - computed.start)
    arrivals = Arrivals(
        rank=calls["rank"].to_numpy(),
        history=values(pl.struct("rank", "cycle").rank("dense").cast(pl.Int64)),
        match=calls["match"].to_numpy(),
        arrival=start,
        reached=reached,
        role=values(pl.struct("kind", "direction", "group_description", "group_size").rank("dense").cast(pl.Int32)),
        pairwise=values(single & ((pl.col("kind") != "send_recv") | (pl.col("members") <= 2))),
        stage=calls.join(stages(frame), on="rank", how="left", maintain_order="left")["stage"].to_numpy(),
        did=np.column_stack([did[:, :5], did[:, 5] + did[:, 6]]),
        barrier=(_MIN_BARRIER_RATIO * covered <= end - start) & (start == reached),
        computed=computed,
        offsets=np.searchsorted(row, np.arange(len(calls) + 1)),
        end=np.maximum(end, start),
        stream=values(pl.struct("rank", "cycle", "device", "stream").rank("dense").cast(pl.Int64)),
        queued=calls[QUEUED].to_numpy(),
        host_exposed=host_exposed,
        exposed_row=exposed_row,
        exposed_by=exposed_by,
    )
    return arrivals, calls


def _intervals(calls: pl.DataFrame, name: str) -> tuple[Int64s, Intervals, Int64s]:
    """A column of `interval_lists`, flat: the row of each interval, the interval on the calls' clock, its cause."""
    if name not in calls.columns:
        nothing = np.empty(0, np.int64)
        return nothing, Intervals(nothing, nothing), nothing
    lists = calls.select(pl.col(name), row=pl.int_range(pl.len()), origin="start").filter(pl.col(name).list.len() > 0)
    flat = lists.explode(name).unnest(name)
    row, origin, start, end, cause = (flat[each].to_numpy() for each in ("row", "origin", "start", "end", "cause"))
    return row, Intervals(start + origin, end + origin), cause
