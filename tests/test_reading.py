from __future__ import annotations

import gzip
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from kinetoscope import Job, read, trace_info
from kinetoscope.errors import LimitError, NotATraceError, NotFoundError, UsageError
from kinetoscope.readers.job import probe as job_probe
from kinetoscope.readers.job.ranks import rank_in_name
from kinetoscope.readers.json import probe
from tests import drawn
from tests.catalog.samples import BUNDLED
from tests.conftest import DEMO
from tests.notes import codes

MM = drawn.op("aten::mm", 0, 10)


def distributed(rank: int, world: int = 1) -> dict[str, Any]:
    groups = [{"pg_name": "0", "pg_size": world, "ranks": list(range(world))}]
    return {"distributedInfo": {"backend": "nccl", "pg_config": groups, "rank": rank, "world_size": world}}


def files(job: Job) -> list[tuple[str, int, int]]:
    return [(source.name, source.rank, source.cycle) for source in job.sources]


# --- which files


def test_one_file_is_a_job_of_one_rank(tmp_path: Path) -> None:
    job = read(drawn.written(tmp_path / "odd name", MM))
    assert files(job) == [("odd name", 0, 0)]
    assert job.notes == ()


@pytest.mark.parametrize(
    "suffix", [".json", ".json.gz", ".json.zst", ".pt.trace.json", ".1600000000000.pt.trace.json.gz"]
)
def test_a_folder_is_searched_for_traces_in_all_its_folders(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "2026" / "run").mkdir(parents=True)
    for rank, name in enumerate(("2026/run/rank0", "rank1")):
        drawn.written(tmp_path / f"{name}{suffix}", MM, **distributed(rank, 2))
    for other in ("notes.txt", "model.pt", "2026/.rank7.json", f"rank1{suffix}.meta.json"):
        (tmp_path / other).write_text("{}")
    job = read(tmp_path)
    assert files(job) == [(f"rank0{suffix}", 0, 0), (f"rank1{suffix}", 1, 0)]
    assert job.notes == ()


