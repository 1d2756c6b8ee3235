"""The operators whose costs are known, by families, each in a module of its own.

A function with the decorator of its family is the formula of the operators that it names. An operator belongs here if
it launches kernels itself, or if it is a product that may call another one: nested calls count once (see `calls`).
What has no entry is uncovered, and its device time is counted as such.
"""

from __future__ import annotations

from typing import Final

from kinetoscope.model.roofline.formulas import (
    attention,
    convolutions,
    custom,
    elementwise,
    indexing,
    normalization,
    optimizers,
    products,
    reductions,
)
from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Entry
from kinetoscope.model.roofline.formulas.family import Family
from kinetoscope.model.roofline.formulas.generated import generated

FAMILIES: Final[tuple[Family, ...]] = tuple(
    module.formula
    for module in (
        products, convolutions, attention, normalization, elementwise, reductions, indexing, optimizers, custom
    )
)  # fmt: skip
"""Families of operators."""

ENTRIES: Final = {name: entry for family in FAMILIES for name, entry in family.entries.items()}
"""Operators by name without overload."""

_MAX_AMOUNT: Final = 10**24
"""Operations or bytes of a call; with more its shapes are not those of tensors."""


def entry_of(name: str) -> Entry | None:
    """The entry of an operator, or of a kernel that Inductor generated; None for those without."""
    return ENTRIES.get(name) or generated(name)


def cost(name: str, given: Arguments) -> Cost | None:
    """The cost of a call; None where its operator is not in the registry or its arguments do not tell."""
    entry = entry_of(name)
    of_call = None if entry is None else entry.formula(given)
    if of_call is None:
        return None
    amounts = (of_call.flop, of_call.vector_flop, of_call.bytes, of_call.flop_most, of_call.bytes_most)
    return of_call if all(0 <= (amount or 0) <= _MAX_AMOUNT for amount in amounts) else None
