"""The declared chart of a result as a Vega-Lite specification, data included: one for browser, report and notebook.

Every number and label in it is computed here; the drawing side computes nothing. Fields have names of our own, because
Vega-Lite reads dots and brackets in a field's name as a path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import polars as pl

from kinetoscope.charts import Bars, Lines, Ranges, Roofline, StackedBars
from kinetoscope.model.trace.text import listed
from kinetoscope.schema import Result
from kinetoscope.views.charts import series
from kinetoscope.views.charts.palette import colour
from kinetoscope.views.charts.roofline import BOUNDS, roofline_picture
from kinetoscope.views.charts.scales import is_wide
from kinetoscope.views.charts.svg import svg
from kinetoscope.views.grammar import short
from kinetoscope.views.names import shortened
from kinetoscope.views.numbers import Scale, grouped, scale
from kinetoscope.views.terminal.columns import drawn_by, drawn_kinds
from kinetoscope.views.text import middle, printable

MAX_STACKS = 400
"""Bars in a chart of stacks; the table has the others."""

MAX_LINES = 24
"""Lines in a chart of lines."""

MAX_LINES_IN_CELL = 10
"""The same in a notebook, where no panel can be scrolled away."""

MAX_DOTS = 64
"""Dots of a line in a chart of ranges; of one kernel the lines."""

MAX_POINTS = 4000
"""Points in a chart of lines, in all."""

MAX_CIRCLES = 1000
"""Circles of a roofline; the page itself draws more."""

_LARGEST_CIRCLE_PX = 1600  # area of the circle of the row that takes longest
_SMALLEST_CIRCLE_PX = 8  # area of a circle that can still be seen
_LABEL_CELLS = 56  # cells of a name beside a bar
_TITLE_CELLS = 90  # cells of a name above a chart

Row = dict[str, Any]

_BASE: Row = {
    "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
    "config": {"view": {"stroke": None}, "background": None, "font": "system-ui, sans-serif"},
}

_POWER = "log(datum.value) / LN10"
DECADES: Row = {
    "labelOverlap": True,
    "labelSeparation": 8,
    "gridOpacity": {"condition": {"test": f"abs({_POWER} - round({_POWER})) < 1e-6", "value": 1}, "value": 0},
}
"""A logarithmic axis with a line for each power of ten, not for each of its nine parts."""

WIDTH_PX = 640
"""Of a chart that stands by itself, in px."""


class Look(NamedTuple):
    """The colours of a chart, for dark pages or light ones, and the number of lines there is room for."""

    dark: bool
    max_lines: int


class VegaLiteSpec(dict[str, Any]):
    """A Vega-Lite specification; in a notebook the front end's Vega draws it, or it is SVG where there is none."""

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        # JupyterLab and VS Code name one version; what is written here is the same in both.
        plain = {**self, "$schema": "https://vega.github.io/schema/vega-lite/v5.json"}
        return {
            "application/vnd.vegalite.v5+json": plain,
            "image/svg+xml": svg(self),
            "text/plain": f"<Vega-Lite specification of {len(self['data']['values'])} marks>",
        }


def chart_in_cell(result: Result) -> VegaLiteSpec:
    """The specification that draws `result` in a notebook's cell."""
    return specification(result, max_lines=MAX_LINES_IN_CELL)


def specification(
    result: Result, *, dark: bool = False, width: int | None = WIDTH_PX, max_lines: int = MAX_LINES
) -> VegaLiteSpec:
    """The Vega-Lite v6 specification that draws `result`.

    Args:
        result: what to draw, with `chart_facts`.
        dark: in the colours for dark pages.
        width: in px; None takes that of its container, which must have one: a notebook's cell has none.
        max_lines: in a chart of lines.

    Raises:
        ValueError: the analysis declares no chart.
    """
    draw = DRAWN.get(type(result.chart_facts))
    if draw is None:
        raise ValueError(f"{result.analysis or 'this result'} declares no chart")
    spec = draw(result, result.chart_facts, Look(dark, max_lines))
    if spec["width"] == "container" and width is not None:
        spec["width"] = width
    return VegaLiteSpec(spec)


