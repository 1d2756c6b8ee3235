"""A cycle of waits as a picture: ranks on a circle, each with an arrow to the one that it waits for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kinetoscope.pages.blocks import ChartBlock, Sketch
from kinetoscope.views.charts.chart import vega_lite
from kinetoscope.views.charts.palette import colour
from kinetoscope.views.sentences import EMPTY, constant, say
from kinetoscope.views.text import brief, printable

_NODES: Final = 12
"""Ranks of a cycle that are drawn."""

_RADIUS: Final = 90
_WIDER: Final = 1.6
_WIDTH_PX: Final = 640
_MARGIN: Final = 30
_NODE_PX: Final = 2200  # area
_GAP: Final = 30
"""From the middle of a rank to the end of an arrow."""

_APART: Final = 10
"""Half the distance of two arrows between the same ranks."""

_WORDS_PX: Final = 14
"""From an arrow to its words."""

_MIDDLE_PX: Final = 20
_WORDS_CELLS: Final = 28


def cycle_picture(waits: Sequence[tuple[int, str, int]]) -> ChartBlock:
    """Ranks on a circle, each with an arrow to the next, for which it waits: rank, words of where, rank."""
    drawn = waits[:_NODES]
    nodes = _nodes([rank for rank, _, _ in drawn])
    arrows = [
        _arrow(one, other, brief(printable(words), _WORDS_CELLS), apart=_APART * (len(drawn) == 2))
        for one, other, (_, words, _) in zip(nodes, [*nodes[1:], nodes[0]], drawn, strict=True)
    ]
    ends = [node["y"] for node in nodes] + [arrow["ty"] for arrow in arrows]
    low, high = min(ends) - _MARGIN, max(ends) + _MARGIN
    x = {"type": "quantitative", "axis": None, "scale": {"domain": [-_WIDTH_PX / 2, _WIDTH_PX / 2], "nice": False}}
    y = {"type": "quantitative", "axis": None, "scale": {"domain": [low, high], "nice": False}}
    ink, place_of = colour("waiting"), {"x": {"field": "x", **x}, "y": {"field": "y", **y}}
    head = {
        "x": {"field": "x2", **x},
        "y": {"field": "y2", **y},
        "angle": {"field": "angle", "type": "quantitative", "scale": None},
    }
    words = {"x": {"field": "tx", **x}, "y": {"field": "ty", **y}, "text": {"field": "words"}}
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "rule", "color": ink, "strokeWidth": 2},
            "encoding": {**place_of, "x2": {"field": "x2"}, "y2": {"field": "y2"}},
        },
        {"mark": {"type": "point", "shape": "triangle", "filled": True, "size": 90, "color": ink}, "encoding": head},
        *(
            {
                "data": {"values": [arrow for arrow in arrows if arrow["align"] == side]},
                "mark": {"type": "text", "color": colour("host"), "fontSize": 11, "align": side},
                "encoding": words,
            }
            for side in ("left", "center", "right")
        ),
        {
            "data": {"values": nodes},
            "mark": {"type": "circle", "size": _NODE_PX, "color": colour("idle"), "opacity": 1},
            "encoding": place_of,
        },
        {
            "data": {"values": nodes},
            "mark": {"type": "text", "color": colour("computation"), "fontWeight": "bold"},
            "encoding": {**place_of, "text": {"field": "label"}},
        },
    ]
    spec = vega_lite(data={"values": arrows}, layer=layers, width=_WIDTH_PX, height=round(high - low))
    note = EMPTY
    if len(waits) > len(drawn):
        count, every = constant(len(drawn)), constant(len(waits))
        note = say("The first {drawn} of {every} ranks of the cycle.", drawn=count, every=every)
    sketch = [Sketch(f"rank {rank}", f"waits in {where} for rank {other}", "waiting") for rank, where, other in drawn]
    return ChartBlock("They wait for each other in a cycle", spec, sketch=sketch, note=note)


def _nodes(ranks: Sequence[int]) -> list[dict[str, Any]]:
    """Places on the circle, clockwise from above; of two, beside each other."""
    turn, begin = 2 * math.pi / len(ranks), -math.pi / 2 if len(ranks) == 2 else 0.0
    angles = [begin + turn * place for place in range(len(ranks))]
    return [
        {"x": _WIDER * _RADIUS * math.sin(angle), "y": _RADIUS * math.cos(angle), "label": f"rank {rank}"}
        for angle, rank in zip(angles, ranks, strict=True)
    ]


def _arrow(one: Mapping[str, Any], other: Mapping[str, Any], words: str, *, apart: float) -> dict[str, Any]:
    """From beside one rank to beside the other, moved aside by `apart`; its words stand outside of the circle."""
    across, up = other["x"] - one["x"], other["y"] - one["y"]
    length = math.hypot(across, up) or 1.0
    dx, dy = across / length, up / length
    x, y, x2, y2 = (
        one["x"] + dx * _GAP - dy * apart,
        one["y"] + dy * _GAP + dx * apart,
        other["x"] - dx * _GAP - dy * apart,
        other["y"] - dy * _GAP + dx * apart,
    )
    at_x, at_y = (x + x2) / 2, (y + y2) / 2
    out = math.hypot(at_x, at_y) or 1.0
    side = "center" if abs(at_x) < _MIDDLE_PX else "left" if at_x > 0 else "right"
    return {
        "x": x,
        "y": y,
        "x2": x2,
        "y2": y2,
        "angle": math.degrees(math.atan2(across, up)),
        "tx": at_x + at_x / out * _WORDS_PX,
        "ty": at_y + at_y / out * _WORDS_PX,
        "align": side,
        "words": words,
    }
