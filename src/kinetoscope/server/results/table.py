"""A table as a page asks for it: which rows in which order, a window of them, or all of them as a file."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import QueryParams

from kinetoscope.schema import Result
from kinetoscope.server.errors import BadValueError
from kinetoscope.server.query import integer
from kinetoscope.views.exports import files
from kinetoscope.views.rows import OPERATIONS, Arrangement

MAX_ROWS: Final = 10_000
"""Rows in one answer; a file has all."""

FORMATS: Final = {
    "json": ("application/json", "json"),
    "csv": ("text/csv; charset=utf-8", "csv"),
    "parquet": ("application/vnd.apache.parquet", "parquet"),
    "xlsx": ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    "arrow": ("application/vnd.apache.arrow.file", "arrow"),
}
"""Media type and ending of each."""

_LIKE_FILTER: Final = re.compile(r"\w+:(?:(?:eq|ne|lt|le|gt|ge|contains):.+|null|some)")


@dataclass(frozen=True, slots=True)
class RowWindow:
    """A window of the arranged rows, or the format of a file of all of them ("": no file)."""

    offset: int
    limit: int
    file: str


def arrangement_of(query: QueryParams) -> Arrangement:
    """`sort=-duration,name&search=gemm&filter=calls:gt:10`; a search that is written like a filter is one.

    Raises:
        BadValueError: a filter is malformed.
    """
    filters, search = [_filter(text) for text in query.getlist("filter")], query.get("search", "")[:200].strip()
    if _LIKE_FILTER.fullmatch(search):
        filters, search = [*filters, _filter(search)], ""
    names = [name for text in query.getlist("sort") for name in text.split(",") if name]
    order = tuple((name.removeprefix("-"), name.startswith("-")) for name in names)
    return Arrangement(filters=tuple(filters), search=search, sort=order)


def _filter(text: str) -> tuple[str, str, str]:
    column, _, rest = text.partition(":")
    operation, _, value = rest.partition(":")
    if operation not in OPERATIONS:
        allowed = ", ".join(OPERATIONS)
        raise BadValueError(f"filter is {text[:80]!r}: it takes column:operation:value; operations: {allowed}")
    return column, operation, value


def window_of(query: QueryParams) -> RowWindow:
    """`offset=100&limit=50`, or `format=csv`; `format=json` with `download=1` is a file, too.

    Raises:
        BadValueError: not such numbers, or no such format.
    """
    form = query.get("format", "")
    if form and form not in FORMATS:
        raise BadValueError(f"format is {form[:40]!r}; it can be {', '.join(FORMATS)}")
    offset = integer("offset", query.get("offset", "0"), low=0)
    limit = integer("limit", query.get("limit", "200"), low=0, high=MAX_ROWS)
    return RowWindow(offset, limit, "" if form == "json" and not query.get("download") else form)


def exported(result: Result, form: str) -> bytes:
    """All rows as a file."""
    if form == "arrow":
        stream = io.BytesIO()
        result.frame.write_ipc(stream)
        return stream.getvalue()
    return files.to_bytes(result, form)
