"""The columns of a result as text, for whatever shows tables to people: terminal, notebook, page.

A column is formatted as a whole: one unit for all its numbers (see `scales`), and that unit in the header.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from kinetoscope.charts import Bars
from kinetoscope.schema import Column, Schema
from kinetoscope.views.charts.scales import scales
from kinetoscope.views.numbers import MISSING, Scale, grouped, significant
from kinetoscope.views.text import printable

# Numbers that name something are not grouped: thread 12345 is not 12 345 of anything.
_NAMES_SOMETHING = frozenset({"rank", "device", "stream", "step", "pid", "tid", "thread", "correlation", "row", "line"})


@dataclass(frozen=True, slots=True)
class Formatted:
    """A column ready to be shown.

    Attributes:
        column: what it is.
        header: its name, in one line or two.
        unit: the unit of the shown numbers, "" for text and plain counts.
        texts: one per row, safe for a terminal, not shortened.
        right: numbers stand at the right.
        empty: no row has a value.
    """

    column: Column
    header: tuple[str, ...]
    unit: str
    texts: list[str]
    right: bool
    empty: bool


def formatted(frame: pl.DataFrame, schema: Schema, whole: pl.DataFrame | None = None) -> list[Formatted]:
    """Each column of `frame`, in the order of `schema`; units are those of `whole`, of which `frame` is shown."""
    units = scales(frame if whole is None else whole, schema)
    return [_formatted(frame.get_column(column.name), column, units.get(column.name, Scale(""))) for column in schema]


def drawn_by(frame: pl.DataFrame, facts: Bars) -> str:
    """The column that bars draw: the other one where the first is nothing but zeros and nulls."""
    if facts.instead is None or bool((frame.get_column(facts.value) != 0).any()):
        return facts.value
    return facts.instead


def drawn_kinds(frame: pl.DataFrame, column: str) -> list[str]:
    """The meaning of the colour of each row: its kind, or else the column that is drawn."""
    return [*map(str, frame.get_column("kind"))] if "kind" in frame.columns else [column] * frame.height


def _formatted(series: pl.Series, column: Column, unit: Scale) -> Formatted:
    number = series.dtype.is_numeric()
    text = _number(column, unit) if number else _text
    texts = [text(value) for value in series]
    return Formatted(column, (column.name,), unit.label, texts, number, series.null_count() == len(series))


def _number(column: Column, unit: Scale) -> Callable[[Any], str]:
    if column.name in _NAMES_SOMETHING and not column.unit:
        return lambda value: MISSING if value is None else str(value)
    return partial(_instant, unit) if column.instant else unit.text


def _instant(unit: Scale, value: int | None) -> str:
    """A place on the time axis: to the microsecond, so that close neighbours can be distinguished."""
    if value is None:
        return MISSING
    decimals = {1e3: 3, 1e6: 3, 1e9: 6}.get(unit.divisor, 0)
    whole, _, rest = f"{abs(value) / unit.divisor:.{decimals}f}".partition(".")
    return ("-" if value < 0 else "") + grouped(int(whole)) + (f".{rest}" if rest else "")


def _text(value: Any) -> str:
    """A value that is no number; a list is shown as its members are, each in its own best form."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return grouped(value)
    if isinstance(value, float):
        return significant(value)
    if isinstance(value, (list, pl.Series)):
        return "[" + ", ".join(_text(member) for member in value) + "]"
    return printable(str(value))
