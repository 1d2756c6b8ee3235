"""Transfer that nothing hides because the host was late: the time is charged to what the host did.

A collective takes as long on all ranks that share it. If more of it is exposed on one of them, its next computation was
launched only after the transfer had begun. Without a device nothing is launched, and all exposed transfer may be due to
the host, but for the time until a collective was over: the host may have stood in that.
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
from kinetoscope.model.stragglers.host_activity import Activities, activities, interval_lists
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.model.trace.trace import Trace

HOST_EXPOSED: Final = "host_exposed"
"""Column of `INTERVALS`, ns from the start of a collective: the host left the transfer exposed; cause is its place in
HOST_CAUSES."""

HOST_CAUSES: Final = ("data loading", "synchronization", "host gap")
"""What delays a host, in order of priority."""

_LOADING: Final = 3
"""Place in `Activities.classes`."""

_NEVER_TIME: Final = np.iinfo(np.int64).min


def host_exposed(trace: Trace, calls: pl.DataFrame) -> pl.Series:
    """HOST_EXPOSED of the calls, rows of `collective_calls` of the trace."""
    start, end = (calls[name].to_numpy() - base_of(trace) for name in ("start", "end"))
    unions = _delays(trace) if len(calls) else (Intervals(start, end),) * len(HOST_CAUSES)
    return interval_lists(Intervals(start, np.maximum(end, start)), *unions).alias(HOST_EXPOSED)


@derived
def _delays(trace: Trace) -> tuple[Intervals, ...]:
    """Intervals in which a late host left transfer exposed: a union for each of HOST_CAUSES, which do not overlap."""
    did = activities(trace)
    loading = did.classes[_LOADING]
    late, launched = _late(trace, did)
    # Without the time in synchronizing calls since the last launch, this one would have come that much sooner.
    waits = host_waits(trace).call
    synchronizing = union(trace.start[waits], trace.end[waits])
    since = np.maximum(late.start, launched.end - covered(launched, synchronizing))
    waiting = difference(union(since, late.end), loading)
    rest = difference(late, loading)
    return intersection(late, loading), waiting, difference(rest, waiting)


def _late(trace: Trace, did: Activities) -> tuple[Intervals, Intervals]:
    """Exposed communication during which the computation that ends it, or follows, was not launched yet.

    And the time from the launch before that one until that one; nothing where there are no launches.
    """
    work = device_work(trace)
    exposed = difference(did.communication, did.computation)
    if not len(work):
        exposed = _on_the_host(trace, exposed)
        return exposed, Intervals(exposed.end, exposed.end)
    call = work.launch[work.of(WorkKind.COMPUTATION)]
    launches = np.unique(trace.start[call[call >= 0]])
    following = np.searchsorted(did.computation.start, exposed.start)
    launched = np.append(_launched(trace, did.computation), _NEVER_TIME)[following]
    late = launched > exposed.start
    launched, exposed = launched[late], Intervals(exposed.start[late], exposed.end[late])
    before = np.append(_NEVER_TIME, launches)[np.searchsorted(launches, launched)]
    return Intervals(exposed.start, np.minimum(launched, exposed.end)), Intervals(before, launched)


def _on_the_host(trace: Trace, exposed: Intervals) -> Intervals:
    """Exposed communication of a host without device, since the last collective that was over: it stood in that."""
    ends = np.sort(trace.end[is_asynchronous(trace)])
    last = np.append(_NEVER_TIME, ends)[np.searchsorted(ends, exposed.end, side="right")]
    return union(np.maximum(exposed.start, last), exposed.end)


def _launched(trace: Trace, computation: Intervals) -> Int64s:
    """The launch of the work that begins each interval of computation; long before where that is not known."""
    work = device_work(trace)
    computing = np.flatnonzero(work.of(WorkKind.COMPUTATION))
    computing = computing[np.argsort(work.start[computing], kind="stable")]
    first = computing[np.searchsorted(work.start[computing], computation.start)]
    call = work.launch[first]
    return np.where(call >= 0, trace.start[call], _NEVER_TIME)
