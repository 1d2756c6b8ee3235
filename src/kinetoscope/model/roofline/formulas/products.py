"""What products of matrices compute and move.

A multiplication with an addition counts as 2. Counted is what the mathematical operation takes: nothing for activation
or scaling, an operation of vectors for each element that a bias is added to, and of a 2:4 sparse matrix only what it
keeps. The schemas of the operators are those of PyTorch (`native_functions.yaml`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Final

from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Entry, Formula, Shape, Tensor, traffic
from kinetoscope.model.trace.element_types import ElementType, scalar_type

_BF16: Final = scalar_type(15)
_INT32: Final = scalar_type(3)

NOWHERE: Final = -1
"""The place of an argument that an operator does not have."""


def _matmul(
    first: Tensor | None, second: Tensor | None, kind: ElementType | None, *others: Tensor | None
) -> Cost | None:
    """A product by the rules of `torch.matmul`: vectors, matrices, batches that broadcast.

    None for a sparse factor, which has no strides where the other has: how many elements it holds is not recorded.
    kind: type of the result's elements. others: what is read besides, such as bias and scales.
    """
    if first is None or second is None or not first.shape or not second.shape:
        return None
    if (first.strides is None) != (second.strides is None):
        return None
    a, b = first.shape, second.shape
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    batch = _broadcast(left[:-2], right[:-2])
    if batch is None or left[-1] != right[-2]:
        return None
    rows, inner, columns = left[-2], left[-1], right[-1]
    shape = (*batch, *((rows,) if len(a) > 1 else ()), *((columns,) if len(b) > 1 else ()))
    out = Tensor(shape, None, kind)
    moved = traffic(first, second, *others, out)
    return Cost(2 * prod(batch) * rows * inner * columns, bytes=moved, outputs=(out,))


def _broadcast(a: Shape, b: Shape) -> Shape | None:
    sizes = []
    length = max(len(a), len(b))
    for x, y in zip((1,) * (length - len(a)) + a, (1,) * (length - len(b)) + b, strict=True):
        if x != y and 1 not in (x, y):
            return None
        sizes.append(x if y == 1 else y)
    return tuple(sizes)


def _type(tensor: Tensor | None) -> ElementType | None:
    return tensor.type if tensor is not None else None


def _transposed(tensor: Tensor | None) -> Tensor | None:
    """A matrix transposed, or a vector as it is; None for anything else."""
    if tensor is None or len(tensor.shape) not in (1, 2):
        return None
    return Tensor(tensor.shape[::-1], None if tensor.strides is None else tensor.strides[::-1], tensor.type)


@dataclass(frozen=True, slots=True)
class Product:
    """A formula: the places of the factors and of what is read besides.

    Attributes:
        first, second: of the factors.
        added: of the bias, or of the matrix that the product is added to.
        beta: of the factor of what is added; with 0 that is not read.
        out_type: of the type of the result, in an overload that has one more argument for it.
        typed: how many arguments that overload has; 0: there is none. With a result given (`out=`) an overload has as
            many, of which the last is a tensor.
        linear: is the second factor a weight, which is transposed?
    """

    first: int = 0
    second: int = 1
    added: int = NOWHERE
    beta: int = NOWHERE
    out_type: int = NOWHERE
    typed: int = 0
    linear: bool = False

    def __call__(self, given: Arguments) -> Cost | None:
        """The cost of a call, None where its arguments do not tell."""
        first, second = given.tensor(self.first), given.tensor(self.second)
        typed = len(given.values) == self.typed and given.tensor(self.typed - 1) is None
        kind = (given.scalar_type(self.out_type) if typed else None) or _type(first)
        is_added = self.beta == NOWHERE or given.text(self.beta + typed) not in ("0", "0.", "0.0")
        added = given.tensor(self.added) if is_added else None
        product = _matmul(first, _transposed(second) if self.linear else second, kind, added)
        return (
            product if added is None or product is None else replace(product, vector_flop=product.outputs[0].elements)
        )


def _integers(given: Arguments) -> Cost | None:
    """Integers of 8 bits, summed in 32."""
    return _matmul(given.tensor(0), given.tensor(1), _INT32)


def _added_batches(given: Arguments) -> Cost | None:
    """The sum of the products of a batch: addbmm."""
    product = _matmul(given.tensor(1), given.tensor(2), None)
    if product is None or not product.outputs[0].shape[1:]:
        return None
    out = Tensor(product.outputs[0].shape[1:], None, _type(given.tensor(1)))
    return Cost(product.flop, bytes=traffic(*(given.tensor(place) for place in range(3)), out), outputs=(out,))


# --- scaled and grouped


def _scaled(given: Arguments) -> Cost | None:
    """`_scaled_mm`: before torch 2.5 bias and type came before the scales."""
    if given.tensor(3) is not None:
        scales, bias, out_type = (2, 3), 4, 6
    else:
        scales, bias, out_type = (4, 5), 2, 3
    first, second = given.tensor(0), given.tensor(1)
    read = (given.tensor(place) for place in (*scales, bias))
    return _matmul(first, second, given.scalar_type(out_type) or _type(first), *read)


_SCALE_BYTES: Final = {0: 4, 1: 4, 2: 1, 3: 1, 4: 4, 5: 4}
"""Bytes of a scale by its recipe, a `torch.nn.functional.ScalingType`: FP32, E4M3 for 16 and E8M0 for 32 elements."""


def _scale_bytes(given: Arguments, tensors: int, recipe: int) -> int | None:
    """Bytes of the scales in a list of tensors, whose type a file does not say: it follows from the recipe."""
    scales, kinds = given.tensors(tensors), given.integers(recipe)
    sizes = [_SCALE_BYTES.get(kind) for kind in kinds]
    if len(scales) != len(kinds) or None in sizes:
        return None
    return sum(scale.distinct * (size or 0) for scale, size in zip(scales, sizes, strict=True))


def _with(cost: Cost | None, *more: int | None) -> Cost | None:
    """A cost with more bytes; without bytes where some are unknown."""
    if cost is None:
        return None
    sums = [
        None if moved is None or None in more else moved + sum(each or 0 for each in more)
        for moved in (cost.bytes, cost.bytes_most)
    ]
    return replace(cost, bytes=sums[0], bytes_most=sums[1])


def _scaled_by_recipe(given: Arguments) -> Cost | None:
    """`_scaled_mm_v2`: (self, mat2, scales, recipe, swizzle, scales, recipe, swizzle, bias, type, …)."""
    first, second = given.tensor(0), given.tensor(1)
    product = _matmul(first, second, given.scalar_type(9) or _BF16, given.tensor(8))
    return _with(product, _scale_bytes(given, 2, 3), _scale_bytes(given, 5, 6))


def _grouped(
    given: Arguments, offsets: int, bias: int, out_type: int, *scales: int, kind: ElementType | None = None
) -> Cost | None:
    """A product per group, where the groups divide one dimension of a matrix among themselves.

    The ends of the groups are not recorded: that they use the dimension up is assumed. Of the matrices of groups that
    are not shared (experts) a call reads one at least, and no more than there are rows.
    """
    first, second = given.tensor(0), given.tensor(1)
    if first is None or second is None:
        return None
    kind = given.scalar_type(out_type) or kind or first.type
    read = [given.tensor(place) for place in (*scales, bias)]
    a, b = first.shape, second.shape
    if len(a) == len(b) == 3:
        return _matmul(first, second, kind, *read)
    if len(a) not in (2, 3) or len(b) not in (2, 3) or a[-1] != b[-2]:
        return None
    flop = 2 * a[-2] * a[-1] * b[-1]
    ends = given.shape(offsets)
    if len(a) == len(b):
        out = Tensor((*ends[-1:], a[-2], b[-1]), None, kind)
        return Cost(flop, bytes=traffic(first, second, *read, out), outputs=(out,))
    out = Tensor((a[-2], b[-1]), None, kind)
    (shared, shared_rows), each = ((first, a[-2]), second) if len(b) == 3 else ((second, b[-1]), first)
    groups = each.shape[0]
    least, once = traffic(shared, *read, out), traffic(each)
    if least is None or once is None or not groups:
        return Cost(flop, outputs=(out,))
    of_group = once // groups
    used = min(groups, shared_rows)
    return Cost(
        flop, bytes=least + min(used, 1) * of_group, bytes_most=least + used * of_group, outputs=(out,)
    )  # fmt: skip


def _scaled_grouped_by_recipe(given: Arguments) -> Cost | None:
    """`_scaled_grouped_mm_v2`: scales as in `_scaled_mm_v2`, then offsets, bias and type."""
    product = _grouped(given, 8, 9, 10, kind=_BF16)
    return _with(product, _scale_bytes(given, 2, 3), _scale_bytes(given, 5, 6))


# --- weights of few bits, and sparse ones


def _weight_only(columns: int, axis: int) -> Formula:
    """Rows times a packed weight; how many columns it has, the scales at a place tell in one of their dimensions.

    The packed weight, in whatever form, holds each number once: its bytes are what is read.
    """

    def formula(given: Arguments) -> Cost | None:
        rows, scales = given.tensor(0), given.tensor(columns)
        if rows is None or not rows.shape or scales is None or not -len(scales.shape) <= axis < len(scales.shape):
            return None
        out = Tensor((*rows.shape[:-1], scales.shape[axis]), None, rows.type)
        read = [value for value in given.values if isinstance(value, Tensor)]
        return Cost(2 * out.elements * rows.shape[-1], bytes=traffic(*read, out), outputs=(out,))

    return formula


def _four_bits(columns: int, *read: int) -> Formula:
    """Rows times a packed weight of 4 bits; how many columns it has is a number at a place, or the first of a list."""

    def formula(given: Arguments) -> Cost | None:
        rows, sizes = given.tensor(0), given.integers(columns)
        if rows is None or not rows.shape or not sizes or sizes[0] < 0:
            return None
        out = Tensor((*rows.shape[:-1], sizes[0]), None, rows.type)
        moved = traffic(rows, *(given.tensor(place) for place in read), out)
        return Cost(2 * out.elements * rows.shape[-1], bytes=moved, outputs=(out,))

    return formula


def _half_sparse(sparse: int, dense: int, *others: int, linear: bool = False) -> Formula:
    """A matrix of which 2:4 sparsity keeps half, stored as half as many columns and metadata, times a dense one."""

    def formula(given: Arguments) -> Cost | None:
        kept, by = given.tensor(sparse), given.tensor(dense)
        if kept is None or by is None or len(kept.shape) != 2 or len(by.shape) < (1 if linear else 2):
            return None
        rows, half = kept.shape
        inner = by.shape[-1] if linear else by.shape[-2]
        if inner != 2 * half:
            return None
        out = Tensor((*by.shape[:-1], rows) if linear else (*by.shape[:-2], rows, by.shape[-1]), None, by.type)
        read = (given.tensor(place) for place in others)
        return Cost(2 * out.elements * half, bytes=traffic(kept, by, *read, out), outputs=(out,))

    return formula


def _compressed(given: Arguments) -> Cost | None:
    """`_cslt_sparse_mm`: cuSPARSELt keeps of each 16 elements 9, with metadata; of 8-bit elements 10."""
    kept, by = given.tensor(0), given.tensor(1)
    if kept is None or by is None or len(by.shape) != 2 or kept.type is None or not by.shape[0]:
        return None
    inner, columns = by.shape
    rows = kept.elements * 16 // ((10 if kept.type.bytes == 1 else 9) * inner)
    shape = (columns, rows) if given.flag(5) else (rows, columns)
    out = Tensor(shape, None, given.scalar_type(4) or by.type)
    moved = traffic(kept, by, given.tensor(2), given.tensor(3), out)
    return Cost(out.elements * inner, bytes=moved, outputs=(out,))


# --- recurrent layers


def _recurrent(hidden_size: int, projection: int, bidirectional: int, *, backward: bool = False) -> Formula:
    """Each matrix of the weights times each step of each sequence; backward once for the inputs, once for the weights.

    (input, list of weights, …). A file does not say the type of the weights: that of the input.
    """

    def formula(given: Arguments) -> Cost | None:
        steps, weights = given.tensor(0), given.tensors(1)
        matrices = sum(each.elements for each in weights if len(each.shape) == 2)
        size = given.integer(projection) or given.integer(hidden_size)
        if steps is None or len(steps.shape) < 2 or not steps.shape[-1] or not matrices or not size or size < 0:
            return None
        out = Tensor((*steps.shape[:-1], size * (2 if given.flag(bidirectional) else 1)), None, steps.type)
        read = [Tensor(each.shape, each.strides, steps.type) for each in weights]
        once = traffic(steps, *read, out)
        passes = 2 if backward else 1
        flop = 2 * prod(steps.shape[:-1]) * matrices * passes
        return Cost(flop, bytes=None if once is None else once * passes, outputs=() if backward else (out,))

    return formula


# --- the table

_ADDED: Final = Product(1, 2, added=0, beta=3, out_type=3, typed=6)

_FORMULAS: Final[dict[str, Formula]] = {
    # (self, mat2[, type])
    **dict.fromkeys(("aten::mm", "aten::bmm"), Product(out_type=2, typed=3)),
    **dict.fromkeys(("aten::matmul", "aten::mv", "aten::dot", "aten::vdot"), Product()),
    "aten::_int_mm": _integers,
    # (self, a, b[, type], beta, alpha)
    **dict.fromkeys(
        ("aten::addmm", "aten::addmm_", "aten::baddbmm", "aten::baddbmm_", "aten::addmv", "aten::addmv_"), _ADDED
    ),
    "aten::_addmm_activation": Product(1, 2, added=0, beta=3),
    **dict.fromkeys(("aten::addbmm", "aten::addbmm_"), _added_batches),
    # (input, weight, bias, …)
    **dict.fromkeys(
        ("aten::linear", "aten::mkldnn_linear", "aten::_weight_int8pack_mm", "aiter::gemm_a16w16",
         "vllm::rocm_unquantized_gemm"), Product(added=2, linear=True)
    ),
    "mkldnn::_linear_pointwise": lambda given: (
        Product(0, 2, added=3, linear=True) if len(given.shape(2)) == 2 else Product(added=2, linear=True)
    )(given),
    "mkl::_mkl_linear": Product(0, 2, added=3, linear=True),
    "aten::_scaled_mm": _scaled,
    "aten::_scaled_mm_v2": _scaled_by_recipe,
    # (self, mat2, offsets, bias, type); (self, mat2, scale, scale, offsets, bias, scale of the result, type, …)
    "aten::_grouped_mm": lambda given: _grouped(given, 2, 3, 4),
    "aten::_scaled_grouped_mm": lambda given: _grouped(given, 4, 5, 7, 2, 3, kind=_BF16),
    "aten::_scaled_grouped_mm_v2": _scaled_grouped_by_recipe,
    # (self, packed weight, group size, scales and zeros [groups, columns, 2])
    **dict.fromkeys(("aten::_weight_int4pack_mm", "aten::_weight_int4pack_mm_for_cpu"), _weight_only(3, -2)),
    "aten::_weight_int4pack_mm_with_scales_and_zeros": _weight_only(3, -1),
    "aten::_mixed_dtypes_linear": _weight_only(2, -1),  # (input, weight, scales, bias, activation)
    # (rows, packed weight, block size, in features, out features); (row, packed weight, its shape, scales, …)
    "aten::_dyn_quant_matmul_4bit": _four_bits(4, 1),
    "bitsandbytes::gemv_4bit": _four_bits(2, 1, 3),
    # (input, weight, metadata, bias, …); (a, metadata, b, …); (added, a, metadata, b, …)
    "aten::_sparse_semi_structured_linear": _half_sparse(1, 0, 2, 3, linear=True),
    "aten::_sparse_semi_structured_mm": _half_sparse(0, 2, 1),
    "aten::_sparse_semi_structured_addmm": _half_sparse(1, 3, 0, 2),
    "aten::_cslt_sparse_mm": _compressed,
    # (input, weights, stride, buffer, hx, cx, mode, hidden size, projection, layers, batch first, dropout, train, both)
    "aten::_cudnn_rnn": _recurrent(7, 8, 13),
    "aten::_cudnn_rnn_backward": _recurrent(11, 12, 17, backward=True),
    "aten::miopen_rnn": _recurrent(6, NOWHERE, 11),
    "aten::miopen_rnn_backward": _recurrent(11, NOWHERE, 16, backward=True),
    "bitsandbytes::int8_linear_matmul": lambda given: _matmul(given.tensor(0), _transposed(given.tensor(1)), _INT32),
    # vLLM's, with the result first and two scales and the bias last
    "_C::cutlass_scaled_mm": lambda given: _matmul(
        given.tensor(1), given.tensor(2), _type(given.tensor(0)), *(given.tensor(place) for place in (3, 4, 5))
    ),
}  # fmt: skip

PRODUCTS: Final = {name: Entry(formula, is_product=True) for name, formula in _FORMULAS.items()}
"""Operators that multiply matrices."""
