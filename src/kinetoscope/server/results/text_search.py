"""Search for what people see: texts as they are, numbers as the page shows them, in their column's unit.

Texts are compared without regard to case. A number is found by any part of how it is shown, without the spaces
between thousands: `12.3` finds 12 345 678 ns in a column of ms. It is done for whole columns at once: what
`views.numbers` writes for one number is written here for a million.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.schema import Column, Schema
from kinetoscope.views.numbers import Scale
from kinetoscope.views.terminal.columns import formatted

_SPACES: Final = str.maketrans("", "", "\u202f\u00a0 ,")
_CHARACTERS: Final = frozenset("0123456789.-<>∞")
"""Numbers are shown with these."""


def searched(frame: pl.DataFrame, schema: Schema, scales: Mapping[str, Scale], text: str) -> pl.DataFrame:
    """The rows in which `text` stands in some column."""
    words = text.strip().lower()
    if not words:
        return frame
    number = words.translate(_SPACES)
    conditions = []
    for column in schema:
        values = frame.get_column(column.name)
        if values.dtype == pl.String:
            conditions.append(values.str.to_lowercase().str.contains(words, literal=True))
        elif values.dtype.is_numeric():
            if number and set(number) <= _CHARACTERS:
                texts = texts_of(values, column, scales[column.name])
                conditions.append(texts.str.contains(number, literal=True))
        elif values.dtype.is_nested() or values.dtype == pl.Boolean:
            conditions.append(_shown(values, column).str.to_lowercase().str.contains(words, literal=True))
    if not conditions:
        return frame.clear()
    return frame.filter(reduce(or_, (condition.fill_null(False) for condition in conditions)))


def texts_of(values: pl.Series, column: Column, scale: Scale) -> pl.Series:
    """Each number as it is shown, without spaces; null where it is missing."""
    is_whole = values.dtype.is_integer()
    if column.instant and is_whole and scale.divisor in _INSTANT_PLACES:
        return _decimals(values, scale.divisor, _INSTANT_PLACES[scale.divisor])
    if scale.divisor == 1.0 and is_whole:
        return values.cast(pl.String)
    # NumPy divides; Polars multiplies by the reciprocal, which is another number where a tie decides about a digit.
    return _significant(pl.Series(values.cast(pl.Float64).to_numpy() / scale.divisor).fill_nan(None))


def _shown(values: pl.Series, column: Column) -> pl.Series:
    """Lists and truths, one by one."""
    return pl.Series(formatted(values.to_frame(), Schema(column))[0].texts, dtype=pl.String)


def _decimals(values: pl.Series, divisor: float, places: int) -> pl.Series:
    """Whole nanoseconds in a larger unit, with a fixed number of decimals."""
    step = round(divisor) // 10**places
    size = np.abs(values.fill_null(0).to_numpy().astype(np.int64))
    count, rest = np.divmod(size, step)
    count += 2 * rest > step
    for place in np.flatnonzero(2 * rest == step):  # a tie goes where the division in binary leads
        count[place] = round(float(f"{int(size[place]) / divisor:.{places}f}") * 10**places)
    digits = pl.Series(count).cast(pl.String).str.zfill(places + 1)
    lengths = digits.str.len_bytes().cast(pl.Int64) - places
    sign = pl.Series(values < 0).replace_strict({True: "-", False: ""}, default=None, return_dtype=pl.String)
    return sign + digits.str.slice(0, lengths) + "." + digits.str.tail(places)


def _significant(values: pl.Series) -> pl.Series:
    """Three significant digits, as `numbers.significant` writes them; there are 5,400 texts between 0.001 and 999."""
    number = values.fill_null(0.0).to_numpy()
    size = np.abs(number)
    between = (size >= 0.001) & (size < 999.5)
    texts = pl.Series(_TEXTS).gather(_places_of(np.where(between, size, 1.0)))
    whole = pl.Series(np.rint(np.where(size < _WHOLE, size, 0.0)).astype(np.int64)).cast(pl.String)
    small = pl.Series(~between & (size < 0.001))
    frame = pl.DataFrame({"v": values, "mid": texts, "whole": whole, "between": between, "small": small})
    minus = pl.when(pl.col("v") < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    text = (
        pl.when(pl.col("v").is_null()).then(None)
        .when(pl.col("v") == 0).then(pl.lit("0"))
        .when(pl.col("small") & (pl.col("v") > 0)).then(pl.lit("<0.001"))
        .when(pl.col("small")).then(pl.lit(">-0.001"))
        .when(pl.col("v").is_infinite()).then(minus + pl.lit("∞"))
        .when(pl.col("between")).then(minus + pl.col("mid"))
        .otherwise(minus + pl.col("whole"))
    )  # fmt: skip
    shown = frame.select(text.alias("text")).to_series()
    for place in np.flatnonzero((size >= _WHOLE) & np.isfinite(size)).tolist():
        shown[place] = str(round(float(number[place])))
    return shown


def _places_of(size: Floats) -> Int64s:
    """Where in `_TEXTS` each number from 0.001 to below 999.5 stands."""
    power = np.clip(np.floor(np.log10(size)).astype(np.int64), -3, 2)
    scaled = size * 10.0 ** (2 - power)
    digits = np.rint(scaled).astype(np.int64)
    for place in np.flatnonzero(np.abs(np.abs(scaled - np.floor(scaled)) - 0.5) < _DOUBT).tolist():
        exact = f"{float(size[place]):.2e}"  # a tie, or nearly: it goes where decimal rounding leads
        digits[place] = int(exact[0] + exact[2:4])
        power[place] = int(exact[5:])
    over = digits >= 1000
    return np.where(over, 100, digits) - 100 + 900 * (power + over + 3)


_INSTANT_PLACES: Final = {1e3: 3, 1e6: 3, 1e9: 6}
_WHOLE: Final = 1e15
_DOUBT: Final = 1e-6
_TEXTS: Final = [
    f"{digits * 10.0 ** (power - 2):.{2 - power}f}" for power in range(-3, 3) for digits in range(100, 1000)
]
