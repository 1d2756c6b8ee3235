"""What operators compute and move that compute each element by itself."""

from __future__ import annotations

from typing import Final

from kinetoscope.model.roofline.arguments import Arguments, Cost, Entry, Shape, Tensor, traffic


def broadcast(*shapes: Shape) -> Shape | None:
    """The shape that shapes have together; None where they do not fit."""
    result: list[int] = []
    for shape in shapes:
        result = [1] * (len(shape) - len(result)) + result
        for place, size in enumerate(reversed(shape), 1):
            if result[-place] not in (1, size) and size != 1:
                return None
            result[-place] = size if result[-place] == 1 else result[-place]
    return tuple(result)


def _elementwise(given: Arguments) -> Cost | None:
    """All tensors read, one of their common shape written, one operation each."""
    inputs = [value for value in given.values if isinstance(value, Tensor)]
    shape = broadcast(*(each.shape for each in inputs)) if inputs else None
    if shape is None:
        return None
    out = Tensor(shape, None, given.type)
    return Cost(vector_flop=out.elements, bytes=traffic(*inputs, out), outputs=(out,))


ELEMENTWISE: Final = {
    f"aten::{name}{tail}": Entry(_elementwise)
    for name in ("add", "sub", "mul", "div", "neg", "exp", "sigmoid", "tanh", "relu", "gelu")
    for tail in ("", "_")
}
"""Operators that compute each element by itself."""
