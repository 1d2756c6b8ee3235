"""HOST012: a forward pass builds a graph for a backward pass that never comes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.autograd_graph import graph_nodes
from kinetoscope.advisor.evidence.source_location import in_source, user_source_of
from kinetoscope.advisor.evidence.stakes import is_worth_reporting, shows_computation, stake_by_time
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.arrays import Int32s
from kinetoscope.model.device.one_time import ONE_TIME_NS
from kinetoscope.model.execution.autograd import backward_links, in_backward
from kinetoscope.model.execution.call_tree import inside, outermost_op, self_times
from kinetoscope.model.steps.steps import step_of

_MIN_NODES: Final = 5
"""Nodes in a row that no backward pass runs, from which on they are a forward pass and not a metric."""

_NODE_NS: Final = 500
"""What a node costs the host at least."""

_TIME_LEFT_ON_HOST: Final = 0.4
_TIME_LEFT: Final = 0.7
"""Share of the operators' host time that is left at least, where the host computes and where a device does. Without
gradients nothing is kept for later, memory is used again at once, and torch takes shorter ways."""


def graph_without_backward(rank: RankView) -> Iterator[Finding]:
    """Does a forward pass build autograd's graph although no backward pass runs it?

    What it checks. Five or more nodes of the graph in a row, by the sequence numbers of operators, that no recorded
    backward pass runs; there are no gaps between their numbers. Operators under `torch.no_grad()` have no such numbers.
    What comes after the last backward pass of a training is left out.

    Why it matters. For each node the host creates objects, and the node keeps its operator's inputs in memory until the
    output is freed; layers such as `TransformerEncoder` have faster ways for inference only. At most, the steps gain
    what three tenths of the host's time in these operators cost (six tenths where the host itself computes), and the
    same of their share of the time between calls, where a graph is freed. Sure is half a microsecond a node, as far as
    no device hides it.

    What to do. Evaluate under `torch.inference_mode()`, or `torch.no_grad()`.
    """
    rows, nodes = _never_run(rank)
    if not nodes or not shows_computation(rank):
        return
    trace = rank.trace
    calls = np.zeros(len(trace), np.bool_)
    top = outermost_op(trace)[rows]
    calls[np.where(top >= 0, top, rows)] = True
    spans, within = rank.spans(calls), inside(trace, calls) & (self_times(trace) <= ONE_TIME_NS)
    low, high = rank.factors(), rank.factors()
    low.host[within] = max(1.0 - _NODE_NS * nodes / max(spans.length, 1), 0.0)
    left = _TIME_LEFT if rank.has_device else _TIME_LEFT_ON_HOST
    high.host[within] = left
    high.outside = 1.0 - (1.0 - left) * min(spans.length / max(rank.time.length, 1), 1.0)
    stake = stake_by_time(rank, rank.gains(low), rank.gains(high), spans)
    if not is_worth_reporting(rank, stake):
        return
    first = int(np.flatnonzero(calls)[0])
    where = user_source_of(trace, first)
    yield Finding(
        message=f"A forward pass{in_source(where)} builds a graph that no backward pass runs."
        f" {rank.each_step(nodes, 'node')} are made in {rank.time_per_step(spans.length)}"
        f" ({share(spans.length, rank.time.length)} of the step).",
        stake=stake,
        change="- output = model(batch)\n+ with torch.inference_mode():\n+     output = model(batch)",
        why="A node costs the host half a microsecond at least; the rest is the memory that it keeps, and layers that"
        " are faster without gradients.",
        confidence="medium",
        evidence=(rank.event(first, "the first operator of such a forward pass", "operators", where),),
        time=rank.exposed(spans),
    )


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


RULE = Rule("HOST012", "A graph is built that no backward pass runs", of_rank=graph_without_backward)
