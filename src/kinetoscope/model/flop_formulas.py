"""How many floating-point operations a matrix product, a convolution or an attention takes, from its arguments.

A multiplication with an addition counts as 2. Counted is what the mathematical operation takes: nothing for bias,
activation, soft-max or scaling, and attention under a causal mask like dense attention. The schemas of the operators
are those of PyTorch (`native_functions.yaml`); `Input Dims` hold the tensors' sizes, `Concrete Inputs` the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Final, Literal

Shape = tuple[int, ...]

_MOST: Final = 1 << 40
"""Size of a dimension beyond which it is no size of a tensor."""

_NUMBER: Final = re.compile(r"-?\d{1,12}")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a call takes.

    Attributes:
        flop: floating-point operations.
        elements: elements of the tensors that must be read or written, each once.
    """

    flop: int
    elements: int


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call: the shape of each that is a tensor, and the text of each that is none."""

    shapes: tuple[Shape | None, ...]
    concrete: tuple[str, ...]

    def shape(self, place: int) -> Shape:
        """The shape of a tensor; () where there is none, as for a scalar."""
        return (self.shapes[place] if place < len(self.shapes) else None) or ()

    def text(self, place: int) -> str:
        """The value of what is no tensor, "" where it was not recorded."""
        return self.concrete[place] if place < len(self.concrete) else ""

    def numbers(self, place: int, count: int) -> Shape | None:
        """So many numbers of a list such as `[1, 1]`; one stands for all. None where it was not recorded."""
        found = tuple(int(text) for text in _NUMBER.findall(self.text(place)))
        if len(found) == 1:
            return found * count
        return found if len(found) == count else None


Formula = Callable[[Arguments], Cost | None]


def arguments_of(dims: Any, concrete: Any) -> Arguments:
    """What `Input Dims` and `Concrete Inputs` say; what is of no use in them is as if it were not recorded."""
    shapes = tuple(_shape(each) for each in dims) if isinstance(dims, list) else ()
    texts = tuple(each if isinstance(each, str) else "" for each in concrete) if isinstance(concrete, list) else ()
    return Arguments(shapes, texts)


def _shape(value: Any) -> Shape | None:
    if not isinstance(value, list):
        return None
    if not all(isinstance(size, int) and not isinstance(size, bool) and 0 <= size < _MOST for size in value):
        return None
    return tuple(value)


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


# --- convolutions


@dataclass(frozen=True, slots=True)
class _Convolution:
    """Places of a convolution's arguments; those that it does not have are −1. `transposed` may be known by its name.

    `kernel` is what the weight meets: each of its elements once at each position of the smaller image: the output, or
    of a transposed convolution the input.
    """

    stride: int
    padding: int
    dilation: int
    output_padding: int = -1
    transposed: int | bool = False

    def __call__(self, given: Arguments) -> Cost | None:
        image, weight = given.shape(0), given.shape(1)
        space = len(weight) - 2
        if space < 1 or len(image) - space not in (1, 2):
            return None
        batch = image[0] if len(image) == space + 2 else 1
        channels, size = image[-space - 1], image[-space:]
        transposed = _flag(given, self.transposed)
        if transposed is None or channels == 0 or channels % weight[0 if transposed else 1]:
            return None
        out = self._output(given, size, weight[2:], transposed=transposed)
        if transposed:
            groups_out = prod(out) * batch * weight[1] if out else 0
            return Cost(2 * batch * prod(size) * prod(weight), prod(image) + prod(weight) + groups_out)
        if out is None:
            return None
        return Cost(2 * batch * prod(out) * prod(weight), prod(image) + prod(weight) + batch * weight[0] * prod(out))

    def _output(self, given: Arguments, size: Shape, kernel: Shape, *, transposed: bool) -> Shape | None:
        count = len(size)
        stride, dilation = given.numbers(self.stride, count), given.numbers(self.dilation, count)
        if stride is None or dilation is None or 0 in stride:
            return None
        text = given.text(self.padding)
        if text == "same":
            return tuple(-(-x // s) for x, s in zip(size, stride, strict=True))
        padding = (0,) * count if text == "valid" else given.numbers(self.padding, count)
        if padding is None:
            return None
        reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        if not transposed:
            out = tuple((x + 2 * p - r - 1) // s + 1 for x, p, r, s in zip(size, padding, reach, stride, strict=True))
            return out if min(out) >= 0 else None
        more = given.numbers(self.output_padding, count) or (0,) * count
        return tuple(
            max((x - 1) * s - 2 * p + r + m + 1, 0)
            for x, s, p, r, m in zip(size, stride, padding, reach, more, strict=True)
        )


def _flag(given: Arguments, place: int | bool) -> bool | None:
    """A flag by its place, or as it is."""
    if isinstance(place, bool):
        return place
    return {"True": True, "False": False}.get(given.text(place))


def _convolution_backward(transposed_at: int, mask_at: int) -> Formula:
    """Of gradient, input and weight: as much again as the forward pass for each of the gradients that is wanted."""

    def formula(given: Arguments) -> Cost | None:
        gradient, image, weight = given.shape(0), given.shape(1), given.shape(2)
        space = len(weight) - 2
        transposed = _flag(given, transposed_at)
        wanted = re.findall("True|False", given.text(mask_at))
        if space < 1 or not len(gradient) == len(image) == len(weight) or transposed is None or len(wanted) != 3:
            return None
        products = wanted[:2].count("True")
        positions = (image if transposed else gradient)[2:]
        each = 2 * gradient[0] * prod(positions) * prod(weight)
        return Cost(products * each, products * (prod(gradient) + prod(image) + prod(weight)))

    return formula


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
            query, key, value = (_heads_first(shape) for shape in (query, key, value))
        if min(len(query), len(key), len(value)) < 2 or query[-1] != key[-1] or key[-2] != value[-2]:
            return None
        products = (3 * query[-1] + 2 * value[-1]) if backward else (query[-1] + value[-1])
        out = prod(query[:-1]) * value[-1]
        elements = (prod(query) + prod(key) + prod(value) + out) * (2 if backward else 1)
        return Cost(2 * prod(query[:-1]) * key[-2] * products, elements)

    return formula


def _heads_first(shape: Shape) -> Shape:
    return shape[0], shape[2], shape[1], shape[3]


def _untold(_: Arguments) -> Cost | None:
    return None


# --- the table

_ARGUMENTS_OF_CONVOLUTION: Final = _Convolution(stride=3, padding=4, dilation=5)
_PADDING_FIRST: Final = _Convolution(padding=3, stride=4, dilation=5)

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
        _Convolution(stride=3, padding=4, dilation=5, transposed=6, output_padding=7),
    ),
    # (input, weight, bias, padding, stride, dilation, …)
    **dict.fromkeys(
        ("aten::mkldnn_convolution", "aten::miopen_convolution", "aten::miopen_depthwise_convolution",
         "mkldnn::_convolution_pointwise"), _PADDING_FIRST
    ),
    # (input, weight, padding, stride, dilation, …)
    "aten::cudnn_convolution": _Convolution(padding=2, stride=3, dilation=4),
    # (input, weight, z, alpha, bias, stride, padding, dilation, …)
    **dict.fromkeys(
        ("aten::cudnn_convolution_add_relu", "aten::miopen_convolution_add_relu"),
        _Convolution(stride=5, padding=6, dilation=7),
    ),
    # (input, weight, kernel size, bias, stride, padding, dilation)
    **dict.fromkeys(
        ("aten::_conv_depthwise2d", "aten::conv_depthwise3d", "aten::slow_conv_dilated2d", "aten::slow_conv_dilated3d"),
        _Convolution(stride=4, padding=5, dilation=6),
    ),
    # (input, weight, bias, stride, padding, output padding, groups, dilation)
    **dict.fromkeys(
        ("aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d"),
        _Convolution(stride=3, padding=4, output_padding=5, dilation=7, transposed=True),
    ),
    "aten::cudnn_convolution_transpose": _Convolution(
        padding=2, output_padding=3, stride=4, dilation=5, transposed=True
    ),
    "aten::miopen_convolution_transpose": _Convolution(
        padding=3, output_padding=4, stride=5, dilation=6, transposed=True
    ),
    # (gradient, input, weight, bias sizes, stride, padding, dilation, transposed, output padding, groups, mask)
    "aten::convolution_backward": _convolution_backward(7, 10),
    "aten::convolution_backward_overrideable": _convolution_backward(6, 9),
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
         "flash_attn::_flash_attn_varlen_backward"), _untold
    ),
}  # fmt: skip
"""The operators that we can count, by name without overload."""


def cost(name: str, given: Arguments) -> Cost | None:
    """What a call takes; None where its operator is not in the table or its arguments do not tell."""
    formula = FORMULAS.get(name)
    return None if formula is None else formula(given)
