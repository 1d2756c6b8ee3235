"""What a rule asks of a rank before it says anything: is the device known, and is there enough to gain?"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.advisor.finding import Stake
from kinetoscope.advisor.rule import RankView
from kinetoscope.algorithms.intervals import Intervals
from kinetoscope.model.flop_rates import is_host_only
from kinetoscope.model.what_if import Factors

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_MODEL: Final = 1.05
"""By how much what is computed anew may be wrong: gaps between kernels, and what a launch takes to arrive."""

_SMALL: Final = 0.005
"""Share of the step under which a finding about time is not worth a word, as in `survey`."""


def is_worth_it(look: RankView, stake: Stake) -> bool:
    """Is enough at stake at most?"""
    return stake.high >= _SMALL * look.step > 0


def stake_over(look: RankView, low: Floats, high: Floats, time: Intervals) -> Stake:
    """The stake of gains by step (float64 [steps] each) that come from some time (a union).

    A step that ends later than it could only shifts its end into the next one, so that gains go up and down where their
    sum does not. How much the fault itself varies from step to step is told by its time.
    """
    amount = look.sums(time)
    total = float(amount.sum())
    high = high * _MODEL
    if total <= 0:
        return look.stake(low, high)
    return look.stake(amount * (float(low.sum()) / total), amount * (float(high.sum()) / total))


def stake_seen(look: RankView, low: Floats, high: Floats) -> Stake:
    """The stake of gains by step that come in few steps, as pauses do: that of the recorded steps, as they were."""
    least, most = max(float(np.mean(low)), 0.0), max(float(np.mean(high)), 0.0) * _MODEL
    return Stake(least, min(max(most, least), look.step))


def without(factors: Factors, work: Bools, left: float | Floats) -> None:
    """Leave only a part of some device work (bool [work]) and of what passes before each piece of it."""
    factors.work[work] = left
    factors.gap[work] = left


def says_who_computes(look: RankView) -> bool:
    """Is there device work, or nothing of a device at all? Else the trace does not show what computes when."""
    return look.count > 0 and (look.has_device or look.trace.of(is_host_only))
