"""Transfer that nothing hides because the host was late: not the collective cost that time, but what the host did.

A collective takes as long on all ranks that share it. If one of them has more of it in the open, then because its next
computation came late: it was launched only after the transfer had begun. Where there is no device, nothing is launched,
and all that is in the open may be so, but for the time until a collective was over: the host may have stood in that.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, covered, difference, intersection, union
from kinetoscope.model.collectives.calls import base_of
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import is_asynchronous
from kinetoscope.model.execution.synchronization import host_waits
from kinetoscope.model.stragglers.host_activity import Doings, doings, inside
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.model.trace.trace import Trace

HELD: Final = "held"
"""A column of lists: when during a collective what kept the host, in threes: ns after its start, until when, which."""

HOLDING: Final = ("data loading", "synchronization", "host gap")
"""What keeps a host, in order of priority."""

_LOADING: Final = 3
"""Place in `Doings.classes`."""

_NEVER: Final = np.iinfo(np.int64).min


def held_lists(trace: Trace, calls: pl.DataFrame) -> pl.Series:
    """HELD of the calls, rows of `collective_calls` of the trace."""
    start, end = (calls[name].to_numpy() - base_of(trace) for name in ("start", "end"))
    spans = Intervals(start, np.maximum(end, start))
    parts = []
    for which, each in enumerate(_held(trace) if len(calls) else ()):
        place, begin, finish = inside(spans, each)
        parts.append(np.column_stack([place, begin, finish, np.full(len(place), which)]))
    flat = np.concatenate(parts) if parts else np.empty((0, 4), np.int64)
    flat = flat[np.argsort(flat[:, 0], kind="stable")]
    values = pl.DataFrame({"place": flat[:, 0].repeat(3), HELD: flat[:, 1:].ravel()})
    lists = values.group_by("place", maintain_order=True).agg(HELD)
    every = pl.DataFrame({"place": np.arange(len(calls))}).join(lists, on="place", how="left", maintain_order="left")
    return every.select(pl.col(HELD).cast(pl.List(pl.Int64)).fill_null(pl.lit([], pl.List(pl.Int64)))).to_series()


@derived
def _held(trace: Trace) -> tuple[Intervals, ...]:
    """When what kept the host while a transfer was in the open: a union for each of HOLDING, apart from each other."""
    did = doings(trace)
    loading = did.classes[_LOADING]
    late, launched = _late(trace, did)
    # Without the time that the host stood in synchronising calls since its last launch, this one had come sooner by it.
    since = np.maximum(late.start, launched.end - covered(launched, _synchronizing(trace)))
    waiting = difference(union(since, late.end), loading)
    rest = difference(late, loading)
    return intersection(late, loading), waiting, difference(rest, waiting)


def _synchronizing(trace: Trace) -> Intervals:
    calls = host_waits(trace).call
    return union(trace.start[calls], trace.end[calls])


def _late(trace: Trace, did: Doings) -> tuple[Intervals, Intervals]:
    """Communication in the open of which the computation that ends it, or follows, was not launched yet.

    And the time from the launch of computation before that until that one; nothing where there are no launches.
    """
    work = device_work(trace)
    exposed = difference(did.communication, did.computation)
    if not len(work):
        exposed = _on_the_host(trace, exposed)
        return exposed, Intervals(exposed.end, exposed.end)
    call = work.launch[work.of(WorkKind.COMPUTATION)]
    launches = np.unique(trace.start[call[call >= 0]])
    following = np.searchsorted(did.computation.start, exposed.start)
    launched = np.append(_launched(trace, did.computation), _NEVER)[following]
    late = launched > exposed.start
    launched, exposed = launched[late], Intervals(exposed.start[late], exposed.end[late])
    before = np.append(_NEVER, launches)[np.searchsorted(launches, launched)]
    return Intervals(exposed.start, np.minimum(launched, exposed.end)), Intervals(before, launched)


def _on_the_host(trace: Trace, exposed: Intervals) -> Intervals:
    """Communication in the open of a host without device, since the last collective that was over: it stood in that."""
    ends = np.sort(trace.end[is_asynchronous(trace)])
    last = np.append(_NEVER, ends)[np.searchsorted(ends, exposed.end, side="right")]
    return union(np.maximum(exposed.start, last), exposed.end)


def _launched(trace: Trace, computation: Intervals) -> Int64s:
    """When what begins each interval of computation was launched; long before where that is not known."""
    work = device_work(trace)
    computing = np.flatnonzero(work.of(WorkKind.COMPUTATION))
    computing = computing[np.argsort(work.start[computing], kind="stable")]
    first = computing[np.searchsorted(work.start[computing], computation.start)]
    call = work.launch[first]
    return np.where(call >= 0, trace.start[call], _NEVER)
