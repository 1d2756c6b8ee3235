"""The words that options take."""

from __future__ import annotations

import sys

import pytest

from kinetoscope.cli.shared.options import Parser, add_selection, integers, size, time_of, time_range
from kinetoscope.errors import UsageError


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0", (0,)), ("0,8-11", (0, 8, 9, 10, 11)), ("-1", (-1,)), ("-3--1", (-3, -2, -1)), (" 2 , 4", (2, 4))],
)
def test_integers(text: str, numbers: tuple[int, ...]) -> None:
    assert integers(text) == numbers


@pytest.mark.parametrize("text", ["", "a", "1-", "3-1", "1,,2", "0-99999999999", "1.5"])
def test_what_is_no_list_of_integers(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither a number|no range"):
        integers(text)


def test_times_and_sizes_have_units() -> None:
    assert time_of("1000") == 1000
    assert time_of("30us") == time_of("30 µs") == 30_000
    assert time_of("1.5ms") == 1_500_000
    assert time_of("9223372036854775807") == 2**63 - 1, "no way through floats"
    assert size("64GB") == 64 * 10**9
    assert size("0") == 0
    assert time_range("10ms..1.5s") == (10_000_000, 1_500_000_000)


@pytest.mark.parametrize("text", ["", "ms", "5min", "-5ms", "1e3", "1.2.3s"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        time_of(text)


@pytest.mark.parametrize(
    ("text", "why"), [("1ms", "no '..'"), ("2ms..1ms", "ends before it begins"), ("..", "not a time")]
)
def test_what_is_no_range_of_time(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        time_range(text)


def test_a_negative_step_is_no_option() -> None:
    parser = Parser(prog="x")
    add_selection(parser)
    assert parser.parse_args(["--steps", "-1"]).steps == (-1,)
    assert parser.parse_args(["--steps", "2-"]).steps == range(2, sys.maxsize)
    assert parser.parse_args(["--steps", "steady"]).steps == "steady"


@pytest.mark.parametrize("arguments", [["--steps", "x"], ["--what"], ["--step", "1"]])
def test_a_wrong_option_is_one_line_that_says_where_to_look(arguments: list[str]) -> None:
    parser = Parser(prog="kinetoscope x")
    add_selection(parser)
    with pytest.raises(UsageError, match=r"`kinetoscope x --help` lists the options$") as caught:
        parser.parse_args(arguments)
    assert "\n" not in str(caught.value)
