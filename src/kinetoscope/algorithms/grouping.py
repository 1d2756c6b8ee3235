"""Rows grouped by equal keys, by equal paths of labels and by equal sequences; sums, minima and maxima of groups.

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
NO_NODE: Final = -1

_FIRST_SLOTS: Final = 4096
_MIX_1, _MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


IntegerArray = NDArray[np.integer[Any]]


class Reduced(NamedTuple):
    """Facts of each group: int64 [groups] each; where `rows` is 0, `least` and `greatest` are the extremes of int64."""

    rows: Int64s
    total: Int64s
    least: Int64s
    greatest: Int64s

    @property
    def common(self) -> Int64s:
        """The value of each group whose rows all have the same, else −1."""
        return np.where(self.least == self.greatest, self.least, -1)


def group(*keys: IntegerArray) -> tuple[Int32s, Int32s]:
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


def group_in_order(*keys: IntegerArray) -> tuple[Int32s, Int32s]:
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
    room = _FIRST_SLOTS // 2
    of_group: tuple[NDArray[Any], ...] = (np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int32))
    row = groups = 0
    coarse = frozen(coarse, np.int32)
    while True:
        slots = np.full(of_group[0].size * 2, NO_MATCH, np.int32)
        row, groups = _group_rows(coarse, key, row, groups, slots, codes, *of_group)
        if row == key.size:
            return codes, of_group[0][:groups].copy()
        of_group = _grown(*of_group)


def _grown(*arrays: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    return tuple(np.concatenate([each, np.empty(3 * each.size, each.dtype)]) for each in arrays)


@inlined
def _slot(first: int, second: int, slots: Int32s, firsts: IntegerArray, seconds: Int32s) -> int:
    """The slot of the pair of keys, or the free one where it belongs; `slots` holds a power of two."""
    mixed = np.uint64(first) * _MIX_1 + np.uint64(second) * _MIX_2
    mixed = (mixed ^ (mixed >> np.uint64(32))) * _MIX_1
    mask = slots.size - 1
    slot = int(mixed >> np.uint64(32)) & mask
    while slots[slot] >= 0:
        code = slots[slot]
        if firsts[code] == first and seconds[code] == second:
            break
        slot = (slot + 1) & mask
    return slot


@compiled
def _group_rows(
    coarse: Int32s,
    key: Int64s,
    row: int,
    groups: int,
    slots: Int32s,
    codes: Int32s,
    representatives: Int32s,
    keys: Int64s,
    coarses: Int32s,
) -> tuple[int, int]:
    """Go on from `row` with an empty table; returns the row reached, which is not the last if there is no more room."""
    for code in range(groups):
        slots[_slot(keys[code], coarses[code], slots, keys, coarses)] = code
    while row < key.size:
        slot = _slot(key[row], coarse[row], slots, keys, coarses)
        if slots[slot] < 0:
            if groups == representatives.size:
                break
            slots[slot] = groups
            representatives[groups], keys[groups], coarses[groups] = row, key[row], coarse[row]
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
    """The first place of each needle in the haystack: int32 [needles], NO_MATCH if it is not there.

    Neither needs to be sorted or distinct.
    """
    # A group is represented by its first row, which lies in the haystack if any row of it does.
    codes, first = group(np.concatenate([haystack, needles], dtype=np.int64))
    first[first >= haystack.size] = NO_MATCH
    return first[codes[haystack.size :]]


# --- prefix trees


class Prefixes(NamedTuple):
    """A prefix tree: calls that have the same labels from the outermost to the innermost are one node.

    Call stacks, module trees and flame graphs have it in common. Nodes are numbered in the order in which they first
    occur, so that a node comes after the one that it stands in.

    Attributes:
        node: int32 [rows], the innermost node that each row is or stands in, NO_NODE for none.
        parent: int32 [nodes], the node around each, NO_NODE for roots.
        label: int32 [nodes].
    """

    node: Int32s
    parent: Int32s
    label: Int32s


def prefix_tree(order: Int32s, parent: Int32s, label: Int32s) -> Prefixes:
    """Make one node of all rows that have the same label and whose parents are of one node.

    Args:
        order: int32 [members], rows, each after its parent; all others have no node.
        parent: int32 [rows], the row around each, negative for none.
        label: int32 [rows]; a row with a negative label makes no node, and stands in that of its parent.

    Raises:
        ValueError: the arrays differ in length, or a row or parent is out of range.
    """
    require_rows(parent.size, parent=parent, label=label)
    for what, rows in (("order", order), ("parent", parent)):
        if rows.size and rows.max() >= parent.size:
            raise ValueError(f"{what} has row {rows.max()}, but there are {parent.size}")
    order, parent, label = (frozen(each, np.int32) for each in (order, parent, label))
    node = np.full(parent.size, NO_NODE, np.int32)
    above, named = np.empty(_FIRST_SLOTS // 2, np.int32), np.empty(_FIRST_SLOTS // 2, np.int32)
    place = nodes = 0
    while True:
        slots = np.full(above.size * 2, NO_NODE, np.int32)
        place, nodes = _grow(order, parent, label, place, nodes, slots, node, above, named)
        if place == order.size:
            return Prefixes(node, above[:nodes].copy(), named[:nodes].copy())
        above, named = _grown(above, named)


def node_totals(values: Int64s, parent: Int32s) -> Int64s:
    """Sum of `values` over each node and all nodes in it: int64 [nodes]; nodes come after the one they stand in."""
    require_rows(parent.size, values=values)
    total = np.array(values, np.int64)
    _add_up(frozen(parent, np.int32), total)
    return total


def preorder(parent: Int32s, ranking: Int64s) -> Int64s:
    """The nodes so that each is followed by those in it, roots and those of one node in the order of `ranking`.

    Args:
        parent: int32 [nodes], NO_NODE for roots.
        ranking: int64 [nodes], all nodes once.
    """
    inside: dict[int, list[int]] = {}
    around = parent.tolist()
    for node in reversed(ranking.tolist()):
        inside.setdefault(around[node], []).append(node)
    open_nodes, order = inside.pop(NO_NODE, []), []
    while open_nodes:
        node = open_nodes.pop()
        order.append(node)
        open_nodes += inside.pop(node, [])
    return np.array(order, np.int64)


@compiled
def _grow(
    order: Int32s,
    parent: Int32s,
    label: Int32s,
    place: int,
    nodes: int,
    slots: Int32s,
    node: Int32s,
    parents: Int32s,
    labels: Int32s,
) -> tuple[int, int]:
    """Go on from `place` with an empty table; returns the next row to process, below all if the table is full."""
    for code in range(nodes):
        slots[_slot(labels[code], parents[code], slots, labels, parents)] = code
    while place < order.size:
        row = order[place]
        above = NO_NODE
        if parent[row] >= 0:
            above = node[parent[row]]
        if label[row] < 0:
            node[row] = above
            place += 1
            continue
        slot = _slot(label[row], above, slots, labels, parents)
        if slots[slot] < 0:
            if nodes == parents.size:
                break
            slots[slot] = nodes
            parents[nodes] = above
            labels[nodes] = label[row]
            nodes += 1
        node[row] = slots[slot]
        place += 1
    return place, nodes


@compiled
def _add_up(parent: Int32s, total: Int64s) -> None:
    for code in range(parent.size - 1, -1, -1):
        if parent[code] >= 0:
            total[parent[code]] += total[code]


# --- sequences


def distinct_sequences(offsets: Int64s, codes: Int32s) -> tuple[Int32s, Int32s]:
    """Number the distinct sequences of groups of rows, in the order in which they first occur.

    Args:
        offsets: int64 [groups + 1], ascending: the rows of group g are `offsets[g]:offsets[g + 1]`, maybe none.
        codes: int32 [rows], the numbers that make up the sequences.

    Returns:
        `sequence`, int32 [groups]: the number of each group's sequence, and `representatives`, int32 [sequences]: the
        first group that has it.

    Raises:
        ValueError: the offsets are none at all, do not ascend, or do not stay within the rows.
    """
    if not offsets.size or offsets[0] < 0 or offsets[-1] > codes.size or (np.diff(offsets) < 0).any():
        raise ValueError(f"offsets must ascend from 0 or more to {codes.size} or less; there are {offsets.size}")
    groups = offsets.size - 1
    sequence = np.empty(groups, np.int32)
    representatives = np.empty(groups, np.int32)
    slots = np.full(1 << max(2 * groups, 2).bit_length(), -1, np.int32)  # a power of two, less than half of it used
    hashes = np.empty(groups, np.uint64)
    count = _number(frozen(offsets, np.int64), frozen(codes, np.int32), slots, hashes, sequence, representatives)
    return sequence, representatives[:count].copy()


@inlined
def _same(offsets: Int64s, codes: Int32s, a: int, b: int) -> bool:
    """True if two groups have the same sequence."""
    rows = offsets[a + 1] - offsets[a]
    if offsets[b + 1] - offsets[b] != rows:
        return False
    for row in range(rows):
        if codes[offsets[a] + row] != codes[offsets[b] + row]:
            return False
    return True


@compiled
def _number(
    offsets: Int64s,
    codes: Int32s,
    slots: Int32s,
    hashes: np.ndarray[tuple[int], np.dtype[np.uint64]],
    sequence: Int32s,
    representatives: Int32s,
) -> int:
    """Fill `sequence` and `representatives`; returns how many sequences there are."""
    mask = slots.size - 1
    count = 0
    for group in range(sequence.size):
        mixed = _MIX_2
        for row in range(offsets[group], offsets[group + 1]):
            mixed = (mixed ^ np.uint64(codes[row])) * _MIX_1
            mixed ^= mixed >> np.uint64(32)
        slot = int((mixed * _MIX_2) >> np.uint64(32)) & mask
        while slots[slot] >= 0:
            number = slots[slot]
            if hashes[number] == mixed and _same(offsets, codes, representatives[number], group):
                break
            slot = (slot + 1) & mask
        if slots[slot] < 0:
            slots[slot] = count
            hashes[count] = mixed
            representatives[count] = group
            count += 1
        sequence[group] = slots[slot]
    return count
