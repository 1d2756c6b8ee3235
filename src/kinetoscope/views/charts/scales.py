"""The unit in which each column of a table is shown: one for all columns that a reader compares.

Terminal, notebook and page ask here, so that a table has the same units on all of them. A unit follows from all rows,
and stays while they are sorted, searched or cut.
"""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from kinetoscope.schema import Column, Schema
from kinetoscope.views.numbers import Scale, scale

_WORDS_OF_ONE_CALL: Final = frozenset({"mean", "median", "min", "max", "p99", "longest"})
"""Words in the names of columns about one call, where the others are about all calls of the row."""

_MAX_DECIDING_VALUES: Final = 2048
"""Values that decide about a unit: of more, the greatest and the middle one, from which it follows."""


LINEAR_RATIO: Final = 100
"""So many times the least may the greatest value of a chart of ranges be; beyond it the axis is logarithmic."""


def is_wide(least: float, most: float) -> bool:
    """Whether values from `least` to `most` need a logarithmic axis."""
    return least > 0 and most > LINEAR_RATIO * least


def scales(frame: pl.DataFrame, schema: Schema) -> dict[str, Scale]:
    """The scale of each column of numbers, over all rows of `frame`.

    Columns of one unit share a scale: durations of all calls of a row, those of one call, and places on the time axis
    apart. All their numbers decide together.
    """
    families: dict[tuple[str, ...], list[str]] = {}
    for column in schema:
        if frame.schema[column.name].is_numeric():
            families.setdefault(_family(column), []).append(column.name)
    shared: dict[str, Scale] = {}
    for names in families.values():
        sizes = pl.concat([frame.select(_size(name).alias("size")).to_series() for name in names])
        shared |= dict.fromkeys(names, scale(_deciding(sizes), schema[names[0]].unit))
    return shared


def _family(column: Column) -> tuple[str, ...]:
    """What a column shares its scale with; counts are never scaled."""
    if column.unit in ("", "fraction"):
        return (column.unit, column.name)
    if column.unit != "ns":
        return (column.unit,)
    if column.instant:
        return ("ns", "instant")
    return ("ns", "one" if _WORDS_OF_ONE_CALL & set(column.name.split("_")) else "all")


def _size(name: str) -> pl.Expr:
    """How large each number is; null where it is none, or endless."""
    values = pl.col(name).cast(pl.Float64).abs()
    return pl.when(values.is_finite()).then(values)


def _deciding(sizes: pl.Series) -> list[Any]:
    if len(sizes) <= _MAX_DECIDING_VALUES:
        return sizes.to_list()
    known = sizes.drop_nulls()
    known = known.filter(known > 0).sort()
    if known.is_empty():
        return [0] if sizes.count() else []
    middle = known[len(known) // 2]
    return [middle, middle, known[-1]]
