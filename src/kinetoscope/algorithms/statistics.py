"""Quantiles, distributions and tests that verdicts rest on: what would otherwise be the only use of SciPy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Floats, Int32s, Int64s, require_rows

MEDIAN, P99 = (1, 2), (99, 100)

SIGMA_PER_MAD: Final = 1.4826
"""Standard deviation / median absolute deviation of a normal distribution."""

_STUDENT_T: Final = {
    0.975: (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13),
    0.99: (31.82, 6.96, 4.54, 3.75, 3.36, 3.14, 3.00, 2.90, 2.82, 2.76),
}
"""Quantiles for 1, 2, … degrees of freedom."""

_ERFCC: Final = (
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

_VARIANCE_FACTORS: Final = 5

_BISECTIONS: Final = 32

_PERMUTATIONS: Final = 1999


def nearest_rank(codes: Int32s, groups: int, values: Int64s, *shares: tuple[int, int]) -> list[Int64s]:
    """Quantiles of groups of rows, as values that did occur, so that integers stay integers: int64 [groups] each.

    Args:
        codes: int32 [n], the group of each row; rows with a negative code count nowhere.
        groups: how many groups there are.
        values: int64 [n].
        shares: numerator and denominator of each quantile, more than 0 and at most 1.

    Returns:
        An array for each share: the least value that this share of the group's rows does not exceed; 0 where a group
        has no rows.

    Raises:
        ValueError: the arrays differ in length, or a code is not less than `groups`.
    """
    ordered, rows, first, occupied = _ordered(codes, groups, values)
    quantiles = []
    for numerator, denominator in shares:
        quantile = np.zeros(groups, np.int64)
        quantile[occupied] = ordered[first[occupied] - (-rows[occupied] * numerator // denominator) - 1]
        quantiles.append(quantile)
    return quantiles


def interpolated(codes: Int32s, groups: int, values: Int64s, *shares: tuple[int, int]) -> list[Int64s]:
    """Quantiles between the two values beside them, as NumPy and pandas interpolate by default: int64 [groups] each.

    Arguments and errors are those of `nearest_rank`. Halves are rounded up.
    """
    ordered, rows, first, occupied = _ordered(codes, groups, values)
    quantiles = []
    for numerator, denominator in shares:
        place, beyond = np.divmod((rows[occupied] - 1) * numerator, denominator)
        low = ordered[first[occupied] + place]
        high = ordered[first[occupied] + np.minimum(place + 1, rows[occupied] - 1)]
        quantile = np.zeros(groups, np.int64)
        quantile[occupied] = low + (2 * (high - low) * beyond + denominator) // (2 * denominator)
        quantiles.append(quantile)
    return quantiles


def _ordered(codes: Int32s, groups: int, values: Int64s) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """The values of each group in order, how many it has, the place of its first one, and the groups that have any."""
    require_rows(codes.size, codes=codes, values=values)
    if codes.size and codes.max() >= groups:
        raise ValueError(f"a row is in group {codes.max()}, but there are {groups} groups")
    counted = codes >= 0
    codes, values = codes[counted], values[counted]
    rows = np.bincount(codes, minlength=groups)
    return values[np.lexsort((values, codes))], rows, np.cumsum(rows) - rows, np.flatnonzero(rows)


def student_t(probability: float, freedom: int) -> float:
    """The quantile of Student's t distribution for a probability of 0.975 or 0.99 and 1 or more degrees of freedom."""
    table = _STUDENT_T[probability]
    if freedom <= len(table):
        return table[freedom - 1]
    return 1.96 + 2.4 / freedom if probability == 0.975 else table[-1]


def margin_of_error(values: Floats) -> float:
    """Half the 95 % confidence interval of the mean, by Student's t: of two values or more."""
    return float(student_t(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))


def normal_cdf(z: Floats) -> Floats:
    """The cumulative probability of the standard normal distribution; relative error 1.2e-7 (Press et al., erfcc)."""
    x = np.abs(z) / math.sqrt(2)
    t = 1 / (1 + 0.5 * x)
    series = np.zeros_like(t)
    for coefficient in _ERFCC:
        series = series * t + coefficient
    tail = 0.5 * t * np.exp(-x * x - 1.26551223 + t * series)
    return np.asarray(np.where(z < 0, tail, 1 - tail))


def variance_factors(freedom: Floats) -> Floats:
    """Equally likely factors by which an estimated variance is wrong: float64 [freedom, 5].

    Args:
        freedom: float64 [n], degrees of freedom. The factors are those of the scaled inverse chi-square distribution,
            as Wilson and Hilferty approximate it.
    """
    z = np.array([NormalDist().inv_cdf((place + 0.5) / _VARIANCE_FACTORS) for place in range(_VARIANCE_FACTORS)])
    part = 2 / (9 * freedom[:, None])
    return np.asarray(1 / np.maximum(1 - part + z * np.sqrt(part), 0.1) ** 3)


@dataclass(frozen=True, slots=True)
class NormalMixture:
    """Mixtures of normal distributions, a mixture for each row: float64 [rows, n, m] each."""

    share: Floats
    mean: Floats
    deviation: Floats

    def cdf(self, value: Floats) -> Floats:
        """The probability of being less than `value`: float64 [rows]."""
        z = (value[:, None, None] - self.mean) / np.maximum(self.deviation, 1e-12)
        return np.asarray((self.share * normal_cdf(z)).sum(axis=(1, 2)))

    def quantile(self, probability: float) -> Floats:
        """The value whose `cdf` is `probability`, by bisection: float64 [rows]."""
        reach = 12 * self.deviation.max(axis=(1, 2)) + 1e-9
        low, high = self.mean.min(axis=(1, 2)) - reach, self.mean.max(axis=(1, 2)) + reach
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            less = self.cdf(middle) < probability
            low, high = np.where(less, middle, low), np.where(less, high, middle)
        return np.asarray((low + high) / 2)


def permutation_p_value(base: Floats, new: Floats) -> float:
    """The two-sided p-value of a difference of mean logarithms by permutations; 0 if the two do not overlap.

    A few values allow few permutations, so even the most extreme one proves nothing by itself.
    """
    values = np.log(np.maximum(np.concatenate([base, new]), 1e-300))
    order = np.argsort(np.random.default_rng(0).random((_PERMUTATIONS, len(values))), axis=1)
    shuffled = values[order]
    differences = shuffled[:, len(base) :].mean(axis=1) - shuffled[:, : len(base)].mean(axis=1)
    observed = values[len(base) :].mean() - values[: len(base)].mean()
    as_extreme = np.abs(differences) >= abs(observed) * (1 - 1e-12)
    is_disjoint = base.max() < new.min() or new.max() < base.min()
    return 0.0 if is_disjoint else (1 + int(as_extreme.sum())) / (_PERMUTATIONS + 1)


def benjamini_hochberg(p_values: Floats) -> Floats:
    """P-values adjusted for many tests: those up to q have a false discovery rate of at most q."""
    count = len(p_values)
    order = np.argsort(-p_values, kind="stable")
    scaled = p_values[order] * count / np.arange(count, 0, -1)
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled), 1.0)
    return adjusted
