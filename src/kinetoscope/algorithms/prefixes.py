"""Prefix trees: calls that have the same labels from the outermost to the innermost are one node.

What call stacks, module trees and flame graphs have in common. Nodes are numbered in the order in which they first
occur, so that a node comes after the one that it stands in.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s, require_rows
from kinetoscope.algorithms.compiled import compiled, frozen, inlined

NO_NODE = -1
_FIRST_NODES = 2048
_MIX_1, _MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


class Prefixes(NamedTuple):
    """A prefix tree.

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
    above, named = np.empty(_FIRST_NODES, np.int32), np.empty(_FIRST_NODES, np.int32)
    place = nodes = 0
    while True:
        slots = np.full(above.size * 2, NO_NODE, np.int32)
        place, nodes = _grow(order, parent, label, place, nodes, slots, node, above, named)
        if place == order.size:
            return Prefixes(node, above[:nodes].copy(), named[:nodes].copy())
        above, named = (np.concatenate([each, np.empty(3 * each.size, np.int32)]) for each in (above, named))


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


@inlined
def _slot(above: int, label: int, slots: Int32s, parents: Int32s, labels: Int32s) -> int:
    """The slot of a node, or the free one where it belongs; `slots` holds a power of two."""
    mixed = np.uint64(label) * _MIX_1 + np.uint64(above + 1) * _MIX_2
    mixed = (mixed ^ (mixed >> np.uint64(32))) * _MIX_1
    mask = slots.size - 1
    slot = int(mixed >> np.uint64(32)) & mask
    while slots[slot] >= 0:
        if parents[slots[slot]] == above and labels[slots[slot]] == label:
            break
        slot = (slot + 1) & mask
    return slot


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
    """Go on from `place` with an empty table; returns the place reached, not the last if there is no more room."""
    for code in range(nodes):
        slots[_slot(parents[code], labels[code], slots, parents, labels)] = code
    while place < order.size:
        row = order[place]
        above = NO_NODE
        if parent[row] >= 0:
            above = node[parent[row]]
        if label[row] < 0:
            node[row] = above
            place += 1
            continue
        slot = _slot(above, label[row], slots, parents, labels)
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
