"""Places at which step times change, and the ranks on which they do: before anything is said of why.

Looked at are the median of the ranks, and how each rank differs from the others: what all do together, as they wait for
each other, is no news of a rank.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats, Int64s
from kinetoscope.algorithms.outliers import median_of_others
from kinetoscope.model.history.levels import MIN_SCORE, SHORTEST_BLOCKS, LevelFit, Limits, fit, limits_of, suspects
from kinetoscope.model.history.noise import deviations
from kinetoscope.model.history.run_series import RunSeries

MIN_SHARE: Final = 0.01
"""Share of a step by which it changes at least."""

SHORTEST_STEPS: Final = 2 * SHORTEST_BLOCKS * 10
"""Steps of a run in which changes are looked for."""

SHORT_STRETCH: Final = 0.05
"""Share of the run up to which a stretch is short."""

MIN_LOST: Final = 0.01
"""Share of the run's time that a short stretch cost at least."""

_REVERSAL_SHARE: Final = 0.5
"""Share of a shift by which the next one may differ that takes it back."""

_SAME_PLACE: Final = 3
"""Blocks within which ranks change together."""

_COMPARED_BLOCKS: Final = 50
"""Blocks before and after a change that are compared, at most."""

_SEARCHED: Final = 10
"""Blocks around a change in which its step is looked for."""

_PLACE_LIMIT: Final = 7.35
"""Twice the logarithm of the likelihood ratio within which a shift lies with 95 % probability (Hinkley, 1970)."""

_RANKS_SHARE: Final = 0.5
"""Share of a change that a rank has at least if it has it, too."""


@dataclass(frozen=True)
class Shift:
    """A new level of step time, or a drift.

    Attributes:
        low, place, high: blocks: the level before from `low` to `place`, the new one from there to `high`.
        rows: bool [ranks], the ranks that it is on.
        before, after: mean time of a step on these ranks, ns; of a drift at its beginning and end.
        error: standard error of the difference, ns.
        limits: that it is above.
        score: standard errors.
        is_drift: a steady slope.
    """

    low: int
    place: int
    high: int
    rows: Bools
    before: float
    after: float
    error: float
    limits: Limits
    score: float
    is_drift: bool = False


def shifts_of(run: RunSeries) -> list[Shift]:
    """The shifts and drifts of a run, in order."""
    if run.steps < SHORTEST_STEPS or run.means.shape[1] < 2 * SHORTEST_BLOCKS:
        return []
    every = np.ones(len(run.ranks), np.bool_)
    deviation = float(deviations(run.common[None, :])[0])
    limits = limits_of(float(np.median(run.common)), deviation, run.block, len(run.common), len(run.ranks), MIN_SHARE)
    fitted = fit(run.common, limits)
    shifts = [_on(run, shift) for shift in _lasting(run, _as_shifts(fitted, run.common, limits, every))]
    if len(run.ranks) > 1:
        shifts = _together([*shifts, *_of_single_ranks(run)])
    return sorted((each for each in shifts if each.rows.any()), key=lambda each: each.place)


def _lasting(run: RunSeries, series: Iterable[Shift]) -> list[Shift]:
    """The shifts of a series without short stretches that went away, and cost next to nothing: machines have those."""
    count, whole = run.means.shape[1], float(run.common.sum())
    shifts, gone = list(series), set[int]()
    for number, shift in enumerate(shifts):
        size = shift.after - shift.before
        if shift.is_drift or number in gone:
            continue
        if not shift.low and size < 0 and _is_short(shift.place, size, count, whole):
            gone.add(number)
        elif number + 1 < len(shifts) and _is_short(shifts[number + 1].place - shift.place, size, count, whole):
            other = shifts[number + 1].after - shifts[number + 1].before
            if abs(size + other) <= _REVERSAL_SHARE * abs(size):
                gone |= {number, number + 1}
    return [each for number, each in enumerate(shifts) if number not in gone]


def _is_short(blocks: int, size: float, count: int, whole: float) -> bool:
    return blocks <= max(SHORT_STRETCH * count, SHORTEST_BLOCKS) and blocks * abs(size) <= MIN_LOST * whole


def _as_shifts(fitted: LevelFit, values: Floats, limits: Limits, rows: Bools) -> Iterator[Shift]:
    count = len(values)
    edges = [0, *fitted.shifts, count]
    for number, place in enumerate(fitted.shifts):
        low, high = edges[number], edges[number + 2]
        error = limits.deviation * math.sqrt(1 / (place - low) + 1 / (high - place))
        before, after = fitted.levels[number : number + 2]
        yield Shift(low, place, high, rows, before, after, error, limits, fitted.score[number])
    if fitted.slope:
        # The level at both ends of a line through all, of which the shifts are no part.
        middle, reach = float(np.median(values)), fitted.slope * count / 2
        error = limits.deviation * math.sqrt(12 / count)
        yield Shift(0, 0, count, rows, middle - reach, middle + reach, error, limits, fitted.slope_score, True)


