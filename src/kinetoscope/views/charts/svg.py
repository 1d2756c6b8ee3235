"""A declared chart as SVG: bars, stacks and lines, drawn from the same specification that Vega-Lite draws.

It needs no package and no script, so it shows wherever HTML does: a notebook, its export, a mail. Text takes the colour
of the page around it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from kinetoscope.views.text import printable

_WIDTH_PX: Final = 720
_ROW_PX: Final = 22
_HEIGHT_PX: Final = 200
_PANEL_PX: Final = 64
_CHARACTER_PX: Final = 6.6  # px of one at 12 px, on average
_MAX_BARS: Final = 200  # bars that are drawn

Row = Mapping[str, Any]


def svg(spec: Mapping[str, Any]) -> str:
    """The picture of a specification of `views.charts.chart`; "" where it has no data."""
    rows: Sequence[Row] = spec["data"]["values"]
    if not rows:
        return ""
    if "line" in rows[0]:
        body, width, height = _lines(spec, rows)
    elif spec["encoding"]["x"].get("field") == "label":
        body, width, height = _upright(spec, rows)
    else:
        body, width, height = _lying(spec, rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="12" fill="currentColor"'
        f' style="max-width:100%">{"".join(body)}</svg>'
    )


# --- bars


def _lying(spec: Mapping[str, Any], rows: Sequence[Row]) -> tuple[list[str], float, float]:
    """A bar a row, from left to right, with its value behind it; stacks have a key instead."""
    bars = _by_label(rows)
    colours = _colours(spec)
    names = min(340.0, max(len(label) for label in bars) * _CHARACTER_PX + 12)
    most = max(max(_whole(of), *(float(row.get("high", 0)) for row in of)) for of in bars.values())
    room = _WIDTH_PX - names - 90
    title = spec.get("title", {}).get("text", "")
    body = [_text(0, 14, title, weight=600)] if title else []
    top = 24.0 if title else 4.0
    if colours:
        key, top = _key(colours, top)
        body += key
    for place, (label, of) in enumerate(bars.items()):
        y = top + place * _ROW_PX
        body.append(_text(names - 8, y + 15, label, anchor="end", tip=of[0]["name"], room=names - 8))
        x = names
        for row in of:
            wide = _long(row["value"], most, room)
            colour = row.get("colour") or colours.get(row["part"], "#888")
            body.append(_box(x, y + 3, wide, _ROW_PX - 6, colour, _says(row)))
            x += wide
        if "low" in of[0]:
            low, high = (names + _long(of[0][end], most, room) for end in ("low", "high"))
            body += _whisker(low, high, y + _ROW_PX / 2)
            x = max(x, high)
        if not colours:
            body.append(_text(x + 6, y + 15, of[0]["text"], soft=True))
    axis = spec["encoding"]["x"]["title"] or ""
    bottom = top + len(bars) * _ROW_PX
    body.append(_text(names, bottom + 14, axis, soft=True))
    return body, _WIDTH_PX, bottom + 22


def _upright(spec: Mapping[str, Any], rows: Sequence[Row]) -> tuple[list[str], float, float]:
    """Stacks beside one another: steps, or ranks."""
    bars = dict(list(_by_label(rows).items())[:_MAX_BARS])
    colours = _colours(spec)
    body, top = _key(colours, 4)
    most = max(map(_whole, bars.values()))
    pitch = min(56.0, (_WIDTH_PX - 60) / len(bars))
    wide = max(pitch - (6 if pitch > 16 else 1), 1)
    every = math.ceil(max(len(label) for label in bars) * _CHARACTER_PX / pitch)
    body += _scale_at_left(most, top, _HEIGHT_PX, str(spec["encoding"]["y"]["title"] or ""), 60 + pitch * len(bars))
    for place, (label, of) in enumerate(bars.items()):
        x, y = 60 + place * pitch, top + _HEIGHT_PX
        for row in of:
            tall = _long(row["value"], most, _HEIGHT_PX)
            y -= tall
            body.append(_box(x, y, wide, tall, colours.get(row["part"], "#888"), _says(row)))
        if place % every == 0:
            body.append(_text(x + wide / 2, top + _HEIGHT_PX + 16, label, anchor="middle", soft=True))
    body.append(_text(60, top + _HEIGHT_PX + 32, spec["encoding"]["x"]["title"] or "", soft=True))
    return body, _WIDTH_PX, top + _HEIGHT_PX + 40


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
        wide = len(words) * _CHARACTER_PX + 32
        if x + wide > _WIDTH_PX:
            x, y = 0.0, y + 18
        body += [_box(x, y + 2, 10, 10, colour), _text(x + 16, y + 11, words)]
        x += wide
    return body, y + 24 if colours else top


def _whisker(low: float, high: float, y: float) -> Iterator[str]:
    for x1, x2, y1, y2 in ((low, high, y, y), (low, low, y - 4, y + 4), (high, high, y - 4, y + 4)):
        yield f'<path d="M{_short(x1)} {_short(y1)}L{_short(x2)} {_short(y2)}" stroke="currentColor"/>'


# --- lines


def _lines(spec: Mapping[str, Any], rows: Sequence[Row]) -> tuple[list[str], float, float]:
    """A panel for each line, below one another; all share the axis of x."""
    lines: dict[str, list[Row]] = {}
    for row in rows:
        lines.setdefault(row["line"], []).append(row)
    tall = _HEIGHT_PX if len(lines) == 1 else _PANEL_PX
    first, last = min(row["x"] for row in rows), max(row["x"] for row in rows)
    title = spec.get("title", {}).get("text", "")
    body, top = ([_text(0, 14, title, soft=True)], 24.0) if title else ([], 4.0)
    unit = (spec["encoding"]["y"].get("title") or spec["encoding"].get("row", {}).get("header", {}).get("title")) or ""
    steps = str(spec["mark"]["interpolate"]).startswith("step")
    for label, of in lines.items():
        most = max((row["y"] for row in of if row["y"] is not None), default=0) or 1
        if len(lines) > 1:
            body.append(_text(60, top + 11, label))
            top += 16
        body += _scale_at_left(most, top, tall, unit if top < 40 else "", _WIDTH_PX)
        path = _path(of, (first, last), most, (60, top, _WIDTH_PX - 60, tall), steps)
        body.append(f'<path d="{path}" fill="none" stroke="{escape(spec["mark"]["color"])}" stroke-width="1.25"/>')
        top += tall + 10
    ends = [min(rows, key=lambda row: row["x"])["at"], max(rows, key=lambda row: row["x"])["at"]]
    body += [_text(60, top + 8, ends[0], soft=True), _text(_WIDTH_PX, top + 8, ends[1], anchor="end", soft=True)]
    body.append(_text(60 + (_WIDTH_PX - 60) / 2, top + 8, spec["encoding"]["x"]["title"], anchor="middle", soft=True))
    return body, _WIDTH_PX, top + 16


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
            parts.append(f"M{_short(x)} {_short(y)}")
        else:
            parts.append(f"H{_short(x)}V{_short(y)}" if steps else f"L{_short(x)} {_short(y)}")
        pen = True
    return "".join(parts)


def _scale_at_left(most: float, top: float, tall: float, unit: str, right: float) -> Iterator[str]:
    """Thin lines at 0, the half and the end, with their numbers; the unit above them."""
    for share in (0, 0.5, 1):
        y = top + tall * (1 - share)
        line = f"M60 {_short(y)}H{_short(right)}"
        yield f'<path d="{line}" stroke="currentColor" stroke-opacity="0.15"/>'
        yield _text(54, y + 4, f"{most * share:.3g}", anchor="end", soft=True)
    if unit:
        yield _text(right, top - 2, unit, anchor="end", soft=True)


# --- marks


def _whole(rows: Sequence[Row]) -> float:
    """How long a stack is."""
    return float(sum(max(row["value"], 0) for row in rows))


def _long(value: float, most: float, room: float) -> float:
    return max(value, 0) / most * room if most > 0 else 0.0


def _box(x: float, y: float, wide: float, tall: float, colour: str, tip: str = "") -> str:
    tooltip = f"<title>{_safe(tip)}</title>" if tip else ""
    place = f'x="{_short(x)}" y="{_short(y)}" width="{_short(wide)}" height="{_short(tall)}"'
    return f'<rect {place} fill="{escape(colour)}">{tooltip}</rect>'


def _text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    soft: bool = False,
    weight: int = 400,
    tip: str = "",
    room: float = 0.0,
) -> str:
    facts = f' text-anchor="{anchor}"' if anchor != "start" else ""
    facts += ' fill-opacity="0.65"' if soft else ""
    facts += f' font-weight="{weight}"' if weight != 400 else ""
    if room and len(words) * _CHARACTER_PX > room:
        facts += f' textLength="{_short(room)}" lengthAdjust="spacingAndGlyphs"'
    tooltip = f"<title>{_safe(tip)}</title>" if tip and tip != words else ""
    return f'<text x="{_short(x)}" y="{_short(y)}"{facts}>{_safe(words)}{tooltip}</text>'


def _says(row: Row) -> str:
    return f"{row['name']}: {row['part']} {row['text']}"


def _safe(text: str) -> str:
    return escape(printable(str(text)))


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
