"""By how many events the windows are shifted in which two witnesses saw one sequence, if neither has gaps."""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.alignment.witnesses import Witness, alike
from kinetoscope.algorithms.arrays import Int64s

_SAMPLE: Final = 64
"""Events that a lag is judged by."""

REACH: Final = 50_000_000
"""Clocks that disagree by more, ns, are found only where both windows begin or end with the same event."""

MOST_LAGS: Final = 2048
_ALIKE: Final = 0.98
"""Share of the events whose signatures agree at the true lag."""

_LEAVING: Final = 1000.0
"""What ends differ by in any case, ns: lags are not told apart by less."""

_CLEARLY: Final = 3.0
"""How many times as much as at another lag ends must vary before a lag is out of the question."""

_ASIDE: Final = 1e-4
_ASTRAY: Final = 0.1
"""What a ns between the clocks counts, against one of variation: where nothing is known of them, and where much is."""

_READ: Final = 1 << 20
"""Signatures that are compared where many lags fit, about."""

_NUMBERED: Final = 0.9
"""Share of the events that must be of the same step if witnesses count steps alike."""

_JITTER: Final = 20_000
"""Ends that differ by no more than this beyond a common difference, ns, leave no doubt about a lag."""


def best_lag(one: Witness, other: Witness, offset: int | None = None) -> int | None:
    """The k for which event j of the other witness is event j + k of the one; None if it cannot be told.

    The true lag is the one at which the ends differ by the same amount throughout, and by what is known of the clocks.
    A short overlap of the windows must be better by far than a long one.
    """
    lag, doubtful = judged_lag(one, other, offset)
    return None if doubtful else lag


def judged_lag(one: Witness, other: Witness, offset: int | None) -> tuple[int | None, bool]:
    """The best lag, None if the signatures agree at none; and whether another one may be true as well."""
    lags = _candidates(one, other)
    first, last = np.maximum(0, -lags), np.minimum(len(other), len(one) - lags)
    kept = last > first
    lags, first, count = lags[kept], first[kept], (last - first)[kept]
    if not len(lags):
        return None, False
    places = first[:, None] + (np.arange(_SAMPLE)[None, :] * count[:, None]) // _SAMPLE
    like = alike(one, other, places + lags[:, None], places)
    timed = _timed(other, first, first + count)
    difference = other.end[timed] - one.end[timed + lags[:, None]]
    middle = np.sort(difference, axis=1)[:, _SAMPLE // 2]
    spread = np.abs(difference - middle[:, None]).astype(np.float64).mean(axis=1) + _LEAVING
    spread[like.mean(axis=1) < _ALIKE] = np.inf
    apart = np.abs(middle - (offset or 0)) * (_ASIDE if offset is None else _ASTRAY)
    score = spread * (count.max() / count) ** 2 + apart
    best = np.lexsort((lags, np.abs(lags), score))[0]
    if not np.isfinite(score[best]):
        return None, False
    if offset is not None:
        return int(lags[best]), False
    rivals = lags[(spread <= _CLEARLY * spread[best]) & (2 * count >= count[best])]
    return (int(lags[best]), False) if len(rivals) == 1 else _decided(one, other, rivals.tolist(), int(lags[best]))


def _decided(one: Witness, other: Witness, lags: list[int], best: int) -> tuple[int, bool]:
    """Which of several lags that times do not tell apart is true, and whether that stays open."""
    every = 1 + len(lags) * min(len(one), len(other)) // _READ
    like, same = zip(*(agreement(one, other, lag, every) for lag in lags), strict=True)
    lags = [lag for lag, share in zip(lags, like, strict=True) if share == max(like)]
    same = tuple(share for share, each in zip(same, like, strict=True) if each == max(like))
    if max(same) >= _NUMBERED:
        lags = [lag for lag, share in zip(lags, same, strict=True) if share == max(same)]
    elif len(one) == len(other) and 0 in lags:
        lags = [0]  # windows of one length begin together
    return (lags[0], False) if len(lags) == 1 else (best, True)


def agreement(one: Witness, other: Witness, lag: int, every: int = 1) -> tuple[float, float]:
    """Shares of events, of so many one, whose signatures and whose step numbers agree; −1 if steps tell nothing."""
    first, last = max(0, -lag), min(len(other), len(one) - lag)
    mine, theirs = slice(first + lag, last + lag, every), slice(first, last, every)
    like = float(alike(one, other, mine, theirs).mean())
    if one.step is None or other.step is None:
        return like, -1.0
    known = (one.step[mine] >= 0) & (other.step[theirs] >= 0)
    if 2 * known.sum() < len(known):
        return like, -1.0
    return like, float((one.step[mine] == other.step[theirs])[known].mean())


def _timed(other: Witness, first: Int64s, last: Int64s) -> Int64s:
    """Events between first and last of which all leave together, where there are any: int64 [lags, sample]."""
    places = np.flatnonzero(other.binding)
    low, high = np.searchsorted(places, first), np.searchsorted(places, last)
    step = np.arange(_SAMPLE)[None, :]
    any_: Int64s = first[:, None] + step * (last - first)[:, None] // _SAMPLE
    if not len(places):
        return any_
    chosen = places[np.minimum(low[:, None] + step * (high - low)[:, None] // _SAMPLE, len(places) - 1)]
    return np.asarray(np.where((high > low)[:, None], chosen, any_))


def _candidates(one: Witness, other: Witness) -> Int64s:
    """Lags to be tried: those that clocks within reach allow, and those at which windows begin or end together."""
    together = np.array([0, len(one) - len(other)], np.int64)
    if len(one) == len(other) and np.array_equal(one.signature, other.signature):
        binding = one.binding if one.binding.any() else np.ones(len(one), np.bool_)
        difference = (other.end - one.end)[binding]
        numbered = agreement(one, other, 0)[1]
        if np.abs(difference - np.median(difference)).mean() <= _JITTER and (numbered < 0 or numbered >= _NUMBERED):
            return together[:1]
    ends = np.sort(one.end)
    places = np.unique(np.linspace(0, len(other) - 1, 9).astype(np.int64))
    low = np.searchsorted(ends, other.end[places] - REACH)
    high = np.searchsorted(ends, other.end[places] + REACH)
    inside = high > low
    if not inside.any():
        return np.unique(together)
    low, high = low[inside] - places[inside], high[inside] - places[inside]
    centre, reach = int(np.median((low + high) // 2)), int((high - low).max()) // 2 + 2
    reach = min(reach, MOST_LAGS // 2)
    return np.unique(np.concatenate([together, np.arange(centre - reach, centre + reach + 1)]))
