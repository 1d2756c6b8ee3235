"""Rows as a page's table asks for them, against the same in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.schema import Column, Result, Schema, Unit
from kinetoscope.server.results.table import Arrangement, arranged
from kinetoscope.server.results.text_search import texts_of
from kinetoscope.views.charts.scales import scales
from kinetoscope.views.numbers import Scale, scale
from kinetoscope.views.terminal.columns import formatted
from tests.server.serving import Client

SCHEMA = Schema(
    Column("name", pl.String, "A text."),
    Column("calls", pl.Int64, "A count."),
    Column("time", pl.Int64, "A duration.", "ns"),
    Column("share", pl.Float64, "A share.", "fraction"),
    Column("start", pl.Int64, "A place in time.", "ns", instant=True),
)
Row = tuple[str | None, int | None, int | None, float | None, int | None]

words = st.text(st.sampled_from("aBçß漢1.5 %"), max_size=6) | st.none()
numbers = st.integers(-(10**12), 10**12) | st.integers(0, 3) | st.none()
shares = st.floats(0, 1) | st.sampled_from([math.nan, 0.0, 0.125, None])
rows = st.lists(st.tuples(words, numbers, numbers, shares, numbers), max_size=30)
orders = st.lists(st.tuples(st.sampled_from(SCHEMA.names), st.booleans()), max_size=3, unique_by=lambda each: each[0])


def result_of(found: list[Row]) -> Result:
    return Result(pl.DataFrame(found, schema={each.name: each.dtype for each in SCHEMA}, orient="row"), SCHEMA)


def told(result: Result, **asked: Any) -> list[Any]:
    return arranged(result, Arrangement(**asked), scales(result.frame, result.schema)).rows()


def same(left: list[Any], right: list[Any]) -> bool:
    return [list(map(repr, row)) for row in left] == [list(map(repr, row)) for row in right]


@given(rows, orders)
def test_sorting_is_stable_with_what_is_missing_last(found: list[Row], order: list[tuple[str, bool]]) -> None:
    result = result_of(found)
    expected = result.frame.rows()
    for name, descending in reversed(order):
        place = SCHEMA.names.index(name)
        missing = [row for row in expected if row[place] is None or row[place] != row[place]]
        there = [row for row in expected if not (row[place] is None or row[place] != row[place])]
        expected = sorted(there, key=partial(key_of, place), reverse=descending) + missing
    assert same(told(result, sort=tuple(order)), expected)


def key_of(place: int, row: Row) -> Any:
    value = row[place]
    return value.encode() if isinstance(value, str) else value


@given(rows, st.text(st.sampled_from("abçs漢015.%"), min_size=1, max_size=3))
def test_search_finds_what_is_shown(found: list[Row], text: str) -> None:
    result = result_of(found)
    units = scales(result.frame, result.schema)
    expected = []
    for row in result.frame.rows():
        for value, column in zip(row, SCHEMA, strict=True):
            if value is None or value != value:
                continue
            if isinstance(value, str):
                shown = value.lower()
            else:
                frame = pl.DataFrame({column.name: [value]}, schema={column.name: column.dtype})
                shown = one(frame.to_series(), column, units[column.name]).replace("\u202f", "")
            if text.lower() in shown:
                expected.append(row)
                break
    assert same(told(result, search=text), expected)


def one(values: pl.Series, column: Column, unit: Scale) -> str:
    """A number as the page's tables show it."""
    if column.instant:
        # A value that makes `formatted` choose this unit; only the text of the first one is looked at.
        decimals = {1e3: 3, 1e6: 3, 1e9: 6}.get(unit.divisor, 0)
        value = values[0]
        return ("-" if value < 0 else "") + f"{abs(value) / unit.divisor:.{decimals}f}"
    return unit.text(values[0])


COMPARED: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@given(rows, st.sampled_from(sorted(COMPARED)), st.integers(-3, 3))
def test_filters_compare_stored_values(found: list[Row], operation: str, value: int) -> None:
    result = result_of(found)
    expected = [row for row in result.frame.rows() if row[1] is not None and COMPARED[operation](row[1], value)]
    assert same(told(result, filters=(("calls", operation, str(value)),)), expected)


