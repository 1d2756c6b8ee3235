"""Pictures of pages that no single analysis declares: points, bins, a map of heat, curves, a waterfall.

Each is a Vega-Lite specification with its data, its words and the links of its marks. Labels and numbers of axes and
tooltips are made here; the drawing side computes nothing, and puts the dark page's colours where the light ones stand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kinetoscope.pages.blocks import ChartBlock, Link, Sketch, Width, to_plain
from kinetoscope.schema import Unit
from kinetoscope.views.charts.chart import DECADES, axis_title, keyed, line_rows, tooltip, vega_lite
from kinetoscope.views.charts.palette import OWNERS, colour
from kinetoscope.views.numbers import Scale, scale
from kinetoscope.views.text import brief, printable

POINTS: Final = 4000
"""Marks in a picture; who has more thins them out first, and says so."""

_LABEL = 40  # cells of a name at an axis
_BETTER, _WORSE = "memory", "waiting"  # the kinds whose colours mean them

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a picture.

    Attributes:
        name: its words.
        unit: of the numbers as given; the axis is labelled in the scale that suits them.
        log: logarithmic; what is not above 0 is left out.
        zero: begins at 0.
        whole: has labels at whole numbers only.
    """

    name: str
    unit: Unit = ""
    log: bool = False
    zero: bool = True
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    """A point: a place in the units of the axes, a kind for its colour, words for who points at it, a link.

    A `group` is in the key; its colour is the one at the place `owner` among those of owners, instead of a kind's.
    """

    x: float
    y: float
    kind: str = "computation"
    name: str = ""
    link: Link | None = None
    group: str = ""
    owner: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """A curve.

    Attributes:
        label: its words.
        kind: its colour.
        x, y: places along x, and values there (None: not known).
        shade: how much of its colour it has, to tell curves of one kind apart: 1 is all.
        owner: instead of a kind, the place of its colour among those of owners; −1 for none.
    """

    label: str
    kind: str
    x: Sequence[float]
    y: Sequence[float | None]
    shade: float = 1.0
    owner: int = -1


def points(
    title: str,
    dots: Sequence[Dot],
    x: Axis,
    y: Axis,
    *,
    best: Sequence[Dot] = (),
    height: int = 280,
    note: str = "",
    width: Width = "full",
) -> ChartBlock:
    """Dots over two axes; `best` are joined by a thin line: the best seen at each x, say."""
    shown = [dot for dot in dots if (dot.x > 0 or not x.log) and (dot.y > 0 or not y.log)]
    of_x, of_y = _scale([dot.x for dot in shown], x), _scale([dot.y for dot in shown], y)
    rows = [_dot(dot, of_x, of_y) for dot in shown]
    encoding = {"x": _axis(x, of_x, "x"), "y": _axis(y, of_y, "y")}
    by_colour = _by_group(shown) or {"field": "colour", "type": "nominal", "scale": None}
    layers: list[Row] = [
        {
            "mark": {"type": "circle", "size": 36, "opacity": 0.75},
            "encoding": {
                **encoding,
                "color": by_colour,
                "tooltip": tooltip(("name", ""), ("at", x.name), ("is", y.name)),
            },
        }
    ]
    if best:
        line = [{"x": dot.x / of_x.divisor, "y": dot.y / of_y.divisor} for dot in best]
        mark = {"type": "line", "strokeWidth": 1, "strokeDash": [4, 3], "color": colour("host")}
        layers.insert(0, {"data": {"values": line}, "mark": mark, "encoding": encoding})
    drawing = {"data": {"values": rows}, "layer": layers, "width": "container", "height": height}
    groups = dict.fromkeys(dot.group for dot in shown)
    members = {group: sorted((dot for dot in shown if dot.group == group), key=lambda dot: dot.x) for group in groups}
    lines = [
        _curve(group or y.name, of[0].kind, [dot.x for dot in of], [dot.y for dot in of], of_y, log=x.log)
        for group, of in members.items()
    ]
    return _chart(title, drawing, note, width, lines, _ends([dot.x for dot in shown], x, of_x))


def _by_group(dots: Sequence[Dot]) -> Row:
    """The colour of each group, and the key of them; nothing where there are no groups."""
    owners = {dot.group: dot.owner for dot in sorted(dots, key=lambda dot: dot.owner) if dot.group}
    if not owners:
        return {}
    colours = {printable(group): OWNERS[owner].light for group, owner in owners.items()}
    return keyed("group", colours) | {"legend": {"symbolType": "circle"}}


def _dot(dot: Dot, of_x: Scale, of_y: Scale) -> Row:
    row = {
        "x": dot.x / of_x.divisor,
        "y": dot.y / of_y.divisor,
        "name": printable(dot.name),
        "at": of_x.with_unit(dot.x),
        "is": of_y.with_unit(dot.y),
        "colour": colour(dot.kind),
    }
    return row | ({"group": printable(dot.group)} if dot.group else {}) | _linked(dot.link)


