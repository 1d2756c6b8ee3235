"""The spans that torch records of its optimizers, and which operators they call."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools
from kinetoscope.model.execution.call_tree import inside
from kinetoscope.model.execution.marks import OPTIMIZER, RANGE_KINDS
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_beginning, rows_named
from kinetoscope.model.trace.trace import Trace

_STEP: Final = re.compile(r"Optimizer\.step#(\w+)\.step")
_ZERO: Final = re.compile(r"Optimizer\.zero_grad#(\w+)\.zero_grad")

_MULTI_TENSOR_PREFIXES: Final = ("aten::_foreach_", "aten::_fused_", "aten::_amp_foreach")
"""Beginnings of the names of operators that work on all parameters at once."""

_ZEROS: Final = ("aten::zero_", "aten::_foreach_zero_")


@dataclass(frozen=True)
class OptimizerSpans:
    """Spans of one kind.

    Attributes:
        rows: bool [events], the spans.
        inside: bool [events], they and all that lies in them.
        name: class of the optimizer, of several the most frequent one.
    """

    rows: Bools
    inside: Bools
    name: str


@derived
def optimizer_steps(trace: Trace) -> OptimizerSpans:
    """Those of `Optimizer.step`."""
    return _spans(trace, _STEP)


@derived
def zero_grads(trace: Trace) -> OptimizerSpans:
    """Those of `Optimizer.zero_grad`."""
    return _spans(trace, _ZERO)


@derived
def works_on_all(trace: Trace) -> Bools:
    """Which operators work on many parameters at once: bool [events]."""
    return rows_beginning(trace, _MULTI_TENSOR_PREFIXES, EventKind.HOST_OP)


@derived
def zeroes(trace: Trace) -> Bools:
    """Which operators set a tensor to zero: bool [events]."""
    return rows_named(trace, _ZEROS.__contains__, EventKind.HOST_OP, holding=("zero_",))


def _spans(trace: Trace, pattern: re.Pattern[str]) -> OptimizerSpans:
    rows = rows_named(trace, lambda name: pattern.fullmatch(name) is not None, *RANGE_KINDS, holding=(OPTIMIZER,))
    codes, counts = np.unique(trace.name[rows], return_counts=True)
    match = pattern.fullmatch(trace.strings.label(int(codes[counts.argmax()]))) if len(codes) else None
    return OptimizerSpans(rows, inside(trace, rows), match[1] if match else "")