def test_a_pattern_finds_files_and_folders_each_file_once(tmp_path: Path) -> None:
    (tmp_path / "run1").mkdir()
    drawn.written(tmp_path / "run1" / "rank0.json", MM)
    drawn.written(tmp_path / "run2.rank1.json", MM)
    drawn.written(tmp_path / "other.json", MM)
    (tmp_path / "run2.rank1.json.meta.json").write_text("{}")
    assert files(read(tmp_path / "run*")) == [("rank0.json", 0, 0), ("run2.rank1.json", 1, 0)]
    assert len(read(f"{tmp_path}/**/rank*.json")) == 1
    assert len(read(f"{tmp_path}/**")) == 3


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    assert len(read(drawn.written(tmp_path / "trace[1]*.json", MM))) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.json", "no such file or folder"),
        ("none*.json", "no such file or folder"),
        ("", "no traces in this folder"),
    ],
)
def test_what_is_not_there_is_said(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(NotFoundError, match=message):
        read(tmp_path / name)


EXPORT = "vm_77.rank0of1.step3.17.part"
"""What torch exported, and the recorder has not finished."""


def test_an_unfinished_recording_is_read_where_there_is_nothing_else(tmp_path: Path) -> None:
    drawn.written(tmp_path / "0.json", MM).rename(tmp_path / EXPORT)
    (tmp_path / EXPORT.replace(".part", ".gz.part")).write_bytes(b"half")
    job = read(tmp_path)
    assert files(job) == [(EXPORT, 0, 0)]
    assert "UNFINISHED_RECORDING" in codes(job.notes)


def test_unfinished_recordings_beside_traces_are_left_out_and_said(tmp_path: Path) -> None:
    drawn.written(tmp_path / "0.json", MM)
    (tmp_path / EXPORT).write_text("{")
    job = read(tmp_path)
    assert len(job) == 1
    assert any(note.startswith("Left out: 1 unfinished file of a recording") for note in job.notes)


def test_a_folder_with_nothing_but_remains_says_what_they_are(tmp_path: Path) -> None:
    (tmp_path / EXPORT.replace(".part", ".gz.part")).write_bytes(b"half")
    with pytest.raises(NotFoundError, match="only 1 file of a recording that still runs, or was killed"):
        read(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    file = drawn.written(tmp_path / "0.json", MM)
    file.chmod(0)
    with pytest.raises(NotFoundError, match="cannot be read"):
        read(file)


# --- on other machines


@pytest.fixture
def remote() -> Iterator[str]:
    """A folder of two ranks and other files in a file system that is not local."""
    system = fsspec.filesystem("memory")
    for rank in (0, 1):
        events = [MM] * (rank + 1)
        text = json.dumps({"traceEvents": events}).encode()
        system.pipe(f"/run/rank{rank}.json.gz", gzip.compress(text))
    system.pipe("/run/rank0.json.gz.meta.json", b"{}")
    system.pipe("/run/readme.txt", b"traces")
    yield "memory://run"
    system.rm("/run", recursive=True)


def test_urls_are_files_folders_and_patterns(remote: str) -> None:
    assert files(read(remote)) == [("rank0.json.gz", 0, 0), ("rank1.json.gz", 1, 0)]
    assert files(read(f"{remote}/rank1.json.gz")) == [("rank1.json.gz", 1, 0)]
    assert files(read(f"{remote}/*.gz*")) == [("rank0.json.gz", 0, 0), ("rank1.json.gz", 1, 0)]
    assert [len(read(remote).trace(rank)) for rank in (0, 1)] == [1, 2]


@pytest.mark.parametrize("path", ["memory://run/none.json", "memory://nowhere/*.json", "nosuchprotocol://x/y.json"])
def test_urls_that_lead_nowhere_are_said(path: str) -> None:
    with pytest.raises(NotFoundError, match=r"no such file|no traces there|cannot be read"):
        read(path)


def test_a_remote_folder_without_traces_is_said() -> None:
    system = fsspec.filesystem("memory")
    system.pipe("/empty/readme.txt", b"")
    with pytest.raises(NotFoundError, match="no traces there"):
        read("memory://empty")


# --- which ranks


def test_the_rank_is_what_the_file_says(tmp_path: Path) -> None:
    drawn.written(tmp_path / "rank0.json", MM, **distributed(5))
    (tmp_path / "b.json").write_text('{"distributedInfo":{"rank":2,"world_size":6},"traceEvents":[]}')  # minified
    drawn.written(tmp_path / "c.json", MM, **distributed(4))
    assert files(read(tmp_path)) == [("b.json", 2, 0), ("c.json", 4, 0), ("rank0.json", 5, 0)]
    assert read(tmp_path / "c.json").ranks == (4,)


def test_the_rank_is_had_from_what_is_left_of_the_text(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"distributedInfo": {"backend": "nccl", "rank": 3, "pg_config": [{"pg_name": "0", "ran')
    assert read(file).ranks == (3,)


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("worker3_step_12.1694128201557.pt.trace.json.gz", 3),
        ("rank-34.Jul_15.pt.trace.json", 34),
        ("run/rank_7.json", 7),
        ("worker1_rank12.json", 12),
        ("RANK=5.json", 5),
        ("run/rank3/trace.json", 3),
        ("rank3/run/trace.json", None),
        ("host_4711.1600000000000.pt.trace.json", None),
        ("frank2.json", None),
        ("memory://run/rank0/t.json", 0),
    ],
)
def test_else_it_stands_in_the_name(name: str, rank: int | None) -> None:
    assert rank_in_name(name) == rank


def test_else_files_are_numbered_in_order_of_name_around_the_ranks_that_are_known(tmp_path: Path) -> None:
    for name in ("c", "a", "rank1", "b"):
        drawn.written(tmp_path / f"{name}.json", MM)
    job = read(tmp_path)
    assert files(job) == [("a.json", 0, 0), ("rank1.json", 1, 0), ("b.json", 2, 0), ("c.json", 3, 0)]
    assert job.notes == (
        "1 of 4 files do not state their rank; it is taken from their names (1).",
        "No rank was found in 3 of 4 files; they are numbered in order of name.",
    )


def test_what_stands_behind_the_events_of_a_compressed_file_is_read(tmp_path: Path) -> None:
    """JSON has no order: a file of few bytes is unpacked to its end, though nothing before tells of several ranks."""
    events = [drawn.op(f"aten::op{place}", place, 1) for place in range(60_000)]
    for rank, name in enumerate(("b", "a")):
        text = json.dumps({"traceEvents": events, "distributedInfo": {"rank": rank, "world_size": 2}})
        (tmp_path / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), 1))
    job = read(tmp_path)
    assert files(job) == [("b.json.gz", 0, 0), ("a.json.gz", 1, 0)]
    assert job.notes == ()


def test_several_files_of_a_rank_are_cycles(tmp_path: Path) -> None:
    for cycle in (200, 100):
        for rank in (0, 1):
            drawn.written(tmp_path / f"host{rank}.{cycle}.pt.trace.json", *[MM] * cycle, **distributed(rank, 2))
    job = read(tmp_path)
    assert [(source.rank, source.cycle) for source in job.sources] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [len(job.trace(1, cycle=cycle)) for cycle in (0, 1)] == [100, 200]
    assert job.notes == (
        "Several files have the same rank (0-1): they are read as cycles of the profiler, in order of name.",
    )


def test_ranks_of_the_job_that_are_not_here_are_said(tmp_path: Path) -> None:
    for rank in (1, 4):
        drawn.written(tmp_path / f"{rank}.json", MM, **distributed(rank, 8))
    assert read(tmp_path).notes == ("The job had 8 ranks; missing: 0, 2-3, 5-7.",)
    assert read(tmp_path / "1.json").notes == ()  # who names one file knows that it is one


def test_ranks_can_be_chosen(tmp_path: Path) -> None:
    for rank in range(4):
        drawn.written(tmp_path / f"rank{rank}.json", MM, **distributed(rank, 4))
    assert read(tmp_path, ranks=[3, 1]).ranks == (1, 3)
    assert read(tmp_path, ranks=iter([2, 9])).notes == ("Requested ranks that do not exist: 9.",)
    with pytest.raises(UsageError, match=r"has none of the requested ranks \(7, 9\); it has 0-3"):
        read(tmp_path, ranks=[7, 9])


def after_events(file: Path, rank: int, *events: drawn.Event) -> Path:
    """A trace that says its rank behind its events, as those that were asked for while the job ran do."""
    text = json.dumps({"traceEvents": events, **distributed(rank, 8)}).encode()
    file.write_bytes(gzip.compress(text) if file.suffix == ".gz" else text)
    return file


MANY = [drawn.op(f"aten::mm{k}", k, 1) for k in range(9000)]  # a megabyte
SOME = [drawn.op("c10d::allreduce_", 0, 1), *MANY]


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_the_rank_may_stand_behind_the_events(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "END_TEXT_BYTES", 100_000)
    job = read(after_events(tmp_path / name, 5, *SOME))
    assert (job.ranks, job.notes) == ((5,), ())
    after_events(tmp_path / f"another.{name}", 3, *SOME)
    assert read(tmp_path).ranks == (3, 5)


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_what_a_file_says_behind_its_events_counts_more_than_its_name(tmp_path: Path, ending: str) -> None:
    for name, rank in ("rank0", 3), ("rank1", 2):
        after_events(tmp_path / f"{name}{ending}", rank, *SOME)
    job = read(tmp_path)
    assert {source.name[:5]: source.rank for source in job.sources} == {"rank0": 3, "rank1": 2}
    assert not [note for note in job.notes if "names" in note]


def test_links_to_folders_are_followed_each_folder_once(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    drawn.written(elsewhere / "a.json", MM)
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "latest").symlink_to(elsewhere)
    (elsewhere / "loop").symlink_to(runs)
    assert [source.url for source in read(runs).sources] == [str(runs / "latest" / "a.json")]


def test_a_folder_that_cannot_be_listed_is_said(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root lists every folder")
    tmp_path.chmod(0)
    with pytest.raises(NotFoundError, match="cannot be listed: Permission denied"):
        read(tmp_path)


def test_several_paths_are_one_job(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    files = [drawn.written(run / f"rank{rank}.json", drawn.op("aten::mm", 0, 10 + rank)) for rank in range(2)]
    job = read([*files, run])
    assert (job.ranks, job.path) == ((0, 1), str(run))
    with pytest.raises(UsageError, match="no path was given"):
        read([])


def test_ends_are_looked_for_within_a_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "END_TEXT_BYTES", 100_000)
    monkeypatch.setattr(job_probe, "BUDGET_BYTES", 20_000)
    assert read(after_events(tmp_path / "a.json", 5, *SOME)).ranks == (5,)  # an end can be read alone
    job = read(after_events(tmp_path / "b.json.gz", 6, *SOME))  # a compressed one cannot
    assert job.ranks == (0,)
    assert job.notes == ("Neither end of the trace states its rank; rank 0 is assumed.",)


def test_a_compressed_trace_that_seems_to_be_of_one_rank_is_taken_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "END_TEXT_BYTES", 100_000)
    job = read(after_events(tmp_path / "a.json.gz", 0, *MANY))
    assert (job.ranks, job.notes) == ((0,), ())


def test_else_the_rank_follows_from_the_collectives(tmp_path: Path) -> None:
    for rank in (3, 2):
        said: dict[str, Any] = {"Process Group Ranks": "[0, 1, 2, 3]", "Group size": 4, "Rank": rank}
        reduced = drawn.op("record_param_comms", 0, 10, **{"Collective name": "allreduce", **said})
        drawn.written(tmp_path / f"{9 - rank}.json", reduced)
    job = read(tmp_path)
    assert files(job) == [("7.json", 2, 0), ("6.json", 3, 0)]
    assert job.notes == ("2 of 2 files do not state their rank; it is inferred from their collectives.",)


def test_a_copy_of_a_trace_is_left_out(tmp_path: Path) -> None:
    file = drawn.written(tmp_path / "rank0.json", MM, **distributed(0))
    (tmp_path / "rank0.json.gz").write_bytes(gzip.compress(file.read_bytes()))
    (tmp_path / "rank0 (1).json").write_bytes(file.read_bytes())
    job = read(tmp_path)
    assert files(job) == [("rank0 (1).json", 0, 0)]
    assert job.notes == ("Left out as copies of other files: rank0.json, rank0.json.gz.",)


def test_a_pipe_is_not_looked_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = DEMO.read_bytes()
    writer = threading.Thread(target=lambda: pipe.write_bytes(text))
    writer.start()
    assert len(read(pipe).trace()) > 5000
    writer.join()


def test_names_are_ordered_as_people_count(tmp_path: Path) -> None:
    for rank in (0, 2, 10):
        drawn.written(tmp_path / f"{rank}.json", MM)
    assert [name for name, _, _ in files(read(tmp_path))] == ["0.json", "2.json", "10.json"]


# --- among other files


def test_json_that_is_no_trace_is_left_out_and_named(tmp_path: Path) -> None:
    drawn.written(tmp_path / "trace.json", MM)
    (tmp_path / "config.json").write_text('{"lr": 0.1}')
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "notebook.json").write_text('{"nbformat": 4, "cells": []}')
    job = read(tmp_path)
    assert files(job) == [("trace.json", 0, 0)]
    [note] = job.notes
    others = ["config.json (a JSON object", "empty.json (an empty file)", "notebook.json (a Jupyter notebook)"]
    assert note.code == "NO_TRACE"
    assert all(other in note for other in others)
    assert trace_info(job).notes == (note,)


def test_if_nothing_is_a_trace_it_says_what_it_is(tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / f"{number}.json").write_text('{"nbformat": 4}')
    with pytest.raises(NotATraceError, match=r"none of 7 files is a Kineto trace: 0\.json \(a Jupyter .*, and 2 more$"):
        read(tmp_path)


def test_a_single_file_is_taken_at_its_word_until_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"lr": 0.1}')
    with pytest.raises(NotATraceError, match=r"config\.json: not a Kineto trace: a JSON object"):
        read(tmp_path).trace()


