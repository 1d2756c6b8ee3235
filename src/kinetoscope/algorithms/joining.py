"""Rows joined by equal numbers: the launch of a kernel, the other half of a pair."""

from __future__ import annotations

import numpy as np

from kinetoscope.algorithms.compiled import Int32s, Int64s
from kinetoscope.algorithms.grouping import group

NO_MATCH = -1


def match_first(needles: Int64s, haystack: Int64s) -> Int32s:
    """Where each needle first occurs in the haystack: int32 [needles], NO_MATCH if it does not.

    Neither needs to be sorted or distinct.
    """
    # A group is represented by its first row, which lies in the haystack if any row of it does.
    codes, first = group(np.concatenate([haystack, needles], dtype=np.int64))
    first[first >= haystack.size] = NO_MATCH
    return first[codes[haystack.size :]]
