"""Series that lie above their peers for good: excesses, and whether chance explains them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats, Int32s, Int64s
from kinetoscope.algorithms.statistics import SIGMA_PER_MAD

CERTAIN_Z_SCORE: Final = 5
"""Standard errors by which a series has to be above its peers to be an outlier."""

MIN_PLACES: Final = 3
"""Places from which on an accident can be recognized: the greatest value is left out."""

_MAX_SERIES: Final = 64
"""Of more series each has the noise of all: one does not matter to it."""

_PRIOR_WEIGHT: Final = 4
"""Observations that the assumed noise counts as."""

_FADED_SHARE: Final = 0.5
"""Share of the greatest value below which the one behind it may be its end."""


class Excess(NamedTuple):
    """Differences between series and their peers.

    Attributes:
        each: float64 [series, places], value less the median of the peers at that place; NaN where either is missing.
        level: float64 [series], mean of it, but for accidents: without the greatest (and the one behind it, if
            that is less than half: what takes long may end in the next place) and without the least; NaN without peers.
        noise: float64 [series], standard deviation of `each` by chance, from how it changes from place to place.
        z_score: float64 [series], mean without the greatest / its standard error; or, if that is more, the greatest of
            those left / noise, for what is there in a few places only. Capped by level ÷ spread of the other series'
            outliers.
    """

    each: Floats
    level: Floats
    noise: Floats
    z_score: Floats


def excess(values: Floats, kind: Int32s, usual: float) -> Excess:
    """Compare series with those of their kind.

    Noise is that of the other series, of all kinds: a fault of one series is not taken for noise. It is measured by
    differences between successive places, of which the median counts: a series that changes once, or at a few places,
    does not count as noisy.

    Args:
        values: float64 [series, places], NaN where there is none.
        kind: int32 [series].
        usual: standard deviation that is expected where little is known.
    """
    each = _above_peers(values, kind)
    noise = _noise(values, kind, each, usual)
    known = np.isfinite(each)
    count = known.sum(axis=1)
    left = np.where(_without_accident(each, known, count), each, np.nan)
    several = count >= MIN_PLACES
    with np.errstate(invalid="ignore", divide="ignore"):
        number = np.isfinite(left).sum(axis=1)
        total = np.where(np.isfinite(left), left, 0).sum(axis=1)
        least = np.where(np.isfinite(left), left, np.inf).min(axis=1, initial=np.inf)
        trimmed = several & (number > 1)
        level = np.where(trimmed, total - least, total) / np.where(trimmed, number - 1, number)
        z_score = total / number / (noise / np.sqrt(number))
        greatest = np.where(np.isfinite(left), left, -np.inf).max(axis=1, initial=-np.inf) / noise
        z_score = np.where(several, np.minimum(np.maximum(z_score, greatest), level / _outlier_spread(left)), z_score)
    return Excess(each, level, noise, z_score)


def _without_accident(each: Floats, known: Bools, count: Int64s) -> Bools:
    """The values of each series but its greatest, and but the one behind that if it is far less."""
    left = known.copy()
    if each.shape[1] < MIN_PLACES:
        return left
    worst = np.where(known, each, -np.inf).argmax(axis=1)
    row = np.flatnonzero(count >= MIN_PLACES)
    left[row, worst[row]] = False
    row = row[worst[row] + 1 < each.shape[1]]
    row = row[each[row, worst[row] + 1] < _FADED_SHARE * each[row, worst[row]]]
    left[row, worst[row] + 1] = False
    return left


def _outlier_spread(left: Floats) -> Floats:
    """Standard error of the level of each series if it were above its peers as often and as far as the others are.

    The worst of the others does not count: it may be above its peers for good.
    """
    count = np.isfinite(left).sum(axis=1)
    square = np.where(left > 0, left, 0.0) ** 2  # NaN is not above
    square = square.sum(axis=1) / np.maximum(count, 1)
    if len(square) < 2:
        return np.zeros(len(square))
    ranked = np.sort(square)
    worst = np.where(square == ranked[-1], ranked[-2], ranked[-1])
    others = square.sum() - square - (worst if len(square) > 2 else 0.0)
    return np.asarray(np.sqrt(np.maximum(others, 0) / max(len(square) - 2, 1) / np.maximum(count, 1)))


def _above_peers(values: Floats, kind: Int32s) -> Floats:
    """Each value less the median of the others of its kind at the same place."""
    above = np.full(values.shape, np.nan)
    for one in np.unique(kind):
        rows = np.flatnonzero(kind == one)
        if len(rows) > 1:
            above[rows] = values[rows] - median_of_others(values[rows])
    return above


def median_of_others(values: Floats) -> Floats:
    """For each value the median of all others in its column; NaN are no values."""
    order = np.argsort(values, axis=0, kind="stable")  # NaN come last
    ranked = np.take_along_axis(values, order, axis=0)
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(len(values))[:, None].repeat(values.shape[1], axis=1), axis=0)
    others = np.isfinite(values).sum(axis=0) - 1
    low, high = np.maximum((others - 1) // 2, 0), np.maximum(others // 2, 0)

    def without_itself(which: Int64s) -> Floats:
        index = np.minimum(np.where(place <= which, which + 1, which), len(values) - 1)
        return np.asarray(np.take_along_axis(ranked, index, axis=0))

    median = (without_itself(low) + without_itself(high)) / 2
    return np.where((others > 0) & np.isfinite(values), median, np.nan)


def _noise(values: Floats, kind: Int32s, each: Floats, usual: float) -> Floats:
    """The noise of each series: that of the others, compared with each other as if it were not there."""
    if len(each) > _MAX_SERIES:
        return np.full(len(each), _deviation(_changes(each), usual))
    noise = np.empty(len(each))
    for row in range(len(each)):
        others = np.arange(len(each)) != row
        changes = _changes(_above_peers(values[others], kind[others]))
        if len(changes):
            noise[row] = _deviation(changes, usual)
        else:  # no third series: the other one changes, or the difference of the two, if that is less
            alone = np.sqrt(2) * _changes(values[others])
            noise[row] = min(_deviation(alone, usual), _deviation(_changes(each[row][None, :]), usual))
    return noise


def _changes(each: Floats) -> Floats:
    """Absolute changes from place to place, as deviations; of few places also the differences between series."""
    change = np.abs(np.diff(each, axis=1)) / np.sqrt(2)
    if each.shape[1] < MIN_PLACES:
        known = np.isfinite(each).any(axis=0)
        middle = np.zeros(each.shape[1])
        middle[known] = np.nanmedian(each[:, known], axis=0)
        change = np.concatenate([change, np.abs(each - middle)], axis=1)
    return np.asarray(change[np.isfinite(change)])


def _deviation(changes: Floats, usual: float) -> float:
    """The standard deviation by observed changes and the usual one."""
    observed = SIGMA_PER_MAD * float(np.median(changes)) if len(changes) else 0.0
    weighted = len(changes) * observed**2 + _PRIOR_WEIGHT * usual**2
    return float(np.sqrt(weighted / (len(changes) + _PRIOR_WEIGHT)))
