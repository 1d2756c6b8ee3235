"""Who waits for whom, told by times alone: which of several witnesses were at the same events.

Some do the same at much the same time without having to do with one another. Two things tell those apart who are at an
event together. All leave it at one instant, time after time, however their clocks differ. And who comes early stays
until the last has come: so if just one came late, all who stayed long were waiting for that one; and however
differently they come, they leave as one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.alignment.clocks import components
from kinetoscope.algorithms.arrays import Bools, Floats, Int64s
from kinetoscope.algorithms.statistics import SIGMA_PER_MAD

_FOR_A_LINE: Final = 8
"""Events from which on clocks are seen to drift apart."""

_FASTEST: Final = 1e-4
"""Rates that clocks may differ by."""

TWICE: Final = 2
"""Events that must show that one waited for another."""

_ROUNDS: Final = 32

_OF_MOST: Final = 1.96
_OF_FEW: Final = 0.32
"""Standard deviations that 95 % and 25 % of a normal distribution are within."""

_LEAST: Final = 500.0
"""Standard deviation of ends that is believed, ns."""

_COMPARED: Final = 1 << 22
"""Pairs of arrivals that are looked at, about."""


class Ends(NamedTuple):
    """How the ends of all compare with those of one.

    Attributes:
        offset: float64 [witnesses], by how much each is later; NaN where nothing compares.
        residual: float64 [events, witnesses], how much later than that; NaN where one was not there.
        jitter: float64 [witnesses], standard deviation of it, as the median tells it.
        doubt: float64, ns by which residuals may be wrong since too few events tell of drift.
    """

    offset: Floats
    residual: Floats
    jitter: Floats
    doubt: float


def compared_ends(end: Floats, one: int) -> Ends:
    """Compare the ends of all witnesses with those of one: float64 [events, witnesses], NaN where one was not there."""
    later = end - end[:, one : one + 1]
    time = np.where(np.isnan(later), np.nan, end[:, one : one + 1])
    doubt = 0.0
    if len(end) >= _FOR_A_LINE:
        third = len(end) // 3
        gained = _median(later[-third:]) - _median(later[:third])
        took = _median(time[-third:]) - _median(time[:third])
        rate = np.divide(gained, took, out=np.zeros(end.shape[1]), where=took > 0)
        rate[~(np.abs(rate) <= _FASTEST)] = 0.0
        later = later - rate * (time - _median(time))
    elif len(end):
        doubt = float(np.nan_to_num(np.ptp(end[:, one]))) * _FASTEST / 2
    offset = _median(later)
    residual = later - offset
    return Ends(offset, residual, SIGMA_PER_MAD * _median(np.abs(residual)), doubt)


def leave_nearer_than_they_come(end: Floats, come: Floats, times: float, share: float = 0.95) -> bool:
    """Whether all leave so many times nearer together than any two of them come: who does is at the same events.

    Of several who have nothing to do with one another the ends vary as their arrivals do. Of all pairs the arrivals
    must vary, and nearly always: two who often come at the same times would leave together too.

    Args:
        end: float64 [events, witnesses], when each left; NaN where one was not there.
        come: float64 [events, witnesses], when each came.
        times: how many times.
        share: of the events that is asked of; of others they may leave astray.
    """
    count = end.shape[1]
    places = np.unique(np.linspace(0, len(end) - 1, min(len(end), _COMPARED // count**2)).astype(np.int64))
    end, come = end[places], come[places]
    if ((~np.isnan(end)).sum(axis=0) < _FOR_A_LINE).any():
        return False
    residual = np.abs(compared_ends(end, 0).residual)
    leave = float(np.nanquantile(residual, share, axis=0).max()) / _OF_MOST
    limit = times * max(leave, _LEAST)
    for one in range(count):
        arrivals = np.nanquantile(np.abs(compared_ends(come, one).residual), 0.25, axis=0) / _OF_FEW
        if not (np.delete(arrivals, one) >= limit).all():
            return False
    return True


def _median(values: Floats) -> Floats:
    """Of each column, without NaN; the upper one of two: float64 [columns]."""
    counts = (~np.isnan(values)).sum(axis=0)
    ordered = np.sort(values, axis=0)  # NaN last
    found = (
        ordered[np.minimum(counts // 2, max(len(values) - 1, 0)), np.arange(values.shape[1])] if len(values) else 0.0
    )
    return np.where(counts > 0, found, np.nan)


def joined_by_waiting(waits: Bools, may_be_late: Bools) -> Int64s:
    """For each witness the least of those it is known to have been with: int64 [witnesses].

    Args:
        waits: bool [events, witnesses], who waited for another of those it was with.
        may_be_late: bool [events, witnesses], whom it may have waited for: if those are known to belong together, so
            does who waited. Nobody else can have been with them.
    """
    count = waits.shape[1]
    label = np.arange(count, dtype=np.int64)
    for _ in range(_ROUNDS):
        low = np.where(may_be_late, label, count).min(axis=1, initial=count)
        high = np.where(may_be_late, label, -1).max(axis=1, initial=-1)
        event, who = np.nonzero(waits & (low == high)[:, None])
        pairs, times = np.unique(who * np.int64(count) + low[event], return_counts=True)
        who, whom = np.divmod(pairs[times >= TWICE], count)
        both = np.concatenate([who, np.arange(count)]), np.concatenate([whom, label])
        joined = components(np.concatenate(both), np.tile(np.arange(len(both[0])), 2), count)
        if np.array_equal(joined, label):
            break
        label = joined
    return label
