"""Selections and parameters as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.steps.grammar import MAX_NUMBER, duration, numbers, size, time_range, time_range_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", (0,)), ("0,8-11", (0, 8, 9, 10, 11)), ("-1", (-1,)), ("-3--1", (-3, -2, -1)), (" 2 , 4", (2, 4))],
)
def test_numbers(text: str, expected: tuple[int, ...]) -> None:
    assert numbers(text) == expected


@pytest.mark.parametrize("text", ["", "a", "1-", "3-1", "1,,2", "0-99999999999", "1.5"])
def test_what_is_no_list_of_numbers(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither a number|not a range|too large|more than"):
        numbers(text)


def test_times_and_sizes_have_units() -> None:
    assert duration("1000") == 1000
    assert duration("30us") == duration("30 µs") == 30_000
    assert duration("1.5ms") == 1_500_000
    assert duration("9223372036854775807") == 2**63 - 1, "no way through floats"
    assert size("64GB") == 64 * 10**9
    assert size("0") == 0
    assert time_range("10ms..1.5s") == (10_000_000, 1_500_000_000)


@pytest.mark.parametrize("text", ["", "ms", "5min", "-5ms", "1e3", "1.2.3s"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "why"), [("1ms", "no '..'"), ("2ms..1ms", "ends before it begins"), ("..", "not a time")]
)
def test_what_is_no_range_of_time(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        time_range(text)


def test_a_time_range_as_old_links_write_it() -> None:
    assert time_range("1000-2000") == (1_000, 2_000)
    assert time_range("-5ms..1us") == (-5_000_000, 1_000)


@given(
    st.integers(-MAX_NUMBER, MAX_NUMBER - 1).flatmap(
        lambda low: st.tuples(st.just(low), st.integers(low + 1, MAX_NUMBER))
    )
)
def test_a_time_range_is_exact_both_ways(span: tuple[int, int]) -> None:
    assert time_range(time_range_text(*span)) == span


def test_a_time_range_in_words() -> None:
    assert time_range_text(10_000_000, 20_000_000) == "10ms..20ms"
    assert time_range_text(1_203_456, 1_272_000) == "1.203456ms..1.272ms"
    assert time_range_text(5, 900) == "5ns..900ns"
