"""Which of several series lies above the others for good: excesses over peers, and whether chance explains them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats, Int32s, Int64s
from kinetoscope.algorithms.statistics import SIGMA_PER_MAD

_CROWD: Final = 64
"""Of more series one does not matter to what all of them vary by."""

_PRIOR: Final = 4
"""Observations that the noise assumed beforehand counts as."""


class Excess(NamedTuple):
    """How far each series is above its peers.

    Attributes:
        each: float64 [series, places], value less the median of the peers at that place; NaN where either is missing.
        level: float64 [series], mean of it, but for accidents: without the greatest (and the one behind it, if
            that is less than half: what takes long may end in the next place) and without the least; NaN without peers.
        noise: float64 [series], standard deviation of `each` by chance, from how it changes from place to place.
        sure: float64 [series], standard errors by which it is above 0 in the mean, without the greatest; or, if that
            is more, the greatest of those left / noise, for what is there in a few places only. But no more standard
            errors than `level` is of how far others are above their peers now and then: accidents add up too.
    """

    each: Floats
    level: Floats
    noise: Floats
    sure: Floats


def excess(values: Floats, kind: Int32s, usual: float) -> Excess:
    """Compare series with those of their kind.

    Noise is that of the other series, of all kinds: what is wrong with one series is not taken for noise. It is
    measured by differences between successive places, of which the median counts: a series that changes once, or at a
    few places, does not count as noisy.

    Args:
        values: float64 [series, places], NaN where there is none.
        kind: int32 [series].
        usual: standard deviation that is expected where little is known.
    """
    each = _above(values, kind)
    noise = _noise(values, kind, each, usual)
    known = np.isfinite(each)
    count = known.sum(axis=1)
    left = np.where(_no_accident(each, known, count), each, np.nan)
    several = count >= SEVERAL
    with np.errstate(invalid="ignore", divide="ignore"):
        number = np.isfinite(left).sum(axis=1)
        total = np.where(np.isfinite(left), left, 0).sum(axis=1)
        least = np.where(np.isfinite(left), left, np.inf).min(axis=1, initial=np.inf)
        trimmed = several & (number > 1)
        level = np.where(trimmed, total - least, total) / np.where(trimmed, number - 1, number)
        sure = total / number / (noise / np.sqrt(number))
        second = np.where(np.isfinite(left), left, -np.inf).max(axis=1, initial=-np.inf) / noise
        sure = np.where(several, np.minimum(np.maximum(sure, second), level / _by_accidents(left)), sure)
    return Excess(each, level, noise, sure)


def _no_accident(each: Floats, known: Bools, count: Int64s) -> Bools:
    """What is left of each series without its greatest value, and without the one behind if it is far less."""
    left = known.copy()
    if each.shape[1] < SEVERAL:
        return left
    worst = np.where(known, each, -np.inf).argmax(axis=1)
    row = np.flatnonzero(count >= SEVERAL)
    left[row, worst[row]] = False
    row = row[worst[row] + 1 < each.shape[1]]
    row = row[each[row, worst[row] + 1] < _FADED * each[row, worst[row]]]
    left[row, worst[row] + 1] = False
    return left


def _by_accidents(left: Floats) -> Floats:
    """Standard error of the level of each series if it were above its peers as often and as far as others are.

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


SIGMAS: Final = 5
"""Standard errors by which a series has to be above the others to be so beyond doubt."""

SEVERAL: Final = 3
"""Places from which on an accident can be told: the greatest is left out."""

_FADED: Final = 0.5
"""Share of the greatest below which the value behind it may be what is left of it."""


def _above(values: Floats, kind: Int32s) -> Floats:
    """Each value less the median of the others of its kind at the same place."""
    found = np.full(values.shape, np.nan)
    for one in np.unique(kind):
        rows = np.flatnonzero(kind == one)
        if len(rows) > 1:
            found[rows] = values[rows] - _median_of_others(values[rows])
    return found


def _median_of_others(values: Floats) -> Floats:
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

    found = (without_itself(low) + without_itself(high)) / 2
    return np.where((others > 0) & np.isfinite(values), found, np.nan)


def _noise(values: Floats, kind: Int32s, each: Floats, usual: float) -> Floats:
    """Of each series, by the other ones, compared with each other as if it were not there."""
    if len(each) > _CROWD:
        return np.full(len(each), _spread(_changes(each), usual))
    found = np.empty(len(each))
    for row in range(len(each)):
        others = np.arange(len(each)) != row
        seen = _changes(_above(values[others], kind[others]))
        found[row] = _spread(seen, usual) if len(seen) else _of_two(values[others], each[row], usual)
    return found


def _of_two(other: Floats, each: Floats, usual: float) -> float:
    """The same where there is no third series: what changes in the other alone, or between the two, if that is less."""
    alone = np.sqrt(2) * _changes(other)
    return min(_spread(alone, usual), _spread(_changes(each[None, :]), usual))


def _changes(each: Floats) -> Floats:
    """By how much values change from place to place, as deviations; of few places, what series differ by too."""
    change = np.abs(np.diff(each, axis=1)) / np.sqrt(2)
    if each.shape[1] < SEVERAL:
        change = np.concatenate([change, np.abs(each - _middle(each))], axis=1)
    return np.asarray(change[np.isfinite(change)])


def _spread(seen: Floats, usual: float) -> float:
    """Standard deviation by deviations that were seen and what is usual."""
    spread = SIGMA_PER_MAD * float(np.median(seen)) if len(seen) else 0.0
    return float(np.sqrt((len(seen) * spread**2 + _PRIOR * usual**2) / (len(seen) + _PRIOR)))


def _middle(each: Floats) -> Floats:
    """The median of each column that has any, 0 of the others."""
    known = np.isfinite(each)
    found = np.zeros(each.shape[1])
    some = known.any(axis=0)
    found[some] = np.nanmedian(each[:, some], axis=0)
    return found
