"""HOST014: several backward passes run the same part of the graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.autograd_graph import graph_nodes
from kinetoscope.advisor.evidence.source_location import in_source, user_evidence
from kinetoscope.advisor.evidence.stakes import without_calls
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.algorithms.arrays import Int32s, marked
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.execution.autograd import engine_spans, in_backward
from kinetoscope.model.trace import arguments
from kinetoscope.views.sentences import say

_MIN_NODES: Final = 5
"""Nodes a step that are run again, from which on it is reported."""

_CERTAIN_SHARE: Final = 0.85
"""Certain share of the gain: gradients of several losses are added before they go on together."""


def backward_twice(rank: RankView) -> Iterator[Finding]:
    """Does a step run the same nodes of autograd's graph more than once, as `retain_graph=True` allows?

    What it checks. Nodes that the engine runs again, by forward thread and sequence number, with the additions to
    parameters' gradients among them. Nothing is reported where backward passes make nodes themselves
    (`create_graph=True`), as a gradient penalty needs both passes.

    Why it matters. The backward pass of the part that several losses have in common is computed once for each of them.
    For the sum of the losses it is computed once. At stake is the time that the steps gain without the repeated nodes;
    85 % of it are the lower end. If the gradient of each loss is needed by itself, nothing can be saved.

    What to do. Add the losses up, and call `backward` once.
    """
    trace = rank.trace
    rows = _repeated(rank)
    calls = marked(len(trace), rows)
    nodes = int((arguments.integers(trace, "sequence", rows) >= 0).sum())
    if nodes < _MIN_NODES * max(rank.step_count, 1) or in_backward(trace)[graph_nodes(trace).rows].any():
        return
    gains, busy, time, took, factors = without_calls(rank, calls)
    saved = saving(rank, _CERTAIN_SHARE, gains, busy, took=took, goes=time, factors=factors)
    if saved is None:
        return
    shown = user_evidence(rank, rank.longest(rows), "the longest node that runs again", "operators")
    yield saved.finding(
        message=say(
            "Backward passes run the same nodes of the graph again{where}. {nodes} run a second time, which takes"
            " {took} ({part} of the step).",
            where=in_source(shown),
            nodes=rank.each_step(nodes, "node"),
            took=saved.per_step,
            part=saved.part,
        ),
        change="- first.backward(retain_graph=True); second.backward()\n+ (first + second).backward()",
        why=say(
            "What the losses have in common is run once; where each loss needs its own gradient, nothing is gained."
        ),
        confidence="medium",
        evidence=shown,
    )


def _repeated(rank: RankView) -> Int32s:
    """The engine's spans in which nodes run that ran before, with those of parameters between them."""
    trace = rank.trace
    rows = np.flatnonzero(engine_spans(trace)).astype(np.int32)
    rows = rows[np.lexsort((trace.start[rows], trace.track[rows]))]
    if not len(rows):
        return rows
    sequence = arguments.integers(trace, "sequence", rows)
    numbered = np.flatnonzero(sequence >= 0)
    again = np.zeros(len(rows), np.bool_)
    if len(numbered):
        _, first = group(arguments.integers(trace, "forward_thread", rows[numbered]), sequence[numbered])
        again[numbered] = True
        again[numbered[first]] = False
    before = np.maximum.accumulate(np.where(sequence >= 0, np.arange(len(rows)), 0))
    return rows[again[before] & rank.scope.host_mask[rows]]


RULE = Rule("HOST014", "Nodes of the graph run more than once", backward_twice, needs="computation")
