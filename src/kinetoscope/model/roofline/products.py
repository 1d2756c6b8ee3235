"""What products of matrices compute and move.

A multiplication with an addition counts as 2. Counted is what the mathematical operation takes: nothing for bias,
activation or scaling. The schemas of the operators are those of PyTorch (`native_functions.yaml`).
"""

from __future__ import annotations

from math import prod
from typing import Final

from kinetoscope.model.roofline.arguments import Arguments, Cost, Entry, Formula, Shape, Tensor, traffic


def _matmul(first: Tensor | None, second: Tensor | None) -> Cost | None:
    """A product by the rules of `torch.matmul`: vectors, matrices, batches that broadcast."""
    if first is None or second is None or not first.shape or not second.shape:
        return None
    a, b = first.shape, second.shape
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    batch = _broadcast(left[:-2], right[:-2])
    if batch is None or left[-1] != right[-2]:
        return None
    rows, inner, columns = left[-2], left[-1], right[-1]
    shape = (*batch, *((rows,) if len(a) > 1 else ()), *((columns,) if len(b) > 1 else ()))
    out = Tensor(shape, None, first.type)
    return Cost(2 * prod(batch) * rows * inner * columns, bytes=traffic(first, second, out), outputs=(out,))


def _broadcast(a: Shape, b: Shape) -> Shape | None:
    sizes = []
    length = max(len(a), len(b))
    for x, y in zip((1,) * (length - len(a)) + a, (1,) * (length - len(b)) + b, strict=True):
        if x != y and 1 not in (x, y):
            return None
        sizes.append(x if y == 1 else y)
    return tuple(sizes)


def _product(first: int, second: int) -> Formula:
    """The arguments at these places multiplied."""
    return lambda given: _matmul(given.tensor(first), given.tensor(second))


def _linear(weight: int = 1) -> Formula:
    """The first argument times a transposed weight."""

    def formula(given: Arguments) -> Cost | None:
        of = given.tensor(weight)
        if of is None or len(of.shape) not in (1, 2):
            return None
        strides = of.strides[::-1] if of.strides is not None else None
        return _matmul(given.tensor(0), Tensor(of.shape[::-1], strides, of.type))

    return formula


def _grouped(given: Arguments) -> Cost | None:
    """A product per group, where the groups divide one dimension of a matrix among themselves."""
    first, second = given.tensor(0), given.tensor(1)
    if first is None or second is None:
        return None
    a, b = first.shape, second.shape
    if len(a) == len(b) == 3:
        return _matmul(first, second)
    if len(a) not in (2, 3) or len(b) not in (2, 3) or a[-1] != b[-2]:
        return None
    out = Tensor((a[-2], b[-1]), None, first.type)
    return Cost(2 * a[-2] * a[-1] * b[-1], bytes=traffic(first, second, out), outputs=(out,))


_FORMULAS: Final[dict[str, Formula]] = {
    **dict.fromkeys(
        ("aten::mm", "aten::bmm", "aten::matmul", "aten::mv", "aten::dot", "aten::vdot", "aten::_int_mm",
         "aten::_scaled_mm", "aten::_scaled_mm_v2"), _product(0, 1)
    ),
    **dict.fromkeys(
        ("aten::addmm", "aten::addmm_", "aten::baddbmm", "aten::baddbmm_", "aten::addbmm", "aten::addbmm_",
         "aten::addmv", "aten::addmv_", "aten::_addmm_activation"), _product(1, 2)
    ),
    **dict.fromkeys(("aten::linear", "aten::_weight_int8pack_mm", "mkldnn::_linear_pointwise"), _linear()),
    "mkl::_mkl_linear": _linear(2),
    **dict.fromkeys(("aten::_grouped_mm", "aten::_scaled_grouped_mm"), _grouped),
    # They do compute, but their arguments do not tell how much.
    **dict.fromkeys(
        ("aten::_cudnn_rnn", "aten::_cudnn_rnn_backward", "aten::miopen_rnn", "aten::miopen_rnn_backward",
         "aten::_weight_int4pack_mm"), lambda _: None
    ),
}  # fmt: skip

PRODUCTS: Final = {name: Entry(formula, is_product=True) for name, formula in _FORMULAS.items()}
"""Operators that multiply matrices."""
