"""What --where, --sort, --columns and --limit mean."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from kinetoscope.charts import Bars
from kinetoscope.errors import UsageError
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.rows import Arrangement, arranged, order
from tests.views.results import kernels

TABLE = kernels(
    ("a", "computation", 5, 10, 0.1),
    ("b", "memory", 5, 30, None),
    ("c", None, 1, 20, 0.3),
    ("d", "memory", 7, 20, 0.2),
)


def names(result: Result) -> str:
    return "".join(result.frame["name"])


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("calls > 4", "abd"),
        ("kind = 'memory' AND total < 30", "d"),
        ("kind <> 'memory'", "a"),
        ("kind IS NULL", "c"),
        ("name LIKE '%a%' OR name IN ('d')", "ad"),
        ("total / calls >= 6", "bc"),
    ],
)
def test_where(where: str, kept: str) -> None:
    assert names(arranged(TABLE, Arrangement(where))) == kept


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("total", "bcda"),
        ("total:asc", "acdb"),
        ("calls,total", "dbac"),
        ("calls:asc, total:desc", "cbad"),
        ("share", "cdab"),
        ("share:asc", "adcb"),
        ("name:desc", "dcba"),
    ],
)
def test_sort_is_descending_stable_and_puts_missing_last(sort: str, expected: str) -> None:
    assert names(arranged(TABLE, Arrangement(sort=order(sort)))) == expected


def test_columns_in_the_order_asked_after_conditions_on_others() -> None:
    table = replace(TABLE, chart_facts=Bars("name", "total"))
    chosen = arranged(table, Arrangement("calls > 4", sort=order("total"), columns=("total", "name")))
    assert chosen.frame.rows() == [(30, "b"), (20, "d"), (10, "a")]
    assert chosen.schema.names == ["total", "name"]
    assert chosen.chart_facts == table.chart_facts
    assert arranged(table, Arrangement(columns=("total",))).chart_facts is None
    with pytest.raises(UsageError, match=r"no column 'nam'.*did you mean 'name'"):
        arranged(TABLE, Arrangement(columns=("nam",)))


def test_where_then_sort_then_limit() -> None:
    assert names(arranged(TABLE, Arrangement("calls > 4", sort=order("total"), limit=2))) == "bd"
    assert names(arranged(TABLE, Arrangement(limit=0))) == "abcd"


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        (("calls", "ge", "5"), "abd"),
        (("share", "lt", "0.15"), "a"),
        (("kind", "eq", "memory"), "bd"),
        (("kind", "contains", "MEM"), "bd"),
        (("kind", "null", ""), "c"),
        (("share", "some", ""), "acd"),
    ],
)
def test_filters(filters: tuple[str, str, str], kept: str) -> None:
    assert names(arranged(TABLE, Arrangement(filters=(filters,)))) == kept


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (("calls", "contains", "1"), "is no text"),
        (("calls", "eq", "many"), "cannot be compared with 'many'"),
        (("cals", "eq", "1"), "(did you mean 'calls'?)"),
    ],
)
def test_filters_that_cannot_be(filters: tuple[str, str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        arranged(TABLE, Arrangement(filters=(filters,)))
    assert message in str(caught.value)


def test_search_looks_into_texts_lists_and_truth_values_as_they_are_shown() -> None:
    assert names(arranged(TABLE, Arrangement(search=" MEMO"))) == "bd"
    assert names(arranged(TABLE, Arrangement(search="30"))) == ""
    schema = Schema(Column("sizes", pl.List(pl.Int64), "Some."), Column("is_it", pl.Boolean, "Whether."))
    frame = pl.DataFrame(
        {"sizes": [[1, 23], [], None], "is_it": [True, False, None]}, schema_overrides={"sizes": pl.List(pl.Int64)}
    )
    for text, kept in (("1, 23", [True]), ("NO", [False]), ("nothing", [])):
        assert arranged(Result(frame, schema), Arrangement(search=text)).frame["is_it"].to_list() == kept


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"where": "totl > 1"}, "there is no column 'totl' (did you mean 'total'?)"),
        ({"where": "total >"}, "cannot be evaluated"),
        ({"where": "total"}, "must be of type `Boolean`"),
        ({"where": "total > 'x'"}, "cannot be evaluated"),
        ({"where": "1; DROP TABLE x"}, "cannot be evaluated"),
        ({"where": "read_csv('/etc/passwd')"}, "cannot be evaluated"),
        ({"sort": "calls:up"}, "write calls:asc or calls:desc"),
        ({"sort": "cals"}, "(did you mean 'calls'?)"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        arranged(TABLE, Arrangement(options.get("where", ""), sort=order(options.get("sort", ""))))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
