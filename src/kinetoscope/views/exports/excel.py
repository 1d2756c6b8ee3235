"""Results as an Excel workbook: a sheet each, with filters, units in the heads and what a column means as its comment.

Excel keeps 15 digits of a number; the other formats keep all. No text becomes a formula or a link, because a trace is
untrusted.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from kinetoscope.errors import MissingExtraError, UsageError
from kinetoscope.schema import Result
from kinetoscope.views.exports.plain import flat
from kinetoscope.views.text import printable

MAX_ROWS: Final = (1 << 20) - 100
"""Rows of a sheet, with some room for notes."""

_MAX_TEXT_CHARACTERS: Final = 32_767
_MAX_NAME_CHARACTERS: Final = 31
_CREATED: Final = datetime(2000, 1, 1, tzinfo=UTC)
_OPTIONS: Final = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "nan_inf_to_errors": True}


def to_xlsx(sheets: Mapping[str, Result]) -> bytes:
    """The workbook, with a sheet for each result under its name.

    Raises:
        UsageError: a result has more rows than a sheet.
        MissingExtraError: xlsxwriter is not installed.
    """
    try:
        from xlsxwriter import Workbook  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise MissingExtraError("an Excel workbook", "excel") from error
    stream = io.BytesIO()
    with Workbook(stream, _OPTIONS) as book:
        book.set_properties({"created": _CREATED})  # the same results, the same bytes
        for name, result in sheets.items():
            rows = result.frame.height
            if rows > MAX_ROWS:
                raise UsageError(
                    f"{name} has {rows:,} rows, and a sheet has {MAX_ROWS:,}; csv and parquet hold any number"
                )
            sheet = book.add_worksheet(name[:_MAX_NAME_CHARACTERS])
            heads = [
                {"header": f"{column.name} ({column.unit})" if column.unit else column.name} for column in result.schema
            ]
            body = [[_cell(value) for value in row] for row in flat(result.frame).iter_rows()]
            sheet.add_table(0, 0, max(rows, 1), len(heads) - 1, {"columns": heads, "data": body})
            for place, column in enumerate(result.schema):
                sheet.write_comment(0, place, column.doc)
            for line, note in enumerate(result.sentences):
                sheet.write_string(max(rows, 1) + 2 + line, 0, printable(note)[:_MAX_TEXT_CHARACTERS])
            sheet.freeze_panes(1, 0)
            sheet.autofit(400)
    return stream.getvalue()


def _cell(value: object) -> object:
    return printable(value)[:_MAX_TEXT_CHARACTERS] if isinstance(value, str) else value
