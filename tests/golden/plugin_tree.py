"""The plugin's tree of a host thread, for the two rules of it that we do not share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from kinetoscope import Trace
from kinetoscope.algorithms.tree import ancestor
from kinetoscope.model import arguments
from kinetoscope.model.calltree import OWN_MARKS, STEP, call_tree
from kinetoscope.model.kinds import EventKind
from kinetoscope.model.naming import rows_named


@dataclass(eq=False)
class Node:
    """A call: its row, its name, and the calls directly inside it."""

    row: int
    name: str
    operator: bool
    children: list[Node] = field(default_factory=list)


def operators(trace: Trace, name_of: Callable[[str], str], *, drop_crossing: bool) -> Iterator[Node]:
    """All operators of the tree, after merging.

    The tree has operators, modules and steps. `name_of`: under which name an operator is known. `drop_crossing`: a call
    that ends after the one around it is left out, as the plugin does; else such a call is not inside it.
    """
    operator = (trace.kind == EventKind.HOST_OP) & ~np.isin(trace.name, trace.strings.codes(OWN_MARKS))
    others = trace.kind == EventKind.PYTHON
    others |= rows_named(trace, lambda name: name.startswith(STEP), EventKind.ANNOTATION)
    taking_part = (operator | others) & (trace.ph == ord("X"))
    roots = _by_stack(trace, taking_part) if drop_crossing else _by_call_tree(trace, taking_part)
    nodes: dict[int, Node] = {}
    for row, parent in roots:
        label = trace.strings.label(int(trace.name[row]))
        nodes[row] = Node(row, name_of(label) if operator[row] else label, bool(operator[row]))
        if parent >= 0:
            nodes[parent].children.append(nodes[row])
    merged: set[int] = set()
    for node in nodes.values():
        while len(node.children) == 1 and node.operator and _repeats(node, node.children[0]):
            merged.add(node.children[0].row)
            node.children = node.children[0].children
    yield from (node for row, node in nodes.items() if node.operator and row not in merged)


def _repeats(node: Node, child: Node) -> bool:
    return child.operator and child.name == node.name


def _by_call_tree(trace: Trace, taking_part: np.ndarray) -> Iterator[tuple[int, int]]:
    tree = trace.of(call_tree)
    around = ancestor(tree.parent, taking_part)
    for row in tree.order[taking_part[tree.order]].tolist():
        yield row, int(around[tree.parent[row]]) if tree.parent[row] >= 0 else -1


def _by_stack(trace: Trace, taking_part: np.ndarray) -> Iterator[tuple[int, int]]:
    rows = np.flatnonzero(taking_part)
    rows = rows[np.lexsort((rows, -trace.end[rows], trace.start[rows], trace.track[rows]))]
    stack: list[int] = []
    for row in rows.tolist():
        while stack and (trace.track[stack[-1]] != trace.track[row] or trace.start[row] >= trace.end[stack[-1]]):
            stack.pop()
        if stack and trace.end[row] > trace.end[stack[-1]]:
            continue  # "ranges on the same thread should not intersect"
        yield row, stack[-1] if stack else -1
        stack.append(row)
