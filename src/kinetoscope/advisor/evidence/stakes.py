"""What a rule asks of a rank before it says anything: is the device known, and is there enough to gain?"""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.advisor.finding import SMALL, Stake
from kinetoscope.advisor.rule import RankView
from kinetoscope.algorithms.arrays import Bools, Floats, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.device.launches import launches
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.flops.rates import is_host_only
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

_MODEL: Final = 1.05
"""By how much what is computed anew may be wrong: gaps between kernels, and what a launch takes to arrive."""

_SPREAD: Final = 1.15
"""No interval is narrower: where both ends are what another bottleneck leaves, that is not known better than so."""

_FULL: Final = 1000
"""Launches that wait for the device, from which on a launch call may have to wait, too: CUDA's queue holds 1,024."""

_HELD: Final = 2.0
"""Times the usual launch call from which on one did wait."""


def is_worth_it(look: RankView, stake: Stake) -> bool:
    """Is enough at stake at most?"""
    return stake.high >= SMALL * look.step > 0


def stake_over(look: RankView, low: Floats, high: Floats, time: Intervals) -> Stake:
    """The stake of gains by step (float64 [steps] each) that come from some time (a union).

    A step that ends later than it could only shifts its end into the next one, so that gains go up and down where their
    sum does not. How much the fault itself varies from step to step is told by its time.
    """
    amount = look.sums(time)
    total = float(amount.sum())
    least, most = float(low.sum()), float(high.sum())
    most = max(_MODEL * most, _SPREAD * least)
    if total <= 0:
        return look.stake(low, high * _MODEL)
    return look.stake(amount * (least / total), amount * (most / total))


def stake_seen(look: RankView, low: Floats, high: Floats) -> Stake:
    """The stake of gains by step that come in few steps, as pauses do: that of the recorded steps, as they were."""
    least, most = max(float(np.mean(low)), 0.0), max(float(np.mean(high)), 0.0) * _MODEL
    return Stake(least, min(max(most, least), look.step))


def nothing_changes(look: RankView) -> Factors:
    """The beginning of a what-if about device work: launch calls that a full queue held up are not held up by it.

    How long they took is not the host's own time but the device's, which is about to change.
    """
    factors, (calls, left) = look.factors(), _held_up(look.trace)
    factors.host[calls] = left
    return factors


@derived
def _held_up(trace: Trace) -> tuple[Int64s, Floats]:
    """Launch calls that wait for room in a queue: rows, and what part of their time is their own."""
    found, work = launches(trace), device_work(trace)
    took = (trace.end - trace.start)[found.rows]
    if not len(took):
        return np.empty(0, np.int64), np.empty(0)
    usual = max(float(np.median(took)), 1.0)
    begun = trace.start[found.rows]
    queued = np.searchsorted(np.sort(begun), begun) - np.searchsorted(np.sort(work.start[work.launch >= 0]), begun)
    held = (queued >= _FULL) & (took > _HELD * usual)
    return found.rows[held].astype(np.int64), usual / took[held]


def without(factors: Factors, work: Bools, left: float | Floats) -> None:
    """Leave only a part of some device work (bool [work]) and of what passes before each piece of it."""
    factors.work[work] = left
    factors.gap[work] = left


def says_who_computes(look: RankView) -> bool:
    """Is there device work, or nothing of a device at all? Else the trace does not show what computes when."""
    return look.count > 0 and (look.has_device or is_host_only(look.trace))
