"""Formulas of products of matrices.

A multiplication with an addition counts as 2. Counted is what the mathematical operation takes: nothing for activation
or scaling, an operation of vectors for each element that a bias is added to, and of a 2:4 sparse matrix only what it
keeps.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final

from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Shape, Tensor, Tensors, traffic
from kinetoscope.model.roofline.formulas.family import Family
from kinetoscope.model.roofline.formulas.result_types import INT32, broadcast
from kinetoscope.model.roofline.formulas.streams import streamed
from kinetoscope.model.trace.element_types import ElementType, scalar_type

formula = Family("Products of matrices", is_product=True)

_BF16: Final = scalar_type(15)


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
    batch = broadcast(left[:-2], right[:-2])
    if batch is None or left[-1] != right[-2]:
        return None
    rows, inner, columns = left[-2], left[-1], right[-1]
    shape = (*batch, *((rows,) if len(a) > 1 else ()), *((columns,) if len(b) > 1 else ()))
    out = Tensor(shape, None, kind)
    moved = traffic(first, second, *others, out)
    return Cost(2 * prod(batch) * rows * inner * columns, bytes=moved, outputs=(out,))


def _transposed(tensor: Tensor) -> Tensor | None:
    """A matrix transposed, or a vector as it is; None for anything else."""
    if len(tensor.shape) not in (1, 2):
        return None
    return Tensor(tensor.shape[::-1], None if tensor.strides is None else tensor.strides[::-1], tensor.type)


def _plus(product: Cost | None, added: Tensor | None) -> Cost | None:
    """A product to whose elements others are added."""
    return product if added is None or product is None else replace(product, vector_flop=product.outputs[0].elements)


@formula("mm bmm matmul mv dot vdot", names={"mat2": "other vec tensor"})
def mm(input: Tensor, mat2: Tensor, out_dtype: ElementType | None) -> Cost | None:
    """A product."""
    return _matmul(input, mat2, out_dtype or input.type)


@formula(
    "addmm addmm_ baddbmm baddbmm_ addmv addmv_ _addmm_activation", names={"mat1": "batch1 mat", "mat2": "batch2 vec"}
)
def addmm(input: Tensor | None, mat1: Tensor, mat2: Tensor, out_dtype: ElementType | None, beta: str) -> Cost | None:
    """A product, and what it is added to: with a factor of 0 that is not read."""
    added = None if beta in ("0", "0.", "0.0") else input
    return _plus(_matmul(mat1, mat2, out_dtype or mat1.type, added), added)


@formula("linear mkldnn_linear aiter::gemm_a16w16 vllm::rocm_unquantized_gemm")
@formula("_weight_int8pack_mm", names={"weight": "mat2", "bias": "scales"})
@formula("mkldnn::_linear_pointwise", names={"input": "X", "weight": "W", "bias": "B"})
@formula("mkl::_mkl_linear", names={"input": "X", "weight": "ORI_W", "bias": "B"})
def linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Cost | None:
    """A product with a weight that is transposed."""
    return _plus(_matmul(input, _transposed(weight), input.type, bias), bias)


@formula("_int_mm")
def int_mm(input: Tensor, mat2: Tensor) -> Cost | None:
    """Integers of 8 bits, summed in 32."""
    return _matmul(input, mat2, INT32)


@formula("bitsandbytes::int8_linear_matmul")
def int8_linear_matmul(input: Tensor, weight: Tensor) -> Cost | None:
    """A product of integers with a weight that is transposed."""
    return _matmul(input, _transposed(weight), INT32)


@formula("addbmm addbmm_")
def addbmm(input: Tensor | None, batch1: Tensor, batch2: Tensor) -> Cost | None:
    """The sum of the products of a batch."""
    product = _matmul(batch1, batch2, None)
    if product is None or not product.outputs[0].shape[1:]:
        return None
    return replace(streamed(input, batch1, batch2, out=batch1.new(product.outputs[0].shape[1:])), flop=product.flop)


# --- scaled and grouped


@formula(
    "_scaled_mm",  # as it was before torch 2.5
    "Tensor input, Tensor mat2, Tensor? bias, out_dtype, Tensor? scale_a, Tensor? scale_b, Tensor? scale_result,"
    " use_fast_accum",
)
def scaled_mm(
    input: Tensor,
    mat2: Tensor,
    scale_a: Tensor | None,
    scale_b: Tensor | None,
    bias: Tensor | None,
    out_dtype: ElementType | None,
) -> Cost | None:
    """A product with a scale of each factor."""
    return _matmul(input, mat2, out_dtype or input.type, scale_a, scale_b, bias)


@formula("_C::cutlass_scaled_mm")
def cutlass_scaled_mm(
    out: Tensor | None, input: Tensor, mat2: Tensor, scale_a: Tensor | None, scale_b: Tensor | None, bias: Tensor | None
) -> Cost | None:
    """vLLM's, with the place for its result first."""
    return _matmul(input, mat2, out.type if out is not None else None, scale_a, scale_b, bias)


