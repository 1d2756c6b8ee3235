"""Pictures of a few named times as SVG: lines from somewhere to somewhere, and one bar with its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinetoscope.views.charts.marks import CHARACTER_PX, ROW_PX, WIDTH_PX, box, picture, text, width_of_names
from kinetoscope.views.charts.palette import KINDS
from kinetoscope.views.text import ELLIPSIS, middle


@dataclass(frozen=True, slots=True)
class Span:
    """A line: its name, its number as text, its colour, and from where to where it reaches.

    Attributes:
        strong: it is one of the lines that the others stand between.
    """

    label: str
    number: str
    colour: str
    low: float
    high: float
    strong: bool = False


def spans(lines: Sequence[Span], low: float, high: float) -> str:
    """A picture of spans on one axis from `low` to `high`; what begins before is cut, with its number behind it."""
    if not lines:
        return ""
    labels = [middle(line.label.strip(), 56) for line in lines]
    numbers = max(len(line.number) for line in lines) * CHARACTER_PX + 12
    names = width_of_names(labels) + 16
    room = WIDTH_PX - names - numbers
    scale = room / ((high - low) or 1)
    body = []
    for place, (line, label) in enumerate(zip(lines, labels, strict=True)):
        y = place * ROW_PX
        inner = line.label != line.label.lstrip()
        indent = 16.0 if inner else 0.0
        body.append(text(indent, y + 15, label, weight=600 if line.strong else 400, soft=inner, tip=line.label.strip()))
        start, end = ((min(max(at, low), high) - low) * scale for at in (line.low, line.high))
        inset = 6 if inner else 3
        body.append(box(names + start, y + inset, max(end - start, 1), ROW_PX - 2 * inset, line.colour, line.number))
        if line.low < low:
            body.append(text(names + 2, y + 15, ELLIPSIS))
        body.append(text(names + end + 6, y + 15, line.number, soft=not line.strong))
    return picture(body, WIDTH_PX, len(lines) * ROW_PX + 4)


def proportions(parts: Sequence[tuple[str, str, float, str]]) -> str:
    """One bar of parts: each its label, its number as text, its size, and its kind of time; the key is below."""
    total = sum(size for _, _, size, _ in parts)
    if not total > 0:
        return ""
    body, x = [], 0.0
    for label, number, size, kind in parts:
        wide = size / total * WIDTH_PX
        body.append(box(x, 2, wide, 18, KINDS[kind].light, f"{label}: {number}"))
        x += wide
    x, y = 0.0, 28.0
    for label, number, _, kind in parts:
        words = f"{label} {number}"
        wide = len(words) * CHARACTER_PX + 36
        if x and x + wide > WIDTH_PX:
            x, y = 0.0, y + 18
        body += [box(x, y + 2, 10, 10, KINDS[kind].light), text(x + 16, y + 11, words)]
        x += wide
    return picture(body, WIDTH_PX, y + 20)
