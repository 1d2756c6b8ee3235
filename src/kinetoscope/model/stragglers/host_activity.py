"""What a rank did since its previous collective, and what of each collective its computation covers.

The time between two arrivals is charged once, by priority: to computation on its devices, to communication, to copies
and sets, and where its devices did none of these, to what its host did: data loading, synchronising calls (and the idle
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
from kinetoscope.model.execution.synchronization import host_waits
from kinetoscope.model.execution.synchronization_cost import idle_after
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import COLLECTIVE_OPS, COLLECTIVE_WORDS, EventKind, WorkKind
from kinetoscope.model.trace.names import rows_named
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
"""What a rank can be doing, in order of priority; idle: nothing that was recorded."""

COVERED: Final = ("covered_start", "covered_end")
"""Lists: when computation runs during a collective, in order, ns after its start."""


@dataclass(frozen=True)
class Doings:
    """When a rank did what.

    Attributes:
        classes: unions of intervals in order of ACTIVITIES, the last of them left out: it is the rest.
        calls: when the host called anything but Python functions, of which the recording of stacks shows all.
    """

    classes: tuple[Intervals, ...]
    calls: Intervals

    @property
    def computation(self) -> Intervals:
        """When it computed."""
        return self.classes[0]

    @property
    def of_host(self) -> tuple[Intervals, ...]:
        """When the host loaded data, when it waited in synchronising calls, and when it called anything."""
        return *self.classes[3:5], self.calls

    @property
    def communication(self) -> Intervals:
        """When a collective was going on."""
        return self.classes[1]


@derived
def before_collectives(trace: Trace, steps_by: str | None = None) -> pl.DataFrame:
    """The rows of `collective_calls` in the order of the program, with what was done since the one before, ns.

    The order is that of the launches on the host, and that of the starts where there is none: streams overtake each
    other, and not in the same way on all ranks. A rank has come to a collective when it and all before it have begun;
    what was done is counted from one such instant to the next.

    Columns beside theirs: `place`, the number in that order; ACTIVITIES (they sum to the time since the collective
    before, of the first one since the recording began) and COVERED.
    """
    calls = collective_calls(trace, steps_by)
    start = calls["start"].to_numpy() - base_of(trace)
    launch, launched = polars_columns.integers(calls["launch"])
    order = np.lexsort((calls["row"].to_numpy(), start, np.where(launched, trace.start[launch], start)))
    start, end = start[order], np.maximum(calls["end"].to_numpy() - base_of(trace), start)[order]
    nothing = Intervals(start, start)
    did = doings(trace) if len(order) else Doings((nothing,) * (len(ACTIVITIES) - 1), nothing)
    came = np.maximum.accumulate(start)
    origin = np.array([min(origin_of_time(trace), int(came[0]) if len(came) else 0)], np.int64)
    charged = exclusive(Intervals(np.concatenate([origin, came])[: len(came)], came), did.classes)
    parts = [pl.Series(name, charged[:, place]) for place, name in enumerate(ACTIVITIES)]
    place = pl.Series("place", np.arange(len(order)))
    return calls[order].with_columns(place, *parts, *_lists(Intervals(start, end), did.computation))


@derived
def doings(trace: Trace) -> Doings:
    """When the rank did what."""
    work = device_work(trace)
    activity = host_activities(trace)
    collective = rows_named(trace, _is_collective, EventKind.HOST_OP, holding=COLLECTIVE_WORDS)

    def device(*kinds: WorkKind) -> Intervals:
        of_kind = work.of(*kinds)
        return union(work.start[of_kind], work.end[of_kind])

    def host(rows: Bools) -> Intervals:
        return union(trace.start[rows], trace.end[rows])

    waits = host_waits(trace).call
    until = trace.end[waits] + idle_after(trace)
    calls = host(any_of(trace.kind, (EventKind.HOST_OP, EventKind.RUNTIME)))
    return Doings(
        (
            device(WorkKind.COMPUTATION) if len(work) else host((activity == HostActivity.OPERATOR) & ~collective),
            merge(device(WorkKind.COMMUNICATION), host(activity == HostActivity.COMMUNICATION)),
            device(WorkKind.MEMCPY, WorkKind.MEMSET),
            host(activity == HostActivity.DATA_LOADING),
            union(trace.start[waits], until),
            merge(calls, host(trace.kind == EventKind.PYTHON)),
        ),
        calls,
    )


def _is_collective(name: str) -> bool:
    return COLLECTIVE_OPS.match(name) is not None


def inside(spans: Intervals, covering: Intervals) -> tuple[Int64s, Int64s, Int64s]:
    """What of each span a union covers: the place of the span, and from when until when after it starts, in order."""
    first = np.searchsorted(covering.end, spans.start, side="right")
    count = np.maximum(np.searchsorted(covering.start, spans.end, side="left") - first, 0)
    place = np.repeat(np.arange(len(count)), count)
    before = np.cumsum(count) - count
    which = np.arange(int(count.sum())) - before[place] + first[place]
    begin = np.maximum(covering.start[which], spans.start[place]) - spans.start[place]
    finish = np.minimum(covering.end[which], spans.end[place]) - spans.start[place]
    return place, begin, finish


def _lists(spans: Intervals, covering: Intervals) -> tuple[pl.Series, pl.Series]:
    """What of each span a union covers, as lists of starts and of ends after the start of the span."""
    place, begin, finish = inside(spans, covering)
    some = pl.DataFrame({"place": place, COVERED[0]: begin, COVERED[1]: finish})
    lists = some.group_by("place", maintain_order=True).agg(pl.col(COVERED))
    every = pl.DataFrame({"place": np.arange(len(spans.start))})
    every = every.join(lists, on="place", how="left", maintain_order="left")
    filled = every.select(pl.col(COVERED).fill_null(pl.lit([], pl.List(pl.Int64))))
    return filled[COVERED[0]], filled[COVERED[1]]
