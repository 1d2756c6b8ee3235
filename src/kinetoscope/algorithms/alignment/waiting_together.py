"""Witnesses that were at the same events, inferred from times alone: who waits for whom.

Some do the same at much the same time without having to do with one another. Two things distinguish those that are at
an event together. All leave it at one instant, time after time, however their clocks differ. And early ones stay until
the last one arrives: if just one was late, all that stayed long waited for it; and however far apart they arrive, they
leave together.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.alignment.clocks import components
from kinetoscope.algorithms.arrays import Bools, Floats, Int64s
from kinetoscope.algorithms.statistics import SIGMA_PER_MAD

_MIN_FOR_DRIFT: Final = 8
"""Events from which on the drift of clocks is known."""

_MAX_RATE: Final = 1e-4
"""Difference of the rates of clocks."""

MIN_WAITS: Final = 2
"""Events in which one waited for another, to prove it."""

_MAX_ROUNDS: Final = 32

_SIGMAS_OF_95_PERCENT: Final = 1.96
_SIGMAS_OF_25_PERCENT: Final = 0.32
"""Standard deviations that 95 % and 25 % of a normal distribution are within."""

_MIN_DEVIATION_NS: Final = 500.0
"""Least standard deviation of ends."""

_MAX_PAIRS: Final = 1 << 22
"""Pairs of arrivals that are compared, about."""


class ComparedEnds(NamedTuple):
    """The ends of all witnesses compared with those of one.

    Attributes:
        offset: float64 [witnesses], median delay of each; NaN where nothing compares.
        residual: float64 [events, witnesses], delay beyond that; NaN where one was absent.
        jitter: float64 [witnesses], standard deviation of it by the median.
        doubt: float64, error of residuals where events are too few to know the drift, ns.
    """

    offset: Floats
    residual: Floats
    jitter: Floats
    doubt: float


def compared_ends(end: Floats, one: int) -> ComparedEnds:
    """Compare the ends of all witnesses with those of one: float64 [events, witnesses], NaN where one was not there."""
    later = end - end[:, one : one + 1]
    time = np.where(np.isnan(later), np.nan, end[:, one : one + 1])
    doubt = 0.0
    if len(end) >= _MIN_FOR_DRIFT:
        third = len(end) // 3
        gained = _median(later[-third:]) - _median(later[:third])
        took = _median(time[-third:]) - _median(time[:third])
        rate = np.divide(gained, took, out=np.zeros(end.shape[1]), where=took > 0)
        rate[~(np.abs(rate) <= _MAX_RATE)] = 0.0
        later = later - rate * (time - _median(time))
    elif len(end):
        doubt = float(np.nan_to_num(np.ptp(end[:, one]))) * _MAX_RATE / 2
    offset = _median(later)
    residual = later - offset
    return ComparedEnds(offset, residual, SIGMA_PER_MAD * _median(np.abs(residual)), doubt)


def depart_closer_than_arrive(end: Floats, arrival: Floats, ratio: float, share: float = 0.95) -> bool:
    """True if the spread of arrivals of any two is at least `ratio` times that of the departures of all.

    Departures of witnesses that have nothing to do with one another vary as their arrivals do. The arrivals of all
    pairs must vary, and nearly always: two that often arrive together would leave together too.

    Args:
        end: float64 [events, witnesses], when each left; NaN where one was absent.
        arrival: float64 [events, witnesses], when each arrived.
        ratio: the required ratio.
        share: of the events that must comply; in others they may leave apart.
    """
    count = end.shape[1]
    places = np.unique(np.linspace(0, len(end) - 1, min(len(end), _MAX_PAIRS // count**2)).astype(np.int64))
    end, arrival = end[places], arrival[places]
    if ((~np.isnan(end)).sum(axis=0) < _MIN_FOR_DRIFT).any():
        return False
    residual = np.abs(compared_ends(end, 0).residual)
    leave = float(np.nanquantile(residual, share, axis=0).max()) / _SIGMAS_OF_95_PERCENT
    limit = ratio * max(leave, _MIN_DEVIATION_NS)
    for one in range(count):
        arrivals = np.nanquantile(np.abs(compared_ends(arrival, one).residual), 0.25, axis=0) / _SIGMAS_OF_25_PERCENT
        if not (np.delete(arrivals, one) >= limit).all():
            return False
    return True


def _median(values: Floats) -> Floats:
    """The median of each column, without NaN; the upper one of two: float64 [columns]."""
    counts = (~np.isnan(values)).sum(axis=0)
    ordered = np.sort(values, axis=0)  # NaN last
    middle = (
        ordered[np.minimum(counts // 2, max(len(values) - 1, 0)), np.arange(values.shape[1])] if len(values) else 0.0
    )
    return np.where(counts > 0, middle, np.nan)


def joined_by_waiting(waits: Bools, may_be_late: Bools) -> Int64s:
    """For each witness the least of those it is known to have been with: int64 [witnesses].

    Args:
        waits: bool [events, witnesses], who waited for another of those it was with.
        may_be_late: bool [events, witnesses], whom it may have waited for: if those are known to belong together, so
            does who waited. Nobody else can have been with them.
    """
    count = waits.shape[1]
    label = np.arange(count, dtype=np.int64)
    for _ in range(_MAX_ROUNDS):
        low = np.where(may_be_late, label, count).min(axis=1, initial=count)
        high = np.where(may_be_late, label, -1).max(axis=1, initial=-1)
        event, who = np.nonzero(waits & (low == high)[:, None])
        pairs, ratio = np.unique(who * np.int64(count) + low[event], return_counts=True)
        who, whom = np.divmod(pairs[ratio >= MIN_WAITS], count)
        both = np.concatenate([who, np.arange(count)]), np.concatenate([whom, label])
        joined = components(np.concatenate(both), np.tile(np.arange(len(both[0])), 2), count)
        if np.array_equal(joined, label):
            break
        label = joined
    return label
