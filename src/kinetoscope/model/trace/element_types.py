"""The types of tensors' elements, as traces name them, and what they mean for a device's arithmetic."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class ElementType:
    """A type.

    Attributes:
        name: as torch calls it.
        bytes: of an element as torch counts them; of two that share a byte, as one.
        precision: what matrix products of it are computed in, one of `device_peaks.PRECISIONS`; "" for none of them.
            FP32 may be computed in TF32 all the same.
        factor: by how much a product of it takes more than one of so many real numbers.
    """

    name: str
    bytes: int
    precision: str
    factor: int = 1


_TYPES: Final[tuple[tuple[str, ElementType], ...]] = (
    # A complex multiplication and addition are four real ones of each.
    (r"complex\W*(?:c10::)?Half", ElementType("complex32", 4, "fp16", 4)),
    (r"complex\W*double", ElementType("complex128", 16, "fp64", 4)),
    (r"complex\W*float", ElementType("complex64", 8, "fp32", 4)),
    (r"BFloat16", ElementType("bfloat16", 2, "bf16")),
    (r"Float8", ElementType("float8", 1, "fp8")),
    (r"Float4", ElementType("float4", 1, "fp4", 2)),  # an element of the tensor holds two numbers
    (r"Half", ElementType("float16", 2, "fp16")),
    (r"double", ElementType("float64", 8, "fp64")),
    (r"float", ElementType("float32", 4, "fp32")),
    (r"unsigned char", ElementType("uint8", 1, "int8")),
    (r"char", ElementType("int8", 1, "int8")),
    (r"short", ElementType("int16", 2, "")),
    (r"long", ElementType("int64", 8, "")),
    (r"\bint\b", ElementType("int32", 4, "")),
)
"""The first that is found in the name: `c10::BFloat16`, `struct c10::Half`, `float`, `long int`. Case matters: what
files of 2021 call `Int` and `Double` are no tensors."""


def element_type(text: str) -> ElementType | None:
    """The type that a trace calls by this name; None for what is no type of elements."""
    return next((found for pattern, found in _TYPES if re.search(pattern, text)), None)


def first_element_type(types: Any) -> ElementType | None:
    """The type of the first tensor of floating-point numbers in `Input type`, else of the first of any numbers."""
    found = [each for text in types if isinstance(text, str) and (each := element_type(text))] \
        if isinstance(types, list) else []  # fmt: skip
    return next((each for each in found if each.precision), found[0] if found else None)
