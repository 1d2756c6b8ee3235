"""What convolutions compute and move, forward and backward.

Each element of the weight meets each position of the smaller image once: the output, or of a transposed convolution
the input. So groups and dilation matter only for how large the output is. Positions in the padding count, as torch's
`FlopCounterMode` counts them. Winograd's algorithm needs fewer operations: they count as those of the direct one, and
what is left of them is the least that the call takes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Entry, Formula, Need, Shape, Tensor, traffic

NOWHERE: Final = -1
"""The place of an argument that an operator does not have."""

_MAX_KERNEL: Final = 1 << 10
"""Size of a kernel up to which we look which positions each of its elements meets."""


# --- shapes


@dataclass(frozen=True, slots=True)
class Window:
    """How a kernel moves over one dimension of an image."""

    kernel: int
    stride: int
    padding: int
    dilation: int

    def outputs(self, size: int) -> int:
        """How many positions it takes in an image of this size, less than 0 where it does not fit."""
        return (size + 2 * self.padding - self.dilation * (self.kernel - 1) - 1) // self.stride + 1

    def met(self, size: int, outputs: int) -> int:
        """How many positions of an image the kernel meets, which is what must be read.

        Of a dilated kernel that moves by more than 1 it is what one element meets: the least that it can be.
        """
        reach = self.dilation * (self.kernel - 1)
        if (self.dilation == 1 and self.kernel >= self.stride) or (self.stride == 1 and outputs >= self.dilation):
            return max(min((outputs - 1) * self.stride + reach + 1 - self.padding, size), 0)
        if self.kernel > _MAX_KERNEL:
            return size
        starts = (self.dilation * place - self.padding for place in range(self.kernel))
        met = [
            max(min(outputs - 1, (size - 1 - start) // self.stride) - max(-(start // self.stride), 0) + 1, 0)
            for start in starts
        ]  # by each element of the kernel
        return min(sum(met) if 1 in (self.dilation, self.stride) else max(met), size)


# --- forward


@dataclass(frozen=True, slots=True)
class Convolution:
    """A formula: the places of a convolution's arguments.

    Attributes:
        stride, padding, dilation, output_padding, groups: of what sets the size of the output; `groups` is needed only
            where the convolution can be transposed.
        transposed: a place too, or what the name of the operator says.
        image, weight: of these.
        read: of what is read besides them: the bias, or what is added.
    """

    stride: int
    padding: int
    dilation: int = NOWHERE
    output_padding: int = NOWHERE
    groups: int = NOWHERE
    transposed: int | bool = False
    image: int = 0
    weight: int = 1
    read: tuple[int, ...] = (2,)

    def __call__(self, given: Arguments) -> Cost | None:
        """What a call takes, None where its arguments do not tell."""
        image, weight = given.tensor(self.image), given.tensor(self.weight)
        transposed = self.transposed if isinstance(self.transposed, bool) else given.flag(self.transposed)
        if image is None or weight is None or transposed is None or 0 in weight.shape:
            return None
        space = len(weight.shape) - 2
        if space < 1 or len(image.shape) - space not in (1, 2):
            return None
        leading = image.shape[:-space]
        if leading[-1] % weight.shape[0 if transposed else 1]:
            return None
        filters = weight.shape[1] * (given.integer(self.groups) or 1) if transposed else weight.shape[0]
        size = image.shape[-space:]
        shape = (*leading[:-1], filters)
        out, met = self._spread(given, size, weight) if transposed else self._convolved(given, size, weight, shape)
        if out is None:
            return None
        result = Tensor((*shape, *out), None, image.type)
        needed = Tensor((*leading, *met), image.strides, image.type)  # strides tell only which dimensions are expanded
        moved = traffic(needed, weight, *(given.tensor(place) for place in self.read), result)
        positions = prod(leading[:-1]) * prod(size if transposed else out)
        return Cost(2 * positions * prod(weight.shape), bytes=moved, outputs=(result,))

    def _convolved(self, given: Arguments, size: Shape, weight: Tensor, shape: Shape) -> tuple[Shape | None, Shape]:
        """Size of the output and of the part of the image that is needed.

        Without a recorded stride the output is as large as what `twin` begins with, if that can be it.
        """
        kernel = weight.shape[2:]
        windows = self._windows(given, kernel)
        if windows is not None:
            if given.text(self.padding) == "same":
                return tuple(-(-x // each.stride) for x, each in zip(size, windows, strict=True)), size
            out = tuple(each.outputs(x) for x, each in zip(size, windows, strict=True))
            met = tuple(each.met(x, y) for x, y, each in zip(size, out, windows, strict=True))
            return (out if min(out) >= 0 else None), met
        result = given.twin.shape(0) if given.twin is not None else ()
        if result[: len(shape)] != shape or len(result) != len(shape) + len(size):
            return None, size
        out = result[len(shape) :]
        return out, tuple(min(x, y * k) for x, y, k in zip(size, out, kernel, strict=True))

    def _spread(self, given: Arguments, size: Shape, weight: Tensor) -> tuple[Shape | None, Shape]:
        """Size of the output of a transposed convolution; it needs the whole image."""
        windows = self._windows(given, weight.shape[2:])
        more = given.numbers(self.output_padding, len(size)) or (0,) * len(size)
        if windows is None:
            return None, size
        out = (
            (x - 1) * each.stride - 2 * each.padding + each.dilation * (each.kernel - 1) + extra + 1
            for x, each, extra in zip(size, windows, more, strict=True)
        )
        return tuple(max(x, 0) for x in out), size

    def _windows(self, given: Arguments, kernel: Shape) -> tuple[Window, ...] | None:
        """How the kernel moves in each dimension; None where that was not recorded. Padding by name is left out."""
        count = len(kernel)
        strides, dilations = given.numbers(self.stride, count), (1,) * count
        if self.dilation != NOWHERE:
            dilations = given.numbers(self.dilation, count) or ()
        paddings = (0,) * count if given.text(self.padding) in ("same", "valid") else given.numbers(self.padding, count)
        if not strides or not dilations or paddings is None or min(*strides, *dilations) < 1 or min(paddings) < 0:
            return None
        return tuple(Window(*each) for each in zip(kernel, strides, paddings, dilations, strict=True))


# --- backward


def _gradients(
    gradient: Tensor | None,
    image: Tensor | None,
    weight: Tensor | None,
    wanted: tuple[bool, bool, bool],
    transposed: bool | None,
) -> Cost | None:
    """As many operations as the forward pass for each of the gradients of image and weight that is wanted.

    wanted: gradients of image, weight, bias. transposed: None if unknown; then it is the smaller image that the kernel
    moves over, as strides are 1 or more.
    """
    if gradient is None or image is None or weight is None:
        return None
    if not 3 <= len(weight.shape) == len(image.shape) == len(gradient.shape):
        return None
    sizes = (prod(image.shape[2:]), prod(gradient.shape[2:]))
    positions = min(sizes) if transposed is None else sizes[0 if transposed else 1]
    of_image, of_weight, of_bias = wanted
    written = [
        Tensor(shape, None, gradient.type)
        for shape, is_wanted in ((image.shape, of_image), (weight.shape, of_weight), (gradient.shape[1:2], of_bias))
        if is_wanted
    ]
    needed = _kernel_reach(image, gradient, weight) if of_weight and not transposed else image
    read = [gradient, *([weight] if of_image else []), *([needed] if of_weight else [])]
    flop = 2 * gradient.shape[0] * positions * prod(weight.shape) * (of_image + of_weight)
    return Cost(flop, bytes=traffic(*read, *written), outputs=tuple(written))


def _kernel_reach(image: Tensor, out: Tensor, weight: Tensor) -> Tensor:
    """The part of an image that a convolution needs at most, by the size of its output: each position the kernel."""
    met = (min(x, y * k) for x, y, k in zip(image.shape[2:], out.shape[2:], weight.shape[2:], strict=True))
    return Tensor((*image.shape[:2], *met), image.strides, image.type)


def _backward(transposed_at: int, mask_at: int) -> Formula:
    """(gradient, image, weight, …); where the file does not say which gradients are wanted, one or both."""

    def formula(given: Arguments) -> Cost | None:
        tensors = given.tensor(0), given.tensor(1), given.tensor(2)
        transposed = given.flag(transposed_at)
        mask = [text == "True" for text in re.findall("True|False", given.text(mask_at))]
        if len(mask) == 3:
            return _gradients(*tensors, (mask[0], mask[1], mask[2]), transposed)
        ends = [_gradients(*tensors, wanted, transposed) for wanted in _UNKNOWN_MASKS]
        costs = [end for end in ends if end is not None]
        if len(costs) < len(ends):
            return None
        moved = [end.bytes for end in costs if end.bytes is not None]
        least, most = (min(moved), max(moved)) if len(moved) == len(costs) else (None, None)
        return Cost(costs[0].flop, bytes=least, flop_most=costs[-1].flop, bytes_most=most)

    return formula


_UNKNOWN_MASKS: Final = ((True, False, False), (False, True, False), (True, True, True))
"""What may be wanted: a convolution that is run backward has a gradient of its image or of its weight at least."""


def _backward_of(part: str, *, transposed: bool = False) -> Formula:
    """A gradient by an operator of its own, as torch had until 1.10: (size, gradient, other factor, …).

    The operator around it has image, gradient and weight; the size that the result has is not recorded.
    """
    wanted = (part == "image", part == "weight", False)

    def formula(given: Arguments) -> Cost | None:
        if given.outer is None:
            return None
        gradient = given.outer.tensor(1)
        return _gradients(gradient, given.outer.tensor(0), given.outer.tensor(2), wanted, transposed)

    return formula


# --- algorithms

_TILE: Final = re.compile(r"(?P<tile>4x4|9x9_5x5)|_f(?P<outputs>\d)x(?P<kernel>\d)")
"""What names of Winograd's kernels say of their tiles, in cuDNN and in MIOpen."""

