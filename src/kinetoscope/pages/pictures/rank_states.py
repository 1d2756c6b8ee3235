"""The picture of a hang: how far each rank is in the last collectives of its groups; equal ranks share a row."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import polars as pl

from kinetoscope.model.hangs.last_collectives import NO_MEMBER, OPEN, Section, urgency
from kinetoscope.model.hangs.last_collectives import sections as sections_of
from kinetoscope.model.hangs.states import COMPLETED, NEVER, NO_RECORDS, SCHEDULED, STARTED, STATES, states
from kinetoscope.model.trace.text import listed, number_of
from kinetoscope.pages.blocks import ChartBlock, Sketch
from kinetoscope.views.charts.chart import keyed, tooltip, vega_lite
from kinetoscope.views.charts.palette import colour
from kinetoscope.views.sentences import EMPTY, constant, join, say
from kinetoscope.views.text import brief, cells, padded, printable

_LOOKS: Final = {
    NEVER: ("waiting", "◆"),
    NO_RECORDS: ("host", "◇"),
    SCHEDULED: ("runtime", "○"),
    STARTED: ("communication", "◐"),
    COMPLETED: ("idle", "●"),
}
"""Kind whose colour a state has, and its glyph where there is text alone; what matters most first."""

_KEY: Final = ", ".join(f"{glyph} {state}" for state, (_, glyph) in _LOOKS.items())

_ROWS: Final = 24
"""Rows of the picture; of ranks that are alike there is one."""

_RANKS_CELLS: Final = 36
_TITLE_CELLS: Final = 150
"""Cells of all titles together."""

_ROOMY: Final = 24
"""Columns up to which each has its head; of more the first and the last of a group."""

_HEAD_CELLS: Final = 16
"""Cells of a name above columns of glyphs."""

_ROW_PX: Final = 18


def states_picture(
    calls: pl.DataFrame, groups: pl.DataFrame, hosts: pl.DataFrame, chosen: Collection[int] = ()
) -> ChartBlock | None:
    """The states of all ranks in the last collectives of their groups; None where nothing is known of any.

    Ranks that are alike share a row. Those that are `chosen` have rows of their own, before the others.
    """
    frame = states(calls, groups, hosts)
    if not frame.height:
        return None
    sections, left = sections_of(frame, calls)
    ranks = frame.get_column("rank").unique().sort().to_list()
    rows = _rows(ranks, sections, chosen)
    if not rows or not sections:
        return None
    shown = rows[:_ROWS]
    rest = sum(len(members) for members, _ in rows[_ROWS:])
    return ChartBlock(
        "Who is where",
        _spec(shown, sections),
        note=_note(len(ranks), rest, left, relative=any(OPEN in each.heads for each in sections)),
        sketch=[*(_sketch(members, row, sections) for members, row in shown), Sketch("", _KEY, "")],
        heads=("ranks", *(_text_head(each) for each in sections)),
    )


def _note(ranks: int, rest: int, left: int, *, relative: bool) -> str:
    equal = say("{ranks} ranks: those that are alike share a row.", ranks=constant(ranks))
    more = say("{rest} ranks in other rows are left out.", rest=constant(rest)) if rest else EMPTY
    groups = say("{left} groups in which all is done are left out.", left=constant(left)) if left else EMPTY
    at = "Column ◂ has the first collective of the group that is not done everywhere." if relative else EMPTY
    return join([equal, at, more, groups])


Lines = list[tuple[list[int], tuple[tuple[str, ...], ...]]]
"""Ranks that are alike, and their states in each section."""


def _rows(ranks: Sequence[int], sections: Sequence[Section], chosen: Collection[int]) -> Lines:
    """The chosen first, then those who wait or are not there, then those for whom all is done."""
    equal: dict[tuple[bool, tuple[tuple[str, ...], ...]], list[int]] = {}
    for rank in ranks:
        row = tuple(tuple(each.of_rank.get(rank, [NO_MEMBER] * len(each.heads))) for each in sections)
        equal.setdefault((rank not in chosen, row), []).append(rank)
    made = [(is_other, _worst(row), members, row) for (is_other, row), members in equal.items()]
    return [(members, row) for *_, members, row in sorted(made, key=lambda each: (each[0], each[1], each[2]))]


def _worst(row: Sequence[Sequence[str]]) -> int:
    return min(map(urgency, row))


def _label(members: Sequence[int]) -> str:
    """`3`, `0-2, 4-7 · 7 ranks`."""
    if len(members) == 1:
        return f"rank {members[0]}"
    text = listed(members, 4)
    count = f" · {number_of(len(members), 'rank')}"
    return f"{brief(text, _RANKS_CELLS - cells(count))}{count}"


def _text_head(section: Section) -> str:
    return brief(printable(section.name), max(len(section.heads), _HEAD_CELLS))


def _sketch(members: Sequence[int], row: Sequence[Sequence[str]], sections: Sequence[Section]) -> Sketch:
    marks = ["".join(_LOOKS[each][1] if each in _LOOKS else "·" for each in of) for of in row]
    worst = _worst(row)
    kind = "idle" if worst == len(STATES) else _LOOKS[STATES[worst]][0]
    first, *others = [padded(each, len(section.heads)) for each, section in zip(marks, sections, strict=True)]
    return Sketch(_label(members), first, kind, more=others)


def _spec(rows: Lines, sections: Sequence[Section]) -> dict[str, Any]:
    """Rectangles in sections; numbers above them, and above those the names of groups."""
    starts, at = [], 0.0
    for section in sections:
        starts.append(at)
        at += len(section.heads) + 0.6
    marks = list(_cells(rows, sections, starts))
    heads, titles = _heads(sections, starts)
    x = {"type": "quantitative", "axis": None, "scale": {"domain": [0, at - 0.6], "nice": False}}
    ink = colour("host")
    text = {"type": "text", "fontSize": 10, "color": ink, "baseline": "bottom"}
    present = [state for state in _LOOKS if any(mark["state"] == state for mark in marks)]
    rect = {
        "mark": {"type": "rect", "stroke": None, "cornerRadius": 2},
        "encoding": {
            "x": {"field": "x", **x},
            "x2": {"field": "x2"},
            "y": _rank_axis(),
            "color": keyed("state", {state: colour(_LOOKS[state][0]) for state in present})
            | {"legend": {"orient": "bottom", "direction": "horizontal"}},
            "tooltip": tooltip(("row", "ranks"), ("group", ""), ("number", ""), ("state", "")),
        },
    }
    above = [
        {
            "data": {"values": heads},
            "mark": text | {"align": "center", "dy": -3},
            "encoding": {"x": {"field": "x", **x}, "y": {"value": 0}, "text": {"field": "text"}},
        },
        {
            "data": {"values": titles},
            "mark": text | {"align": "left", "fontWeight": "bold", "dy": -18, "fontSize": 11},
            "encoding": {"x": {"field": "x", **x}, "y": {"value": 0}, "text": {"field": "text"}},
        },
    ]
    size = {"width": "container", "height": _ROW_PX * len(rows), "padding": {"top": 8}}
    return vega_lite(data={"values": marks}, layer=[rect, *above], **size)


def _heads(sections: Sequence[Section], starts: Sequence[float]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Numbers above the columns, where there is no room for all the first and the last; and names of groups."""
    roomy = sum(len(each.heads) for each in sections) <= _ROOMY
    heads, titles = [], []
    for section, start in zip(sections, starts, strict=True):
        titles.append({"x": start, "text": brief(printable(section.title), _TITLE_CELLS // len(sections))})
        for place, head in enumerate(section.heads):
            if roomy or head == OPEN or place in (0, len(section.heads) - 1):
                heads.append({"x": start + place + 0.5, "text": head})
    return heads, titles


def _rank_axis() -> dict[str, Any]:
    axis = {"labelLimit": 260, "ticks": False, "domain": False, "grid": False}
    scale = {"paddingInner": 0.12, "paddingOuter": 0.06}
    return {"field": "row", "type": "nominal", "title": None, "sort": None, "axis": axis, "scale": scale}


def _cells(rows: Lines, sections: Sequence[Section], starts: Sequence[float]) -> Iterator[dict[str, Any]]:
    labels = _distinct([_label(members) for members, _ in rows])
    for label, (members, row) in zip(labels, rows, strict=True):
        for section, start, of in zip(sections, starts, row, strict=True):
            for place, state in enumerate(of):
                if state != NO_MEMBER:
                    left = start + place
                    group = section.group_of_rank[members[0]] if len(members) == 1 else section.title
                    words = {"group": printable(group), "number": section.heads[place], "state": state}
                    yield {"row": label, "x": left + 0.06, "x2": left + 0.94, **words}


def _distinct(labels: Sequence[str]) -> list[str]:
    """Labels with a number where two are cut to the same."""
    seen: dict[str, int] = {}
    made = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        made.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return made
