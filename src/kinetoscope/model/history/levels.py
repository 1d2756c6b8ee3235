"""Levels of series: where a mean shifts for good, and whether it drifts instead.

A CUSUM over seeded intervals (Kovács et al., 2023: of all lengths, so that two shifts that cancel out are seen, too),
then what does not stand against its neighbours goes, least evidence first. A shift counts if it is beyond chance,
lasts, and has an effect.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats, Int64s

BATCH: Final = 200
"""Steps of the batch whose mean an effect is compared with."""

MIN_SPREADS: Final = 3.0
"""Deviations of a batch's mean that a change has at least."""

SHORTEST_BLOCKS: Final = 12
"""Blocks that a level lasts at least."""

MIN_SCORE: Final = 6.0
"""Standard errors of a shift or a slope at least, of one series; of more series more."""

_UNSURE_BLOCKS: Final = 25
"""Blocks of a run of which twice the evidence is needed."""

_PIECES: Final = 16
"""Pieces of a series between which a slope is looked for; it has more blocks than that if it has a shift."""

_PENALTY: Final = 3.0
"""Weight of a model's numbers, in logarithms of the blocks."""


@dataclass(frozen=True)
class LevelFit:
    """The levels and the slope of a series.

    Attributes:
        shifts: the blocks with which a new level begins.
        levels: the mean of each level, without the drift.
        slope: drift from block to block.
        score: standard errors of each shift.
        slope_score: standard errors of the slope.
    """

    shifts: tuple[int, ...]
    levels: tuple[float, ...]
    slope: float
    score: tuple[float, ...]
    slope_score: float


@dataclass(frozen=True)
class Limits:
    """The evidence and the size that a change needs.

    Attributes:
        deviation: of a block by chance.
        score: standard errors.
        effect: least size of a shift.
        blocks: that a level lasts.
    """

    deviation: float
    score: float
    effect: float
    blocks: int = SHORTEST_BLOCKS


def limits_of(level: float, deviation: float, block: int, blocks: int, series: int, share: float) -> Limits:
    """The limits for a series of blocks of so many steps, one of `series` that are looked at.

    Args:
        level: its middle.
        deviation: of a block by chance.
        block: steps of a block.
        blocks: how many there are.
        series: how many are looked at together: more of them have more accidents.
        share: of the level, that a change is at least.
    """
    spread = deviation * math.sqrt(block / BATCH)
    # Of a handful of blocks little is known of how alike neighbours are.
    score = (MIN_SCORE + math.sqrt(2 * math.log(max(series, 1))) / 2) * (1 + _UNSURE_BLOCKS / max(blocks, 1))
    return Limits(max(deviation, 1e-9 * abs(level), 1e-9), score, max(share * abs(level), MIN_SPREADS * spread))


def suspects(blocks: Floats, deviation: Floats, score: float) -> Bools:
    """The series that may have a shift or a slope: bool [series]; a look at all series together."""
    total = _sums(blocks)
    worst = np.zeros(len(blocks))
    for low, high in _intervals(blocks.shape[1], SHORTEST_BLOCKS):
        worst = np.maximum(worst, _scores(total, low, high, SHORTEST_BLOCKS).max(axis=1))
    return np.asarray(worst >= score * np.maximum(deviation, 1e-9))


def fit(values: Floats, limits: Limits) -> LevelFit:
    """Shifts, a slope, both or none: what explains a series, float64 [blocks], with the fewest numbers."""
    steps = _shifts(values, limits)
    best = _as_fit(values, steps, 0.0, limits)
    if not steps:
        # A slope that is large enough to count shifts the mean of halves, too.
        return best
    time = _time(len(values))
    candidates = [(_cost(values, steps, 0.0, limits), steps, 0.0)]
    tried: set[tuple[int, ...]] = {()}
    for slope in (float(time @ values / (time @ time)), _local_slope(values)):
        shifts = _shifts(values - slope * time, limits)
        # The slope of a line through all is partly that of the shifts: it is that of the levels which counts.
        tried |= {shifts, _shifts(values - _slope_with(values, time, shifts) * time, limits)}
    for shifts in sorted(tried):
        own = _slope_with(values, time, shifts)
        candidates.append((_cost(values, shifts, own, limits), shifts, own))
    _, shifts, slope = min(candidates, key=lambda each: each[0])
    drifted = abs(slope) * len(values)
    if slope and drifted < limits.effect:
        return best
    return _as_fit(values, shifts, slope, limits) if slope else best


def _cost(values: Floats, shifts: tuple[int, ...], slope: float, limits: Limits) -> float:
    """Squares that a model leaves, in those of noise, and what its numbers cost."""
    rest = _rest(values, shifts, slope)
    numbers = 2 * len(shifts) + (1.5 if slope else 0)
    return float(rest @ rest) / limits.deviation**2 + _PENALTY * numbers * math.log(len(values))


def _rest(values: Floats, shifts: tuple[int, ...], slope: float) -> Floats:
    rest = values - slope * _time(len(values))
    for low, high in _segments(shifts, len(values)):
        rest[low:high] -= rest[low:high].mean()
    return rest


