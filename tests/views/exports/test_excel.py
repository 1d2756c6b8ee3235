"""Workbooks, read back as the XML that they are."""

from __future__ import annotations

import io
import re
from pathlib import Path
from zipfile import ZipFile

import polars as pl
import pytest

pytest.importorskip("xlsxwriter", reason="the extra excel is not installed")

from kinetoscope import report
from kinetoscope.errors import UsageError
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.exports.excel import MAX_ROWS, to_xlsx
from tests.cli.run import RANKS

COLUMNS = Schema(
    Column("name", pl.String, "A name."),
    Column("time", pl.Int64, "A time.", "ns"),
    Column("shapes", pl.List(pl.Int64), "Shapes."),
)


def result(*rows: tuple[str, int | None, list[int] | None]) -> Result:
    frame = pl.DataFrame(rows, schema={column.name: column.dtype for column in COLUMNS}, orient="row")
    return Result(frame, COLUMNS, (Note("A", "A note."),), "kernels")


def parts(book: bytes) -> dict[str, str]:
    with ZipFile(io.BytesIO(book)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_a_sheet_has_units_meanings_and_notes() -> None:
    book = parts(to_xlsx({"kernels": result(("aten::mm", 1_234_567, [1, 2]))}))
    texts = re.findall("<t[^>]*>([^<]*)</t>", book["xl/sharedStrings.xml"])
    assert {"name", "time (ns)", "aten::mm", "[1, 2]", "A note."} <= set(texts)
    assert "<v>1234567</v>" in book["xl/worksheets/sheet1.xml"]
    assert "A time." in book["xl/comments1.xml"]


def test_no_text_is_a_formula_or_a_link() -> None:
    book = parts(to_xlsx({"kernels": result(('=HYPERLINK("http://evil")', 1, None), ("http://evil", None, None))}))
    sheet = book["xl/worksheets/sheet1.xml"]
    assert "<f>" not in sheet
    assert "hyperlink" not in sheet.lower()
    assert not any("evil" in text for name, text in book.items() if name.endswith(".rels"))


def test_a_sheet_has_an_end() -> None:
    frame = pl.DataFrame({"name": pl.repeat("x", MAX_ROWS + 1, eager=True)})
    with pytest.raises(UsageError, match="csv and parquet hold any number"):
        to_xlsx({"many": Result(frame, Schema(COLUMNS["name"]))})


def test_a_report_has_a_sheet_for_each_analysis_with_rows(tmp_path: Path) -> None:
    book = parts(Path(report(str(RANKS), tmp_path / "run.xlsx")).read_bytes())
    sheets = re.findall('<sheet name="([a-z_]+)"', book["xl/workbook.xml"])
    assert sheets[0] == "advise"
    assert {"operators", "step_breakdown", "trace_info"} <= set(sheets)
    assert "kernels" not in sheets
