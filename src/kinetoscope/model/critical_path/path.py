"""The critical path of each step: the chain of work and waiting that determines its length, without a gap."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Int8s, Int32s, Int64s, scattered
from kinetoscope.algorithms.intervals import innermost
from kinetoscope.algorithms.intervals.intervals import Intervals, covered, union
from kinetoscope.algorithms.trees.longest_path import paths
from kinetoscope.algorithms.trees.tree import NO_ROW
from kinetoscope.model.critical_path.graph import CriticalGraph, DependencyKind, critical_graph
from kinetoscope.model.critical_path.points import NONE
from kinetoscope.model.execution.activities import takes_next_batch
from kinetoscope.model.execution.backward_handover import host_time
from kinetoscope.model.execution.call_tree import inside
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import is_data_loading
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, reached_by, runtime_call_kinds
from kinetoscope.model.execution.synchronization import host_waits
from kinetoscope.model.steps.steps import Steps, step_of, steps
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note


class PathCause(IntEnum):
    """Cause of the time of a piece of the path."""

    HOST = 0
    DATA_LOADING = 1
    LAUNCH = 2
    COMPUTATION = 3
    COMMUNICATION = 4
    COPIES = 5
    GAPS = 6
    OTHER = 7


CAUSES: Final = tuple(cause.name.lower() for cause in PathCause)

_OF_WORK: Final = {
    WorkKind.COMPUTATION: PathCause.COMPUTATION,
    WorkKind.COMMUNICATION: PathCause.COMMUNICATION,
    WorkKind.MEMCPY: PathCause.COPIES,
    WorkKind.MEMSET: PathCause.COPIES,
}
_OF_TIE: Final = {
    DependencyKind.THREAD: PathCause.HOST,
    DependencyKind.WORK: PathCause.COMPUTATION,
    DependencyKind.STREAM: PathCause.GAPS,
    DependencyKind.EVENT: PathCause.GAPS,
    DependencyKind.LAUNCH: PathCause.LAUNCH,
    DependencyKind.WAIT: PathCause.HOST,
    DependencyKind.HANDOVER: PathCause.HOST,
    DependencyKind.RETURN: PathCause.HOST,
}
_COLUMNS: Final = ("step", "start", "end", "cause", "dependency", "row", "tail", "head")
"""Fields of a `CriticalPath` that have a value for each piece."""

_LAUNCHING: Final = (RuntimeCallKind.LAUNCH, RuntimeCallKind.GRAPH_LAUNCH, RuntimeCallKind.COPY, RuntimeCallKind.SET)


OF_WHOLE_RANK: Final = Note(
    "PATH_OF_RANK", "The path is through the whole rank: of the selection only steps and the range of time count."
)
"""Says which part of a selection counts."""


@dataclass(frozen=True)
class CriticalPath:
    """The pieces of the critical paths of all steps, in order of time; those of a step fill it.

    Attributes:
        step: int32 [pieces], place in `steps`.
        start, end: int64 [pieces], ns.
        cause: int8 [pieces], a `PathCause`.
        dependency: int8 [pieces], the `DependencyKind` that it lies on, NONE where nothing explains it.
        row: int32 [pieces], the event that it is spent in: the call, the device work, the launch call; of a gap, and of
            what nothing explains, the work that came after it; NONE for no event.
        tail, head: int32 [pieces], for dependencies between lanes the events at both ends; else NONE.
        doubt: intervals, which may overlap, in which the path depends on inferred waits.
    """

    step: Int32s
    start: Int64s
    end: Int64s
    cause: Int8s
    dependency: Int8s
    row: Int32s
    tail: Int32s
    head: Int32s
    doubt: Intervals

    def __len__(self) -> int:
        return len(self.step)

    def inferred(self, windows: Intervals) -> Int64s:
        """Time of each window that is on the path due to an inferred wait: int64 [windows], ns."""
        return covered(windows, union(*self.doubt))


@derived
def critical_path(
    trace: Trace, steps_by: str | None = None, use_recorded: bool = True, *, of_run: bool = False
) -> CriticalPath:
    """The critical path of each step.

    Args:
        trace: one rank.
        steps_by: as for `steps`.
        use_recorded: if false, as if no waits had been recorded.
        of_run: one path, to the end of the last step, and of it what lies in each step.
    """
    graph, every = critical_graph(trace, steps_by, use_recorded), steps(trace, steps_by)
    begin = every.device.start[:1] if of_run else every.device.start
    edges, offsets = edges_of_paths(trace, steps_by, use_recorded, of_run=of_run)
    step = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
    target, source = graph.target[edges], graph.edges.source[edges]
    start = np.maximum(graph.time[source], begin[step]) if len(edges) else np.empty(0, np.int64)
    dependency = graph.dependency[edges]
    head, tail = graph.head[edges], graph.tail[edges]
    row = np.where(
        np.isin(dependency, (DependencyKind.STREAM, DependencyKind.EVENT, DependencyKind.WAIT, DependencyKind.RETURN)),
        head,
        tail,
    )
    between = np.isin(dependency, (DependencyKind.THREAD, DependencyKind.WORK), invert=True)
    path = CriticalPath(
        step=step,
        start=start,
        end=graph.time[target],
        cause=causes_of_edges(trace, dependency, head),
        dependency=dependency,
        row=row.astype(np.int32),
        tail=np.where(between, tail, NONE).astype(np.int32),
        head=np.where(between, head, NONE).astype(np.int32),
        doubt=_doubts(graph, edges, start, begin[step] if len(step) else start),
    )
    pieces = _limited(trace, _with_stretches(trace, path, graph.track[target]))
    return _filled(every, _cut(pieces, every.device) if of_run else pieces)


def edges_of_paths(
    trace: Trace, steps_by: str | None = None, use_recorded: bool = True, *, of_run: bool = False
) -> tuple[Int64s, Int64s]:
    """Edges of the graph on the path of each step, in order of time, and offsets: int64 [edges], [paths + 1]."""
    graph, every = critical_graph(trace, steps_by, use_recorded), steps(trace, steps_by)
    ends, begin = _ends(trace, graph, every), every.device.start
    if of_run:
        ends, begin = ends[ends >= 0][-1:], begin[:1]
    return paths(graph.time, graph.edges, graph.last, ends, begin[: len(ends)])


def run_path(trace: Trace, steps_by: str | None = None) -> CriticalPath:
    """The critical path to the end of the last step, cut by steps."""
    return critical_path(trace, steps_by, of_run=True)


def _ends(trace: Trace, graph: CriticalGraph, every: Steps) -> Int64s:
    """The node that each step ends in: the end of device work if the host's step ended sooner; NONE for empty steps."""
    work, until = device_work(trace), every.device.end
    ends = np.where(until == every.host.end, graph.step_end, NONE).astype(np.int64)
    step = step_of(every.host, trace.start[work.launch]) if len(work) else np.empty(0, np.int64)
    step = np.where(work.launch >= 0, step, np.searchsorted(until, work.end)) if len(work) else step
    last = np.flatnonzero((step >= 0) & (step < len(every)))
    last = last[work.end[last] == until[step[last]]]
    open_ends = ends[step[last]] < 0
    ends[step[last][open_ends][::-1]] = graph.end[last[open_ends][::-1]]
    return np.where(until > every.device.start, ends, NONE)


