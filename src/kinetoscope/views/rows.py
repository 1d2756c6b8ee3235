"""Rows of a result: filtered, searched, sorted and cut, for every face: command line, page, assistant."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import polars as pl

from kinetoscope.charts import drawn_columns
from kinetoscope.errors import UsageError, nearest
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.terminal.columns import formatted

_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}

OPERATIONS: Final = (*_COMPARISONS, "contains", "null", "some")
"""Operations of a filter; `null` keeps rows without a value, `some` those with one."""

_SHOWN_CHARACTERS = 60  # of a column's name or a value in an error


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Which rows of a table, in which order; hashable, so that answers can be kept by it.

    Attributes:
        where: an SQL condition over the columns, in stored units (times in ns); rows for which it is null go.
        filters: column, one of `OPERATIONS`, and a value as text, each; all must hold.
        search: text that a row must have in a column of texts, lists or truth values, in any case.
        sort: columns, and whether each descends; missing values (NaN too) come last, ties keep their order.
        limit: rows to keep; 0 keeps all.
        columns: those to keep, in this order; none keeps all.
    """

    where: str = ""
    filters: tuple[tuple[str, str, str], ...] = ()
    search: str = ""
    sort: tuple[tuple[str, bool], ...] = ()
    limit: int = 0
    columns: tuple[str, ...] = ()


def arranged(result: Result, arrangement: Arrangement) -> Result:
    """`result` with the rows and columns of the arrangement; conditions and order may use all columns.

    Raises:
        UsageError: no such column, no condition, or a value that the column cannot be compared with.
    """
    frame, schema = result.frame, result.schema
    if arrangement.where:
        frame = _filtered_by_sql(frame, arrangement.where, schema)
    for name, operation, text in arrangement.filters:
        frame = frame.filter(_condition(_column(schema, name), operation, text))
    if arrangement.search.strip():
        frame = _searched(frame, schema, arrangement.search.strip().lower())
    if arrangement.sort:
        columns = [_column(schema, name).name for name, _ in arrangement.sort]
        keys = [pl.col(name).fill_nan(None) if frame.schema[name].is_float() else pl.col(name) for name in columns]
        descending = [descends for _, descends in arrangement.sort]
        frame = frame.sort(keys, descending=descending, nulls_last=True, maintain_order=True)
    if arrangement.limit:
        frame = frame.head(arrangement.limit)
    if not arrangement.columns:
        return dataclasses.replace(result, frame=frame)
    schema = Schema(*(_column(schema, name) for name in dict.fromkeys(arrangement.columns)))
    facts = (
        result.chart_facts if result.chart_facts and drawn_columns(result.chart_facts) <= set(schema.names) else None
    )
    return dataclasses.replace(result, frame=frame.select(schema.names), schema=schema, chart_facts=facts)


def column_names(text: str) -> tuple[str, ...]:
    """The columns in `name,calls`."""
    return tuple(name for term in text.split(",") if (name := term.strip().replace("-", "_")))


def order(text: str) -> tuple[tuple[str, bool], ...]:
    """The order in `calls:asc,total`: columns joined by commas, each with `:asc` or `:desc` (the default).

    Raises:
        UsageError: a direction is neither.
    """
    terms = [term.strip().partition(":") for term in text.split(",") if term.strip()]
    for name, _, direction in terms:
        if direction not in ("", "asc", "desc"):
            raise UsageError(f"--sort {name}:{direction} is not an order: write {name}:asc or {name}:desc")
    return tuple((name, direction != "asc") for name, _, direction in terms)


def _column(schema: Schema, name: str) -> Column:
    _check_names([name], schema)
    return schema[name]


def _check_names(names: Sequence[str], schema: Schema) -> None:
    for name in names:
        if name not in schema:
            name = name[:_SHOWN_CHARACTERS]
            near, columns = nearest(name, schema.names), ", ".join(schema.names)
            raise UsageError(f"there is no column {name!r}{near}; the columns are {columns}")


def _filtered_by_sql(frame: pl.DataFrame, where: str, schema: Schema) -> pl.DataFrame:
    try:
        condition = pl.sql_expr(where)
        _check_names(condition.meta.root_names(), schema)
        return frame.filter(condition)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UsageError(
            f"--where {where!r} cannot be evaluated: {reason}. Write an SQL condition over the columns"
            f' {", ".join(schema.names)}, as in "{schema.names[0]} IS NOT NULL"; times are in ns'
        ) from error


def _condition(column: Column, operation: str, text: str) -> pl.Expr:
    values = pl.col(column.name)
    if operation in ("null", "some"):
        missing = values.is_null() | values.is_nan() if column.dtype.is_float() else values.is_null()
        return missing if operation == "null" else ~missing
    if operation == "contains":
        if column.dtype != pl.String:
            raise UsageError(f"{column.name} is no text: compare it (eq, lt, gt, …) instead")
        return values.str.to_lowercase().str.contains(text.lower(), literal=True)
    return _COMPARISONS[operation](values, _literal(column, text))  # type: ignore[no-any-return]


def _literal(column: Column, text: str) -> pl.Expr:
    """The value to compare a column with, of its type."""
    if column.dtype == pl.String:
        return pl.lit(text)
    if column.dtype == pl.Boolean and text in ("true", "false"):
        return pl.lit(text == "true")
    if column.dtype.is_numeric():
        try:
            number = int(text) if text.lstrip("-").isdecimal() else float(text)
        except ValueError:
            number = float("nan")
        if number == number and abs(number) < 1 << 62:
            return pl.lit(number)
    raise UsageError(f"{column.name} cannot be compared with {text[:_SHOWN_CHARACTERS]!r}")


def _searched(frame: pl.DataFrame, schema: Schema, text: str) -> pl.DataFrame:
    """The rows with `text`, which is in small letters, in a column of texts, or of lists or truth values as shown."""
    conditions = [
        _texts(frame, column).str.to_lowercase().str.contains(text, literal=True).fill_null(False)
        for column in schema
        if not frame.schema[column.name].is_numeric()
    ]
    return frame.filter(reduce(operator.or_, conditions)) if conditions else frame.clear()


def _texts(frame: pl.DataFrame, column: Column) -> pl.Series:
    values = frame.get_column(column.name)
    if values.dtype == pl.String:
        return values
    return pl.Series(formatted(values.to_frame(), Schema(column))[0].texts, dtype=pl.String)
