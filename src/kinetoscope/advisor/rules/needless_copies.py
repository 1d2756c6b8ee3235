"""DEVICE007: `contiguous()` copies tensors for operators that read any layout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.source_location import in_source, user_evidence
from kinetoscope.advisor.evidence.stakes import without_calls
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.arrays import Bools, Int64s, marked
from kinetoscope.algorithms.intervals.intervals import intersection, merge
from kinetoscope.model.execution.autograd import backward_links
from kinetoscope.model.execution.call_tree import call_tree, inside, outermost_ops
from kinetoscope.model.operators.categories import elementwise_ops
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.sentences import say

_CONTIGUOUS: Final = "aten::contiguous"
_COPY: Final = "aten::clone"
_NAMES: Final = (
    "transpose permute t movedim swapaxes sum mean amax amin max min norm var std softmax log_softmax mm bmm relu gelu"
    " dropout silu scaled_dot_product_attention"
)
_TURNS: Final = frozenset({"aten::transpose", "aten::t", "aten::swapaxes"})
_READS_ANY: Final = frozenset(f"aten::{name}" for name in _NAMES.split())
"""Operators that read a transposed tensor as fast as another, beside element-wise ones."""

_MAX_WORK_AHEAD: Final = 24
"""Operators after a copy among which the one is looked for that reads it."""


def needless_copies(rank: RankView) -> Iterator[Finding]:
    """Does `contiguous()` copy tensors that the next operator could read as they are?

    What it checks. Calls of `contiguous()` outside other operators that copy, and whose result is read by an operator
    that takes any layout: a transposition, an element-wise operator, a reduction, a product of two matrices, attention.
    The reader is the first of the next 24 operators on the thread with an input of the copy's shape that is not copied
    itself; the next one where shapes were not recorded. Before a `view`, or an operator that asks for a layout, the
    copy is needed; but the copy after a second transposition that undoes the first is needed only because of the first
    copy.

    Why it matters. A copy reads and writes the whole tensor. At most, the steps gain what these copies and their nodes
    of the backward pass take. None of it is sure: an operator that comes later may need the layout, and then copies.

    What to do. Leave the call out, and see whether it becomes faster.
    """
    trace = rank.trace
    rows = _needless(rank)
    if not len(rows):
        return
    calls = marked(len(trace), rows)
    forward = backward_links(trace).forward
    calls |= (forward >= 0) & inside(trace, calls)[forward]  # their nodes of the backward pass, too
    gains, busy, time, _, factors = without_calls(rank, calls)
    took = intersection(merge(busy, time, rank.spans(calls)), rank.time).length
    saved = saving(rank, 0.0, gains, busy, took=took, goes=time, factors=factors)
    if saved is None:
        return
    shown = user_evidence(rank, rank.longest(rows), "the longest of these calls", "operators")
    yield saved.finding(
        message=say(
            "`contiguous()` copies tensors that could be read as they are{where}. It takes {takes} of each step"
            " ({part}; {copies}).{limit}",
            where=in_source(shown),
            takes=rank.time_per_step(busy.length),
            part=share(busy.length, rank.time.length),
            copies=rank.each_step(len(rows), "copy", "copies"),
            limit=saved.limit(busy.length) if rank.has_device else "",
        ),
        change="- x = x.transpose(1, 2).contiguous()\n+ x = x.transpose(1, 2)",
        why=say(
            "The copies go; an operator that comes later may need the layout after all, so none of the gain is sure."
        ),
        confidence="medium",
        evidence=shown,
    )


def _needless(rank: RankView) -> Int64s:
    trace = rank.trace
    parent = call_tree(trace).parent
    rows = np.flatnonzero(outermost_ops(trace) & rank.scope.host_mask)
    rows = rows[np.lexsort((trace.start[rows], trace.track[rows]))]
    copying = marked(len(trace) + 1, parent[rows_named(trace, _COPY.__eq__, EventKind.HOST_OP)])
    copying = copying[:-1] & rows_named(trace, _CONTIGUOUS.__eq__, EventKind.HOST_OP)
    takes_any = elementwise_ops(trace) | rows_named(trace, _READS_ANY.__contains__, EventKind.HOST_OP)
    reader = _readers(trace, rows, copying)
    follows = (reader >= 0) & takes_any[rows[reader]]
    is_turn = rows_named(trace, _TURNS.__contains__, EventKind.HOST_OP)[rows]
    axes = arguments.codes(trace, "concrete_inputs", rows.astype(np.int32))
    chosen = copying[rows] & follows
    undone = np.zeros(
        len(rows), np.bool_
    )  # transposed, copied, transposed back, copied: the first copy made the second
    undone[3:] = chosen[1:-2] & is_turn[:-3] & is_turn[2:-1] & (axes[:-3] == axes[2:-1])
    return rows[chosen | (undone & copying[rows])]


def _readers(trace: Trace, rows: Int64s, copying: Bools) -> Int64s:
    """The place of the operator that reads each copy's result, −1 for none: int64 [rows]."""
    codes = arguments.codes(trace, "input_dims", rows.astype(np.int32))
    track, reader = trace.track[rows], np.full(len(rows), -1, np.int64)
    left = np.flatnonzero(copying[rows])
    for ahead in range(1, _MAX_WORK_AHEAD + 1):
        left = left[left + ahead < len(rows)]
        other = left + ahead
        pairs, pair = np.unique(np.stack([codes[left], codes[other]]), axis=1, return_inverse=True)
        reads = np.array([_reads(trace, *each) for each in pairs.T.tolist()], np.bool_)[pair.reshape(-1)]
        reads &= ~copying[rows[other]] & (track[other] == track[left])
        unknown = (codes[left] < 0) & (track[other] == track[left])
        reader[left[reads | unknown]] = other[reads | unknown]
        left = left[~(reads | unknown)]
    return reader


def _reads(trace: Trace, copied: int, other: int) -> bool:
    """Has an operator an input of the shape of what was copied?"""
    if min(copied, other) < 0:
        return False
    tensors, inputs = trace.strings.nested(copied), trace.strings.nested(other)
    known = isinstance(tensors, list) and tensors and isinstance(tensors[0], list) and isinstance(inputs, list)
    return bool(known and tensors[0] in inputs)


RULE = Rule("DEVICE007", "Copies that only make a tensor contiguous", needless_copies, needs="computation")
