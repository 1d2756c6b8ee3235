"""Arguments of a call as formulas take them, and the cost that they return."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, Literal, NamedTuple

from kinetoscope.model.execution.engines import ServingStep
from kinetoscope.model.trace.element_types import ElementType, element_type, scalar_type

Shape = tuple[int, ...]

_MAX_DIMENSION: Final = 1 << 40
"""Size of a dimension; greater ones are wrong."""

_NUMBER: Final = re.compile(r"-?\d{1,12}")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor, as far as it was recorded.

    Attributes:
        shape: its sizes.
        strides: in elements; None where they were not recorded.
        type: of its elements; None where it was not recorded, as in lists of tensors.
    """

    shape: Shape
    strides: Shape | None = None
    type: ElementType | None = None

    @property
    def elements(self) -> int:
        """Number of its elements."""
        return prod(self.shape)

    @property
    def distinct(self) -> int:
        """Number of elements in different places of memory, at most: an expanded dimension (stride 0) counts once."""
        if self.strides is None or not self.elements:
            return self.elements
        steps = list(zip(self.shape, self.strides, strict=True))
        reach = 1 + sum((size - 1) * stride for size, stride in steps)  # windows that overlap (`unfold`) hold no more
        return min(prod(size for size, stride in steps if stride), reach)

    def new(self, shape: Shape | None = None) -> Tensor:
        """A tensor of the same type that was just made: of the same shape, or of another."""
        return Tensor(self.shape if shape is None else shape, None, self.type)

    @property
    def bytes(self) -> int | None:
        """Bytes that reading or writing each distinct element once moves; None where the type is unknown."""
        return None if self.type is None else self.distinct * self.type.bytes


Tensors = tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Cost:
    """Operations and bytes that a call takes at least, whatever the implementation.

    Attributes:
        flop: operations of products of matrices, convolutions and attention; a multiplication with an addition is two.
        vector_flop: all other operations.
        bytes: compulsory traffic: each distinct element of an input once, each of an output once; None if unknown.
        reduced_flop: operations at least, where the call ran an algorithm that needs fewer than `flop`; else None.
        flop_most, bytes_most: the upper ends where the arguments give a range only; `flop` and `bytes` are the lower.
        is_least: is there no upper end, since much of what is moved was not recorded?
        outputs: what it writes, the main result first; () where nobody needs to know.
        precision: what products are computed in, one of `peaks.PRECISIONS`; "" for what the types of the inputs say.
    """

    flop: int = 0
    vector_flop: int = 0
    bytes: int | None = None
    reduced_flop: int | None = None
    flop_most: int | None = None
    bytes_most: int | None = None
    is_least: bool = False
    outputs: tuple[Tensor, ...] = ()
    precision: str = ""

    @property
    def is_range(self) -> bool:
        """Do the arguments tell only the lower end of what it takes?"""
        return self.is_least or self.flop_most is not None or self.bytes_most is not None


CHUNK_ELEMENTS: Final = 1 << 16
"""Elements that a block works on in operators over lists (`kChunkSize` of torch's `MultiTensorApply.cuh`)."""


class Gradients(NamedTuple):
    """The gradients that a trace accumulates, all passes together.

    Attributes:
        elements: of all of them.
        chunks: of `CHUNK_ELEMENTS`, each of one gradient.
        repeats: what divides how often each shape occurs, the greatest such number.
    """

    elements: int
    chunks: int
    repeats: int


class Estimate(NamedTuple):
    """A compiler's estimate of a kernel: operations of products, and bytes in and out."""

    flop: int
    bytes: int


