"""Which rows of a result are shown, and in which order: what `--where`, `--sort` and `--limit` mean for every face."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import polars as pl

from kinetoscope.errors import UsageError
from kinetoscope.schema import Result, Schema
from kinetoscope.views.text import nearest

_ORDERS = {"": True, "desc": True, "asc": False}


def arranged(result: Result, *, where: str = "", sort: str = "", limit: int = 0) -> Result:
    """`result` with the rows that `where` keeps, in the order of `sort`, at most `limit` of them.

    Args:
        result: any table.
        where: an SQL expression over its columns, in stored units (times in ns); rows for which it is null go.
        sort: columns joined by commas, each with `:asc` or `:desc` (the default); what is missing comes last.
        limit: rows to keep; 0 keeps all.

    Raises:
        UsageError: no such column, or not an expression that is true or false.
    """
    frame = result.frame
    if where:
        frame = _kept(frame, where, result.schema)
    if sort:
        columns, descending = _order(sort, result.schema)
        frame = frame.sort(columns, descending=descending, nulls_last=True, maintain_order=True)
    if limit:
        frame = frame.head(limit)
    return dataclasses.replace(result, frame=frame)


def _kept(frame: pl.DataFrame, where: str, schema: Schema) -> pl.DataFrame:
    try:
        condition = pl.sql_expr(where)
        _must_exist(condition.meta.root_names(), schema)
        return frame.filter(condition)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UsageError(
            f"--where {where!r} cannot be evaluated: {reason}. Write an SQL condition over the columns"
            f' {", ".join(schema.names)}, as in "{schema.names[0]} IS NOT NULL"; times are in ns'
        ) from error


def _order(sort: str, schema: Schema) -> tuple[list[str], list[bool]]:
    pairs = [term.strip().partition(":") for term in sort.split(",")]
    _must_exist([name for name, _, _ in pairs], schema)
    for name, _, order in pairs:
        if order not in _ORDERS:
            raise UsageError(f"--sort {name}:{order} is not an order: write {name}:asc or {name}:desc")
    return [name for name, _, _ in pairs], [_ORDERS[order] for _, _, order in pairs]


def _must_exist(names: Sequence[str], schema: Schema) -> None:
    for name in names:
        if name not in schema:
            raise UsageError(
                f"there is no column {name!r}{nearest(name, schema.names)}; the columns are {', '.join(schema.names)}"
            )
