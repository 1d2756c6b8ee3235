"""A difference of two runs as lines: one sentence, the fall from the one step to the other, what changed most.

Draws the result of `compare.diff.diff`, and computes nothing but lengths.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

import polars as pl

from kinetoscope.compare.diff.diff import Diff
from kinetoscope.compare.diff.waterfall import LABELS
from kinetoscope.schema import Result
from kinetoscope.screens import promises
from kinetoscope.views.charts.palette import KINDS, kind_of
from kinetoscope.views.names import briefs
from kinetoscope.views.numbers import MISSING, Scale, scale, significant
from kinetoscope.views.terminal.lines import FILL, THIN, Line, Piece, plain, without_colour
from kinetoscope.views.text import brief, cells, middle, padded, printable, wrapped

MAX_LINE_CELLS: Final = 110
"""Longer lines are hard to read."""

ROWS: Final = 10
"""Rows of the table where nobody asks for another number."""

_ZOOM: Final = 0.4
"""Where everything happens in the last part of the step, up to this share of it, only that part is drawn."""

_SHAPE: Final = re.compile(r"\[(\d+(?:, \d+)*)\]")

_SEEN: Final = 0.0005
"""Share of the step under which a change has no line."""

_MIN_DRAWN_SHARE: Final = 0.01
"""Share of the step below which the picture says that nothing changed."""

_PART: Final = 0.03
"""Share of the largest change from which on a part of a kind of time has a line."""

_WORDS: Final = {"inconclusive": "may be noise", "same": "within noise"}


def lines(diff: Diff, promised: pl.DataFrame | None = None, *, width: int, limit: int | None = None) -> Iterator[Line]:
    """The whole screen, in at most `width` cells; with `promised` (see `delivery`), what was promised and what came."""
    width = min(width, MAX_LINE_CELLS)
    yield from (plain(line, "bold") for line in wrapped(printable(diff.sentence), width))
    yield plain(middle(printable(" → ".join(diff.runs)), width), "dim")
    yield plain()
    yield from fall(diff, width)
    rows = list(_rows(diff, width, ROWS if limit is None else limit))
    if rows:
        yield plain()
        yield from rows
    if diff.hardware is not None:
        yield plain()
        yield from _hardware(diff.hardware, width, ROWS if limit is None else limit)
    if promised is not None and promised.height:
        yield plain()
        yield plain("Promised and delivered", "bold")
        yield from promises.lines(promised, width=width)
    if diff.notes:
        yield plain()
    for note in diff.notes:
        yield from (plain(line, "dim") for line in wrapped(f"· {printable(note)}", width, indent="  "))


def text(diff: Diff) -> str:
    """The same without colour."""
    return without_colour(lines(diff, width=MAX_LINE_CELLS)).rstrip("\n")


# --- the fall


@dataclass(frozen=True, slots=True)
class FallBar:
    """A line of the fall: words, a number, and from where to where it reaches."""

    label: str
    number: str
    kind: str
    low: int
    high: int
    style: str = ""
    form: str = FILL

    @property
    def is_step(self) -> bool:
        """Whether it is one of the two steps."""
        return self.style == "bold"


def fall(diff: Diff, width: int) -> Iterator[Line]:
    """From the step before to the step now: each kind of time begins where the one above it ended."""
    lines = list(bars(diff))
    unit = scale([diff.base, diff.new], "ns")
    label = min(max(cells(bar.label) for bar in lines), width // 2)
    number = max(cells(bar.number) for bar in lines)
    room = max(width - label - number - 4, 10)
    low, high = axis(diff, lines)
    for bar in lines:
        start, end = (round((at - low) / (high - low) * room) for at in (bar.low, bar.high))
        start = min(start, room - 1)
        text = padded(middle(bar.label, label), label) + "  " + padded(bar.number, number, right=True) + "  "
        piece: Piece = (KINDS[bar.kind].glyph * max(end - max(start, 0), 1), f"{bar.form} {bar.kind}")
        if start < 0:  # the axis begins later than this bar
            cut: Piece = "┄┄", "dim"
            yield ((text, bar.style), cut, (piece[0][2:], piece[1]))
        else:
            yield ((text, bar.style), (" " * start, ""), piece)
    if low:
        yield plain(" " * (label + number + 4) + f"the axis begins at {unit.with_unit(low)}", "dim")


def bars(diff: Diff) -> Iterator[FallBar]:
    """The step before, each kind of time with the parts of it that matter, the step now."""
    unit = scale([diff.base, diff.new], "ns")
    frame = diff.waterfall.frame
    yield FallBar("step before", unit.with_unit(diff.base), "host", 0, diff.base, "bold")
    least = _PART * max(map(abs, frame.get_column("change").to_list()), default=0)
    categories = frame.filter(frame.get_column("part").is_null()).to_dicts()
    for row in categories:
        if abs(row["change"]) < _SEEN * diff.base:
            continue
        kind = kind_of(row["category"]) or "idle"
        yield _bar(LABELS[row["category"]].capitalize(), row["from_time"], row["to_time"], kind, unit)
        parts = [each for each in frame.to_dicts() if each["category"] == row["category"] and each["part"] is not None]
        shown = list(takewhile(lambda each: abs(each["change"]) >= least, parts))
        if row["category"] == "data_loading" and len(parts) == 1:  # the loader says no more than the category
            shown = []
        for part, name in zip(shown, briefs([part["part"] for part in shown], 44), strict=True):
            yield _bar("  " + name, part["from_time"], part["to_time"], kind, unit, part=True)
        if shown and abs(row["to_time"] - shown[-1]["to_time"]) >= _SEEN * diff.base:
            yield _bar("  others", shown[-1]["to_time"], row["to_time"], kind, unit, part=True)
    yield FallBar("step now", unit.with_unit(diff.new), "host", 0, diff.new, "bold")


def _bar(label: str, begin: int, end: int, kind: str, unit: Scale, *, part: bool = False) -> FallBar:
    low, high = sorted((begin, end))
    return FallBar(label, _signed(end - begin, unit), kind, low, high, "dim" if part else "", THIN if part else FILL)


def axis(diff: Diff, bars: Sequence[FallBar]) -> tuple[int, int]:
    """From where to where is drawn: all of it, or where something happens."""
    inner = bars[1:-1]
    low = min([diff.base, diff.new, *(bar.low for bar in inner)])
    high = max([diff.base, diff.new, *(bar.high for bar in inner)], default=1)
    if _MIN_DRAWN_SHARE * high < high - low < _ZOOM * high and low > 0:
        low = max(low - (high - low) // 3 - 1, 0)
        return (low, high) if low else (0, high)
    return 0, max(high, 1)


def _signed(change: int, unit: Scale) -> str:
    sign = "+" if change > 0 else "−" if change < 0 else "±"
    return sign + unit.with_unit(abs(change))


# --- the table


def _rows(diff: Diff, width: int, limit: int) -> Iterator[Line]:
    """What changed most: a line of numbers each, and one that says where and what else is known."""
    frame = diff.rows.frame.filter(pl.col("change").abs() >= max(_SEEN * diff.base, 1))
    more = frame.height - limit if limit else 0
    rows = frame.head(limit or frame.height).to_dicts()
    if not rows:
        return
    unit = scale([max(row["base"], row["new"]) for row in rows], "ns")
    heads = ["before", "now", "change", "calls"]
    table = [heads, *(_numbers(row, unit) for row in rows)]
    sizes = [max(cells(line[place]) for line in table) for place in range(len(heads))]
    name = width - sum(sizes) - 2 * len(sizes)
    yield ((padded(middle("What changed most", name), name), "bold"), (_across(heads, sizes), "dim"))
    names = briefs([row["name"] for row in rows], name - 2)
    for row, text, numbers in zip(rows, names, table[1:], strict=True):
        kind = kind_of(row["category"]) or "idle"
        mark: Piece = KINDS[kind].glyph, f"{FILL} {kind}"
        yield (mark, (" " + padded(text, name - 2), ""), (_across(numbers, sizes), ""))
        yield from (plain("  " + line, "dim") for line in _about(row, width - 2))
    if more > 0:
        yield plain(f"… {more} more changed (--limit 0 shows them, --format csv writes all)", "dim")


def _numbers(row: dict[str, Any], unit: Scale) -> list[str]:
    before, now = row["base_calls"], row["new_calls"]
    calls = _count(now) if before == now else f"{_count(before)} → {_count(now)}"
    return [
        unit.with_unit(row["base"]) if row["status"] != "new" else MISSING,
        unit.with_unit(row["new"]) if row["status"] != "gone" else MISSING,
        _signed(row["change"], unit),
        calls if before or now else "",
    ]


def _hardware(across: Result, width: int, limit: int) -> Iterator[Line]:
    """What the peaks of two devices explain, a line for each operator; first the answer in a sentence."""
    yield from (plain(line, "bold") for line in wrapped(printable(across.notes[0]), width))
    known = across.frame.filter(pl.col("unexplained").is_not_null())
    rows = known.head(limit or known.height).to_dicts()
    if not rows:
        return
    unit = scale([max(row["base_time"], row["new_time"]) for row in rows], "ns")
    heads = ["before", "now", "peaks suggest", "slower", "efficiency"]
    table = [heads, *(_across_devices(row, unit) for row in rows)]
    sizes = [max(cells(line[place]) for line in table) for place in range(len(heads))]
    name = width - sum(sizes) - 2 * len(sizes)
    yield ((padded("", name), ""), (_across(heads, sizes), "dim"))
    for row, numbers in zip(rows, table[1:], strict=True):
        text = f"{printable(row['name'])} {_shapes(row['input_shapes'])}"
        yield plain(padded(brief(text, name), name) + _across(numbers, sizes))
    if (more := known.height - len(rows)) > 0:
        yield plain(f"… {more} more (--table hardware)", "dim")


def _across_devices(row: dict[str, Any], unit: Scale) -> list[str]:
    shares = [row[name] for name in ("base_efficiency", "new_efficiency")]
    efficiency = [MISSING if share is None else f"{100 * share:.0f}%" for share in shares]
    times = [unit.with_unit(row[name]) for name in ("base_time", "new_time", "expected_time")]
    return [*times, _signed(row["unexplained"], unit), " → ".join(efficiency)]


def _count(calls: float) -> str:
    return significant(calls) if calls < 100 and calls != int(calls) else f"{round(calls):,}"


def _across(numbers: Sequence[str], sizes: Sequence[int]) -> str:
    return "".join("  " + padded(text, size, right=True) for text, size in zip(numbers, sizes, strict=True))


def _about(row: dict[str, Any], width: int) -> Iterator[str]:
    """Words on what changed, where it stands, and what it was before."""
    doubt = _WORDS.get(row["verdict"] or "", "")
    path = row["path"].split(";")[-3:] if row["path"] else []
    inside = " › ".join(printable(part) for part in path)
    shapes = _shapes(row["input_shapes"])
    said = [row["status"], doubt, f"in {inside}" if inside else "", shapes]
    yield middle(" · ".join(filter(None, said)), width)
    if row["was_name"]:
        yield f"was {brief(printable(row['was_name']), width - 4)}"
    if row["was_path"] is not None:
        yield middle(f"was in {printable(row['was_path'].replace(';', ' › ')) or 'no call'}", width)
    if row["was_shapes"] is not None:
        yield middle(f"was of {_shapes(row['was_shapes']) or 'unknown shapes'}", width)


def _shapes(text: str | None) -> str:
    """`32×3×224×224, 64×3×7×7`: the shapes of tensors; inputs that are none have no shape."""
    if text is None or not text.startswith("["):
        return printable(text or "")
    diff = _SHAPE.findall(text)
    return ", ".join(shape.replace(", ", "×") for shape in diff)
