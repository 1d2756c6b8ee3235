"""What --where, --sort and --limit mean."""

from __future__ import annotations

import pytest

from kinetoscope.errors import UsageError
from kinetoscope.schema import Result
from kinetoscope.views.rows import arranged
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
    assert names(arranged(TABLE, where=where)) == kept


@pytest.mark.parametrize(
    ("sort", "order"),
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
def test_sort_is_descending_stable_and_puts_missing_last(sort: str, order: str) -> None:
    assert names(arranged(TABLE, sort=sort)) == order


def test_where_then_sort_then_limit() -> None:
    assert names(arranged(TABLE, where="calls > 4", sort="total", limit=2)) == "bd"
    assert names(arranged(TABLE, limit=0)) == "abcd"


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
        arranged(TABLE, **options)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
