"""The lines of a chart of lines, and what is left of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.charts import Lines
from kinetoscope.views.charts import series
from kinetoscope.views.charts.series import ChartLine, columns, thinned

FACTS = Lines("time", "length", by=("rank", "stream"))


def frame(*rows: tuple[Any, ...]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["rank", "stream", "time", "length"], orient="row")


def line(*points: tuple[float, float | None]) -> ChartLine:
    x, y = (np.array([np.nan if point[k] is None else point[k] for point in points], np.float64) for k in (0, 1))
    return ChartLine("a line", np.arange(len(points)), x, y)


def test_lines_are_told_apart_by_what_differs() -> None:
    found = list(series.each(frame((0, 7, 1, 5), (0, 8, 1, 6), (0, 7, 2, None), (0, None, 1, 3)), FACTS, 9))
    assert [(each.label, each.rows.tolist()) for each in found] == [
        ("stream 7", [0, 2]),
        ("stream 8", [1]),
        ("stream –", [3]),
    ]
    assert np.isnan(found[0].y[1])
    [alone] = series.each(frame((0, 7, 1, 5)), FACTS, 9)
    assert alone.label == "rank 0 · stream 7"
    [alone] = series.each(frame((0, 7, 1, 5)), Lines("time", "length"), 9)
    assert alone.label == "length"


def test_what_follows_from_another_column_is_not_repeated() -> None:
    rows = pl.DataFrame([(0, 4, 7), (0, 4, 8), (1, 5, 7)], schema=["rank", "device", "stream"], orient="row")
    rows = rows.with_columns(time=pl.lit(1), length=pl.lit(1))
    facts = Lines("time", "length", by=("rank", "device", "stream"))
    assert [each.label for each in series.each(rows, facts, 9)] == [
        "rank 0 · stream 7",
        "rank 0 · stream 8",
        "rank 1 · stream 7",
    ]


def test_text_needs_no_name_of_its_column_and_cannot_act_on_a_terminal() -> None:
    rows = frame((0, "HtoD", 1, 5), (0, "\x1b[31m", 1, 5))
    assert [each.label for each in series.each(rows, FACTS, 9)] == ["HtoD", "\\x1b[31m"]


def test_where_x_falls_another_line_begins() -> None:
    rows = frame((0, 7, 1, 5), (0, 7, 2, 5), (0, 8, 0, 5), (0, 7, 1, 6))
    assert [(each.label, each.rows.tolist()) for each in series.each(rows, FACTS, 9)] == [
        ("stream 7", [0, 1]),
        ("stream 8", [2]),
        ("stream 7 (2)", [3]),
    ]
    assert series.count(rows, FACTS) == 3
    assert len(list(series.each(rows, FACTS, 2))) == 2
    assert (series.count(frame(), FACTS), list(series.each(frame(), FACTS, 9))) == (0, [])


POINTS = st.lists(st.tuples(st.integers(0, 10**6), st.one_of(st.none(), st.integers(-5, 5))), max_size=60)


@given(POINTS, st.integers(0, 40))
def test_of_what_is_left_out_nothing_stands_out(points: list[tuple[int, int | None]], limit: int) -> None:
    whole = line(*sorted(points, key=lambda point: point[0]))
    left = thinned(whole, limit)
    assert len(left.rows) <= max(limit, 4)
    assert (np.diff(left.rows) > 0).all()
    assert np.array_equal(left.y, whole.y[left.rows], equal_nan=True)
    if len(whole.rows):
        assert {0, len(whole.rows) - 1} <= set(left.rows.tolist())
    known = whole.y[~np.isnan(whole.y)]
    if len(known):
        assert (np.nanmin(left.y), np.nanmax(left.y)) == (known.min(), known.max())


def test_each_stretch_keeps_its_peak() -> None:
    whole = line(*((x, 100 + x // 250 if x % 250 == 77 else x % 7) for x in range(1000)))
    left = thinned(whole, 16)
    assert len(left.rows) <= 16
    assert [y for y in left.y if y >= 100] == [100, 101, 102, 103]


def test_cells_show_the_greatest_value_and_steps_hold_theirs() -> None:
    curve = line((0, 1), (14, 9), (16, 0), (30, 4), (31, None), (38, 2))
    assert columns(curve, 0, 40, 4, steps=True) == [1, 9, 0, 4]
    assert columns(curve, 0, 40, 8, steps=True) == [1, 1, 9, 9, 0, 0, 4, 4]
    assert columns(curve, 0, 40, 8, steps=False) == [1, None, 9, 0, None, None, 4, 2]
    assert columns(line((20, 5)), 0, 40, 4, steps=True) == [None, None, 5, 5]
    assert columns(line((3, 5), (3, 7)), 3, 3, 2, steps=True) == [7, 7]
    assert columns(line((3, None)), 0, 5, 2, steps=True) == [None, None]
