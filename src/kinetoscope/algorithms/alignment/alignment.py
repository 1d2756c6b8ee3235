"""Pairs of equal events in two records of one sequence, made by different witnesses with different clocks.

Each witness recorded a window of the sequence, perhaps with gaps: start, end and signature (the kind) of each event.
Some events bind: both witnesses are inside them at one instant, so that their intervals overlap once the clocks agree.
Ambiguous events stay unpaired: that is better than a wrong pair.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.alignment.sequence_alignment import (
    MAX_LAGS,
    REACH_NS,
    Pairs,
    Witness,
    agreement,
    alike,
    best_lag,
    no_pairs,
)
from kinetoscope.algorithms.arrays import Bools, Int64s, rows_of

_MIN_FOR_DISTANCE: Final = 4
"""Events from which on the distances between them prove a lag."""

_MIN_WITHOUT_GAPS: Final = 16
"""Events in a row that prove that there are no gaps, where others have some."""

_MAX_VARIATION: Final = 0.25
"""Variation of the difference of clocks from event to event / usual distance of two events."""

_TOLERANCE_NS: Final = 20_000
"""Gap between binding events: witnesses do not leave at the very same instant."""

_MIN_OVERLAPPING: Final = 0.9
"""Share of the binding pairs that must overlap; else the windows have gaps, or the lag is wrong."""

_MAX_OVERLAPS: Final = 4
"""Events of one signature that may overlap an event of the other witness, at most."""

_MAX_UNPAIRED_SHARE: Final = 0.05
"""Share of unpaired binding events from which on a window has gaps, and mere order does not match."""

_MAX_VOTERS: Final = 256
_BINS_NS: Final = (20_000, 200_000, 2_000_000)
"""Differences of clocks that count as the same: where devices wait, and where hosts do."""

_MIN_VOTE_SHARE: Final = 0.3
_VOTE_RATIO: Final = 2.0
"""Votes for a difference of clocks: the share that it needs, and the ratio to those of any other."""

_MAX_TIME: Final = 1 << 61


def aligned_pairs(one: Witness, other: Witness, offset: int | None = None, *, gaps: bool = False) -> Pairs:
    """Pairs of equal events of two witnesses.

    If neither window has gaps, the events of one are those of the other, shifted by a number of events (the lag) that
    is the same for all. Else binding events are matched by order among their like or by overlap in time, and all
    others by the order between those.

    Args:
        one: a witness.
        other: another one.
        offset: how far the other's clock is ahead, ns; None if it is unknown.
        gaps: windows are known to have gaps: then it takes many events to prove that these two have none.
    """
    return align(one, other, offset, gaps=gaps)[0]


def align(one: Witness, other: Witness, offset: int | None = None, *, gaps: bool = False) -> tuple[Pairs, bool]:
    """`aligned_pairs`, and whether there are none as several lags fit: the sequence repeats itself."""
    if not len(one) or not len(other):
        return no_pairs(), False
    lag, ambiguous = best_lag(one, other, offset)
    if lag is not None and _is_steady(one, other, pairs := _shifted(one, other, lag), offset or 0, gaps=gaps):
        agree = _holds(one, other, pairs, _difference(one, other, pairs))
        if agree.size and agree.mean() >= _MIN_OVERLAPPING:
            return (no_pairs(), True) if ambiguous else ((pairs[0][agree], pairs[1][agree]), False)
    if not one.binding.any() and not other.binding.any():
        same = np.array_equal(one.signature, other.signature)
        return ((np.arange(len(one)), np.arange(len(other))) if same else no_pairs()), False
    if offset is None:
        offset = _voted_offset(one, other)
    return (no_pairs() if offset is None else _with_gaps(one, other, offset)), False


def _distance(witness: Witness) -> float:
    """Median distance of the ends of successive like events, ns."""
    order = np.lexsort((witness.end, witness.signature))
    distance = np.diff(witness.end[order])[np.diff(witness.signature[order]) == 0]
    return float(np.median(distance)) if len(distance) else np.inf


def _shifted(one: Witness, other: Witness, lag: int) -> Pairs:
    places = np.arange(max(0, -lag), min(len(other), len(one) - lag), dtype=np.int64)
    like = alike(one, other, places + lag, places)
    return places[like] + lag, places[like]


def _is_steady(one: Witness, other: Witness, pairs: Pairs, offset: int, *, gaps: bool) -> bool:
    """True if the difference of the clocks is steady from event to event, as it is unless there are gaps.

    Few events must be the same ones, or in the same steps, at nearly the same time.
    """
    mine, theirs = pairs
    if one.binding[mine].any():
        mine, theirs = mine[one.binding[mine]], theirs[one.binding[mine]]
    difference = other.end[theirs] - one.end[mine]
    if gaps and len(mine) < max(_MIN_WITHOUT_GAPS, min(len(one), len(other)) // 2):
        return False
    if len(mine) < _MIN_FOR_DISTANCE:
        near = len(mine) > 0 and abs(int(np.median(difference)) - offset) <= REACH_NS
        whole = len(pairs[0]) == len(one) == len(other)
        return near and (whole or agreement(one, other, int(pairs[0][0] - pairs[1][0]))[1] == 1.0)
    distance = np.median(np.abs(np.diff(one.end[mine])))
    return bool(np.median(np.abs(np.diff(difference))) <= _MAX_VARIATION * distance)


def _difference(one: Witness, other: Witness, pairs: Pairs) -> int:
    """How far the other's clock is ahead, by the ends of binding pairs; of all pairs if none bind."""
    mine, theirs = pairs
    binding = one.binding[mine]
    difference = (other.end[theirs] - one.end[mine])[binding if binding.any() else slice(None)]
    return int(np.sort(difference)[len(difference) // 2]) if len(difference) else 0


def _holds(one: Witness, other: Witness, pairs: Pairs, offset: int) -> Bools:
    """True where each pair is possible: binding ones overlap once the clocks agree; others always are."""
    mine, theirs = pairs
    start, end = other.start[theirs] - offset, other.end[theirs] - offset
    apart = np.maximum(one.start[mine], start) - np.minimum(one.end[mine], end)
    return np.asarray(~one.binding[mine] | (apart <= _TOLERANCE_NS))


# --- windows with gaps


def _voted_offset(one: Witness, other: Witness) -> int | None:
    """How far the other's clock is ahead, by the votes of ends of like events; None where they do not agree.

    The true difference occurs for all events that both recorded, any other only by chance: unless events are as regular
    as a clock themselves.
    """
    mine, theirs = np.flatnonzero(one.binding), np.flatnonzero(other.binding)
    if not len(mine) or not len(theirs):
        return None
    mine = mine[np.argsort(one.end[mine], kind="stable")]
    theirs = theirs[np.unique(np.linspace(0, len(theirs) - 1, _MAX_VOTERS).astype(np.int64))]
    low = np.searchsorted(one.end[mine], other.end[theirs] - REACH_NS)
    count = np.minimum(np.searchsorted(one.end[mine], other.end[theirs] + REACH_NS) - low, MAX_LAGS)
    voter = np.repeat(np.arange(len(theirs)), count)
    place = np.arange(len(voter)) - np.repeat(np.cumsum(count) - count, count) + low[voter]
    like = one.signature[mine[place]] == other.signature[theirs[voter]]
    difference = (other.end[theirs[voter]] - one.end[mine[place]])[like]
    for width in _BINS_NS:
        if 2 * width > _distance(rows_of(one, mine)):  # a voter would vote for several at once
            break
        votes = np.bincount((difference + REACH_NS) // width, minlength=2 * REACH_NS // width + 2)
        votes = votes[1:] + votes[:-1]  # a true difference may lie at the edge of a bin
        best = int(votes.argmax())
        others = np.delete(votes, np.arange(max(0, best - 2), min(len(votes), best + 3)))
        enough = max(_MIN_FOR_DISTANCE + 1, _MIN_VOTE_SHARE * len(theirs), _VOTE_RATIO * others.max(initial=0))
        if votes[best] >= enough:
            inside = np.abs(difference - ((best + 1) * width - REACH_NS)) <= width
            return int(np.median(difference[inside]))
    return None


def _with_gaps(one: Witness, other: Witness, offset: int) -> Pairs:
    mine, theirs = np.flatnonzero(one.binding), np.flatnonzero(other.binding)
    if not len(mine) or not len(theirs):
        return no_pairs()
    a, b = rows_of(one, mine), rows_of(other, theirs)
    b = Witness(b.start - offset, b.end - offset, b.signature, b.binding)
    pairs = _by_overlap(a, b, *_as_often(a, b))
    pairs = mine[pairs[0]], theirs[pairs[1]]
    return _filled(one, other, pairs)


def _as_often(one: Witness, other: Witness) -> Pairs:
    """Binding events whose signature both recorded equally often, if all of them overlap in that order."""
    mine, theirs = _by_occurrence(one.signature, other.signature)
    holds = _holds(one, other, (mine, theirs), 0)
    wrong = np.unique(one.signature[mine[~holds]])
    agreeing = ~np.isin(one.signature[mine], wrong)
    return mine[agreeing], theirs[agreeing]


def _by_occurrence(one: Int64s, other: Int64s) -> Pairs:
    """The first with the first, the second with the second, of each key that occurs equally often on both sides."""
    mine, theirs = np.argsort(one, kind="stable"), np.argsort(other, kind="stable")
    keys, counts = np.unique(one, return_counts=True)
    others, their_counts = np.unique(other, return_counts=True)
    common, at, at_other = np.intersect1d(keys, others, assume_unique=True, return_indices=True)
    equal = common[counts[at] == their_counts[at_other]]
    return mine[np.isin(one[mine], equal)], theirs[np.isin(other[theirs], equal)]


def _by_overlap(one: Witness, other: Witness, mine: Int64s, theirs: Int64s) -> Pairs:
    """The pairs given and, of other events, those that overlap just one of their like by half of the shorter."""
    rest = np.setdiff1d(np.arange(len(one)), mine, assume_unique=True)
    theirs_rest = np.setdiff1d(np.arange(len(other)), theirs, assume_unique=True)
    pairs = _overlapping(rows_of(one, rest), rows_of(other, theirs_rest))
    return np.concatenate([mine, rest[pairs[0]]]), np.concatenate([theirs, theirs_rest[pairs[1]]])


def _overlapping(one: Witness, other: Witness) -> Pairs:
    if not len(one) or not len(other):
        return no_pairs()
    origin = min(int(one.start.min()), int(other.start.min()))
    width = max(int(one.end.max()), int(other.end.max())) - origin + 1
    signatures = np.unique(np.concatenate([one.signature, other.signature]))
    if width * len(signatures) >= _MAX_TIME:
        return no_pairs()

    def spread(times: Int64s, signature: Int64s) -> Int64s:
        """Times such that events of different signatures never overlap."""
        return times - origin + np.searchsorted(signatures, signature) * width

    mine = np.lexsort((one.start, one.signature))
    start, end = spread(one.start, one.signature)[mine], spread(one.end, one.signature)[mine]
    low, high = spread(other.start, other.signature), spread(other.end, other.signature)
    first = np.searchsorted(np.maximum.accumulate(end), low, side="right")
    last = np.searchsorted(start, high, side="left")
    fits, which = np.zeros(len(other), np.int64), np.full(len(other), -1, np.int64)
    for ahead in range(_MAX_OVERLAPS):
        place = np.minimum(first + ahead, len(mine) - 1)
        both = np.minimum(end[place], high) - np.maximum(start[place], low)
        shorter = np.minimum(end[place] - start[place], high - low)
        fit = (first + ahead < last) & (2 * both >= shorter)
        fits += fit
        which[fit] = place[fit]
    alone = (fits == 1) & (last - first <= _MAX_OVERLAPS)
    chosen, counts = np.unique(which[alone], return_counts=True)
    alone &= np.isin(which, chosen[counts == 1])
    theirs = np.flatnonzero(alone)
    return mine[which[theirs]], theirs


def _filled(one: Witness, other: Witness, pairs: Pairs) -> Pairs:
    """The pairs, and those events that do not bind and lie between the same pairs equally often on both sides."""
    mine, theirs = pairs
    order = np.argsort(mine, kind="stable")
    mine, theirs = mine[order], theirs[order]
    if not len(mine) or (np.diff(theirs) < 0).any():
        return mine, theirs
    if max(_unpaired(one, mine), _unpaired(other, theirs)) > _MAX_UNPAIRED_SHARE:
        return mine, theirs
    loose, their_loose = np.flatnonzero(~one.binding), np.flatnonzero(~other.binding)
    segment, their_segment = np.searchsorted(mine, loose), np.searchsorted(theirs, their_loose)
    signatures = np.unique(np.concatenate([one.signature, other.signature]))
    key = segment * len(signatures) + np.searchsorted(signatures, one.signature[loose])
    their_key = their_segment * len(signatures) + np.searchsorted(signatures, other.signature[their_loose])
    more, their_more = _by_occurrence(key, their_key)
    return np.concatenate([mine, loose[more]]), np.concatenate([theirs, their_loose[their_more]])


def _unpaired(witness: Witness, paired: Int64s) -> float:
    """Share of the binding events between the first and the last paired one that are not paired."""
    binding = int(witness.binding[paired.min() : paired.max() + 1].sum())
    return 1 - len(paired) / binding
