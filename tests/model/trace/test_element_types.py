"""The types of elements, as traces of all years name them."""

from __future__ import annotations

import pytest

from kinetoscope.model.trace.element_types import element_type


@pytest.mark.parametrize(
    ("text", "name", "precision", "factor"),
    [
        ("float", "float32", "fp32", 1),
        ("double", "float64", "fp64", 1),
        ("c10::Half", "float16", "fp16", 1),
        ("struct c10::BFloat16", "bfloat16", "bf16", 1),
        ("c10::Float8_e4m3fn", "float8", "fp8", 1),
        ("c10::Float4_e2m1fn_x2", "float4", "fp4", 2),
        ("c10::complex<float>", "complex64", "fp32", 4),
        ("c10::complex<double>", "complex128", "fp64", 4),
        ("c10::complex<c10::Half>", "complex32", "fp16", 4),
        ("signed char", "int8", "int8", 1),
        ("unsigned char", "uint8", "int8", 1),
        ("long int", "int64", "", 1),
        ("int", "int32", "", 1),
    ],
)
def test_types(text: str, name: str, precision: str, factor: int) -> None:
    found = element_type(text)
    assert found is not None
    assert (found.name, found.precision, found.factor) == (name, precision, factor)


@pytest.mark.parametrize("text", ["", "Scalar", "ScalarList", "GenericList", "TensorList", "Int", "Double", "Bool"])
def test_what_is_no_type_of_elements(text: str) -> None:
    assert element_type(text) is None
