"""What reductions, scans, pooling and resampling compute and move: the input read once, the result written once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Final, Literal

from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Entry, Formula, Shape, Tensor, traffic
from kinetoscope.model.roofline.formulas.elementwise import Elementwise
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
from kinetoscope.model.roofline.formulas.streams import StreamedArguments
from kinetoscope.model.trace.element_types import ElementType

Output = Literal["same", "sum", "float", "bool", "index"]
"""The type of a result: of the input, of sums (integers become int64), never an integer, a truth value, an index."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """A formula.

    Attributes:
        outputs: types of the results.
        dimensions: place of the dimensions that are reduced.
        keep: place of the flag that keeps them with size 1.
        type: place of the type of the result; −1 for none.
        operations: an element of the input.
        whole: arguments, at most, of the form that reduces everything.
        elementwise: does it compare two tensors where the second argument is one?
    """

    outputs: tuple[Output, ...] = ("same",)
    dimensions: int = 1
    keep: int = 2
    type: int = -1
    operations: int = 1
    whole: int = 1
    elementwise: bool = False

    def __call__(self, given: Arguments) -> Cost | None:
        """What a call takes, None where its arguments do not tell."""
        source = given.tensor(0)
        if source is None:
            return None
        if self.elementwise and given.tensor(1) is not None and len(given.values) <= 3:
            return Elementwise(2)(given)
        flop, read = self.operations * source.elements, traffic(source)
        shape = self._shape(given, source.shape)
        asked = given.scalar_type(min(self.type, len(given.values) - 1)) if self.type >= 0 else None
        kinds = [
            asked if asked is not None and place == 0 else _type(source.type, each)
            for place, each in enumerate(self.outputs)
        ]
        if shape is None:
            most = traffic(*(Tensor(source.shape, None, kind) for kind in kinds))
            return Cost(
                vector_flop=flop, bytes=read, bytes_most=None if None in (read, most) else (read or 0) + (most or 0)
            )
        if self.elementwise and len(given.values) <= self.whole:
            kinds = kinds[:1]  # `max(x)` has no index
        outputs = tuple(Tensor(shape, None, kind) for kind in kinds)
        return Cost(vector_flop=flop, bytes=traffic(source, *outputs), outputs=outputs)

    def _shape(self, given: Arguments, shape: Shape) -> Shape | None:
        """The shape of the result, None where it was not recorded which dimensions are reduced."""
        if len(given.values) <= self.whole or not shape:
            return ()
        if not given.concrete:
            place = next((each for each in reversed(given.values) if isinstance(each, Tensor)), None)
            return place.shape if place is not None and place is not given.values[0] else None
        reduced = {each % len(shape) for each in given.integers(self.dimensions)} or set(range(len(shape)))
        kept = given.flag(self.keep) is True
        return tuple(1 if k in reduced else size for k, size in enumerate(shape) if kept or k not in reduced)


def _type(kind: ElementType | None, output: Output) -> ElementType | None:
    if output == "index":
        return INT64
    if output == "bool":
        return BOOL
    if output == "sum":
        return INT64 if kind is not None and category(kind) < 2 else kind
    return as_float(kind) if output == "float" else kind


def _scan(output: Output, *, indices: bool = False) -> Formula:
    """A running sum or extreme along a dimension."""

    def formula(given: Arguments) -> Cost | None:
        source = given.tensor(0)
        if source is None:
            return None
        outputs = tuple(
            Tensor(source.shape, None, given.scalar_type(2) or _type(source.type, each))
            for each in (output, "index")[: 1 + indices]
        )
        return Cost(vector_flop=source.elements, bytes=traffic(source, *outputs), outputs=outputs)

    return formula


# --- windows


@dataclass(frozen=True, slots=True)
class Pooling:
    """A formula for pooling: windows of the last dimensions.

    Attributes:
        dimensions: that windows have.
        indices: is the place of each maximum written, too?
        dilation: place of the dilation, −1 for none.
        ceiling: place of the flag that rounds up.
    """

    dimensions: int
    indices: bool = False
    dilation: int = -1
    ceiling: int = 4

    def __call__(self, given: Arguments) -> Cost | None:
        """What a call takes; where the windows were not recorded, at least what it reads."""
        source = given.tensor(0)
        if source is None or len(source.shape) < self.dimensions:
            return None
        size = self._size(given, source.shape[-self.dimensions :])
        if size is None:
            return Cost(vector_flop=source.elements, bytes=traffic(source), is_least=True)
        window = given.numbers(1, self.dimensions) or size
        met = tuple(min(x, y * k) for x, y, k in zip(source.shape[-self.dimensions :], size, window, strict=True))
        return _windows(source, size, prod(met), indices=self.indices)

    def _size(self, given: Arguments, image: Shape) -> Shape | None:
        count = self.dimensions
        window = given.numbers(1, count)
        if window is None:
            return None
        stride = given.numbers(2, count) or window
        padding = given.numbers(3, count) or (0,) * count
        dilation = given.numbers(self.dilation, count) or (1,) * count
        if 0 in stride:
            return None
        sizes = []
        for x, k, s, p, d in zip(image, window, stride, padding, dilation, strict=True):
            room = x + 2 * p - d * (k - 1) - 1
            size = (-(-room // s) if given.flag(self.ceiling) else room // s) + 1
            sizes.append(max(0, size - ((size - 1) * s >= x + p and bool(given.flag(self.ceiling)))))
        return tuple(sizes)


def _windows(source: Tensor, size: Shape, met: int, *, indices: bool = False, operations: int = 1) -> Cost | None:
    """Results of this size in the last dimensions written; of each image so many elements read that windows meet."""
    leading = source.shape[: len(source.shape) - len(size)]
    shape, needed = (*leading, *size), Tensor((*leading, met), None, source.type)
    out = Tensor(shape, None, source.type)
    outputs = (out, Tensor(shape, None, INT64)) if indices else (out,)
    flop = operations * max(source.elements, out.elements)
    read = needed if needed.elements < source.distinct else source
    return Cost(vector_flop=flop, bytes=traffic(read, *outputs), outputs=outputs)


def _resized(dimensions: int, operations: int, taps: int = 0, *, indices: bool = False) -> Formula:
    """Resampling or pooling to the size that the second argument tells; without it, at least what must be read.

    taps: elements of the input that each of the result is made of; 0: all of them are used.
    """

    def formula(given: Arguments) -> Cost | None:
        source = given.tensor(0)
        if source is None or len(source.shape) <= dimensions:
            return None
        size = given.numbers(1, dimensions)
        if size is None or min(size) < 0:
            return Cost(vector_flop=source.elements, bytes=traffic(source) if not taps else 0, is_least=True)
        whole = prod(source.shape[-dimensions:])
        met = min(whole, taps * prod(size)) if taps else whole
        return _windows(source, size, met, indices=indices, operations=operations)

    return formula


def _resized_backward(dimensions: int, operations: int, _: int) -> Formula:
    """The gradient read, that of an input whose size the third argument tells written."""

    def formula(given: Arguments) -> Cost | None:
        gradient, size = given.tensor(0), given.numbers(2, dimensions + 2)
        if gradient is None:
            return None
        flop = operations * gradient.elements
        if size is None or min(size) < 0:
            return Cost(vector_flop=flop, bytes=traffic(gradient), is_least=True)
        out = Tensor(size, None, gradient.type)
        return Cost(vector_flop=flop, bytes=traffic(gradient, out), outputs=(out,))

    return formula


def _sampled(given: Arguments) -> Cost | None:
    """`grid_sampler`: an element of the result for each place of the grid; what it reads of the image is unknown."""
    image, grid = given.tensor(0), given.tensor(1)
    if image is None or grid is None or not len(image.shape) == len(grid.shape) > 2:
        return None
    out = Tensor((*image.shape[:2], *grid.shape[1:-1]), None, image.type)
    least = traffic(grid, out)
    most = None if least is None or image.bytes is None else least + image.bytes
    return Cost(vector_flop=7 * out.elements, bytes=least, bytes_most=most, outputs=(out,))


def _transformed(kind: str) -> Formula:
    """Fourier transforms of complex (c) or real (r) numbers: 5 n log₂ n operations, with real ones half as many."""

    def formula(given: Arguments) -> Cost | None:
        source = given.tensor(0)
        if source is None or not source.shape:
            return None
        dimensions = [each % len(source.shape) for each in given.integers(1)]
        if not dimensions:
            return Cost(bytes=traffic(source), is_least=True)
        shape, last = list(source.shape), dimensions[-1]
        if kind == "r2c" and given.flag(3) is not False:
            shape[last] = shape[last] // 2 + 1
        elif kind == "c2r":
            shape[last] = max(0, given.integer(3) or 0)
        is_double = source.type is not None and source.type.name in ("float64", "complex128")
        types = (ElementType("float64", 8, "fp64"), COMPLEX_DOUBLE) if is_double else (FLOAT, COMPLEX)
        out = Tensor(tuple(shape), None, types[kind != "c2r"])
        size = prod((out if kind == "c2r" else source).shape[each] for each in set(dimensions))
        n = max(source.elements, out.elements)
        flop = 5 * n * max(1, size - 1).bit_length() // (1 if kind == "c2c" else 2)
        return Cost(vector_flop=flop, bytes=traffic(source, out), outputs=(out,))

    return formula


def _distances(given: Arguments) -> Cost | None:
    """`cdist`: the distance of each row of one matrix to each of another."""
    first, second = given.tensor(0), given.tensor(1)
    if first is None or second is None or min(len(first.shape), len(second.shape)) < 2:
        return None
    batch = broadcast(first.shape[:-2], second.shape[:-2])
    if batch is None:
        return None
    out = Tensor((*batch, first.shape[-2], second.shape[-2]), None, first.type)
    return Cost(vector_flop=3 * out.elements * first.shape[-1], bytes=traffic(first, second, out), outputs=(out,))


def _columns(given: Arguments) -> Cost | None:
    """`im2col`: windows side by side."""
    image = given.tensor(0)
    window, dilation, padding, stride = (given.numbers(place, 2) for place in (1, 2, 3, 4))
    if image is None or len(image.shape) < 3 or None in (window, dilation, padding, stride):
        return None
    size = Pooling(2, dilation=4, ceiling=-1)(replace(given, concrete=("", *(given.text(k) for k in (1, 4, 3, 2)))))
    if size is None or not size.outputs or window is None or min(window) < 1:
        return None
    out = Tensor(
        (*image.shape[:-3], image.shape[-3] * prod(window), prod(size.outputs[0].shape[-2:])), None, image.type
    )
    return Cost(bytes=traffic(image, out), outputs=(out,))


def _image(given: Arguments) -> Cost | None:
    """`col2im`: columns added up to an image of the size of the second argument."""
    columns, size, window = given.tensor(0), given.numbers(1, 2), given.numbers(2, 2)
    if columns is None or size is None or window is None or len(columns.shape) < 2 or min(size) < 0 or min(window) < 1:
        return None
    shape = (*columns.shape[:-2], columns.shape[-2] // prod(window), *size)
    out = Tensor(shape, None, columns.type)
    return Cost(vector_flop=columns.elements, bytes=traffic(columns, out), outputs=(out,))


_RESAMPLING: Final = {
    "upsample_nearest1d": (1, 0, 1), "upsample_nearest2d": (2, 0, 1), "upsample_nearest3d": (3, 0, 1),
    "_upsample_nearest_exact1d": (1, 0, 1), "_upsample_nearest_exact2d": (2, 0, 1), "upsample_linear1d": (1, 3, 2),
    "upsample_bilinear2d": (2, 7, 4), "_upsample_bilinear2d_aa": (2, 7, 0), "upsample_trilinear3d": (3, 15, 8),
    "upsample_bicubic2d": (2, 35, 16), "_upsample_bicubic2d_aa": (2, 35, 0),
}  # fmt: skip
"""Dimensions, operations an element of the result, and elements of the input that it is made of (0: by the scale)."""

_REDUCTIONS: Final = {
    **dict.fromkeys(("sum", "nansum", "prod"), Reduction(("sum",), type=3, whole=2)),
    "mean": Reduction(("float",), type=3, whole=2),
    "linalg_vector_norm": Reduction(("float",), dimensions=2, keep=3, type=4, operations=2),
    "norm": Reduction(("float",), dimensions=2, keep=3, type=4, operations=2, whole=2),
    **dict.fromkeys(("var", "std"), Reduction(("float",), keep=3, operations=4, whole=2)),
    **dict.fromkeys(("var_mean", "std_mean"), Reduction(("float", "float"), keep=3, operations=4, whole=2)),
    **dict.fromkeys(("any", "all"), Reduction(("bool",))),
    **dict.fromkeys(("amax", "amin"), Reduction()),
    "aminmax": Reduction(("same", "same")),
    "logsumexp": Reduction(("float",), operations=3),
    "count_nonzero": Reduction(("index",)),
    **dict.fromkeys(("argmax", "argmin"), Reduction(("index",))),
    **dict.fromkeys(("max", "min"), Reduction(("same", "index"), elementwise=True)),
    **dict.fromkeys(("median", "nanmedian", "mode"), Reduction(("same", "index"))),
    "kthvalue": Reduction(("same", "index"), dimensions=2, keep=3),
}
"""Reductions by name; selections such as `median` read at least that much."""


REDUCTIONS: Final[dict[str, Entry]] = {
    **{f"aten::{name}": Entry(formula) for name, formula in _REDUCTIONS.items()},
    **{f"aten::{name}": Entry(_scan("sum")) for name in ("cumsum", "cumprod", "cumsum_", "cumprod_")},
    "aten::logcumsumexp": Entry(_scan("float")),
    "aten::_logcumsumexp": Entry(_scan("float")),
    **{
        f"aten::{name}": Entry(_scan("same", indices=True))
        for name in ("cummax", "cummin", "_cummax_helper", "_cummin_helper")
    },
    **{f"aten::avg_pool{n}d": Entry(Pooling(n)) for n in (1, 2, 3)},
    **{f"aten::max_pool{n}d_with_indices": Entry(Pooling(n, indices=True, dilation=4, ceiling=5)) for n in (2, 3)},
    **{f"aten::_adaptive_avg_pool{n}d": Entry(_resized(n, 1)) for n in (2, 3)},
    **{f"aten::adaptive_max_pool{n}d": Entry(_resized(n, 1, indices=True)) for n in (2, 3)},
    **{f"aten::{name}_backward": Entry(StreamedArguments((1,), (0,))) for name in (
        "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "reflection_pad1d",
        "reflection_pad2d", "reflection_pad3d", "replication_pad1d", "replication_pad2d", "replication_pad3d",
    )},
    **{f"aten::max_pool{n}d_with_indices_backward": Entry(StreamedArguments((1,), (0, 7))) for n in (2, 3)},
    **{f"aten::adaptive_max_pool{n}d_backward": Entry(StreamedArguments((1,), (0, 2))) for n in (2, 3)},
    **{f"aten::{name}": Entry(_resized(*of)) for name, of in _RESAMPLING.items()},
    **{f"aten::{name}_backward": Entry(_resized_backward(*of)) for name, of in _RESAMPLING.items()},
    **{f"aten::grid_sampler_{n}d": Entry(_sampled) for n in (2, 3)},
    **{f"aten::grid_sampler_{n}d_backward": Entry(StreamedArguments((2, 1), (0, 2), operations=7)) for n in (2, 3)},
    **{f"aten::_fft_{kind}": Entry(_transformed(kind)) for kind in ("c2c", "r2c", "c2r")},
    "aten::_cdist_forward": Entry(_distances),
    "aten::im2col": Entry(_columns),
    "aten::col2im": Entry(_image),
}  # fmt: skip
"""Reductions, scans, pooling and resampling."""
