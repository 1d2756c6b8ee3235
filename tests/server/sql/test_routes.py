"""SQL from the page: over the tables, and nothing else."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

from kinetoscope.errors import UsageError
from kinetoscope.model.tables.sql import sql
from kinetoscope.model.tables.tables import TABLES
from kinetoscope.reading import read
from kinetoscope.server.sql.process import ChildProcess
from tests.server.conftest import MLP
from tests.server.serving import Client

QUERY = "SELECT name, count(*) AS calls, sum(duration) AS duration FROM ops GROUP BY name ORDER BY name"


def test_it_answers_as_the_library_does(mlp: Client) -> None:
    frame = read(MLP).sql(QUERY).frame
    told = mlp.sql(mlp.run(), QUERY, limit=10_000).json
    assert told["rows"] == [list(row) for row in frame.rows()]
    assert [column["unit"] for column in told["columns"]] == ["", "", "ns"]
    assert told["scales"]["duration"]["divisor"] >= 1


def test_its_rows_are_arranged_as_others_are(mlp: Client) -> None:
    whole = read(MLP).sql(QUERY).frame
    ordered = whole.sort("calls", descending=True, nulls_last=True, maintain_order=True)
    told = mlp.sql(mlp.run(), QUERY, sort="-calls", limit=3, offset=1).json
    assert told["rows"] == [list(row) for row in ordered.rows()[1:4]]
    assert told["total"] == whole.height
    told = mlp.sql(mlp.run(), QUERY, search="aten::add", filter=["calls:gt:1", "name:contains:ADD"]).json
    assert {row[0] for row in told["rows"]} == {
        name for name, calls, _ in whole.rows() if "aten::add" in name.lower() and calls > 1
    }
    file = mlp.sql(mlp.run(), QUERY, format="parquet")
    assert pl.read_parquet(io.BytesIO(file.body)).equals(whole)


def test_the_tables_are_told(mlp: Client) -> None:
    told = mlp.get(f"runs/{mlp.run()}/sql")["tables"]
    assert [table["name"] for table in told] == list(TABLES)
    for table in told:
        assert table["columns"][0]["name"] == "rank"
        names = ", ".join(f'"{column["name"]}"' for column in table["columns"])
        assert mlp.sql(mlp.run(), f"SELECT {names} FROM {table['name']} LIMIT 1").status == 200


FILES: dict[str, Callable[[pl.DataFrame, Path], object]] = {
    "csv": pl.DataFrame.write_csv,
    "parquet": pl.DataFrame.write_parquet,
    "ipc": pl.DataFrame.write_ipc,
    "ndjson": pl.DataFrame.write_ndjson,
    "json": pl.DataFrame.write_ndjson,
}
"""What Polars's SQL has a `read_…` for. If it can read more one day, the test of its own list below fails."""

FORMS = [
    "SELECT * FROM read_{form}('{file}')",
    "select secret from READ_{form}('{file}')",
    "SELECT * FROM \"read_{form}\"('{file}')",
    "SELECT * FROM `read_{form}`('{file}')",
    "SELECT * FROM read_{form} ('{file}')",
    "SELECT * FROM read_{form}/* x */('{file}')",
    "SELECT * FROM read_{form} -- x\n ('{file}')",
    "SELECT * FROM /* ' */ read_{form}('{file}') /* ' */",
    "SELECT 'a' AS a FROM read_{form}('{file}') WHERE 'b' = 'b'",
    "SELECT '--', secret FROM read_{form}('{file}')",
    "SELECT $$'$$, secret FROM read_{form}('{file}')",
    "SELECT (SELECT secret FROM read_{form}('{file}'))",
    "SELECT * FROM ops WHERE name IN (SELECT secret FROM read_{form}('{file}'))",
    "WITH a AS (SELECT * FROM read_{form}('{file}')) SELECT * FROM a",
    "SELECT * FROM ops JOIN read_{form}('{file}') AS a ON a.secret = ops.name",
    "SELECT name FROM ops UNION SELECT secret FROM read_{form}('{file}')",
    "FROM read_{form}('{file}')",
    "EXPLAIN SELECT * FROM read_{form}('{file}')",
    "CREATE TABLE a AS SELECT * FROM read_{form}('{file}')",
    "SELECT 1; SELECT * FROM read_{form}('{file}')",
]


