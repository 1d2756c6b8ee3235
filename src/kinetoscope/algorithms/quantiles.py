"""Quantiles of groups of rows, as values that did occur: by nearest rank, so that integers stay integers."""

from __future__ import annotations

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.compiled import require_rows

MEDIAN, P99 = (1, 2), (99, 100)


def nearest_rank(codes: Int32s, groups: int, values: Int64s, *shares: tuple[int, int]) -> list[Int64s]:
    """The least value of each group that a share of its rows does not exceed: int64 [groups] for each share.

    Args:
        codes: int32 [n], the group of each row; rows with a negative code count nowhere.
        groups: how many groups there are.
        values: int64 [n].
        shares: numerator and denominator of each share, more than 0 and at most 1.

    Returns:
        An array for each share; 0 where a group has no rows.

    Raises:
        ValueError: the arrays differ in length, or a code is not less than `groups`.
    """
    require_rows(codes.size, codes=codes, values=values)
    if codes.size and codes.max() >= groups:
        raise ValueError(f"a row is in group {codes.max()}, but there are {groups} groups")
    counted = codes >= 0
    codes, values = codes[counted], values[counted]
    ordered = values[np.lexsort((values, codes))]
    rows = np.bincount(codes, minlength=groups)
    first = np.cumsum(rows) - rows
    there = np.flatnonzero(rows)
    found = []
    for numerator, denominator in shares:
        result = np.zeros(groups, np.int64)
        result[there] = ordered[first[there] - (-rows[there] * numerator // denominator) - 1]
        found.append(result)
    return found
