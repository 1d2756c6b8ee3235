"""Attention that is computed operator by operator: scores, soft-max, and the product with the values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, marked
from kinetoscope.model.execution.autograd import backward_links
from kinetoscope.model.execution.call_tree import call_tree, inside
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace

_SOFTMAX: Final = ("aten::_softmax", "aten::_safe_softmax")
_PRODUCTS: Final = ("aten::bmm", "aten::baddbmm")
_GRADIENTS: Final = ("BmmBackward0", "BaddbmmBackward0")
_MATH: Final = "aten::_scaled_dot_product_attention_math"

_MAX_GAP_NS: Final = 2_000_000
"""Longest host time between the two products of one attention where no shapes were recorded."""


@dataclass(frozen=True)
class Attention:
    """All of it in a trace.

    Attributes:
        first: int32 [n], rows of the products that compute the scores.
        softmax, last: int32 [n], rows of the soft-maxes, and of the products with the values.
        products: bool [events], those products, forward and backward, and what they call.
        between: bool [events], all that happens between them on the same thread, and its backward pass.
        math: how many of them torch's own attention computes so, having found no fused kernel that fits.
    """

    first: Int32s
    softmax: Int32s
    last: Int32s
    products: Bools
    between: Bools
    math: int


@derived
def unfused_attention(trace: Trace) -> Attention:
    """Find it."""
    calls = call_tree(trace)
    member = calls.member
    softmax = np.flatnonzero(
        member & rows_named(trace, _SOFTMAX.__contains__, EventKind.HOST_OP, holding=("softmax",))
    ).astype(np.int32)
    products = np.flatnonzero(
        member & rows_named(trace, _PRODUCTS.__contains__, EventKind.HOST_OP, holding=("bmm",))
    ).astype(np.int32)
    first, last = _neighbours(trace, products, softmax)
    known = (first >= 0) & (last >= 0)
    near = trace.start[last[known]] - trace.end[first[known]] < _MAX_GAP_NS
    known[known] = _fits(trace, first[known], softmax[known], last[known], near)
    first, softmax, last = first[known], softmax[known], last[known]
    of_products = marked(len(trace), np.concatenate([first, last]))
    of_products = inside(trace, of_products)
    between = _between(trace, first, last) & ~of_products
    forward = backward_links(trace).forward
    linked = np.flatnonzero(forward >= 0)
    backward = np.zeros(len(trace), np.bool_)
    backward[linked] = between[forward[linked]]
    product_nodes = np.zeros(len(trace), np.bool_)
    product_nodes[linked] = of_products[forward[linked]]
    nodes = rows_named(trace, lambda name: name.endswith(_GRADIENTS), EventKind.HOST_OP, holding=("mmBackward",))
    is_math = rows_named(trace, _MATH.__eq__, EventKind.HOST_OP, holding=(_MATH,))
    return Attention(
        first, softmax, last, of_products | inside(trace, product_nodes & nodes), between | inside(trace, backward),
        int(inside(trace, is_math)[softmax].sum()),
    )  # fmt: skip


def _neighbours(trace: Trace, products: Int32s, softmax: Int32s) -> tuple[Int32s, Int32s]:
    """The product before and after each soft-max on its thread: int32 each, −1 for none."""
    first, last = np.full(len(softmax), -1, np.int32), np.full(len(softmax), -1, np.int32)
    for track in np.unique(trace.track[softmax]).tolist():
        here = np.flatnonzero(trace.track[softmax] == track)
        own = products[trace.track[products] == track]
        own = own[np.argsort(trace.start[own], kind="stable")]
        place = np.searchsorted(trace.start[own], trace.start[softmax[here]])
        both = (place > 0) & (place < len(own))
        first[here[both]], last[here[both]] = own[place[both] - 1], own[place[both]]
    return first, last


def _fits(trace: Trace, first: Int32s, softmax: Int32s, last: Int32s, near: Bools) -> Bools:
    """Do the shapes say that one is computed from the other? Where none were recorded, that they are near does."""
    codes = np.stack([arguments.codes(trace, "input_dims", rows) for rows in (first, softmax, last)])
    distinct, place = np.unique(codes, axis=1, return_inverse=True)
    agree = [min(each) >= 0 and _agree(*(trace.strings.nested(code) for code in each)) for each in distinct.T.tolist()]
    known = codes.min(axis=0) >= 0
    return np.where(known, np.array(agree, np.bool_)[place.reshape(-1)], near) if agree else near


def _agree(first: Any, softmax: Any, last: Any) -> bool:
    """The scores have the two last sizes that the soft-max has, and so has the first operand of the last product."""
    scores, values = _sizes(softmax, 0), _matrices(last)
    products = _matrices(first)
    if scores is None or len(products) < 2 or len(values) < 2:
        return False
    rows, columns = products[-2][0], products[-1][1]
    return (rows, columns) == scores and values[-2] == scores and scores[0] > 1


def _matrices(value: Any) -> list[tuple[int, int]]:
    """The sizes of the arguments that are batches of matrices; of `baddbmm` the last two are what is multiplied."""
    places = range(len(value)) if isinstance(value, list) else ()
    return [sizes for place in places if (sizes := _sizes(value, place)) is not None]


def _sizes(value: Any, place: int) -> tuple[int, int] | None:
    if not isinstance(value, list) or place >= len(value) or not isinstance(value[place], list):
        return None
    last = value[place][-2:]
    return (last[0], last[1]) if len(last) == 2 and all(isinstance(each, int) for each in last) else None


def _between(trace: Trace, first: Int32s, last: Int32s) -> Bools:
    """Calls that run between two products on their thread: bool [events]."""
    is_between = np.zeros(len(trace), np.bool_)
    calls = call_tree(trace)
    for track in np.unique(trace.track[first]).tolist():
        here = trace.track[first] == track
        rows = calls.order[calls.offsets[track] : calls.offsets[track + 1]]
        begin, end = trace.end[first[here]], trace.start[last[here]]
        order = np.argsort(begin, kind="stable")
        begin, end = begin[order], end[order]
        place = np.maximum(np.searchsorted(begin, trace.start[rows], side="right") - 1, 0)
        is_between[rows] = (trace.start[rows] >= begin[place]) & (trace.end[rows] <= end[place])
    return is_between