def test_a_rank_that_cannot_be_read_is_reported_and_the_rest_goes_on(tmp_path: Path) -> None:
    drawn.written(tmp_path / "rank0.json", MM, **distributed(0, 3))
    (tmp_path / "rank1.json").write_text('{"distributedInfo": {"rank": 1}, "traceEvents": [{"ph": "X", "na')
    (tmp_path / "rank2.json").symlink_to(tmp_path / "gone.json")
    result = trace_info(read(tmp_path))
    assert result.frame["rank"].unique().to_list() == [0]
    by_name, *failed = result.notes
    assert by_name == "1 of 3 files do not state their rank; it is taken from their names (2)."
    assert [note.partition(":")[0] for note in failed] == ["rank 1 is left out", "rank 2 is left out"]


# --- how


def test_limits_hold_for_each_file(tmp_path: Path) -> None:
    file = drawn.written(tmp_path / "a.json", *[MM] * 500)
    size = file.stat().st_size
    with pytest.raises(LimitError, match="--max-size"):
        read(file, max_size=size - 1).trace()
    assert len(read(file, max_size=size, max_event=size).trace()) == 500


def test_one_file_gets_all_threads_and_many_files_one_each(tmp_path: Path) -> None:
    for rank in range(4):
        drawn.written(tmp_path / f"rank{rank}.json", MM)
    assert {source.options.threads for source in read(tmp_path, jobs=3).sources} == {1}
    assert {source.options.threads for source in read(tmp_path, jobs=3, ranks=[2]).sources} == {3}


