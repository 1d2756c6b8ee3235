"""The rows of a result as a page shows them: searched, filtered, sorted, a window of them; or all of them as a file."""

from __future__ import annotations

import dataclasses
import io
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl
from starlette.datastructures import QueryParams

from kinetoscope.schema import Column, Result, Schema
from kinetoscope.server.errors import AbsurdError
from kinetoscope.server.query import integer
from kinetoscope.server.results.text_search import searched
from kinetoscope.views.exports import files
from kinetoscope.views.numbers import Scale
from kinetoscope.views.text import nearest

MOST_ROWS: Final = 10_000
"""In one answer; a file has all."""

FORMATS: Final = {
    "json": ("application/json", "json"),
    "csv": ("text/csv; charset=utf-8", "csv"),
    "parquet": ("application/vnd.apache.parquet", "parquet"),
    "arrow": ("application/vnd.apache.arrow.file", "arrow"),
}
"""Media type and ending of each."""

_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_OPERATIONS: Final = (*_COMPARISONS, "contains", "null", "some")


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Which rows, in which order; hashable, so that it can be kept.

    Attributes:
        sort: columns and whether each descends; what is missing comes last, ties keep their order.
        search: text that a row must have somewhere, in any case.
        filters: column, operation (`eq`, `ne`, `lt`, `le`, `gt`, `ge`, `contains`, `null`, `some`) and value as text.
    """

    sort: tuple[tuple[str, bool], ...] = ()
    search: str = ""
    filters: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """Which of the arranged rows, and as what; a file ("" is none) has all of them."""

    offset: int
    limit: int
    file: str


def arrangement(query: QueryParams) -> Arrangement:
    """`sort=-duration,name&search=gemm&filter=calls:gt:10`.

    Raises:
        AbsurdError: a filter is none.
    """
    filters = []
    for text in query.getlist("filter"):
        column, _, rest = text.partition(":")
        operation, _, value = rest.partition(":")
        if operation not in _OPERATIONS:
            allowed = ", ".join(_OPERATIONS)
            raise AbsurdError(f"filter is {text[:80]!r}: it takes column:operation:value; operations: {allowed}")
        filters.append((column, operation, value))
    names = [name for text in query.getlist("sort") for name in text.split(",") if name]
    order = tuple((name.removeprefix("-"), name.startswith("-")) for name in names)
    return Arrangement(order, query.get("search", "")[:200], tuple(filters))


def window(query: QueryParams) -> Window:
    """`offset=100&limit=50`, or `format=csv`; `format=json` with `download=1` is a file, too.

    Raises:
        AbsurdError: not such numbers, or no such format.
    """
    form = query.get("format", "")
    if form and form not in FORMATS:
        raise AbsurdError(f"format is {form[:40]!r}; it can be {', '.join(FORMATS)}")
    offset = integer("offset", query.get("offset", "0"), low=0)
    limit = integer("limit", query.get("limit", "200"), low=0, high=MOST_ROWS)
    return Window(offset, limit, "" if form == "json" and not query.get("download") else form)


def arranged(result: Result, asked: Arrangement, scales: Mapping[str, Scale]) -> pl.DataFrame:
    """The rows of `result` that are asked for, in the order asked for.

    Raises:
        AbsurdError: a column that it does not have, or a value that the column cannot be compared with.
    """
    frame = result.frame
    for name, operation, text in asked.filters:
        frame = frame.filter(_condition(_column(result.schema, name), operation, text))
    if asked.search:
        frame = searched(frame, result.schema, scales, asked.search)
    if asked.sort:
        by = [_column(result.schema, name).name for name, _ in asked.sort]
        down = [descending for _, descending in asked.sort]
        # NaN is shown as missing, so it sorts as missing.
        keys = [pl.col(name).fill_nan(None) if frame.schema[name].is_float() else pl.col(name) for name in by]
        frame = frame.sort(keys, descending=down, nulls_last=True, maintain_order=True)
    return frame


def described(column: Column, dtype: Any) -> dict[str, Any]:
    """What a page knows of a column."""
    return {
        "name": column.name,
        "dtype": str(dtype),
        "unit": column.unit,
        "doc": column.doc,
        "instant": column.instant,
    }


def exported(result: Result, form: str) -> bytes:
    """All rows as a file."""
    if form == "arrow":
        stream = io.BytesIO()
        result.frame.write_ipc(stream)
        return stream.getvalue()
    return files.to_bytes(result, form)


def as_file(result: Result, frame: pl.DataFrame, form: str) -> bytes:
    """`frame`, rows of `result`, as a file."""
    return exported(dataclasses.replace(result, frame=frame), form)


def _column(schema: Schema, name: str) -> Column:
    if name not in schema:
        near, have = nearest(name[:60], schema.names), ", ".join(schema.names)
        raise AbsurdError(f"there is no column {name[:60]!r}{near}; there are {have}")
    return schema[name]


def _condition(column: Column, operation: str, text: str) -> pl.Expr:
    values = pl.col(column.name)
    dtype = column.dtype
    if operation in ("null", "some"):
        missing = values.is_null() | values.is_nan() if dtype.is_float() else values.is_null()
        return missing if operation == "null" else ~missing
    if operation == "contains":
        if dtype != pl.String:
            raise AbsurdError(f"{column.name} is no text: it can be compared, not looked into")
        return values.str.to_lowercase().str.contains(text.lower(), literal=True)
    return _COMPARISONS[operation](values, _typed(column, text))  # type: ignore[no-any-return]


def _typed(column: Column, text: str) -> Any:
    """A value to compare the column with, of its type."""
    dtype = column.dtype
    if dtype == pl.String:
        return pl.lit(text)
    if dtype == pl.Boolean and text in ("true", "false"):
        return pl.lit(text == "true")
    if dtype.is_numeric():
        try:
            number = int(text) if text.lstrip("-").isdecimal() else float(text)
        except ValueError:
            number = float("nan")
        if number == number and abs(number) < 1 << 62:
            return pl.lit(number)
    raise AbsurdError(f"{column.name} cannot be compared with {text[:60]!r}")
