"""Types and shapes of results by torch's rules: broadcasting, type promotion, the type that a kernel's name tells."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kinetoscope.model.roofline.formulas.arguments import Arguments, Shape, Tensor
from kinetoscope.model.trace.element_types import ElementType, element_type

BOOL, INT16, INT32, INT64, FLOAT, COMPLEX, UINT8 = (
    ElementType("bool", 1, ""),
    ElementType("int16", 2, ""),
    ElementType("int32", 4, ""),
    ElementType("int64", 8, ""),
    ElementType("float32", 4, "fp32"),
    ElementType("complex64", 8, "fp32", 4),
    ElementType("uint8", 1, "int8"),
)

COMPLEX_DOUBLE: Final = ElementType("complex128", 16, "fp64", 4)

_DEFAULTS: Final = (BOOL, INT64, FLOAT, COMPLEX)
"""What a number becomes in each category: truth values, integers, floating-point numbers, complex numbers."""

_KERNEL_TYPE: Final = re.compile(
    r"OpaqueType<(\d{1,3})u?>|(?<![A-Za-z_])(?:__nv_)?(?:c10::|cutlass::)?"
    r"(BFloat16|bfloat16(?:_t)?|half(?:_t)?|Half|Float8_\w+|float|double|long|int|bool)(?![A-Za-z_0-9])"
)
_OPAQUE: Final = {1: UINT8, 2: INT16, 4: INT32, 8: INT64, 16: COMPLEX_DOUBLE}
_C_NAMES: Final = {"bfloat16": "BFloat16", "bfloat16_t": "BFloat16", "half": "Half", "half_t": "Half"}


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


def category(kind: ElementType) -> int:
    """The category of a type, as promotion orders them: 0 truth values, 1 integers, 2 floating-point, 3 complex."""
    name = kind.name.removeprefix("u").removeprefix("q")
    return 0 if name == "bool" else 1 if name.startswith("int") else 3 if name.startswith("complex") else 2


def promoted(tensors: Iterable[Tensor], numbers: Iterable[str] = ()) -> ElementType | None:
    """`torch.result_type` of tensors and numbers; None where the type of one is not known.

    Tensors with dimensions decide; one without, or a number, only where it is of a higher category. A double without
    dimensions is taken for a Python number, which torch records in the same way.
    """
    every = list(tensors)
    if any(each.type is None for each in every):
        return None
    result: ElementType | None = None
    for with_dimensions in (True, False):
        kinds = [each.type for each in every if bool(each.shape) == with_dimensions and each.type is not None]
        of_group: ElementType | None = None
        for kind in kinds:
            of_group = kind if of_group is None else _higher(of_group, kind)
        if of_group is not None and (result is None or category(of_group) > category(result)):
            result = FLOAT if result is not None and of_group.name == "float64" else of_group
    for text in numbers:
        rank = _category_of_number(text)
        if rank is not None and (result is None or rank > category(result)):
            result = _DEFAULTS[rank]
    return result


def _higher(a: ElementType, b: ElementType) -> ElementType:
    if a.name == b.name:
        return a
    if category(a) != category(b):
        return max(a, b, key=category)
    if a.bytes == b.bytes:
        return FLOAT if category(a) == 2 else INT16  # half and bfloat16; a byte with and without sign
    return max(a, b, key=lambda kind: kind.bytes)


def _category_of_number(text: str) -> int | None:
    if text in ("True", "False"):
        return 0
    if re.fullmatch(r"-?\d+", text):
        return 1
    return 2 if re.fullmatch(r"-?(?:[\d.]+(?:e[-+]?\d+)?|inf|nan)", text) else None


def as_float(kind: ElementType | None) -> ElementType | None:
    """The type of a result that is no integer: that of the input, or torch's default."""
    return FLOAT if kind is not None and category(kind) < 2 else kind


def accumulated(kind: ElementType | None) -> ElementType | None:
    """The type of statistics, which are kept in FP32 for shorter types."""
    return FLOAT if kind is not None and kind.bytes < FLOAT.bytes else kind


def kernel_type(given: Arguments) -> ElementType | None:
    """The type of elements that the name of the longest kernel tells; None if it does not.

    Of lists of tensors the file holds no types, so this is the only source.
    """
    return type_in(given.kernel)


def type_in(kernel: str) -> ElementType | None:
    """The first type of elements in the template of a kernel; None where there is none.

    A kernel that moves elements whatever they mean, as `cat` does, names their size only.
    """
    match = _KERNEL_TYPE.search(kernel)
    if match is None:
        return None
    if match[1]:
        return _OPAQUE.get(int(match[1]))
    return element_type(_C_NAMES.get(match[2], match[2]))
