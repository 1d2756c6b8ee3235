"""Types of tensors' elements as traces name them, with their size and precision."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class ElementType:
    """A type of elements.

    Attributes:
        name: as torch calls it.
        bytes: of an element as torch counts them; of two that share a byte, as one.
        precision: what matrix products of it are computed in, one of `peaks.PRECISIONS`; "" for none of them.
            FP32 may be computed in TF32 all the same.
        factor: operations of a product of it, divided by those of a product of as many real numbers.
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
    (r"\bbool\b", ElementType("bool", 1, "")),
)
"""Types by pattern; the first match decides: `c10::BFloat16`, `struct c10::Half`, `float`, `long int`. Case matters:
`Int` and `Double` of files of 2021 are no tensors."""


class Element(NamedTuple):
    """The name of a type of elements in torch, and the bytes of one."""

    name: str
    bytes: int


C10_ELEMENTS: Final = {
    "Bool": Element("bool", 1),
    "Byte": Element("uint8", 1),
    "Char": Element("int8", 1),
    "QInt8": Element("qint8", 1),
    "QUInt8": Element("quint8", 1),
    "Float8_e5m2": Element("float8_e5m2", 1),
    "Float8_e4m3fn": Element("float8_e4m3fn", 1),
    "Float8_e5m2fnuz": Element("float8_e5m2fnuz", 1),
    "Float8_e4m3fnuz": Element("float8_e4m3fnuz", 1),
    "Float8_e8m0fnu": Element("float8_e8m0fnu", 1),
    "Short": Element("int16", 2),
    "UInt16": Element("uint16", 2),
    "Half": Element("float16", 2),
    "BFloat16": Element("bfloat16", 2),
    "Int": Element("int32", 4),
    "UInt32": Element("uint32", 4),
    "QInt32": Element("qint32", 4),
    "Float": Element("float32", 4),
    "ComplexHalf": Element("complex32", 4),
    "Long": Element("int64", 8),
    "UInt64": Element("uint64", 8),
    "Double": Element("float64", 8),
    "ComplexFloat": Element("complex64", 8),
    "ComplexDouble": Element("complex128", 16),
}
"""Elements by the names of their types in c10, which collectives have, without `c10::`."""


@lru_cache(maxsize=1 << 10)
def element_type(text: str) -> ElementType | None:
    """The type that a trace calls by this name; None for what is no type of elements."""
    return next((each for pattern, each in _TYPES if re.search(pattern, text)), None)


_SCALAR_TYPES: Final = {
    0: "unsigned char", 1: "signed char", 2: "short int", 3: "int", 4: "long int", 5: "c10::Half", 6: "float",
    7: "double", 8: "c10::complex<c10::Half>", 9: "c10::complex<float>", 10: "c10::complex<double>", 11: "bool",
    15: "c10::BFloat16", 23: "c10::Float8_e5m2", 24: "c10::Float8_e4m3fn", 25: "c10::Float8_e5m2fnuz",
    26: "c10::Float8_e4m3fnuz", 44: "c10::Float8_e8m0fnu", 45: "c10::Float4_e2m1fn_x2",
}  # fmt: skip
"""Types by their number in c10's `ScalarType`, which arguments `dtype` are recorded as."""


def scalar_type(number: int) -> ElementType | None:
    """The type with a number in c10's `ScalarType`; None for one that has no elements that we know."""
    text = _SCALAR_TYPES.get(number)
    return None if text is None else element_type(text)
