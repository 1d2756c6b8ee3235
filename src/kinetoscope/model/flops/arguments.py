"""Arguments of a call, as formulas for FLOPs take them, and the cost that they return."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

Shape = tuple[int, ...]

_MAX_DIMENSION: Final = 1 << 40
"""Size of a dimension; greater ones are wrong."""

_NUMBER: Final = re.compile(r"-?\d{1,12}")


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a call.

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
        """`count` numbers of a list such as `[1, 1]`; one stands for all. None where it was not recorded."""
        values = tuple(int(text) for text in _NUMBER.findall(self.text(place)))
        if len(values) == 1:
            return values * count
        return values if len(values) == count else None


Formula = Callable[[Arguments], Cost | None]


def arguments_of(dims: Any, concrete: Any) -> Arguments:
    """The arguments by `Input Dims` and `Concrete Inputs`; malformed ones are as if they were not recorded."""
    shapes = tuple(_shape(each) for each in dims) if isinstance(dims, list) else ()
    texts = tuple(each if isinstance(each, str) else "" for each in concrete) if isinstance(concrete, list) else ()
    return Arguments(shapes, texts)


def _shape(value: Any) -> Shape | None:
    if not isinstance(value, list):
        return None
    if not all(isinstance(size, int) and not isinstance(size, bool) and 0 <= size < _MAX_DIMENSION for size in value):
        return None
    return tuple(value)
