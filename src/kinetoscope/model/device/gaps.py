"""Gaps in which a device or a stream has nothing to run, and the work that ends each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s, any_of, rows_of
from kinetoscope.algorithms.grouping import group, match_first
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, exclusive, intersection, union
from kinetoscope.model.device.busy import counted_work, span_of_steps, whole_window, window_of
from kinetoscope.model.execution.activities import HostActivity, host_activities
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.profiler_overhead import profiler_overhead
from kinetoscope.model.graphs.lost_work import while_capturing
from kinetoscope.model.steps.scope import Scope, unclipped
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

ACTIVITIES: Final = (
    "profiler",
    "data loading",
    "synchronizing call",
    "allocating call",
    "graph capture",
    "other runtime call",
    "host operator",
    "Python",
    "nothing recorded",
)
"""Activities of a thread in order of priority: each instant belongs to the first that is going on."""

_OF_ACTIVITY: Final = {
    HostActivity.DATA_LOADING: "data loading",
    HostActivity.SYNCHRONIZATION: "synchronizing call",
    HostActivity.ALLOCATION: "allocating call",
    HostActivity.RUNTIME_CALL: "other runtime call",
    HostActivity.OPERATOR: "host operator",
    HostActivity.PYTHON: "Python",
}
_CAPTURING: Final = (HostActivity.RUNTIME_CALL, HostActivity.OPERATOR, HostActivity.PYTHON)
"""Activities that are graph capture while a graph is captured."""


@dataclass(frozen=True)
class Gaps:
    """Stretches of time in which nothing runs, by device and stream, and in order of time.

    Attributes:
        device, stream: int64 [gaps], where; stream is −1 where the gaps are those of a whole device.
        start, end: int64 [gaps], ns, cut to the selected range of time.
        since, until: int64 [gaps], ns, whole: what a gap is due to does not depend on where it is cut.
        work: int32 [gaps], place in `device_work` of the work that ends the gap, −1 where a selected step ends, or the
            recording.
        same_stream: bool [gaps], whether the work that ended when the gap began ran on the stream of the work that
            ends it.
    """

    device: Int64s
    stream: Int64s
    start: Int64s
    end: Int64s
    since: Int64s
    until: Int64s
    work: Int32s
    same_stream: Bools

    def __len__(self) -> int:
        return len(self.start)

    @property
    def length(self) -> Int64s:
        """Length of each, ns: int64 [gaps]."""
        return self.end - self.start


@dataclass(frozen=True)
class DeviceLane:
    """The work of a device or of one of its streams (`busy.counted_work`), and its window, before a range cuts them.

    Attributes:
        device, stream: numbers; stream is −1 for a whole device.
        window: union of the time that counts.
        left_out: time of work from before the recording that the window leaves out, ns.
        ran: union of the time in which something ran, within the window.
        work: int32 [work], places in `device_work` of what takes time, in order of start.
    """

    device: int
    stream: int
    window: Intervals
    left_out: int
    ran: Intervals
    work: Int32s


def device_lanes(view: Scope, *, by_stream: bool) -> Iterator[DeviceLane]:
    """Each device that has work, or each of its streams, by number."""
    work, whole = view.device_work, unclipped(view)
    asked = span_of_steps(view if view.select.steps is None else whole)
    chosen = np.flatnonzero(counted_work(whole))
    streams = work.stream if by_stream else np.full(len(work), -1, np.int64)
    chosen = chosen[np.lexsort((work.start[chosen], streams[chosen], work.device[chosen]))].astype(np.int32)
    codes, first = group(work.device[chosen], streams[chosen])
    for low, high in zip(first.tolist(), [*first[1:].tolist(), len(codes)], strict=True):
        here = chosen[low:high]
        ran = union(work.start[here], work.end[here])
        ran = ran if asked is None else intersection(ran, asked)
        place = chosen[low]
        lasting: Int32s = here[work.end[here] > work.start[here]].astype(np.int32)
        device, stream = int(work.device[place]), int(streams[place])
        every = whole_window(ran, asked)
        window = every if by_stream else window_of(view, device, ran, asked)  # other streams do not hold this one
        yield DeviceLane(device, stream, window, every.length - window.length, ran, lasting)


def gaps(view: Scope, *, by_stream: bool) -> Gaps:
    """The gaps of each device, or of each stream; together they are the idle time of the window.

    Those that reach into the selected range of time are cut to it.
    """
    work = view.device_work
    device: list[NDArray[Any]] = []
    stream: list[NDArray[Any]] = []
    start: list[NDArray[Any]] = []
    end: list[NDArray[Any]] = []
    ends: list[NDArray[Any]] = []
    for lane in device_lanes(view, by_stream=by_stream):
        idle = difference(lane.window, lane.ran)
        begins = work.start[lane.work]
        place = np.minimum(np.searchsorted(begins, idle.end), max(len(begins) - 1, 0))
        next_work = lane.work[place] if len(begins) else np.full(len(idle.end), -1, np.int32)
        ends.append(np.where(begins[place] == idle.end, next_work, -1) if len(begins) else next_work)
        device.append(np.full(len(idle.start), lane.device, np.int64))
        stream.append(np.full(len(idle.start), lane.stream, np.int64))
        start.append(idle.start)
        end.append(idle.end)
    ended_by, since, until = _joined(ends, np.int32), _joined(start, np.int64), _joined(end, np.int64)
    whole = Gaps(
        device=_joined(device, np.int64),
        stream=_joined(stream, np.int64),
        start=since,
        end=until,
        since=since,
        until=until,
        work=ended_by,
        same_stream=_follows(view, ended_by, since),
    )
    return whole if view.clip is None else cut_gaps(whole, *view.clip)


def cut_gaps(whole: Gaps, low: int, high: int) -> Gaps:
    """Gaps in a range of time, ns."""
    start, end = np.clip(whole.start, low, high), np.clip(whole.end, low, high)
    kept = end > start
    return rows_of(replace(whole, start=start, end=end), kept)


def activity(trace: Trace, track: Int32s, windows: Intervals) -> Int64s:
    """The time of each activity of a thread in each window: int64 [windows, activities], ns; a row sums to its window.

    track: int32 [windows], the track of the thread.
    """
    result = np.zeros((len(track), len(ACTIVITIES)), np.int64)
    for thread in np.unique(track).tolist():
        here = np.flatnonzero(track == thread)
        result[here] = exclusive(Intervals(windows.start[here], windows.end[here]), _spans(trace, thread))
    return result


@derived
def _spans(trace: Trace, thread: int) -> tuple[Intervals, ...]:
    """When a thread does each of ACTIVITIES but the last: a union each."""
    calls, classes = call_tree(trace), _activities(trace)
    rows = calls.order[calls.offsets[thread] : calls.offsets[thread + 1]]
    # Calls inside a call of the same class add nothing to the union; without them few rows of deep stacks are left.
    parent = calls.parent[rows]
    inside = (parent >= 0) & (classes[rows] == classes[parent]) & (trace.end[rows] <= trace.end[parent])
    rows = rows[(classes[rows] >= 0) & ~inside]
    of_class = classes[rows]
    interruption, call = profiler_overhead(trace)
    profiler = interruption[(call >= 0) & (trace.track[call] == thread)]
    places = (profiler, *(rows[of_class == place] for place in range(1, len(ACTIVITIES) - 1)))
    return tuple(union(trace.start[these], trace.end[these]) for these in places)


@derived
def _activities(trace: Trace) -> Int8s:
    """The place in ACTIVITIES of each event, −1 for what is none of them: int8 [events]."""
    activity = host_activities(trace)
    place = {each: ACTIVITIES.index(name) for each, name in _OF_ACTIVITY.items()}
    places: Int8s = np.array([place.get(each, -1) for each in HostActivity], np.int8)[activity]
    rows = np.flatnonzero(any_of(activity, _CAPTURING)).astype(np.int32)
    places[rows[while_capturing(trace, rows)]] = ACTIVITIES.index("graph capture")
    return places


def _follows(view: Scope, ended_by: Int32s, start: Int64s) -> Bools:
    """True where work on the stream of the work that ends each gap ended when the gap began: bool [gaps]."""
    work = view.device_work
    same = np.zeros(len(ended_by), np.bool_)
    known = np.flatnonzero(ended_by >= 0)
    if len(known):
        lane, _ = group(work.device, work.stream)
        # Of all work, selected or not: what ran before a step leaves its stream busy, too.
        codes, _ = group(np.concatenate([lane, lane[ended_by[known]]]), np.concatenate([work.end, start[known]]))
        pairs = codes.astype(np.int64)
        same[known] = match_first(pairs[len(work) :], pairs[: len(work)]) >= 0
    return same


def _joined(parts: list[NDArray[Any]], dtype: type[np.integer[Any]]) -> NDArray[Any]:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype)