Place = str | int
"""An argument by its name in the schema, or by its place."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call, in the order of the operator's schema, keyword arguments included.

    Attributes:
        values: of each argument a tensor, the tensors of a list, or None for what is neither.
        concrete: of each the text of what is no tensor, "" where nothing was recorded.
        places: of the arguments by their names, as far as the operator's schema is known.
        parent_op: arguments of the operator directly around the call; only for operators that need them, else None.
        backward_args: arguments of the node of the backward pass that belongs to the call, of which the first is the
            gradient of the result; without one those of the next operator, which may begin with the result. Likewise,
            and only where values such as strides were not recorded (before torch 2.1).
        backward_node: arguments of the node of the backward pass that belongs to the call, which begin with the
            gradient of the result; likewise, else None.
        kernel: name of the longest kernel that the call launched; likewise, else "".
        algorithm: name of the longest of its kernels that is part of Winograd's algorithm or of one by FFT; likewise.
        blocks, launches: blocks of all kernels of the call that have the name `kernel`, and how many kernels these are;
            only for operators that need `blocks`, else 0.
        gradients: those that the trace accumulates; likewise, else None.
        estimate: what the compiler estimated; only for operators that need it, else None.
        batch: what a serving engine named the step of the call, with sums of lengths; likewise.
    """

    values: tuple[Tensor | Tensors | None, ...]
    concrete: tuple[str, ...] = ()
    places: Mapping[str, int] = field(default_factory=dict)
    parent_op: Arguments | None = None
    backward_args: Arguments | None = None
    backward_node: Arguments | None = None
    kernel: str = ""
    algorithm: str = ""
    blocks: int = 0
    launches: int = 0
    gradients: Gradients | None = None
    estimate: Estimate | None = None
    batch: ServingStep | None = None

    def tensor(self, at: Place) -> Tensor | None:
        """A tensor; None where there is none. A number is none, a tensor without dimensions is one."""
        value = self._value(at)
        return value if isinstance(value, Tensor) else None

    def tensors(self, at: Place) -> Tensors:
        """The tensors of a list; () where there is none. The file does not say their type."""
        value = self._value(at)
        return value if isinstance(value, tuple) else ()

    def _value(self, at: Place) -> Tensor | Tensors | None:
        place = self._place(at)
        return self.values[place] if 0 <= place < len(self.values) else None

    def _place(self, at: Place) -> int:
        return at if isinstance(at, int) else self.places.get(at, -1)

    def shape(self, at: Place) -> Shape:
        """The shape of a tensor; () where there is none, as for a scalar."""
        tensor = self.tensor(at)
        return tensor.shape if tensor is not None else ()

    @property
    def type(self) -> ElementType | None:
        """Type of the first tensor of floating-point numbers, else of the first of any numbers."""
        types = [value.type for value in self.values if isinstance(value, Tensor) and value.type is not None]
        return next((each for each in types if each.precision), types[0] if types else None)

    def text(self, at: Place) -> str:
        """The value of what is no tensor, "" where it was not recorded."""
        place = self._place(at)
        return self.concrete[place] if 0 <= place < len(self.concrete) else ""

    def numbers(self, at: Place, count: int) -> Shape | None:
        """`count` integers of a list such as `[1, 1]`; one stands for all. None where it was not recorded."""
        values = self.integers(at)
        if len(values) == 1:
            return values * count
        return values if len(values) == count else None

    def integers(self, at: Place) -> Shape:
        """All integers of a list such as `[1, 1]`, or the one of `3`; () where there is none."""
        return tuple(int(text) for text in _NUMBER.findall(self.text(at)))

    def integer(self, at: Place) -> int | None:
        """An integer; None where it was not recorded."""
        values = self.integers(at)
        return values[0] if len(values) == 1 else None

    def flag(self, at: Place) -> bool | None:
        """A truth value; None where it was not recorded."""
        return {"True": True, "False": False, "1": True, "0": False}.get(self.text(at))

    def scalar_type(self, at: Place) -> ElementType | None:
        """The type that an argument `dtype` names; None where it was not given."""
        number = self.integer(at)
        return None if number is None else scalar_type(number)


Formula = Callable[[Arguments], Cost | None]
"""What a call costs; None where its arguments do not tell. It takes any arguments without raising."""

Need = Literal[
    "parent_op", "backward_args", "backward_node", "kernel", "algorithm", "blocks", "estimate", "batch"
]  # fmt: skip
"""What a formula needs besides the arguments: the attribute of `Arguments` of this name."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An operator of the registry.

    Attributes:
        formula: its cost.
        is_product: it multiplies matrices, so that matrix units can compute it: products, convolutions, attention.
        needs: what the formula needs besides the arguments.
        no_formula: why the cost does not follow from the arguments; "" for others.
    """

    formula: Formula
    is_product: bool = False
    needs: tuple[Need, ...] = ()
    no_formula: str = ""


def traffic(*tensors: Tensor | None) -> int | None:
    """Bytes of tensors, each distinct element once: None where the type of one is unknown; None tensors count 0."""
    total = 0
    for tensor in tensors:
        if tensor is None:
            continue
        if tensor.type is None:
            return None
        total += tensor.distinct * tensor.type.bytes
    return total


def arguments_of(dims: Any, types: Any = None, strides: Any = None, concrete: Any = None) -> Arguments:
    """The arguments by `Input Dims`, `Input type`, `Input Strides` and `Concrete Inputs`.

    Malformed ones are as if they were not recorded.
    """
    listed_types, listed_strides = (
        types if isinstance(types, list) else [],
        strides if isinstance(strides, list) else [],
    )
    values = tuple(
        _value(
            each,
            listed_types[place] if place < len(listed_types) else None,
            listed_strides[place] if place < len(listed_strides) else None,
        )
        for place, each in enumerate(dims if isinstance(dims, list) else [])
    )
    texts = tuple(each if isinstance(each, str) else "" for each in concrete) if isinstance(concrete, list) else ()
    return Arguments(values, texts)


def _value(dims: Any, type_: Any, strides: Any) -> Tensor | Tensors | None:
    if not isinstance(dims, list):
        return None
    kind = element_type(type_) if isinstance(type_, str) else None
    if dims and all(isinstance(each, list) for each in dims):
        lists = strides if isinstance(strides, list) and len(strides) == len(dims) else [None] * len(dims)
        tensors = tuple(_tensor(each, kind, stride) for each, stride in zip(dims, lists, strict=True))
        return tuple(each for each in tensors if each is not None) if None not in tensors else None
    if not dims and kind is None and type_ is not None:
        return None  # a number, or an argument that was not given: only its type tells it from a tensor of one element
    return _tensor(dims, kind, strides)


def _tensor(dims: list[Any], kind: ElementType | None, strides: Any) -> Tensor | None:
    shape = _sizes(dims)
    if shape is None:
        return None
    steps = _sizes(strides) if isinstance(strides, list) else None
    return Tensor(shape, steps if steps is not None and len(steps) == len(shape) else None, kind)


def _sizes(values: list[Any]) -> Shape | None:
    if not all(isinstance(size, int) and not isinstance(size, bool) and 0 <= size < _MAX_DIMENSION for size in values):
        return None
    return tuple(values)
