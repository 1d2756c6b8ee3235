"""`kinetoscope convert`."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kinetoscope import read
from kinetoscope.cli import main
from kinetoscope.errors import NotFoundError
from kinetoscope.model.tables.tables import STORED_TABLES, TABLES
from tests import drawn
from tests.cli.run import MLP, RANKS
from tests.drawn import kernel, launch, op


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
        (["--to", "json"], 2, "json needs an output (-o OUT): a file to write"),
        (["--to", "parquet"], 2, "parquet needs an output (-o OUT): a folder to write"),
        (["--to", "json", "-o", "x", "--critical-path"], 2, "the critical path is drawn for Perfetto, not in json"),
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


@pytest.mark.parametrize("form", ["json", "perfetto"])
def test_the_trace_itself_is_never_written_over(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "trace.json.gz"
    copy.write_bytes(MLP.read_bytes())
    (tmp_path / "link.json.gz").symlink_to(copy)
    for target in (copy, tmp_path / "link.json.gz", tmp_path / "x" / ".." / "trace.json.gz"):
        assert main(["convert", str(copy), "--to", form, "-o", str(target)]) == 2
        assert "is the trace itself: name another place with -o" in capsys.readouterr().err
    assert copy.read_bytes() == MLP.read_bytes()


def test_nor_is_a_folder_of_ranks_or_of_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for source in RANKS.glob("*.gz"):
        (tmp_path / source.name.removesuffix(".gz")).write_bytes(gzip.decompress(source.read_bytes()))
    assert main(["convert", str(tmp_path), "--to", "json", "-o", str(tmp_path)]) == 2
    assert main(["convert", str(MLP), "--to", "parquet", "-o", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert main(["convert", str(tmp_path / "out"), "--to", "parquet", "-o", str(tmp_path / "out")]) == 2
    assert "is the trace itself" in capsys.readouterr().err


# --- Parquet


def test_parquet_has_every_table(tmp_path: Path) -> None:
    assert main(["convert", str(MLP), "--to", "parquet", "-o", str(tmp_path / "out")]) == 0
    assert {path.stem for path in (tmp_path / "out").glob("*.parquet")} == set(STORED_TABLES)
    for name, table in ((name, TABLES[name]) for name in STORED_TABLES):
        frame = pl.read_parquet(tmp_path / "out" / f"{name}.parquet")
        assert dict(frame.schema) == {column.name: column.dtype for column in table.schema}
    assert pl.read_parquet(tmp_path / "out" / "ops.parquet").height > 0


def test_parquet_stands_for_the_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, again = tmp_path / MLP.name, tmp_path / "again.json"
    assert main(["convert", str(MLP), "--to", "parquet", "-o", str(folder)]) == 0
    assert main(["convert", str(folder), "--to", "json", "-o", str(again)]) == 0
    assert content(again) == content(MLP)
    for command in (["summary"], ["doctor"], ["show", "operators"]):
        answers = []
        for path in (MLP, folder):
            assert main([*command, str(path)]) == 0
            answers.append(capsys.readouterr().out.replace(str(folder), str(MLP)))
        assert re.sub(r"MB|kB|[0-9.]+ B", "", answers[0]) == re.sub(r"MB|kB|[0-9.]+ B", "", answers[1])


def test_ranks_become_a_folder_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(RANKS), "--to", "parquet", "-o", str(tmp_path)]) == 0
    answers = []
    for path in (RANKS, tmp_path):
        assert main(["show", "step-breakdown", str(path), "--format", "csv"]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]


# --- Perfetto


def test_perfetto_goes_to_this_folder_and_says_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["convert", str(MLP), "--to", "perfetto"]) == 0
    name = "mlp.pt.trace.perfetto.json.gz"
    assert capsys.readouterr().out.startswith(f"{name}: 2,214 events, ")
    events = content(tmp_path / name)["traceEvents"]
    assert len(events) >= 2214
    with pytest.raises(NotFoundError):
        read(tmp_path)  # what is for Perfetto is no second trace of the run
    assert len(read(tmp_path / name).trace()) == len(events)


def test_counters_stand_with_their_device_and_the_critical_path_is_marked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = [kernel("gemm", 100, 800, 1), kernel("Memcpy HtoD", 950, 50, 2, category="gpu_memcpy", bytes=5000)]
    sync = launch(300, 720, 3, name="cudaDeviceSynchronize")
    events = [op("aten::mm", 0, 50), launch(10, 5, 1), launch(200, 5, 2), sync, *work]
    file = drawn.written(tmp_path / "in.json", *events)
    assert main(["convert", str(file), "--to", "perfetto", "-o", str(tmp_path / "out.json"), "--critical-path"]) == 0
    assert "on the critical path" in capsys.readouterr().out
    written = content(tmp_path / "out.json")["traceEvents"]
    counters: dict[tuple[str, str], list[Any]] = {}
    for event in written:
        if event["ph"] == "C":
            assert event["pid"] == 0
            [(key, value)] = event["args"].items()
            counters.setdefault((event["name"], key), []).append((event["ts"], value))
    assert counters["bandwidth HtoD", "GB/s"] == [(0.95, 100), (1.0, 0)]
    assert counters["queue of stream 7", "launches"] == [(0.01, 1), (0.1, 0), (0.2, 1), (0.95, 0)]
    assert counters["utilization", "%"][0][1] == pytest.approx(0, abs=100)
    critical = {event["name"] for event in written if event.get("args", {}).get("critical")}
    assert "gemm" in critical
    assert {event["ph"] for event in written if event.get("cat") == "critical"} == {"s", "f"}


@pytest.mark.parametrize("form", ["json", "parquet", "perfetto"])
def test_a_url_with_one_slash_makes_no_folder_of_its_name(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["convert", str(MLP.resolve()), "--to", form, "-o", "s3:/bucket/out"]) == 2
    assert "s3://" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