def bins(
    title: str,
    edges: Sequence[float],
    counts: Sequence[int],
    x: Axis,
    *,
    kind: str,
    note: str = "",
    width: Width = "full",
) -> ChartBlock:
    """A histogram: `counts[i]` fall between `edges[i]` and `edges[i + 1]`."""
    unit = _scale(edges, x)
    rows = [
        {
            "x": low / unit.divisor,
            "x2": high / unit.divisor,
            "y": count,
            "at": f"{unit.text(low)} – {unit.with_unit(high)}",
            "is": scale([count], "").text(count),
        }
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
        if low > 0 or not x.log
    ]
    encoding = {
        "x": _axis(x, unit, "x"),
        "x2": {"field": "x2"},
        "y": {"field": "y", "type": "quantitative", "title": "count"},
        "y2": {"datum": 0},
        "tooltip": tooltip(("at", x.name), ("is", "count")),
    }
    mark = {"type": "bar", "color": colour(kind)}
    drawing = {"data": {"values": rows}, "mark": mark, "encoding": encoding, "width": "container", "height": 180}
    line = _curve("count", kind, [at for at in edges[:-1] if at > 0 or not x.log], counts, scale(counts, ""), log=x.log)
    return _chart(title, drawing, note, width, [line] if rows else [], _ends(edges, x, unit))


def heat(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    *,
    axes: tuple[str, str],
    unit: Unit,
    kind: str,
    links: Sequence[Sequence[Link | None]] | None = None,
    note: str = "",
    width: Width = "full",
) -> ChartBlock:
    """A map of heat: `values[row][column]` as depth of one colour, from nothing to the greatest; None stays empty."""
    of = scale([value for row in values for value in row if value is not None], unit)
    cells = [
        {
            "row": printable(row),
            "column": printable(column),
            "value": value / of.divisor,
            "text": of.with_unit(value),
        }
        | _linked(links[i][j] if links else None)
        for i, row in enumerate(rows)
        for j, column in enumerate(columns)
        if (value := values[i][j]) is not None
    ]
    by_value = {
        "field": "value",
        "type": "quantitative",
        "title": of.label,
        "scale": {"range": [colour("idle"), colour(kind)], "domainMin": 0, "interpolate": "rgb"},
    }
    encoding = {
        "x": {"field": "column", "type": "ordinal", "title": axes[1], "sort": None, "axis": {"labelOverlap": True}},
        "y": {"field": "row", "type": "ordinal", "title": axes[0], "sort": None, "axis": {"labelOverlap": True}},
        "color": by_value,
        "tooltip": tooltip(("row", axes[0]), ("column", axes[1]), ("text", "value")),
    }
    size = {"width": "container", "height": max(60, min(520, 18 * len(rows)))}
    drawing = {"data": {"values": cells}, "mark": "rect", "encoding": encoding, **size}
    lines = [
        _curve(f"{axes[0]} {row}", kind, range(len(columns)), of_row, of)
        for row, of_row in zip(rows, values, strict=True)
    ]
    return _chart(title, drawing, note, width, lines, f"{axes[1]} {columns[0]} – {columns[-1]}" if columns else "")


def curves(
    title: str,
    lines: Sequence[Line],
    x: Axis,
    y: Axis,
    *,
    stacked: bool = False,
    steps: bool = True,
    brush: bool = False,
    note: str = "",
    width: Width = "full",
) -> ChartBlock:
    """Values over time: lines, or areas upon one another. With `brush` a stretch of x can be chosen as time range.

    Args:
        title: of the block.
        lines: the curves; stacked ones share their x.
        x: the axis along which they run.
        y: the axis of their values.
        stacked: upon one another, from 0.
        steps: a value holds until the next one.
        brush: x is ns after the first event of the trace, and a stretch of it chooses a time range.
        note: beneath.
        width: of the block.
    """
    of_x = _scale([at for line in lines for at in line.x[-1:]], x)
    of_y = _scale([value for line in lines for value in line.y if value is not None], y)
    rows = [
        row | {"order": order}
        for order, line in enumerate(lines)
        for row in line_rows(printable(line.label), line.x, line.y, of_x, of_y)
    ]
    colours = {
        printable(line.label): OWNERS[line.owner].light if line.owner >= 0 else _shaded(colour(line.kind), line.shade)
        for line in lines
    }
    encoding: Row = {
        "x": _axis(x, of_x, "x"),
        "y": _axis(y, of_y, "y") | ({"stack": "zero"} if stacked else {}),
        "color": keyed("line", colours) | {"legend": {"columns": 4, "labelLimit": 260} if len(lines) > 1 else None},
        "tooltip": tooltip(("line", "of"), ("at", x.name), ("text", y.name)),
    }
    if stacked:
        encoding["order"] = {"field": "order", "type": "quantitative"}
    shape = {"interpolate": "step-after" if steps else "linear"}
    mark = {"type": "area", **shape} if stacked else {"type": "line", "strokeWidth": 1.25, **shape}
    drawing: Row = {"data": {"values": rows}, "mark": mark, "encoding": encoding, "width": "container", "height": 240}
    if brush:
        drawing["params"] = [{"name": "brush", "select": {"type": "interval", "encodings": ["x"]}}]
        drawing["usermeta"] = {"time_divisor": of_x.divisor}
    sketch = [_curve(line.label, line.kind, line.x, line.y, of_y) for line in lines]
    return _chart(title, drawing, note, width, sketch, _ends([at for line in lines for at in line.x], x, of_x))


