"""The calibration plot: promised intervals over what was gained, as an SVG that light and dark pages can show."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final
from xml.sax.saxutils import escape

from tests.faults.judging import Judged
from tests.faults.page import ROOT

FILE: Final = ROOT / "docs" / "images" / "calibration.svg"

_WIDTH, _HEIGHT = 720, 560
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 16, 48
_MOST = 0.9
"""Share of a step at the end of both axes. They go by the square root of shares: small ones can be told apart."""

_TICKS: Final = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

_STYLE: Final = """
  text { font: 12px system-ui, sans-serif; fill: #3d4450; }
  .axis { stroke: #c3c9d3; stroke-width: 1; }
  .even { stroke: #6b7280; stroke-width: 1.5; stroke-dasharray: 5 4; }
  .kept { stroke: #2563eb; fill: #2563eb; } .missed { stroke: #c2410c; fill: #c2410c; }
  line.kept, line.missed { stroke-width: 3; stroke-linecap: round; opacity: 0.75; }
  @media (prefers-color-scheme: dark) {
    text { fill: #d5dae3; } .axis { stroke: #4b5463; } .even { stroke: #9aa3b2; }
    .kept { stroke: #7aa5ff; fill: #7aa5ff; } .missed { stroke: #ff9a5c; fill: #ff9a5c; }
  }
"""


def svg(cases: Iterable[Judged]) -> str:
    """The plot of all cases of time that were found."""
    shown = sorted((each for each in cases if each.timed and each.found), key=lambda each: (each.kept, each.name))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        "<title>Promised intervals over measured gains</title>",
        f"<style>{_STYLE}</style>",
        *_axes(),
        *(_bar(each) for each in shown[::-1]),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(share: float) -> float:
    return _LEFT + _part(share) * (_WIDTH - _LEFT - _RIGHT)


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - _part(share) * (_HEIGHT - _TOP - _BOTTOM)


def _part(share: float) -> float:
    """Along the axis, 0 … 1."""
    return math.sqrt(min(max(share, 0.0), _MOST) / _MOST)


def _axes() -> Iterable[str]:
    for share in _TICKS:
        x, y = _x(share), _y(share)
        yield f'<line class="axis" x1="{x:.1f}" y1="{_y(0):.1f}" x2="{x:.1f}" y2="{_y(_MOST):.1f}" opacity="0.4"/>'
        yield f'<line class="axis" x1="{_x(0):.1f}" y1="{y:.1f}" x2="{_x(_MOST):.1f}" y2="{y:.1f}" opacity="0.4"/>'
        yield f'<text x="{x:.1f}" y="{_y(0) + 18:.1f}" text-anchor="middle">{share:.0%}</text>'
        yield f'<text x="{_x(0) - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>'
    low, high = _x(0), _x(_MOST)
    yield f'<line class="even" x1="{low:.1f}" y1="{_y(0):.1f}" x2="{high:.1f}" y2="{_y(_MOST):.1f}"/>'
    middle = (low + high) / 2
    yield f'<text x="{middle:.1f}" y="{_HEIGHT - 10}" text-anchor="middle">gained, share of the step</text>'
    up = (_y(0) + _y(_MOST)) / 2
    place = f'transform="translate(16 {up:.1f}) rotate(-90)" text-anchor="middle"'
    yield f"<text {place}>promised, share of the step</text>"


def _bar(each: Judged) -> str:
    low, high = each.promised
    x, kind = _x(each.gain), "kept" if each.kept else "missed"
    said = escape(f"{each.code}: {each.name}: promised {low:.1%} to {high:.1%}, gained {each.gain:.1%}")
    title = f"<title>{said}</title>"
    if _y(low) - _y(high) < 1:
        return f'<circle class="{kind}" cx="{x:.1f}" cy="{_y(low):.1f}" r="2">{title}</circle>'
    return f'<line class="{kind}" x1="{x:.1f}" y1="{_y(low):.1f}" x2="{x:.1f}" y2="{_y(high):.1f}">{title}</line>'