_TILES: Final = {"4x4": (4, 3), "9x9_5x5": (5, 5)}
"""Outputs and kernel of a tile by the names of cuDNN; its fused kernels compute 2 × 2 outputs of a kernel of 3 × 3."""


def _reduced(flop: int, kernel: str) -> int | None:
    """Operations at least by the name of a kernel of Winograd's algorithm or of one by FFT; None for any other.

    A tile of m × m outputs of a kernel of r × r takes (m + r − 1)² multiplications instead of (m · r)² (Lavin and Gray,
    2015). By FFT nothing limits them that the shapes would tell.
    """
    if not kernel or "fft" in kernel.lower():
        return 0 if kernel else None
    tile = _TILE.search(kernel)
    outputs, size = (2, 3) if tile is None else _TILES.get(tile["tile"]) or (int(tile["outputs"]), int(tile["kernel"]))
    return flop * (outputs + size - 1) ** 2 // max(outputs * size, 1) ** 2 if outputs and size else 0


def _entry(formula: Formula, *needs: Need) -> Entry:
    """An entry that asks for the algorithm, besides what the formula needs."""

    def cost(given: Arguments) -> Cost | None:
        direct = formula(given)
        return None if direct is None else replace(direct, reduced_flop=_reduced(direct.flop, given.algorithm))

    return Entry(cost, is_product=True, needs=("algorithm", *needs))


