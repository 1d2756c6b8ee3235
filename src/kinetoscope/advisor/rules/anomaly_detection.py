"""HOST011: autograd's anomaly detection is left on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.autograd_graph import ACCUMULATE, graph_nodes
from kinetoscope.advisor.evidence.stakes import leave_only
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.algorithms.arrays import Bools, Int32s, marked
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, merge
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.execution.autograd import engine_spans
from kinetoscope.model.execution.call_tree import call_tree, inside, outermost_ops, self_times
from kinetoscope.model.execution.device_work import launched_by
from kinetoscope.model.execution.synchronization import host_waits
from kinetoscope.model.operators.categories import view_ops
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.views.sentences import measured, say

_CHECKS: Final = frozenset({"aten::isnan", "aten::_is_any_true", "aten::any", "aten::is_nonzero", "aten::item"})
"""What the engine calls for each gradient of a node, beside the node itself."""

_CHECKED_SHARE: Final = 0.9
"""Share of the nodes that must have been checked."""

_NO_TIME: Final = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))

_MIN_NODES: Final = 10

_STACK: Final = "traceback.py("
_STACK_END: Final = "): format_stack"
"""The call of Python that writes a node's stack as text; a recording with stacks has it."""

_CALL_NS: Final = 5_000
"""What an operator's own part takes that keeps no stack."""

_CHECK_LEFT: Final = 0.5
"""Share of the checks' and stacks' host time that is left at most: recording makes calls so short longer."""


def anomaly_detection(rank: RankView) -> Iterator[Finding]:
    """Does autograd look for NaN in each gradient, as with `torch.autograd.set_detect_anomaly(True)`?

    What it checks. Spans of autograd's engine: whether nine of ten call `aten::isnan` beside their node.

    Why it matters. Each gradient is read once more, and the host waits for the answer, so that the device runs dry at
    every node. In the forward pass each node keeps the Python stack that made it as text. At stake are these checks and
    waits, of which half of the host's own time counts as certain, as recording lengthens short operators. Stacks are
    calls of `format_stack` where Python's calls were recorded, and count in the same way. Else they go at most:
    operators that make a view compute nothing, so what they take beyond 5 µs is the stack. On the host alone, where
    stacks are not told from computation, the upper end is rough: all that such operators take beyond 5 µs, and the time
    between operators.

    What to do. Switch it off but to find a NaN.
    """
    trace = rank.trace
    spans = engine_spans(trace) & rank.scope.host_mask
    spans &= ~rows_named(trace, ACCUMULATE.__eq__, EventKind.HOST_OP, holding=("AccumulateGrad",))
    parent = call_tree(trace).parent
    is_check = rows_named(trace, _CHECKS.__contains__, EventKind.HOST_OP) & (parent >= 0) & spans[parent]
    looked = marked(
        len(trace), parent[is_check & rows_named(trace, "aten::isnan".__eq__, EventKind.HOST_OP, holding=("isnan",))]
    )
    if spans.sum() < _MIN_NODES or looked[spans].mean() < _CHECKED_SHARE:
        return
    is_stack = rows_named(trace, _is_stack, EventKind.PYTHON, holding=(_STACK_END,)) & rank.scope.host_mask
    within, written = inside(trace, is_check), inside(trace, is_stack)
    low, high = _without_checks(rank, within), _without_checks(rank, within)
    low.host[within | written] = _CHECK_LEFT
    _without_stacks(rank, high)
    high.host[written] = 0.0
    checks, stacks, work = rank.spans(is_check), rank.spans(is_stack), rank.work_time(launched_by(trace, within))
    makers, between = rank.spans(_makers(rank)), _between(rank)
    took, goes = merge(checks, stacks, work, makers, between).length, merge(rank.exposed(checks), stacks, work)
    saved = saving(rank, low, high, merge(rank.spans(spans), stacks), took=took, goes=goes)
    if saved is None:
        return
    longest = rank.longest(np.flatnonzero(is_check))
    yield saved.finding(
        message=say(
            "Anomaly detection of autograd is on. It checks the gradients of {nodes} for NaN, which takes {checks} of"
            " the host, and keeps a Python stack for each node{stacks}; operators that make nodes take"
            " {makers}{between}.",
            nodes=rank.each_step(int(spans.sum()), "node"),
            checks=rank.time_per_step(checks.length),
            stacks=say(", which takes {stacks}", stacks=rank.time_per_step(stacks.length)) if stacks.length else "",
            makers=rank.time_per_step(makers.length),
            between=say(", and {between} lie between operators", between=rank.time_per_step(between.length))
            if between.length
            else "",
        ),
        change="- torch.autograd.set_detect_anomaly(True)",
        why=say(
            "The checks go, and at most all that operators of the forward pass take beyond {own} and the time between"
            " operators, which may be stacks.",
            own=measured(_CALL_NS, "ns"),
        )
        if not rank.has_device
        else say("The checks go, and at most what operators of the forward pass take longer than without a stack."),
        confidence="high" if rank.has_device else "medium",
        evidence=rank.event(longest, "the longest check", "operators"),
    )


def _is_stack(name: str) -> bool:
    return name.endswith(_STACK_END) and _STACK in name


def _without_checks(rank: RankView, checks: Bools) -> Factors:
    trace, factors = rank.trace, rank.factors()
    factors.host[checks] = 0.0
    waits = host_waits(trace).call
    factors.free[waits[checks[waits]]] = True
    leave_only(factors, launched_by(trace, checks), 0.0)
    return factors


def _without_stacks(rank: RankView, factors: Factors) -> None:
    """Each operator that makes a node takes so much less as views take more than an operator's own part."""
    trace, makes = rank.trace, _makers(rank)
    own = np.maximum(self_times(trace)[makes], 1)
    if not rank.has_device:
        factors.host[makes] = np.minimum(_CALL_NS / own, 1.0)
        factors.outside = 0.0
        return
    views = own[view_ops(trace)[makes]]
    stack = max(float(np.median(views)) - _CALL_NS, 0.0) if len(views) else 0.0
    factors.host[makes] = 1.0 - np.minimum(stack, np.maximum(own - _CALL_NS, 0)) / own


def _makers(rank: RankView) -> Int32s:
    """Operators of the selected steps that make a node each."""
    graph = graph_nodes(rank.trace)
    makes = graph.rows[np.flatnonzero(np.diff(graph.node, append=-1))]
    return makes[rank.scope.host_mask[makes]]


def _between(rank: RankView) -> Intervals:
    """On the host alone, the time of the selected steps in no operator."""
    if rank.has_device:
        return _NO_TIME
    return difference(rank.time, rank.spans(outermost_ops(rank.trace) & rank.scope.host_mask))


RULE = Rule("HOST011", "Anomaly detection is on", anomaly_detection, needs="computation")
