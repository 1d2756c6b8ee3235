"""`kinetoscope convert`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kinetoscope.cli import main
from kinetoscope.model.tables import TABLES
from tests.cli.run import MLP, RANKS


def content(path: Path) -> Any:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize("name", ["out.json", "new/folder/out.json.gz"])
def test_json_has_everything_again(name: str, tmp_path: Path) -> None:
    assert main(["convert", str(MLP), "--to", "json", "-o", str(tmp_path / name)]) == 0
    assert content(tmp_path / name) == content(MLP)


def test_several_traces_go_into_a_folder(tmp_path: Path) -> None:
    assert main(["convert", str(RANKS), "--to", "json", "-o", str(tmp_path / "out")]) == 0
    sources = sorted(RANKS.glob("*.gz"))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        path.name.removesuffix(".gz") for path in sources
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--to", "json"], 2, "the following arguments are required: -o/--output"),
        (["--to", "yaml", "-o", "x"], 2, "argument --to: invalid choice: 'yaml'"),
        (["--to", "json", "-o", "/proc/nothing/x.json"], 1, "/proc/nothing/x.json: cannot be written"),
    ],
)
def test_what_cannot_be_written(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", str(MLP), *arguments]) == code
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_parquet_has_every_table(tmp_path: Path) -> None:
    assert main(["convert", str(MLP), "--to", "parquet", "-o", str(tmp_path / "out")]) == 0
    assert {path.stem for path in (tmp_path / "out").iterdir()} == set(TABLES)
    for name, table in TABLES.items():
        frame = pl.read_parquet(tmp_path / "out" / f"{name}.parquet")
        assert dict(frame.schema) == {column.name: column.dtype for column in table.schema}
    assert pl.read_parquet(tmp_path / "out" / "ops.parquet").height > 0
