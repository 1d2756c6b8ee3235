"""The words that options take."""

from __future__ import annotations

import sys

import pytest

from kinetoscope.cli.shared.options import Parser, add_selection
from kinetoscope.errors import UsageError


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
