"""A declared chart as SVG, drawn from the same specification that Vega-Lite draws.

It needs no package and no script, so it shows wherever HTML does: a notebook, its export, a mail. Text takes the colour
of the page around it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from kinetoscope.views.charts.marks import (
    CHARACTER_PX,
    ROW_PX,
    WIDTH_PX,
    box,
    number,
    picture,
    safe,
    short,
    text,
    width_of_names,
)
from kinetoscope.views.numbers import shown

_HEIGHT_PX: Final = 200
_PANEL_PX: Final = 64
_ROOFLINE_PX: Final = 320
_MAX_BARS: Final = 200  # bars that are drawn

MAX_TICKS: Final = 5
"""Numbers at an axis besides 0."""

Row = Mapping[str, Any]


def svg(spec: Mapping[str, Any]) -> str:
    """The picture of a specification of `views.charts.chart`; "" where it has no data, or is of another kind."""
    rows: Sequence[Row] = spec["data"]["values"]
    if not rows:
        return ""
    if "area" in rows[0]:
        body, width, height = _roofline(spec, rows)
    elif "layer" in spec:
        body, width, height = _ranges(spec, rows)
    elif "line" in rows[0]:
        body, width, height = _lines(spec, rows)
    elif spec["encoding"]["x"].get("field") == "label":
        body, width, height = _upright(spec, rows)
    elif "label" in rows[0]:
        body, width, height = _lying(spec, rows)
    else:
        return ""
    return picture(body, width, height)


# --- bars


def _lying(spec: Mapping[str, Any], rows: Sequence[Row]) -> tuple[list[str], float, float]:
    """A bar a row, from left to right, with its value behind it; stacks have a key instead."""
    bars = _by_label(rows)
    colours = _colours(spec)
    of_names = spec["encoding"]["y"]["title"] or ""
    names = width_of_names((*bars, of_names))
    most = max(map(_whole, bars.values()))
    room = WIDTH_PX - names - 90
    body, top = _key(colours, 4.0)
    if title := spec.get("title", {}).get("text", ""):
        body.append(text(0, top + 10, title, soft=True))
        top += 20
    for place, (label, of) in enumerate(bars.items()):
        y = top + place * ROW_PX
        body.append(text(names - 8, y + 15, label, anchor="end", tip=of[0]["name"]))
        x = names
        for row in of:
            wide = _long(row["value"], most, room)
            colour = row.get("colour") or colours.get(row["part"], "#888")
            body.append(box(x, y + 3, wide, ROW_PX - 6, colour, _says(row)))
            x += wide
        if not colours:
            body.append(text(x + 6, y + 15, of[0]["text"], soft=True))
    axis = spec["encoding"]["x"]["title"] or ""
    bottom = top + len(bars) * ROW_PX
    body.append(text(names, bottom + 14, axis, soft=True))
    body.append(text(names - 8, bottom + 14, of_names, anchor="end", soft=True))
    return body, WIDTH_PX, bottom + 22


def _upright(spec: Mapping[str, Any], rows: Sequence[Row]) -> tuple[list[str], float, float]:
    """Stacks beside one another: steps, or ranks."""
    bars = dict(list(_by_label(rows).items())[:_MAX_BARS])
    colours = _colours(spec)
    body, top = _key(colours, 4)
    most = max(map(_whole, bars.values()))
    pitch = min(56.0, (WIDTH_PX - 60) / len(bars))
    wide = max(pitch - (6 if pitch > 16 else 1), 1)
    every = math.ceil(max(len(label) for label in bars) * CHARACTER_PX / pitch)
    body += _scale_at_left(most, top, _HEIGHT_PX, str(spec["encoding"]["y"]["title"] or ""), 60 + pitch * len(bars))
    for place, (label, of) in enumerate(bars.items()):
        x, y = 60 + place * pitch, top + _HEIGHT_PX
        for row in of:
            tall = _long(row["value"], most, _HEIGHT_PX)
            y -= tall
            body.append(box(x, y, wide, tall, colours.get(row["part"], "#888"), _says(row)))
        if place % every == 0:
            body.append(text(x + wide / 2, top + _HEIGHT_PX + 16, label, anchor="middle", soft=True))
    body.append(text(60, top + _HEIGHT_PX + 32, spec["encoding"]["x"]["title"] or "", soft=True))
    return body, WIDTH_PX, top + _HEIGHT_PX + 40


def _by_label(rows: Sequence[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(str(row["label"]), []).append(row)
    return {label: sorted(of, key=lambda row: row.get("order", 0)) for label, of in groups.items()}


def _colours(spec: Mapping[str, Any]) -> dict[str, str]:
    """Of the parts of a stack; none where each bar has its own."""
    scale = spec["encoding"].get("color", {}).get("scale") or {}
    return dict(zip(scale.get("domain", ()), scale.get("range", ()), strict=True))


def _key(colours: Mapping[str, str], top: float) -> tuple[list[str], float]:
    body, x, y = [], 0.0, top
    for name, colour in colours.items():
        words = name.replace("_", " ")
        wide = len(words) * CHARACTER_PX + 32
        if x + wide > WIDTH_PX:
            x, y = 0.0, y + 18
        body += [box(x, y + 2, 10, 10, colour), text(x + 16, y + 11, words)]
        x += wide
    return body, y + 24 if colours else top


# --- ranges


def _ranges(spec: Mapping[str, Any], rows: Sequence[Row]) -> tuple[list[str], float, float]:
    """A line for each label, from its least to its greatest value, and a dot for each of its rows."""
    labels = _by_label(rows)
    names = width_of_names(labels)
    title = spec.get("title", {}).get("text", "")
    body, top = ([text(0, 14, title, weight=600)], 24.0) if title else ([], 4.0)
    bottom = top + len(labels) * ROW_PX
    x = spec["encoding"]["x"]
    least, most = min(row["low"] for row in rows), max(row["high"] for row in rows)
    log = x["scale"]["type"] == "log"
    ticks = _powers_of_ten(least, most) if log else _ticks(most)
    at = _scale_of(least if log else 0.0, most, names, WIDTH_PX - 16, log=log)
    for tick in ticks:
        body.append(_line(f"M{short(at(tick))} {short(top)}V{short(bottom)}", 0.15))
        body.append(text(at(tick), bottom + 14, number(tick), anchor="middle", soft=True))
    for place, (label, of) in enumerate(labels.items()):
        y = top + (place + 0.5) * ROW_PX
        body.append(text(names - 8, y + 4, label, anchor="end", tip=of[0]["name"]))
        ends = (short(at(min(row["low"] for row in of))), short(at(max(row["high"] for row in of))))
        colour = escape(of[0]["colour"])
        line = f"M{ends[0]} {short(y)}H{ends[1]}"
        body.append(f'<path d="{line}" stroke="{colour}" stroke-opacity="0.45" stroke-width="2"/>')
        for row in of:
            tooltip = f"<title>{safe(_says(row))}</title>"
            dot = f'cx="{short(at(row["value"]))}" cy="{short(y)}" r="4" fill-opacity="0.8"'
            body.append(f'<circle {dot} fill="{colour}">{tooltip}</circle>')
    body.append(text(names, bottom + 30, x["title"] or "", soft=True))
    return body, WIDTH_PX, bottom + 38


def _scale_of(low: float, high: float, left: float, right: float, *, log: bool) -> Callable[[float], float]:
    """Where a value stands between two pixels."""
    fit = (lambda value: math.log10(max(value, low))) if log else float
    first, length = fit(low), (fit(high) - fit(low)) or 1.0
    return lambda value: left + 8 + (fit(value) - first) / length * (right - left - 8)


def _powers_of_ten(least: float, most: float) -> list[float]:
    return [10.0**power for power in range(math.ceil(math.log10(least)), math.floor(math.log10(most)) + 1)]


def _ticks(most: float) -> list[float]:
    """Round numbers from 0 on, at most five, none beyond `most`."""
    if not most > 0:
        return [0.0]
    step = 10.0 ** math.floor(math.log10(most))
    step = next(each for each in (step / 5, step / 2, step, step * 2, step * 5) if most / each <= MAX_TICKS)
    return [step * place for place in range(math.floor(most / step * (1 + 1e-9)) + 1)]


# --- rooflines


def _roofline(spec: Mapping[str, Any], rows: Sequence[Row]) -> tuple[list[str], float, float]:
    """Circles below lines; those that take longest are first, and lie below the others."""
    x, y = spec["encoding"]["x"], spec["encoding"]["y"]
    title = spec.get("title", {}).get("text", "")
    colours = _colours(spec["layer"][0])
    body, top = _key({f"bound by {bound}": drawn for bound, drawn in colours.items()}, 4.0)
    if title:
        body.append(text(0, top + 10, title, soft=True))
        top += 20
    bottom = top + _ROOFLINE_PX
    (first, last), (low, high) = x["scale"]["domain"], y["scale"]["domain"]
    across = _scale_of(first, last, 88, WIDTH_PX - 8, log=True)
    upward = _scale_of(low, high, 0, _ROOFLINE_PX, log=True)
    for tick in _powers_of_ten(first, last):
        body.append(_line(f"M{short(across(tick))} {short(top)}V{short(bottom)}", 0.15))
        body.append(text(across(tick), bottom + 14, number(tick), anchor="middle", soft=True))
    for tick in _powers_of_ten(low, high):
        body.append(_line(f"M96 {short(bottom - upward(tick))}H{WIDTH_PX - 8}", 0.15))
        words = shown(tick, "flop/s").replace(".00", "").replace(".0", "")
        body.append(text(90, bottom - upward(tick) + 4, words, anchor="end", soft=True))
    for row in rows:
        radius = max(math.sqrt(row["area"] / math.pi), 1.2)
        place = f'cx="{short(across(row["x"]))}" cy="{short(bottom - upward(row["y"]))}" r="{short(radius)}"'
        tip = safe(f"{row['name']} {row['shapes']}: {row['time']}, {row['share']} of its limit ({row['bound']})")
        fill = f'fill="{escape(colours.get(row["bound"], "#888"))}" fill-opacity="0.55"'
        body.append(f"<circle {place} {fill}><title>{tip}</title></circle>")
    lines, names = (spec["layer"][place]["data"]["values"] for place in (1, 2))
    for start, end in zip(lines[::2], lines[1::2], strict=True):
        ends = [(across(at["x"]), bottom - upward(at["y"])) for at in (start, end)]
        body.append(_line("M" + "L".join(f"{short(x)} {short(y)}" for x, y in ends), 0.8))
    for name in names:
        body.append(text(across(name["x"]) - 4, bottom - upward(name["y"]) - 5, name["label"], anchor="end", soft=True))
    body.append(text(WIDTH_PX / 2, bottom + 30, x["title"], anchor="middle", soft=True))
    return body, WIDTH_PX, bottom + 38


def _line(path: str, opacity: float) -> str:
    return f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity="{opacity}"/>'


# --- lines


def _lines(spec: Mapping[str, Any], rows: Sequence[Row]) -> tuple[list[str], float, float]:
    """A panel for each line, below one another; all share the axis of x."""
    lines: dict[str, list[Row]] = {}
    for row in rows:
        lines.setdefault(row["line"], []).append(row)
    tall = _HEIGHT_PX if len(lines) == 1 else _PANEL_PX
    first, last = min(row["x"] for row in rows), max(row["x"] for row in rows)
    title = spec.get("title", {}).get("text", "")
    body, top = ([text(0, 14, title, soft=True)], 24.0) if title else ([], 4.0)
    unit = (spec["encoding"]["y"].get("title") or spec["encoding"].get("row", {}).get("header", {}).get("title")) or ""
    steps = str(spec["mark"]["interpolate"]).startswith("step")
    for label, of in lines.items():
        most = max((row["y"] for row in of if row["y"] is not None), default=0) or 1
        if len(lines) > 1:
            body.append(text(60, top + 11, label))
            top += 16
        body += _scale_at_left(most, top, tall, unit if top < 40 else "", WIDTH_PX)
        path = _path(of, (first, last), most, (60, top, WIDTH_PX - 60, tall), steps)
        body.append(f'<path d="{path}" fill="none" stroke="{escape(spec["mark"]["color"])}" stroke-width="1.25"/>')
        top += tall + 10
    ends = [min(rows, key=lambda row: row["x"])["at"], max(rows, key=lambda row: row["x"])["at"]]
    body += [text(60, top + 8, ends[0], soft=True), text(WIDTH_PX, top + 8, ends[1], anchor="end", soft=True)]
    body.append(text(60 + (WIDTH_PX - 60) / 2, top + 8, spec["encoding"]["x"]["title"], anchor="middle", soft=True))
    return body, WIDTH_PX, top + 16


def _path(
    rows: Sequence[Row], span: tuple[float, float], most: float, box: tuple[float, float, float, float], steps: bool
) -> str:
    left, top, wide, tall = box
    length = (span[1] - span[0]) or 1
    parts, pen = [], False
    for row in rows:
        if row["y"] is None:
            pen = False
            continue
        x = left + (row["x"] - span[0]) / length * wide
        y = top + tall - row["y"] / most * tall
        if not pen:
            parts.append(f"M{short(x)} {short(y)}")
        else:
            parts.append(f"H{short(x)}V{short(y)}" if steps else f"L{short(x)} {short(y)}")
        pen = True
    return "".join(parts)


def _scale_at_left(most: float, top: float, tall: float, unit: str, right: float) -> Iterator[str]:
    """Thin lines at round numbers from 0 on; the unit above them."""
    ticks = _ticks(most)
    for tick in ticks if tall > _PANEL_PX else (ticks[0], ticks[-1]):
        y = top + tall * (1 - (tick / most if most > 0 else 0.0))
        yield _line(f"M60 {short(y)}H{short(right)}", 0.15)
        yield text(54, y + 4, number(tick), anchor="end", soft=True)
    if unit:
        yield text(right, top - 2, unit, anchor="end", soft=True)


# --- marks


def _whole(rows: Sequence[Row]) -> float:
    """How long a stack is."""
    return float(sum(max(row["value"], 0) for row in rows))


def _long(value: float, most: float, room: float) -> float:
    return max(value, 0) / most * room if most > 0 else 0.0


def _says(row: Row) -> str:
    return f"{row['name']}: {row['part']} {row['text']}"
