"""SQL over the declared tables."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from kinetoscope import Job, read
from kinetoscope.errors import UsageError
from kinetoscope.model.tables import sql
from kinetoscope.model.tables.tables import TABLES
from tests.catalog.samples import BUNDLED
from tests.drawn import job, kernel, launch, op


@pytest.fixture
def small(tmp_path: Path) -> Job:
    return job(tmp_path, op("aten::mm", 0, 100), launch(10, 5, 1), kernel("gemm", 50, 70, 1), kernel("copy", 130, 9, 2))


def test_tables_can_be_joined(small: Job) -> None:
    query = """
        SELECT k.name, o.name AS op, k.duration FROM kernels k LEFT JOIN ops o ON k.op = o.row AND k.rank = o.rank
        ORDER BY k.duration DESC
    """
    assert small.sql(query).frame.rows() == [("gemm", "aten::mm", 70), ("copy", None, 9)]


def test_all_ranks_are_in_a_table() -> None:
    both = read(BUNDLED / "ddp2", jobs=2)
    found = both.sql("SELECT rank, count(*) AS ops FROM ops GROUP BY rank ORDER BY rank").frame
    assert found.rows() == [(rank, both.trace(rank).table("ops").height) for rank in (0, 1)]


def test_runs_are_asked_together(tmp_path: Path) -> None:
    def run(name: str, *durations: int) -> Job:
        folder = tmp_path / name
        folder.mkdir()
        return job(folder, *(kernel("gemm", 100 * at, each, 0) for at, each in enumerate(durations)))

    runs = {"before": run("a", 10, 20), "after": run("b", 5)}
    result = sql.sql(runs, "SELECT run, rank, sum(duration) AS duration FROM kernels GROUP BY run, rank ORDER BY run")
    assert result.frame.rows() == [("after", 0, 5), ("before", 0, 30)]
    assert result.schema["duration"].unit == "ns"
    with pytest.raises(UsageError, match=r"the columns are those of ops \(run, rank, "):
        sql.sql(runs, "SELECT nothing FROM ops")


def test_every_table_can_be_asked_and_says_what_its_columns_mean(small: Job) -> None:
    for name in TABLES:
        result = small.sql(f"SELECT * FROM {name}")
        assert result.schema.names == ["rank", *TABLES[name].schema.names]
        assert all(column.doc for column in result.schema)
        assert result.frame.schema == result.schema.empty().schema


def test_a_column_of_another_type_does_not_have_the_meaning_of_its_name(small: Job) -> None:
    query = "SELECT duration, duration / 2.0 AS start, count(*) OVER () AS pieces FROM kernels"
    columns = {column.name: (column.unit, column.doc) for column in small.sql(query).schema}
    assert columns == {"duration": ("ns", "End less start."), "start": ("", ""), "pieces": ("", "")}


def test_only_the_tables_that_are_named_are_made(small: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def table(trace: object, name: str) -> pl.DataFrame:
        made.append(name)
        return TABLES[name].schema.empty()

    monkeypatch.setattr(sql, "table", table)
    small.sql("SELECT name FROM Kernels")
    small.sql("SELECT 1")
    assert made == ["kernels"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT * FROM kernel",
            r"there is no table 'kernel' \(did you mean 'kernels'\?\); the tables are events, ops",
        ),
        ("SELECT nmae FROM ops", r"there is no column 'nmae' \(did you mean 'name'\?\); the columns are those of ops"),
        ("SELECT ops.nmae FROM ops", r"there is no column 'nmae' \(did you mean 'name'\?\)"),
        ("SELECT o.name FROM ops", "there is no table 'o'"),
        ("SELEC", "Expected: an SQL statement"),
        ("", "only one.* statement"),
        ("SELECT lower(row) FROM ops", "expected `String`, got `i32`"),
        ("SELECT nothing(row) FROM ops", "unsupported function 'nothing'"),
        ("SELECT * FROM read_csv('/no/such/file')", "No such file"),
        ("COPY ops TO 'x'", "statement type is not supported"),
        ("SELECT CAST(name AS INT) FROM ops", "conversion from `str` to `i32` failed"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(small: Job, query: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        small.sql(query)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("SQL: ")


def test_a_wrong_query_is_said_before_anything_is_read(tmp_path: Path) -> None:
    unread = read(tmp_path / "empty.json") if (tmp_path / "empty.json").write_text("{") else None
    assert unread is not None
    with pytest.raises(UsageError, match="no column 'x'"):
        unread.sql("SELECT x FROM ops")


def test_ranks_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    for rank, text in enumerate(
        ('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a"}]}', '{"traceEvents": [{"ph"')
    ):
        (tmp_path / f"rank{rank}.json").write_text(text)
    result = read(tmp_path).sql("SELECT rank FROM ops")
    assert result.frame["rank"].to_list() == [0]
    assert [note for note in result.notes if "rank 1 is left out" in note]
