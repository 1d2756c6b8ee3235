"""HOST012: a forward pass builds a graph for a backward pass that never comes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.autograd_graph import graph_nodes
from kinetoscope.advisor.evidence.source_location import in_source, user_evidence
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.arrays import Bools, Int32s
from kinetoscope.model.device.one_time import ONE_TIME_NS
from kinetoscope.model.execution.autograd import backward_links, in_backward
from kinetoscope.model.execution.call_tree import inside, outermost_op, self_times
from kinetoscope.model.steps.steps import step_of
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.sentences import measured, say

_MIN_NODES: Final = 5
"""Nodes in a row that no backward pass runs, from which on they are a forward pass and not a metric."""

_NODE_NS: Final = (500, 5_000)
"""What a node costs the host, at least and at most."""

_MAX_NODE_SHARE: Final = 0.2
"""Share of the operators' time that nodes cost at most: recording makes all of an operator longer, not its node."""

_MEMORY_SHARE: Final = 0.15
"""The same of the memory that nodes keep, which the host must take anew: a ResNet-18 gained 8 to 12 % on a CPU."""


_FIRST_CALL_RATIO: Final = 5
"""Ratio of the first call's own time to that of the others of its name, from which on it does something once."""


def graph_without_backward(rank: RankView) -> Iterator[Finding]:
    """Does a forward pass build autograd's graph although no backward pass runs it?

    What it checks. Five or more nodes of the graph in a row, by the sequence numbers of operators, that no recorded
    backward pass runs; there are no gaps between their numbers. Operators under `torch.no_grad()` have no such numbers.
    What comes after the last backward pass of a training is left out.

    Why it matters. For each node the host creates objects, and the node keeps its operator's inputs in memory until the
    output is freed. At least, a node costs half a microsecond; at most 5 µs, and no more than a fifth of the time of
    these operators. Where the host itself computes, memory that is not kept is used again at once, which brings 15 % of
    their time at most. Operators that do something once do not count. Layers such as `TransformerEncoder` have faster
    ways for inference only, which may bring more.

    What to do. Evaluate under `torch.inference_mode()`, or `torch.no_grad()`.
    """
    rows, nodes = _never_run(rank)
    if not nodes:
        return
    trace = rank.trace
    calls = np.zeros(len(trace), np.bool_)
    top = outermost_op(trace)[rows]
    calls[np.where(top >= 0, top, rows)] = True
    spans, within = rank.spans(calls), inside(trace, calls) & ~_once(trace)
    low, high = rank.factors(), rank.factors()
    least, most = (each * nodes / max(spans.length, 1) for each in _NODE_NS)
    low.host[within] = 1.0 - min(least, _MAX_NODE_SHARE)
    high.host[within] = 1.0 - min(most, _MAX_NODE_SHARE) - (0.0 if rank.has_device else _MEMORY_SHARE)
    saved = saving(rank, low, high, spans, goes=rank.exposed(spans))
    if saved is None:
        return
    shown = user_evidence(rank, int(np.flatnonzero(calls)[0]), "the first operator of such a forward pass", "operators")
    yield saved.finding(
        message=say(
            "A forward pass{where} builds a graph that no backward pass runs. {nodes} are made in {took} ({part} of the"
            " step).",
            where=in_source(shown),
            nodes=rank.each_step(nodes, "node"),
            took=rank.time_per_step(spans.length),
            part=share(spans.length, rank.time.length),
        ),
        change="- output = model(batch)\n+ with torch.inference_mode():\n+     output = model(batch)",
        why=say(
            "A node is assumed to cost the host {least} to {most}{memory}.",
            least=measured(_NODE_NS[0], "ns"),
            most=measured(_NODE_NS[1], "ns"),
            memory=""
            if rank.has_device
            else say(", and the memory that is kept {part} of the time at most", part=share(_MEMORY_SHARE, 1.0)),
        ),
        confidence="medium",
        evidence=shown,
    )


def _once(trace: Trace) -> Bools:
    """Operators that load a library, choose an algorithm or the like: long, and the first of their name."""
    rows = np.flatnonzero((self_times(trace) > ONE_TIME_NS) & (trace.kind == EventKind.HOST_OP))
    every = trace.rows(EventKind.HOST_OP)
    every = every[np.argsort(trace.start[every], kind="stable")]
    _, first, counts = np.unique(trace.name[every], return_index=True, return_counts=True)
    result = np.zeros(len(trace), np.bool_)
    for row in rows[np.isin(rows, every[first[counts > 1]])].tolist():
        others = every[(trace.name[every] == trace.name[row]) & (every != row)]
        result[row] = self_times(trace)[row] > _FIRST_CALL_RATIO * np.median(self_times(trace)[others])
    return result


def _never_run(rank: RankView) -> tuple[Int32s, int]:
    """Operators of the selected steps whose nodes no backward pass runs, int32 [operators]; and how many nodes."""
    trace, graph = rank.trace, graph_nodes(rank.trace)
    rows, node = graph.rows, graph.node
    usable = rank.scope.host_mask[rows] & ~in_backward(trace)[rows]
    if rank.program == "training":
        backward = np.flatnonzero(backward_links(trace).forward >= 0)
        if not len(backward):
            return rows[:0], 0
        usable &= trace.start[rows] < trace.start[backward].max()
    rows, node, sequence = rows[usable], node[usable], graph.sequence[usable]
    if not len(rows):
        return rows, 0
    step = step_of(rank.scope.steps.host, trace.start[rows])
    kept = graph.is_run[node]
    new = (np.diff(kept, prepend=~kept[:1]) != 0) | (np.diff(trace.track[rows], prepend=-1) != 0)
    new |= np.diff(sequence, prepend=sequence[0]) > 1  # of a recording with gaps the backward pass may be missing
    stretch = np.cumsum(new | (np.diff(step, prepend=-2) != 0))
    made = np.diff(node, prepend=-1) != 0  # operators of one number follow one another
    counts = np.bincount(stretch, weights=made).astype(np.int64)
    chosen = ~kept & (counts[stretch] >= _MIN_NODES)
    return rows[chosen], int(made[chosen].sum())


RULE = Rule("HOST012", "A graph is built that no backward pass runs", graph_without_backward, needs="computation")
