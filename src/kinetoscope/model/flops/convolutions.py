"""How many floating-point operations a convolution takes, forward and backward.

Each element of the weight meets each position of the smaller image once: the output, or of a transposed convolution
the input. So groups and dilation matter only for how large the output is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from kinetoscope.model.flops.arguments import Arguments, Cost, Formula, Shape


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
            written = batch * weight[1] * prod(out) if out else 0
            return Cost(2 * batch * prod(size) * prod(weight), prod(image) + prod(weight) + written)
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
        return Cost(products * each, products * (prod(gradient) + prod(image) + prod(weight)))

    return formula
