"""DEVICE002: sizes of matrix products that tensor cores cannot load well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from kinetoscope.advisor.evidence.stakes import is_worth_reporting, stake_by_time, unblocked_launches
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.algorithms.intervals.intervals import intersection, union
from kinetoscope.model.device.peaks import PRECISIONS
from kinetoscope.model.device.tensor_cores import NOT_ON_MATRIX_UNIT, kernel_units
from kinetoscope.model.operators.unfused_attention import unfused_attention
from kinetoscope.model.roofline.rates import FlopRates, flop_rates
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import WorkKind

_ALIGNED: Final = 8
"""Elements of 16 bits in 16 bytes, the unit that matrices are loaded in."""

_MIN_STEP_SHARE: Final = 0.03
"""Share of the steps' time from which on such products matter."""

_MIN_PRODUCT_NS: Final = 10_000
"""A shorter product gains nothing."""

_TIME_LEFT: Final[dict[int, tuple[float, float]]] = {4: (0.9, 0.65), 2: (0.85, 0.5), 1: (0.7, 0.35)}
"""Share of the time that is left, at most and at least, by the power of two to which rows are aligned."""

_TIME_LEFT_WITHOUT_UNITS: Final = (0.4, 0.12)
"""The same where the kernel used no matrix unit at all."""

_BEST_PEAK_SHARE: Final = 0.85
"""Share of the peak that no product exceeds."""

_SECOND: Final = frozenset(
    {"aten::addmm", "aten::baddbmm", "aten::addmm_", "aten::baddbmm_", "aten::_addmm_activation"}
)
"""Operators whose matrices are the second and third argument; of the others they are the first two."""

_PRODUCTS: Final = _SECOND | {"aten::mm", "aten::bmm"}


