"""Several ranks in one file for Perfetto: apart from one another, on one clock, and all of their events."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import kinetoscope
from kinetoscope import Job, read
from kinetoscope.cli import main
from kinetoscope.errors import NotATraceError
from kinetoscope.model.collectives.attributes import BINDING
from kinetoscope.model.collectives.calls import collective_calls, with_source
from kinetoscope.model.matching.match import match_and_align
from tests.catalog.samples import SHARED, required
from tests.drawn import Event, kernel, launch, op, written

PROCESS_NAMES = ("process_name", "process_labels", "process_sort_index")


def merged(job: Job, folder: Path) -> list[Event]:
    events: list[Event] = document(job, folder)["traceEvents"]
    return events


def document(job: Job, folder: Path) -> dict[str, Any]:
    file = folder / "out" / "all.json.gz"
    kinetoscope.convert(job, file, to="perfetto")
    whole: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return whole


def ranks_by_pid(events: list[Event]) -> dict[int, int]:
    """The rank of each process, as its name has it."""
    return {event["pid"]: int(event["args"]["name"].split()[1]) for event in events if event["name"] == "process_name"}


def flow(phase: str, time: int, pid: int, tid: int) -> Event:
    place = {"ph": phase, "id": 1, "pid": pid, "tid": tid, "ts": time / 1000, "cat": "ac2g", "name": "ac2g"}
    return place | ({"bp": "e"} if phase == "f" else {})


def rank(folder: Path, number: int, clock: int) -> None:
    """A rank of a machine whose clock is ahead, with one launch, and collectives that all ranks leave together."""
    ends = [(n + 1) * 100_000 + 7_000 * (n % 3) for n in range(20)]
    late = 1000 * number
    collectives = [
        kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", clock + end - 9_000 + late, 9_000 - late, 100 + place)
        for place, end in enumerate(ends)
    ]
    (folder / "run").mkdir(exist_ok=True)
    written(
        folder / "run" / f"rank{number}.json",
        op("aten::mm", clock, 50),
        launch(clock + 10, 20, 1),
        flow("s", clock + 10, 1, 1),
        kernel("gemm", clock + 40, 100, 1),
        flow("f", clock + 40, 0, 7),
        *collectives,
        distributedInfo={"rank": number, "world_size": 2, "backend": "nccl"},
        host_name=f"node{number}",
    )


def test_ranks_have_processes_and_arrows_of_their_own(tmp_path: Path) -> None:
    for number in range(2):
        rank(tmp_path, number, 0)
    events = merged(read(tmp_path / "run"), tmp_path)
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {"rank 0 · process 1", "rank 0 · GPU 0", "rank 1 · process 1", "rank 1 · GPU 0"}
    of_rank = ranks_by_pid(events)
    assert len(of_rank) == 4
    arrows = [(event["id"], event["ph"], of_rank[event["pid"]]) for event in events if event["ph"] in "sf"]
    assert sorted(arrows) == [(1, "f", 0), (1, "s", 0), (2, "f", 1), (2, "s", 1)]
    counters = Counter((event["name"], event["pid"]) for event in events if event["ph"] == "C")
    assert {of_rank[pid] for _, pid in counters} == {0, 1}


def test_a_clock_that_is_ahead_is_set_by_the_ends_of_collectives(tmp_path: Path) -> None:
    rank(tmp_path, 0, 0)
    rank(tmp_path, 1, 5_000_000)
    one, other = kinetoscope.convert(read(tmp_path / "run"), tmp_path / "all.json.gz", to="perfetto")
    assert (one.path, one.rank, other.rank) == (str(tmp_path / "all.json.gz"), 0, 1)
    assert "Clocks were aligned by the ends of collectives: 1 of 2 were wrong by up to 5.000 ms" in one.notes[0]
    events = merged(read(tmp_path / "run"), tmp_path)
    of_rank = ranks_by_pid(events)
    ends: dict[int, list[float]] = {0: [], 1: []}
    for event in events:
        if event["ph"] == "X" and event["name"].startswith("nccl"):
            ends[of_rank[event["pid"]]].append(round(float(event["ts"]) + float(event["dur"]), 3))
    assert ends[0] == ends[1]
    assert min(float(event["ts"]) for event in events if event["ph"] == "X") == 0


@pytest.mark.slow
def test_of_real_ranks_every_event_is_there_and_collectives_overlap(tmp_path: Path) -> None:
    job = read(required(SHARED / "dlrm_ddp_v100_8rank"), jobs=2)
    whole = document(job, tmp_path)
    events = whole["traceEvents"]
    of_rank = ranks_by_pid(events)
    spans = Counter((of_rank[each["pid"]], each["name"]) for each in events if each["ph"] == "X")
    traces = [job.trace(number) for number in job.ranks]
    recorded = ((trace.source.rank, each["name"]) for trace in traces for each in trace.events() if each["ph"] == "X")
    assert spans == Counter(recorded)
    calls = pl.concat([with_source(collective_calls(trace), trace) for trace in traces])
    aligned = match_and_align(calls).frame
    times = {
        (of_rank[each["pid"]], each["name"], whole["baseTimeNanoseconds"] + round(float(each["ts"]) * 1000))
        for each in events
        if each["ph"] == "X"
    }
    assert len(aligned) > 60
    assert set(aligned.select("rank", "name", "start").rows()) <= times
    binding = aligned.filter(pl.col("match").is_not_null() & pl.col("kind").is_in(BINDING))
    overlap = binding.group_by("match").agg(together=pl.col("end").min() - pl.col("start").max())
    assert (overlap["together"] >= 0).mean() > 0.9  # type: ignore[operator]


def test_the_command_writes_one_file_where_it_is_named_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        rank(tmp_path, number, 0)
    monkeypatch.chdir(tmp_path)
    run = [str(tmp_path / "run"), "--to", "perfetto"]
    for more, file in (
        (["-o", "all.json.gz"], "all.json.gz"),
        (["--merge-ranks"], "run.perfetto.json.gz"),
    ):
        assert main(["convert", *run, *more]) == 0
        assert capsys.readouterr().out.startswith(f"{file}: 2 ranks, ")
        assert json.loads(gzip.decompress(Path(file).read_bytes()))["traceEvents"]
        Path(file).unlink()
    assert main(["convert", *run, "-o", "folder"]) == 0
    assert len(list(Path("folder").iterdir())) == 2
    assert main(["convert", str(tmp_path / "run"), "--to", "json", "--merge-ranks", "-o", "x"]) == 2
    assert "ranks are merged for Perfetto" in capsys.readouterr().err


def test_cycles_of_a_rank_share_its_processes_and_odd_times_are_left_out(tmp_path: Path) -> None:
    stray: dict[str, Any] = op("odd", 0, 1)
    (tmp_path / "run").mkdir()
    for cycle, start in ((0, 10**18), (1, 10**18 + 10**9)):
        drawn = (op("a", start, 50), kernel("k", start + 10, 100, 1), *([stray] if cycle else []))
        written(
            tmp_path / "run" / f"w_0.{cycle + 1000}.pt.trace.json",
            *drawn,
            distributedInfo={"rank": 0, "world_size": 1},
        )
    file, _ = kinetoscope.convert(read(tmp_path / "run"), tmp_path / "all.json.gz", to="perfetto")
    assert "1 event with impossible times left out." in file.notes
    events = merged(read(tmp_path / "run"), tmp_path)
    spans = [(event["name"], event["pid"], float(event["ts"])) for event in events if event["ph"] == "X"]
    assert [name for name, _, _ in spans] == ["a", "k", "a", "k"]
    assert spans[0][1] == spans[2][1]
    assert [round(time) for _, _, time in spans] == [0, 0, 1_000_000, 1_000_000]


def test_a_merged_file_is_no_trace_of_one_rank(tmp_path: Path) -> None:
    for number in range(2):
        rank(tmp_path, number, 0)
    kinetoscope.convert(read(tmp_path / "run"), tmp_path / "run" / "all.json.gz", to="perfetto")
    assert read(tmp_path / "run").ranks == (0, 1)
    assert len(read(tmp_path / "run")) == 2
    with pytest.raises(NotATraceError, match="the ranks of a job merged into one file for Perfetto"):
        read(tmp_path / "run" / "all.json.gz").trace()