def _of_single_ranks(run: RunSeries) -> Iterator[Shift]:
    """Shifts of ranks against the others."""
    is_small = len(run.ranks) <= 2 * _SAME_PLACE
    apart = run.means - (median_of_others(run.means) if is_small else run.common)
    deviation = deviations(apart)
    # A rank that happens to look quiet is as noisy as the one in the middle.
    deviation = np.maximum(deviation, np.median(deviation))
    level = float(np.median(run.common))
    score = limits_of(level, 0.0, run.block, len(run.common), len(run.ranks), MIN_SHARE).score
    for row in np.flatnonzero(suspects(apart, deviation, min(score, MIN_SCORE))).tolist():
        limits = limits_of(level, float(deviation[row]), run.block, len(run.common), len(run.ranks), MIN_SHARE)
        rows = np.arange(len(run.ranks)) == row
        for shift in _lasting(run, _as_shifts(fit(apart[row], limits), apart[row], limits, rows)):
            own = _on(run, shift)
            # With two ranks, or half of them, the others differ from these as much.
            if own.rows.any() and (own.after - own.before) * (shift.after - shift.before) > 0:
                yield own


def _ends(run: RunSeries, shift: Shift) -> tuple[Floats, Floats]:
    """The level of each rank before and after: float64 [ranks] each."""
    before, after = around(shift)
    return np.median(run.means[:, before], axis=1), np.median(run.means[:, after], axis=1)


def around(shift: Shift) -> tuple[slice, slice]:
    """The blocks that are compared: near the change, of a drift its first and last fifth."""
    if shift.is_drift:
        fifth = max((shift.high - shift.low) // 5, 1)
        return slice(shift.low, shift.low + fifth), slice(shift.high - fifth, shift.high)
    # Its own block may be of both levels.
    after = min(shift.place + 1, shift.high - 1)
    return (
        slice(max(shift.low, shift.place - _COMPARED_BLOCKS), max(shift.place - 1, shift.low + 1)),
        slice(after, min(shift.high, shift.place + _COMPARED_BLOCKS)),
    )


def _on(run: RunSeries, shift: Shift) -> Shift:
    """The shift with the ranks whose own time changed, and with their levels."""
    before, after = _ends(run, shift)
    size = shift.after - shift.before
    rows = shift.rows & ((after - before) * np.sign(size) >= _RANKS_SHARE * abs(size) * (0.8 if shift.is_drift else 1))
    if not rows.any():
        return _replaced(shift, rows, 0.0, 0.0)
    # What all did at the same time is in the ranks' own levels, so the size is that of the shift.
    middle = float(np.median(before[rows]))
    if shift.is_drift:
        middle = float(np.median(run.means[rows])) - size / 2
    if min(middle, middle + size) <= 0:
        # A line through levels that are far apart is none.
        return _replaced(shift, rows & False, 0.0, 0.0)
    return _replaced(shift, rows, middle, middle + size)


def _replaced(shift: Shift, rows: Bools, before: float, after: float) -> Shift:
    return Shift(
        shift.low, shift.place, shift.high, rows, before, after, shift.error, shift.limits, shift.score, shift.is_drift
    )


def _together(shifts: list[Shift]) -> list[Shift]:
    """Shifts of several ranks at one place, in one direction, as one."""
    joined: list[Shift] = []
    for shift in sorted(shifts, key=lambda each: (-int(each.rows.sum()), -each.score)):
        for number, other in enumerate(joined):
            # Of ranks that are known to shift there, another one within the shortest level is the same.
            reach = _SAME_PLACE if (shift.rows & ~other.rows).any() else SHORTEST_BLOCKS
            near = abs(other.place - shift.place) <= reach and other.is_drift == shift.is_drift
            if near and (other.after - other.before) * (shift.after - shift.before) > 0:
                rows = other.rows | shift.rows
                better = other if other.score >= shift.score else shift
                joined[number] = _replaced(better, rows, other.before, other.after)
                break
        else:
            joined.append(shift)
    return joined


def step_interval(run: RunSeries, shift: Shift) -> tuple[int, int, int]:
    """The step at which a shift lies, and the earliest and latest one that the times allow with 95 % probability."""
    first = run.step_of(max(shift.low, shift.place - _SEARCHED))
    last = min(run.step_of(min(shift.high, shift.place + _SEARCHED)), run.last + 1)
    with np.errstate(all="ignore"):
        times = np.nanmedian(run.times(first, last)[shift.rows], axis=0)
    known = np.flatnonzero(~np.isnan(times))
    if len(known) < 2:
        return (run.step_of(shift.place),) * 3
    deviation = shift.limits.deviation * math.sqrt(run.block)
    middle, half = (shift.before + shift.after) / 2, (shift.after - shift.before) / 2
    off = np.clip(times[known] - middle, -3 * abs(half), 3 * abs(half)) * np.sign(half)
    # Twice the logarithm of the likelihood of each place, but for a constant: steps before it are below the middle.
    likely = np.concatenate([[0.0], np.cumsum(-off)]) * 4 * abs(half) / deviation**2
    # The block's place has all of the run's evidence: steps far from it count only as far as they speak against it.
    inside: Int64s = np.flatnonzero(likely >= likely.max() - _PLACE_LIMIT)
    place = int(likely.argmax())
    steps = [first + int(known[min(each, len(known) - 1)]) for each in (place, inside[0], inside[-1])]
    return steps[0], steps[1], steps[2]
