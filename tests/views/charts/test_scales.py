"""One unit for the columns of a table that a reader compares."""

from __future__ import annotations

import polars as pl
import pytest

from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.charts.scales import scales
from kinetoscope.views.terminal.screen import to_text

TIMES = Schema(
    Column("name", pl.String, "What."),
    Column("total", pl.Int64, "All calls.", "ns"),
    Column("self", pl.Int64, "Of them itself.", "ns"),
    Column("change", pl.Int64, "Now less before.", "ns"),
    Column("mean", pl.Int64, "A call.", "ns"),
    Column("max", pl.Int64, "The longest call.", "ns"),
    Column("start", pl.Int64, "When.", "ns", instant=True),
    Column("size", pl.Int64, "How large.", "bytes"),
    Column("calls", pl.Int64, "How often."),
)


def frame(*rows: tuple[str, int, int | None, int, int, int, int, int, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={column.name: column.dtype for column in TIMES}, orient="row")


ROWS = frame(
    ("a", 105_000_000, 73_833_000, -31_084_000, 5_858_000, 42_400_000, 3_000_000_000, 5_000, 18),
    ("b", 4_840_000, 12, 1_471_000, 900, 6_310_000, 1_000_000, 70_000_000, 3),
)


def test_times_that_are_compared_have_one_unit() -> None:
    units = scales(ROWS, TIMES)
    assert {units[name].label for name in ("total", "self", "change")} == {"ms"}
    assert {units[name].label for name in ("mean", "max")} == {"ms"}
    assert units["size"].label == "MB"
    assert units["calls"].label == ""
    assert "name" not in units


def test_times_of_one_call_are_not_in_the_unit_of_all_calls() -> None:
    units = scales(frame(("a", 9_000_000_000, 8_000_000_000, 0, 4_000, 9_000, 0, 0, 2_000_000)), TIMES)
    assert [units[name].label for name in ("total", "self", "mean", "max")] == ["s", "s", "µs", "µs"]


def test_a_unit_stays_when_rows_are_cut() -> None:
    text = to_text(Result(ROWS, TIMES), width=200, limit=1)
    assert text.splitlines()[1].split() == ["ms", "ms", "ms", "ms", "ms", "s", "MB"]


@pytest.mark.parametrize("rows", [0, 1, 5_000])
def test_nothing_known_is_no_fault(rows: int) -> None:
    empty = ROWS.clear(rows) if rows else ROWS.clear()
    assert scales(empty, TIMES)["total"].label == "ns"
