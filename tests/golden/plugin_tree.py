"""The plugin's tree of host calls, for those of its rules that we do not share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kinetoscope import Trace
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.execution.autograd import backward_links
from kinetoscope.model.execution.call_tree import PROFILER_OPERATORS, call_tree, enclosing_module
from kinetoscope.model.execution.marks import STEP
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named

ENGINE = "autograd::engine::evaluate_function: "
OPTIMIZER = "Optimizer.step"


@dataclass(eq=False)
class Node:
    """A call: its row, its name, the call around it, and those directly inside it."""

    row: int
    name: str
    operator: bool
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    repeats: Node | None = None
    """The call that it is merged with."""


def nodes(
    trace: Trace, name_of: Callable[[str], str], *, annotations: bool, backward_outside_modules: bool
) -> dict[int, Node]:
    """The tree by row, in order of threads and time. A call that is the only one in one of its name is that one.

    `name_of`: under which name an operator is known. `annotations`: are they part of the tree? Steps always are.
    `backward_outside_modules`: are operators of the backward pass there whose forward pass was in no module?
    """
    operator = (trace.kind == EventKind.HOST_OP) & ~np.isin(trace.name, trace.strings.codes(PROFILER_OPERATORS))
    operator &= trace.ph == ord("X")
    if not backward_outside_modules:
        operator &= ~_backward_outside_modules(trace)
    others = (trace.kind == EventKind.PYTHON) & (arguments.integers(trace, "python_module") >= 0)
    marks = rows_named(trace, lambda name: name.startswith((STEP, OPTIMIZER)), EventKind.ANNOTATION)
    others |= (trace.kind == EventKind.ANNOTATION) if annotations else marks
    tree = call_tree(trace)
    around = ancestor(tree.parent, operator | others)
    found: dict[int, Node] = {}
    for row in tree.order[(operator | others)[tree.order]].tolist():
        label = trace.strings.label(int(trace.name[row]))
        parent = int(around[tree.parent[row]]) if tree.parent[row] >= 0 else -1
        found[row] = Node(row, name_of(label) if operator[row] else label, bool(operator[row]), found.get(parent))
        if parent >= 0:
            found[parent].children.append(found[row])
    for node in found.values():
        while len(node.children) == 1 and _repeats(node, node.children[0]):
            repeat = node.children[0]
            repeat.repeats, node.children = node, repeat.children
            for child in node.children:
                child.parent = node
    return found


def _repeats(node: Node, child: Node) -> bool:
    return node.operator and child.operator and child.name == node.name


def _backward_outside_modules(trace: Trace) -> NDArray[np.bool_]:
    """Calls of the engine, with all that is inside them, whose operator of the forward pass is in no module."""
    engine = rows_named(trace, lambda name: name.startswith(ENGINE), EventKind.HOST_OP, holding=(ENGINE,))
    forward = backward_links(trace).forward
    module = enclosing_module(trace)
    lost = engine & (forward >= 0) & (module[forward] < 0) & (module >= 0).any()
    return np.asarray(ancestor(call_tree(trace).parent, lost) >= 0)
