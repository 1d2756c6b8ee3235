"""Results as files: exact, stable, harmless."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import polars as pl
import pytest

from kinetoscope.errors import UsageError
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.exports.files import to_bytes, to_csv, to_folded, to_json, to_parquet
from kinetoscope.views.exports.formats import FORMATS
from tests.views.results import kernels

BIG = 2**53 + 1


def test_json_is_the_contract() -> None:
    result = kernels(
        ("a", None, 2, BIG, math.nan),
        ('"\x1b[1m<b>', "memory", 1, -1, 0.5),
        notes=(Note("N", "n", "warning", about="cuda:0"),),
    )
    assert to_json(result).decode() == (
        '{"analysis": "kernels",\n'
        ' "params": {"min_calls": 2},\n'
        ' "columns": [\n'
        '  {"name": "rank", "dtype": "Int64", "unit": "", "doc": "Rank."},\n'
        '  {"name": "name", "dtype": "String", "unit": "", "doc": "Name of the kernel."},\n'
        '  {"name": "kind", "dtype": "String", "unit": "", "doc": "Kind of device work."},\n'
        '  {"name": "calls", "dtype": "Int64", "unit": "", "doc": "How often it ran."},\n'
        '  {"name": "total", "dtype": "Int64", "unit": "ns", "doc": "Time of all calls."},\n'
        '  {"name": "share", "dtype": "Float64", "unit": "fraction", "doc": "Share of all kernels."}\n'
        " ],\n"
        ' "rows": [\n'
        '  [0, "a", null, 2, 9007199254740993, null],\n'
        '  [0, "\\"\\u001b[1m<b>", "memory", 1, -1, 0.5]\n'
        " ],\n"
        ' "notes": [{"code": "N", "severity": "warning", "about": "cuda:0", "text": "n"}]}\n'
    )


def test_json_of_no_rows_is_json() -> None:
    assert json.loads(to_json(kernels()))["rows"] == []


def test_json_holds_lists_and_parameters_of_any_kind() -> None:
    schema = Schema(Column("shape", pl.List(pl.Int64), "Sizes."))
    frame = pl.DataFrame({"shape": [[1, 2], None, []]}, schema={"shape": pl.List(pl.Int64)})
    params = {"select": schema.columns[0], "ranks": (0, 1), "share": math.inf}
    found = json.loads(to_json(Result(frame, schema, params=params)))
    assert found["rows"] == [[[1, 2]], [None], [[]]]
    assert found["columns"][0]["dtype"] == "List(Int64)"
    assert found["params"]["ranks"] == [0, 1]
    assert found["params"]["share"] is None
    assert found["params"]["select"]["name"] == "shape"
    assert to_csv(Result(frame, schema)).decode() == 'shape\n"[1, 2]"\n\n[]\n'


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_csv_runs_nothing_in_a_spreadsheet(start: str) -> None:
    name = f'{start}HYPERLINK("http://x")'
    result = kernels((name, "memory", -5, 1, -0.5))
    rows = pl.read_csv(io.BytesIO(to_csv(result)))
    assert rows.row(0) == (0, "'" + name, "memory", -5, 1, -0.5)
    assert json.loads(to_json(result))["rows"][0][1] == name
    assert pl.read_parquet(io.BytesIO(to_parquet(result)))["name"][0] == name


def test_csv_has_whole_integers_and_empty_fields() -> None:
    result = kernels(('a,"b"\nc', None, None, BIG, math.nan))
    assert to_csv(result).decode() == ('rank,name,kind,calls,total,share\n0,"a,""b""\nc",,,9007199254740993,\n')


def test_parquet_keeps_types_and_meanings() -> None:
    result = kernels(("a", None, 2, BIG, 0.5), notes=(Note("N", "n", "warning", about="cuda:0"),))
    data = to_parquet(result)
    assert pl.read_parquet(io.BytesIO(data)).equals(result.frame)
    metadata: dict[str, Any] = pl.read_parquet_metadata(io.BytesIO(data))
    assert metadata["analysis"] == "kernels"
    assert [note["code"] for note in json.loads(metadata["notes"])] == ["N"]
    assert json.loads(metadata["columns"])[4]["unit"] == "ns"


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_result_gives_the_same_bytes(form: str) -> None:
    rows = [(f"k{index}", "memory", index, index, 0.1) for index in range(1000)]
    assert to_bytes(kernels(*rows), form) == to_bytes(kernels(*rows), form)


def stacks(*rows: tuple[int, str, int]) -> Result:
    columns = (
        Column("rank", pl.Int64, "Rank."),
        Column("stack", pl.String, "Stack."),
        Column("value", pl.Int64, "Time."),
    )
    schema = Schema(*columns)
    return Result(pl.DataFrame(list(rows), schema=schema.empty().schema, orient="row"), schema)


def test_folded_stacks_are_lines() -> None:
    assert to_folded(stacks((0, "a;b c", 5), (0, "ü", 2**60))).decode() == f"a;b c 5\nü {2**60}\n"
    assert to_folded(stacks((0, "a", 5), (3, "a", 7))) == b"rank 0;a 5\nrank 3;a 7\n"
    assert to_folded(stacks()) == b""
    with pytest.raises(UsageError, match="kernels has no stacks to be folded"):
        to_bytes(kernels(), "folded")
