"""Formulas of kernels that Inductor generated, whose calls are recorded under the kernels' names.

Since torch 2.9 Inductor records its own estimate with each call: the operations of templates (`kernel_flop`) and the
bytes that go in and out (`kernel_num_gb`), computed when it compiled the kernel. Earlier only the arguments were
recorded. Each tensor among them is read or written; which are both is not recorded, and a tensor that is gathered from
may be read in part. So their bytes are the least of a kernel that gathers nothing, and of others the most.

A kernel that slices may read any tensor in part, but those that have as many elements as it goes through, which the
last numbers among its arguments tell (`xnumel`, `ynumel`, `r0_numel`). One that only moves elements from one tensor to
another reads as many as it writes.
"""

from __future__ import annotations

import re
from math import prod
from typing import Final

from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Entry, Tensor, traffic

_GATHERS: Final = re.compile(r"embedding|index|gather|scatter|take|sort|grid_sampl")
"""Words in the name of a kernel that reads or writes only some elements of a tensor."""

_SLICES: Final = re.compile(r"slice|split|narrow|select|unbind|chunk|pad|roll|as_strided|unfold|diagonal|tri[ul]")
"""Words in the name of one that may read only a part of a tensor, and each element of that as often as it likes."""

_MOVES: Final = re.compile(
    r"(_unsafe_view|_to_copy|_|view|reshape|clone|copy|slice|split|select|narrow|unbind|transpose|permute|t"
    r"|squeeze|unsqueeze|as_strided|with_sizes|\d)*"
)
"""The operators in the name of one that only moves elements: each that it writes is another one that it reads."""

_GENERATED: Final = re.compile(r"triton_(poi|red|per|fused|tem|for|mm|bmm|convolution)\w*")


def _fused(given: Arguments) -> Cost | None:
    """The estimate of the compiler, else the tensors among the arguments."""
    tensors = [each for each in given.values if isinstance(each, Tensor)]
    flop, moved = given.estimate or (0, 0)
    elements = max((each.elements for each in tensors), default=0)
    if moved:
        return Cost(flop, elements, moved)
    touched = traffic(*tensors)
    if not tensors or touched is None:
        return None
    if _GATHERS.search(given.kernel):
        return Cost(flop, elements, 0, bytes_most=touched)
    if _SLICES.search(given.kernel):
        return _sliced(given, tensors, flop, touched)
    return Cost(flop, elements, touched)


def _sliced(given: Arguments, tensors: list[Tensor], flop: int, touched: int) -> Cost:
    """The cost of a kernel that may read a part of its tensors."""
    passed = _passed(given, tensors)
    whole = [each for each in tensors if each.elements == passed]
    if len(tensors) == 2 and whole and _only_moves(given.kernel):
        return Cost(flop, passed, sum(passed * each.type.bytes for each in tensors if each.type is not None))
    least = traffic(*whole) or 0
    return Cost(flop, passed, least, bytes_most=touched if touched > least else None)


def _passed(given: Arguments, tensors: list[Tensor]) -> int:
    """The elements that a kernel goes through: the product of the last of its numbers that a tensor has; 0 unknown.

    Sizes of dynamic shapes stand before them.
    """
    numbers = [given.integer(place) or 0 for place, each in enumerate(given.values) if not isinstance(each, Tensor)]
    sizes = {each.elements for each in tensors}
    return next((size for first in range(len(numbers)) if (size := prod(numbers[first:])) in sizes), 0)


def _only_moves(kernel: str) -> bool:
    match = _GENERATED.fullmatch(kernel)
    return match is not None and _MOVES.fullmatch(kernel.partition("fused")[2]) is not None


_ENTRY: Final = Entry(_fused, needs=("kernel", "estimate"))
_TEMPLATE: Final = Entry(_fused, is_product=True, needs=("kernel", "estimate"))


def generated(name: str) -> Entry | None:
    """The entry of a kernel that Inductor generated; None for other names."""
    match = _GENERATED.fullmatch(name)
    if match is None:
        return None
    return _TEMPLATE if match[1] in ("tem", "mm", "bmm", "convolution") else _ENTRY
