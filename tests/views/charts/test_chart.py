"""Declared charts as Vega-Lite."""

from __future__ import annotations

import json
from typing import Any, get_args

import polars as pl
import pytest

from kinetoscope.charts import Bars, Chart, Lines, drawn_columns
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.charts.chart import DRAWN, MAX_LINES, MAX_POINTS, WIDTH_PX, specification
from kinetoscope.views.charts.palette import KINDS, ink, kind_of
from kinetoscope.views.charts.svg import svg
from kinetoscope.views.terminal.screen import OF_ROWS
from tests.views.results import BARS, STACK, kernels, steps


def values(spec: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = spec["data"]["values"]
    return found


def test_bars_have_unit_colour_and_meaning() -> None:
    rows = [("gemm", "computation", 1, 2_000_000, 0.6), ("nccl", "communication", 1, 1_500_000, 0.4)]
    spec = specification(kernels(*rows, ("none", "memory", 1, None, None), chart=BARS))
    assert spec["$schema"].endswith("vega-lite/v6.json")
    assert spec["encoding"]["x"]["title"] == "total (ms)"
    assert [(row["label"], row["value"], row["text"]) for row in values(spec)] == [
        ("gemm", 2.0, "2.00\u00a0ms"),
        ("nccl", 1.5, "1.50\u00a0ms"),
    ]
    assert [row["colour"] for row in values(spec)] == ["#0072b2", "#e69f00"]
    assert {row["meaning"] for row in values(spec)} == {"Time of all calls."}


def test_stacks_have_the_colours_of_their_kinds() -> None:
    spec = specification(steps((10, 5, 1), (20, 0, 2)), dark=True)
    scale = spec["encoding"]["color"]["scale"]
    assert scale == {"domain": list(STACK.parts), "range": ["#3d9bd6", "#f0b429", "#2b2f35"]}
    assert [(row["label"], row["part"], row["value"]) for row in values(spec)][:3] == [
        ("0", "computation", 10),
        ("1", "computation", 20),
        ("0", "communication", 5),
    ]
    assert spec["encoding"]["x"]["field"] == "label", "numbers run from left to right"


def test_every_kind_of_chart_is_drawn_on_pages_and_terminals() -> None:
    kinds = set(get_args(Chart))
    assert set(DRAWN) == kinds
    assert set(OF_ROWS) == kinds - {Lines}, "lines stand above a table"


def test_a_chart_needs_the_columns_that_its_fields_name() -> None:
    assert drawn_columns(Bars("name", "time", limit=3)) == {"name", "time"}
    assert drawn_columns(Bars("name", "time", instead="host")) == {"name", "time", "host"}
    assert drawn_columns(Lines("at", "length", by=("rank", "stream"))) == {"at", "length", "rank", "stream"}


def test_names_that_look_alike_keep_bars_of_their_own() -> None:
    long = "void at::native::" + "x" * 100
    rows = [(long + "A" + "y" * 60, "memory", 1, 1, 1.0), (long + "B" + "y" * 60, "memory", 1, 1, 1.0)]
    labels = [row["label"] for row in values(specification(kernels(*rows, chart=BARS)))]
    assert len(set(labels)) == 2


def test_ranks_are_told_apart() -> None:
    one, two = steps((1, 2, 3)), steps((4, 5, 6), rank=7)
    both = one.__class__(one.frame.vstack(two.frame), one.schema, chart_facts=STACK)
    assert {row["name"] for row in values(specification(both))} == {"0 · rank 0", "0 · rank 7"}


def test_a_chart_is_json_and_says_where_there_is_none() -> None:
    json.dumps(specification(steps((1, 2, 3))), allow_nan=False)
    with pytest.raises(ValueError, match="declares no chart"):
        specification(kernels())


def test_a_name_means_a_kind_or_nothing() -> None:
    assert kind_of("Exposed communication") == "communication"
    assert kind_of("memcpy") == "memory"
    assert kind_of("calls") == ""
    assert ink("calls") == KINDS["idle"]
    assert len({each.light for each in KINDS.values()}) == len({each.glyph for each in KINDS.values()}) == len(KINDS)


def test_bars_draw_another_column_where_the_first_is_all_zeros_or_null() -> None:
    schema = Schema(
        Column("name", pl.String, "Name."), Column("device", pl.Int64, "D.", "ns"), Column("host", pl.Int64, "H.", "ns")
    )
    facts = Bars("name", "device", instead="host")

    def drawn(device: list[int | None]) -> list[float]:
        frame = pl.DataFrame({"name": ["a", "b"], "device": device, "host": [3, 4]})
        spec = specification(Result(frame, schema, chart_facts=facts))
        return [row["value"] for row in values(spec)]

    assert drawn([0, None]) == [3, 4]
    assert drawn([0, 7]) == [0, 7]


def test_bars_that_are_left_out_are_counted() -> None:
    schema = Schema(
        Column("rank", pl.Int64, "R."), Column("name", pl.String, "Name."), Column("time", pl.Int64, "T.", "ns")
    )
    frame = pl.DataFrame({"rank": [0, 0, 1], "name": ["a", "b", "a"], "time": [1, 2, 3]})
    spec = specification(Result(frame, schema, chart_facts=Bars("name", "time", limit=2)))
    assert spec["title"]["text"] == "2 of 3 rows, all of rank 0"
    assert "2 of 3 rows" in svg(spec)
    assert "title" not in specification(Result(frame, schema, chart_facts=Bars("name", "time")))


# --- lines

QUEUES = Schema(
    Column("rank", pl.Int64, "Rank."),
    Column("stream", pl.Int64, "Stream."),
    Column("time", pl.Int64, "When.", "ns"),
    Column("length", pl.Int64, "How many."),
)


def queues(*rows: tuple[int, int, int, int | None], steps: bool = True) -> Result:
    frame = pl.DataFrame(rows, schema=QUEUES.names, orient="row")
    return Result(frame, QUEUES, chart_facts=Lines("time", "length", by=("rank", "stream"), steps=steps))


def test_a_line_that_steps() -> None:
    spec = specification(queues((0, 7, 1_000_000, 3), (0, 7, 3_000_000, 0)))
    assert (spec["mark"]["type"], spec["mark"]["interpolate"]) == ("line", "step-after")
    assert [(row["x"], row["y"], row["at"], row["text"]) for row in values(spec)] == [
        (1.0, 3.0, "1.00\u00a0ms", "3"),
        (3.0, 0.0, "3.00\u00a0ms", "0"),
    ]
    assert spec["encoding"]["x"]["title"] == "time (ms)"
    assert (spec["width"], "row" in spec["encoding"], "title" in spec) == (WIDTH_PX, False, False)
    assert specification(queues((0, 7, 1, 3)), width=None)["width"] == "container", "on a page"
    assert specification(queues((0, 7, 1, 3), steps=False))["mark"]["interpolate"] == "linear"


def test_several_lines_are_panels_in_the_order_of_their_rows() -> None:
    spec = specification(queues((0, 9, 1, 3), (0, 10, 1, None), (0, 9, 2, 0)))
    assert spec["encoding"]["row"]["sort"] == ["stream 9", "stream 10"]
    assert spec["resolve"] == {"scale": {"y": "independent"}}
    assert isinstance(spec["width"], int), "Vega-Lite gives panels no width of the page"
    assert [row["line"] for row in values(spec)] == ["stream 9", "stream 9", "stream 10"]
    assert values(spec)[-1]["y"] is None
    json.dumps(spec, allow_nan=False)


def test_many_points_are_thinned_and_the_title_says_so() -> None:
    rows = [(0, 7, time, 10**6 if time == 54_321 else time % 10) for time in range(100_000)]
    spec = specification(queues(*rows))
    shown = [row["y"] for row in values(spec)]
    assert len(shown) <= MAX_POINTS
    assert (max(shown), min(shown)) == (10**6, 0)
    assert spec["title"]["text"].endswith("of 100,000 points: of each stretch the least and the greatest stay")


def test_many_lines_are_counted() -> None:
    spec = specification(queues(*((0, stream, time, 1) for stream in range(30) for time in range(200))))
    assert len(spec["encoding"]["row"]["sort"]) == MAX_LINES
    assert len(values(spec)) <= MAX_POINTS
    assert spec["title"]["text"].endswith("24 of 30 lines")


def test_no_rows_and_no_values_are_no_error() -> None:
    for result in (queues(), queues((0, 7, 1, None))):
        json.dumps(specification(result, dark=True), allow_nan=False)


def test_a_kind_that_svg_does_not_know_has_no_picture() -> None:
    spec = {"data": {"values": [{"x": 1, "y": 2}]}, "mark": "point", "encoding": {"x": {"field": "x"}}}
    assert svg(spec) == ""