# --- the table

_INPUT_FIRST: Final = Convolution(stride=3, padding=4, dilation=5)
_PADDING_FIRST: Final = Convolution(padding=3, stride=4, dilation=5)
_WITH_KERNEL_SIZE: Final = Convolution(stride=4, padding=5, dilation=6, read=(3,))


def _pointwise(given: Arguments) -> Cost | None:
    """`mkldnn::_convolution_pointwise`: with what is added (input, other, weight, bias, …), else (input, weight, …)."""
    if len(given.shape(2)) > 1:
        return Convolution(padding=4, stride=5, dilation=6, weight=2, read=(1, 3))(given)
    return _PADDING_FIRST(given)


_FORWARD: Final[dict[str, Formula]] = {
    # (input, weight, bias, stride, padding, dilation, …)
    **dict.fromkeys(
        ("aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::_convolution_mode", "aten::cudnn_convolution_relu",
         "aten::miopen_convolution_relu"), _INPUT_FIRST
    ),
    # (input, weight, bias, stride, padding, dilation, transposed, output padding, groups, …)
    **dict.fromkeys(
        ("aten::convolution", "aten::_convolution", "aten::convolution_overrideable"),
        Convolution(stride=3, padding=4, dilation=5, transposed=6, output_padding=7, groups=8),
    ),
    # (input, weight, bias, padding, stride, dilation, …)
    **dict.fromkeys(
        ("aten::mkldnn_convolution", "aten::miopen_convolution", "aten::miopen_depthwise_convolution",
         "aten::_mps_convolution"), _PADDING_FIRST
    ),
    "aten::_nnpack_spatial_convolution": Convolution(padding=3, stride=4),
    "mkldnn::_convolution_pointwise": _pointwise,
    "mkldnn::_convolution_pointwise_": Convolution(padding=4, stride=5, dilation=6, image=1, weight=2, read=(0, 3)),
    # (input, weight, padding, stride, dilation, …)
    "aten::cudnn_convolution": Convolution(padding=2, stride=3, dilation=4, read=()),
    # (input, weight, z, alpha, bias, stride, padding, dilation, …)
    **dict.fromkeys(
        ("aten::cudnn_convolution_add_relu", "aten::miopen_convolution_add_relu"),
        Convolution(stride=5, padding=6, dilation=7, read=(2, 4)),
    ),
    # (input, weight, kernel size, bias, stride, padding[, dilation])
    **dict.fromkeys(
        ("aten::_conv_depthwise2d", "aten::conv_depthwise3d", "aten::slow_conv_dilated2d", "aten::slow_conv_dilated3d"),
        _WITH_KERNEL_SIZE,
    ),
    **dict.fromkeys(
        ("aten::_slow_conv2d_forward", "aten::thnn_conv2d", "aten::slow_conv3d", "aten::slow_conv3d_forward"),
        Convolution(stride=4, padding=5, read=(3,)),
    ),
    # (input, weight, bias, stride, padding, output padding, groups, dilation)
    **dict.fromkeys(
        ("aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d"),
        Convolution(stride=3, padding=4, output_padding=5, groups=6, dilation=7, transposed=True),
    ),
    # (input, weight, kernel size, bias, stride, padding, output padding, dilation)
    **dict.fromkeys(
        ("aten::slow_conv_transpose2d", "aten::slow_conv_transpose3d"),
        Convolution(stride=4, padding=5, output_padding=6, dilation=7, transposed=True, read=(3,)),
    ),
    "aten::cudnn_convolution_transpose": Convolution(
        padding=2, output_padding=3, stride=4, dilation=5, groups=6, transposed=True, read=()
    ),
    **dict.fromkeys(
        ("aten::miopen_convolution_transpose", "mkldnn::_convolution_transpose_pointwise"),
        Convolution(padding=3, output_padding=4, stride=5, dilation=6, groups=7, transposed=True),
    ),
}  # fmt: skip