@derived
def cause_of_work(trace: Trace) -> Int8s:
    """Cause of the time in each piece of device work, a `PathCause`: int8 [work]."""
    return np.array([_OF_WORK[each] for each in WorkKind], np.int8)[device_work(trace).kind]


def causes_of_edges(trace: Trace, dependency: Int8s, head: Int32s) -> Int8s:
    """Cause of the time of edges of a kind, with the event at their head, a `PathCause`: int8 [edges]."""
    cause = np.array([_OF_TIE[each] for each in DependencyKind], np.int8)[dependency]
    work = device_work(trace)
    place = scattered(len(trace) + 1, work.rows, np.arange(len(work)), np.int32)
    is_work = dependency == DependencyKind.WORK
    cause[is_work] = cause_of_work(trace)[place[head[is_work]]]
    gaps = np.flatnonzero(dependency == DependencyKind.STREAM)
    cause[gaps[work.launch[place[head[gaps]]] < 0]] = PathCause.OTHER  # what it waited for may be its launch
    return cause


def _limited(trace: Trace, path: CriticalPath) -> CriticalPath:
    """The path with the time after a launch divided: launching, as long as it takes, and the unexplained rest.

    A copy that the host waits for holds the host from its launch on: that time is the call's.
    """
    of = np.flatnonzero(path.dependency == DependencyKind.LAUNCH)
    limit = np.maximum(reached_by(trace, path.tail[of]), path.start[of])
    long = path.end[of] > limit
    of, limit = of[long], limit[long]
    if not len(of):
        return path
    is_copy = runtime_call_kinds(trace)[path.tail[of]] == RuntimeCallKind.COPY_AND_WAIT
    none = np.full(len(of), NONE, np.int32)
    more: dict[str, NDArray[Any]] = {
        "step": path.step[of],
        "start": limit,
        "end": path.end[of],
        "cause": np.where(is_copy, PathCause.HOST, PathCause.OTHER).astype(np.int8),
        "dependency": none.astype(np.int8),
        "row": np.where(is_copy, path.tail[of], path.head[of]).astype(np.int32),
        "tail": none,
        "head": none,
    }
    columns = {name: getattr(path, name) for name in _COLUMNS}
    columns["end"] = columns["end"].copy()
    columns["end"][of] = limit
    columns = {name: np.insert(columns[name], of + 1, more[name]) for name in _COLUMNS}
    return CriticalPath(**columns, doubt=path.doubt)


