"""Formulas of reductions, scans, pooling and resampling: the input is read once, the result written once."""

from __future__ import annotations

from math import prod
from typing import Final, Literal

from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Shape, Tensor, traffic
from kinetoscope.model.roofline.formulas.elementwise import Elementwise
from kinetoscope.model.roofline.formulas.family import Family
from kinetoscope.model.roofline.formulas.result_types import (
    BOOL,
    COMPLEX,
    COMPLEX_DOUBLE,
    FLOAT,
    INT64,
    as_float,
    broadcast,
    category,
)
from kinetoscope.model.roofline.formulas.streams import streamed, streaming
from kinetoscope.model.trace.element_types import ElementType

formula = Family("Reductions, pooling, resampling")

Output = Literal["same", "sum", "float", "bool", "index"]
"""The type of a result: of the input, of sums (integers become int64), never an integer, a truth value, an index."""


@formula("sum nansum prod", outputs=("sum",))
@formula("mean", outputs=("float",))
@formula("linalg_vector_norm norm", outputs=("float",), operations=2)
@formula("var std", outputs=("float",), operations=4)
@formula("var_mean std_mean", outputs=("float", "float"), operations=4)
@formula("any all", outputs=("bool",))
@formula("amax amin", outputs=("same",))
@formula("aminmax", outputs=("same", "same"))
@formula("logsumexp", outputs=("float",), operations=3)
@formula("count_nonzero argmax argmin", outputs=("index",))
@formula("median nanmedian mode kthvalue", outputs=("same", "index"))
def reduction(
    given: Arguments, input: Tensor, dtype: ElementType | None, outputs: tuple[Output, ...], operations: int = 1
) -> Cost:
    """The input read, results written, the first of them in the type that was asked for.

    Selections such as `median` read at least that much.
    """
    flop = operations * input.elements
    shape = _reduced(given, input.shape)
    kinds = [_type(input.type, each) for each in outputs]
    kinds[0] = dtype or kinds[0]
    if shape is not None:
        return streamed(input, out=tuple(Tensor(shape, None, kind) for kind in kinds), flop=flop)
    most = traffic(input, *(Tensor(input.shape, None, kind) for kind in kinds))
    return Cost(vector_flop=flop, bytes=traffic(input), bytes_most=most)


@formula("max min")
def extreme(given: Arguments, input: Tensor, other: Tensor | None) -> Cost | None:
    """The greater of two tensors, the greatest of all, or the greatest along a dimension with its index."""
    if other is not None:
        return Elementwise(2)(given)
    return reduction(given, input, None, ("same", "index") if "dim" in given.places else ("same",))


def _reduced(given: Arguments, shape: Shape) -> Shape | None:
    """The shape of the result, None where it was not recorded which dimensions are reduced."""
    if "dim" not in given.places or not shape:
        return ()
    if not given.concrete:
        place = next((each for each in reversed(given.values) if isinstance(each, Tensor)), None)
        return place.shape if place is not None and place is not given.values[0] else None
    dimensions = {each % len(shape) for each in given.integers("dim")} or set(range(len(shape)))
    keepdim = given.flag("keepdim") is True
    return tuple(1 if k in dimensions else size for k, size in enumerate(shape) if keepdim or k not in dimensions)


def _type(kind: ElementType | None, output: Output) -> ElementType | None:
    if output == "index":
        return INT64
    if output == "bool":
        return BOOL
    if output == "sum":
        return INT64 if kind is not None and category(kind) < 2 else kind
    return as_float(kind) if output == "float" else kind


@formula("cumsum cumprod cumsum_ cumprod_", outputs=("sum",))
@formula("logcumsumexp _logcumsumexp", outputs=("float",))
@formula("cummax cummin _cummax_helper _cummin_helper", outputs=("same", "index"))
def scan(input: Tensor, dtype: ElementType | None, outputs: tuple[Output, ...]) -> Cost:
    """A running sum or extreme along a dimension."""
    out = tuple(Tensor(input.shape, None, dtype or _type(input.type, each)) for each in outputs)
    return streamed(input, out=out, flop=input.elements)


# --- windows


