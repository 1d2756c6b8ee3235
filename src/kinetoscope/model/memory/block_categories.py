"""Categories of blocks, as far as the pass that allocated them and the one that freed them tell.

torch's own memory timeline follows each tensor; a trace does not have them. Which memory holds the parameters it does
not tell: they were allocated before the recording.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int8s, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, union
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.execution.autograd import backward_links
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.optimizers import optimizer_steps, update_times
from kinetoscope.model.memory.allocator import gather_parent, innermost_calls, memory_instants
from kinetoscope.model.memory.blocks import memory_blocks
from kinetoscope.model.memory.categories import ACTIVATION, GRADIENT, STATE, TEMPORARY, UNKNOWN
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_beginning
from kinetoscope.model.trace.trace import Trace

_EVALUATE: Final = "autograd::engine::evaluate_function"


@derived
def block_categories(trace: Trace) -> Int8s:
    """The category of each block, a place in CATEGORIES: int8 [blocks].

    activation: allocated outside of the backward pass and the optimizer, freed during a backward pass. gradient:
    allocated in the backward pass, and not freed in one. optimizer state: allocated in `Optimizer.step`, and not freed
    in one. unknown: allocated before the recording; or elsewhere, and not freed. temporary: all others.
    """
    instants, blocks = memory_instants(trace), memory_blocks(trace)
    calls = innermost_calls(trace)
    backward, optimizer = _is_backward(trace), optimizer_steps(trace).rows
    call = np.where(blocks.allocated_at >= 0, calls[blocks.allocated_at], -1) if len(calls) else blocks.allocated_at
    in_backward, in_optimizer = (
        gather_parent(ancestor(call_tree(trace).parent, which), call) >= 0 for which in (backward, optimizer)
    )
    begun = blocks.allocated_at >= 0
    when = np.where(begun, instants.time[blocks.allocated_at], 0) if len(calls) else np.zeros(len(blocks), np.int64)
    in_optimizer &= is_in_spans(when, optimizer_spans(trace))  # not in the closure that it may have been given
    ended = blocks.freed_at >= 0
    end = np.where(ended, instants.time[blocks.freed_at], 0) if len(calls) else np.zeros(len(blocks), np.int64)
    over_in_backward, over_in_optimizer = (
        ended & is_in_spans(end, spans) for spans in (backward_spans(trace), optimizer_spans(trace))
    )
    category = np.full(len(blocks), TEMPORARY, np.int8)
    category[~ended] = UNKNOWN
    category[over_in_backward] = ACTIVATION
    category[in_optimizer] = np.where(over_in_optimizer[in_optimizer], TEMPORARY, STATE)
    category[in_backward] = np.where(over_in_backward[in_backward], TEMPORARY, GRADIENT)
    category[blocks.allocated_at < 0] = UNKNOWN
    return category


@derived
def _is_backward(trace: Trace) -> Bools:
    """Operators of the backward pass: bool [events]."""
    return rows_beginning(trace, (_EVALUATE,), EventKind.HOST_OP) | (backward_links(trace).forward >= 0)


@derived
def backward_spans(trace: Trace) -> Intervals:
    """Spans in which operators of the backward pass ran, on any thread."""
    which = _is_backward(trace)
    return union(trace.start[which], trace.end[which])


@derived
def optimizer_spans(trace: Trace) -> Intervals:
    """Spans in which optimizers updated something: without the closures that they were given."""
    updates = update_times(trace, np.flatnonzero(optimizer_steps(trace).rows))
    return union(updates.start, updates.end)


def is_in_spans(time: Int64s, spans: Intervals) -> Bools:
    """Times that lie in one of the spans, their ends included: bool [times]."""
    before = np.searchsorted(spans.start, time, side="right") - 1
    if not len(spans.start):
        return np.zeros(len(time), np.bool_)
    return (before >= 0) & (time <= spans.end[np.maximum(before, 0)])
