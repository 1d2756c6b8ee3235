"""The lines of a chart of lines made of characters: a row of blocks for each, as high as its greatest value there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kinetoscope.schema import Lines, Result, Unit
from kinetoscope.views import bars, series
from kinetoscope.views.lines import Line, plain
from kinetoscope.views.numbers import grouped, shown
from kinetoscope.views.palette import kind_of
from kinetoscope.views.text import cells, middle, padded

LINES: Final = 16
"""Lines that are drawn."""

_LEAST: Final = 20  # cells of a row of blocks, below which it says nothing
_VALUE: Final = 14  # cells after the blocks, for what the highest of them stands for
_GAP: Final = "  "


def drawn(result: Result, width: int) -> Iterator[Line]:
    """A row for each of the first lines, then from where to where they reach; nothing if there are none, or no room.

    Each line has a scale of its own, from 0 to its greatest value, which stands behind it.
    """
    facts, frame = result.chart_facts, result.frame
    if not isinstance(facts, Lines) or not frame.get_column(facts.y).count():
        return
    every = list(series.each(frame, facts, LINES))
    label = min(max(cells(each.label) for each in every), width // 3)
    room = width - label - len(_GAP) - _VALUE
    if room < _LEAST:
        return
    x: Any = frame.get_column(facts.x)
    first, last = x.min(), x.max()
    for each in every:
        values = series.columns(each, float(first), float(last), room, steps=facts.steps)
        greatest = max((value for value in values if value is not None), default=None)
        name = padded(middle(each.label, label), label)
        blocks = bars.sparkline(values), kind_of(facts.y) or kind_of(each.label)
        yield (name, "bold"), (_GAP, ""), blocks, (f" {_text(greatest, result.schema[facts.y].unit)}", "dim")
    unit = result.schema[facts.x].unit
    left, right = shown(first, unit), shown(last, unit)
    between = " " * max(room - cells(left) - cells(right), 1)
    yield plain(" " * label + _GAP + left + between + right + f" {facts.x}", "dim")
    more = series.count(frame, facts) - len(every)
    if more:
        yield plain(f"… {grouped(more)} more line{'s' * (more > 1)}", "dim")
    yield plain()


def _text(value: float | None, unit: Unit) -> str:
    """A value of a line; of counts without digits after the point."""
    return shown(value if value is None or unit or not value.is_integer() else int(value), unit)
