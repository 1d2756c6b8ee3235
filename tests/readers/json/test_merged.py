"""Merged files of several ranks, made as SGLang makes them: each part equals the rank's own file."""

from __future__ import annotations

import gzip
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import kinetoscope
from kinetoscope.cli import main
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers.files import whole
from kinetoscope.readers.files.stream import Text
from kinetoscope.readers.json import kineto, merged
from kinetoscope.reading import read
from tests import drawn

LABELS = ("[TP00-DP00]", "[TP01-DP00]", "[TP00-DP01]", "[TP01-DP01]")


def of_rank(rank: int) -> dict[str, Any]:
    """A trace in which each rank does another number of things, with the same ids."""
    events: list[drawn.Event] = [
        {"ph": "M", "name": "process_name", "pid": 100 + rank, "tid": 0, "ts": 0, "args": {"name": "python"}},
        {"ph": "X", "cat": "Trace", "ts": 0, "dur": 90, "pid": "Spans", "tid": "PyTorch Profiler", "name": "P"},
    ]
    for n in range(3 + rank):
        shapes: dict[str, Any] = {"External id": n + 1, "Input Dims": [[rank + 2, 2]]}
        events += [
            drawn.event("cpu_op", f"aten::mm{n}", 1000 * n, 500, pid=100 + rank, **shapes),
            drawn.event("cuda_runtime", "cudaLaunchKernel", 1000 * n + 100, 50, pid=100 + rank, correlation=n + 1),
            drawn.kernel(f"gemm{n % 2}", 1000 * n + 300, 400 + rank, n + 1, device=rank),
        ]
    info = {"backend": "nccl", "rank": rank, "world_size": 4}
    return {"schemaVersion": 1, "baseTimeNanoseconds": 1, "distributedInfo": info, "traceEvents": events}


def written(folder: Path) -> Path:
    """The merged file, and those of the ranks in a folder beside it."""
    whole: dict[str, Any] = {"traceEvents": []}
    (folder / "ranks").mkdir(parents=True)
    for rank, label in enumerate(LABELS):
        trace = of_rank(rank)
        (folder / "ranks" / f"rank{rank}.json").write_text(json.dumps(trace))
        for event in trace.pop("traceEvents"):
            whole["traceEvents"].append({**event, "pid": f"{label} {event['pid']}"})
        whole = {**trace, **whole}
    file = folder / "merged-17.trace.json.gz"
    file.write_bytes(gzip.compress(json.dumps(whole).encode()))
    return file


def test_each_part_is_the_trace_of_its_rank(tmp_path: Path) -> None:
    job, own = read(written(tmp_path)), read(tmp_path / "ranks")
    assert job.ranks == (0, 1, 2, 3)
    assert job.notes == ("The file holds 4 ranks, by the labels of its processes (2 DP × 2 TP).",)
    for rank in job.ranks:
        part, trace = job.trace(rank), own.trace(rank)
        assert list(part.events()) == list(trace.events())
        assert part.metadata == trace.metadata
        assert [each.code for each in part.health] == [each.code for each in trace.health]
    for name in ("kernels", "operators", "launches", "device_utilization", "temporal_breakdown"):
        assert getattr(kinetoscope, name)(job).frame.equals(getattr(kinetoscope, name)(own).frame), name


def test_a_part_is_stored_as_parquet(tmp_path: Path) -> None:
    file = written(tmp_path)
    assert main(["convert", str(file), "--to", "parquet", "-o", str(tmp_path / "stored")]) == 0
    stored, own = read(tmp_path / "stored"), read(tmp_path / "ranks")
    assert [list(stored.trace(n).events()) for n in range(4)] == [list(own.trace(n).events()) for n in range(4)]


def test_ranks_that_nobody_asks_for_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "KEEP_SECONDS", 0.05)
    assert len(read(written(tmp_path)).trace(2)) == 17
    for _ in range(100):
        if merged._MERGED_FILE.content is None:
            return
        time.sleep(0.02)
    raise AssertionError("it is kept for ever")


def test_the_file_is_read_once_for_all_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    real = kineto.read

    def counted(source: Source, text: Text) -> Trace:
        reads.append(source.part)
        return real(source, text)

    monkeypatch.setattr(kineto, "read", counted)
    job = read(written(tmp_path))
    with ThreadPoolExecutor(4) as pool:
        assert sorted(map(len, pool.map(job.trace, job.ranks))) == [11, 14, 17, 20]
    assert reads == [""]
    assert merged._MERGED_FILE.content is None  # nothing is kept when every rank has its part


def test_a_file_that_changed_is_read_anew(tmp_path: Path) -> None:
    file = written(tmp_path)
    assert len(read(file).trace(0)) == 11
    (tmp_path / "other").mkdir()
    again = json.loads(gzip.decompress(file.read_bytes()))
    again["traceEvents"] = [each for each in again["traceEvents"] if not each["pid"].startswith("[TP00-DP00] S")]
    file.write_bytes(gzip.compress(json.dumps(again).encode()))
    assert len(read(file).trace(0)) == 10


def test_beside_the_files_of_its_ranks_it_is_a_copy(tmp_path: Path) -> None:
    file = written(tmp_path / "a")
    folder = tmp_path / "run"
    folder.mkdir()
    file.rename(folder / file.name)
    for rank in range(4):
        (tmp_path / f"a/ranks/rank{rank}.json").rename(folder / f"17-TP-{rank % 2}-DP-{rank // 2}.trace.json")
    job = read(folder)
    assert [(each.rank, each.part) for each in job.sources] == [(0, ""), (1, ""), (2, ""), (3, "")]
    assert "Left out as copies of other files: merged-17.trace.json.gz." in job.notes


def test_a_merged_file_that_ends_early_has_the_ranks_that_are_left(tmp_path: Path) -> None:
    file = written(tmp_path)
    text = gzip.decompress(file.read_bytes())
    file.with_suffix("").write_bytes(text[: text.index(b"[TP00-DP01]")])
    job = read(file.with_suffix(""))
    assert job.ranks == (0, 1)
    assert len(job.trace(0)) == 11


def test_ranks_of_a_merged_file_are_chosen_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path)
    assert read(file, ranks="1,3").ranks == (1, 3)
    assert main(["convert", str(file), "--to", "perfetto", "-o", str(tmp_path / "out")]) == 0
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [
        f"merged-17.trace-{label[1:-1]}.perfetto.json.gz" for label in sorted(LABELS)
    ]
    capsys.readouterr()
