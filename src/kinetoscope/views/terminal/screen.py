"""A result on a terminal: the question, a table that fits, and what the numbers leave out.

Names are shortened; where that is not enough, columns without a single value go first, then the last ones, and the foot
says which. Where lines have no end, long names are whole, and stand last. Where room is left, the bars that the
analysis declares are drawn beside the rows; lines stand above them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl

from kinetoscope.charts import Bars, Chart, Ranges, Roofline, StackedBars
from kinetoscope.model.trace.symptoms import DAMAGED
from kinetoscope.schema import Result
from kinetoscope.views.charts.palette import KINDS, kind_of
from kinetoscope.views.charts.scales import is_wide
from kinetoscope.views.names import shortened
from kinetoscope.views.numbers import grouped
from kinetoscope.views.terminal import bars, fitting, sparklines
from kinetoscope.views.terminal.columns import Formatted, drawn_by, drawn_kinds, formatted
from kinetoscope.views.terminal.lines import THIN, Line, Piece, plain, with_colour, without_colour
from kinetoscope.views.text import cells, middle, padded, printable, wrapped

ROWS = 30
"""Rows shown where nobody asks for another number."""

SERIES_ROWS = 8
"""The same, of a result whose picture says more than its rows."""

UNBOUNDED = 1 << 30
"""A width in which nothing is shortened."""

WAY_TO_COLUMNS = " (--columns A,B chooses; a wider terminal shows more)"
"""How a table shows columns for which there is no room."""

_PICTURE_CELLS = 14, 40  # least and most cells of the picture beside the rows
_COLOURED_COLUMNS = ("kind", "category")  # text columns whose values are kinds of time
_NAME_COLUMNS = ("name", "operator", "work_name")  # text columns that hold names of calls and kernels


def to_text(
    result: Result, *, width: int | None = None, colour: bool = False, limit: int | None = None, title: str = ""
) -> str:
    """The whole view of `result` as text.

    Args:
        result: what to show.
        width: cells to fit in; None takes the terminal's, or 120 where there is none.
        colour: with ANSI codes.
        limit: rows to show; 0 shows all, None so many as suit the result.
        title: the question that it answers.
    """
    view = lines(result, width=width or shutil.get_terminal_size((120, 40)).columns, limit=limit, title=title)
    return with_colour(view) if colour else without_colour(view)


def lines(
    result: Result, *, width: int, limit: int | None = None, title: str = "", all_columns: bool = False
) -> Iterator[Line]:
    """The lines of the view: title, damage, table, foot, notes. `all_columns`: none is left out for want of room."""
    if title:
        yield from (plain(each, "bold") for each in wrapped(printable(title), width))
    damage = [note for note in result.notes if note.code == DAMAGED]
    for note in damage:
        yield from (plain(each, "warn") for each in wrapped(f"! {printable(note)}", width, indent="  "))
    if title or damage:
        yield plain()
    yield from table(result, width=width, limit=limit, all_columns=all_columns)
    said = [result.sentence] if result.sentence not in ("", title) else []
    notes = [*said, *(note for note in result.notes if note.code != DAMAGED)]
    if notes:
        yield plain()
    for each in notes:
        yield from (plain(line, "dim") for line in wrapped(f"· {printable(each)}", width, indent="  "))


def table(
    result: Result,
    *,
    width: int,
    limit: int | None = None,
    all_columns: bool = False,
    way: str = WAY_TO_COLUMNS,
) -> Iterator[Line]:
    """Header, rows and foot; no title, no notes. Above them the picture of each line, if the chart is one of lines.

    `way` says how columns are shown for which there is no room.
    """
    if not result.frame.height:
        yield plain("No rows.", "dim")
        return
    drawn = list(sparklines.drawn(result, width)) if width <= UNBOUNDED // 2 else []
    yield from drawn
    if limit is None:
        limit = SERIES_ROWS if drawn else ROWS
    frame = result.frame.head(limit) if limit else result.frame
    columns = formatted(frame, result.schema, result.frame)
    if all_columns:
        width = max(width, fitting.least_width(columns))
    endless = width > UNBOUNDED // 2 and not all_columns
    pick = fitting.everything if all_columns else fitting.chosen if not endless else fitting.whole
    choice = pick(columns, width)
    shown = choice.shown
    sizes = fitting.widths(shown, width, picture=_PICTURE_CELLS[0] if result.chart_facts else 0)
    pictures = _pictures(frame, result.chart_facts, width - fitting.total(sizes) - fitting.GAP)
    every = [_cells(column, size) for column, size in zip(shown, sizes, strict=True)]
    if endless:  # names are whole, and nothing stands behind them
        sizes[-1] = min(sizes[-1], fitting.READABLE_TEXT)
    yield from _header(shown, sizes)
    for row in range(frame.height):
        yield *_joined([column[row] for column in every]), *pictures[row]
    for line in _foot(result.frame.height - frame.height, choice, way):
        yield from (plain(each, "dim") for each in wrapped(line, width, indent="  "))


def _header(columns: Sequence[Formatted], sizes: Sequence[int]) -> Iterator[Line]:
    """Names, coloured where they stand for a kind of time; below them the units, where there are any."""
    pairs = list(zip(columns, sizes, strict=True))
    for line in range(-max(len(each.header) for each in columns), 0):
        names = [(each, size, each.header[line] if len(each.header) >= -line else "") for each, size in pairs]
        yield _joined(
            [
                (padded(middle(name, size), size, right=each.right), kind_of(each.column.name) or "bold")
                for each, size, name in names
            ]
        )
    if any(each.unit for each in columns):
        yield _joined([(padded(each.unit, size, right=each.right), "dim") for each, size in pairs])
    yield plain("─" * fitting.total(sizes), "dim")


def _cells(column: Formatted, size: int) -> list[Piece]:
    """The texts of a column in `size` cells each, names by their grammar."""
    styles = [kind_of(text) if column.column.name in _COLOURED_COLUMNS else "" for text in column.texts]
    long = max(map(cells, column.texts), default=0) > size
    names = shortened(column.texts, size) if long and column.column.name in _NAME_COLUMNS else column.texts
    texts = [padded(middle(text, size), size, right=column.right) for text in names]
    return list(zip(texts, styles, strict=True))


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces of one row with the gaps between them."""
    return [part for piece in pieces for part in ((" " * fitting.GAP, ""), piece)][1:]


