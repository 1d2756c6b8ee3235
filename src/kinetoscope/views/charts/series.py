"""The lines of a chart of lines, and what is left of them where there is no room for every point.

What is left out never hides a peak: of each stretch of points the least and the greatest stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.charts import Lines
from kinetoscope.views.numbers import MISSING
from kinetoscope.views.text import printable

_POINTS_OF_STRETCH = 4  # points of a stretch: the first, the least, the greatest, the last
_PIECE, _NUMBER = "piece of a line", "number of the line"  # no column of a schema is called so


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line.

    Attributes:
        label: what tells it from the others.
        rows: int64 [points], its rows of the frame, in order.
        x, y: float64 [points]; NaN where a value is missing.
    """

    label: str
    rows: Int64s
    x: Floats
    y: Floats


def count(frame: pl.DataFrame, facts: Lines) -> int:
    """How many lines there are."""
    return int(_line_of(frame, facts).max(initial=-1)) + 1


def each(frame: pl.DataFrame, facts: Lines, limit: int) -> Iterator[ChartLine]:
    """The first `limit` lines, in the order in which they begin in the frame.

    Where x falls within the rows of a line another one begins: a second recording of the same rank, say.
    """
    line = _line_of(frame, facts)
    x, y = (frame.get_column(name).cast(pl.Float64).fill_null(np.nan).to_numpy() for name in (facts.x, facts.y))
    members = [np.flatnonzero(line == number) for number in range(min(limit, int(line.max(initial=-1)) + 1))]
    keys = [{name: frame.get_column(name)[int(rows[0])] for name in facts.by} for rows in members]
    telling = _telling(keys)
    names = [_label(key, telling) or facts.y for key in keys]
    seen: dict[str, int] = {}
    for name, rows in zip(names, members, strict=True):
        seen[name] = seen.get(name, 0) + 1
        yield ChartLine(name if seen[name] == 1 else f"{name} ({seen[name]})", rows, x[rows], y[rows])


def thinned(series: ChartLine, limit: int) -> ChartLine:
    """At most `limit` points of a line, and never fewer than 4: the extremes of equal stretches of x."""
    if len(series.rows) <= max(limit, _POINTS_OF_STRETCH):
        return series
    here = np.flatnonzero(~np.isnan(series.x))
    stretch = _stretches(series.x[here], max(limit // _POINTS_OF_STRETCH, 1))
    known = here[~np.isnan(series.y[here])]
    of_known = stretch[~np.isnan(series.y[here])]
    by_size = np.lexsort((known, series.y[known], of_known))
    chosen = np.unique(np.concatenate([*_outermost(here, stretch), *_outermost(known[by_size], of_known[by_size])]))
    return ChartLine(series.label, series.rows[chosen], series.x[chosen], series.y[chosen])


def _outermost(places: Int64s, stretch: Int64s) -> tuple[Int64s, Int64s]:
    """The first and the last place of each stretch."""
    first, last = np.ones(len(places), np.bool_), np.ones(len(places), np.bool_)
    first[1:] = last[:-1] = stretch[1:] != stretch[:-1]
    return places[first], places[last]


def columns(series: ChartLine, first: float, last: float, width: int, *, steps: bool) -> list[float | None]:
    """The greatest value in each of `width` equal stretches of x from `first` to `last`; None where there is none.

    With `steps` a value holds until the next point, so it also counts in the stretches that it reaches into.
    """
    known = ~(np.isnan(series.x) | np.isnan(series.y))
    x, y = series.x[known], series.y[known]
    if not len(x):
        return [None] * width
    size = (last - first) / width
    place = ((x - first) / size).astype(np.int64) if size > 0 else np.zeros(len(x), np.int64)
    greatest = np.full(width, -np.inf)
    np.maximum.at(greatest, np.clip(place, 0, width - 1), y)
    if steps:
        held = np.searchsorted(x, first + size * np.arange(width), side="right") - 1
        np.maximum(greatest, y[np.maximum(held, 0)], out=greatest, where=held >= 0)
    return [None if value == -np.inf else value for value in greatest.tolist()]


def _stretches(x: Floats, count: int) -> Int64s:
    """Which of so many equal stretches each lies in; x ascends."""
    span = x[-1] - x[0] if len(x) else 0.0
    if not span > 0:
        return np.zeros(len(x), np.int64)
    return np.asarray(np.minimum((x - x[0]) / span * count, count - 1), np.int64)


def _line_of(frame: pl.DataFrame, facts: Lines) -> Int64s:
    """The number of the line of each row, in order of their first rows."""
    if not frame.height:
        return np.empty(0, np.int64)
    by = list(facts.by)
    falls = pl.col(facts.x) < pl.col(facts.x).shift()
    again = (falls.over(by) if by else falls).fill_null(False).cast(pl.Int64)
    piece = again.cum_sum().over(by) if by else again.cum_sum()
    keys = frame.select(*by, piece.alias(_PIECE))
    numbers = keys.unique(maintain_order=True).with_row_index(_NUMBER)
    joined = keys.join(numbers, on=keys.columns, how="left", nulls_equal=True, maintain_order="left")
    return np.asarray(joined.get_column(_NUMBER).cast(pl.Int64).to_numpy(), np.int64)


def _telling(keys: Sequence[Mapping[str, object]]) -> list[str]:
    """The columns that tell several lines apart; without the device, say, where it follows from the rank."""
    telling = list(keys[0]) if keys else []
    for name in reversed(telling) if len(keys) > 1 else ():
        rest = [other for other in telling if other != name]
        if rest and len({_label(key, rest) for key in keys}) == len({_label(key, telling) for key in keys}):
            telling = rest
    return telling


def _label(key: Mapping[str, object], names: Sequence[str]) -> str:
    parts = [(name, key[name]) for name in names]
    texts = [
        value if isinstance(value, str) else f"{name} {MISSING if value is None else value}" for name, value in parts
    ]
    return printable(" · ".join(texts))
