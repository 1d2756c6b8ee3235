"""The schedule of a trace as a graph of dependencies, for critical paths and what-if questions.

Nodes are instants: the start and end of each piece of device work, and those instants of host threads at which
something depends on another lane. Edges say that one instant follows from another:

- along a thread, from one such instant to the next: the thread's own time;
- device work, from its start to its end;
- from the start of a launch call to the start of what it launched;
- from the end of device work to the start of the next on its stream, or of what waits for it by an event;
- from the end of device work to the end of the call in which the host waits for it;
- from thread to thread and back, around the backward pass (see `handovers`).

Each edge has the time that it needs at least; of those into a node the one that arrives last gets all the time that
passed. So the graph reproduces the measured schedule exactly, and the edges that arrive last are the critical path.
Needed times: of a thread its own time without waiting; of a launch that of quick launches on idle streams; of work
after other work of its stream the usual gap between them; of a call that waited its time after the wait, and of one
that did not have to that of quick ones of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s
from kinetoscope.algorithms.trees.longest_path import Edges, fit
from kinetoscope.model.critical_path.points import NONE, Points, find_points
from kinetoscope.model.execution.backward_handover import handovers
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.execution.runtime_calls import reached_by
from kinetoscope.model.execution.stream_waits import StreamWaits, stream_waits
from kinetoscope.model.execution.streams import StreamOrder, stream_order
from kinetoscope.model.execution.synchronization import HostWaits, host_waits, other_streams
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

_QUICK_PERCENTILE: Final = 10
"""Percentile of measured delays that is taken for the needed time, where most may have waited for something else."""


class DependencyKind(IntEnum):
    """Why an instant depends on another."""

    THREAD = 0
    WORK = 1
    STREAM = 2
    EVENT = 3
    LAUNCH = 4
    WAIT = 5
    HANDOVER = 6
    """From the thread that waits to the one that it waits for."""
    RETURN = 7


@dataclass(frozen=True)
class CriticalGraph:
    """The schedule of a trace. Nodes are in order of time, and edges in order of their target.

    Attributes:
        time: int64 [nodes], ns. track: int32 [nodes], the thread of an instant of the host, NONE for those of devices.
        edges: with weights that explain the times; last: int32 [nodes], the edge that arrives last, NONE if none does.
        dependency: int8 [edges], a `DependencyKind`.
        tail, head: int32 [edges], rows of the events at both ends; NONE along threads.
        inferred: bool [edges], waits that were not recorded.
        start, end: int32 [work], the nodes of device work.
        step_start, step_end: int32 [steps], the nodes of the host's steps on the main thread; NONE without a host.
        early: how many pieces of device work began before they were launched: the clocks disagree.
    """

    time: Int64s
    track: Int32s
    edges: Edges
    last: Int32s
    dependency: Int8s
    tail: Int32s
    head: Int32s
    inferred: Bools
    start: Int32s
    end: Int32s
    step_start: Int32s
    step_end: Int32s
    early: int

    @property
    def target(self) -> Int32s:
        """The node that each edge runs to: int32 [edges]."""
        return np.repeat(np.arange(len(self.time), dtype=np.int32), np.diff(self.edges.offsets))


class _Dependencies(NamedTuple):
    """Edges of one kind; `inferred` for all or for each."""

    dependency: DependencyKind
    source: NDArray[np.integer]
    target: NDArray[np.integer]
    needs: Int64s
    tail: Int32s
    head: Int32s
    inferred: Bools | np.bool_ = np.bool_(False)


@derived
def critical_graph(trace: Trace, steps_by: str | None = None, use_recorded: bool = True) -> CriticalGraph:
    """The graph of a trace. With `use_recorded` false as if no waits had been recorded."""
    work = device_work(trace)
    waits, by_event = host_waits(trace, use_recorded), stream_waits(trace, use_recorded)
    points = find_points(trace, waits, steps_by)
    hosts, pieces = len(points.time), len(work)
    time = np.concatenate([points.time, work.start, work.end])
    start, end = hosts + np.arange(pieces), hosts + pieces + np.arange(pieces)
    lane = stream_order(trace)
    dependencies = [
        _along_threads(trace, points, waits),
        _Dependencies(DependencyKind.WORK, start, end, work.end - work.start, work.rows, work.rows),
        *_starts(trace, points, lane, by_event),
        _waits(trace, points, waits),
        *_between_threads(trace, points),
    ]
    number = _numbered(points, work, lane, time)
    nodes = np.argsort(number)
    target = np.concatenate([number[each.target] for each in dependencies])
    source = np.concatenate([number[each.source] for each in dependencies])
    order = np.argsort(target, kind="stable")
    order = order[source[order] < target[order]]  # what is out of order in time, or in turn at one instant, falls out
    source, target = source[order].astype(np.int32), target[order]
    time = time[nodes]
    needs = np.clip(np.concatenate([each.needs for each in dependencies])[order], 0, time[target] - time[source])
    edges = Edges(np.searchsorted(target, np.arange(len(time) + 1)), source, needs)
    weight, last = fit(time, edges)
    launched = work.launch >= 0
    return CriticalGraph(
        time=time,
        track=np.concatenate([points.track, np.full(2 * pieces, NONE, np.int32)])[nodes],
        edges=edges._replace(weight=weight),
        last=last,
        dependency=np.repeat(
            [each.dependency for each in dependencies], [len(each.source) for each in dependencies]
        ).astype(np.int8)[order],
        tail=np.concatenate([each.tail for each in dependencies])[order],
        head=np.concatenate([each.head for each in dependencies])[order],
        inferred=np.concatenate([np.broadcast_to(each.inferred, len(each.source)) for each in dependencies])[order],
        start=number[start].astype(np.int32),
        end=number[end].astype(np.int32),
        step_start=_of_steps(number, points, 0),
        step_end=_of_steps(number, points, 1),
        early=int((work.start[launched] < trace.start[work.launch[launched]]).sum()),
    )


# --- nodes


def _of_steps(number: Int64s, points: Points, which: int) -> Int32s:
    places = points.steps[which]
    return np.where(places >= 0, number[places], NONE).astype(np.int32) if len(number) else places.astype(np.int32)


def _numbered(points: Points, work: DeviceWork, lane: StreamOrder, time: Int64s) -> Int64s:
    """The number of each node, in order of time.

    At one instant work ends before hosts go on, and hosts go on before work starts; work of no duration comes last, in
    the order of its stream.
    """
    hosts, pieces = len(points.time), len(work)
    turn = np.concatenate([np.ones(hosts), np.full(pieces, 2), np.where(work.end > work.start, 0, 2)]).astype(np.int8)
    within = np.concatenate([np.arange(hosts), 2 * lane.position, 2 * lane.position + 1])
    number = np.empty(len(time), np.int64)
    number[np.lexsort((within, turn, time))] = np.arange(len(time))
    return number


# --- edges


def _along_threads(trace: Trace, points: Points, waits: HostWaits) -> _Dependencies:
    """A thread's own time between its points, without waiting."""
    following = np.flatnonzero(np.diff(points.track) == 0) + 1
    needs = np.zeros(len(points.time), np.int64)
    needs[following] = points.time[following] - points.time[following - 1]
    before = np.maximum(np.arange(len(points.time)) - 1, 0)
    work, hands = device_work(trace), handovers(trace)

    def waited(place: Int64s, until: Int64s) -> None:
        begun = points.time[before[place]]
        np.minimum.at(needs, place, points.time[place] - np.maximum(until, begun))

    waiting = waits.waited & (points.call_end > points.call_start)
    waited(points.call_end[waiting], work.end[waits.work[waiting]])
    handed = np.flatnonzero((hands.last >= 0) & (points.begin == before[points.end]) if len(points.time) else [])
    handing = np.where(hands.first[handed] >= 0, trace.start[hands.first[handed]] - hands.begin[handed], 0)
    waited(points.end[handed], trace.end[hands.last[handed]] - np.maximum(handing, 0))
    needs[points.first[points.first >= 0]] = 0  # a thread that nothing was handed to is ready at any time
    none = np.full(len(following), NONE, np.int32)
    return _Dependencies(DependencyKind.THREAD, following - 1, following, needs[following], none, none)


