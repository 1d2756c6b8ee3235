"""What pictures as SVG are made of: text, filled rectangles, and the element around them.

Text and lines take the colour of the page around, light or dark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from kinetoscope.views.charts.palette import KINDS
from kinetoscope.views.text import printable

WIDTH_PX: Final = 720
"""Of a picture."""

ROW_PX: Final = 22
"""Of a line of bars."""

CHARACTER_PX: Final = 7.2
"""Of one at 12 px: the average of a wide font."""

_MAX_NAMES_PX: Final = 416


def picture(body: Sequence[str], width: float, height: float) -> str:
    """The element with these marks in it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="12" fill="currentColor"'
        f' style="max-width:100%">{"".join(body)}</svg>'
    )


def width_of_names(labels: Iterable[str]) -> float:
    """The room for labels at the left."""
    return min(_MAX_NAMES_PX, max(map(len, labels)) * CHARACTER_PX + 12)


def box(x: float, y: float, wide: float, tall: float, colour: str, tip: str = "") -> str:
    """A filled rectangle; idle time is a shade of the text, which light pages and dark ones have."""
    tooltip = f"<title>{safe(tip)}</title>" if tip else ""
    place = f'x="{short(x)}" y="{short(y)}" width="{short(wide)}" height="{short(tall)}"'
    fill = 'fill-opacity="0.12"' if colour == KINDS["idle"].light else f'fill="{escape(colour)}"'
    return f"<rect {place} {fill}>{tooltip}</rect>"


def text(
    x: float, y: float, words: str, *, anchor: str = "start", soft: bool = False, weight: int = 400, tip: str = ""
) -> str:
    """Words at a place; `soft` ones step back, `tip` is what pointing at them shows."""
    facts = f' text-anchor="{anchor}"' if anchor != "start" else ""
    facts += ' fill-opacity="0.65"' if soft else ""
    facts += f' font-weight="{weight}"' if weight != 400 else ""
    tooltip = f"<title>{safe(tip)}</title>" if tip and tip != words else ""
    return f'<text x="{short(x)}" y="{short(y)}"{facts}>{safe(words)}{tooltip}</text>'


def number(value: float) -> str:
    """A number at an axis."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def short(value: float) -> str:
    """A coordinate, to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def safe(words: str) -> str:
    """Words that a trace may have said, as text."""
    return escape(printable(str(words)))
