from __future__ import annotations

import polars as pl
import pytest

from kinetoscope.notes import Note
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.markdown import code, escaped, fenced, sentence, table

COLUMNS = Schema(
    Column("name", pl.String, "Name."),
    Column("time", pl.Int64, "Time.", "ns"),
    Column("empty", pl.Int64, "Nothing."),
)


def result(*rows: tuple[str, int | None, None], notes: tuple[Note, ...] = ()) -> Result:
    frame = pl.DataFrame(rows, schema={column.name: column.dtype for column in COLUMNS}, orient="row")
    return Result(frame, COLUMNS, notes, "kernels")


def test_a_table_has_units_and_no_empty_column() -> None:
    text = table(result(("aten::mm", 1_500_000, None), ("copy", None, None), notes=(Note("A", "A note."),)))
    assert text.splitlines() == [
        "| name | time (ms) |", "| --- | ---: |", "| `aten::mm` | 1.50 |", "| copy | – |", "", "- A note."
    ]  # fmt: skip


def test_rows_that_are_left_out_are_counted() -> None:
    text = table(result(*[(f"k{place}", place, None) for place in range(9)]), limit=2)
    assert "| `k1` | 1 |\n\n… 7 more rows\n" in text
    assert table(result()) == "No rows.\n"


@pytest.mark.parametrize("name", ["a|b", "a`b", "<img src=x>", "@team", "x\n# y", "[x](http://evil)", "\x1b[31m"])
def test_names_stay_names(name: str) -> None:
    span = code(name)
    assert span.startswith("`")
    assert span.endswith("`")
    assert span.count("`") == 2
    assert "\n" not in span
    assert "\x1b" not in span
    assert "|" not in span.replace("\\|", "")


def test_text_is_no_markup() -> None:
    text = escaped("*b* _e_ a_b [l](http://x) <script> @me # `c`")
    assert text == "\\*b\\* \\_e\\_ a_b \\[l\\](http:\u200b//x) &lt;script\\> @\u200bme \\# \\`c\\`"
    assert sentence("`aten::mm` waits for *x*") == "`aten::mm` waits for \\*x\\*"


def test_no_line_ends_a_block_of_code() -> None:
    lines = fenced("+ a\n```\n+ b", "diff")
    assert lines[0] == "````diff"
    assert lines[-1] == "````"
