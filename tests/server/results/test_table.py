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
from starlette.datastructures import QueryParams

from kinetoscope.schema import Column, Result, Schema
from kinetoscope.server.results.table import arrangement_of
from kinetoscope.views.charts.scales import scales
from kinetoscope.views.numbers import scale
from kinetoscope.views.rows import Arrangement, arranged
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
    return arranged(result, Arrangement(**asked)).frame.rows()


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
def test_search_is_for_texts(found: list[Row], text: str) -> None:
    result = result_of(found)
    assert same(told(result, search=text), [row for row in result.frame.rows() if text in (row[0] or "").lower()])


def test_lists_of_texts_are_searched_too() -> None:
    schema = Schema(Column("names", pl.List(pl.String), "Names."), Column("is_it", pl.Boolean, "Whether."))
    result = Result(pl.DataFrame([(["a", "Bc"], True), ([], False)], schema=["names", "is_it"], orient="row"), schema)
    assert [row[1] for row in told(result, search="bc")] == [True]
    assert [row[1] for row in told(result, search="NO")] == [False]


def test_a_search_that_is_a_filter_filters() -> None:
    assert arrangement_of(QueryParams("search=calls:gt:10")) == Arrangement(filters=(("calls", "gt", "10"),))
    assert arrangement_of(QueryParams("search=aten::add")) == Arrangement(search="aten::add")


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


def test_numbers_that_javascript_cannot_hold_are_texts() -> None:
    from kinetoscope.server.json_encoding import rows_to_json

    frame = pl.DataFrame({"a": [1, 2**60, None], "b": [math.inf, 0.5, math.nan], "c": [[2**60], [], None]})
    assert rows_to_json({}, frame) == (
        b'{"rows":[[1,null,["1152921504606846976"]],["1152921504606846976",0.5,[]],[null,null,null]]}'
    )
