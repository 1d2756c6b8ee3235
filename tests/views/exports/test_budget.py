from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.errors import UsageError
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.exports.budget import tokens
from kinetoscope.views.exports.files import to_bytes

COLUMNS = Schema(Column("name", pl.String, "A name."), Column("time", pl.Int64, "A time.", "ns"))


def result(rows: int) -> Result:
    frame = pl.DataFrame(
        {"name": [f"kernel {place}" for place in range(rows)], "time": [10**9 + place for place in range(rows)]}
    )
    return Result(frame, COLUMNS, (Note("A", "A note."),), "kernels")


@given(st.integers(250, 5000), st.integers(0, 400), st.sampled_from(["json", "markdown"]))
def test_an_answer_has_its_budget_and_as_many_rows_as_fit(budget: int, rows: int, form: str) -> None:
    text = to_bytes(result(rows), form, budget).decode()
    assert tokens(text) <= budget
    kept = text.count("kernel ")
    if kept < rows:
        assert f"Rows 1 to {kept} of {rows}: the others do not fit into {budget:,} tokens." in text
        assert tokens(text) > 0.75 * budget - 100  # nothing is left out without need
    else:
        assert "Rows 1 to" not in text


def test_json_stays_json_and_says_what_is_left_out() -> None:
    answer = json.loads(to_bytes(result(1000), "json", 400))
    assert answer["columns"][0] == {"name": "name", "dtype": "String", "unit": ""}
    assert answer["notes"][0]["text"].startswith("Rows 1 to ")
    assert answer["rows"][0] == ["kernel 0", 10**9]


def test_a_budget_that_holds_nothing_is_an_error() -> None:
    with pytest.raises(UsageError, match="the columns and notes alone have about"):
        to_bytes(result(5), "json", 20)


def test_digits_count_more_than_letters() -> None:
    assert tokens("") == 0
    assert tokens("1234567890") == 7
    assert tokens("abcdefghij") == 3
