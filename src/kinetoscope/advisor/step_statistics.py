"""Statistics of values by step: how far their mean may be off, and whether what happens in some steps is periodic."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.algorithms.statistics import margin_of_error

_MIN_STEPS_FOR_SPREAD: Final = 3
"""Steps from which on their spread is used; the spread of two says next to nothing."""


def mean_of(values: pl.Series) -> float:
    """The mean of those that are known; 0 where there is none."""
    mean = values.mean()
    return float(mean) if isinstance(mean, (int, float)) else 0.0


def margin(values: Floats) -> float:
    """The margin of error of the mean; 0 for fewer than 3 values."""
    return margin_of_error(values) if len(values) >= _MIN_STEPS_FOR_SPREAD else 0.0


def range_of_mean(values: Floats) -> tuple[float, float]:
    """The lowest and highest mean of the values' beginnings and ends that hold at least half of them.

    For values that come in bursts, as batches do (as many at a time as there are workers): the spread of single steps
    says little about their mean.
    """
    count = len(values)
    if not count:
        return 0.0, 0.0
    sizes = np.arange(1, count + 1)
    means = np.concatenate([np.cumsum(values) / sizes, np.cumsum(values[::-1]) / sizes])
    means = means[np.concatenate([sizes, sizes]) * 2 >= count]
    return float(means.min()), float(means.max())


def is_periodic(steps: Int64s, count: int) -> bool:
    """Does an event come in every n-th step, from the first recorded one to the last, three times or more?

    Three random pauses are often evenly apart. That they also begin early enough and end late enough is a loop's doing.

    Args:
        steps: places of the steps in which it comes, 0 to `count` - 1, in any order.
        count: how many steps were recorded.
    """
    places = np.unique(steps)
    apart = np.diff(places)
    if len(apart) < 2 or apart.min() != apart.max():
        return False
    return bool(places[0] < apart[0] and places[-1] + apart[0] >= count)
