"""Costs of calls as tests write them down: shapes by place, with types and values where these count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kinetoscope.model.execution.engines import parsed
from kinetoscope.model.roofline.formulas.arguments import Cost, arguments_of
from kinetoscope.model.roofline.formulas.registry import cost

Dims = Sequence[Any]
"""Shapes by place; a list of shapes is a list of tensors, "" what is no tensor."""


def cost_of(
    name: str,
    dims: Dims,
    concrete: dict[int, str] | None = None,
    types: str | dict[int, str] = "float",
    step: str = "",
) -> Cost | None:
    """The cost of a call with values at some places.

    Args:
        name: of the operator.
        dims: shapes.
        concrete: values by place.
        types: of all tensors, or of those at some places (else float).
        step: what a serving engine named the step that the call is in.
    """
    kinds = types if isinstance(types, dict) else dict.fromkeys(range(len(dims)), types)
    count = max(len(dims), *(place + 1 for place in concrete or (0,)))
    shapes = [dims[place] if place < len(dims) and dims[place] != "" else [] for place in range(count)]
    texts = [(concrete or {}).get(place, "") for place in range(count)]
    names = [
        "" if place >= len(dims) or dims[place] == "" else _type(dims[place], kinds.get(place, "float"))
        for place in range(count)
    ]
    return cost(name, replace(arguments_of(shapes, names, concrete=texts), batch=parsed(step)))


def _type(dims: Any, kind: str) -> str:
    return "TensorList" if dims and isinstance(dims[0], list) else kind


def flop_of(name: str, dims: Dims, concrete: dict[int, str] | None = None) -> int | None:
    """The operations of a call; None where its arguments do not tell."""
    found = cost_of(name, dims, concrete)
    return None if found is None else found.flop
