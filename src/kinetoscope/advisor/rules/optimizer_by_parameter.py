"""HOST004: the optimizer goes through the parameters one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from kinetoscope.advisor.evidence.optimizers import (
    FOREACH,
    FUSED,
    FUSED_PREFIX,
    best_argument,
    is_of_torch,
    works_on_all,
)
from kinetoscope.advisor.evidence.stakes import leave_only, unblocked_launches
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import quoted
from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, intersection, merge, union
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.execution.call_tree import call_tree, outermost_ops
from kinetoscope.model.execution.device_work import launched_by
from kinetoscope.model.execution.optimizers import optimizer_classes, optimizer_steps, update_times
from kinetoscope.model.roofline.calls import costed_calls
from kinetoscope.model.roofline.fused_optimizers import update_traffic
from kinetoscope.model.roofline.rates import peak_rates
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_beginning, rows_named
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.sentences import say

_MIN_OPERATORS: Final = 20
"""Operators a step from which on they are worth combining."""

_MIN_PASSES: Final = 3
"""The same of operators that each go through all parameters."""

_MAX_ALONE_SHARE: Final = 0.2
"""Share of an update's operators up to which the rest decides: they are counters and learning rates."""

_PRODUCTS: Final = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::matmul"})
"""What an update computes whose time is arithmetic, such as Muon's and Shampoo's."""

_WHOLE_OPTIMIZERS: Final = frozenset(
    {"Adam", "AdamW", "SGD", "Adagrad", "RMSprop", "Adamax", "NAdam", "RAdam", "ASGD", "Adadelta"}
)
"""Optimizers all of whose operators go with the other form; of others some stay, such as Adafactor's means of rows."""

_CALLS_LEFT_OF_OTHERS: Final = 0.9
"""Share of the calls of other optimizers that is left at most: `foreach` shortened Adafactor's update by a sixth."""

_TINY_KERNEL_NS: Final = 10_000
"""Length up to which a kernel is mostly launch overhead."""

_FLOOR: Final = 2_000
"""What a kernel takes at least, ns, however little it moves: surely no more than that is so because it is one."""

_SMALL_OP: Final = 20_000
"""The same of an operator that computes on the host."""

_MAX_TIME_RATIO: Final = 1.25
"""Ratio of the time for each byte of a fused kernel to that of simple ones, at most: it goes through more lists."""

_MIN_KNOWN_SHARE: Final = 0.9
"""Share of the update's device time of which the traffic must be known."""

_MIN_BANDWIDTH_SHARE: Final = 0.5
"""Share of the memory's bandwidth from which on it is what limits kernels."""

_HOST_LEFT_OF_PASSES: Final = 0.7
"""Share of the host's time that is left at most of an update in passes: lists of parameters are made all the same."""

_RARE_CALL_SHARE: Final = 0.1
"""Share of the most frequent operator's calls below which an operator is not called for each parameter."""


class _Left(NamedTuple):
    """Shares of times that are left when all parameters are worked on at once."""

    host: float
    tiny: float
    large: float


_ON_DEVICE: Final = (
    (6, _Left(0.3, 0.3, 0.7), _Left(0.03, 0.02, 0.3)),
    (3, _Left(0.3, 0.3, 0.85), _Left(0.03, 0.02, 0.5)),
    (0, _Left(0.3, 0.3, 1.0), _Left(0.03, 0.02, 0.9)),
)
"""From so many operators a parameter on, what is left at most and at least. Adam by parameter reads and writes some 19
tensors, fused 7; SGD with momentum 8 and 5, without it 3 and 3."""

_ON_HOST: Final = (
    (6, _Left(0.3, 0.3, 0.5), _Left(0.03, 0.03, 0.1)),
    (0, _Left(1.0, 1.0, 1.0), _Left(0.03, 0.03, 0.1)),
)
"""The same where the host computes; of an operator or two for a parameter little may come."""

_LISTS_ON_HOST: Final = (_Left(1.0, 1.0, 1.0), _Left(0.5, 0.5, 0.5))
"""The same of `foreach` there, at most and at least: it calls the operators one by one, from C++ instead of Python."""


