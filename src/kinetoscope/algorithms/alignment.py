"""Two records of one sequence of events, made by different witnesses with different clocks, put side by side.

Each witness saw a window of the sequence, perhaps with gaps, and knows of each event when it began and ended and a
signature: what kind of event it was. Some events bind: both witnesses are inside them at one instant, so that their
intervals overlap once the clocks agree. What cannot be told stays unpaired; that is better than a wrong pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.compiled import Bools, Int64s

_SAMPLE: Final = 64
"""Events that a lag is judged by."""

_REACH: Final = 50_000_000
"""Clocks that disagree by more, ns, are found only where both windows begin or end with the same event."""

_MOST_LAGS: Final = 2048
_ALIKE: Final = 0.98
"""Share of the events whose signatures agree at the true lag."""

_LEAVING: Final = 1000.0
"""What ends differ by in any case, ns: lags are not told apart by less."""

_CLEARLY: Final = 3.0
"""How many times as much as at another lag ends must vary before a lag is out of the question."""

_ASIDE: Final = 1e-4
_ASTRAY: Final = 0.1
"""What a ns between the clocks counts, against one of variation: where nothing is known of them, and where much is."""

_NUMBERED: Final = 0.9
"""Share of the events that must be of the same step if witnesses count steps alike."""

_FEW: Final = 4
"""Events from which on the distances between them tell whether a lag is true."""

_MANY: Final = 16
"""Events in a row that show that there are no gaps, where others have some."""

_STEADY: Final = 0.25
"""Share of the usual distance of two events that the difference of the clocks may vary by from one to the next."""

_JITTER: Final = 20_000
"""Ends that differ by no more than this beyond a common difference, ns, leave no doubt about a lag."""

_SLACK: Final = 20_000
"""What binding events may miss each other by, ns: witnesses do not leave at the very same instant."""

_TRUSTED: Final = 0.9
"""Share of the binding pairs that must overlap; else the windows have gaps, or the lag is wrong."""

_AHEAD: Final = 4
"""Events of one signature that may overlap an event of the other witness, at most."""

_GAPS: Final = 0.05
"""Share of unpaired binding events from which on a window has gaps, and mere order tells nothing."""

_VOTERS: Final = 256
_BINS: Final = (20_000, 200_000, 2_000_000)
"""Differences of clocks that count as the same, ns: where devices wait, and where hosts do."""

_MOST_VOTES: Final = 0.3
_CLEAR: Final = 2.0
"""Votes for a difference of clocks: how large a share it needs, and how many times as many as any other."""

_FAR: Final = 1 << 61


@dataclass(frozen=True)
class Witness:
    """What one witness saw, in order of start.

    Attributes:
        start, end: int64 [events], ns on the witness's clock.
        signature: int64 [events], equal numbers for like events.
        binding: bool [events], see above; the same for all events of a signature.
        step: int64 [events], number of the part of the sequence that each is of, as all witnesses count; −1 unknown.
        vague: bool [events], those whose signature says too little: they may be any.
    """

    start: Int64s
    end: Int64s
    signature: Int64s
    binding: Bools
    step: Int64s | None = None
    vague: Bools | None = None

    def __len__(self) -> int:
        return len(self.start)

    def at(self, places: NDArray[np.int64]) -> Witness:
        """Some of the events."""
        step = None if self.step is None else self.step[places]
        vague = None if self.vague is None else self.vague[places]
        return Witness(self.start[places], self.end[places], self.signature[places], self.binding[places], step, vague)


def _like(one: Witness, other: Witness, mine: Any, theirs: Any) -> Bools:
    """Whether signatures agree, as far as they say anything."""
    like = one.signature[mine] == other.signature[theirs]
    for witness, places in ((one, mine), (other, theirs)):
        if witness.vague is not None:
            like = like | witness.vague[places]
    return np.asarray(like)


Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Places of events of the first witness and of the second, two arrays of one length."""


