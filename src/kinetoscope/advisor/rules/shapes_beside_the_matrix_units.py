"""DEVICE002: sizes of matrix products that tensor cores cannot load well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from kinetoscope.advisor.evidence.limits import (
    KEPT_PEAK_SHARE,
    PRODUCTS_REACH,
    saving_of_units,
    selected_units,
)
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.arrays import Bools, Floats, Int64s, marked
from kinetoscope.model.device.peaks import PRECISIONS
from kinetoscope.model.device.tensor_cores import NOT_ON_MATRIX_UNIT, kernel_units
from kinetoscope.model.operators.unfused_attention import unfused_attention
from kinetoscope.model.roofline.floors import Floors, floors
from kinetoscope.model.trace import arguments
from kinetoscope.views.sentences import measured, say

_ALIGNED: Final = 8
"""Elements of 16 bits in 16 bytes, the unit that matrices are loaded in."""

_MIN_STEP_SHARE: Final = 0.03
"""Share of the steps' time from which on such products matter."""

_MIN_PRODUCT_NS: Final = 10_000
"""A shorter product gains nothing."""

_SMALLER: Final = 1 / 64
"""Operations of products whose sizes fit, as a share of those of one whose sizes do not, from which on they compare."""

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
    time, or without tensor cores. What is lost is shown by products of the same trace whose sizes fit: at most, such a
    product comes as near to its floor as the best of them; the lower end is the gain if it comes as near as 85 % of
    what they reach on average. Without one, at most its floor remains, and nothing is sure; where no tensor cores were
    used, the gain at half of the peak is.

    What to do. Round the size up: the number of classes, the vocabulary, the hidden size.
    """
    limits = floors(rank.trace)
    products = _products(rank, limits)
    units, sizes = _unfit(rank, limits, products)
    if not len(units):
        return
    chosen = marked(len(limits), units)
    times = _times(rank, limits, chosen, products[~chosen[products]])
    gain = saving_of_units(rank, chosen, *times, least=_MIN_STEP_SHARE)
    if gain is None:
        return
    saved, limit = gain
    longest = int(np.argmax(limits.time[units]))
    row, size = int(limits.row[units[longest]]), sizes[longest]
    better = -(-size // 64) * 64
    yield saved.finding(
        message=say(
            "Matrix sizes do not fit tensor cores, such as {size}. {products} take {part} of the step.{limit}",
            size=measured(size),
            products=rank.each_step(len(units), "product"),
            part=saved.part,
            limit=limit,
        ),
        change=f"- size = {size}\n+ size = {better}  # a multiple of 64, the rest of it unused",
        why=say(
            "At most, they come as near to their floors as the best product whose sizes fit; at least as near as {kept}"
            " of what those reach on average.",
            kept=share(KEPT_PEAK_SHARE, 1),
        ),
        confidence="medium",
        evidence=rank.event(row, "the product that takes longest", "roofline"),
    )


def _products(rank: RankView, limits: Floors) -> Int64s:
    """Long products of 16 bits, but for those of attention, which are to be fused, whatever their sizes: units."""
    half = np.isin(limits.precision, [PRECISIONS.index("fp16"), PRECISIONS.index("bf16")])
    is_named = [float(each.name in _PRODUCTS) for each in limits.calls.variants]
    half &= limits.calls.at(limits.call, is_named) > 0
    units = np.flatnonzero(half & selected_units(rank) & (limits.time >= _MIN_PRODUCT_NS) & limits.is_covered)
    return units[~unfused_attention(rank.trace).products[limits.row[units]]]


def _unfit(rank: RankView, limits: Floors, units: Int64s) -> tuple[Int64s, list[int]]:
    """Units with such sizes, and of each a size that no multiple of 8 is."""
    trace, rows = rank.trace, limits.row[units]
    shapes, strides = (arguments.codes(trace, name, rows) for name in ("input_dims", "input_strides"))
    variant = limits.calls.variant[limits.call[units]]
    keys, place = np.unique(np.stack([variant, shapes, strides]), axis=1, return_inverse=True)
    alignments = [
        _alignment(
            limits.calls.variants[variant].name in _SECOND,
            trace.strings.nested(dims) if dims >= 0 else None,
            trace.strings.nested(each) if each >= 0 else None,
        )
        for variant, dims, each in keys.T.tolist()
    ]
    each = place.reshape(-1).tolist()
    unfit = [n for n, code in enumerate(each) if alignments[code][0] < _ALIGNED]
    return units[unfit], [alignments[each[n]][1] for n in unfit]


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


def _times(rank: RankView, limits: Floors, chosen: Bools, fit: Int64s) -> tuple[Floats, Floats]:
    """Times of chosen units at most and at least with sizes that fit, ns: float64 [units]. `fit`: products that do."""
    flop = limits.flop[fit]
    fit, flop = fit[np.argsort(flop)], np.sort(flop)
    floor, time = (np.append(np.cumsum(each[fit][::-1])[::-1], np.nan) for each in (limits.floor, limits.time))
    nearest = np.append(np.maximum.accumulate((limits.floor / np.maximum(limits.time, 1))[fit][::-1])[::-1], np.nan)
    like = np.searchsorted(flop, np.where(chosen, limits.flop * _SMALLER, np.inf))
    at_most = limits.floor / (KEPT_PEAK_SHARE * floor[like] / time[like])
    without = kernel_units(rank.trace)[limits.longest] == NOT_ON_MATRIX_UNIT
    at_most = np.where(without, np.fmin(at_most, limits.floor / PRODUCTS_REACH), at_most)
    return at_most, np.fmax(limits.floor, np.nan_to_num(limits.floor / nearest[like]))


RULE = Rule("DEVICE002", "Sizes do not fit tensor cores", shapes_beside_the_matrix_units, needs="device")