_SCALE_BYTES: Final = {0: 4, 1: 4, 2: 1, 3: 1, 4: 4, 5: 4}
"""Bytes of a scale by its recipe, a `torch.nn.functional.ScalingType`: FP32, E4M3 for 16 and E8M0 for 32 elements."""


def _scale_bytes(scales: Tensors, recipe: Shape) -> int | None:
    """Bytes of the scales in a list of tensors, whose type a file does not say: it follows from the recipe."""
    sizes = [_SCALE_BYTES.get(kind) for kind in recipe]
    if len(scales) != len(recipe) or None in sizes:
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


@formula("_scaled_mm_v2")
def scaled_mm_v2(
    input: Tensor,
    mat2: Tensor,
    scale_a: Tensors,
    recipe_a: Shape,
    scale_b: Tensors,
    recipe_b: Shape,
    bias: Tensor | None,
    out_dtype: ElementType | None,
) -> Cost | None:
    """A product with scales of each factor, of the type that a recipe tells."""
    product = _matmul(input, mat2, out_dtype or _BF16, bias)
    return _with(product, _scale_bytes(scale_a, recipe_a), _scale_bytes(scale_b, recipe_b))


@formula("_grouped_mm")
@formula("_scaled_grouped_mm", usual=_BF16)
def grouped_mm(
    given: Arguments,
    input: Tensor,
    mat2: Tensor,
    bias: Tensor | None,
    out_dtype: ElementType | None,
    usual: ElementType | None = None,
) -> Cost | None:
    """A product per group, where the groups divide one dimension of a matrix among themselves.

    The ends of the groups are not recorded: that they use the dimension up is assumed. Of the matrices of groups that
    are not shared (experts) a call reads one at least, and no more than there are rows.
    """
    kind = out_dtype or usual or input.type
    read = [given.tensor(name) for name in ("scale_a", "scale_b")]
    a, b = input.shape, mat2.shape
    if len(a) == len(b) == 3:
        return _matmul(input, mat2, kind, *read, bias)
    if len(a) not in (2, 3) or len(b) not in (2, 3) or a[-1] != b[-2]:
        return None
    flop = 2 * a[-2] * a[-1] * b[-1]
    if len(a) == len(b):
        out = Tensor((*given.shape("offs")[-1:], a[-2], b[-1]), None, kind)
        return Cost(flop, bytes=traffic(input, mat2, *read, bias, out), outputs=(out,))
    out = Tensor((a[-2], b[-1]), None, kind)
    (shared, shared_rows), each = ((input, a[-2]), mat2) if len(b) == 3 else ((mat2, b[-1]), input)
    groups = each.shape[0]
    least, once = traffic(shared, *read, bias, out), traffic(each)
    if least is None or once is None or not groups:
        return Cost(flop, outputs=(out,))
    of_group = once // groups
    used = min(groups, shared_rows)
    return Cost(flop, bytes=least + min(used, 1) * of_group, bytes_most=least + used * of_group, outputs=(out,))


@formula("_scaled_grouped_mm_v2")
def scaled_grouped_mm_v2(
    given: Arguments,
    input: Tensor,
    mat2: Tensor,
    bias: Tensor | None,
    out_dtype: ElementType | None,
    recipe_a: Shape,
    recipe_b: Shape,
) -> Cost | None:
    """A product per group with scales as in `_scaled_mm_v2`."""
    product = grouped_mm(given, input, mat2, bias, out_dtype, usual=_BF16)
    scales = _scale_bytes(given.tensors("scale_a"), recipe_a), _scale_bytes(given.tensors("scale_b"), recipe_b)
    return _with(product, *scales)


# --- weights of few bits, and sparse ones


@formula("_weight_int4pack_mm _weight_int4pack_mm_for_cpu", names={"scales": "qScaleAndZeros"}, axis=-2)
@formula("_weight_int4pack_mm_with_scales_and_zeros", names={"scales": "qScale"}, axis=-1)
@formula("_mixed_dtypes_linear", names={"scales": "scale"}, axis=-1)
def weight_int4pack_mm(given: Arguments, input: Tensor, scales: Tensor, axis: int) -> Cost | None:
    """Rows times a packed weight; how many columns it has, the scales tell in one of their dimensions.

    The packed weight, in whatever form, holds each number once: its bytes are what is read.
    """
    if not input.shape or not -len(scales.shape) <= axis < len(scales.shape):
        return None
    out = input.new((*input.shape[:-1], scales.shape[axis]))
    read = [value for value in given.values if isinstance(value, Tensor)]
    return Cost(2 * out.elements * input.shape[-1], bytes=traffic(*read, out), outputs=(out,))