def aligned_pairs(one: Witness, other: Witness, offset: int | None = None, *, gaps: bool = False) -> Pairs:
    """Which events of two witnesses are the same.

    If neither window has gaps, the events of one are those of the other, shifted by a number of events (the lag) that
    is the same for all. Else binding events are told by order among their like or by overlap in time, and all others
    by the order between those.

    `offset` is how far the other's clock is ahead, ns; None if nothing is known of that. `gaps` says that windows are
    known to have gaps: then it takes many events to show that these two have none.
    """
    return aligned_or_doubtful(one, other, offset, gaps=gaps)[0]


def aligned_or_doubtful(
    one: Witness, other: Witness, offset: int | None = None, *, gaps: bool = False
) -> tuple[Pairs, bool]:
    """`aligned_pairs`, and whether there are none since several lags fit as well: the sequence repeats itself."""
    if not len(one) or not len(other):
        return _none(), False
    lag, doubtful = _judged_lag(one, other, offset)
    if lag is not None and _is_steady(one, other, found := _shifted(one, other, lag), offset or 0, gaps=gaps):
        agree = _holds(one, other, found, _difference(one, other, found))
        if agree.size and agree.mean() >= _TRUSTED:
            return (_none(), True) if doubtful else ((found[0][agree], found[1][agree]), False)
    if not one.binding.any() and not other.binding.any():
        return _in_order(one, other), False
    if offset is None:
        offset = _voted_offset(one, other)
    return (_none() if offset is None else _with_gaps(one, other, offset)), False


def best_lag(one: Witness, other: Witness, offset: int | None = None) -> int | None:
    """The k for which event j of the other witness is event j + k of the one; None if it cannot be told.

    The true lag is the one at which the ends differ by the same amount throughout, and by what is known of the clocks.
    A short overlap of the windows must be better by far than a long one.
    """
    lag, doubtful = _judged_lag(one, other, offset)
    return None if doubtful else lag


def _judged_lag(one: Witness, other: Witness, offset: int | None) -> tuple[int | None, bool]:
    """The best lag, None if the signatures agree at none; and whether another one may be true as well."""
    lags = _candidates(one, other)
    first, last = np.maximum(0, -lags), np.minimum(len(other), len(one) - lags)
    kept = last > first
    lags, first, count = lags[kept], first[kept], (last - first)[kept]
    if not len(lags):
        return None, False
    places = first[:, None] + (np.arange(_SAMPLE)[None, :] * count[:, None]) // _SAMPLE
    like = _like(one, other, places + lags[:, None], places)
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
    like, same = zip(*(_agreement(one, other, lag) for lag in lags), strict=True)
    lags = [lag for lag, share in zip(lags, like, strict=True) if share == max(like)]
    same = tuple(share for share, each in zip(same, like, strict=True) if each == max(like))
    if max(same) >= _NUMBERED:
        lags = [lag for lag, share in zip(lags, same, strict=True) if share == max(same)]
    elif len(one) == len(other) and 0 in lags:
        lags = [0]  # windows of one length begin together
    return (lags[0], False) if len(lags) == 1 else (best, True)


def _agreement(one: Witness, other: Witness, lag: int) -> tuple[float, float]:
    """Shares of the events whose signatures, and whose step numbers, agree at a lag; −1 if steps tell nothing."""
    first, last = max(0, -lag), min(len(other), len(one) - lag)
    mine, theirs = slice(first + lag, last + lag), slice(first, last)
    like = float(_like(one, other, mine, theirs).mean())
    if one.step is None or other.step is None:
        return like, -1.0
    known = (one.step[mine] >= 0) & (other.step[theirs] >= 0)
    if 2 * known.sum() < last - first:
        return like, -1.0
    return like, float((one.step[mine] == other.step[theirs])[known].mean())