def shapes_beside_the_matrix_units(rank: RankView) -> Iterator[Finding]:
    """Do 16-bit matrices have sizes that tensor cores load badly?

    What it checks. Products of FP16 and BF16 matrices of 10 µs and more in which the rows of an operand or of the
    result do not begin at multiples of 8 elements (16 bytes), by recorded strides, else by the sizes.

    Why it matters. Operands are loaded 16 bytes at a time. Rows that begin in between are loaded 2, 4 or 8 bytes at a
    time, or without tensor cores. At most, such a product takes 65, 50 or 35 % of its time, depending on its alignment
    (12 % where no tensor cores were used), but no less than at 85 % of the peak, or than the fastest aligned product of
    the trace. Sure is the gain at 90, 85 or 70 % (40 %). Without an aligned product in the trace nothing is sure,
    unless no tensor cores were used.

    What to do. Round the size up: the number of classes, the vocabulary, the hidden size.
    """
    if not rank.has_device or not rank.step_count:
        return
    rates = flop_rates(rank.scope)
    products = _products(rank, rates)
    calls, aligned, sizes = _unfit(rank, rates, products)
    if not len(calls):
        return
    fit = products[~np.isin(products, calls)]
    work, at_most, at_least = _left(rank, rates, calls, aligned, fit)
    spans = intersection(union(rank.work.start[work], rank.work.end[work]), rank.time)
    if spans.length < _MIN_STEP_SHARE * rank.time.length:
        return
    low, high = unblocked_launches(rank), unblocked_launches(rank)
    low.work[work], high.work[work] = at_most, at_least
    stake = stake_by_time(rank, rank.gains(low), rank.gains(high), spans)
    if not is_worth_reporting(rank, stake):
        return
    longest = int(np.argmax(rates.device_time[calls]))
    row, size = int(rates.rows[calls[longest]]), sizes[longest]
    better = -(-size // 64) * 64
    yield Finding(
        message=f"Matrix sizes do not fit tensor cores, such as {size:,}."
        f" {rank.each_step(len(calls), 'product')} take {share(spans.length, rank.time.length)} of the step.",
        stake=stake,
        change=f"- size = {size}\n+ size = {better}  # a multiple of 64, the rest of it unused",
        why="Part of the time of these products remains; the rule's page says how much.",
        confidence="medium",
        evidence=(rank.event(row, "the product that takes longest", "flops"),),
        time=spans,
    )


def _products(rank: RankView, rates: FlopRates) -> Int64s:
    """Long products of 16 bits, but for those of attention, which are to be fused, whatever their sizes: places."""
    half = [PRECISIONS.index("fp16"), PRECISIONS.index("bf16")]
    calls = np.flatnonzero(np.isin(rates.precision, half) & rates.ran & (rates.device_time >= _MIN_PRODUCT_NS))
    names = np.array([each.name in _PRODUCTS for each in rates.counts.variants], np.bool_)
    calls = calls[names[rates.variant[calls]]] if len(names) else calls[:0]
    return calls[~unfused_attention(rank.trace).products[rates.rows[calls]]]


def _unfit(rank: RankView, rates: FlopRates, calls: Int64s) -> tuple[Int64s, Int64s, list[int]]:
    """Calls with such sizes: their places, the power of two that all rows are multiples of, a size that is not of 8."""
    trace = rank.trace
    shapes = arguments.codes(trace, "input_dims", rates.rows[calls])
    strides = arguments.codes(trace, "input_strides", rates.rows[calls])
    keys, place = np.unique(np.stack([rates.variant[calls], shapes, strides]), axis=1, return_inverse=True)
    place = place.reshape(-1)
    unfit_sizes = [
        _alignment(
            rates.counts.variants[variant].name in _SECOND,
            trace.strings.nested(dims) if dims >= 0 else None,
            trace.strings.nested(each) if each >= 0 else None,
        )
        for variant, dims, each in keys.T.tolist()
    ]
    power = np.array([each[0] for each in unfit_sizes], np.int64)[place] if unfit_sizes else np.empty(0, np.int64)
    unfit = power < _ALIGNED
    return calls[unfit], power[unfit], [unfit_sizes[each][1] for each in place[unfit].tolist()]


def _alignment(second: bool, dims: Any, strides: Any) -> tuple[int, int]:
    """The largest power of two, to 8, that divides the lengths of all rows; and the length that it comes from."""
    shapes = [_matrix(dims, place + second) for place in (0, 1)]
    if None in shapes:
        return _ALIGNED, 0
    (_, inner), (_, columns) = (shape for shape in shapes if shape is not None)
    rows = [_row(_matrix(strides, place + second)) for place in (0, 1)]
    sizes = [columns, *(row if row else size for row, size in zip(rows, (inner, columns), strict=True))]
    worst = min(sizes, key=lambda size: size & -size)
    return min(worst & -worst, _ALIGNED), worst


def _matrix(value: Any, place: int) -> tuple[int, int] | None:
    """The last two numbers of what describes an argument."""
    if not isinstance(value, list) or place >= len(value) or not isinstance(value[place], list):
        return None
    last = value[place][-2:]
    if len(last) != 2 or not all(isinstance(each, int) and 0 < each < 1 << 40 for each in last):
        return None
    return last[0], last[1]


def _row(strides: tuple[int, int] | None) -> int:
    """From row to row of a matrix of these strides, whichever way it lies; 0 if they do not tell."""
    return max(strides) if strides is not None and 1 in strides and max(strides) > 1 else 0


def _left(
    rank: RankView,
    rates: FlopRates,
    calls: Int64s,
    aligned: Int64s,
    fit: Int64s,
) -> tuple[Int64s, Floats, Floats]:
    """The work of these calls, and what is left of it at most and at least."""
    place = np.full(len(rates.counts) + 1, -1, np.int64)
    place[rates.place[calls]] = np.arange(len(calls))
    of_call = place[rates.counts.call]
    work = np.flatnonzero((of_call >= 0) & rank.work.of(WorkKind.COMPUTATION) & rates.work)
    call = of_call[work]
    left = np.array([_TIME_LEFT[int(each)] for each in aligned])[call]
    without = kernel_units(rank.trace)[work] == NOT_ON_MATRIX_UNIT
    left[without] = _TIME_LEFT_WITHOUT_UNITS
    ideal = rates.ideal[calls] / _BEST_PEAK_SHARE / np.maximum(rates.device_time[calls], 1)
    bound = np.minimum(np.nan_to_num(ideal, nan=0.0), 1.0)[call]
    behind = _behind(rates, calls, fit)[call]
    at_most = np.where(without | bool(len(fit)), np.maximum(left[:, 0], bound), 1.0)
    return work, np.maximum(at_most, behind), np.maximum(np.maximum(left[:, 1], bound), behind)


def _behind(rates: FlopRates, calls: Int64s, fit: Int64s) -> Floats:
    """What is left of each call if it computes as fast as the fastest of this trace whose sizes fit; 0 without one."""
    if not len(fit):
        return np.zeros(len(calls))
    rate = rates.flop / np.maximum(rates.device_time, 1)
    return np.minimum(rate[calls] / max(float(rate[fit].max()), 1e-9), 1.0)


RULE = Rule("DEVICE002", "Sizes do not fit tensor cores", of_rank=shapes_beside_the_matrix_units)