_BACKWARD: Final[dict[str, Formula]] = {
    # (gradient, input, weight, bias sizes, stride, padding, dilation, transposed, output padding, groups, mask)
    "aten::convolution_backward": _backward(7, 10),
    "aten::convolution_backward_overrideable": _backward(6, 9),
}

_ONE_GRADIENT: Final[dict[str, Formula]] = {
    **dict.fromkeys(
        (f"aten::{name}_convolution_backward_input" for name in ("cudnn", "miopen", "miopen_depthwise", "mkldnn")),
        _backward_of("image"),
    ),
    **dict.fromkeys(
        ("aten::cudnn_convolution_backward_weight", "aten::miopen_convolution_backward_weight",
         "aten::miopen_depthwise_convolution_backward_weight", "aten::mkldnn_convolution_backward_weights"),
        _backward_of("weight"),
    ),
    **{
        f"aten::{library}_convolution_transpose_backward_{operand}": _backward_of(part, transposed=True)
        for library in ("cudnn", "miopen")
        for operand, part in (("input", "image"), ("weight", "weight"))
    },
}  # fmt: skip

CONVOLUTIONS: Final = {
    **{name: _entry(formula, "twin") for name, formula in _FORWARD.items()},
    **{name: _entry(formula) for name, formula in _BACKWARD.items()},
    **{name: _entry(formula, "outer") for name, formula in _ONE_GRADIENT.items()},
}
"""Operators of convolutions, forward and backward."""