def optimizer_by_parameter(rank: RankView) -> Iterator[Finding]:
    """Does the optimizer call several operators for each parameter?

    What it checks. The operators directly inside torch's spans `Optimizer.step#…`: whether hardly any of them works on
    all parameters at once (`_foreach_…`, `_fused_…`); and on a device, whether three or more `_foreach_` operators go
    through all parameters though the optimizer has a fused form. Of a step with a closure only what comes after the
    last node of autograd is the update. Nothing is said of an update that is fused, or goes through lists where torch
    has no fused form, of optimizers that it has no other form of (LBFGS, Muon, SparseAdam), nor of others' whose update
    multiplies matrices.

    Why it matters. A model has hundreds of parameters, most of them small, and an update takes up to a dozen operators
    each: thousands of launches of tiny kernels. At most, the calls and small kernels in these spans all but vanish. The
    lower end is the gain if three tenths of the calls and of the first 2 µs of each kernel remain. The rest of large
    kernels shrinks as its bytes do: the fused form reads and writes each number once (28 bytes a parameter of Adam in
    FP32, in passes 80). At most, it moves them at the memory's bandwidth; surely, at 80 % of the rate of the recorded
    kernels. Where shapes do not tell the bytes, 30 to 70 % remain; 50 to 85 % with three to five operators a parameter;
    90 % and more with fewer. On the host alone a gain is sure only of a fused form, from six operators a parameter on:
    there `foreach` calls all operators as before, from C++ (ASGD took as long, Adamax, Adadelta and RAdam 13 to 20 % of
    a step less); at most Python and half of their time go.

    Of Adafactor, and of optimizers that torch does not have, surely only a tenth of the calls goes on a device.

    Passes over all parameters have few launches, but read and write as much as an update parameter by parameter: the
    same shares remain of the device's time, and seven tenths of the host's at most.

    What to do. Use the fused form, else `foreach=True`, as far as the recorded torch takes it. Torch chooses `foreach`
    by itself only on GPUs, from 2.0 on, and only if all parameters are plain tensors there. An optimizer of one's own
    can call torch's `_foreach_` functions.
    """
    for name in optimizer_classes(rank.trace):
        yield from _claims(rank, name)


def _claims(rank: RankView, name: str) -> Iterator[Finding]:
    trace, spans = rank.trace, optimizer_steps(rank.trace, name)
    within = spans.inside & rank.scope.host_mask
    rows = np.flatnonzero(spans.rows & rank.scope.host_mask)
    argument, remark = best_argument(trace, name, on_device=rank.has_device)
    if "Fused" in name or not len(rows) or _cannot_change(trace, name, within, argument):
        return
    ops = _direct(rank, within, spans.rows)
    alone = ops & ~works_on_all(trace)
    in_passes = rank.has_device and argument == FUSED and alone.sum() < _MAX_ALONE_SHARE * ops.sum()
    mine = ops & ~alone if in_passes else alone
    count = int(mine.sum())
    least = _MIN_PASSES if in_passes else _MIN_OPERATORS
    if count < least * rank.step_count or count < 0.8 * int(ops.sum()):
        return
    at_most, at_least = _left(rank, mine, argument)
    if in_passes:
        at_most = at_most._replace(host=_HOST_LEFT_OF_PASSES)
    if name not in _WHOLE_OPTIMIZERS and rank.has_device:
        at_most = _Left(_CALLS_LEFT_OF_OTHERS, _CALLS_LEFT_OF_OTHERS, 1.0)
    if (shares := _traffic_left(rank, within, name)) is not None:
        at_most, at_least = (
            left._replace(large=share) for left, share in zip((at_most, at_least), shares, strict=True)
        )
    updates = update_times(trace, rows)
    low = _factors(rank, within, mine, at_most, _FLOOR)
    most = _factors(rank, within, mine, at_least, _TINY_KERNEL_NS)
    _without_python(trace, most, rows, updates)
    spent, launched = union(*updates), launched_by(trace, within)
    work = rank.work_spans(launched)
    goes = intersection(merge(rank.exposed(spent), work), rank.time)
    saved = saving(rank, low, most, spent, took=merge(spent, work).length, goes=goes)
    if saved is None:
        return
    yield saved.finding(
        message=say(
            "{optimizer} updates the parameters {how}. {operators} take {took} on the host{on_device}.",
            optimizer=quoted(name),
            how="in several passes" if in_passes else "one by one",
            operators=rank.each_step(count, "operator"),
            took=rank.time_per_step(spent.length),
            on_device=say(" and {computed} on the device", computed=rank.time_per_step(work.length))
            if work.length
            else "",
        ),
        change=_change(name, argument, remark),
        why=say("Part of the update's calls and kernels remains; the rule's page says how much."),
        confidence="medium",
        evidence=rank.event(rank.longest(rows), "the longest update", "operators"),
        key=name,
    )


