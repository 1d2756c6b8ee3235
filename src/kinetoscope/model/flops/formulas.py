"""How many floating-point operations a matrix product, a convolution or an attention takes, from its arguments.

A multiplication with an addition counts as 2. Counted is what the mathematical operation takes: nothing for bias,
activation, soft-max or scaling, and attention under a causal mask like dense attention. The schemas of the operators
are those of PyTorch (`native_functions.yaml`); `Input Dims` hold the tensors' sizes, `Concrete Inputs` the rest.
"""

from __future__ import annotations

from math import prod
from typing import Final, Literal

from kinetoscope.model.flops.arguments import Arguments, Cost, Formula, Shape
from kinetoscope.model.flops.convolutions import Convolution, convolution_backward

# --- matrix products


def _matmul(a: Shape, b: Shape) -> Cost | None:
    """A product by the rules of `torch.matmul`: vectors, matrices, batches that broadcast."""
    if not a or not b:
        return None
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    batch = _broadcast(left[:-2], right[:-2])
    if batch is None or left[-1] != right[-2]:
        return None
    rows, inner, columns = left[-2], left[-1], right[-1]
    return Cost(2 * prod(batch) * rows * inner * columns, prod(a) + prod(b) + prod(batch) * rows * columns)


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
    return lambda given: _matmul(given.shape(first), given.shape(second))


def _linear(weight: int = 1) -> Formula:
    """The first argument times a transposed weight."""

    def formula(given: Arguments) -> Cost | None:
        transposed = given.shape(weight)[::-1]
        return _matmul(given.shape(0), transposed) if len(transposed) in (1, 2) else None

    return formula


def _grouped(given: Arguments) -> Cost | None:
    """A product per group, where the groups divide one dimension of a matrix among themselves."""
    a, b = given.shape(0), given.shape(1)
    if len(a) == len(b) == 3:
        return _matmul(a, b)
    if len(a) not in (2, 3) or len(b) not in (2, 3) or a[-1] != b[-2]:
        return None
    return Cost(2 * a[-2] * a[-1] * b[-1], prod(a) + prod(b) + a[-2] * b[-1])


# --- attention

Layout = Literal["heads first", "heads after"]
"""[batch, heads, length, size] or [batch, length, heads, size]."""


def _attention(layout: Layout, *, first: int = 0, lengths: int = -1, backward: bool = False) -> Formula:
    """Attention of query, key and value, which stand from place `first` on.

    lengths: place of the cumulative lengths; where they are given, the sequences are packed and their lengths unknown.
    The backward pass computes the scores anew and four more products: gradients of value, probabilities, query, key.
    """

    def formula(given: Arguments) -> Cost | None:
        query, key, value = (given.shape(first + place) for place in range(3))
        if lengths >= 0 and given.shape(lengths):
            return None
        if layout == "heads after":
            if not len(query) == len(key) == len(value) == 4:
                return None
            query, key, value = ((b, heads, length, size) for b, length, heads, size in (query, key, value))
        if min(len(query), len(key), len(value)) < 2 or query[-1] != key[-1] or key[-2] != value[-2]:
            return None
        products = (3 * query[-1] + 2 * value[-1]) if backward else (query[-1] + value[-1])
        out = prod(query[:-1]) * value[-1]
        elements = (prod(query) + prod(key) + prod(value) + out) * (2 if backward else 1)
        return Cost(2 * prod(query[:-1]) * key[-2] * products, elements)

    return formula


# --- the table

_ARGUMENTS_OF_CONVOLUTION: Final = Convolution(stride=3, padding=4, dilation=5)
_PADDING_FIRST: Final = Convolution(padding=3, stride=4, dilation=5)

