"""The spans that torch records of its optimizers, and what of them is the update: without a closure that they call."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s, marked
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.execution.autograd import engine_spans
from kinetoscope.model.execution.call_tree import call_tree, inside
from kinetoscope.model.execution.marks import OPTIMIZER, RANGE_KINDS
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace

_STEP: Final = re.compile(r"Optimizer\.step#(\w+)\.step")
_ZERO: Final = re.compile(r"Optimizer\.zero_grad#(\w+)\.zero_grad")


@dataclass(frozen=True)
class OptimizerSpans:
    """Spans of one kind.

    Attributes:
        rows: bool [events], the spans.
        inside: bool [events], they and all that lies in them; of `Optimizer.step` only the update. A span that begins
            with a closure is not in it itself, as its own time is partly the closure's.
        name: class of the optimizer, of several the most frequent one.
    """

    rows: Bools
    inside: Bools
    name: str


@derived
def optimizer_steps(trace: Trace, name: str | None = None) -> OptimizerSpans:
    """The spans of `Optimizer.step`, of all classes or of one; of spans in one another the inner ones.

    A step may be given a closure that computes the loss and its gradients first (`step(closure)`, as Lightning calls
    it). So of a span in whose time autograd's engine runs, the update is what begins after the last node.
    """
    spans, parent = _spans(trace, _STEP), call_tree(trace).parent
    rows = np.flatnonzero(spans.rows & (parent >= 0))
    around = ancestor(parent, spans.rows)[parent[rows]]
    inner = spans.rows.copy()
    inner[around[around >= 0]] = False
    if name is not None:
        inner &= rows_named(trace, f"Optimizer.step#{name}.step".__eq__, *RANGE_KINDS, holding=(OPTIMIZER,))
    begins = np.append(_update_begins(trace, inner), np.iinfo(np.int64).max)  # the last: of what lies in no span
    return OptimizerSpans(inner, np.asarray(trace.start >= begins[ancestor(parent, inner)]), name or spans.name)


@derived
def optimizer_classes(trace: Trace) -> tuple[str, ...]:
    """Names of the classes of the optimizers that update something, in the order of their names."""
    rows = optimizer_steps(trace).rows
    labels = [trace.strings.label(code) for code in np.unique(trace.name[rows]).tolist()]
    return tuple(sorted({match[1] for label in labels if (match := _STEP.fullmatch(label))}))


def update_times(trace: Trace, rows: Int64s) -> Intervals:
    """When the spans of steps (rows) update, after their closures: int64 [rows] each."""
    is_span = marked(len(trace), rows)
    return Intervals(np.minimum(_update_begins(trace, is_span)[rows], trace.end[rows]), trace.end[rows])


def _update_begins(trace: Trace, spans: Bools) -> Int64s:
    """When the update of each span begins: int64 [events], ns; for what is no span of these, its start."""
    begins = trace.start.copy()
    ends = np.sort(trace.end[engine_spans(trace)])
    rows = np.flatnonzero(spans)
    place = np.searchsorted(ends, trace.end[rows], side="right") - 1
    if len(ends):
        last = ends[np.maximum(place, 0)]
        closed = (place >= 0) & (last > trace.start[rows])
        begins[rows[closed]] = last[closed]
    return begins


@derived
def zero_grads(trace: Trace) -> OptimizerSpans:
    """The spans of `Optimizer.zero_grad`."""
    return _spans(trace, _ZERO)


def _spans(trace: Trace, pattern: re.Pattern[str]) -> OptimizerSpans:
    rows = rows_named(trace, lambda name: pattern.fullmatch(name) is not None, *RANGE_KINDS, holding=(OPTIMIZER,))
    codes, counts = np.unique(trace.name[rows], return_counts=True)
    match = pattern.fullmatch(trace.strings.label(int(codes[counts.argmax()]))) if len(codes) else None
    return OptimizerSpans(rows, inside(trace, rows), match[1] if match else "")