@pytest.mark.slow
@pytest.mark.parametrize("form", FILES)
def test_no_query_reads_a_file(mlp: Client, tmp_path: Path, form: str) -> None:
    file = tmp_path / f"secret.{form}"
    FILES[form](pl.DataFrame({"secret": ["hunter2"]}), file)
    assert pl.SQLContext().execute(f"SELECT * FROM read_{form}('{file}')").collect().height == 1  # it would work
    for text in FORMS:
        answer = mlp.sql(mlp.run(), text.format(form=form, file=file))
        assert answer.status in (400, 403), (text, answer.body)
        assert b"hunter2" not in answer.body
    for text in ("SELECT * FROM '{0}'", 'SELECT * FROM "{0}"', "SELECT * FROM `{0}`", "COPY ops TO '{0}.out'"):
        assert mlp.sql(mlp.run(), text.format(file)).status in (400, 403)
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_these_are_all_that_polars_can_read() -> None:
    """A function of a newer Polars that reads files must not go unnoticed."""
    whats = "csv parquet ipc json ndjson delta avro excel iceberg database feather lines text xml orc file files glob"
    for verb in ("read_", "scan_", "load_", "from_", "open_", ""):
        for what in whats.split():
            if verb == "read_" and what in FILES:
                continue
            with pytest.raises(pl.exceptions.PolarsError, match=r"not a supported table function|sql parser error"):
                pl.SQLContext().execute(f"SELECT * FROM {verb}{what}('/no/such/file')").collect()


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE ops",
        "DELETE FROM ops",
        "TRUNCATE ops",
        "CREATE TABLE a AS SELECT 1",
        "INSERT INTO ops SELECT 1",
        "COPY ops TO 'x'",
    ],
)
def test_only_questions(mlp: Client, text: str) -> None:
    assert mlp.sql(mlp.run(), text).status == 403
    assert mlp.sql(mlp.run(), "SELECT count(*) FROM ops").json["rows"][0][0] > 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "SELECT",
        "SELECT x FROM ops",
        "SELECT * FROM nothing",
        "(((",
        "SELECT " + "(" * 500,
        "'",
        "x" * 30_000,
        "\0",
    ],
)
def test_what_is_no_query(mlp: Client, text: str) -> None:
    answer = mlp.sql(mlp.run(), text)
    assert answer.status in (400, 403), answer.body
    assert "\n" not in answer.error
    assert "/* " not in answer.error


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"1",
        b"{}",
        b'{"query": 1}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"query": "SELECT 1", "limit": "x"}',
        b"null",
    ],
)
def test_bodies_that_are_no_questions(mlp: Client, body: bytes) -> None:
    path = f"/api/runs/{mlp.run()}/sql"
    assert mlp.ask(path, method="POST", body=body, Content_Type="application/json").status == 400


def test_texts_may_say_what_they_like(mlp: Client) -> None:
    told = mlp.sql(mlp.run(), "SELECT count(*) AS n FROM ops WHERE name <> 'aten::read_file' -- scan_ it").json
    assert told["rows"][0][0] > 0
    assert json.dumps(told["params"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM generate_series(1, 100000000000)",
        "SELECT lpad(name, 1000000000, 'x') FROM ops",
        "SELECT * FROM ops AS a CROSS JOIN ops AS b CROSS JOIN ops AS c CROSS JOIN ops AS d",
    ],
)
def test_a_query_cannot_take_all_memory(mlp: Client, text: str) -> None:
    answer = mlp.sql(mlp.run(), text)
    assert answer.status == 400
    assert "memory" in answer.error
    assert mlp.sql(mlp.run(), "SELECT count(*) FROM ops").status == 200


@pytest.mark.slow
def test_a_query_cannot_take_for_ever() -> None:
    job = read(MLP)
    with pytest.raises(UsageError, match="longer than 2 s"), ChildProcess(seconds=2) as apart:
        sql(job, "SELECT " + "+".join(["1"] * 5000), apart.execute)


def test_a_query_is_stopped_by_its_ticket(mlp: Client) -> None:
    slow = "SELECT count(*) AS n FROM ops AS a CROSS JOIN ops AS b CROSS JOIN ops AS c CROSS JOIN ops AS d"
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(mlp.sql, mlp.run(), slow, ticket="mine")
        while not answer.done():
            body = json.dumps({"ticket": "mine"}).encode()
            path = f"/api/runs/{mlp.run()}/sql/stop"
            assert mlp.ask(path, method="POST", body=body, Content_Type="application/json").status == 200
            time.sleep(0.05)
    assert answer.result().status == 400
    assert "the query was stopped" in str(answer.result().json)
    assert mlp.sql(mlp.run(), "SELECT 1 AS one", ticket="mine").json["rows"] == [[1]]