def _bars(result: Result, facts: Bars, look: Look) -> dict[str, Any]:
    column = result.schema[drawn_by(result.frame, facts)]
    frame = result.frame.filter(pl.col(column.name).is_not_null()).head(facts.limit)
    values = frame.get_column(column.name).to_list()
    unit = scale(values, column.unit)
    rows = [
        _row(name, label, column.name, value, unit, column.doc) | {"colour": drawn}
        for (name, label), value, drawn in zip(
            _labels(frame, facts.category), values, _colours(frame, column.name, look), strict=True
        )
    ]
    spec = _chart(
        rows,
        y=_names(facts.category, titled=frame.schema[facts.category].is_numeric()),
        x={"field": "value", "type": "quantitative", "title": axis_title(column.name, unit)},
        color={"field": "colour", "type": "nominal", "scale": None},
    )
    return spec | _title(_rows_drawn(result.frame, frame))


def _rows_drawn(every: pl.DataFrame, drawn: pl.DataFrame) -> str:
    """How many of the rows are drawn, and of which rank if that is not all; "" if all are."""
    if drawn.height == every.height or not drawn.height:
        return ""
    words = f"{grouped(drawn.height)} of {grouped(every.height)} rows"
    if "rank" in every.columns and drawn["rank"].n_unique() < every["rank"].n_unique():
        ranks = drawn["rank"].unique().sort().to_list()
        words += f", all of {'ranks' if len(ranks) > 1 else 'rank'} {listed(ranks)}"
    return words


def _title(words: str) -> dict[str, Any]:
    return {"title": {"text": words, "fontSize": 11, "fontWeight": "normal"}} if words else {}


def _ranges(result: Result, facts: Ranges, look: Look) -> dict[str, Any]:
    """A rule from end to end for each label, and a dot for each row; long and short ones on one logarithmic axis."""
    frame = result.frame.drop_nulls([facts.low, facts.value, facts.high])
    shown = frame.get_column(facts.category).unique(maintain_order=True).head(facts.limit)
    frame = frame.filter(pl.col(facts.category).is_in(shown.implode()))
    column, each = result.schema[facts.value], result.schema[facts.each]
    alone, every = len(shown) == 1, frame
    order, count = pl.col(column.name).rank("ordinal").over(facts.category), pl.len().over(facts.category)
    least_of_line = pl.col(facts.low).min().over(facts.category).alias("__low")
    greatest_of_line = pl.col(facts.high).max().over(facts.category).alias("__high")
    half = MAX_DOTS // 2
    frame = frame.with_columns(least_of_line, greatest_of_line).filter((order <= half) | (order > count - half))
    if alone:
        labels = [(f"{each.name} {value}",) * 2 for value in frame.get_column(each.name)]
    else:
        names = [printable(str(name)) for name in frame.get_column(facts.category)]
        labels = list(zip(names, shortened(names, _LABEL_CELLS), strict=True))
    own = {key: frame.get_column(name).to_list() for key, name in (("low", facts.low), ("high", facts.high))}
    ends = own if alone else {key: frame.get_column(f"__{key}").to_list() for key in own}
    values = frame.get_column(facts.value).to_list()
    unit = scale([*ends["low"], *values, *ends["high"]], column.unit)
    rows = []
    for place, (name, label) in enumerate(labels):
        low, high = (own[key][place] for key in ("low", "high"))
        rows.append(
            _row(name, label, f"{each.name} {frame.get_column(each.name)[place]}", values[place], unit, column.doc)
            | {key: of[place] / unit.divisor for key, of in ends.items()}
            | {"text": f"{unit.with_unit(values[place])} ({unit.text(low)} to {unit.text(high)})"}
        )
    for row, drawn in zip(rows, _colours(frame, column.name, look), strict=True):
        row["colour"] = drawn
    least, most = min(ends["low"], default=0), max(ends["high"], default=0)
    axis = {"type": "log"} if is_wide(least, most) else {"type": "linear", "zero": True}
    x: Row = {"type": "quantitative", "scale": axis, "title": axis_title(column.name, unit)}
    x["axis"] = {"gridOpacity": 0.3}
    y, color = _names(facts.category, titled=False), {"field": "colour", "type": "nominal", "scale": None}
    ends_of_label = [{"op": op, "field": key, "as": key} for op, key in (("min", "low"), ("max", "high"))]
    spec = _chart(rows, y=y, x={"field": "value", **x}, color=color)
    dots = {"mark": {"type": "point", "filled": True, "size": 45, "opacity": 0.8}, "encoding": spec.pop("encoding")}
    rule = {
        "transform": [{"aggregate": ends_of_label, "groupby": ["label", "colour"]}],
        "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.45},
        "encoding": {"y": y, "x": {"field": "low", **x}, "x2": {"field": "high"}, "color": color},
    }
    del spec["mark"]
    title = middle(printable(short(str(shown[0]))), _TITLE_CELLS) if alone else ""
    if frame.height < every.height:
        title += (
            " · " * alone + f"the {half} {each.name}s with the least {column.name} and the {half} with the greatest"
        )
    spec |= {"layer": [rule, dots], "encoding": {"y": y, "x": x}}
    return spec | ({"title": {"text": title, "fontSize": 12}} if title else {})


