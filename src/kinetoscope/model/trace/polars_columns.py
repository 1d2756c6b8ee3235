"""The border between NumPy and Polars: the only place where an array becomes a column and missing values become null.

Outwards, a mask or code −1 marks what is missing and becomes null. Inwards, a column with nulls is an array and a
mask: `Series.to_numpy()` alone would turn integers with one null into float64 and destroy nanoseconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars._typing import PolarsDataType

from kinetoscope.algorithms.arrays import Bools, Floats, Int32s, Int64s, marked, scattered
from kinetoscope.algorithms.grouping import reduce_by
from kinetoscope.algorithms.statistics import MEDIAN, P99, interpolated, nearest_rank
from kinetoscope.model.trace.strings import Strings

ENUM_LIMIT: Final = 1 << 16
"""Distinct texts from which a column of texts is String and no longer Enum."""


_QUARTILES: Final = {"p25": (1, 4), "median": MEDIAN, "p75": (3, 4)}


def column(values: NDArray[Any], valid: Bools | None = None) -> pl.Series:
    """Values as a column of their own type, null where `valid` is false."""
    series = pl.Series(np.ascontiguousarray(values))
    if valid is None or valid.all():
        return series
    return series.set(pl.Series(~valid), None)


def rows(values: NDArray[Any]) -> pl.Series:
    """Numbers of rows, or other counts from 0, as a column; null where negative."""
    return column(values, values >= 0)


def numbers(values: Floats) -> pl.Series:
    """Floats as a column, null where NaN: nothing that we compute is NaN but what is missing."""
    return column(values, ~np.isnan(values))


def fitted(frame: pl.DataFrame, types: Mapping[str, PolarsDataType]) -> pl.DataFrame:
    """The columns of these types, in their order; null where the frame has none."""
    missing = [pl.lit(None, kind).alias(name) for name, kind in types.items() if name not in frame.columns]
    return frame.with_columns(missing).select(pl.col(name).cast(kind) for name, kind in types.items())


def texts(strings: Strings, codes: NDArray[Any]) -> pl.Series:
    """Strings as a column, null for code −1: an Enum, or String where there are very many."""
    return labelled(codes, strings.label)


def labelled(codes: NDArray[Any], label: Callable[[int], str]) -> pl.Series:
    """The label of each code as a column, null for negative codes; `label` is called once for each code."""
    distinct, places = _distinct(codes)
    labels = [label(code) for code in distinct]
    categories = list(dict.fromkeys(labels))
    if len(categories) >= ENUM_LIMIT:
        return pl.Series(labels, dtype=pl.String).gather(_nullable(places))
    index = {text: number for number, text in enumerate(categories)}  # two codes may have one label
    physical = np.array([index[text] for text in labels] or [0], np.uint32)
    series = column(physical[np.maximum(places, 0)], places >= 0)
    return series.cat.to(pl.Enum(categories))


def json_texts(strings: Strings, codes: NDArray[Any]) -> pl.Series:
    """Nested JSON as a column of texts in one spelling, `[8, 1, 1]`, however the file spells it; null for code −1."""
    return labelled(codes, lambda code: json.dumps(strings.nested(code))).cast(pl.String)


def lists(strings: Strings, codes: NDArray[Any]) -> pl.Series:
    """Nested JSON such as `[8, 1, 1]` as a column of lists of integers; null for −1 and for what is no such list."""
    distinct, places = _distinct(codes)
    values = [strings.nested(code) for code in distinct]
    of_integers = [
        value if isinstance(value, list) and all(isinstance(x, int) and abs(x) < 1 << 63 for x in value) else None
        for value in values
    ]
    return pl.Series(of_integers, dtype=pl.List(pl.Int64)).gather(_nullable(places))


def statistics(codes: Int32s, groups: int, values: Int64s, *names: str) -> dict[str, pl.Series]:
    """Statistics of the values of each group: calls, total, mean (rounded), min, max, std, p25, median, p75, p99.

    Quartiles are interpolated, p99 is a value that did occur. `calls` is the number of values; the others are null
    where a group has none. Negative codes are in no group.
    """
    reduced = reduce_by(codes, groups, values)
    known, calls = reduced.rows > 0, np.maximum(reduced.rows, 1)
    computed: dict[str, NDArray[Any]] = {
        "calls": reduced.rows,
        "total": reduced.total,
        "mean": (2 * reduced.total + calls) // (2 * calls),
        "min": reduced.least,
        "max": reduced.greatest,
    }
    if quartiles := [name for name in names if name in _QUARTILES]:
        shares = (_QUARTILES[name] for name in quartiles)
        computed |= dict(zip(quartiles, interpolated(codes, groups, values, *shares), strict=True))
    if "p99" in names:
        [computed["p99"]] = nearest_rank(codes, groups, values, P99)
    if "std" in names:
        inside = codes >= 0
        codes, values = codes[inside], values[inside]
        off = values - (reduced.total / calls)[codes]
        computed["std"] = np.sqrt(np.bincount(codes, off * off, groups) / calls)
    return {name: column(computed[name], None if name == "calls" else known) for name in names}


def medians(codes: Int32s, groups: int, values: Int64s) -> pl.Series:
    """The median of the values of each group, null where it has none; negative codes are in no group."""
    return statistics(codes, groups, values, "median")["median"]


def integers(series: pl.Series) -> tuple[Int64s, Bools]:
    """A column of integers as int64 [rows], 0 where null, and which are not null: bool [rows]."""
    valid = series.is_not_null().to_numpy()
    return series.fill_null(0).cast(pl.Int64).to_numpy(), valid


def _distinct(codes: NDArray[Any]) -> tuple[list[int], Int64s]:
    """Codes that occur, ascending, and the place of each row's code among them; −1 for negative codes."""
    if not len(codes) or int(codes.max()) < 0:
        return [], np.full(len(codes), -1, np.int64)
    seen = marked(int(codes.max()) + 2, codes)
    seen[-1] = False  # where code −1 has written
    distinct = np.flatnonzero(seen)
    place = scattered(len(seen), distinct, np.arange(len(distinct)), np.int64)
    return distinct.tolist(), place[np.maximum(codes, -1)]


def _nullable(places: Int64s) -> pl.Series:
    return column(places.astype(np.uint32), places >= 0)
