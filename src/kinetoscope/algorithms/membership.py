"""Membership in a handful of values: `np.isin` has a fixed cost of some 30 µs a call, all of it under the GIL."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray


def any_of(values: NDArray[Any], few: Collection[int]) -> NDArray[np.bool_]:
    """Which of the values are among the few: bool [values]."""
    found = np.zeros(len(values), np.bool_)
    for one in few:
        found |= values == one
    return found
