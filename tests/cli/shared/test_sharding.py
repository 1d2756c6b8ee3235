"""`kinetoscope convert --shard`: a run converted by several processes, each as often as it likes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kinetoscope import read, temporal_breakdown
from kinetoscope.cli import main
from tests import drawn

RANKS = 5


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    for rank in range(RANKS):
        drawn.written(tmp_path / "run" / f"rank{rank}.json", *(drawn.op("mm", 10 * k, 5) for k in range(rank + 1)))
    return tmp_path / "run"


@pytest.fixture
def convert(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """Converts a shard; gives what it says."""

    def shard(which: str, code: int = 0) -> str:
        assert main(["convert", str(run), "--shard", which, "--to", "parquet", str(tmp_path / "out")]) == code
        printed = capsys.readouterr()
        return printed.out + printed.err

    return shard


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """Which files there are, and whether they are still the same ones."""
    return {
        str(path.relative_to(folder)): (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.rglob("*.*")
    }


def test_shards_are_the_run(convert: Callable[[str], str], run: Path, tmp_path: Path) -> None:
    assert convert("0/2") == "shard 0/2: 3 traces written\n"
    assert names(tmp_path / "out") == ["rank0", "rank2", "rank4"]
    assert convert("1/2") == "shard 1/2: 2 traces written\n"
    assert names(tmp_path) == ["out", "run"]
    assert temporal_breakdown(read(tmp_path / "out")).frame.equals(temporal_breakdown(read(run)).frame)
    assert [len(read(tmp_path / "out").trace(rank)) for rank in range(RANKS)] == [1, 2, 3, 4, 5]
    assert convert("7/9") == "shard 7/9: 0 traces written\n"


def test_what_is_there_is_left_alone(convert: Callable[[str], str], tmp_path: Path) -> None:
    convert("0/1")
    before = state(tmp_path / "out")
    assert convert("0/1") == "shard 0/1: 0 traces written, 5 there already\n"
    assert state(tmp_path / "out") == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["trace/events.parquet", "trace/values.parquet", "ops.parquet", "origin.txt"])
@pytest.mark.parametrize("harm", ["missing", "cut", "empty"])
def test_what_is_half_there_is_replaced(convert: Callable[[str], str], tmp_path: Path, name: str, harm: str) -> None:
    convert("0/1")
    before = state(tmp_path / "out")
    file = tmp_path / "out" / "rank3" / name
    if harm == "missing":
        file.unlink()
    else:
        os.truncate(file, file.stat().st_size - 5 if harm == "cut" else 0)
    assert convert("0/1") == "shard 0/1: 1 trace written, 4 there already\n"
    after = state(tmp_path / "out")
    assert after.keys() == before.keys()
    assert {key for key in after if after[key] != before[key]} == {key for key in after if key.startswith("rank3/")}
    assert len(read(tmp_path / "out").trace(3)) == 4


def test_a_trace_that_changed_is_converted_again(convert: Callable[[str], str], run: Path, tmp_path: Path) -> None:
    convert("0/1")
    drawn.written(run / "rank1.json", drawn.op("addmm", 0, 1))
    assert convert("0/1") == "shard 0/1: 1 trace written, 4 there already\n"
    assert len(read(tmp_path / "out").trace(1)) == 1


def test_a_rank_that_cannot_be_read_is_said_and_the_others_are_written(
    convert: Callable[..., str], run: Path, tmp_path: Path
) -> None:
    (run / "rank1.json").write_text('{"traceEvents": [{"ph": "X", "na')
    said = convert("0/1", code=1)
    assert "shard 0/1: 4 traces written, 1 cannot be read\n" in said
    assert "rank 1: " in said
    assert read(tmp_path / "out").ranks == (0, 2, 3, 4)
    assert names(tmp_path) == ["out", "run"]


@pytest.mark.slow
def test_two_may_do_the_same_at_the_same_time(run: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "kinetoscope",
        "convert",
        str(run),
        "--shard",
        "0/1",
        "--to",
        "parquet",
        "-o",
        "out",
    ]
    both = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait(120) for process in both] == [0, 0]
    assert names(tmp_path) == ["out", "run"]
    assert [len(read(tmp_path / "out").trace(rank)) for rank in range(RANKS)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shard", "2/2", "--to", "parquet", "-o", "x"], "'2/2': shards count from 0, so the last of 2 is 1/2"),
        (["--shard", "0/0", "--to", "parquet", "-o", "x"], "'0/0': shards count from 0"),
        (["--shard", "-1/2", "--to", "parquet", "-o", "x"], "argument --shard: expected one argument"),
        (["--shard", "1", "--to", "parquet", "-o", "x"], "'1' is no shard: which one, from 0, and of how many"),
        (["--shard", "0/2", "--to", "json", "-o", "x"], "--shard makes a folder of traces as Parquet, not json"),
        (["--shard", "0/2", "--to", "parquet"], "parquet needs an output (-o OUT): a folder to write"),
        (
            ["--shard", "0/2", "--to", "parquet", "-o", "s3://b/x"],
            "s3://b/x: convert writes Parquet to folders of this machine",
        ),
        (["--shard", "0/2", "--to", "parquet", __file__], "is a file: name the folder to write to"),
    ],
)
def test_what_is_no_shard_is_said(
    arguments: list[str], message: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", str(run), *arguments]) == 2
    assert message in capsys.readouterr().err