@formula("avg_pool1d", dimensions=1)
@formula("avg_pool2d", dimensions=2)
@formula("avg_pool3d", dimensions=3)
@formula("max_pool2d_with_indices", dimensions=2, indices=True)
@formula("max_pool3d_with_indices", dimensions=3, indices=True)
def pooling(given: Arguments, input: Tensor, dimensions: int, indices: bool = False) -> Cost | None:
    """Windows of the last dimensions; where they were not recorded, at least the input is read."""
    if len(input.shape) < dimensions:
        return None
    image = input.shape[-dimensions:]
    size = _pooled(given, image)
    if size is None:
        return Cost(vector_flop=input.elements, bytes=traffic(input), is_least=True)
    window = given.numbers("kernel_size", dimensions) or size
    met = prod(min(x, y * k) for x, y, k in zip(image, size, window, strict=True))
    return _windows(input, size, met, indices=indices)


def _pooled(given: Arguments, image: Shape) -> Shape | None:
    """Number of windows in each dimension of an image; None where they were not recorded."""
    count = len(image)
    window = given.numbers("kernel_size", count)
    if window is None:
        return None
    stride = given.numbers("stride", count) or window
    padding = given.numbers("padding", count) or (0,) * count
    dilation = given.numbers("dilation", count) or (1,) * count
    if 0 in stride:
        return None
    ceiling = given.flag("ceil_mode") is True
    sizes = []
    for x, k, s, p, d in zip(image, window, stride, padding, dilation, strict=True):
        room = x + 2 * p - d * (k - 1) - 1
        size = (-(-room // s) if ceiling else room // s) + 1
        sizes.append(max(0, size - ((size - 1) * s >= x + p and ceiling)))
    return tuple(sizes)


def _windows(input: Tensor, size: Shape, met: int, *, indices: bool = False, operations: int = 1) -> Cost:
    """Results of this size in the last dimensions written; of each image so many elements read that windows meet."""
    leading = input.shape[: len(input.shape) - len(size)]
    needed, out = input.new((*leading, met)), input.new((*leading, *size))
    flop = operations * max(input.elements, out.elements)
    read = needed if needed.elements < input.distinct else input
    return streamed(read, out=(out, Tensor(out.shape, None, INT64)) if indices else out, flop=flop)


_RESAMPLING: Final[dict[str, tuple[int, int, int]]] = {
    "upsample_nearest1d": (1, 0, 1), "upsample_nearest2d": (2, 0, 1), "upsample_nearest3d": (3, 0, 1),
    "_upsample_nearest_exact1d": (1, 0, 1), "_upsample_nearest_exact2d": (2, 0, 1), "upsample_linear1d": (1, 3, 2),
    "upsample_bilinear2d": (2, 7, 4), "_upsample_bilinear2d_aa": (2, 7, 0), "upsample_trilinear3d": (3, 15, 8),
    "upsample_bicubic2d": (2, 35, 16), "_upsample_bicubic2d_aa": (2, 35, 0),
}  # fmt: skip
"""Dimensions, operations an element of the result, and elements of the input that it is made of (0: by the scale)."""


@formula("_adaptive_avg_pool2d", dimensions=2)
@formula("_adaptive_avg_pool3d", dimensions=3)
@formula("adaptive_max_pool2d", dimensions=2, indices=True)
@formula("adaptive_max_pool3d", dimensions=3, indices=True)
def resized(
    given: Arguments, input: Tensor, dimensions: int, operations: int = 1, taps: int = 0, indices: bool = False
) -> Cost | None:
    """Resampling or pooling to a size; where that was not recorded, at least what must be read.

    taps: elements of the input that each of the result is made of; 0: all of them are used.
    """
    if len(input.shape) <= dimensions:
        return None
    size = given.numbers("output_size", dimensions)
    if size is None or min(size) < 0:
        return Cost(vector_flop=input.elements, bytes=traffic(input) if not taps else 0, is_least=True)
    whole = prod(input.shape[-dimensions:])
    met = min(whole, taps * prod(size)) if taps else whole
    return _windows(input, size, met, indices=indices, operations=operations)


def resized_backward(given: Arguments, grad_output: Tensor, dimensions: int, operations: int) -> Cost:
    """The gradient read, that of an input of the recorded size written."""
    size = given.numbers("input_size", dimensions + 2)
    flop = operations * grad_output.elements
    if size is None or min(size) < 0:
        return Cost(vector_flop=flop, bytes=traffic(grad_output), is_least=True)
    return streamed(grad_output, out=grad_output.new(size), flop=flop)


for _name, (_dimensions, _operations, _taps) in _RESAMPLING.items():
    formula(_name, dimensions=_dimensions, operations=_operations, taps=_taps)(resized)
    formula(f"{_name}_backward", dimensions=_dimensions, operations=_operations)(resized_backward)


@formula("grid_sampler_2d grid_sampler_3d")
def grid_sampler(input: Tensor, grid: Tensor) -> Cost | None:
    """An element of the result for each place of the grid; what it reads of the image is unknown."""
    if not len(input.shape) == len(grid.shape) > 2:
        return None
    out = input.new((*input.shape[:2], *grid.shape[1:-1]))
    least = traffic(grid, out)
    most = None if least is None or input.bytes is None else least + input.bytes
    return Cost(vector_flop=7 * out.elements, bytes=least, bytes_most=most, outputs=(out,))


@formula("_fft_c2c", kind="c2c")
@formula("_fft_r2c", kind="r2c")
@formula("_fft_c2r", kind="c2r")
def fft(
    input: Tensor, dim: Shape, onesided: bool | None, last_dim_size: int | None, kind: Literal["c2c", "r2c", "c2r"]
) -> Cost | None:
    """Fourier transforms of complex (c) or real (r) numbers: 5 n log₂ n operations, with real ones half as many."""
    if not input.shape:
        return None
    dimensions = [each % len(input.shape) for each in dim]
    if not dimensions:
        return Cost(bytes=traffic(input), is_least=True)
    shape, last = list(input.shape), dimensions[-1]
    if kind == "r2c" and onesided is not False:
        shape[last] = shape[last] // 2 + 1
    elif kind == "c2r":
        shape[last] = max(0, last_dim_size or 0)
    is_double = input.type is not None and input.type.name in ("float64", "complex128")
    types = (ElementType("float64", 8, "fp64"), COMPLEX_DOUBLE) if is_double else (FLOAT, COMPLEX)
    out = Tensor(tuple(shape), None, types[kind != "c2r"])
    size = prod((out if kind == "c2r" else input).shape[each] for each in set(dimensions))
    n = max(input.elements, out.elements)
    return streamed(input, out=out, flop=5 * n * max(1, size - 1).bit_length() // (1 if kind == "c2c" else 2))


@formula("_cdist_forward")
def cdist(x1: Tensor, x2: Tensor) -> Cost | None:
    """The distance of each row of one matrix to each of another."""
    if min(len(x1.shape), len(x2.shape)) < 2:
        return None
    batch = broadcast(x1.shape[:-2], x2.shape[:-2])
    if batch is None:
        return None
    out = x1.new((*batch, x1.shape[-2], x2.shape[-2]))
    return streamed(x1, x2, out=out, flop=3 * out.elements * x1.shape[-1])


@formula("im2col")
def im2col(given: Arguments, input: Tensor) -> Cost | None:
    """Windows side by side."""
    window, *rest = (given.numbers(name, 2) for name in ("kernel_size", "dilation", "padding", "stride"))
    if window is None or None in rest or len(input.shape) < 3 or min(window) < 1:
        return None
    size = _pooled(given, input.shape[-2:])
    if size is None:
        return None
    return streamed(input, out=input.new((*input.shape[:-3], input.shape[-3] * prod(window), prod(size))))


@formula("col2im")
def col2im(given: Arguments, input: Tensor) -> Cost | None:
    """Columns added up to an image of the recorded size."""
    size, window = given.numbers("output_size", 2), given.numbers("kernel_size", 2)
    if size is None or window is None or len(input.shape) < 2 or min(size) < 0 or min(window) < 1:
        return None
    out = input.new((*input.shape[:-2], input.shape[-2] // prod(window), *size))
    return streamed(input, out=out, flop=input.elements)


formula(
    "avg_pool2d_backward avg_pool3d_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward"
    " reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward replication_pad1d_backward"
    " replication_pad2d_backward replication_pad3d_backward",
    written="input",
    read="grad_output",
)(streaming)
formula(
    "max_pool2d_with_indices_backward max_pool3d_with_indices_backward adaptive_max_pool2d_backward"
    " adaptive_max_pool3d_backward",
    written="input",
    read="grad_output indices",
)(streaming)
formula("grid_sampler_2d_backward grid_sampler_3d_backward", written="grid input", read="grad_output grid",
        operations=7)(streaming)  # fmt: skip
