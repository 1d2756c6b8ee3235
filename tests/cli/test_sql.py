"""`kinetoscope sql`."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from kinetoscope.cli import main
from kinetoscope.model.tables.tables import TABLES
from tests.cli.run import MLP, RANKS

LONGEST = "SELECT rank, name, max(duration) AS duration FROM ops GROUP BY rank, name ORDER BY duration DESC, name"


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["sql", *arguments]) == code
    printed = capsys.readouterr()
    assert (printed.out if code else printed.err) == ""
    return printed.err if code else printed.out


def test_alone_it_lists_tables_and_columns(capsys: pytest.CaptureFixture[str]) -> None:
    listed = said(capsys)
    assert listed == said(capsys, str(MLP))
    for name, table in TABLES.items():
        assert f"{name}  {table.doc}\n" in listed
        for column in table.schema:
            assert f"  {column.name} " in listed
    assert "Duration less that of the calls directly inside. (ns)" in " ".join(listed.split())  # lines may be wrapped


def test_the_answer_is_a_table_with_units(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, str(RANKS), LONGEST, "--limit", "3").splitlines()
    assert lines[0].split() == ["rank", "name", "duration"]
    assert lines[1].split() == ["µs"]
    assert len(lines[3:6]) == 3


def test_runs_have_names(capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT run, count(*) AS ops FROM ops GROUP BY run ORDER BY run"
    rows = said(capsys, f"a={MLP}", f"b={MLP}", query, "--format", "csv").splitlines()
    assert [row.split(",")[0] for row in rows] == ["run", "a", "b"]
    assert "each has a name of its own" in said(capsys, f"a={MLP}", str(MLP), query, code=2)


def test_the_answer_has_all_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(said(capsys, str(MLP), LONGEST, "--format", "json"))
    assert answer["params"] == {"query": LONGEST}
    assert [column["unit"] for column in answer["columns"]] == ["", "", "ns"]
    header, *rows = said(capsys, str(MLP), LONGEST, "--format", "csv", "--limit", "2").splitlines()
    assert (header, len(rows)) == ("rank,name,duration", 2)
    assert said(capsys, str(MLP), LONGEST, "-o", str(tmp_path / "out.parquet")) == ""
    assert pl.read_parquet(tmp_path / "out.parquet").rows() == [tuple(row) for row in answer["rows"]]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["SELECT 1"], 2, "sql takes the paths first, then one query"),
        ([str(MLP), "SELECT x FROM ops"], 2, "SQL: there is no column 'x'"),
        (["/no/such/trace.json", "SELECT 1"], 1, "no such file"),
        ([str(MLP), "SELECT 1", "more"], 2, "sql takes the paths first, then one query"),
    ],
)
def test_what_is_wrong_is_one_line(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = said(capsys, *arguments, code=code)
    assert message in printed
    assert printed.count("\n") == 1
