"""Distributions that verdicts rest on: normal ones of uncertain width, mixed; and permutations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Floats

_QUANTILES: Final = 5

_HALVINGS: Final = 32

_NORMAL: Final = NormalDist()

_ERFCC: Final[tuple[float, ...]] = (
    0.17087277,
    -0.82215223,
    1.48851587,
    -1.13520398,
    0.27886807,
    -0.18628806,
    0.09678418,
    0.37409196,
    1.00002368,
)

_PERMUTATIONS: Final = 1999


def inverse_chi_square(freedom: Floats) -> Floats:
    """By how much a variance of so many degrees of freedom may be off: equally likely factors (Wilson–Hilferty)."""
    likely = [(at + 0.5) / _QUANTILES for at in range(_QUANTILES)]
    z = np.array([_NORMAL.inv_cdf(each) for each in likely])
    part = 2 / (9 * freedom[:, None])
    return np.asarray(1 / np.maximum(1 - part + z * np.sqrt(part), 0.1) ** 3)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Normal distributions, mixed: rows × between × within."""

    share: Floats
    middle: Floats
    deviation: Floats

    def below(self, value: Floats) -> Floats:
        """The probability of being less than `value`, a row each."""
        z = (value[:, None, None] - self.middle) / np.maximum(self.deviation, 1e-12)
        return np.asarray((self.share * normal_below(z)).sum(axis=(1, 2)))

    def quantile(self, probability: float) -> Floats:
        """Where `below` is `probability`, by halving."""
        reach = 12 * self.deviation.max(axis=(1, 2)) + 1e-9
        low, high = self.middle.min(axis=(1, 2)) - reach, self.middle.max(axis=(1, 2)) + reach
        for _ in range(_HALVINGS):
            half = (low + high) / 2
            less = self.below(half) < probability
            low, high = np.where(less, half, low), np.where(less, high, half)
        return np.asarray((low + high) / 2)


def normal_below(z: Floats) -> Floats:
    """The normal distribution's cumulative probability; relative error 1.2e-7 (Press et al., erfcc)."""
    x = np.abs(z) / math.sqrt(2)
    t = 1 / (1 + 0.5 * x)
    series = np.zeros_like(t)
    for each in _ERFCC:
        series = series * t + each
    tail = 0.5 * t * np.exp(-x * x - 1.26551223 + t * series)
    return np.asarray(np.where(z < 0, tail, 1 - tail))


def permutation(base: Floats, new: Floats) -> float:
    """Two-sided p-value of the difference of mean logarithms by permutations; 0 if none at all is as extreme.

    Where a few blocks allow few permutations, even the most extreme one is no proof of itself: the assumed noise is.
    """
    values = np.log(np.maximum(np.concatenate([base, new]), 1e-300))
    rng = np.random.default_rng(0)
    order = np.argsort(rng.random((_PERMUTATIONS, len(values))), axis=1)
    shuffled = values[order]
    differences = shuffled[:, len(base) :].mean(axis=1) - shuffled[:, : len(base)].mean(axis=1)
    observed = values[len(base) :].mean() - values[: len(base)].mean()
    as_extreme = np.abs(differences) >= abs(observed) * (1 - 1e-12)
    apart = base.max() < new.min() or new.max() < base.min()
    return 0.0 if apart else (1 + int(as_extreme.sum())) / (_PERMUTATIONS + 1)
