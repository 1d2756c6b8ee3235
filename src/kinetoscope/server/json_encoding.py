"""JSON that a browser reads without loss: integers beyond 2^53 are texts, NaN and infinities null."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final

import polars as pl

from kinetoscope.pages.blocks import block_fields
from kinetoscope.views.exports.plain import plain as views_plain

MAX_INTEGER: Final = 1 << 53
"""Integers up to this are exact in JavaScript."""


def to_json(thing: Any) -> bytes:
    """`thing` as JSON in UTF-8."""
    return _encoded(plain(thing))


def rows_to_json(head: Any, frame: pl.DataFrame) -> bytes:
    """The fields of a dataclass, and as its `rows` those of `frame`; each column is looked at as a whole."""
    columns = [_column(series) for series in frame.iter_columns()]
    return _encoded({**plain(head), "rows": list(zip(*columns, strict=True))})


def _prepared(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not -MAX_INTEGER <= value <= MAX_INTEGER else block_fields(value)


plain = partial(views_plain, prepare=_prepared)
"""A value as JSON that JavaScript reads without loss; blocks, other dataclasses and named tuples with all fields."""


def _column(series: pl.Series) -> list[Any]:
    dtype = series.dtype
    values = series.to_list()
    if dtype in (pl.String, pl.Boolean) or dtype.is_(pl.Categorical) or isinstance(dtype, pl.Enum):
        return values
    if dtype.is_integer():
        ends = [end for end in (series.min(), series.max()) if isinstance(end, int)]
        return values if all(-MAX_INTEGER <= end <= MAX_INTEGER for end in ends) else [plain(value) for value in values]
    if dtype.is_float() and bool(series.is_finite().all()):
        return values
    return [plain(value) for value in values]


def _encoded(thing: Any) -> bytes:
    text = json.dumps(thing, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")  # half a surrogate pair is no character