@formula("_dyn_quant_matmul_4bit", names={"input": "inp", "columns": "out_features"})
@formula("bitsandbytes::gemv_4bit", names={"columns": "weight_shape"})
def matmul_4bit(input: Tensor, packed_weights: Tensor | None, absmax: Tensor | None, columns: Shape) -> Cost | None:
    """Rows times a packed weight of 4 bits; how many columns it has is a number, or the first of a list."""
    if not input.shape or not columns or columns[0] < 0:
        return None
    out = input.new((*input.shape[:-1], columns[0]))
    moved = traffic(input, packed_weights, absmax, out)
    return Cost(2 * out.elements * input.shape[-1], bytes=moved, outputs=(out,))


@formula(
    "_sparse_semi_structured_linear",
    names={"sparse": "weight", "dense": "input", "metadata": "meta", "added": "bias"},
    is_linear=True,
)
@formula("_sparse_semi_structured_mm", names={"sparse": "mat1", "dense": "mat2", "metadata": "mat1_meta"})
@formula(
    "_sparse_semi_structured_addmm",
    names={"sparse": "mat1", "dense": "mat2", "metadata": "mat1_meta", "added": "input"},
)
def half_sparse(
    sparse: Tensor, dense: Tensor, metadata: Tensor | None, added: Tensor | None, is_linear: bool = False
) -> Cost | None:
    """A matrix of which 2:4 sparsity keeps half, stored as half as many columns and metadata, times a dense one."""
    if len(sparse.shape) != 2 or len(dense.shape) < (1 if is_linear else 2):
        return None
    rows, half = sparse.shape
    if dense.shape[-1 if is_linear else -2] != 2 * half:
        return None
    out = dense.new((*dense.shape[:-1], rows) if is_linear else (*dense.shape[:-2], rows, dense.shape[-1]))
    return Cost(2 * out.elements * half, bytes=traffic(sparse, dense, metadata, added, out), outputs=(out,))


@formula("_cslt_sparse_mm", names={"compressed": "compressed_A", "dense": "dense_B"})
def cslt_sparse_mm(
    compressed: Tensor,
    dense: Tensor,
    bias: Tensor | None,
    alpha: Tensor | None,
    out_dtype: ElementType | None,
    transpose_result: bool,
) -> Cost | None:
    """CuSPARSELt keeps of each 16 elements 9, with metadata; of 8-bit elements 10."""
    if len(dense.shape) != 2 or compressed.type is None or not dense.shape[0]:
        return None
    inner, columns = dense.shape
    rows = compressed.elements * 16 // ((10 if compressed.type.bytes == 1 else 9) * inner)
    out = Tensor((columns, rows) if transpose_result else (rows, columns), None, out_dtype or dense.type)
    return Cost(out.elements * inner, bytes=traffic(compressed, dense, bias, alpha, out), outputs=(out,))


# --- recurrent layers


@formula("_cudnn_rnn miopen_rnn")
@formula("_cudnn_rnn_backward miopen_rnn_backward", backward=True)
def rnn(
    input: Tensor,
    weight: Tensors,
    hidden_size: int | None,
    proj_size: int | None,
    bidirectional: bool,
    backward: bool = False,
) -> Cost | None:
    """Each matrix of the weights times each step of each sequence; backward once for the inputs, once for the weights.

    A file does not say the type of the weights: that of the input.
    """
    matrices = sum(each.elements for each in weight if len(each.shape) == 2)
    size = proj_size or hidden_size
    if len(input.shape) < 2 or not input.shape[-1] or not matrices or not size or size < 0:
        return None
    out = input.new((*input.shape[:-1], size * (2 if bidirectional else 1)))
    once = traffic(input, *(Tensor(each.shape, each.strides, input.type) for each in weight), out)
    passes = 2 if backward else 1
    flop = 2 * prod(input.shape[:-1]) * matrices * passes
    return Cost(flop, bytes=None if once is None else once * passes, outputs=() if backward else (out,))


# --- mixtures of experts


@formula(
    "vllm::inplace_fused_experts vllm::outplace_fused_experts sglang::inplace_fused_experts"
    " sglang::outplace_fused_experts"
)
def fused_experts(
    hidden_states: Tensor, w1: Tensor, w2: Tensor, topk_weights: Tensor | None, topk_ids: Tensor
) -> Cost | None:
    """Two products for each token and each of its experts.

    A token's experts differ, so that at least so many have their weights read, and at most all of them.
    """
    if [len(each.shape) for each in (hidden_states, w1, w2, topk_ids)] != [2, 3, 3, 2] or not w1.elements:
        return None
    experts, rows, packed = w1.shape
    in_a_place = hidden_states.shape[1] // packed  # numbers of 4 bits share a byte
    pairs = topk_ids.elements
    flop = 2 * pairs * (rows * hidden_states.shape[1] + w2.shape[1] * w2.shape[2] * in_a_place)
    weights, out = traffic(w1, w2), hidden_states.new()
    rest = traffic(hidden_states, topk_ids, topk_weights, out)
    if weights is None or rest is None:
        return Cost(flop, outputs=(out,))
    least, most = (weights // experts * min(experts, count) for count in (topk_ids.shape[1] if pairs else 0, pairs))
    return Cost(flop, bytes=rest + least, bytes_most=rest + most, outputs=(out,))