def _colours(frame: pl.DataFrame, column: str, look: Look) -> list[str]:
    return [colour(kind, dark=look.dark) for kind in drawn_kinds(frame, column)]


def _stacked(result: Result, facts: StackedBars, look: Look) -> dict[str, Any]:
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
    return _chart(
        rows,
        x=_names(facts.category, titled=True) if upright else size,
        y=size if upright else _names(facts.category, titled=False),
        color=keyed("part", {part: colour(part, dark=look.dark) for part in facts.parts}),
        order={"field": "order", "type": "quantitative"},
    )


def _lines(result: Result, facts: Lines, look: Look) -> dict[str, Any]:
    """A panel for each line, because colour means a kind of time and not a name; all share the axis of x."""
    frame = result.frame
    every = list(series.each(frame, facts, look.max_lines))
    shown = [series.thinned(each, MAX_POINTS // max(len(every), 1)) for each in every]
    xs = [frame.get_column(facts.x).gather(each.rows).to_list() for each in shown]
    ys = [frame.get_column(facts.y).gather(each.rows).to_list() for each in shown]
    x, y = result.schema[facts.x], result.schema[facts.y]
    x_unit = scale([value for values in xs for value in (values[0], values[-1])], x.unit)
    y_unit = scale([value for values in ys for value in values], y.unit)
    rows = [
        row
        for each, of_x, of_y in zip(shown, xs, ys, strict=True)
        for row in line_rows(each.label, of_x, of_y, x_unit, y_unit)
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
            "color": colour(y.name, dark=look.dark),
            "strokeWidth": 1.25,
        },
        "encoding": encoding,
    }
    return spec | _title(_left_out(series.count(frame, facts), every, shown))


def _roofline(result: Result, facts: Roofline, look: Look) -> dict[str, Any]:
    """Circles below lines, on logarithmic axes; what has no arithmetic stands in a lane at the left."""
    picture = roofline_picture(result, facts, MAX_CIRCLES)
    if picture is None:
        return vega_lite(data={"values": []}, mark="point", width="container")
    points = picture.points
    frame = result.frame[points["row"]]
    columns = [result.schema[name] for name in (facts.time, facts.efficiency, facts.headroom)]
    units = [scale(frame.get_column(column.name).to_list(), column.unit) for column in columns]
    words = frame.select(facts.category, facts.detail, facts.bound, *(pl.col(column.name) for column in columns)).rows()
    most = points["time"][0]
    circles = [
        {
            "x": x,
            "y": y,
            "area": max(time / most * _LARGEST_CIRCLE_PX, _SMALLEST_CIRCLE_PX),
            "bound": bound or "",
            "name": printable(name or ""),
        }
        | {"shapes": middle(printable(shapes or ""), _TITLE_CELLS)}
        | {
            key: unit.with_unit(value)
            for key, unit, value in zip(("time", "share", "left"), units, values, strict=True)
        }
        for (name, shapes, bound, *values), (x, y, time) in zip(
            words, points.select("x", "y", "time").rows(), strict=True
        )
    ]
    ends = [(place, *end) for place, roof in enumerate(picture.roofs) for end in zip(roof.x, roof.y, strict=True)]
    lines = [{"line": place, "x": x, "y": y} for place, x, y in ends]
    names = [{"x": roof.named_at[0], "y": roof.named_at[1], "label": roof.label} for roof in picture.roofs]
    marks = {"domain": [picture.lane, picture.x[1]], "nice": False, "type": "log"}
    x = {"field": "x", "type": "quantitative", "title": "FLOP per byte of traffic", "scale": marks, "axis": DECADES}
    if picture.lane < picture.x[0]:
        x["title"] = f"FLOP per byte of traffic; left of {picture.x[0]:g}: no arithmetic"
    y = {"field": "y", "type": "quantitative", "title": "FLOP/s", "axis": DECADES | {"format": ".0s"}}
    y["scale"] = {"domain": list(picture.y), "nice": False, "type": "log"}
    tips = tooltip(
        ("name", "of"),
        ("shapes", facts.detail),
        ("time", facts.time),
        ("share", facts.efficiency),
        ("left", facts.headroom),
        ("bound", ""),
    )
    ink = colour("host", dark=look.dark)
    bounds = {bound: colour(kind, dark=look.dark) for bound, (kind, _) in BOUNDS.items() if bound in points["bound"]}
    layers = [
        {
            "mark": {"type": "circle", "opacity": 0.55, "clip": True},
            "encoding": {
                "size": {"field": "area", "type": "quantitative", "scale": None, "legend": None},
                "color": keyed("bound", bounds, "bound by"),
                "tooltip": tips,
            },
        },
        {
            "data": {"values": lines},
            "mark": {"type": "line", "color": ink, "strokeWidth": 1.25},
            "encoding": {"detail": {"field": "line", "type": "nominal"}},
        },
        {
            "data": {"values": names},
            "mark": {"type": "text", "align": "right", "dx": -4, "dy": -8, "color": ink},
            "encoding": {"text": {"field": "label"}},
        },
    ]
    spec = vega_lite(data={"values": circles}, encoding={"x": x, "y": y}, layer=layers, width="container", height=320)
    return spec | _title(picture.rest)


DRAWN: Final[Mapping[type, Callable[[Result, Any, Look], dict[str, Any]]]] = {
    Bars: _bars,
    Lines: _lines,
    Ranges: _ranges,
    Roofline: _roofline,
    StackedBars: _stacked,
}
"""What draws each kind of chart that an analysis can declare; `svg` draws the same from what it makes."""


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
    tips = tooltip(("name", name or "name"), ("part", "what"), ("text", "value"), ("meaning", "meaning"))
    return vega_lite(
        data={"values": list(rows)},
        mark={"type": "bar"},
        width="container" if not upright else max(240, min(900, 24 * len(rows))),
        encoding={**encoding, "tooltip": tips},
    )


def vega_lite(**parts: Any) -> dict[str, Any]:
    """A specification of these parts, with the version and the looks that all charts have."""
    return {**_BASE, **parts}


def line_rows(
    label: str, x: Sequence[float | None], y: Sequence[float | None], x_unit: Scale, y_unit: Scale
) -> Iterator[Row]:
    """The marks of a line in the units of its axes; none where x is not known."""
    for at, value in zip(x, y, strict=True):
        if at is not None:
            place = {"x": at / x_unit.divisor, "y": None if value is None else value / y_unit.divisor}
            yield {"line": label, **place, "at": x_unit.with_unit(at), "text": y_unit.with_unit(value)}


def keyed(field: str, colours: Mapping[str, str], title: str | None = None) -> Row:
    """The colour of marks by one of their fields, with a key."""
    of = {"domain": list(colours), "range": list(colours.values())}
    return {"field": field, "type": "nominal", "title": title, "scale": of}


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


def _names(category: str, *, titled: bool) -> dict[str, Any]:
    """The axis of names, in the order of the rows; numbers need a title, names would stand under it."""
    title = category if titled else None
    return {"field": "label", "type": "nominal", "title": title, "sort": None, "axis": {"labelLimit": 400}}


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
