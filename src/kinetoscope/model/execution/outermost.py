"""Operators that stand in no other operator."""

from __future__ import annotations

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.execution.call_tree import STEP, call_tree
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace


@derived
def outermost_ops(trace: Trace) -> Bools:
    """Which calls are of operators and stand in no other operator: bool [events].

    Steps, which files of 2021 call operators, are none.
    """
    calls = call_tree(trace)
    steps = rows_named(trace, lambda name: name.startswith(STEP), EventKind.HOST_OP, holding=(STEP,))
    operators = calls.member & (trace.kind == EventKind.HOST_OP) & ~steps
    above = ancestor(calls.parent, operators)
    outermost: Bools = operators.copy()
    rows = np.flatnonzero(operators & (calls.parent >= 0))
    outermost[rows] = above[calls.parent[rows]] < 0
    return outermost


@derived
def outermost_op(trace: Trace) -> Int32s:
    """The outermost operator that each event is, or is called by: int32 [events], −1 for none."""
    return ancestor(call_tree(trace).parent, outermost_ops(trace))
