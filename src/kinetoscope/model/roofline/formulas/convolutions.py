"""Formulas of convolutions, forward and backward.

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

from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Need, Shape, Tensor, traffic
from kinetoscope.model.roofline.formulas.family import Family

formula = Family("Convolutions", is_product=True, needs=("algorithm",))

_MAX_KERNEL: Final = 1 << 10
"""Size of a kernel up to which we look which positions each of its elements meets."""


# --- shapes


@dataclass(frozen=True, slots=True)
class Window:
    """Steps of a kernel over one dimension of an image."""

    kernel: int
    stride: int
    padding: int
    dilation: int

    def outputs(self, size: int) -> int:
        """Number of positions in an image of this size, less than 0 where the kernel does not fit."""
        return (size + 2 * self.padding - self.dilation * (self.kernel - 1) - 1) // self.stride + 1

    def met(self, size: int, outputs: int) -> int:
        """Number of positions of an image that the kernel meets, which must be read.

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

_FORWARD: Final[tuple[Need, ...]] = ("backward_args",)
_MKLDNN: Final = {"input": "X", "weight": "W", "bias": "B"}


@formula(
    "conv1d conv2d conv3d _convolution_mode cudnn_convolution miopen_convolution miopen_depthwise_convolution"
    " mkldnn_convolution _mps_convolution _nnpack_spatial_convolution cudnn_convolution_relu miopen_convolution_relu"
    " cudnn_convolution_add_relu miopen_convolution_add_relu _conv_depthwise2d conv_depthwise3d slow_conv_dilated2d"
    " slow_conv_dilated3d _slow_conv2d_forward thnn_conv2d slow_conv3d slow_conv3d_forward",
    needs=_FORWARD,
    transposed=False,
)
@formula(
    "mkldnn::_convolution_pointwise mkldnn::_convolution_pointwise_", needs=_FORWARD, names=_MKLDNN, transposed=False
)
@formula(
    "conv_transpose1d conv_transpose2d conv_transpose3d slow_conv_transpose2d slow_conv_transpose3d"
    " cudnn_convolution_transpose miopen_convolution_transpose",
    needs=_FORWARD,
    transposed=True,
)
@formula("mkldnn::_convolution_transpose_pointwise", needs=_FORWARD, names=_MKLDNN, transposed=True)
@formula("convolution _convolution convolution_overrideable", needs=_FORWARD)
def convolution(given: Arguments, input: Tensor, weight: Tensor, transposed: bool | None) -> Cost | None:
    """The kernel meets each position once; what is added to the result (`bias`, `other`, `z`) is read, too."""
    space = len(weight.shape) - 2
    if transposed is None or 0 in weight.shape or space < 1 or len(input.shape) - space not in (1, 2):
        return None
    leading = input.shape[:-space]
    if leading[-1] % weight.shape[0 if transposed else 1]:
        return None
    filters = weight.shape[1] * (given.integer("groups") or 1) if transposed else weight.shape[0]
    size = input.shape[-space:]
    shape = (*leading[:-1], filters)
    out, met = _spread(given, size, weight) if transposed else _convolved(given, size, weight, shape)
    if out is None:
        return None
    result = input.new((*shape, *out))
    needed = Tensor((*leading, *met), input.strides, input.type)  # strides tell only which dimensions are expanded
    moved = traffic(needed, weight, *(given.tensor(name) for name in ("bias", "other", "z")), result)
    positions = prod(leading[:-1]) * prod(size if transposed else out)
    return _by_algorithm(given, Cost(2 * positions * prod(weight.shape), bytes=moved, outputs=(result,)))


