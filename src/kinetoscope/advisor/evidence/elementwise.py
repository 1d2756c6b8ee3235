"""Operators and kernels that compute each element by itself: what a compiler can put into one loop."""

from __future__ import annotations

import re
from typing import Final

from kinetoscope.algorithms.arrays import Bools
from kinetoscope.model.operators.categories import is_elementwise, is_view
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace

_CLONE: Final = re.compile(r"aten::clone|(?:autograd::engine::evaluate_function: )?CloneBackward\d*")
"""A copy, which a compiler does not make where it fuses what is around it."""


@derived
def elementwise_ops(trace: Trace) -> Bools:
    """Which operators compute each element by itself, or copy it: bool [events]."""
    return rows_named(trace, lambda name: is_elementwise(name) or bool(_CLONE.fullmatch(name)), EventKind.HOST_OP)


@derived
def changes_nothing(trace: Trace) -> Bools:
    """Which operators only look at the same elements in another way: bool [events]."""
    return rows_named(trace, is_view, EventKind.HOST_OP)
