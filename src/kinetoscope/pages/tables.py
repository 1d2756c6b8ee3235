"""Tables that a page made itself, with the units and names that tables of analyses have."""

from __future__ import annotations

import polars as pl

from kinetoscope.pages.blocks import Head, Rows
from kinetoscope.schema import Schema
from kinetoscope.views.names import short_names
from kinetoscope.views.scales import scales


def table(title: str, schema: Schema, frame: pl.DataFrame, note: str = "") -> Rows:
    """All rows of `frame`, which has the columns of `schema`."""
    heads = [Head(column.name, str(column.dtype), column.unit, column.doc) for column in schema]
    units = {name: (unit.label, unit.divisor) for name, unit in scales(frame, schema).items()}
    return Rows(title, heads, frame.select(schema.names).rows(), units, short_names(frame), note)