def _cannot_change(trace: Trace, name: str, within: Bools, argument: str) -> bool:
    """Has it its best form already, torch no other form of it, or is its time that of products of matrices?"""
    if rows_beginning(trace, (FUSED_PREFIX,), EventKind.HOST_OP)[within].any():
        return True
    if is_of_torch(name):
        return not argument or (argument == FOREACH and bool(works_on_all(trace)[within].any()))
    return bool(rows_named(trace, _PRODUCTS.__contains__, EventKind.HOST_OP)[within].any())


def _change(name: str, argument: str, remark: str) -> str:
    if argument:
        return f"- {name}(model.parameters(), ...)\n+ {name}(model.parameters(), ..., {argument}){remark}"
    return (
        f"- for p, u in zip(params, updates): p.add_(u, alpha=-lr)  # in {name}.step\n"
        "+ torch._foreach_add_(params, updates, alpha=-lr)  # so each of its operators"
    )


def _without_python(trace: Trace, factors: Factors, rows: Int64s, updates: Intervals) -> None:
    """Behind a closure the time between the operators goes, too; elsewhere it is the span's own, and scaled as such."""
    behind = updates.start > trace.start[rows]
    for track in np.unique(trace.track[rows[behind]]).tolist():
        here = behind & (trace.track[rows] == track)
        factors.cut[track] = union(updates.start[here], updates.end[here])


def _direct(rank: RankView, within: Bools, spans: Bools) -> Bools:
    """The operators that the spans call, not those that these call; in files of 2021 the spans are operators too."""
    trace, parent = rank.trace, call_tree(rank.trace).parent
    if not (trace.kind[spans] == EventKind.HOST_OP).any():
        return np.asarray(within & outermost_ops(trace))
    return np.asarray(within & (trace.kind == EventKind.HOST_OP) & (parent >= 0) & spans[parent])


def _left(rank: RankView, ops: Bools, argument: str) -> tuple[_Left, _Left]:
    """By how many operators a parameter has: those of the rarest name come once for each."""
    if not rank.has_device and argument != FUSED:
        return _LISTS_ON_HOST
    _, counts = np.unique(rank.trace.name[ops], return_counts=True)
    rarest = counts[counts >= _RARE_CALL_SHARE * counts.max()].min()
    each = int(counts.sum()) / int(rarest)
    table = _ON_DEVICE if rank.has_device else _ON_HOST
    return next((at_most, at_least) for fewest, at_most, at_least in table if each >= fewest)


def _traffic_left(rank: RankView, within: Bools, name: str) -> tuple[float, float] | None:
    """The share of the update's device time that its fused form takes by the bytes moved, at most and at least.

    At least, it moves them at the bandwidth of the memory. None where the bytes are not known, or something else limits
    the recorded kernels.
    """
    trace, work, costed = rank.trace, rank.work, costed_calls(rank.trace)
    moved = costed.of_calls([variant.bytes for variant in costed.variants])
    mine = within[costed.rows] & ~np.isnan(moved)
    traffic = update_traffic(trace, within, name)
    took = work.duration[np.append(mine, False)[costed.call]].sum() if len(work) else 0
    if traffic is None or not took or took < _MIN_KNOWN_SHARE * work.duration[launched_by(trace, within)].sum():
        return None
    device = work.device[np.append(mine, False)[costed.call]][:1]
    [bandwidth] = peak_rates(trace, device, ("memory",), np.zeros(1, np.int64))
    share = traffic.moved / bandwidth * 1e9 / float(took)
    if not _MIN_BANDWIDTH_SHARE <= share <= 1:
        return None
    fused = traffic.fused / traffic.moved
    return min(_MAX_TIME_RATIO * fused, 1.0), min(share * fused, 1.0)


def _factors(rank: RankView, within: Bools, ops: Bools, left: _Left, floor: int) -> Factors:
    """A what-if in which each kernel's time up to `floor` shrinks like a tiny one's, the rest like a large one's."""
    trace, factors = rank.trace, unblocked_launches(rank)
    factors.host[within] = left.host
    if rank.has_device:
        launched = launched_by(trace, within)
        took = np.maximum(rank.work.duration, 1)
        part = np.where(took < floor, 1.0, floor / took if floor < _TINY_KERNEL_NS else 0.0)
        leave_only(factors, launched, (part * left.tiny + (1 - part) * left.large)[launched])
        factors.gap[launched & (took < _TINY_KERNEL_NS)] = left.tiny
    else:
        large = ops & (trace.end - trace.start >= _SMALL_OP)
        factors.host[large] = left.large
    return factors


RULE = Rule(
    "HOST004", "The optimizer goes through the parameters one by one", optimizer_by_parameter, needs="computation"
)
