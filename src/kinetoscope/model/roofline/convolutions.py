"""What convolutions compute and move, forward and backward.

Each element of the weight meets each position of the smaller image once: the output, or of a transposed convolution
the input. So groups and dilation matter only for how large the output is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Final

from kinetoscope.model.roofline.arguments import Arguments, Cost, Entry, Formula, Shape, Tensor, traffic


@dataclass(frozen=True, slots=True)
class Convolution:
    """A formula: the places of a convolution's arguments, after input and weight; those that it does not have are −1.

    `transposed` is a place too, or what the name of the operator says.
    """

    stride: int
    padding: int
    dilation: int
    output_padding: int = -1
    transposed: int | bool = False

    def __call__(self, given: Arguments) -> Cost | None:
        """What a call takes, None where its arguments do not tell."""
        image, weight = given.shape(0), given.shape(1)
        space = len(weight) - 2
        if space < 1 or len(image) - space not in (1, 2) or 0 in weight:
            return None
        batch = image[0] if len(image) == space + 2 else 1
        channels, size = image[-space - 1], image[-space:]
        transposed = _flag(given, self.transposed)
        if transposed is None or channels % weight[0 if transposed else 1]:
            return None
        out = self._output(given, size, weight[2:], transposed=transposed)
        if transposed:
            flop = 2 * batch * prod(size) * prod(weight)
            return self._cost(given, flop, (batch, weight[1], *out) if out else ())
        if out is None:
            return None
        return self._cost(given, 2 * batch * prod(out) * prod(weight), (batch, weight[0], *out))

    def _cost(self, given: Arguments, flop: int, shape: Shape) -> Cost:
        image = given.tensor(0)
        out = Tensor(shape or (0,), None, image.type if image else None)
        return Cost(flop, bytes=traffic(image, given.tensor(1), out), outputs=(out,))

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


def convolution_backward(transposed_at: int, mask_at: int) -> Formula:
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
        once = traffic(given.tensor(0), given.tensor(1), given.tensor(2))
        return Cost(products * each, bytes=None if once is None else products * once)

    return formula


_ARGUMENTS_OF_CONVOLUTION: Final = Convolution(stride=3, padding=4, dilation=5)
_PADDING_FIRST: Final = Convolution(padding=3, stride=4, dilation=5)

_FORMULAS: Final[dict[str, Formula]] = {
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
    # They do compute, but their arguments do not tell how much.
    **dict.fromkeys(
        ("aten::cudnn_convolution_backward_input", "aten::cudnn_convolution_backward_weight",
         "aten::miopen_convolution_backward_input", "aten::miopen_convolution_backward_weight",
         "aten::mkldnn_convolution_backward_input", "aten::mkldnn_convolution_backward_weights"), lambda _: None
    ),
}  # fmt: skip

CONVOLUTIONS: Final = {name: Entry(formula, is_product=True) for name, formula in _FORMULAS.items()}
"""Operators of convolutions, forward and backward."""