def _time(count: int) -> Floats:
    """Numbers of blocks, less their mean."""
    return np.arange(count, dtype=np.float64) - (count - 1) / 2


def _local_slope(values: Floats) -> float:
    """The slope of most of the series: shifts are in few of the differences of means that it is the median of."""
    size = len(values) // _PIECES
    means = values[: size * _PIECES].reshape(_PIECES, size).mean(axis=1)
    return float(np.median(np.diff(means))) / size


def _slope_with(values: Floats, time: Floats, shifts: tuple[int, ...]) -> float:
    """The slope that all levels have in common, by least squares."""
    own, other = values.copy(), time.copy()
    for low, high in _segments(shifts, len(values)):
        own[low:high] -= own[low:high].mean()
        other[low:high] -= other[low:high].mean()
    return float(other @ own / (other @ other))


def _as_fit(values: Floats, shifts: tuple[int, ...], slope: float, limits: Limits) -> LevelFit:
    time = _time(len(values))
    flat = values - slope * time
    levels = tuple(float(flat[low:high].mean()) for low, high in _segments(shifts, len(values)))
    score = tuple(each[0] for each in _evidence(flat, shifts, limits))
    error = limits.deviation / math.sqrt(float(time @ time)) if len(time) > 1 else math.inf
    return LevelFit(shifts, levels, slope, score, abs(slope) / error)


def _shifts(values: Floats, limits: Limits) -> tuple[int, ...]:
    """The blocks with which levels begin that differ for good."""
    shifts = _candidates(values, limits)
    for _ in range(2):
        shifts = _standing(values, shifts, limits)
        shifts = _relocated(values, shifts, limits)
    return tuple(_standing(values, shifts, limits))


def _candidates(values: Floats, limits: Limits) -> list[int]:
    """Shifts with the greatest score first, none in an interval that has one."""
    total = _sums(values[None, :])
    hits = []
    for low, high in _intervals(len(values), limits.blocks):
        scores = _scores(total, low, high, limits.blocks)[0] / limits.deviation
        place = int(scores.argmax())
        if scores[place] >= limits.score:
            hits.append((float(scores[place]), low + limits.blocks + place, low, high))
    shifts: list[int] = []
    for _, place, low, high in sorted(hits, reverse=True):
        if not any(low < each < high for each in shifts):
            shifts.append(place)
    return sorted(shifts)


def _standing(values: Floats, shifts: list[int], limits: Limits) -> list[int]:
    """The shifts that stand against their neighbours; the one with the least evidence goes first."""
    shifts = list(shifts)
    while shifts:
        ratio = [
            min(score / limits.score, size / limits.effect) for score, size in _evidence(values, tuple(shifts), limits)
        ]
        weakest = int(np.argmin(ratio))
        if ratio[weakest] >= 1:
            break
        del shifts[weakest]
    return shifts


def _relocated(values: Floats, shifts: list[int], limits: Limits) -> list[int]:
    """Each shift where it fits best between its neighbours."""
    total = _sums(values[None, :])
    moved = list(shifts)
    for place in range(len(moved)):
        low = moved[place - 1] if place else 0
        high = moved[place + 1] if place + 1 < len(moved) else len(values)
        if high - low > 2 * limits.blocks:
            moved[place] = low + limits.blocks + int(_scores(total, low, high, limits.blocks)[0].argmax())
    return moved


def _evidence(values: Floats, shifts: tuple[int, ...], limits: Limits) -> list[tuple[float, float]]:
    """Standard errors and size of each shift."""
    pieces = [values[low:high] for low, high in _segments(shifts, len(values))]
    result = []
    for before, after in pairwise(pieces):
        size = abs(float(after.mean() - before.mean()))
        result.append((size / (limits.deviation * math.sqrt(1 / len(before) + 1 / len(after))), size))
    return result


def _segments(shifts: tuple[int, ...], count: int) -> list[tuple[int, int]]:
    edges = [0, *shifts, count]
    return list(pairwise(edges))


def _intervals(count: int, shortest: int) -> list[tuple[int, int]]:
    """Intervals of all lengths, each half over the next, down to two levels that last."""
    intervals = []
    length = float(count)
    while length >= 2 * shortest:
        number = 2 * math.ceil(count / length) - 1
        apart = (count - length) / max(number - 1, 1)
        intervals += [(round(each * apart), min(round(each * apart + length), count)) for each in range(number)]
        length /= math.sqrt(2)
    return [each for each in intervals if each[1] - each[0] >= 2 * shortest]


def _sums(blocks: Floats) -> Floats:
    # Less their mean, so that no digits are lost.
    centred = blocks - blocks.mean(axis=1, keepdims=True)
    return np.concatenate([np.zeros((len(blocks), 1)), np.cumsum(centred, axis=1)], axis=1)


def _scores(total: Floats, low: int, high: int, shortest: int) -> Floats:
    """The difference of the means on both sides of each place, in deviations of one block: float64 [series, places]."""
    place: Int64s = np.arange(low + shortest, high - shortest + 1)
    before = (total[:, place] - total[:, [low]]) / (place - low)
    after = (total[:, [high]] - total[:, place]) / (high - place)
    return np.asarray(np.abs(after - before) / np.sqrt(1 / (place - low) + 1 / (high - place)))
