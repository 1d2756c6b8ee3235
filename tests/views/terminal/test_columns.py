"""Columns as text."""

from __future__ import annotations

import polars as pl
import pytest

from kinetoscope.schema import Column, Schema
from kinetoscope.views.terminal.columns import formatted


@pytest.mark.parametrize(
    ("values", "unit", "texts"),
    [
        ([128_942_123, 128_943_999, None], "ms", ["128.942", "128.944", "–"]),
        ([1_500, 2_001, 90_000], "µs", ["1.500", "2.001", "90.000"]),
        ([3_000_000_123, 12_000_001_000], "s", ["3.000000", "12.000001"]),
        ([7, 12], "ns", ["7", "12"]),
        ([-1_500_000, 99_000_000], "ms", ["-1.500", "99.000"]),
        ([-500_000, 99_000_000], "ms", ["-0.500", "99.000"]),
    ],
)
def test_instants_are_shown_to_the_microsecond(values: list[int | None], unit: str, texts: list[str]) -> None:
    schema = Schema(Column("start", pl.Int64, "When.", "ns", instant=True))
    [column] = formatted(pl.DataFrame({"start": pl.Series(values, dtype=pl.Int64)}), schema)
    assert (column.unit, column.texts) == (unit, texts)


def test_durations_have_three_digits() -> None:
    schema = Schema(Column("start", pl.Int64, "When.", "ns"))
    assert formatted(pl.DataFrame({"start": [128_942_123]}), schema)[0].texts == ["129"]
