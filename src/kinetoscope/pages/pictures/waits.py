"""Pictures of a hang: how far each rank is in the last collectives of its groups, and waits that form a cycle."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from kinetoscope.model.hangs.states import COMPLETED, NEVER, NO_RECORDS, SCHEDULED, STARTED, name_of_group, states
from kinetoscope.model.trace.text import listed, number_of
from kinetoscope.pages.blocks import ChartBlock, Sketch
from kinetoscope.views.charts.chart import keyed, tooltip, vega_lite
from kinetoscope.views.charts.palette import colour
from kinetoscope.views.numbers import grouped
from kinetoscope.views.sentences import EMPTY, constant, join, say
from kinetoscope.views.text import brief, cells, padded, printable

_LOOKS: Final = {
    NEVER: ("waiting", "×"),
    NO_RECORDS: ("host", "?"),
    SCHEDULED: ("runtime", "○"),
    STARTED: ("communication", "◐"),
    COMPLETED: ("idle", "●"),
}
"""Kind whose colour a state has, and its glyph where there is text alone; what matters most first."""

_KEY: Final = ", ".join(f"{glyph} {state}" for state, (_, glyph) in _LOOKS.items())

_NO_MEMBER: Final = " "

_COLUMNS: Final = 40
"""Cells of a row in all."""

_MOST, _LEAST = 8, 3
"""Collectives of a group that are drawn."""

_BEFORE: Final = 2
"""Of these such that are done everywhere, before the first that is not."""

_NAMES: Final = 8
"""Names of groups up to which each has columns of its own; of more, those that differ in a number share them."""

_ROWS: Final = 24
"""Rows of the picture; of ranks that are alike there is one."""

_RANKS_CELLS: Final = 36
_TITLE_CELLS: Final = 150
"""Cells of all titles together."""

_ROOMY: Final = 24
"""Columns up to which each has its head; of more the first and the last of a group."""

_ROW_PX: Final = 18


@dataclass(frozen=True, slots=True)
class _Section:
    """Columns of the picture: those of a group, or of groups of one name.

    Attributes:
        title: its words.
        heads: of the columns.
        of_rank: a state for each column, by rank.
        group_of_rank: the group that these are of.
    """

    title: str
    heads: Sequence[str]
    of_rank: Mapping[int, Sequence[str]]
    group_of_rank: Mapping[int, str]


def states_picture(
    calls: pl.DataFrame, groups: pl.DataFrame, hosts: pl.DataFrame, chosen: Collection[int] = ()
) -> ChartBlock | None:
    """The states of all ranks in the last collectives of their groups; None where nothing is known of any.

    Ranks that are alike share a row. Those that are `chosen` have rows of their own, before the others.
    """
    frame = states(calls, groups, hosts)
    if not frame.height:
        return None
    sections, left = _sections(frame, calls)
    ranks = frame.get_column("rank").unique().sort().to_list()
    rows = _rows(ranks, sections, chosen)
    if not rows or not sections:
        return None
    shown = rows[:_ROWS]
    rest = sum(len(members) for members, _ in rows[_ROWS:])
    return ChartBlock(
        "Who is where",
        _spec(shown, sections),
        note=_note(len(ranks), rest, left, relative=any(_OPEN in each.heads for each in sections)),
        sketch=[*(_sketch(members, row, sections) for members, row in shown), Sketch("", _KEY, "")],
        heads=("ranks", *(_text_head(each) for each in sections)),
    )


def _note(ranks: int, rest: int, left: int, *, relative: bool) -> str:
    alike = say("{ranks} ranks: those that are alike share a row.", ranks=constant(ranks))
    more = say("{rest} ranks in other rows are left out.", rest=constant(rest)) if rest else EMPTY
    groups = say("{left} groups in which all is done are left out.", left=constant(left)) if left else EMPTY
    at = "Column ◂ has the first collective of the group that is not done everywhere." if relative else EMPTY
    return join([alike, at, more, groups])


# --- sections


def _sections(frame: pl.DataFrame, calls: pl.DataFrame) -> tuple[list[_Section], int]:
    """Columns of groups, those first in which something waits, as many as there is room for; how many are left out.

    Sends and receives of a group have columns of their own if one is not done, or the group has nothing else.
    """
    of_group = frame.drop_nulls("group").sort("team", "rank")
    teams = [rows for _, rows in of_group.group_by("team", maintain_order=True)]
    names = [name_of_group(*rows.select("group", "desc").row(0)) for rows in teams]
    if len(set(names)) > _NAMES:  # each has a number of its own
        names = [_NUMBER.sub("", name) or name for name in names]
    open_calls, pairs = _open_calls(calls), _pairs(calls)
    by_name: dict[str, list[pl.DataFrame]] = {}
    for name, rows in zip(names, teams, strict=True):
        if rows.get_column("furthest").count():
            by_name.setdefault(name, []).append(rows)
    of_pairs: dict[str, dict[int, list[str]]] = {}
    for name, rows in zip(names, teams, strict=True):
        of_rank = {
            rank: pairs[rank, group] for rank, group in rows.select(*_KEY_OF_CALLS).rows() if (rank, group) in pairs
        }
        if any(state != COMPLETED for of in of_rank.values() for state in of) or name not in by_name:
            of_pairs.setdefault(f"{name}: sends", {}).update(of_rank)
    waits = {
        name: any((rows.get_column("state") != COMPLETED).any() for rows in members)
        for name, members in by_name.items()
    } | {
        name: any(state != COMPLETED for of in ranks.values() for state in of)
        for name, ranks in of_pairs.items()
        if ranks
    }
    order = sorted(waits, key=lambda name: not waits[name])
    width = max(min(_COLUMNS // max(len(order), 1), _MOST), _LEAST)
    drawn = order[: _COLUMNS // width]
    made = [
        _section(name, by_name[name], open_calls, width) if name in by_name else _of_pairs(name, of_pairs[name], width)
        for name in drawn
    ]
    return made, len(order) - len(drawn)


_KEY_OF_CALLS: Final = ("rank", "group")


def _pairs(calls: pl.DataFrame) -> dict[tuple[int, str], list[str]]:
    """States of the last sends and receives by rank and group, oldest first."""
    last = calls.filter("is_p2p").sort("rank", "order").group_by(_KEY_OF_CALLS, maintain_order=True)
    return {(rank, group): states_of for rank, group, states_of in last.agg(pl.col("state").tail(_MOST)).rows()}


def _of_pairs(name: str, of_rank: Mapping[int, Sequence[str]], width: int) -> _Section:
    """Sends and receives: the last ones of each rank, whose numbers other ranks do not share."""
    filled = {rank: [*[_NO_MEMBER] * (width - len(of)), *of[-width:]] for rank, of in of_rank.items()}
    heads = [*[f"{place - width + 1}" for place in range(width - 1)], "last"]
    return _Section(name, heads, filled, dict.fromkeys(of_rank, name))


_NUMBER: Final = re.compile(r"[\d_.:-]*\d+$")
"""What numbers a name, at its end."""


OpenCalls = Mapping[tuple[int, str], Mapping[int, str]]
"""States of calls that are not done, by rank and group, and number."""


def _open_calls(calls: pl.DataFrame) -> OpenCalls:
    is_open = (pl.col("state") != COMPLETED) & ~pl.col("is_p2p")
    made: dict[tuple[int, str], dict[int, str]] = {}
    for rank, group, seq, state in calls.filter(is_open).select("rank", "group", "seq", "state").iter_rows():
        made.setdefault((rank, group), {})[seq] = state
    return made


def _section(name: str, teams: Sequence[pl.DataFrame], open_calls: OpenCalls, width: int) -> _Section:
    """Columns around the first collective of each group that is not done everywhere; a rank has its worst group."""
    opens = [_first_open(rows) for rows in teams]
    after = max((last - at for at, last in opens), default=0)
    before = width - 1 - max(min(after, width - 1 - _BEFORE), 0)
    of_rank: dict[int, Sequence[str]] = {}
    group_of_rank: dict[int, str] = {}
    worst: dict[int, int] = {}
    for rows, (at, _) in zip(teams, opens, strict=True):
        for row in rows.iter_rows(named=True):
            states_of = [_state(row, seq, open_calls) for seq in range(at - before, at - before + width)]
            place = min((_ORDER[each] for each in states_of if each != _NO_MEMBER), default=len(_ORDER))
            if place < worst.get(row["rank"], len(_ORDER) + 1):
                worst[row["rank"]], of_rank[row["rank"]] = place, states_of
                group_of_rank[row["rank"]] = row["group"]
    first = opens[0][0]
    if all(at == first for at, _ in opens):
        heads = [grouped(seq) if seq >= 0 else "" for seq in range(first - before, first - before + width)]
    else:
        heads = [f"{by:+d}" if by else _OPEN for by in range(-before, width - before)]
    title = f"{name} · {grouped(len(teams))} groups" if len(teams) > 1 else name
    return _Section(title, heads, of_rank, group_of_rank)


_OPEN: Final = "◂"
"""Head of the column of the first collective that is not done everywhere, where groups share columns."""

_ORDER: Final = {state: place for place, state in enumerate(_LOOKS)}


def _first_open(rows: pl.DataFrame) -> tuple[int, int]:
    """The first collective of a group that is not done on all ranks that are known, and the last of all."""
    last = rows.get_column("furthest").max()
    furthest = last if isinstance(last, int) else 0
    done = rows.filter(pl.col("state") != NO_RECORDS).get_column("done").fill_null(-1).min()
    return (done + 1 if isinstance(done, int) and done < furthest else furthest), furthest


def _state(row: Mapping[str, Any], seq: int, open_calls: OpenCalls) -> str:
    """The state of a rank in the collective of a number; blank where nobody has called it."""
    furthest = row["furthest"]
    if furthest is None or seq < 0 or seq > furthest:
        return _NO_MEMBER
    if row["state"] == NO_RECORDS:
        return NO_RECORDS
    if row["called"] is None or seq > row["called"]:
        return NEVER
    of_call = open_calls.get((row["rank"], row["group"]), {}).get(seq)
    if of_call is not None:
        return of_call
    return COMPLETED


# --- rows


Lines = list[tuple[list[int], tuple[tuple[str, ...], ...]]]
"""Ranks that are alike, and their states in each section."""


def _rows(ranks: Sequence[int], sections: Sequence[_Section], chosen: Collection[int]) -> Lines:
    """The chosen first, then those who wait or are not there, then those for whom all is done."""
    alike: dict[tuple[bool, tuple[tuple[str, ...], ...]], list[int]] = {}
    for rank in ranks:
        row = tuple(tuple(each.of_rank.get(rank, [_NO_MEMBER] * len(each.heads))) for each in sections)
        alike.setdefault((rank not in chosen, row), []).append(rank)
    made = [(is_other, _worst(row), members, row) for (is_other, row), members in alike.items()]
    return [(members, row) for *_, members, row in sorted(made, key=lambda each: (each[0], each[1], each[2]))]


def _worst(row: Sequence[Sequence[str]]) -> int:
    return min((_ORDER[state] for of in row for state in of if state != _NO_MEMBER), default=len(_ORDER))


def _label(members: Sequence[int]) -> str:
    """`3`, `0-2, 4-7 · 7 ranks`."""
    if len(members) == 1:
        return f"rank {members[0]}"
    text = listed(members, 4)
    count = f" · {number_of(len(members), 'rank')}"
    return f"{brief(text, _RANKS_CELLS - cells(count))}{count}"


def _text_head(section: _Section) -> str:
    return brief(printable(section.title), max(len(section.heads) + 2, 12))


def _sketch(members: Sequence[int], row: Sequence[Sequence[str]], sections: Sequence[_Section]) -> Sketch:
    marks = ["".join(_LOOKS[each][1] if each in _LOOKS else "·" for each in of) for of in row]
    worst = _worst(row)
    kind = next((kind for place, (kind, _) in enumerate(_LOOKS.values()) if place == worst), "idle")
    first, *others = [padded(each, len(section.heads)) for each, section in zip(marks, sections, strict=True)]
    return Sketch(_label(members), first, kind, more=others)


def _spec(rows: Lines, sections: Sequence[_Section]) -> dict[str, Any]:
    """Rectangles in sections; numbers above them, and above those the names of groups."""
    starts, at = [], 0.0
    for section in sections:
        starts.append(at)
        at += len(section.heads) + 0.6
    marks = list(_cells(rows, sections, starts))
    roomy = sum(len(each.heads) for each in sections) <= _ROOMY
    heads = [
        {"x": start + place + 0.5, "text": head}
        for section, start in zip(sections, starts, strict=True)
        for place, head in enumerate(section.heads)
        if roomy or head == _OPEN or place in (0, len(section.heads) - 1)
    ]
    titles = [
        {"x": start, "text": brief(printable(each.title), _TITLE_CELLS // len(sections))}
        for each, start in zip(sections, starts, strict=True)
    ]
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


def _rank_axis() -> dict[str, Any]:
    axis = {"labelLimit": 260, "ticks": False, "domain": False, "grid": False}
    scale = {"paddingInner": 0.12, "paddingOuter": 0.06}
    return {"field": "row", "type": "nominal", "title": None, "sort": None, "axis": axis, "scale": scale}


def _cells(rows: Lines, sections: Sequence[_Section], starts: Sequence[float]) -> Iterator[dict[str, Any]]:
    labels = _distinct([_label(members) for members, _ in rows])
    for label, (members, row) in zip(labels, rows, strict=True):
        for section, start, of in zip(sections, starts, row, strict=True):
            for place, state in enumerate(of):
                if state != _NO_MEMBER:
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


# --- a cycle

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

_OUT: Final = 14
"""From an arrow to its words."""

_NEAR: Final = 20
_WORDS_CELLS: Final = 28


def cycle_picture(waits: Sequence[tuple[int, str, int]]) -> ChartBlock:
    """Ranks on a circle, each with an arrow to the next, for which it waits: rank, words of where, rank."""
    drawn = waits[:_NODES]
    turn = 2 * math.pi / len(drawn)
    begin = -math.pi / 2 if len(drawn) == 2 else 0.0
    nodes = [
        {
            "x": _WIDER * _RADIUS * math.sin(begin + turn * place),
            "y": _RADIUS * math.cos(begin + turn * place),
            "label": f"rank {rank}",
        }
        for place, (rank, _, _) in enumerate(drawn)
    ]
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
    side = "center" if abs(at_x) < _NEAR else "left" if at_x > 0 else "right"
    return {
        "x": x,
        "y": y,
        "x2": x2,
        "y2": y2,
        "angle": math.degrees(math.atan2(across, up)),
        "tx": at_x + at_x / out * _OUT,
        "ty": at_y + at_y / out * _OUT,
        "align": side,
        "words": words,
    }
