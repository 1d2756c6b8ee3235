"""What a rule asks of a rank before it reports anything: is the device known, and how much is at stake?"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kinetoscope.advisor.finding import NEGLIGIBLE_STEP_SHARE, Stake
from kinetoscope.advisor.rule import RankView
from kinetoscope.algorithms.arrays import Bools, Floats, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, intersection, merge, union
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.device.launches import launches
from kinetoscope.model.execution.call_tree import inside
from kinetoscope.model.execution.device_work import device_work, launched_by
from kinetoscope.model.execution.marks import is_mark
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.sentences import EMPTY, Sentence, measured, say

_REPLAY_ERROR: Final = 1.05
"""Factor by which a replayed step may be wrong: gaps between kernels, and the time a launch takes to arrive."""

_MIN_WIDTH: Final = 1.15
"""Least ratio of the upper to the lower end: where both ends are set by another bottleneck, it is not known better."""

PAUSE_NS: Final = 50_000
"""Between two operators, ns: so much Python is part of asking for the next one; more has another reason."""

_FULL_QUEUE: Final = 1000
"""Launches that wait for the device, from which on a launch call may block, too: CUDA's queue holds 1,024."""

_BLOCKED: Final = 2.0
"""Ratio to the median launch call from which on a call was blocked."""


def is_worth_reporting(rank: RankView, stake: Stake) -> bool:
    """Is the possible gain more than negligible?"""
    return stake.high >= NEGLIGIBLE_STEP_SHARE * rank.step > 0


def stake_by_time(rank: RankView, low: Floats, high: Floats, time: Intervals) -> Stake:
    """The stake of gains by step (float64 [steps] each) that come from some time (a union).

    A step that ends later than it could only shifts its end into the next one, so gains vary more from step to step
    than their sum does. The variation of the fault itself is that of its time.
    """
    amount = rank.by_step(time)
    total = float(amount.sum())
    least, most = float(low.sum()), float(high.sum())
    most = max(_REPLAY_ERROR * most, _MIN_WIDTH * least)
    if total <= 0:
        return rank.stake(low, high * _REPLAY_ERROR)
    return rank.stake(amount * (least / total), amount * (most / total))


WELL_BELOW: Final = 0.75
"""Share of the device time that goes, below which a step gains so little of it that the reason is said."""


def limit_left(rank: RankView, stake: Stake, goes: float, time: Intervals) -> Sentence:
    """The reason why steps gain less than the device time that goes, as a sentence after others; "" if little is lost.

    It is other device work at the same time where that covers what is lost, else the host.

    Args:
        rank: the rank.
        stake: of an average step.
        goes: device time of all selected steps that goes at most, ns.
        time: when the work runs that is changed.
    """
    gone = rank.per_step(goes)
    if stake.high >= WELL_BELOW * gone or gone <= 0:
        return EMPTY
    work = rank.work
    ends = merge(time)
    inside = np.zeros(len(work), np.bool_)
    place = np.searchsorted(ends.start, work.start, side="right") - 1
    inside[place >= 0] = work.end[place >= 0] <= ends.end[place[place >= 0]]
    beside = intersection(union(work.start[~inside], work.end[~inside]), time)
    lost = gone - stake.high
    is_covered = rank.per_step(beside.length) >= lost
    return say(
        " Of up to {goes} less device time a step gains less: {reason}.",
        goes=measured(gone, "ns"),
        reason="other work runs beside it" if is_covered else "then the host sets the pace",
    )


def stake_as_recorded(rank: RankView, low: Floats, high: Floats) -> Stake:
    """The stake of gains by step that come in few steps, as pauses do: that of the recorded steps, without a margin."""
    least, most = max(float(np.mean(low)), 0.0), max(float(np.mean(high)), 0.0) * _REPLAY_ERROR
    return Stake(least, min(max(most, least), rank.step))


def unblocked_launches(rank: RankView) -> Factors:
    """The start of a what-if about device work: launch calls that a full queue blocked take their own time only."""
    factors, (calls, left) = rank.factors(), _blocked_launches(rank.trace)
    factors.host[calls] = left
    return factors


@derived
def _blocked_launches(trace: Trace) -> tuple[Int64s, Floats]:
    """Launch calls that wait for room in a queue: rows, and the share of their time that is their own."""
    calls, work = launches(trace).rows, device_work(trace)
    took = (trace.end - trace.start)[calls]
    if not len(took):
        return np.empty(0, np.int64), np.empty(0)
    usual = max(float(np.median(took)), 1.0)
    begun = trace.start[calls]
    queued = np.searchsorted(np.sort(begun), begun) - np.searchsorted(np.sort(work.start[work.launch >= 0]), begun)
    blocked = (queued >= _FULL_QUEUE) & (took > _BLOCKED * usual)
    return calls[blocked].astype(np.int64), usual / took[blocked]


def leave_only(factors: Factors, work: Bools, left: float | Floats) -> None:
    """Leave only a share of some device work (bool [work]) and of the gap before each piece of it."""
    factors.work[work] = left
    factors.gap[work] = left


def with_pauses(rank: RankView, work: Bools) -> Intervals:
    """The time of some device work (bool [work]) in selected steps, each piece with the idle time that it ends."""
    idle = rank.idle
    ends = np.isin(idle.end, rank.work.start[work])
    pauses = Intervals(idle.start[ends], idle.end[ends])
    return intersection(merge(rank.work_spans(work), pauses), rank.time)


class Removed(NamedTuple):
    """The times that go with some calls.

    Attributes:
        gains: float64 [steps], the time that each selected step would be shorter by, ns.
        busy: when what they compute runs: on devices, without one on the host.
        time: the exposed time of the calls and the time of the device work that they launch, in selected steps.
        took: what the calls and the short pauses between them take together, on the host or on devices, ns.
        factors: what is replayed for the gains.
    """

    gains: Floats
    busy: Intervals
    time: Intervals
    took: int
    factors: Factors


def without_calls(rank: RankView, calls: Bools) -> Removed:
    """The gain of the steps without some calls (bool [events]), all that happens in them, and what they launch."""
    within = inside(rank.trace, calls)
    launched, spans = launched_by(rank.trace, within), rank.spans(calls)
    factors = rank.factors()
    factors.host[within] = 0.0
    leave_only(factors, launched, 0.0)
    work = rank.work_spans(launched)
    time = intersection(merge(rank.exposed(spans), work), rank.time)
    took = merge(_since_others(rank.trace, bridged(spans), within), intersection(work, rank.time)).length
    return Removed(rank.gains(factors), work if rank.has_device else spans, time, took, factors)


def _since_others(trace: Trace, time: Intervals, within: Bools) -> Intervals:
    """Some stretches, each from the end of the operator before it on if only a short pause lies between."""
    others = np.sort(trace.end[(trace.kind == EventKind.HOST_OP) & ~within & ~is_mark(trace)])
    if not len(others):
        return time
    before = others[np.maximum(np.searchsorted(others, time.start, side="right") - 1, 0)]
    near = (before <= time.start) & (time.start - before <= PAUSE_NS)
    return union(np.where(near, before, time.start), time.end)


def bridged(time: Intervals) -> Intervals:
    """Some time of a thread and the short pauses in it, in which Python asks for the next call."""
    pauses = Intervals(time.end[:-1], time.start[1:])
    short = pauses.end - pauses.start <= PAUSE_NS
    return merge(time, Intervals(pauses.start[short], pauses.end[short]))
