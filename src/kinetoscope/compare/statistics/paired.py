"""Is one program faster than another, by runs of both in turns? Both are compared within each round.

Machines drift, so only runs that follow each other are compared: a round has one of each. The typical steps of a round
give a ratio; the interval is that of the mean of the logarithms, by Student's t. A gain counts if the step is shorter
in every round, by 3 % or more in the median, and the interval leaves no doubt. How often that is wrong was tried with
programs against themselves: see `docs/try.md`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.statistics import margin_of_error

MIN_GAIN: Final = 0.03
"""Share of the step from which on a gain counts."""

ROUNDS: Final = 5
"""Rounds from which on a gain may count; fewer only show what loses."""


@dataclass(frozen=True, slots=True)
class PairedChange:
    """The change of a step from one program to another.

    Attributes:
        rounds: how many there were.
        change: (new − base) / base, of the median round; negative for a gain.
        middle: the place of that round, from 0; of an even number of rounds, of the less favourable one.
        low, high: 95 % interval of the mean change; infinite of one round.
        is_shorter: the step was shorter in every round.
        is_longer: it was longer in every round.
    """

    rounds: int
    change: float
    middle: int
    low: float
    high: float
    is_shorter: bool
    is_longer: bool

    @property
    def is_gain(self) -> bool:
        """Is it a gain beyond noise?"""
        return self.rounds >= ROUNDS and self.is_shorter and self.change <= -MIN_GAIN and self.high < 0

    @property
    def is_loss(self) -> bool:
        """Was it slower in every round, by 3 % or more in the median?"""
        return self.is_longer and self.change >= MIN_GAIN


def paired(base: Sequence[float], new: Sequence[float]) -> PairedChange:
    """The change from the typical step of `base` to that of `new`, a value each in each round.

    Raises:
        ValueError: there is no round, or the two have different numbers of them.
    """
    ratios = [math.log(other / one) for one, other in zip(base, new, strict=True)]
    if not ratios:
        raise ValueError("no round was run")
    mean = statistics.fmean(ratios)
    median = statistics.median_high(ratios)
    off = margin_of_error(np.array(ratios)) if len(ratios) > 1 else math.inf
    return PairedChange(
        len(ratios),
        math.expm1(median),
        ratios.index(median),
        math.expm1(mean - off) if math.isfinite(off) else -1.0,
        math.expm1(mean + off) if math.isfinite(off) else math.inf,
        all(ratio < 0 for ratio in ratios),
        all(ratio > 0 for ratio in ratios),
    )
