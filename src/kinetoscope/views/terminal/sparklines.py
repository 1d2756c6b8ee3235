"""The lines of a chart of lines made of characters: a row of blocks for each, as high as its greatest value there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from kinetoscope.charts import Lines
from kinetoscope.schema import Result, Unit
from kinetoscope.views.charts import series
from kinetoscope.views.charts.palette import kind_of
from kinetoscope.views.numbers import grouped, shown
from kinetoscope.views.terminal import bars
from kinetoscope.views.terminal.lines import Line, plain
from kinetoscope.views.text import cells, middle, padded

LINES: Final = 16
"""Lines that are drawn."""

_MIN_CELLS: Final = 24  # cells of a row of blocks, below which it says nothing
_GAP: Final = "  "


def drawn(result: Result, width: int) -> Iterator[Line]:
    """A row for each of the first lines, then from where to where they reach; nothing if there are none, or no room.

    Each line has a scale of its own, from 0 to its greatest value, which stands behind it.
    """
    facts, frame = result.chart_facts, result.frame
    if not isinstance(facts, Lines) or not all(frame.get_column(each).count() for each in (facts.x, facts.y)):
        return
    every = list(series.each(frame, facts, LINES))
    label = min(max(cells(each.label) for each in every), width // 3)
    tops = [_text(_greatest(each), result.schema[facts.y].unit) for each in every]
    room = width - label - len(_GAP) - 1 - max(map(cells, (*tops, facts.x)))
    if room < _MIN_CELLS:
        return
    x: Any = frame.get_column(facts.x)
    first, last = x.min(), x.max()
    for each, top in zip(every, tops, strict=True):
        name = padded(middle(each.label, label), label)
        blocks = bars.sparkline(series.columns(each, float(first), float(last), room, steps=facts.steps))
        yield (name, "bold"), (_GAP, ""), (blocks, kind_of(facts.y) or kind_of(each.label)), (f" {top}", "dim")
    unit = result.schema[facts.x].unit
    left, right = shown(first, unit), shown(last, unit)
    between = room - cells(left) - cells(right)
    if between > 0:
        yield plain(" " * label + _GAP + left + " " * between + right + f" {facts.x}", "dim")
    more = series.count(frame, facts) - len(every)
    if more:
        yield plain(f"… {grouped(more)} more line{'s' * (more > 1)}", "dim")
    yield plain()


def _greatest(line: series.ChartLine) -> float | None:
    known = line.y[~np.isnan(line.y)]
    return float(known.max()) if len(known) else None


def _text(value: float | None, unit: Unit) -> str:
    """A value of a line; of counts without digits after the point."""
    return shown(value if value is None or unit or not value.is_integer() else int(value), unit)