def _starts(trace: Trace, points: Points, lane: StreamOrder, waits: StreamWaits) -> list[_Dependencies]:
    """Dependencies of the start of device work."""
    work = device_work(trace)
    hosts, pieces = len(points.time), len(work)
    start, end = hosts + np.arange(pieces), hosts + pieces + np.arange(pieces)
    linked = np.flatnonzero(work.launch >= 0)
    delay = np.zeros(pieces, np.int64)
    delay[linked] = work.start[linked] - trace.start[work.launch[linked]]
    follows = np.flatnonzero(lane.before >= 0)
    gap = np.zeros(pieces, np.int64)
    gap[follows] = work.start[follows] - work.end[lane.before[follows]]
    plain = linked[~np.isin(linked, waits.work)]
    idle = plain[(delay[plain] >= 0) & ((lane.before[plain] < 0) | (gap[plain] >= delay[plain]))]
    idle = idle[work.start[idle] <= reached_by(trace, work.launch[idle])]  # later: the stream only looks idle
    quick = _percentile(delay[idle], _QUICK_PERCENTILE)
    queued = plain[(lane.before[plain] >= 0) & (gap[plain] < delay[plain] - quick)]
    usual = _percentile(gap[queued], 50)
    before = lane.before[follows]
    return [
        _Dependencies(
            DependencyKind.STREAM,
            end[before],
            start[follows],
            np.minimum(gap[follows], usual),
            work.rows[before],
            work.rows[follows],
        ),
        _Dependencies(
            DependencyKind.EVENT,
            end[waits.on],
            start[waits.work],
            np.minimum(work.start[waits.work] - work.end[waits.on], usual),
            work.rows[waits.on],
            work.rows[waits.work],
            ~waits.recorded,
        ),
        _Dependencies(
            DependencyKind.LAUNCH,
            points.launch[linked],
            start[linked],
            np.minimum(delay[linked], quick),
            work.launch[linked],
            work.rows[linked],
        ),
    ]


