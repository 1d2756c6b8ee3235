"""When the threads that launch device work are busy with launching it, and with nothing else that has a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.host_islands import COMPUTES_NS, encloses
from kinetoscope.advisor.evidence.stakes import bridged, is_worth_reporting, stake_by_time
from kinetoscope.advisor.finding import Stake
from kinetoscope.advisor.rule import RankView
from kinetoscope.algorithms.arrays import Int32s, marked
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, intersection, merge, union
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.device.launches import launches
from kinetoscope.model.device.one_time import ONE_TIME_NS
from kinetoscope.model.execution.call_tree import call_tree, outermost_ops, self_times
from kinetoscope.model.execution.marks import is_data_loading, is_mark, is_optimizer_range
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.execution.synchronization import host_waits
from kinetoscope.model.graphs.lost_work import capturing
from kinetoscope.model.steps.steps import step_of
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.sentences import Sentence, measured, say

CERTAIN_SHARE_OF_GRAPHS: Final = 0.9
"""Certain share of the gain of a graph: some parts, such as the optimizer or a loss, may not be captured."""

_MAX_GAIN_RATIO: Final = 1.1
"""Greatest ratio of the gain to the idle time of launching: work that was launched late delays other work, too."""

_GAP_NS: Final = 1_000
"""Between kernels of a graph, ns; those of a device that waits for launches do not tell what it would be."""

_SHORTER_GAP_SHARE: Final = 0.5
"""Share of the gap between kernels that a graph of a whole step saves at most."""

_MIN_LAUNCHES: Final = 20
"""Launches a step from which on a graph is worth its trouble."""

_MIN_IDLE_SHARE: Final = 0.05
"""Share of the time in which the device must wait for launches."""


@dataclass(frozen=True)
class LaunchingTime:
    """The time of the selected launch calls.

    Attributes:
        calls: int32 [calls], their rows.
        stretches: by track, the time of operators and launch calls and the short pauses between them, as far as they
            hold a launch; without waiting, allocating, data loading, what computes on the host, and captures.
    """

    calls: Int32s
    stretches: dict[int, Intervals]

    @property
    def length(self) -> int:
        """The length of all stretches, ns."""
        return sum(stretch.length for stretch in self.stretches.values())

    def within(self, trace: Trace, time: Intervals) -> LaunchingTime:
        """The part in some time of the host, a union."""
        calls = self.calls[step_of(time, trace.start[self.calls]) >= 0]
        return LaunchingTime(calls, {track: intersection(each, time) for track, each in self.stretches.items()})


def launching_time(rank: RankView) -> LaunchingTime:
    """Find it for the selected steps."""
    trace, all_launches = rank.trace, launches(rank.trace)
    calls = all_launches.rows[rank.scope.host_mask[all_launches.rows]]
    tree, waits = call_tree(trace), host_waits(trace)
    is_launch = marked(len(trace), all_launches.rows)
    asking = tree.member & np.isin(trace.kind, (EventKind.HOST_OP, EventKind.RUNTIME)) & ~is_data_loading(trace)
    asking &= ~is_mark(trace) & ~is_optimizer_range(trace)
    other = np.isin(runtime_call_kinds(trace), (RuntimeCallKind.ALLOCATE, RuntimeCallKind.FREE))
    other[waits.call] = True
    other |= is_data_loading(trace) | (asking & (self_times(trace) > ONE_TIME_NS))
    other |= outermost_ops(trace) & (trace.end - trace.start >= COMPUTES_NS) & ~encloses(tree.parent, is_launch)
    stretches = {}
    for track in np.unique(trace.track[calls]).tolist():
        here = trace.track == track
        rows = np.flatnonzero(asking & here)
        asks = bridged(union(trace.start[rows], trace.end[rows]))
        held = np.zeros(len(asks.start), np.bool_)
        place = step_of(asks, trace.start[calls[trace.track[calls] == track]])
        held[place[place >= 0]] = True
        asks = Intervals(asks.start[held], asks.end[held])
        others = np.flatnonzero(other & here)
        without = merge(union(trace.start[others], trace.end[others]), capturing(trace))
        stretches[track] = intersection(difference(asks, without), rank.time)
    return LaunchingTime(calls, stretches)


@dataclass(frozen=True)
class LaunchBound:
    """Time in which the device waits for launches.

    Attributes:
        launching: when the host launches.
        exposed: the part that no device work hides.
        stake: what a graph brings.
        factors: what is replayed for that.
    """

    launching: LaunchingTime
    exposed: Intervals
    stake: Stake
    factors: Factors

    def launches(self, rank: RankView) -> Sentence:
        """How many there are, how long each takes on average, and how long what it launches."""
        calls, every = self.launching.calls, launches(rank.trace)
        busy = every.busy[np.isin(every.rows, calls) & (every.first >= 0)]
        return say(
            "{launches} take the host {each} each, and the device works {work} for each",
            launches=rank.each_step(len(calls), "launch", "launches"),
            each=measured(self.launching.length / len(calls), "ns"),
            work=measured(float(np.mean(busy)) if len(busy) else 0.0, "ns"),
        )


def launch_bound(rank: RankView, within: Intervals | None = None) -> LaunchBound | None:
    """Does the device wait for launches for so long that a graph is worth its trouble? None: no.

    within: the time of the host in steps that one graph each can launch, a union. None: all selected steps.
    """
    launching = launching_time(rank)
    if within is not None:
        launching = launching.within(rank.trace, within)
    if len(launching.calls) < _MIN_LAUNCHES * rank.step_count:
        return None
    exposed = rank.exposed(merge(*launching.stretches.values()))
    if exposed.length < _MIN_IDLE_SHARE * rank.time.length:
        return None
    factors = rank.factors()
    factors.cut.update(launching.stretches)
    gains = rank.gains(factors)
    # What goes beyond the idle time comes from other things that then begin sooner: it is theirs.
    gains = gains * min(1.0, _MAX_GAIN_RATIO * exposed.length / max(float(gains.sum()), 1.0))
    gaps = _GAP_NS * len(launching.calls) / rank.step_count
    shorter = _SHORTER_GAP_SHARE * gaps if within is not None else 0.0
    stake = stake_by_time(rank, CERTAIN_SHARE_OF_GRAPHS * gains - gaps, gains + shorter, exposed)
    return LaunchBound(launching, exposed, stake, factors) if is_worth_reporting(rank, stake) else None