@given(rows)
def test_filters_know_what_is_missing(found: list[Row]) -> None:
    result = result_of(found)
    missing = [row for row in result.frame.rows() if row[3] is None or row[3] != row[3]]
    assert same(told(result, filters=(("share", "null", ""),)), missing)
    assert len(told(result, filters=(("share", "some", ""),))) == len(found) - len(missing)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True) | st.none(), min_size=1, max_size=40))
def test_many_numbers_are_written_as_one_is(values: list[float | None]) -> None:
    column = Column("x", pl.Float64, "A number.")
    shown = texts_of(pl.Series("x", values, dtype=pl.Float64), column, Scale(""))
    single = [
        None if value is None or value != value else Scale("").text(value).replace("\u202f", "") for value in values
    ]
    assert shown.to_list() == single


@given(st.lists(st.decimals(0, 1000, places=4).map(float) | st.integers(0, 10**15).map(lambda n: n / 1000), min_size=1))
def test_ties_go_where_they_go_alone(values: list[float]) -> None:
    shown = texts_of(pl.Series("x", values), Column("x", pl.Float64, "A number."), Scale(""))
    assert shown.to_list() == [Scale("").text(value).replace("\u202f", "") for value in values]


@given(st.lists(st.integers(-(10**15), 10**15) | st.none(), min_size=1), st.sampled_from(["ns", "bytes", ""]))
def test_columns_are_written_as_tables_write_them(values: list[int | None], unit: Unit) -> None:
    for instant in (False, True) if unit == "ns" else (False,):
        column = Column("x", pl.Int64, "A number.", unit, instant)
        series = pl.Series("x", values, dtype=pl.Int64)
        expected = formatted(series.to_frame(), Schema(column))[0].texts
        shown = texts_of(series, column, scale(values, unit)).to_list()
        assert [text or "–" for text in shown] == [text.replace("\u202f", "") for text in expected]


@pytest.mark.parametrize("size", [3, 5000])
def test_the_unit_is_that_of_all_rows(size: int) -> None:
    values = [k * 1000 for k in range(size)] + [None]
    found: list[Row] = [("a", 1, value, math.nan, None) for value in values]
    assert scales(result_of(found).frame, SCHEMA)["time"] == scale(values, "ns")


def test_windows_are_parts_of_the_whole(mlp: Client) -> None:
    path = f"runs/{mlp.run()}/analyses/operators"
    whole = mlp.get(path, {"limit": 10_000, "sort": "-host_total"})
    parts = [mlp.get(path, {"limit": 7, "offset": offset, "sort": "-host_total"}) for offset in range(0, 60, 7)]
    assert [row for part in parts for row in part["rows"]] == whole["rows"][:63]
    assert {str(part["scales"]) for part in parts} == {str(whole["scales"])}
    assert mlp.get(path, {"offset": 10**9})["rows"] == []
    assert mlp.get(path, {"limit": 0})["total"] == whole["total"]


def test_lists_and_truths_are_found_as_they_are_shown() -> None:
    schema = Schema(Column("sizes", pl.List(pl.Int64), "Some."), Column("is_it", pl.Boolean, "Whether."))
    frame = pl.DataFrame({"sizes": [[1, 23], [], None], "is_it": [True, False, None]})
    result = Result(frame.cast({"sizes": pl.List(pl.Int64)}), schema)
    assert [row[1] for row in told(result, search="1, 23")] == [True]
    assert [row[1] for row in told(result, search="NO")] == [False]
    assert told(result, search="nothing") == []


def test_numbers_that_javascript_cannot_hold_are_texts() -> None:
    from kinetoscope.server.json_encoding import rows_to_json

    frame = pl.DataFrame({"a": [1, 2**60, None], "b": [math.inf, 0.5, math.nan], "c": [[2**60], [], None]})
    assert rows_to_json({}, frame) == (
        b'{"rows":[[1,null,["1152921504606846976"]],["1152921504606846976",0.5,[]],[null,null,null]]}'
    )