FORMULAS: Final[dict[str, Formula]] = {
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
    # (input, weight, bias, stride, padding, dilation, …)
    **dict.fromkeys(
        ("aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::cudnn_convolution_relu",
         "aten::miopen_convolution_relu"), _ARGUMENTS_OF_CONVOLUTION
    ),
    # (input, weight, bias, stride, padding, dilation, transposed, output padding, groups, …)
    **dict.fromkeys(
        ("aten::convolution", "aten::_convolution", "aten::convolution_overrideable"),
        Convolution(stride=3, padding=4, dilation=5, transposed=6, output_padding=7),
    ),
    # (input, weight, bias, padding, stride, dilation, …)
    **dict.fromkeys(
        ("aten::mkldnn_convolution", "aten::miopen_convolution", "aten::miopen_depthwise_convolution",
         "mkldnn::_convolution_pointwise"), _PADDING_FIRST
    ),
    # (input, weight, padding, stride, dilation, …)
    "aten::cudnn_convolution": Convolution(padding=2, stride=3, dilation=4),
    # (input, weight, z, alpha, bias, stride, padding, dilation, …)
    **dict.fromkeys(
        ("aten::cudnn_convolution_add_relu", "aten::miopen_convolution_add_relu"),
        Convolution(stride=5, padding=6, dilation=7),
    ),
    # (input, weight, kernel size, bias, stride, padding, dilation)
    **dict.fromkeys(
        ("aten::_conv_depthwise2d", "aten::conv_depthwise3d", "aten::slow_conv_dilated2d", "aten::slow_conv_dilated3d"),
        Convolution(stride=4, padding=5, dilation=6),
    ),
    # (input, weight, bias, stride, padding, output padding, groups, dilation)
    **dict.fromkeys(
        ("aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d"),
        Convolution(stride=3, padding=4, output_padding=5, dilation=7, transposed=True),
    ),
    "aten::cudnn_convolution_transpose": Convolution(
        padding=2, output_padding=3, stride=4, dilation=5, transposed=True
    ),
    "aten::miopen_convolution_transpose": Convolution(
        padding=3, output_padding=4, stride=5, dilation=6, transposed=True
    ),
    # (gradient, input, weight, bias sizes, stride, padding, dilation, transposed, output padding, groups, mask)
    "aten::convolution_backward": convolution_backward(7, 10),
    "aten::convolution_backward_overrideable": convolution_backward(6, 9),
    # (query, key, value, …)
    **dict.fromkeys(
        ("aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention",
         "aten::_scaled_dot_product_flash_attention_for_cpu", "aten::_scaled_dot_product_efficient_attention",
         "aten::_scaled_dot_product_cudnn_attention", "aten::_scaled_dot_product_fused_attention_overrideable",
         "aten::_scaled_dot_product_attention_math_for_mps"), _attention("heads first")
    ),
    "aten::_flash_attention_forward": _attention("heads after", lengths=3),
    "aten::_efficient_attention_forward": _attention("heads after", lengths=4),
    "flash_attn::_flash_attn_forward": _attention("heads after"),
    # (gradient, query, key, value, …)
    **dict.fromkeys(
        ("aten::_scaled_dot_product_flash_attention_backward",
         "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
         "aten::_scaled_dot_product_efficient_attention_backward",
         "aten::_scaled_dot_product_cudnn_attention_backward",
         "aten::_scaled_dot_product_fused_attention_overrideable_backward"),
        _attention("heads first", first=1, backward=True),
    ),
    "aten::_flash_attention_backward": _attention("heads after", first=1, lengths=6, backward=True),
    "aten::_efficient_attention_backward": _attention("heads after", first=1, lengths=6, backward=True),
    "flash_attn::_flash_attn_backward": _attention("heads after", first=1, backward=True),
    # They do compute, but their arguments do not tell how much.
    **dict.fromkeys(
        ("aten::_cudnn_rnn", "aten::_cudnn_rnn_backward", "aten::miopen_rnn", "aten::miopen_rnn_backward",
         "aten::cudnn_convolution_backward_input", "aten::cudnn_convolution_backward_weight",
         "aten::miopen_convolution_backward_input", "aten::miopen_convolution_backward_weight",
         "aten::mkldnn_convolution_backward_input", "aten::mkldnn_convolution_backward_weights",
         "aten::_weight_int4pack_mm", "flash_attn::_flash_attn_varlen_forward",
         "flash_attn::_flash_attn_varlen_backward"), lambda _: None
    ),
}  # fmt: skip
"""The operators that we can count, by name without overload."""


def cost(name: str, given: Arguments) -> Cost | None:
    """What a call takes; None where its operator is not in the table or its arguments do not tell."""
    formula = FORMULAS.get(name)
    return None if formula is None else formula(given)
