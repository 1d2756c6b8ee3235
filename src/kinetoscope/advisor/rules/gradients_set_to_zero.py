"""HOST005: gradients are written over with zeros instead of being dropped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.optimizers import works_on_all, zeroes
from kinetoscope.advisor.evidence.source_location import host_and_device_time
from kinetoscope.advisor.evidence.stakes import leave_only, unblocked_launches
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.algorithms.intervals.intervals import merge
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.execution.autograd import in_backward
from kinetoscope.model.execution.call_tree import call_tree, inside, main_thread, outermost_ops
from kinetoscope.model.execution.device_work import launched_by
from kinetoscope.model.execution.optimizers import optimizer_steps, zero_grads
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_containing, rows_named
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.sentences import say

_ACCUMULATE: Final = "AccumulateGrad"
_ADDS: Final = ("aten::add_", "aten::_foreach_add_")
_MAX_ADDITIONS: Final = 1.2
"""Additions for each gradient that is set to zero, up to which each is added to once: then the additions go, too."""

_CERTAIN_SHARE: Final = 0.85
"""Certain share of the zeros' time: something has still to go through the parameters and drop the gradients."""


_CALL_NS: Final = 5_000
"""What a zero or an addition takes on the host whose elements take next to no time."""

_MIN_OWN: Final = 3
"""Operators a step from which on zeros outside of `zero_grad` are looked at."""

_CHANGE: Final = "- optimizer.zero_grad(set_to_none=False)\n+ optimizer.zero_grad(set_to_none=True)"
_OWN_CHANGE: Final = "- parameter.grad.zero_()\n+ parameter.grad = None  # or optimizer.zero_grad() for all of them"


def gradients_set_to_zero(rank: RankView) -> Iterator[Finding]:
    """Does `zero_grad` fill the gradients with zeros?

    What it checks. Operators `zero_` inside torch's spans `Optimizer.zero_grad#…`; without any there, those of the main
    thread outside of the backward pass, if about as many gradients are added to: a loop over the parameters, or the
    module's `zero_grad(set_to_none=False)`.

    Why it matters. All gradients are overwritten with zeros, and the backward pass then adds to them instead of just
    storing its result. At stake is the time that the steps gain without the zeros and the additions in
    `AccumulateGrad`. 85 % of it are the lower end; of the zeros alone where gradients of several batches are
    accumulated. On the host alone none of it is sure, and only calls count: memory for new gradients costs as much as
    writing zeros to small ones, and more than that from some 256 KiB on, as the C library gives so large pieces back to
    the system, which has to map them anew. Where calls of more than 5 µs take most of the time nothing is said.

    What to do. Let `zero_grad` drop the gradients, which is the default from torch 2.0 on.
    """
    trace = rank.trace
    spans, additions = zero_grads(trace), _additions(rank) & rank.scope.host_mask
    chosen, calls, who, change = spans.inside & zeroes(trace) & rank.scope.host_mask, spans.rows, "optimizer", _CHANGE
    if not chosen.any():
        chosen = calls = _of_the_program(rank, int((additions & _named_add(trace)).sum()))
        who, change = "program", _OWN_CHANGE
    if not chosen.any():
        return
    if not rank.has_device and _are_large(trace, np.flatnonzero(chosen)):
        return
    zeros = inside(trace, calls) & rank.scope.host_mask
    without = _factors(rank, zeros | additions)
    most = rank.gains(without)
    once = int((additions & _named_add(trace)).sum()) <= _MAX_ADDITIONS * int((chosen & ~works_on_all(trace)).sum())
    sure = most if once else rank.gains(_factors(rank, zeros))
    if not rank.has_device:
        sure = np.zeros_like(most)
    rows = np.flatnonzero(calls & rank.scope.host_mask)
    launched = launched_by(trace, zeros | additions)
    spent = merge(rank.spans(rows), rank.spans(additions), rank.work_spans(launched))
    goes = host_and_device_time(rank, rows, zeros | additions)
    saved = saving(rank, _CERTAIN_SHARE * sure, most, rank.spans(rows), took=spent.length, goes=goes, factors=without)
    if saved is None:
        return
    longest = rank.longest(rows)
    yield saved.finding(
        message=say(
            "The {who} fills gradients with zeros instead of dropping them. {operators} take {took} on the host;"
            " with their kernels and the additions to the zeros {all}.",
            who=who,
            operators=rank.each_step(int(chosen.sum()), "operator"),
            took=rank.time_per_step(rank.spans(rows).length),
            all=saved.per_step,
        ),
        change=change,
        why=say(
            "The zeros go, and at most the additions to them in the backward pass, too; where a device computes,"
            " {certain} of that at least.",
            certain=share(_CERTAIN_SHARE, 1.0),
        ),
        confidence="high" if rank.has_device else "medium",
        evidence=rank.event(longest, "the longest of them", "operators"),
    )


def _are_large(trace: Trace, rows: Int64s) -> bool:
    """Does writing the zeros take longer than calling the operators?"""
    took = trace.end[rows] - trace.start[rows]
    return bool(took.sum() > 2 * np.minimum(took, _CALL_NS).sum())


def _of_the_program(rank: RankView, additions: int) -> Bools:
    """Zeros outside of the optimizer and the backward pass, if about as many gradients are added to: bool [events]."""
    trace = rank.trace
    own = outermost_ops(trace) & zeroes(trace) & rank.scope.host_mask & (trace.track == main_thread(trace))
    own &= ~in_backward(trace) & ~optimizer_steps(trace).inside
    count = int(own.sum())
    fits = _MIN_OWN * rank.step_count <= count and count / _MAX_ADDITIONS <= additions <= count * _MAX_ADDITIONS
    return own if fits else np.zeros_like(own)


def _additions(rank: RankView) -> Bools:
    """Operators that add to gradients in the backward pass: bool [events]."""
    trace = rank.trace
    nodes = rows_containing(trace, (_ACCUMULATE,), EventKind.HOST_OP)
    return inside(trace, _named_add(trace) & inside(trace, nodes) & (call_tree(trace).parent >= 0))


def _named_add(trace: Trace) -> Bools:
    return rows_named(trace, _ADDS.__contains__, EventKind.HOST_OP, holding=("add_",))


def _factors(rank: RankView, calls: Bools) -> Factors:
    factors = unblocked_launches(rank)
    factors.host[calls] = 0.0
    leave_only(factors, launched_by(rank.trace, calls), 0.0)
    return factors


RULE = Rule("HOST005", "Gradients are set to zero instead of being dropped", gradients_set_to_zero, needs="computation")
