"""The declared chart of a result as a Vega-Lite specification, data included: one for browser, report and notebook.

Every number and label in it is computed here; the drawing side computes nothing. Fields have names of our own, because
Vega-Lite reads dots and brackets in a field's name as a path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from kinetoscope.schema import Bars, Lines, Result, StackedBars
from kinetoscope.views.charts import series
from kinetoscope.views.charts.palette import colour
from kinetoscope.views.grammar import short
from kinetoscope.views.names import shortened
from kinetoscope.views.numbers import Scale, grouped, scale
from kinetoscope.views.terminal.columns import drawn_by
from kinetoscope.views.text import middle, printable

MAX_STACKS = 400
"""Bars in a chart of stacks; the table has the others."""

MAX_LINES = 24
"""Lines in a chart of lines."""

MAX_POINTS = 4000
"""Points in a chart of lines, in all."""

_LABEL_CELLS = 56  # cells of a name beside a bar
_TITLE_CELLS = 90  # cells of a name above a chart

Row = dict[str, Any]

_BASE: Row = {
    "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
    "config": {"view": {"stroke": None}, "background": None, "font": "system-ui, sans-serif"},
}

WIDTH_PX = 640
"""Of a chart that stands by itself, in px."""


def specification(result: Result, *, dark: bool = False, width: int | None = WIDTH_PX) -> dict[str, Any]:
    """The Vega-Lite v6 specification that draws `result`.

    Args:
        result: what to draw, with `chart_facts`.
        dark: in the colours for dark pages.
        width: in px; None takes that of its container, which must have one: a notebook's cell has none.

    Raises:
        ValueError: the analysis declares no chart.
    """
    spec = _drawn(result, dark)
    if spec["width"] == "container" and width is not None:
        spec["width"] = width
    return spec


def _drawn(result: Result, dark: bool) -> dict[str, Any]:
    facts = result.chart_facts
    if isinstance(facts, Bars):
        return _bars(result, facts, dark)
    if isinstance(facts, StackedBars):
        return _stacked(result, facts, dark)
    if isinstance(facts, Lines):
        return _lines(result, facts, dark)
    raise ValueError(f"{result.analysis or 'this result'} declares no chart")


def _bars(result: Result, facts: Bars, dark: bool) -> dict[str, Any]:
    column = result.schema[drawn_by(result.frame, facts)]
    frame = result.frame.filter(pl.col(column.name).is_not_null())
    alone = frame.get_column(facts.of)[0] if facts.of and frame.height else None
    frame = frame.filter(pl.col(facts.of) == alone) if alone is not None else frame
    frame = frame.head(facts.limit)
    values = frame.get_column(column.name).to_list()
    ends = [frame.get_column(name).to_list() for name in (facts.low, facts.high) if name]
    unit = scale([value for each in (values, *ends) for value in each], column.unit)
    kinds = frame.get_column("kind").to_list() if "kind" in frame.columns else [column.name] * frame.height
    rows = [
        _row(name, label, column.name, value, unit, column.doc) | {"colour": colour(str(kind), dark=dark)}
        for (name, label), value, kind in zip(_labels(frame, facts.category), values, kinds, strict=True)
    ]
    for row, *between in zip(rows, *ends, strict=True):
        row |= dict(zip(("low", "high"), (value / unit.divisor for value in between), strict=False))
    spec = _chart(
        rows,
        y=_names(facts.category),
        x={"field": "value", "type": "quantitative", "title": axis_title(column.name, unit)},
        color={"field": "colour", "type": "nominal", "scale": None},
    )
    if ends:
        spec = _with_whiskers(spec)
    if alone is not None:
        spec["title"] = {"text": middle(printable(short(str(alone))), _TITLE_CELLS), "fontSize": 12}
    return spec


def _with_whiskers(spec: dict[str, Any]) -> dict[str, Any]:
    """The bars, and over each a line from the least to the greatest."""
    ends = {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}}
    whisker = {"mark": {"type": "rule", "strokeWidth": 1.5}, "encoding": {"y": spec["encoding"]["y"], **ends}}
    bar = {"mark": spec["mark"], "encoding": spec["encoding"]}
    return {**{key: value for key, value in spec.items() if key != "mark"}, "layer": [bar, whisker]}


def _stacked(result: Result, facts: StackedBars, dark: bool) -> dict[str, Any]:
    frame = result.frame.head(MAX_STACKS)
    columns = [result.schema[part] for part in facts.parts]
    unit = scale([value for part in facts.parts for value in frame.get_column(part)], columns[0].unit)
    labels = _labels(frame, facts.category)
    rows = [
        _row(name, label, column.name, value, unit, column.doc) | {"order": order}
        for order, column in enumerate(columns)
        for (name, label), value in zip(labels, frame.get_column(column.name), strict=True)
        if value is not None
    ]
    upright = frame.get_column(facts.category).dtype.is_numeric()
    size = {"field": "value", "type": "quantitative", "title": unit.label, "stack": "zero"}
    colours = {"domain": list(facts.parts), "range": [colour(part, dark=dark) for part in facts.parts]}
    return _chart(
        rows,
        x=_names(facts.category) if upright else size,
        y=size if upright else _names(facts.category),
        color={"field": "part", "type": "nominal", "title": None, "scale": colours},
        order={"field": "order", "type": "quantitative"},
    )


def _lines(result: Result, facts: Lines, dark: bool) -> dict[str, Any]:
    """A panel for each line, because colour means a kind of time and not a name; all share the axis of x."""
    frame = result.frame
    every = list(series.each(frame, facts, MAX_LINES))
    shown = [series.thinned(each, MAX_POINTS // max(len(every), 1)) for each in every]
    xs = [frame.get_column(facts.x).gather(each.rows).to_list() for each in shown]
    ys = [frame.get_column(facts.y).gather(each.rows).to_list() for each in shown]
    x, y = result.schema[facts.x], result.schema[facts.y]
    x_unit = scale([value for values in xs for value in (values[0], values[-1])], x.unit)
    y_unit = scale([value for values in ys for value in values], y.unit)
    rows = [
        {
            "line": each.label,
            "x": at / x_unit.divisor,
            "y": None if value is None else value / y_unit.divisor,
            "at": x_unit.with_unit(at),
            "text": y_unit.with_unit(value),
        }
        for each, of_x, of_y in zip(shown, xs, ys, strict=True)
        for at, value in zip(of_x, of_y, strict=True)
        if at is not None
    ]
    encoding: dict[str, Any] = {
        "x": {"field": "x", "type": "quantitative", "title": axis_title(x.name, x_unit)},
        "y": {"field": "y", "type": "quantitative", "title": axis_title(y.name, y_unit)},
        "tooltip": tooltip(("line", "of"), ("at", x.name), ("text", y.name)),
    }
    spec = vega_lite(**_panels(encoding, [each.label for each in shown])) | {
        "data": {"values": rows},
        "mark": {
            "type": "line",
            "interpolate": "step-after" if facts.steps else "linear",
            "color": colour(y.name, dark=dark),
            "strokeWidth": 1.25,
        },
        "encoding": encoding,
    }
    left_out = _left_out(series.count(frame, facts), every, shown)
    return spec | ({"title": {"text": left_out, "fontSize": 11, "fontWeight": "normal"}} if left_out else {})


def _panels(encoding: dict[str, Any], labels: Sequence[str]) -> dict[str, Any]:
    """The size of one chart, or of several below one another; these cannot take the width of the page."""
    if len(labels) <= 1:
        return {"width": "container", "height": 240}
    header = {
        "labelAngle": 0,
        "labelAlign": "left",
        "labelAnchor": "start",
        "labelOrient": "top",
        "title": encoding["y"]["title"],
    }
    encoding["row"] = {"field": "line", "type": "nominal", "sort": list(labels), "header": header}
    encoding["y"]["title"] = None
    return {"width": 720, "height": 72, "resolve": {"scale": {"y": "independent"}}}


def _left_out(lines: int, every: Sequence[series.ChartLine], shown: Sequence[series.ChartLine]) -> str:
    """What of the result is not drawn, "" if all is."""
    points, drawn = (sum(len(each.rows) for each in of) for of in (every, shown))
    parts = []
    if drawn < points:
        parts.append(f"{grouped(drawn)} of {grouped(points)} points: of each stretch the least and the greatest stay")
    if lines > len(shown):
        parts.append(f"{grouped(len(shown))} of {grouped(lines)} lines")
    return "; ".join(parts)


def _chart(rows: Sequence[Row], **encoding: Any) -> dict[str, Any]:
    upright = encoding["x"].get("field") == "label"
    name = encoding["x" if upright else "y"]["title"]
    tips = tooltip(("name", name), ("part", "what"), ("text", "value"), ("meaning", "meaning"))
    return vega_lite(
        data={"values": list(rows)},
        mark={"type": "bar"},
        width="container" if not upright else max(240, min(900, 24 * len(rows))),
        encoding={**encoding, "tooltip": tips},
    )


def vega_lite(**parts: Any) -> dict[str, Any]:
    """A specification of these parts, with the version and the looks that all charts have."""
    return {**_BASE, **parts}


def tooltip(*fields: tuple[str, str]) -> list[Row]:
    """The lines of a tooltip: fields of a mark, and their titles; a field without one is its own title."""
    return [{"field": name, "type": "nominal", "title": title or name} for name, title in fields]


def axis_title(name: str, unit: Scale) -> str:
    """`duration (ms)`."""
    return f"{name} ({unit.label})" if unit.label else name


def _row(name: str, label: str, part: str, value: float, unit: Scale, meaning: str) -> Row:
    """One mark: the number in the unit of its axis, and the words for who points at it."""
    return {
        "name": name,
        "label": label,
        "part": part,
        "value": value / unit.divisor,
        "text": unit.with_unit(value),
        "meaning": meaning,
    }


def _names(category: str) -> dict[str, Any]:
    """The axis of names, in the order of the rows."""
    return {"field": "label", "type": "nominal", "title": category, "sort": None, "axis": {"labelLimit": 360}}


def _labels(frame: pl.DataFrame, category: str) -> list[tuple[str, str]]:
    """Full and short name of each row; the short ones differ wherever rows do, or bars would be one."""
    names = [printable(str(value)) for value in frame.get_column(category)]
    for key in ("rank", "device"):
        if len(set(names)) < len(names) and key in frame.columns and key != category:
            names = [f"{name} · {key} {value}" for name, value in zip(names, frame.get_column(key), strict=True)]
    seen: dict[str, int] = {}
    pairs = []
    for name, label in zip(names, shortened(names, _LABEL_CELLS), strict=True):
        seen[name] = seen.get(name, 0) + 1
        pairs.append((name, label if seen[name] == 1 else f"{label} ({seen[name]})"))
    return pairs
