"""Several what-ifs at once, each to a part of its effect, and what the steps that then remain are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats, Int32s, Int64s, scattered
from kinetoscope.algorithms.intervals.intervals import Intervals, merge
from kinetoscope.algorithms.trees.longest_path import NO_EDGE, paths
from kinetoscope.model.critical_path.graph import CriticalGraph, DependencyKind, critical_graph
from kinetoscope.model.critical_path.path import CAUSES, PathCause, causes_of_edges, host_causes
from kinetoscope.model.critical_path.what_if import (
    Factors,
    Replay,
    ShareOfHost,
    left_of_host,
    replay_with,
)
from kinetoscope.model.execution.backward_handover import host_time
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, reached_by, runtime_call_kinds
from kinetoscope.model.trace.trace import Trace

_SCALED: Final = ("host", "work", "delay", "gap")
"""Fields of `Factors` with a factor for each event, or each piece of work."""

Chosen = tuple[Int64s, Floats]
"""Places in an array, and what stands there."""


@dataclass(frozen=True, slots=True)
class ReplayedChange:
    """A what-if without the times that it leaves as they are; fields as in `Factors`."""

    scaled: dict[str, Chosen]
    free: Chosen
    outside: float
    unexplained: float
    cut: dict[int, Intervals]

    @classmethod
    def of(cls, factors: Factors) -> ReplayedChange:
        """The changes of these factors."""
        scaled = {name: _where(getattr(factors, name), 1.0) for name in _SCALED}
        return cls(scaled, _where(factors.free, 0.0), factors.outside, factors.unexplained, dict(factors.cut))

    def put_into(self, factors: Factors, strength: float = 1.0) -> None:
        """Change the factors, too, by a part of the change.

        A time that both change takes the smaller one of both: what two changes take away they take away once.
        """
        for name, (places, values) in self.scaled.items():
            array = getattr(factors, name)
            array[places] = np.minimum(array[places], 1.0 - strength * (1.0 - values))
        places, values = self.free
        factors.free[places] = np.maximum(factors.free[places], strength * values)
        factors.outside = min(factors.outside, 1.0 - strength * (1.0 - self.outside))
        factors.unexplained = min(factors.unexplained, 1.0 - strength * (1.0 - self.unexplained))
        for track, cut in self.cut.items():
            part = Intervals(cut.start, cut.start + np.rint((cut.end - cut.start) * strength).astype(np.int64))
            factors.cut[track] = merge(factors.cut[track], part) if track in factors.cut else part


def _where(values: Floats, usual: float) -> Chosen:
    places = np.flatnonzero(values != usual)
    return places, values[places]


def joined(trace: Trace, changes: Iterable[tuple[ReplayedChange, float]]) -> Factors:
    """The factors of changes together, each to a part: what none of them changes stays."""
    factors = Factors.all_one(trace)
    for change, strength in changes:
        change.put_into(factors, strength)
    return factors


def causes_of_replay(
    trace: Trace, factors: Factors, steps_by: str | None = None, follows: Bools | None = None
) -> Int64s:
    """Causes of the steps' time with other times, ns: int64 [steps, causes], a column for each `PathCause`.

    A row sums to the length of its step as `replayed` has it: it is the critical path of the replay.
    """
    graph = critical_graph(trace, steps_by)
    replay = replay_with(trace, factors, steps_by, follows)
    edges, offsets = paths(
        replay.time, graph.edges._replace(weight=replay.weight), _last(graph, replay), replay.node, replay.start
    )
    step = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    since, until = replay.time[graph.edges.source[edges]], replay.time[graph.target[edges]]
    length = until - np.maximum(since, replay.start[step])
    inside = length / np.maximum(until - since, 1)
    spent = _shares(trace, graph, factors, edges, inside) * length[:, None]
    result = np.zeros((len(replay.end), len(CAUSES)))
    np.add.at(result, step, spent)
    whole = np.rint(result).astype(np.int64)
    left = replay.end - replay.start - whole.sum(axis=1)  # before a path begins nothing explains the time
    whole[:, PathCause.OTHER] += np.maximum(left, 0)
    whole[np.arange(len(whole)), whole.argmax(axis=1)] += np.minimum(left, 0)  # nanoseconds of rounding
    return whole


def _last(graph: CriticalGraph, replay: Replay) -> Int32s:
    """The edge that arrives last at each node in a replay."""
    target = graph.target
    arrives = np.flatnonzero(replay.time[graph.edges.source] + replay.weight == replay.time[target])
    last = np.full(len(replay.time), NO_EDGE, np.int32)
    last[target[arrives][::-1]] = arrives[::-1]
    return last


def _shares(trace: Trace, graph: CriticalGraph, factors: Factors, edges: Int64s, inside: Floats) -> Floats:
    """How the last part (a share `inside`) of each edge divides into causes: float64 [edges, causes]."""
    dependency = graph.dependency[edges]
    shares = np.zeros((len(edges), len(CAUSES)))
    shares[np.arange(len(edges)), causes_of_edges(trace, dependency, graph.head[edges])] = 1.0
    along = np.flatnonzero(dependency == DependencyKind.THREAD)
    shares[along] = _of_threads(trace, graph, factors, edges[along], inside[along])
    launched = np.flatnonzero(dependency == DependencyKind.LAUNCH)
    shares[launched] = _of_launches(trace, graph, factors, edges[launched])
    return shares


def _of_threads(trace: Trace, graph: CriticalGraph, factors: Factors, edges: Int64s, inside: Floats) -> Floats:
    """By the innermost call, with what is left of it."""
    time, (left, uncut) = host_time(trace), left_of_host(trace, factors)
    cause = np.where(time.row >= 0, host_causes(trace)[time.row], PathCause.HOST) if len(time.row) else time.row
    shares = np.zeros((len(edges), len(CAUSES)))
    source, target = graph.edges.source[edges], graph.target[edges]
    track, until = graph.track[target], graph.time[target]
    since = until - np.rint((until - graph.time[source]) * inside).astype(np.int64)
    for each in (PathCause.HOST, PathCause.DATA_LOADING, PathCause.LAUNCH):
        spent = ShareOfHost(time, np.where(cause == each, left * uncut, 0.0))
        shares[:, each] = spent.until(track, until) - spent.until(track, since)
    total = shares.sum(axis=1)
    shares[total <= 0, PathCause.HOST] = 1.0
    return shares / np.where(total > 0, total, 1.0)[:, None]


def _of_launches(trace: Trace, graph: CriticalGraph, factors: Factors, edges: Int64s) -> Floats:
    """Launching, as long as it takes, and the rest: the call's if it waits for its copy, else not explained."""
    call, needs = graph.tail[edges], np.maximum(graph.edges.weight[edges], 0)
    own = np.clip(reached_by(trace, call) - graph.time[graph.edges.source[edges]], 0, needs)
    is_copy = runtime_call_kinds(trace)[call] == RuntimeCallKind.COPY_AND_WAIT
    work = device_work(trace)
    place = scattered(len(trace) + 1, work.rows, np.arange(len(work)), np.int32)
    launching = own * factors.delay[place[graph.head[edges]]]
    rest = (needs - own) * np.where(is_copy, factors.host[call], factors.unexplained)
    total = launching + rest
    share = np.where(total > 0, launching / np.maximum(total, 1e-9), 1.0)
    shares = np.zeros((len(edges), len(CAUSES)))
    shares[:, PathCause.LAUNCH] = share
    shares[np.arange(len(edges)), np.where(is_copy, PathCause.HOST, PathCause.OTHER)] = 1.0 - share
    return shares
