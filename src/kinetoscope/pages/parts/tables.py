"""Tables that a page made itself, with the units and names that tables of analyses have."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from kinetoscope.pages.parts.blocks import Head, Rows
from kinetoscope.schema import Schema
from kinetoscope.views.charts.scales import scales
from kinetoscope.views.names import short_names


def first_cycle(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of the first cycle, of those of one rank: each cycle has a time axis of its own."""
    return frame.filter(pl.col("cycle") == pl.col("cycle").min()) if "cycle" in frame.columns else frame


def with_values(frame: pl.DataFrame, columns: Sequence[str], *, always: Sequence[str] = ()) -> tuple[str, ...]:
    """The columns in which some row has a value, and those that are shown `always`; all where there is no row."""
    known = {name for name in columns if not frame.height or name in always or _says_something(frame, name)}
    return tuple(name for name in columns if name in known)


def _says_something(frame: pl.DataFrame, name: str) -> bool:
    return name not in frame.columns or frame.get_column(name).null_count() < frame.height


def table(title: str, schema: Schema, frame: pl.DataFrame, note: str = "") -> Rows:
    """All rows of `frame`, which has the columns of `schema`."""
    heads = [Head(column.name, str(column.dtype), column.unit, column.doc) for column in schema]
    units = {name: (unit.label, unit.divisor) for name, unit in scales(frame, schema).items()}
    return Rows(title, heads, frame.select(schema.names).rows(), units, short_names(frame), note)