def _convolved(given: Arguments, size: Shape, weight: Tensor, shape: Shape) -> tuple[Shape | None, Shape]:
    """Size of the output and of the part of the image that is needed.

    Without a recorded stride the output is as large as what `backward_args` begin with, if that can be it.
    """
    kernel = weight.shape[2:]
    windows = _windows(given, kernel)
    if windows is not None:
        if given.text("padding") == "same":
            return tuple(-(-x // each.stride) for x, each in zip(size, windows, strict=True)), size
        out = tuple(each.outputs(x) for x, each in zip(size, windows, strict=True))
        met = tuple(each.met(x, y) for x, y, each in zip(size, out, windows, strict=True))
        return (out if min(out) >= 0 else None), met
    result = given.backward_args.shape(0) if given.backward_args is not None else ()
    if result[: len(shape)] != shape or len(result) != len(shape) + len(size):
        return None, size
    out = result[len(shape) :]
    return out, tuple(min(x, y * k) for x, y, k in zip(size, out, kernel, strict=True))


def _spread(given: Arguments, size: Shape, weight: Tensor) -> tuple[Shape | None, Shape]:
    """Size of the output of a transposed convolution; it needs the whole image."""
    windows = _windows(given, weight.shape[2:])
    more = given.numbers("output_padding", len(size)) or (0,) * len(size)
    if windows is None:
        return None, size
    out = (
        (x - 1) * each.stride - 2 * each.padding + each.dilation * (each.kernel - 1) + extra + 1
        for x, each, extra in zip(size, windows, more, strict=True)
    )
    return tuple(max(x, 0) for x in out), size


def _windows(given: Arguments, kernel: Shape) -> tuple[Window, ...] | None:
    """The window of each dimension; None where it was not recorded. Padding by name is left out."""
    count = len(kernel)
    strides = given.numbers("stride", count)
    dilations = given.numbers("dilation", count) if "dilation" in given.places else (1,) * count
    paddings = (0,) * count if given.text("padding") in ("same", "valid") else given.numbers("padding", count)
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


_UNKNOWN_MASKS: Final = ((True, False, False), (False, True, False), (True, True, True))
"""What may be wanted: a convolution that is run backward has a gradient of its image or of its weight at least."""


@formula("convolution_backward convolution_backward_overrideable")
def convolution_backward(
    given: Arguments, grad_output: Tensor, input: Tensor, weight: Tensor, transposed: bool | None, output_mask: str
) -> Cost | None:
    """Gradients of image, weight and bias; where the file does not say which are wanted, one or both."""
    mask = [text == "True" for text in re.findall("True|False", output_mask)]
    if len(mask) == 3:
        wanted = (mask[0], mask[1], mask[2])
        return _by_algorithm(given, _gradients(grad_output, input, weight, wanted, transposed))
    ends = [_gradients(grad_output, input, weight, wanted, transposed) for wanted in _UNKNOWN_MASKS]
    costs = [end for end in ends if end is not None]
    if len(costs) < len(ends):
        return None
    moved = [end.bytes for end in costs if end.bytes is not None]
    least, most = (min(moved), max(moved)) if len(moved) == len(costs) else (None, None)
    return _by_algorithm(given, Cost(costs[0].flop, bytes=least, flop_most=costs[-1].flop, bytes_most=most))


_ONE_GRADIENT: Final[tuple[Need, ...]] = ("parent_op",)


@formula(
    "cudnn_convolution_backward_input miopen_convolution_backward_input miopen_depthwise_convolution_backward_input"
    " mkldnn_convolution_backward_input",
    needs=_ONE_GRADIENT,
    of_image=True,
)
@formula(
    "cudnn_convolution_backward_weight miopen_convolution_backward_weight miopen_depthwise_convolution_backward_weight"
    " mkldnn_convolution_backward_weights",
    needs=_ONE_GRADIENT,
    of_image=False,
)
@formula(
    "cudnn_convolution_transpose_backward_input miopen_convolution_transpose_backward_input",
    needs=_ONE_GRADIENT,
    of_image=True,
    transposed=True,
)
@formula(
    "cudnn_convolution_transpose_backward_weight miopen_convolution_transpose_backward_weight",
    needs=_ONE_GRADIENT,
    of_image=False,
    transposed=True,
)
def one_gradient(given: Arguments, of_image: bool, transposed: bool = False) -> Cost | None:
    """A gradient by an operator of its own, as torch had until 1.10: (size, gradient, other factor, …).

    The operator around it has image, gradient and weight; the size that the result has is not recorded.
    """
    around = given.parent_op
    if around is None:
        return None
    wanted = (of_image, not of_image, False)
    cost = _gradients(around.tensor(1), around.tensor(0), around.tensor(2), wanted, transposed)
    return _by_algorithm(given, cost)


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


def _by_algorithm(given: Arguments, cost: Cost | None) -> Cost | None:
    """A cost with the operations that the algorithm that ran needs at least."""
    return None if cost is None else replace(cost, reduced_flop=_reduced(cost.flop, given.algorithm))