def _timed(other: Witness, first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """Events between first and last of which all leave together, where there are any: int64 [lags, sample]."""
    places = np.flatnonzero(other.binding)
    low, high = np.searchsorted(places, first), np.searchsorted(places, last)
    step = np.arange(_SAMPLE)[None, :]
    any_: NDArray[np.int64] = first[:, None] + step * (last - first)[:, None] // _SAMPLE
    if not len(places):
        return any_
    chosen = places[np.minimum(low[:, None] + step * (high - low)[:, None] // _SAMPLE, len(places) - 1)]
    return np.asarray(np.where((high > low)[:, None], chosen, any_))


def _candidates(one: Witness, other: Witness) -> NDArray[np.int64]:
    """Lags to be tried: those that clocks within reach allow, and those at which windows begin or end together."""
    together = np.array([0, len(one) - len(other)], np.int64)
    if len(one) == len(other) and np.array_equal(one.signature, other.signature):
        binding = one.binding if one.binding.any() else np.ones(len(one), np.bool_)
        difference = (other.end - one.end)[binding]
        numbered = _agreement(one, other, 0)[1]
        if np.abs(difference - np.median(difference)).mean() <= _JITTER and (numbered < 0 or numbered >= _NUMBERED):
            return together[:1]
    ends = np.sort(one.end)
    places = np.unique(np.linspace(0, len(other) - 1, 9).astype(np.int64))
    low = np.searchsorted(ends, other.end[places] - _REACH)
    high = np.searchsorted(ends, other.end[places] + _REACH)
    inside = high > low
    if not inside.any():
        return np.unique(together)
    low, high = low[inside] - places[inside], high[inside] - places[inside]
    centre, reach = int(np.median((low + high) // 2)), int((high - low).max()) // 2 + 2
    reach = min(reach, _MOST_LAGS // 2)
    return np.unique(np.concatenate([together, np.arange(centre - reach, centre + reach + 1)]))


def _distance(witness: Witness) -> float:
    """How far the ends of like events are apart from one to the next, half of them, ns."""
    order = np.lexsort((witness.end, witness.signature))
    distance = np.diff(witness.end[order])[np.diff(witness.signature[order]) == 0]
    return float(np.median(distance)) if len(distance) else np.inf


def _shifted(one: Witness, other: Witness, lag: int) -> Pairs:
    places = np.arange(max(0, -lag), min(len(other), len(one) - lag), dtype=np.int64)
    like = _like(one, other, places + lag, places)
    return places[like] + lag, places[like]


def _is_steady(one: Witness, other: Witness, found: Pairs, offset: int, *, gaps: bool) -> bool:
    """Whether the clocks differ by much the same from event to event, as they do unless there are gaps.

    Of few events both must have seen the same ones, or in the same steps, at nearly the same time.
    """
    mine, theirs = found
    if one.binding[mine].any():
        mine, theirs = mine[one.binding[mine]], theirs[one.binding[mine]]
    difference = other.end[theirs] - one.end[mine]
    if gaps and len(mine) < max(_MANY, min(len(one), len(other)) // 2):
        return False
    if len(mine) < _FEW:
        near = len(mine) > 0 and abs(int(np.median(difference)) - offset) <= _REACH
        whole = len(found[0]) == len(one) == len(other)
        return near and (whole or _agreement(one, other, int(found[0][0] - found[1][0]))[1] == 1.0)
    distance = np.median(np.abs(np.diff(one.end[mine])))
    return bool(np.median(np.abs(np.diff(difference))) <= _STEADY * distance)


def _difference(one: Witness, other: Witness, found: Pairs) -> int:
    """How far the other's clock is ahead, by the ends of binding pairs; of all pairs if none bind."""
    mine, theirs = found
    binding = one.binding[mine]
    difference = (other.end[theirs] - one.end[mine])[binding if binding.any() else slice(None)]
    return int(np.sort(difference)[len(difference) // 2]) if len(difference) else 0


def _holds(one: Witness, other: Witness, found: Pairs, offset: int) -> Bools:
    """Which pairs may be: binding ones overlap once the clocks agree; of the others nothing is asked."""
    mine, theirs = found
    start, end = other.start[theirs] - offset, other.end[theirs] - offset
    apart = np.maximum(one.start[mine], start) - np.minimum(one.end[mine], end)
    return np.asarray(~one.binding[mine] | (apart <= _SLACK))


# --- windows with gaps


def _voted_offset(one: Witness, other: Witness) -> int | None:
    """How far the other's clock is ahead, as most ends of like events say; None where they say nothing clear.

    The true difference occurs for all events that both saw, any other only by chance: unless events are as regular as
    a clock themselves, and then nothing can be told.
    """
    mine, theirs = np.flatnonzero(one.binding), np.flatnonzero(other.binding)
    if not len(mine) or not len(theirs):
        return None
    mine = mine[np.argsort(one.end[mine], kind="stable")]
    theirs = theirs[np.unique(np.linspace(0, len(theirs) - 1, _VOTERS).astype(np.int64))]
    low = np.searchsorted(one.end[mine], other.end[theirs] - _REACH)
    count = np.minimum(np.searchsorted(one.end[mine], other.end[theirs] + _REACH) - low, _MOST_LAGS)
    voter = np.repeat(np.arange(len(theirs)), count)
    place = np.arange(len(voter)) - np.repeat(np.cumsum(count) - count, count) + low[voter]
    like = one.signature[mine[place]] == other.signature[theirs[voter]]
    difference = (other.end[theirs[voter]] - one.end[mine[place]])[like]
    for width in _BINS:
        if 2 * width > _distance(one.at(mine)):  # a voter would vote for several at once
            break
        votes = np.bincount((difference + _REACH) // width, minlength=2 * _REACH // width + 2)
        votes = votes[1:] + votes[:-1]  # a true difference may lie at the edge of a bin
        best = int(votes.argmax())
        others = np.delete(votes, np.arange(max(0, best - 2), min(len(votes), best + 3)))
        if votes[best] >= max(_FEW + 1, _MOST_VOTES * len(theirs)) and votes[best] >= _CLEAR * others.max(initial=0):
            inside = np.abs(difference - ((best + 1) * width - _REACH)) <= width
            return int(np.median(difference[inside]))
    return None


def _with_gaps(one: Witness, other: Witness, offset: int) -> Pairs:
    mine, theirs = np.flatnonzero(one.binding), np.flatnonzero(other.binding)
    if not len(mine) or not len(theirs):
        return _none()
    a, b = one.at(mine), other.at(theirs)
    b = Witness(b.start - offset, b.end - offset, b.signature, b.binding)
    found = _by_overlap(a, b, *_as_often(a, b))
    found = mine[found[0]], theirs[found[1]]
    return _filled(one, other, found)


def _in_order(one: Witness, other: Witness) -> Pairs:
    """Events that do not bind, where both saw exactly the same."""
    if np.array_equal(one.signature, other.signature):
        return np.arange(len(one)), np.arange(len(other))
    return _none()


def _as_often(one: Witness, other: Witness) -> Pairs:
    """Binding events whose signature both saw equally often, if all of them overlap in that order."""
    mine, theirs = _by_occurrence(one.signature, other.signature)
    holds = _holds(one, other, (mine, theirs), 0)
    wrong = np.unique(one.signature[mine[~holds]])
    kept = ~np.isin(one.signature[mine], wrong)
    return mine[kept], theirs[kept]


def _by_occurrence(one: Int64s, other: Int64s) -> Pairs:
    """The first with the first, the second with the second, of each key that occurs equally often on both sides."""
    mine, theirs = np.argsort(one, kind="stable"), np.argsort(other, kind="stable")
    keys, counts = np.unique(one, return_counts=True)
    others, their_counts = np.unique(other, return_counts=True)
    common, at, there = np.intersect1d(keys, others, assume_unique=True, return_indices=True)
    equal = common[counts[at] == their_counts[there]]
    return mine[np.isin(one[mine], equal)], theirs[np.isin(other[theirs], equal)]


def _by_overlap(one: Witness, other: Witness, mine: NDArray[np.int64], theirs: NDArray[np.int64]) -> Pairs:
    """The pairs given and, of other events, those that overlap just one of their like by half of the shorter."""
    rest = np.setdiff1d(np.arange(len(one)), mine, assume_unique=True)
    theirs_rest = np.setdiff1d(np.arange(len(other)), theirs, assume_unique=True)
    found = _overlapping(one.at(rest), other.at(theirs_rest))
    return np.concatenate([mine, rest[found[0]]]), np.concatenate([theirs, theirs_rest[found[1]]])


def _overlapping(one: Witness, other: Witness) -> Pairs:
    if not len(one) or not len(other):
        return _none()
    origin = min(int(one.start.min()), int(other.start.min()))
    width = max(int(one.end.max()), int(other.end.max())) - origin + 1
    signatures = np.unique(np.concatenate([one.signature, other.signature]))
    if width * len(signatures) >= _FAR:
        return _none()

    def spread(times: Int64s, signature: Int64s) -> Int64s:
        """Times such that events of different signatures never overlap."""
        return times - origin + np.searchsorted(signatures, signature) * width

    mine = np.lexsort((one.start, one.signature))
    start, end = spread(one.start, one.signature)[mine], spread(one.end, one.signature)[mine]
    low, high = spread(other.start, other.signature), spread(other.end, other.signature)
    first = np.searchsorted(np.maximum.accumulate(end), low, side="right")
    last = np.searchsorted(start, high, side="left")
    fits, which = np.zeros(len(other), np.int64), np.full(len(other), -1, np.int64)
    for ahead in range(_AHEAD):
        place = np.minimum(first + ahead, len(mine) - 1)
        both = np.minimum(end[place], high) - np.maximum(start[place], low)
        shorter = np.minimum(end[place] - start[place], high - low)
        fit = (first + ahead < last) & (2 * both >= shorter)
        fits += fit
        which[fit] = place[fit]
    alone = (fits == 1) & (last - first <= _AHEAD)
    chosen, counts = np.unique(which[alone], return_counts=True)
    alone &= np.isin(which, chosen[counts == 1])
    theirs = np.flatnonzero(alone)
    return mine[which[theirs]], theirs


def _filled(one: Witness, other: Witness, found: Pairs) -> Pairs:
    """The pairs, and those events that do not bind and lie between the same pairs equally often on both sides."""
    mine, theirs = found
    order = np.argsort(mine, kind="stable")
    mine, theirs = mine[order], theirs[order]
    if not len(mine) or (np.diff(theirs) < 0).any() or _unpaired(one, mine) > _GAPS or _unpaired(other, theirs) > _GAPS:
        return mine, theirs
    loose, their_loose = np.flatnonzero(~one.binding), np.flatnonzero(~other.binding)
    segment, their_segment = np.searchsorted(mine, loose), np.searchsorted(theirs, their_loose)
    signatures = np.unique(np.concatenate([one.signature, other.signature]))
    key = segment * len(signatures) + np.searchsorted(signatures, one.signature[loose])
    their_key = their_segment * len(signatures) + np.searchsorted(signatures, other.signature[their_loose])
    more, their_more = _by_occurrence(key, their_key)
    return np.concatenate([mine, loose[more]]), np.concatenate([theirs, their_loose[their_more]])


def _unpaired(witness: Witness, paired: NDArray[np.int64]) -> float:
    """Share of the binding events between the first and the last paired one that are not paired."""
    binding = int(witness.binding[paired.min() : paired.max() + 1].sum())
    return 1 - len(paired) / binding


def _none() -> Pairs:
    return np.empty(0, np.int64), np.empty(0, np.int64)
