"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.schema import Unit
from kinetoscope.views.numbers import MISSING, Scale, grouped, scale, shown, significant


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1, "1.00"),
        (1.5, "1.50"),
        (9.996, "10.0"),
        (99.96, "100"),
        (123.4, "123"),
        (999.6, "1,000"),
        (1234567.8, "1,234,568"),
        (0.0123456, "0.0123"),
        (0.0009, "<0.001"),
        (-0.0009, ">-0.001"),
        (-3.14159, "-3.14"),
        (math.inf, "∞"),
    ],
)
def test_three_significant_digits(value: float, text: str) -> None:
    assert significant(value) == text


@given(st.floats(0.001, 999, allow_nan=False))
def test_significant_is_within_half_of_the_third_digit(value: float) -> None:
    assert float(significant(value)) == pytest.approx(value, rel=0.0051)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (999, "ns", "999\u00a0ns"),
        (12_345, "ns", "12.3\u00a0µs"),
        (118_000_000, "ns", "118\u00a0ms"),
        (2_500_000_000, "ns", "2.50\u00a0s"),
        (0, "ns", "0\u00a0ns"),
        (1_000_000, "bytes", "1.00\u00a0MB"),
        (3.2e11, "bytes/s", "320\u00a0GB/s"),
        (0.4231, "fraction", "42.3%"),
        (1.0, "fraction", "100%"),
        (12345, "", "12,345"),
        (None, "ns", MISSING),
        (math.nan, "fraction", MISSING),
    ],
)
def test_one_number_in_a_sentence(value: float | None, unit: Unit, text: str) -> None:
    assert shown(value, unit) == text


def test_a_column_has_one_unit_which_one_long_row_does_not_spoil() -> None:
    assert scale([1_200_000_000, *[5_000_000] * 8], "ns").label == "ms"
    assert scale([5_000_000, 9_000_000, 7_000_000], "ns").label == "ms"
    assert scale([None, 0], "ns").label == "ns"
    assert scale([10**15, *[1000] * 8], "ns").label == "s"


@given(st.lists(st.integers(0, 10**15), min_size=1))
def test_the_largest_number_of_a_column_stays_short(values: list[int]) -> None:
    unit = scale(values, "ns")
    assert max(values) / unit.divisor < 1e5 or unit.label == "s"


def test_integers_keep_all_digits() -> None:
    assert grouped(-1234567) == "-1,234,567"
    assert Scale("").text(123456789) == "123,456,789"
