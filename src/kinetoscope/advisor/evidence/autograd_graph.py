"""The nodes of autograd's graph that operators of the forward pass make, and what a backward pass does with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, scattered
from kinetoscope.algorithms.grouping import group, reduce_by
from kinetoscope.model.execution.autograd import ENGINE_SPAN, backward_links
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace

ACCUMULATE: Final = ENGINE_SPAN + "torch::autograd::AccumulateGrad"
"""Name of the engine's span around the addition to a parameter's gradient."""


@dataclass(frozen=True)
class GraphNodes:
    """Operators of the forward pass that were recorded while gradients were on.

    Torch gives each of them the number of the next node that is made: of several operators with one number the last
    makes the node. The last number of each thread is left out, as its node may not exist.

    Attributes:
        rows: int32 [operators], by thread and time.
        node: int32 [operators], which node each makes or precedes.
        sequence: int64 [operators], its number; those of a thread have no gaps in a whole recording.
        is_run: bool [nodes], a recorded backward pass runs it.
    """

    rows: Int32s
    node: Int32s
    sequence: Int64s
    is_run: Bools


@derived
def graph_nodes(trace: Trace) -> GraphNodes:
    """The nodes of a trace, by the sequence numbers of its operators."""
    rows = trace.rows(EventKind.HOST_OP)
    rows = rows[call_tree(trace).depth[rows] >= 0]
    sequence = arguments.integers(trace, "sequence", rows)
    thread = arguments.integers(trace, "forward_thread", rows)
    forward, backward = (sequence >= 0) & (thread == 0), sequence[thread > 0]
    rows, sequence = rows[forward], sequence[forward]
    order = np.lexsort((trace.start[rows], trace.track[rows]))
    rows, sequence, track = rows[order], sequence[order], trace.track[rows[order]]
    thread_of, threads = group(track)
    known = sequence < reduce_by(thread_of, len(threads), sequence).greatest[thread_of]
    rows = rows[known].astype(np.int32)
    node, first = group(track[known], sequence[known]) if len(rows) else (np.empty(0, np.int32), rows)
    place = scattered(len(trace), rows, node, np.int32)
    linked = backward_links(trace).forward
    run = place[linked[linked >= 0]]
    is_run = np.isin(sequence[known][first], backward)  # of another thread's node of that number, if in doubt
    is_run[run[run >= 0]] = True
    return GraphNodes(rows, node, sequence[known], is_run)