def _foot(more: int, choice: fitting.Choice, way: str) -> Iterator[str]:
    """What of the result is not in the table."""
    if more:
        yield f"… {grouped(more)} more row{'s' * (more > 1)} (--limit 0 shows all)"
    if choice.empty:
        yield f"… no values in {', '.join(choice.empty)}"
    if choice.roomless:
        yield f"… no room for {', '.join(choice.roomless)}{way}"


def _pictures(frame: pl.DataFrame, facts: Chart | None, room: int) -> list[list[Piece]]:
    """What is drawn at the end of each row, in at most `room` cells; nothing where that is too little."""
    width, draw = min(room, _PICTURE_CELLS[1]), OF_ROWS.get(type(facts))
    if draw is None or width < _PICTURE_CELLS[0] or room > UNBOUNDED // 2:
        return [[] for _ in range(frame.height)]
    return [[(" " * fitting.GAP, ""), *pieces] for pieces in draw(frame, facts, width)]


def _bars(frame: pl.DataFrame, facts: Bars, width: int) -> list[list[Piece]]:
    column = drawn_by(frame, facts)
    values = frame.get_column(column).to_list()
    largest = max((value for value in values if value is not None), default=0)
    kinds = drawn_kinds(frame, column)
    return [[(bars.bar(value, largest, width), kind_of(kind))] for value, kind in zip(values, kinds, strict=True)]


def _ranges(frame: pl.DataFrame, facts: Ranges, width: int) -> list[list[Piece]]:
    """From the least to the greatest value of each row, and where its own lies; an axis for all, as in the chart."""
    rows = frame.select(facts.low, facts.value, facts.high).rows()
    known = [row for row in rows if None not in row]
    least, most = min((row[0] for row in known), default=0), max((row[2] for row in known), default=0)
    log = is_wide(least, most)
    spans = (bars.span(row, least if log else 0, most, width, log=log) for row in rows)
    return [[(span, kind_of(kind))] for span, kind in zip(spans, drawn_kinds(frame, facts.value), strict=True)]


def _stacks(frame: pl.DataFrame, facts: StackedBars | Roofline, width: int) -> list[list[Piece]]:
    """The stack of the longest row fills `width`."""
    rows = frame.select(facts.parts).rows()
    totals = [sum(max(value or 0, 0) for value in row) for row in rows]
    largest = max(totals, default=0) or 1
    return [stack(facts.parts, row, round(width * total / largest)) for row, total in zip(rows, totals, strict=True)]


OF_ROWS: Final[Mapping[type, Callable[[pl.DataFrame, Any, int], list[list[Piece]]]]] = {
    Bars: _bars,
    Ranges: _ranges,
    Roofline: _stacks,
    StackedBars: _stacks,
}
"""What draws a kind of chart beside the rows of a table; lines stand above them."""


def stack(parts: Sequence[str], values: Sequence[float | None], width: int, *, form: str = THIN) -> list[Piece]:
    """One stacked bar: each part in the colour of its kind, and in its glyph, so that it reads without colour too."""
    counts = bars.stacked(values, width)
    kinds = [kind_of(part) or "idle" for part in parts]
    return [(KINDS[kind].glyph * count, f"{form} {kind}") for kind, count in zip(kinds, counts, strict=True) if count]
