"""The noise of a series of steps: which ones are not like the others, and how far a mean may be off by chance.

Steps of a run are no independent numbers: a machine that is slow now is slow in the next step, too. So the deviation of
a mean is taken from means of batches, of the size from which on larger ones say the same.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats
from kinetoscope.algorithms.statistics import SIGMA_PER_MAD

NEIGHBOURS: Final = 50
"""Steps whose median is the level around them."""

CLIP: Final = 4.0
"""Deviations from the level around a step up to which its time counts for changes."""

SPIKE: Final = 6.0
"""Deviations above the level around it from which on a step is a spike."""

SPIKE_SHARE: Final = 0.05
"""Share of the level by which a spike is above it at least."""

SHORTEST_BLOCK: Final = 10
"""Steps of a block at least."""

MAX_BLOCKS: Final = 2000
"""Blocks of a run, about; a longer one has longer blocks."""

USUAL_STEPS: Final = 0.95
"""Share of steps that are as usual: what more than the others do is how steps are, and neither outlier nor spike."""

SPIKE_TIMES: Final = 1.5
"""Times what the usual ones are above the level that a spike is above it at least."""

_SAMPLED: Final = 7
_MANY_STEPS: Final = 50_000
"""A run of so many steps: each seventh says as well how far they are off, and loops do nothing each seventh time."""

_MIN_BATCHES: Final = 12
"""Batches of which a deviation is taken at least."""

_MANY_BATCHES: Final = 60
"""Batches from which on more than the middle of their differences counts."""


class Cleaned(NamedTuple):
    """A series, float64 [steps] each, in which single steps do not count.

    Attributes:
        level: the median of the steps around each one; where it changes, the higher one.
        clipped: the times, no further from the level than noise reaches.
        high: bool [steps], the step is far above the level.
        spike: bool [steps], and far above what a twentieth of the steps are, too.
    """

    level: Floats
    clipped: Floats
    high: Bools
    spike: Bools


def block_length(steps: int) -> int:
    """The steps of a block in a run of so many steps."""
    return max(SHORTEST_BLOCK, -(-steps // MAX_BLOCKS))


def cleaned(times: Floats) -> Cleaned:
    """The level around each step, what noise leaves of its time, and which ones are spikes; NaN stays."""
    count = len(times)
    width = min(NEIGHBOURS, max(count, 1))
    whole = count // width * width
    rows = times[:whole].reshape(-1, width)
    middle = _medians(rows)
    # Where a level changes in a row, its steps are of either one; the last steps, too few for a row, are of the last.
    around = np.concatenate([middle[:1], middle, middle[-1:]])
    with np.errstate(invalid="ignore"):
        low = np.fmin(np.fmin(around[:-2], middle), around[2:])
        high = np.fmax(np.fmax(around[:-2], middle), around[2:])
    own, low, high = (_by_step(each, width, count) for each in (middle, low, high))
    some = slice(None, None, _SAMPLED if count > _MANY_STEPS else 1)
    deviation = SIGMA_PER_MAD * float(_medians(np.abs(times[some] - own[some])[None, :])[0]) if count else 0.0
    reach = CLIP * deviation
    with np.errstate(invalid="ignore"):
        usual = _quantile(times[some] - high[some], USUAL_STEPS)
        is_high = times - high > np.maximum(SPIKE * deviation, SPIKE_SHARE * high)
        is_spike = is_high & (times - high > SPIKE_TIMES * usual)
        return Cleaned(high, np.clip(times, low - reach, high + max(reach, usual)), is_high, is_spike)


def _quantile(values: Floats, share: float) -> float:
    known = values[~np.isnan(values)]
    return (
        float(np.partition(known, int(share * (len(known) - 1)))[int(share * (len(known) - 1))]) if len(known) else 0.0
    )


def _by_step(rows: Floats, width: int, count: int) -> Floats:
    steps = np.repeat(rows, width)
    return np.concatenate([steps, np.full(count - len(steps), steps[-1] if len(steps) else np.nan)])


def _medians(rows: Floats) -> Floats:
    """The median of each row; NaN are no values."""
    if not np.isnan(rows.sum()):
        # Twice as quick as `np.median`, which looks for NaN again.
        middle = (rows.shape[1] - 1) // 2, rows.shape[1] // 2
        ordered = np.partition(rows, middle, axis=1)
        return np.asarray((ordered[:, middle[0]] + ordered[:, middle[1]]) / 2)
    known = ~np.isnan(rows).all(axis=1)
    medians = np.full(len(rows), np.nan)
    medians[known] = np.nanmedian(rows[known], axis=1)
    return medians


def filled(blocks: Floats) -> Floats:
    """Series by blocks, float64 [series, blocks], in which a block without steps has the value of the one before it."""
    known = ~np.isnan(blocks)
    if known.all():
        return blocks
    place = np.where(known, np.arange(blocks.shape[1]), -1)
    place = np.maximum.accumulate(place, axis=1)
    first = np.where(known.any(axis=1), known.argmax(axis=1), 0)
    place = np.where(place < 0, first[:, None], place)
    return np.nan_to_num(np.take_along_axis(blocks, place, axis=1))


def deviations(blocks: Floats) -> Floats:
    """How far the means of blocks are off by chance, as if blocks were independent: float64 [series].

    Means of 1, 2, 4, … blocks are compared with the mean that follows; a few changes of the level do not matter to the
    median of these differences. Were blocks independent, all sizes would tell the same; the greatest answer counts. If
    it still grows with the size, the correlation reaches further than the batches, and it is drawn out as that of a
    first-order autoregression grows.

    Args:
        blocks: float64 [series, blocks], without NaN.
    """
    count = blocks.shape[1]
    variances, size = [], 1
    while size == 1 or count // size >= _MIN_BATCHES:
        whole = count // size * size
        means = blocks[:, :whole].reshape(len(blocks), -1, size).mean(axis=2)
        change = np.diff(means, axis=1)
        if not change.size:
            return np.zeros(len(blocks))
        off = np.abs(change - np.median(change, axis=1, keepdims=True))
        spread = SIGMA_PER_MAD * np.median(off, axis=1, keepdims=True)
        square = spread[:, 0] ** 2
        if change.shape[1] >= _MANY_BATCHES:
            # Of so many differences the tails count, too, and a change of the level is one of them.
            square = np.maximum(square, (np.minimum(off, CLIP * spread) ** 2).mean(axis=1))
        variances.append(square / 2 * size)
        size *= 2
    each = np.stack(variances)
    greatest = each.max(axis=0)
    if len(each) > 3:
        with np.errstate(invalid="ignore", divide="ignore"):
            growth = np.nan_to_num(np.sqrt(each[-2:] / each[-4:-2]), nan=1.0, posinf=1.0).min(axis=0)
        more = np.clip(growth - 1, 0, 2)
        greatest = np.maximum(greatest, each[-1] * (1 + 0.8 * more + 0.5 * more**3))
    return np.asarray(np.sqrt(greatest))
