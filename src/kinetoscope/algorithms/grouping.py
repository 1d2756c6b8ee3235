"""Rows grouped by equal keys, and sums, minima and maxima of groups.

Groups are numbered 0, 1, … in the order in which they first occur. Only integer keys: names are codes before they get
here. For averages of floating-point values `numpy.bincount(codes, weights)` does.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Int32s, Int64s, require_rows
from kinetoscope.algorithms.compiled import compiled, frozen, inlined

NO_MATCH: Final = -1

_FIRST_SLOTS = 4096
_MIX_1, _MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


class Reduced(NamedTuple):
    """Of each group: int64 [groups] each; where `rows` is 0, `least` and `greatest` are the extremes of int64."""

    rows: Int64s
    total: Int64s
    least: Int64s
    greatest: Int64s


def group(*keys: NDArray[np.integer[Any]]) -> tuple[Int32s, Int32s]:
    """Number the distinct combinations of keys.

    Args:
        keys: one or more integer arrays of the same length [n].

    Returns:
        `codes`, int32 [n]: the group of each row, and `representatives`, int32 [groups]: the first row of each group.

    Raises:
        TypeError: a key is not of integers that fit into int64.
        ValueError: no keys, or keys that differ in length.
    """
    if not keys:
        raise ValueError("nothing to group by: give one key or more")
    codes = np.zeros(keys[0].size, np.int32)
    for key in keys:
        require_rows(codes.size, key=key)
        codes, representatives = _refine(codes, frozen(key, np.int64))
    return codes, representatives


def group_in_order(*keys: NDArray[np.integer[Any]]) -> tuple[Int32s, Int32s]:
    """The same as `group`, with the groups numbered in ascending order of the first key, then of the second, and so on.

    Raises:
        TypeError: a key is not of integers that fit into int64.
        ValueError: no keys, or keys that differ in length.
    """
    codes, representatives = group(*keys)
    order = np.lexsort([key[representatives] for key in reversed(keys)])
    place = np.empty(order.size, np.int32)
    place[order] = np.arange(order.size, dtype=np.int32)
    return place[codes], representatives[order]


def sum_by(codes: Int32s, groups: int, values: Int64s) -> Int64s:
    """Sum of `values` over the rows of each group: int64 [groups]; rows with a negative code count nowhere.

    Raises:
        ValueError: the arrays differ in length, or a code is not less than `groups`.
    """
    _require_groups(codes, groups, values)
    total = np.zeros(groups, np.int64)
    _add(frozen(codes, np.int32), frozen(values, np.int64), total)
    return total


def reduce_by(codes: Int32s, groups: int, values: Int64s) -> Reduced:
    """Count, sum, least and greatest of `values` in each group; rows with a negative code count nowhere.

    Raises:
        ValueError: the arrays differ in length, or a code is not less than `groups`.
    """
    _require_groups(codes, groups, values)
    extremes = np.iinfo(np.int64)
    reduced = Reduced(
        np.zeros(groups, np.int64),
        np.zeros(groups, np.int64),
        np.full(groups, extremes.max, np.int64),
        np.full(groups, extremes.min, np.int64),
    )
    _reduce(frozen(codes, np.int32), frozen(values, np.int64), *reduced)
    return reduced


def _require_groups(codes: Int32s, groups: int, values: Int64s) -> None:
    require_rows(codes.size, codes=codes, values=values)
    if codes.size and codes.max() >= groups:
        raise ValueError(f"a row is in group {codes.max()}, but there are {groups} groups")


def _refine(coarse: Int32s, key: Int64s) -> tuple[Int32s, Int32s]:
    """Groups of rows that agree in both; the table of them grows when it is half full."""
    codes = np.empty(key.size, np.int32)
    representatives = np.empty(_FIRST_SLOTS // 2, np.int32)
    row = groups = 0
    coarse = frozen(coarse, np.int32)
    while True:
        slots = np.full(representatives.size * 2, -1, np.int32)
        row, groups = _group_rows(coarse, key, row, groups, slots, codes, representatives)
        if row == key.size:
            return codes, representatives[:groups].copy()
        representatives = np.concatenate([representatives, np.empty(3 * representatives.size, np.int32)])


@inlined
def _slot(coarse: Int32s, key: Int64s, row: int, slots: Int32s, representatives: Int32s) -> int:
    """The slot of the group of `row`, or the free one where it belongs; `slots` holds a power of two."""
    mixed = np.uint64(key[row]) * _MIX_1 + np.uint64(coarse[row]) * _MIX_2
    mixed = (mixed ^ (mixed >> np.uint64(32))) * _MIX_1
    mask = slots.size - 1
    slot = int(mixed >> np.uint64(32)) & mask
    while slots[slot] >= 0:
        other = representatives[slots[slot]]
        if key[other] == key[row] and coarse[other] == coarse[row]:
            break
        slot = (slot + 1) & mask
    return slot


@compiled
def _group_rows(
    coarse: Int32s, key: Int64s, row: int, groups: int, slots: Int32s, codes: Int32s, representatives: Int32s
) -> tuple[int, int]:
    """Go on from `row` with an empty table; returns the row reached, which is not the last if there is no more room."""
    for code in range(groups):
        slots[_slot(coarse, key, representatives[code], slots, representatives)] = code
    while row < key.size:
        slot = _slot(coarse, key, row, slots, representatives)
        if slots[slot] < 0:
            if groups == representatives.size:
                break
            slots[slot] = groups
            representatives[groups] = row
            groups += 1
        codes[row] = slots[slot]
        row += 1
    return row, groups


@compiled
def _add(codes: Int32s, values: Int64s, total: Int64s) -> None:
    for row in range(codes.size):
        if codes[row] >= 0:
            total[codes[row]] += values[row]


@compiled
def _reduce(codes: Int32s, values: Int64s, count: Int64s, total: Int64s, least: Int64s, greatest: Int64s) -> None:
    for row in range(codes.size):
        code = codes[row]
        if code >= 0:
            count[code] += 1
            total[code] += values[row]
            least[code] = min(least[code], values[row])
            greatest[code] = max(greatest[code], values[row])


def match_first(needles: Int64s, haystack: Int64s) -> Int32s:
    """Where each needle first occurs in the haystack: int32 [needles], NO_MATCH if it does not.

    Neither needs to be sorted or distinct.
    """
    # A group is represented by its first row, which lies in the haystack if any row of it does.
    codes, first = group(np.concatenate([haystack, needles], dtype=np.int64))
    first[first >= haystack.size] = NO_MATCH
    return first[codes[haystack.size :]]
