"""DEVICE013: the model computes in double precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from kinetoscope.advisor.evidence.source_location import mostly_in_source, row_of_most, user_evidence
from kinetoscope.advisor.evidence.stakes import unblocked_launches
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.arrays import Bools
from kinetoscope.algorithms.intervals.intervals import Intervals, intersection
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.execution.call_tree import call_tree, inside
from kinetoscope.model.execution.device_work import launched_by
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.sentences import say

_MIN_STEP_SHARE: Final = 0.3
"""Share of the steps' time from which on such operators are reported."""

_TIME_LEFT: Final = (0.6, 0.3)
"""What is left of their time in FP32, at most and at least: half of the bytes, and vectors of twice as many numbers.
Models on CPUs gain 51 to 64 % of a step, Python included."""


def double_precision(rank: RankView) -> Iterator[Finding]:
    """Does the model compute in FP64?

    What it checks. Operators with a tensor of FP64 among their inputs, on the host or on a device, which take 30 % of
    the steps or more. NumPy makes FP64 by default, and what is computed with it follows.

    Why it matters. FP64 moves twice the bytes of FP32, and a CPU's vectors hold half as many numbers; a device for
    graphics computes it at a thirty-second or less of the speed. At most, three tenths of the time of these operators
    remain, and at least it is six tenths. FP32 changes the numbers: programs that need FP64 stay as they are.

    What to do. Make inputs and model FP32.
    """
    trace = rank.trace
    calls = _in_double(trace) & rank.scope.host_mask
    rows = np.flatnonzero(calls).astype(np.int32)
    if not len(rows):
        return
    within = inside(trace, calls)
    spans = _time(rank, calls, within)
    if spans.length < _MIN_STEP_SHARE * rank.time.length:
        return
    low, high = (_factors(rank, within, share_left) for share_left in _TIME_LEFT)
    saved = saving(rank, low, high, spans)
    if saved is None:
        return
    row = row_of_most(trace, rows, trace.end[rows] - trace.start[rows])
    shown = user_evidence(rank, row, "the longest of them", "operators")
    yield saved.finding(
        message=say(
            "The model computes in FP64{where}. {operators} on such tensors take {takes} of each step ({part}).",
            where=mostly_in_source(shown),
            operators=rank.each_step(len(rows), "operator"),
            takes=rank.time_per_step(spans.length),
            part=share(spans.length, rank.time.length),
        ),
        change="- x = torch.from_numpy(array)\n+ x = torch.from_numpy(array).float()\n+ model = model.float()",
        why=say(
            "In FP32 at least {least} and at most {most} of the time of these operators is left. The numbers change.",
            least=share(_TIME_LEFT[1], 1),
            most=share(_TIME_LEFT[0], 1),
        ),
        confidence="medium",
        evidence=shown,
        at_most="warning",
    )


def _factors(rank: RankView, within: Bools, left: float) -> Factors:
    """A what-if in which a share is left of such operators: bool [events]."""
    factors = unblocked_launches(rank)
    if rank.has_device:
        factors.work[launched_by(rank.trace, within)] = left
    else:
        factors.host[within] = left
    return factors


def _in_double(trace: Trace) -> Bools:
    """Operators with a tensor of FP64, in no other one with one: bool [events]."""
    rows = trace.rows(EventKind.HOST_OP)
    dims, types = (arguments.codes(trace, name, rows) for name in ("input_dims", "input_types"))
    keys, place = np.unique(np.stack([dims, types]), axis=1, return_inverse=True)
    is_double = [
        of >= 0 and each >= 0 and _has_double(trace.strings.nested(of), trace.strings.nested(each))
        for of, each in keys.T.tolist()
    ]
    result = np.zeros(len(trace), np.bool_)
    result[rows] = np.array(is_double, np.bool_)[place.reshape(-1)] if len(rows) else False
    parent = call_tree(trace).parent
    around = ancestor(parent, result)
    return result & ~np.append(around >= 0, np.False_)[parent]


def _has_double(dims: Any, types: Any) -> bool:
    """Is any argument a tensor of FP64 with a dimension? Numbers of Python are recorded as FP64 without any."""
    if not isinstance(dims, list) or not isinstance(types, list):
        return False
    return any(type_ == "double" and isinstance(of, list) and of for of, type_ in zip(dims, types, strict=False))


def _time(rank: RankView, calls: Bools, within: Bools) -> Intervals:
    """When such operators run: their work on a device, without one the operators."""
    if not rank.has_device:
        return intersection(rank.spans(calls), rank.time)
    work = launched_by(rank.trace, within)
    return rank.work_time(work)


RULE = Rule("DEVICE013", "The model computes in double precision", double_precision, needs="computation")