def test_progress_counts_the_bytes_as_stored() -> None:
    file = BUNDLED / "mlp.pt.trace.json.gz"
    told: list[int] = []
    read(file, progress=told.append).trace()
    assert sum(told) == file.stat().st_size


def test_there_is_no_other_engine(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no engine 'spark'; engines: threads"):
        read(tmp_path, engine="spark")


def test_nothing_is_read_until_it_is_asked_for(tmp_path: Path) -> None:
    for rank in range(3):
        drawn.written(tmp_path / f"rank{rank}.json", MM)
    job = read(tmp_path)
    for source in job.sources:
        Path(source.url).write_text("")
    with pytest.raises(NotATraceError, match="an empty file"):
        job.trace(2)


# --- what the caller says


def test_a_mapping_gives_each_file_its_rank(tmp_path: Path) -> None:
    first = drawn.written(tmp_path / "a.json", MM, **distributed(0, 2))
    second = drawn.written(tmp_path / "b.json", MM)
    job = read({3: second, 1: first})
    assert files(job) == [("a.json", 1, 0), ("b.json", 3, 0)]
    assert "The traces given as rank 1 name another rank; the given one counts." in job.notes
    with pytest.raises(UsageError, match="is given as rank 0 and as rank 1"):
        read({0: first, 1: first})
    with pytest.raises(UsageError, match="-1 is no rank"):
        read({-1: first})


def test_ranks_may_be_written_as_on_the_command_line(tmp_path: Path) -> None:
    paths = [drawn.written(tmp_path / f"rank{rank}.json", MM) for rank in range(4)]
    assert read(paths, ranks="0,2-3").ranks == (0, 2, 3)
    with pytest.raises(UsageError, match="ranks: 'x' is neither a number nor a range"):
        read(paths, ranks="x")


def test_several_paths_with_one_rank_are_cycles_as_in_a_folder(tmp_path: Path) -> None:
    for name in "ab":
        drawn.written(tmp_path / f"{name}.json", drawn.op(f"aten::{name}", 0, 10), **distributed(0))
    job = read([tmp_path / "a.json", tmp_path / "b.json"])
    assert files(job) == files(read(tmp_path)) == [("a.json", 0, 0), ("b.json", 0, 1)]
    assert "Several files have the same rank (0)" in job.notes[0]


def test_capture_traces_are_found_beside_a_trace_named_or_left_out(tmp_path: Path) -> None:
    run = drawn.written(tmp_path / "run.json", MM)
    (tmp_path / "graph_capture_profile").mkdir()
    found = drawn.written(tmp_path / "graph_capture_profile" / "cuda_graph_capture-Decode-TP-0.json", MM)
    named = drawn.written(tmp_path / "mine.json", MM)
    (tmp_path / "text.json").write_text("[1, 2]")
    for path in (run, tmp_path / "r*.json"):
        job = read(path)
        assert (files(job), job.sources[0].files("capture")) == ([("run.json", 0, 0)], (str(found),))
    assert read(run, capture=named).sources[0].files("capture") == (str(named),)
    assert read(run, capture="off").sources[0].files("capture") == () == read(found).sources[0].files("capture")
    with pytest.raises(NotATraceError, match=r"text\.json: is no Kineto trace of a capture, nor"):
        read(run, capture=[tmp_path / "text.json"])
    with pytest.raises(NotFoundError):
        read(run, capture=tmp_path / "none")