def _percentile(values: Int64s, percent: int) -> int:
    return int(np.percentile(values, percent, method="lower")) if len(values) else 0


def _waits(trace: Trace, points: Points, waits: HostWaits) -> _Dependencies:
    work = device_work(trace)
    known = np.flatnonzero(waits.work >= 0)
    end, called = points.time[points.call_end], points.time[points.call_end] - points.time[points.call_start]
    after = np.zeros(len(waits), np.int64)
    on = waits.work[known]
    begun = work.end[on] > end[known]  # by the clocks the copy ends after the call that waits for it
    after[known] = end[known] - np.where(begun, work.start[on], work.end[on])
    quick = _percentile(after[waits.waited & (waits.own < 0)], _QUICK_PERCENTILE)
    needs = np.where(waits.waited, after, np.minimum(called, quick))
    more, others = other_streams(trace, waits)
    place = np.concatenate([known, more])
    node = np.concatenate([on + np.where(begun, 0, len(work)), others + len(work)])
    on = np.concatenate([on, others])
    return _Dependencies(
        DependencyKind.WAIT,
        len(points.time) + node,
        points.call_end[place],
        needs[place],
        work.rows[on],
        waits.call[place],
        ~waits.recorded[place],
    )


def _between_threads(trace: Trace, points: Points) -> Sequence[_Dependencies]:
    hands = handovers(trace)
    handed, returned = np.flatnonzero(hands.first >= 0), np.flatnonzero(hands.last >= 0)
    out = (points.begin[handed], points.first[handed])
    home = (points.last[returned], points.end[returned])
    return [
        _Dependencies(
            DependencyKind.HANDOVER,
            *out,
            points.time[out[1]] - points.time[out[0]],
            hands.inside[handed],
            hands.first[handed],
        ),
        _Dependencies(
            DependencyKind.RETURN,
            *home,
            points.time[home[1]] - points.time[home[0]],
            hands.last[returned],
            hands.inside[returned],
        ),
    ]
