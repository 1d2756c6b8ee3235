"""Rooflines: the distance of a point from its roof is the share of its limit that it reaches."""

from __future__ import annotations

import json
import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.charts import Roofline
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.charts.chart import specification
from kinetoscope.views.charts.roofline import roofline_picture
from kinetoscope.views.charts.svg import svg
from kinetoscope.views.terminal.screen import to_text

PEAK, BANDWIDTH = 1e15, 2e12

ROWS = Schema(
    Column("name", pl.String, "Operator."),
    Column("input_shapes", pl.String, "Shapes."),
    Column("precision", pl.String, "Precision."),
    Column("dtype", pl.String, "Type."),
    Column("device_time", pl.Int64, "Time.", "ns"),
    Column("intensity", pl.Float64, "Operations per byte."),
    Column("rate", pl.Float64, "Operations a second.", "flop/s"),
    Column("efficiency", pl.Float64, "Share of the limit.", "fraction"),
    Column("headroom", pl.Int64, "Time beyond the limit.", "ns"),
    Column("bound", pl.String, "What limits it."),
    Column("peak", pl.Float64, "Peak.", "flop/s"),
    Column("peak_bandwidth", pl.Float64, "Bandwidth.", "bytes/s"),
    Column("at_limit", pl.Int64, "Of the time, that at the limit.", "ns"),
    Column("below_peak", pl.Int64, "Of the time, that beyond it.", "ns"),
)


def rows(*of: dict[str, Any]) -> Result:
    """Rows of 1 ms, bf16 and one device, but for what is given."""
    usual = {"name": "aten::mm", "precision": "bf16", "device_time": 10**6, "peak": PEAK, "peak_bandwidth": BANDWIDTH}
    frame = pl.DataFrame([{**dict.fromkeys(ROWS.names), **usual, **each} for each in of], schema=ROWS.types)
    return Result(frame, ROWS, analysis="roofline", chart_facts=Roofline(parts=("at_limit", "below_peak")))


def product(intensity: float, efficiency: float, **more: Any) -> dict[str, Any]:
    """A row that reaches so much of its limit at this intensity."""
    rate = min(PEAK, BANDWIDTH * intensity) * efficiency
    bound = "compute" if BANDWIDTH * intensity > PEAK else "memory"
    return {"intensity": intensity, "rate": rate, "efficiency": efficiency, "bound": bound, **more}


def copy(efficiency: float, **more: Any) -> dict[str, Any]:
    return {"name": "aten::copy_", "intensity": 0.0, "rate": 0.0, "efficiency": efficiency, "bound": "memory", **more}


def drawn(result: Result, limit: int = 100) -> Any:
    assert isinstance(result.chart_facts, Roofline)
    return roofline_picture(result, result.chart_facts, limit)


def roof_at(picture: Any, x: float) -> float:
    """The height of the lowest roof above x."""
    heights: list[float] = []
    for roof in picture.roofs:
        (x0, x1), (y0, y1) = roof.x, roof.y
        if x0 * 0.999 <= x <= x1 * 1.001:
            share = math.log(x / x0) / math.log(x1 / x0)
            heights.append(y0 * (y1 / y0) ** share)
    return min(heights)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.3, 7.0, 400.0, 2000.0]), st.floats(0.05, 1)), min_size=1, max_size=9))
def test_the_distance_below_the_roof_is_the_efficiency(each: list[tuple[float, float]]) -> None:
    picture = drawn(rows(*(product(x, share) if x else copy(share) for x, share in each)))
    for row, x, y in picture.points.select("row", "x", "y").rows():
        assert y / roof_at(picture, x) == pytest.approx(each[row][1], rel=1e-6)
        assert (x < picture.x[0]) == (each[row][0] == 0), "what has no arithmetic stands left of the axis"


def test_roofs_meet_at_the_ridge_and_are_labelled() -> None:
    picture = drawn(rows(product(400, 0.5), product(400, 0.5, peak=PEAK / 2, precision=None)))
    assert [roof.label for roof in picture.roofs] == [
        "memory 2.00\u00a0TB/s",
        "BF16 1,000\u00a0TFLOP/s",
        "vector 500\u00a0TFLOP/s",
    ]
    slope, level, other = picture.roofs
    assert (slope.x[1], slope.y[1]) == (level.x[0], level.y[0]) == (PEAK / BANDWIDTH, PEAK)
    assert other.x[0] == PEAK / BANDWIDTH / 2


