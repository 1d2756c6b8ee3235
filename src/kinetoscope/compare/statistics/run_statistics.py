"""Statistics of the steps of a run: the typical one, how much it may be off, and how alike neighbouring steps are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Floats
from kinetoscope.algorithms.statistics import SIGMA_PER_MAD

_TRIM: Final = 0.2

_MAX_WARM_UP_SHARE: Final = 1 / 3
"""Greatest share of a run that is warm-up."""

_WARM_UP_DEVIATIONS: Final = 6.0
"""Robust standard deviations above the median of the others from which on a leading step is warm-up."""

_MIN_STEPS: Final = 5
"""Steps from which on a correlation of neighbours is estimated."""

_MIN_CORRELATION_ERRORS: Final = 1.7
"""Standard errors above zero from which on the correlation of neighbours counts."""


@dataclass(frozen=True, slots=True)
class RunStatistics:
    """Statistics of the steps of a run.

    Attributes:
        typical: the trimmed mean.
        squares: sum of the squared deviations that go with it, as a share of typical squared.
        steps: how many were counted.
        freedom: degrees of freedom of the squares.
        values: the steps counted, as a share of typical, in order.
    """

    typical: float
    squares: float
    steps: int
    freedom: int
    values: Floats


def run_statistics(steps: Sequence[float]) -> RunStatistics:
    """The steps of a run, without what cannot be measured (not finite, negative) and without warm-up."""
    values = np.asarray(steps, np.float64)
    values = without_warm_up(values[np.isfinite(values) & (values >= 0)])
    count = len(values)
    if not count:
        return RunStatistics(0.0, 0.0, 0, 0, values)
    cut = max(int(_TRIM * count), 1) if count > 3 else 0
    inner = np.sort(values)[cut : count - cut]
    typical = float(inner.mean())
    if typical <= 0:
        return RunStatistics(0.0, 0.0, count, 0, values)
    clipped = np.clip(values, inner[0], inner[-1])
    # The variance of a trimmed mean, after Tukey and McLaughlin (1963): that of the clipped values, widened.
    squares = float(((clipped - clipped.mean()) ** 2).sum()) * (count / len(inner)) ** 2
    return RunStatistics(typical, squares / typical**2, count, len(inner) - 1, values / typical)


def without_warm_up(values: Floats) -> Floats:
    """The steps after the leading ones that are far above the others; those are at most a third."""
    most = int(len(values) * _MAX_WARM_UP_SHARE)
    if most == 0:
        return values
    settled = values[most:]
    middle = float(np.median(settled))
    spread = SIGMA_PER_MAD * float(np.median(np.abs(settled - middle)))
    far = values[:most] > middle + _WARM_UP_DEVIATIONS * max(spread, 0.01 * middle)
    return values[int(np.argmin(far)) if not far.all() else most :]


def variance_inflation(runs: Sequence[RunStatistics]) -> float:
    """By how much neighbouring steps being alike widens the variance of a mean: from 1 on."""
    products = squares = 0.0
    count = counted = 0
    for run in runs:
        if run.steps < _MIN_STEPS or run.typical <= 0:
            continue
        _, place, equal = np.unique(run.values, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(equal) - (equal - 1) / 2)[place]
        ranks -= ranks.mean()
        products += float((ranks[1:] * ranks[:-1]).sum())
        squares += float((ranks * ranks).sum())
        count += run.steps
        counted += 1
    if squares == 0.0:
        return 1.0
    # Of short series the correlation comes out too small, by (1 + 3 ρ) / n (Marriott and Pope, 1954).
    each = counted / count
    lag = min((products / squares + each) / (1 - 3 * each), 0.9)
    return (1 + lag) / (1 - lag) if lag > _MIN_CORRELATION_ERRORS / math.sqrt(count) else 1.0
