"""Records of one sequence of events by witnesses, and the lag between two of them if neither has gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s

_SAMPLE_SIZE: Final = 64
"""Events that are compared at a lag."""

REACH_NS: Final = 50_000_000
"""Difference of clocks beyond which only windows that begin or end with the same event are aligned."""

MAX_LAGS: Final = 2048
_MIN_AGREEMENT: Final = 0.98
"""Share of the events whose signatures agree at the true lag."""

_MIN_SPREAD_NS: Final = 1000.0
"""Variation of ends in any case: lags are not distinguished by less."""

_RIVAL_RATIO: Final = 3.0
"""Variation of ends at a lag / that at the best one, up to which it is a rival."""

_OFFSET_WEIGHT_UNKNOWN: Final = 1e-4
_OFFSET_WEIGHT: Final = 0.1
"""Weight of a ns between the clocks, against one of variation: where nothing is known of them, and where much is."""

_MAX_COMPARED: Final = 1 << 20
"""Signatures that are compared where many lags fit, about."""

_MIN_STEP_AGREEMENT: Final = 0.9
"""Share of the events that must be of the same step if witnesses number steps alike."""

_MAX_JITTER_NS: Final = 20_000
"""Difference of ends beyond a common one up to which a lag is certain."""


@dataclass(frozen=True)
class Witness:
    """The events that one witness recorded, in order of start.

    Attributes:
        start, end: int64 [events], ns on the witness's clock.
        signature: int64 [events], equal numbers for like events.
        binding: bool [events], whether both witnesses are inside it at one instant; the same for all events of a
            signature.
        step: int64 [events], number of the part of the sequence that each is of, as all witnesses count; −1 unknown.
        vague: bool [events], those whose signature is incomplete: they may be any.
    """

    start: Int64s
    end: Int64s
    signature: Int64s
    binding: Bools
    step: Int64s | None = None
    vague: Bools | None = None

    def __len__(self) -> int:
        return len(self.start)


def alike(one: Witness, other: Witness, mine: Any, theirs: Any) -> Bools:
    """True where signatures agree; vague ones agree with all."""
    like = one.signature[mine] == other.signature[theirs]
    for witness, places in ((one, mine), (other, theirs)):
        if witness.vague is not None:
            like = like | witness.vague[places]
    return np.asarray(like)


Pairs = tuple[Int64s, Int64s]
"""Places of events of the first witness and of the second, two arrays of one length."""


def no_pairs() -> Pairs:
    """No pairs at all."""
    return np.empty(0, np.int64), np.empty(0, np.int64)


def best_lag(one: Witness, other: Witness, offset: int | None = None) -> tuple[int | None, bool]:
    """The k for which event j of the other witness is event j + k of the one, and whether that is ambiguous.

    The true lag is the one at which the ends differ by the same amount throughout, and by the offset of the clocks. A
    short overlap of the windows must be better by far than a long one. None if the signatures agree at no lag.
    """
    lags = _candidates(one, other)
    first, last = np.maximum(0, -lags), np.minimum(len(other), len(one) - lags)
    kept = last > first
    lags, first, count = lags[kept], first[kept], (last - first)[kept]
    if not len(lags):
        return None, False
    places = first[:, None] + (np.arange(_SAMPLE_SIZE)[None, :] * count[:, None]) // _SAMPLE_SIZE
    like = alike(one, other, places + lags[:, None], places)
    timed = _sampled(other, first, first + count)
    difference = other.end[timed] - one.end[timed + lags[:, None]]
    middle = np.sort(difference, axis=1)[:, _SAMPLE_SIZE // 2]
    spread = np.abs(difference - middle[:, None]).astype(np.float64).mean(axis=1) + _MIN_SPREAD_NS
    spread[like.mean(axis=1) < _MIN_AGREEMENT] = np.inf
    apart = np.abs(middle - (offset or 0)) * (_OFFSET_WEIGHT_UNKNOWN if offset is None else _OFFSET_WEIGHT)
    score = spread * (count.max() / count) ** 2 + apart
    best = np.lexsort((lags, np.abs(lags), score))[0]
    if not np.isfinite(score[best]):
        return None, False
    if offset is not None:
        return int(lags[best]), False
    rivals = lags[(spread <= _RIVAL_RATIO * spread[best]) & (2 * count >= count[best])]
    return (int(lags[best]), False) if len(rivals) == 1 else _resolved(one, other, rivals.tolist(), int(lags[best]))


def _resolved(one: Witness, other: Witness, lags: list[int], best: int) -> tuple[int, bool]:
    """The true one of several lags that times do not distinguish, and whether that is ambiguous."""
    every = 1 + len(lags) * min(len(one), len(other)) // _MAX_COMPARED
    shares = {lag: agreement(one, other, lag, every) for lag in lags}
    most = max(share for share, _ in shares.values())
    lags = [lag for lag, (share, _) in shares.items() if share == most]
    most_of_steps = max(shares[lag][1] for lag in lags)
    if most_of_steps >= _MIN_STEP_AGREEMENT:
        lags = [lag for lag in lags if shares[lag][1] == most_of_steps]
    elif len(one) == len(other) and 0 in lags:
        lags = [0]  # windows of one length begin together
    return (lags[0], False) if len(lags) == 1 else (best, True)


def agreement(one: Witness, other: Witness, lag: int, every: int = 1) -> tuple[float, float]:
    """Shares of events, of `every` one, whose signatures and whose step numbers agree; −1 if steps are unknown."""
    first, last = max(0, -lag), min(len(other), len(one) - lag)
    mine, theirs = slice(first + lag, last + lag, every), slice(first, last, every)
    like = float(alike(one, other, mine, theirs).mean())
    if one.step is None or other.step is None:
        return like, -1.0
    known = (one.step[mine] >= 0) & (other.step[theirs] >= 0)
    if 2 * known.sum() < len(known):
        return like, -1.0
    return like, float((one.step[mine] == other.step[theirs])[known].mean())


def _sampled(other: Witness, first: Int64s, last: Int64s) -> Int64s:
    """A sample of events between first and last, binding ones where there are any: int64 [lags, sample]."""
    places = np.flatnonzero(other.binding)
    low, high = np.searchsorted(places, first), np.searchsorted(places, last)
    step = np.arange(_SAMPLE_SIZE)[None, :]
    any_: Int64s = first[:, None] + step * (last - first)[:, None] // _SAMPLE_SIZE
    if not len(places):
        return any_
    chosen = places[np.minimum(low[:, None] + step * (high - low)[:, None] // _SAMPLE_SIZE, len(places) - 1)]
    return np.asarray(np.where((high > low)[:, None], chosen, any_))


def _candidates(one: Witness, other: Witness) -> Int64s:
    """Lags to be tried: those that clocks within reach allow, and those at which windows begin or end together."""
    together = np.array([0, len(one) - len(other)], np.int64)
    if len(one) == len(other) and np.array_equal(one.signature, other.signature):
        binding = one.binding if one.binding.any() else np.ones(len(one), np.bool_)
        difference = (other.end - one.end)[binding]
        numbered = agreement(one, other, 0)[1]
        is_tight = np.abs(difference - np.median(difference)).mean() <= _MAX_JITTER_NS
        if is_tight and (numbered < 0 or numbered >= _MIN_STEP_AGREEMENT):
            return together[:1]
    ends = np.sort(one.end)
    places = np.unique(np.linspace(0, len(other) - 1, 9).astype(np.int64))
    low = np.searchsorted(ends, other.end[places] - REACH_NS)
    high = np.searchsorted(ends, other.end[places] + REACH_NS)
    inside = high > low
    if not inside.any():
        return np.unique(together)
    low, high = low[inside] - places[inside], high[inside] - places[inside]
    centre, reach = int(np.median((low + high) // 2)), int((high - low).max()) // 2 + 2
    reach = min(reach, MAX_LAGS // 2)
    return np.unique(np.concatenate([together, np.arange(centre - reach, centre + reach + 1)]))
