"""Which columns fit into a width, and how wide each becomes. Counts cells; draws nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kinetoscope.views.terminal.columns import Formatted
from kinetoscope.views.text import cells

GAP = 2
"""Cells between two columns."""

SHORTEST_TEXT = 32
"""A column is left out rather than a text column made narrower than this."""

MANY_TEXTS = 2
SHORTEST_OF_MANY_TEXTS = 20
"""The same where there are more than `MANY_TEXTS` columns of text: else they would leave no room for numbers."""

CHOSEN_TEXT = 12
"""A text column that the user chose is not made narrower than this, even if the lines become too long."""

READABLE_TEXT = 36
"""Columns without values, and a picture beside the table, are left out rather than a text column made narrower."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The columns that are shown, and the names of those that are not: without a value, or without room."""

    shown: list[Formatted]
    empty: list[str]
    roomless: list[str]


def total(widths: Sequence[int]) -> int:
    """Cells that columns of these widths fill, gaps included."""
    return sum(widths) + GAP * (len(widths) - 1)


def chosen(columns: Sequence[Formatted], width: int) -> Choice:
    """The columns that fit: those without values go first, then the last. Long names are set in two lines before."""
    shown = everything(columns, width).shown
    empty: list[str] = []
    if total([_least(each, READABLE_TEXT) for each in shown]) > width and not all(each.empty for each in shown):
        empty = [each.column.name for each in shown if each.empty]
        shown = [each for each in shown if not each.empty]
    texts = sum(not each.right for each in shown)
    shortest = SHORTEST_TEXT if texts <= MANY_TEXTS else SHORTEST_OF_MANY_TEXTS
    roomless: list[str] = []
    while len(shown) > 1 and total([_least(each, shortest) for each in shown]) > width:
        roomless.insert(0, shown.pop().column.name)
    return Choice(shown, empty, roomless)


def least_width(columns: Sequence[Formatted]) -> int:
    """What columns need that must all be shown: a text is cut to no less than its header, or some cells."""
    return total([_least(_in_two_lines(each), max(CHOSEN_TEXT, *map(cells, each.header))) for each in columns])


def everything(columns: Sequence[Formatted], width: int) -> Choice:
    """All columns, with long names in two lines where they are too wide together."""
    crowded = total([_natural(each) for each in columns]) > width
    return Choice([_in_two_lines(each) for each in columns] if crowded else list(columns), [], [])


def widths(columns: Sequence[Formatted], width: int, *, picture: int = 0) -> list[int]:
    """What each column gets: numbers all they need, texts what is left, the longest giving way first.

    `picture` cells are left over for a picture beside the table where names stay readable.
    """
    natural = [_natural(each) for each in columns]
    texts = [size for size, each in zip(natural, columns, strict=True) if not each.right]
    room = width - total(natural) + sum(texts)
    cap = shared(texts, room - picture - GAP) if picture else shared(texts, room)
    if picture and cap < min(READABLE_TEXT, max(texts, default=0)):
        cap = shared(texts, room)
    return [size if each.right else min(size, cap) for size, each in zip(natural, columns, strict=True)]


def shared(wanted: Sequence[int], room: int) -> int:
    """The greatest cap for which the capped widths fill no more than `room`; at least 1."""
    left = room
    for index, size in enumerate(sorted(wanted)):
        share = left // (len(wanted) - index)
        if size > share:
            return max(share, 1)
        left -= size
    return max(wanted, default=1)


def whole(columns: Sequence[Formatted], width: int) -> Choice:
    """The columns with values where lines have no end: those of long texts last, so that none is as wide as they."""
    del width
    empty = [] if all(each.empty for each in columns) else [each.column.name for each in columns if each.empty]
    shown = [each for each in columns if each.column.name not in empty]
    shown.sort(key=lambda each: 0 if each.right or _natural(each) <= READABLE_TEXT else _natural(each))
    return Choice(shown, empty, [])


def _in_two_lines(column: Formatted) -> Formatted:
    """The column with its name broken after the underscore that leaves the least width, if it has one."""
    words = column.column.name.split("_")
    ways = [("_".join(words[:at]) + "_", "_".join(words[at:])) for at in range(1, len(words))]
    best = min(ways, key=lambda way: max(map(len, way)), default=column.header)
    return replace(column, header=best)


def _natural(column: Formatted) -> int:
    """The width in which nothing of a column is shortened."""
    return max(map(cells, (*column.header, column.unit, *column.texts)))


def _least(column: Formatted, text: int) -> int:
    """The width that a column must get, if texts may be shortened to `text` cells; a number is never shortened."""
    return _natural(column) if column.right else min(_natural(column), text)
