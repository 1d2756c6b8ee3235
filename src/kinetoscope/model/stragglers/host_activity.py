"""Activities of a rank between its collectives, and the computation that covers each collective.

The time between two arrivals is charged once, by priority: to computation on its devices, to communication, to copies
and sets, and where its devices did none of these, to what its host did: data loading, synchronizing calls (and the idle
time that follows from them), other work, or nothing that was recorded. On a trace without device work its operators
are the computation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int64s, any_of
from kinetoscope.algorithms.intervals.intervals import Intervals, exclusive, merge, union
from kinetoscope.model.collectives.calls import base_of, collective_calls
from kinetoscope.model.execution.activities import HostActivity, host_activities
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import is_collective_range
from kinetoscope.model.execution.synchronization import host_waits, idle_after
from kinetoscope.model.graphs.replays import is_replayed
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.trace import Trace

ACTIVITIES: Final = (
    "computation",
    "communication",
    "memory_copies",
    "data_loading",
    "synchronization",
    "host_work",
    "idle",
)
"""Activities of a rank, in order of priority; idle: nothing that was recorded."""

QUEUED: Final = "queued"
"""Column: how much sooner a collective could have begun, had its stream been free, ns; 0 where nothing tells."""

COVERED: Final = "covered"
"""Column of INTERVALS, ns from the start of a collective: the computation that runs during it."""

_NEVER_TIME: Final = np.iinfo(np.int64).min

INTERVALS: Final = pl.List(pl.Struct({"start": pl.Int64, "end": pl.Int64, "cause": pl.Int64}))


@dataclass(frozen=True)
class Activities:
    """Intervals of what a rank did.

    Attributes:
        classes: unions of intervals in order of ACTIVITIES, the last of them left out: it is the rest.
        calls: intervals in which the host called anything but Python functions, of which stacks show all.
    """

    classes: tuple[Intervals, ...]
    calls: Intervals

    @property
    def computation(self) -> Intervals:
        """Intervals of computation."""
        return self.classes[0]

    @property
    def of_host(self) -> tuple[Intervals, ...]:
        """Intervals in which the host loaded data, waited in synchronizing calls, and called anything."""
        return *self.classes[3:5], self.calls

    @property
    def communication(self) -> Intervals:
        """Intervals of communication."""
        return self.classes[1]


@derived
def before_collectives(trace: Trace, steps_by: str | None = None) -> pl.DataFrame:
    """The rows of `collective_calls` in the order of the program, with the activities since the one before, ns.

    The order is that of the launches on the host, and that of the starts where there is none: streams overtake each
    other, and not in the same way on all ranks. A rank has reached a collective when it and all before it have begun;
    activities are counted from one such instant to the next.

    Columns beside theirs: `place`, the number in that order; ACTIVITIES (they sum to the time since the collective
    before, of the first one since the recording began), QUEUED and COVERED.
    """
    calls = collective_calls(trace, steps_by)
    start = calls["start"].to_numpy() - base_of(trace)
    launch, launched = polars_columns.integers(calls["launch"])
    order = np.lexsort((calls["row"].to_numpy(), start, np.where(launched, trace.start[launch], start)))
    start, end = start[order], np.maximum(calls["end"].to_numpy() - base_of(trace), start)[order]
    nothing = Intervals(start, start)
    did = activities(trace) if len(order) else Activities((nothing,) * (len(ACTIVITIES) - 1), nothing)
    reached = np.maximum.accumulate(start)
    origin = np.array([min(origin_of_time(trace), int(reached[0]) if len(reached) else 0)], np.int64)
    charged = exclusive(Intervals(np.concatenate([origin, reached])[: len(reached)], reached), did.classes)
    parts = [pl.Series(name, charged[:, place]) for place, name in enumerate(ACTIVITIES)]
    place = pl.Series("place", np.arange(len(order)))
    covered = interval_lists(Intervals(start, end), did.computation).alias(COVERED)
    queued = pl.Series(QUEUED, _queued(trace, launch[order], start))
    return calls[order].with_columns(place, *parts, queued, covered)


def _queued(trace: Trace, launch: Int64s, start: Int64s) -> Int64s:
    """QUEUED of collectives: they wait for their launch, and for all computation launched before; not of replays."""
    work = device_work(trace)
    queued = np.zeros(len(start), np.int64)
    known = np.flatnonzero((launch >= 0) & ~np.isin(launch, work.launch[is_replayed(trace)]))
    computing = np.flatnonzero(work.of(WorkKind.COMPUTATION) & (work.launch >= 0))
    called = trace.start[work.launch[computing]]
    order = np.argsort(called, kind="stable")
    ends = np.concatenate([[_NEVER_TIME], np.maximum.accumulate(work.end[computing[order]])])
    computed = ends[np.searchsorted(called[order], trace.start[launch[known]])]
    queued[known] = np.maximum(start[known] - np.maximum(computed, trace.end[launch[known]]), 0)
    return queued


@derived
def activities(trace: Trace) -> Activities:
    """The activities of the rank."""
    work = device_work(trace)
    activity = host_activities(trace)
    ops = (activity == HostActivity.OPERATOR) & ~is_collective_range(trace)

    def device(*kinds: WorkKind) -> Intervals:
        of_kind = work.of(*kinds)
        return union(work.start[of_kind], work.end[of_kind])

    def host(rows: Bools) -> Intervals:
        return union(trace.start[rows], trace.end[rows])

    waits = host_waits(trace).call
    until = trace.end[waits] + idle_after(trace)
    calls = host(any_of(trace.kind, (EventKind.HOST_OP, EventKind.RUNTIME)))
    return Activities(
        (
            device(WorkKind.COMPUTATION) if len(work) else host(ops),
            merge(device(WorkKind.COMMUNICATION), host(activity == HostActivity.COMMUNICATION)),
            device(WorkKind.MEMCPY, WorkKind.MEMSET),
            host(activity == HostActivity.DATA_LOADING),
            union(trace.start[waits], until),
            merge(calls, host(trace.kind == EventKind.PYTHON)),
        ),
        calls,
    )


def interval_lists(spans: Intervals, *unions: Intervals) -> pl.Series:
    """The parts of each span that unions cover, as INTERVALS: ns from its start; cause is the place of the union."""
    frames = []
    for cause, union_ in enumerate(unions):
        first = np.searchsorted(union_.end, spans.start, side="right")
        count = np.maximum(np.searchsorted(union_.start, spans.end, side="left") - first, 0)
        span = np.repeat(np.arange(len(count)), count)
        which = np.arange(len(span)) + (first - (np.cumsum(count) - count))[span]
        origin = spans.start[span]
        start = np.maximum(union_.start[which], origin) - origin
        end = np.minimum(union_.end[which], spans.end[span]) - origin
        frames.append(pl.DataFrame({"span": span, "start": start, "end": end, "cause": np.full(len(span), cause)}))
    lists = pl.concat(frames).group_by("span", maintain_order=True).agg(intervals=pl.struct("start", "end", "cause"))
    every = pl.DataFrame({"span": np.arange(len(spans.start))})
    every = every.join(lists, on="span", how="left", maintain_order="left")
    return every.select(pl.col("intervals").cast(INTERVALS).fill_null(pl.lit([], INTERVALS))).to_series()