def waterfall(
    title: str, begin: tuple[str, float], changes: Sequence[tuple[str, float]], end: str, *, unit: Unit, note: str = ""
) -> ChartBlock:
    """A waterfall from one value to another by changes; more is worse."""
    total = begin[1] + sum(change for _, change in changes)
    of = scale([begin[1], total], unit)
    at = begin[1]
    rows = [_fall(begin[0], 0.0, at, of.with_unit(at), "host")]
    for label, change in changes:
        sign = "+" if change > 0 else "−" if change < 0 else "±"
        words = f"{sign}{of.with_unit(abs(change))}"
        rows.append(_fall(label, at, at + change, words, _WORSE if change > 0 else _BETTER))
        at += change
    rows.append(_fall(end, 0.0, at, of.with_unit(at), "host"))
    ends = [sorted((row["low"], row["high"])) for row in rows]
    lines = [
        Sketch(row["label"], row["text"], row.pop("kind"), low=low, high=high)
        for row, (low, high) in zip(rows, ends, strict=True)
    ]
    for row in rows:
        row["low"], row["high"] = row["low"] / of.divisor, row["high"] / of.divisor
    encoding = {
        "y": {"field": "label", "type": "nominal", "title": None, "sort": None, "axis": {"labelLimit": 360}},
        "x": {"field": "low", "type": "quantitative", "title": of.label},
        "x2": {"field": "high"},
        "tooltip": tooltip(("label", "what"), ("text", "change")),
    }
    bar = {"mark": "bar", "encoding": {"color": {"field": "colour", "type": "nominal", "scale": None}}}
    text = {
        "mark": {"type": "text", "align": "left", "dx": 6, "color": colour("host")},
        "encoding": {"x": {"field": "right", "type": "quantitative"}, "text": {"field": "text"}},
    }
    for row in rows:
        row["right"] = max(row["low"], row["high"])
    size = {"width": "container", "height": {"step": 26}}
    drawing = {"data": {"values": rows}, "encoding": encoding, "layer": [bar, text], **size}
    return _chart(title, drawing, note, "full", lines)


def _fall(label: str, low: float, high: float, text: str, kind: str) -> Row:
    name = brief(printable(label), _LABEL)
    return {"label": name, "low": low, "high": high, "text": text, "colour": colour(kind), "kind": kind}


# --- what they share


def _chart(title: str, spec: Row, note: str, width: Width, lines: Sequence[Sketch], below: str = "") -> ChartBlock:
    sketch = (*lines, *([Sketch("", below, "")] if lines and below else []))
    return ChartBlock(title, vega_lite(**spec), note=note, width=width, sketch=sketch)


def _curve(
    label: str, kind: str, x: Sequence[float], y: Sequence[float | None], unit: Scale, *, log: bool = False
) -> Sketch:
    """A line of text for a curve: its greatest value stands beside it."""
    most = max((value for value in y if value is not None), default=None)
    return Sketch(label, f"up to {unit.with_unit(most)}", kind, [math.log(at) for at in x] if log else x, y)


def _ends(values: Sequence[float], axis: Axis, unit: Scale) -> str:
    """From where to where an axis reaches."""
    return f"{axis.name} {unit.text(min(values))} – {unit.with_unit(max(values))}" if values else ""


def _scale(values: Sequence[float], axis: Axis) -> Scale:
    """The unit of an axis: that of its end, or of its middle where it is logarithmic."""
    return scale(list(values) if axis.log else [max(values, key=abs, default=0)], axis.unit)


def _axis(axis: Axis, unit: Scale, field: str) -> Row:
    form = {"type": "log"} if axis.log else {"zero": axis.zero}
    ticks: Row = DECADES if axis.log else {"labelOverlap": True, "labelSeparation": 8}
    if axis.whole:
        ticks = {**ticks, "tickMinStep": 1}
    return {"field": field, "type": "quantitative", "title": axis_title(axis.name, unit), "scale": form, "axis": ticks}


def _linked(link: Link | None) -> Row:
    return {} if link is None else {"link": to_plain(link)}


def _shaded(rgb: str, share: float) -> str:
    """The colour with white in it; as it is where `share` is 1."""
    parts = [int(rgb[at : at + 2], 16) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(255 - (255 - part) * share):02x}" for part in parts)
