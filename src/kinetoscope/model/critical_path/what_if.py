"""Durations of steps if some of their events took another time: `gemm=0.5; launch=0`.

The graph of `critical_graph` gets other weights. Events that no rule names keep their time, and what they wait for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats, Int32s, Int64s, scattered
from kinetoscope.algorithms.intervals import innermost
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.algorithms.trees.longest_path import longest
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.errors import UsageError
from kinetoscope.model.critical_path.graph import CriticalGraph, DependencyKind, critical_graph
from kinetoscope.model.critical_path.path import CAUSES, PathCause, cause_of_work, host_causes
from kinetoscope.model.critical_path.points import NONE
from kinetoscope.model.execution.backward_handover import host_time
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, reached_by, runtime_call_kinds
from kinetoscope.model.steps.steps import Steps, step_of, steps
from kinetoscope.model.trace.event_kinds import DEVICE_WORK, HOST_KINDS, EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace

_MAX_FACTOR: Final = 1_000_000
"""Greatest factor of a rule."""

_MAX_TIME_NS: Final = float(1 << 60)
"""36 years: scaled times are clipped there, as wrong ones would overflow."""

_NEVER_LATE_TIME: Final = -(1 << 61)
"""Weight of an edge that holds nothing up: before any instant, and far from what overflows."""

_EXAMPLE: Final = "write a part of a name, a /pattern/ or a cause, and a factor: gemm=0.5; /^nccl/=0; launch=0"


@dataclass(frozen=True)
class ScalingRule:
    """A rule that scales the time of some events.

    Attributes:
        text: as it was written.
        fits: whether a name matches; None if `cause` selects.
        cause: one of `CAUSES`, else None.
        factor: by which the time is multiplied.
    """

    text: str
    fits: Callable[[str], object] | None
    cause: PathCause | None
    factor: float


@dataclass(frozen=True)
class WhatIf:
    """Durations with scaled times.

    Attributes:
        duration: int64 [steps], of each step, ns.
        whole: from the start of the first step to the end of the last one, ns.
        events: the text of each rule, and the number of events that it names; −1 for a cause.
    """

    duration: Int64s
    whole: int
    events: tuple[tuple[str, int], ...]


def parse_rules(text: str) -> tuple[ScalingRule, ...]:
    """The rules of a text; none for an empty one.

    Raises:
        UsageError: it cannot be read.
    """
    return tuple(_rule(part.strip()) for part in text.split(";") if part.strip())


def _rule(text: str) -> ScalingRule:
    what, _, number = (part.strip() for part in text.rpartition("="))
    try:
        factor = float(number)
    except ValueError:
        factor = math.nan
    if not what or not 0 <= factor <= _MAX_FACTOR:
        raise UsageError(f"{text!r} does not say what is to take how much of its time; {_EXAMPLE}")
    if what in CAUSES:
        return ScalingRule(text, None, PathCause(CAUSES.index(what)), factor)
    if len(what) > 2 and what.startswith("/") and what.endswith("/"):
        try:
            return ScalingRule(text, re.compile(what[1:-1]).search, None, factor)
        except re.error as error:
            raise UsageError(f"{what} is no pattern: {error}; {_EXAMPLE}") from error
    return ScalingRule(text, lambda name: what in name, None, factor)


def replayed(
    trace: Trace, factors: Factors, steps_by: str | None = None, follows: Bools | None = None
) -> tuple[Int64s, int]:
    """The duration of each step, int64 [steps], and of the whole run of them, ns, with scaled times.

    Events that begin before the first step keep their time: it is not the steps that would gain. follows: bool [steps],
    steps that last from the end of the step before, whatever is between the two.
    """
    replay = replay_with(trace, factors, steps_by, follows)
    before = int(steps(trace, steps_by).device.start[0]) if len(replay.end) else 0
    return replay.end - replay.start, int(replay.end[-1]) - before if len(replay.end) else 0


@dataclass(frozen=True)
class Replay:
    """The schedule with scaled times.

    Attributes:
        time: int64 [nodes], when each node of `critical_graph` comes.
        weight: int64 [edges], the time that each of its edges needs.
        start, end: int64 [steps], ns; node: the node that each step ends in, NONE for an empty one.
    """

    time: Int64s
    weight: Int64s
    start: Int64s
    end: Int64s
    node: Int64s


def replay_with(trace: Trace, factors: Factors, steps_by: str | None = None, follows: Bools | None = None) -> Replay:
    """The schedule with scaled times; see `replayed`."""
    graph, every = critical_graph(trace, steps_by), steps(trace, steps_by)
    weight = _scaled(trace, graph, factors, int(every.device.start.min()) if len(every) else 0)
    time = longest(graph.time, graph.edges._replace(weight=weight))
    return Replay(time, weight, *_step_times(trace, graph, every, time, follows))


def what_if(trace: Trace, rules: tuple[ScalingRule, ...], steps_by: str | None = None) -> WhatIf:
    """Durations of the steps with the rules applied.

    A name means device work of that name; calls of that name, with all that happens inside them; and the device work
    that was launched there. Of a call of the runtime it means the call, and the way from there to the device, but not
    the work that it launched.
    """
    factors = Factors.all_one(trace)
    counts = tuple((rule.text, factors.apply(trace, rule)) for rule in rules)
    return WhatIf(*replayed(trace, factors, steps_by), counts)


# --- factors


@dataclass
class Factors:
    """Factors of times: float64.

    Attributes:
        host: [events], time of calls in which no other runs; of a call that waits for the device also its waiting.
        work, delay, gap: [work], its time, that since its launch call, and that since work before it.
        outside: of time outside calls.
        unexplained: of time after a launch that launching does not take.
        cut: by track, stretches of a host thread's time (disjoint, ascending) that go altogether.
        free: float64 [events], 1 for calls that no longer wait for the device, less for those that wait for a part of
            their time less; their own time is as `host` says.
    """

    host: Floats
    work: Floats
    delay: Floats
    gap: Floats
    free: Floats
    outside: float = 1.0
    unexplained: float = 1.0
    cut: dict[int, Intervals] = field(default_factory=dict)

    @classmethod
    def all_one(cls, trace: Trace) -> Factors:
        """Factors that change nothing."""
        pieces = len(device_work(trace))
        ones = np.ones(pieces)
        return cls(np.ones(len(trace)), ones, ones.copy(), ones.copy(), np.zeros(len(trace)))

    def apply(self, trace: Trace, rule: ScalingRule) -> int:
        """Apply a rule; returns the number of events that it names, −1 for a cause."""
        work = device_work(trace)
        linked = work.launch >= 0
        if rule.fits is None:
            cause = rule.cause
            self.host[host_causes(trace) == cause] *= rule.factor
            self.work[cause_of_work(trace) == cause] *= rule.factor
            self.delay *= rule.factor if cause == PathCause.LAUNCH else 1.0
            self.gap[linked] *= rule.factor if cause == PathCause.GAPS else 1.0
            self.gap[~linked] *= rule.factor if cause == PathCause.OTHER else 1.0
            self.outside *= rule.factor if cause == PathCause.HOST else 1.0
            self.unexplained *= rule.factor if cause == PathCause.OTHER else 1.0
            return -1
        named = rows_named(trace, lambda name: bool(rule.fits and rule.fits(name)), *HOST_KINDS, *DEVICE_WORK)
        parent = call_tree(trace).parent
        self.host[ancestor(parent, named) >= 0] *= rule.factor
        self.delay[linked & named[work.launch]] *= rule.factor
        launched = ancestor(parent, named & (trace.kind != EventKind.RUNTIME)) >= 0
        self.work[named[work.rows] | (linked & launched[work.launch])] *= rule.factor
        return int(named.sum())


# --- the graph with other weights


def _scaled(trace: Trace, graph: CriticalGraph, factors: Factors, begin: int) -> Int64s:
    work, dependency, target = device_work(trace), graph.dependency, graph.target
    factor = np.ones(len(dependency))
    place = scattered(len(trace) + 1, work.rows, np.arange(len(work)), np.int32)
    for kind, of in (
        (DependencyKind.WORK, factors.work),
        (DependencyKind.STREAM, factors.gap),
        (DependencyKind.EVENT, factors.gap),
        (DependencyKind.LAUNCH, factors.delay),
    ):
        edges = np.flatnonzero(dependency == kind)
        factor[edges] = of[place[graph.head[edges]]]
    edges = np.flatnonzero(dependency == DependencyKind.LAUNCH)
    factor[edges] = _of_launches(trace, graph, factors, edges, factor[edges])
    edges = np.flatnonzero(dependency == DependencyKind.WAIT)
    factor[edges] = factors.host[graph.head[edges]]
    factor[np.isin(dependency, (DependencyKind.HANDOVER, DependencyKind.RETURN))] = factors.outside
    edges = np.flatnonzero(dependency == DependencyKind.THREAD)
    first, last = graph.edges.source[edges], target[edges]
    left, uncut = left_of_host(trace, factors)
    saved = ShareOfHost(host_time(trace), (1.0 - left) * uncut)
    took = np.maximum(graph.time[last] - graph.time[first], 1)
    since = np.clip(begin, graph.time[first], graph.time[last])  # the host may be in a later step by then
    less = saved.until(graph.track[last], graph.time[last]) - saved.until(graph.track[first], since)
    for track, cut in factors.cut.items():
        on_track = np.flatnonzero(graph.track[last] == track)
        removed = length_until(cut, graph.time[last[on_track]]) - length_until(cut, since[on_track])
        less[on_track] += removed
    factor[edges] = 1.0 - less / took
    weight = graph.edges.weight.copy()
    changed = (factor != 1.0) & ((graph.time[graph.edges.source] >= begin) | (dependency == DependencyKind.THREAD))
    scaled = weight[changed] * np.maximum(factor[changed], 0.0)
    weight[changed] = np.rint(np.clip(scaled, -_MAX_TIME_NS, _MAX_TIME_NS)).astype(np.int64)
    edges = np.flatnonzero(dependency == DependencyKind.WAIT)
    call = graph.head[edges]
    edges = edges[(factors.free[call] > 0) & (graph.time[graph.edges.source[edges]] >= begin)]
    call = graph.head[edges]
    sooner = np.rint(factors.free[call] * (trace.end[call] - trace.start[call])).astype(np.int64)
    weight[edges] = np.where(factors.free[call] >= 1.0, _NEVER_LATE_TIME, weight[edges] - sooner)
    return weight


def _of_launches(trace: Trace, graph: CriticalGraph, factors: Factors, edges: Int64s, delay: Floats) -> Floats:
    """The factors of launches, of which `delay` has only that of launching itself; see `critical_path`."""
    weight, call = graph.edges.weight[edges], graph.tail[edges]
    own = np.clip(reached_by(trace, call) - graph.time[graph.edges.source[edges]], 0, np.maximum(weight, 0))
    is_copy = runtime_call_kinds(trace)[call] == RuntimeCallKind.COPY_AND_WAIT
    rest = np.where(is_copy, factors.host[call], factors.unexplained)
    return np.where(weight > own, (own * delay + (weight - own) * rest) / np.maximum(weight, 1), delay)


def length_until(cut: Intervals, time: Int64s) -> Int64s:
    """Length of disjoint, ascending intervals before each time, ns."""
    before = np.concatenate([[0], np.cumsum(cut.end - cut.start)])
    place = np.searchsorted(cut.start, time, side="right") - 1
    known = np.maximum(place, 0)
    if not len(cut.start):
        return np.zeros(len(time), np.int64)
    inside = before[known] + np.minimum(time, cut.end[known]) - cut.start[known]
    return np.where(place >= 0, inside, 0)


def left_of_host(trace: Trace, factors: Factors) -> tuple[Floats, Floats]:
    """The factor and the share that is not cut of each stretch of `host_time`: float64 [stretches]."""
    time = host_time(trace)
    left = np.where(time.row >= 0, factors.host[time.row], factors.outside) if len(time.row) else np.empty(0)
    uncut, length = np.ones(len(time.row)), lengths(time)
    for track, cut in factors.cut.items():
        here = slice(int(time.offsets[track]), int(time.offsets[track + 1]))
        begin, took = time.time[here], length[here].astype(np.int64)
        gone = length_until(cut, begin + took) - length_until(cut, begin)
        uncut[here] = 1.0 - gone / np.maximum(took, 1)
    return left, uncut


class ShareOfHost:
    """A share of each stretch of the host's time (float64 [stretches of `host_time`]), summed from the first on.

    It is exactly 0 over stretches of share 0.
    """

    def __init__(self, time: innermost.Stretches, share: Floats) -> None:
        self.time, self.share = time, share
        self.before = np.concatenate([[0.0], np.cumsum(lengths(time) * share)])

    def until(self, track: Int32s, time: Int64s) -> Floats:
        """The sum until some times on some tracks, ns; differences on one track mean something."""
        place = innermost.at(self.time, track, time)
        known = np.maximum(place, 0)
        if not len(self.share):
            return np.zeros(len(time))
        inside = self.before[known] + (time - self.time.time[known]) * self.share[known]
        return np.where(place >= 0, inside, self.before[self.time.offsets[track]])


def lengths(time: innermost.Stretches) -> Floats:
    """The length of each stretch, ns; 0 for the last of a track, which has no end."""
    length = np.zeros(len(time.row))
    length[:-1] = np.diff(time.time)
    length[time.offsets[1:][np.diff(time.offsets) > 0] - 1] = 0
    return length


def _step_times(
    trace: Trace, graph: CriticalGraph, every: Steps, time: Int64s, follows: Bools | None = None
) -> tuple[Int64s, Int64s, Int64s]:
    """Start and end of the steps by the formula of `steps.device_steps`, with other times, and the node at the end."""
    work, node = device_work(trace), graph.step_end.astype(np.int64)
    start = (
        np.where(graph.step_start >= 0, time[graph.step_start], every.device.start) if len(time) else every.device.start
    )
    end = np.where(graph.step_end >= 0, time[graph.step_end], start) if len(time) else every.device.end
    step = np.full(len(work), -1, np.int64)
    linked = work.launch >= 0
    step[linked] = step_of(every.host, trace.start[work.launch[linked]])
    if (graph.step_end < 0).all():  # no host: all work is the one step's
        step[:] = 0
    of_step = np.flatnonzero(step >= 0)
    of_host = end.copy()
    np.maximum.at(end, step[of_step], time[graph.end[of_step]])
    last = of_step[(time[graph.end[of_step]] == end[step[of_step]]) & (end > of_host)[step[of_step]]]
    node[step[last][::-1]] = graph.end[last][::-1]
    begun, ended = np.empty(len(every), np.int64), np.empty(len(every), np.int64)
    before = int(every.device.start[0]) if len(every) else 0
    for place in range(len(every)):
        begun[place] = before if follows is not None and follows[place] else max(int(start[place]), before)
        before = ended[place] = max(int(end[place]), int(begun[place]))
    node[ended > end] = NONE
    return begun, ended, node
