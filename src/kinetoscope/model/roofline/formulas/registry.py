"""The operators whose costs are known: one entry a name, families in modules of their own.

A family's module has a formula for each kind of arguments and a table from names to entries. An operator belongs here
if it launches kernels itself, or if it is a product that may call another one: nested calls count once (see `calls`).
What has no entry is uncovered, and its device time is counted as such.
"""

from __future__ import annotations

from typing import Final

from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Entry
from kinetoscope.model.roofline.formulas.attention import ATTENTION
from kinetoscope.model.roofline.formulas.convolutions import CONVOLUTIONS
from kinetoscope.model.roofline.formulas.custom import CUSTOM
from kinetoscope.model.roofline.formulas.elementwise import ELEMENTWISE
from kinetoscope.model.roofline.formulas.generated import generated
from kinetoscope.model.roofline.formulas.indexing import INDEXING
from kinetoscope.model.roofline.formulas.normalization import NORMALIZATIONS
from kinetoscope.model.roofline.formulas.optimizers import OPTIMIZERS
from kinetoscope.model.roofline.formulas.products import PRODUCTS
from kinetoscope.model.roofline.formulas.reductions import REDUCTIONS

FAMILIES: Final[dict[str, dict[str, Entry]]] = {
    "Products of matrices": PRODUCTS,
    "Convolutions": CONVOLUTIONS,
    "Attention": ATTENTION,
    "Normalization and soft-max": NORMALIZATIONS,
    "Elementwise": ELEMENTWISE,
    "Reductions, pooling, resampling": REDUCTIONS,
    "Gathers, scatters, joins": INDEXING,
    "Lists of tensors and optimizers": OPTIMIZERS,
    "Libraries": CUSTOM,
}
"""Families of operators; one of a later family takes the place of one of the same name."""

ENTRIES: Final = {name: entry for family in FAMILIES.values() for name, entry in family.items()}
"""Operators by name without overload."""

_MAX_AMOUNT: Final = 10**24
"""Operations or bytes of a call; with more its shapes are not those of tensors."""


def entry_of(name: str) -> Entry | None:
    """The entry of an operator, or of a kernel that Inductor generated; None for those without."""
    return ENTRIES.get(name) or generated(name)


def cost(name: str, given: Arguments) -> Cost | None:
    """What a call costs; None where its operator is not in the registry or its arguments do not tell."""
    entry = entry_of(name)
    of_call = None if entry is None else entry.formula(given)
    if of_call is None:
        return None
    amounts = (of_call.flop, of_call.vector_flop, of_call.bytes, of_call.flop_most, of_call.bytes_most)
    return of_call if all(0 <= (amount or 0) <= _MAX_AMOUNT for amount in amounts) else None