def _doubts(graph: CriticalGraph, edges: Int64s, start: Int64s, begin: Int64s) -> Intervals:
    """Intervals before inferred edges: since the latest recorded edge into the same node."""
    here = np.flatnonzero(graph.inferred[edges])
    if not len(here):
        return Intervals(start[:0], start[:0])
    target = graph.target[edges[here]]
    low, count = graph.edges.offsets[target], np.diff(graph.edges.offsets)[target]
    first = np.cumsum(count) - count
    others = np.repeat(low - first, count) + np.arange(count.sum())
    comes = np.where(graph.inferred[others], np.repeat(begin[here], count), graph.time[graph.edges.source[others]])
    since = np.maximum(np.maximum.reduceat(comes, first), begin[here])
    return Intervals(np.minimum(since, start[here]), start[here])  # empty where the other edge comes from later


# --- the host's own time


@derived
def host_causes(trace: Trace) -> Int8s:
    """Cause of the time in each call of the host, a `PathCause`: int8 [events]."""
    loading = is_data_loading(trace) | takes_next_batch(trace)
    cause = np.where(inside(trace, loading), PathCause.DATA_LOADING, PathCause.HOST).astype(np.int8)
    launches = np.isin(runtime_call_kinds(trace), _LAUNCHING) & (trace.kind == EventKind.RUNTIME)
    launched = device_work(trace).launch
    launches[launched[launched >= 0]] = True
    launches[host_waits(trace).call] = False
    cause[launches] = PathCause.LAUNCH
    return cause


def _with_stretches(trace: Trace, path: CriticalPath, track: Int32s) -> CriticalPath:
    """The path with each piece along a thread divided by the innermost call."""
    along, time = path.dependency == DependencyKind.THREAD, host_time(trace)
    count = np.ones(len(path), np.int64)
    first = np.zeros(len(path), np.int64)
    first[along], count[along] = _reach(time, track[along], path.start[along], path.end[along])
    piece = np.repeat(np.arange(len(path), dtype=np.int32), count)
    columns = {name: getattr(path, name)[piece] for name in _COLUMNS}
    host = np.flatnonzero(along[piece])
    if len(host):
        of = piece[host]
        stretch = (first - (np.cumsum(count) - count))[of] + host
        last = len(time.time) - 1
        before = stretch < time.offsets[track[of]]
        after = stretch + 1 >= time.offsets[track[of] + 1]
        row = np.where(before, NO_ROW, time.row[np.clip(stretch, 0, last)]).astype(np.int32)
        begins, ends = time.time[np.clip(stretch, 0, last)], time.time[np.clip(stretch + 1, 0, last)]
        columns["start"][host] = np.where(before, path.start[of], np.maximum(begins, path.start[of]))
        columns["end"][host] = np.where(after, path.end[of], np.minimum(ends, path.end[of]))
        columns["row"][host] = row
        columns["cause"][host] = np.where(row >= 0, host_causes(trace)[row], PathCause.HOST)
    return CriticalPath(**columns, doubt=path.doubt)


def _reach(time: innermost.Stretches, track: Int32s, start: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
    """The first stretch that each span of time touches, and how many; before the first of a track lies another one."""
    before = time.offsets[track] - 1
    first = np.maximum(innermost.at(time, track, start), before)
    last = np.maximum(innermost.at(time, track, end - 1), before)
    return first, np.where(end > start, last - first + 1, 0)


# --- what fills a step


def _cut(path: CriticalPath, windows: Intervals) -> CriticalPath:
    """The pieces, cut to the windows, which are disjoint and in order; `step` becomes the window's place."""
    first = np.searchsorted(windows.end, path.start, side="right")
    count = np.maximum(np.searchsorted(windows.start, path.end, side="left") - first, 0)
    piece = np.repeat(np.arange(len(path)), count)
    step = np.repeat(first - (np.cumsum(count) - count), count) + np.arange(count.sum())
    columns = {name: getattr(path, name)[piece] for name in _COLUMNS}
    columns["step"] = step.astype(np.int32)
    columns["start"] = np.maximum(columns["start"], windows.start[step])
    columns["end"] = np.minimum(columns["end"], windows.end[step])
    return CriticalPath(**columns, doubt=path.doubt)


def _filled(every: Steps, path: CriticalPath) -> CriticalPath:
    """The path with a piece from the beginning of each step to where its path begins; all of the step if it has none.

    Pieces of no duration, where a path crosses lanes at one instant, stay: they are links of the chain.
    """
    first = every.device.end.copy()
    np.minimum.at(first, path.step, path.start)
    step = np.flatnonzero(first > every.device.start).astype(np.int32)
    if not len(step):
        return path
    none = np.full(len(step), NONE, np.int32)
    more: dict[str, NDArray[Any]] = {
        "step": step,
        "start": every.device.start[step],
        "end": first[step],
        "row": none,
        "tail": none,
        "head": none,
    }
    more |= {"cause": np.full(len(step), PathCause.OTHER, np.int8), "dependency": none.astype(np.int8)}
    place = np.searchsorted(path.step, step)
    columns = {name: np.insert(getattr(path, name), place, more[name]) for name in _COLUMNS}
    return CriticalPath(**columns, doubt=path.doubt)