def test_a_roof_is_named_after_what_is_computed_below_it() -> None:
    vector = {"precision": None, "peak": PEAK / 15}
    double = {"precision": None, "peak": PEAK / 30, "dtype": "float64"}
    few = product(1, 0.5, **double, device_time=10)
    picture = drawn(rows(product(1, 0.5), product(1, 0.5, **vector, dtype="bfloat16"), product(1, 0.5, **vector), few))
    assert [roof.label.partition("\u00a0")[0] for roof in picture.roofs[1:]] == ["BF16 1,000", "vector FP32 66.7"]
    assert drawn(rows(product(1, 0.5, **double))).roofs[1].label == "vector FP64 33.3\u00a0TFLOP/s"


def test_what_was_measured_is_drawn_beside_the_datasheet() -> None:
    result = rows(product(600, 0.5), product(1, 0.5, precision=None, dtype="float32", peak=PEAK / 10))
    facts = result.chart_facts
    assert isinstance(facts, Roofline)
    picture = roofline_picture(result, facts, 9, {"memory": 1.8e12, "BF16": 7e14, "FP8": 1e15})
    assert picture is not None
    measured = [roof for roof in picture.roofs if roof.is_measured]
    assert [roof.label for roof in measured] == ["measured: memory 1.80\u00a0TB/s", "measured: BF16 700\u00a0TFLOP/s"]
    assert measured[0].y[1] == measured[1].y[0] == 7e14
    assert len(picture.roofs) == 5


def test_precisions_with_one_peak_share_a_roof() -> None:
    vector = product(3, 0.5, precision=None, dtype="float32")
    picture = drawn(rows(product(1, 0.5), product(2, 0.5, precision="fp16"), vector))
    assert [roof.label for roof in picture.roofs][1:] == ["BF16, FP16, vector FP32 1,000\u00a0TFLOP/s"]


def test_a_link_has_no_roof_of_its_own() -> None:
    """A collective stands below the memory's roof by the share of the link's limit that it reaches."""
    short = copy(1e-3, bound="latency", peak_bandwidth=63e9, peak=None)
    picture = drawn(rows(product(400, 0.5), copy(0.25, bound="link", peak_bandwidth=450e9, peak=None), short))
    assert [roof.label for roof in picture.roofs] == ["memory 2.00\u00a0TB/s", "BF16 1,000\u00a0TFLOP/s"]
    x, y = picture.points.filter(pl.col("bound") == "link").select("x", "y").row(0)
    assert y / roof_at(picture, x) == pytest.approx(0.25)


def test_a_slow_trifle_stands_at_the_edge_instead_of_stretching_the_axis() -> None:
    picture = drawn(rows(product(400, 0.5, device_time=10**9), product(1e-6, 1e-6, device_time=10)))
    assert picture.y[0] > 1e11
    assert picture.points["y"].min() == picture.y[0]
    assert picture.points["x"].min() == picture.lane == picture.x[0]


def test_what_has_no_point_is_counted() -> None:
    unknown = {"name": "index_put_", "device_time": 10**6}
    assert (
        drawn(rows(product(400, 0.5), unknown)).rest
        == "50.0% of the time has no point: nothing tells its FLOPs and bytes"
    )
    assert drawn(rows(unknown)) is None
    assert drawn(rows(product(1, 0.5), product(2, 0.5)), limit=1).rest == "the 1 of 2 rows that take longest"
    assert drawn(rows(product(math.inf, 0.5))) is None


def test_as_vega_and_as_svg() -> None:
    result = rows(product(600, 0.5, name="<b>x</b>"), copy(0.5, device_time=10**5))
    spec = specification(result)
    json.dumps(spec, allow_nan=False)
    circles = spec["data"]["values"]
    assert [each["bound"] for each in circles] == ["compute", "memory"]
    assert spec["layer"][0]["encoding"]["color"]["scale"]["range"] == ["#0072b2", "#009e73"]
    assert circles[0]["area"] == 10 * circles[1]["area"], "area is time"
    assert "left of" in spec["encoding"]["x"]["title"]
    picture = svg(spec)
    assert picture.count("<circle") == 2
    assert picture.count("BF16 1,000") == 1
    assert "&lt;b&gt;x" in picture
    assert "<b>" not in picture
    assert svg(specification(rows())) == ""


def test_a_terminal_draws_the_parts_of_each_row() -> None:
    text = to_text(rows(product(400, 0.5, at_limit=500_000, below_peak=500_000)), width=200)
    bar = next(line for line in text.splitlines() if "aten::mm" in line)
    assert bar.count("█") == bar.count("╳") > 3
