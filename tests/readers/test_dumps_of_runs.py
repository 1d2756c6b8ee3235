"""Which dumps of the Flight Recorder belong to which rank of a run, and what a dump is by itself."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from backports import zstd

import kinetoscope
from kinetoscope.cli.shared.options import Parser, add_reading
from kinetoscope.errors import NotATraceError
from kinetoscope.model.flight_recorder.of_trace import dumps_of
from kinetoscope.model.health.check import examine
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.answered import answered, page_of
from kinetoscope.reading import read
from tests.notes import codes
from tests.readers.flight_recorder.writing import START, content, dump, entry
from tests.readers.test_snapshots_of_runs import snapshot, trace

REAL = Path(__file__).parent / "flight_recorder" / "data"


def written(path: Path, form: Any = "c++", world: int = 2, **other: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content(dump([entry(0, **other), entry(1, **other)], world=world), form))
    return path


def names(path: Path, **options: Any) -> dict[int, list[str]]:
    sources = read(path, **options).sources
    return {each.rank: [Path(url).name for url in each.files("flight_recorder")] for each in sources}


@pytest.mark.parametrize(
    "name", ["nccl_trace_rank_{}", "comm_lib_trace_rank_{}", "hang-{}", "out{}.pkl", "rank{}.json"]
)
def test_dumps_alone_are_a_run_whatever_their_prefix(tmp_path: Path, name: str) -> None:
    form = "json" if name.endswith("json") else "c++"
    for rank in (0, 1, 3):
        written(tmp_path / name.format(rank), form, world=4)
    (tmp_path / "notes1").write_text("no dump")
    job = read(tmp_path)
    assert [each.rank for each in job.sources] == [0, 1, 3]
    assert {"DUMPS_ALONE", "RANKS_MISSING"} <= {*codes(job.notes)}
    assert len(dumps_of(job.trace(3))[0].entries) == 2


@pytest.mark.parametrize(("ending", "packed"), [("", bytes), (".gz", gzip.compress), (".zst", zstd.compress)])
def test_a_dump_is_read_by_any_name_and_compressed(tmp_path: Path, ending: str, packed: Any) -> None:
    path = written(tmp_path / "nccl_trace_rank_5")
    file = tmp_path / f"nccl_trace_rank_5.copy{ending}"
    file.write_bytes(packed(path.read_bytes()))
    assert dumps_of(read(file).trace())[0].entries.op.tolist() == [1, 2]


def test_dumps_beside_traces_are_theirs(tmp_path: Path) -> None:
    for rank in (0, 1):
        trace(tmp_path / f"rank{rank}.json", rank)
    written(tmp_path / "nccl_trace_rank_1")
    written(tmp_path / "flight_recorder" / "gloo_trace_rank_1", profiling_name="gloo:barrier")
    written(tmp_path / "nccl_trace_rank_7")
    job = read(tmp_path)
    assert names(tmp_path) == {0: [], 1: ["gloo_trace_rank_1", "nccl_trace_rank_1"]}
    assert codes(job.notes) == ["DUMPS_LEFT_OUT", "RANKS_WITHOUT_DUMP"]
    assert [dump.groups[0].backend for dump in dumps_of(job.trace(1))] == ["gloo", "nccl"]
    assert names(tmp_path / "rank1.json") == {1: ["gloo_trace_rank_1"]}  # those of the folder that is theirs
    assert names(tmp_path, flight_recorder="off") == {0: [], 1: []}
    with pytest.raises(NotATraceError, match="no dump of the Flight Recorder"):
        read(tmp_path, flight_recorder=snapshot(tmp_path / "s.pickle"))
    assert names(tmp_path, flight_recorder=tmp_path / "nccl_trace_rank_1") == {0: [], 1: ["nccl_trace_rank_1"]}


def test_dumps_of_several_backends_are_one_run(tmp_path: Path) -> None:
    for rank in (0, 1):
        written(tmp_path / f"nccl_trace_rank_{rank}")
        written(tmp_path / f"gloo_trace_rank_{rank}", profiling_name="gloo:all_reduce", time_created_ns=START + 7)
    job = read(tmp_path)
    assert [(each.rank, each.cycle) for each in job.sources] == [(0, 0), (1, 0)]
    assert "CYCLES_BY_NAME" not in codes(job.notes)
    calls = kinetoscope.collectives(job).frame
    assert calls["calls"].sum() == 2 * 2


def test_a_call_in_several_dumps_is_one() -> None:
    """The same dumps as pickles and as JSON: nothing counts twice, and stacks are those of the pickles."""
    job = read(REAL)
    assert [len(each.files("flight_recorder")) for each in job.sources] == [2, 2]
    assert [len(job.trace(rank)) for rank in (0, 1)] == [7, 6]


@pytest.mark.slow
def test_collectives_of_dumps_answer_as_those_of_traces(tmp_path: Path) -> None:
    """Rank 2 comes 3 ms late to every call; what is transferred takes 2 ms."""
    for rank in range(4):
        late = 3_000_000 if rank == 2 else 0
        calls = [
            entry(
                k,
                time_created_ns=START + 20_000_000 * k + late,
                time_discovered_completed_ns=START + 20_000_000 * k + 5_000_000,
                duration_ms=2.0 if late else 5.0,
            )
            for k in range(40)
        ]
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(content(dump(calls, world=4)))
    job = read(tmp_path)
    [row] = kinetoscope.collectives(job).frame.rows(named=True)
    facts = (row["process_group"], row["kind"], row["dtype"], row["bytes"], row["calls"], row["matched"])
    assert facts == ("0 default_pg [0-3]", "all_reduce", "bfloat16", 64 * 1024 * 2, 40, 40)
    assert row["waiting"] == 40 * 3 * 3_000_000
    assert row["bus_bandwidth"] == pytest.approx(64 * 1024 * 2 / 2e-3 * 2 * 3 / 4)
    stragglers = kinetoscope.stragglers(job).frame.filter(pl.col("lost") > 0)
    assert stragglers.select("rank", "late").rows() == [(2, 3_000_000)]
    assert kinetoscope.process_groups(job).frame["ranks"].to_list() == ["0-3"]
    assert {each.code for each in kinetoscope.advise(job).findings} <= {"RANKS005"}  # nothing is known of the host


def test_doctor_says_what_lies_there(tmp_path: Path) -> None:
    path = tmp_path / "nccl_trace_rank_0"
    calls = [entry(100 + k, frames=[]) for k in range(3)]
    calls.append(entry(103, frames=[], state="started", retired=False, time_discovered_completed_ns=None))
    for each in calls:
        del each["duration_ms"]
    path.write_bytes(content(dump(calls)))
    health = examine(read(path).trace())
    assert codes(health) == ["DUMP_WITHOUT_DURATIONS", "DUMP", "DUMP_OVERFLOWED", "DUMP_WITHOUT_STACKS"]
    assert "format 2.10, library 2.27.5: 4 calls of 1 group, 1 not done" in health["DUMP"]
    assert health["DUMP_OVERFLOWED"].number == 100
    whole = path.read_bytes()
    for size, code in ((len(whole) - 9, "DUMP_DAMAGED"), (300, "DUMP_UNREADABLE")):
        path.write_bytes(whole[:size])
        beside = read(trace(tmp_path / "rank0.json"), flight_recorder=path, ranks=[0])
        assert code in examine(beside.trace())


def test_the_option_of_the_command_line_is_named_as_others_are(tmp_path: Path) -> None:
    trace(tmp_path / "rank0.json")
    parser = Parser()
    add_reading(parser)
    args = parser.parse_args([str(tmp_path), "--flight-recorder", str(written(tmp_path / "d_rank_0"))])
    assert args.flight_recorder == [str(tmp_path / "d_rank_0")]


def test_dumps_in_a_store_are_read_as_those_here(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    for rank in (0, 1):
        content_here = written(tmp_path / f"nccl_trace_rank_{rank}").read_bytes()
        with fsspec.open(f"memory://dumps/hang/nccl_trace_rank_{rank}", "wb") as file:
            file.write(content_here)
    job = read("memory://dumps/hang")
    assert [len(dumps_of(job.trace(each.rank))[0].entries) for each in job.sources] == [2, 2]


def test_other_json_is_as_before(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"version": 3, "weights": []}))
    with pytest.raises(NotATraceError):
        read(tmp_path).trace()


def test_a_file_beside_dumps_that_has_only_the_name_of_a_trace_is_named_and_left_out(tmp_path: Path) -> None:
    for rank in (0, 1):
        written(tmp_path / f"nccl_trace_rank_{rank}")
    (tmp_path / "config.json").write_text('{"lr": 3}')
    job = read(tmp_path)
    assert [each.reader for each in job.sources] == ["flight_recorder"] * 2
    [note] = [each for each in job.notes if each.code == "NO_TRACE"]
    assert "config.json" in note


def test_the_ranks_are_asked_once_for_all_faces_of_a_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in (0, 1):
        written(tmp_path / f"nccl_trace_rank_{rank}")
    job = read(tmp_path)
    asked: list[int] = []
    ask = job.engine.ask

    def counted(sources: Any, questions: Any) -> Any:
        asked.append(len(sources))
        return ask(sources, questions)

    monkeypatch.setattr(job.engine, "ask", counted)
    assert kinetoscope.hang(job).frame.height
    answered(page_of("hang", job, Selection(), {}), job, Selection())
    assert asked == [2]


def test_a_rank_whose_dump_is_damaged_is_not_said_to_be_missing_for_sure(tmp_path: Path) -> None:
    """Rank 1 has recorded 2 of 3 calls before the damage; of rank 2 nothing can be read."""
    waits = {"state": "scheduled", "retired": False, "time_discovered_completed_ns": None}
    for rank in range(3):
        calls = [entry(0), entry(1), entry(2, **waits)]
        whole = content(dump(calls, world=3), "c++")
        size = len(whole) if rank == 0 else len(whole) - 300 if rank == 1 else whole.index(b"entries") + 20
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(whole[:size])
    job = read(tmp_path)
    answer = kinetoscope.hang(job)
    assert {(row["cause"], row["certainty"], row["ranks"]) for row in answer.frame.to_dicts()} == {
        ("missing rank", "guess", "1-2")
    }
    said = page_of("hang", job, Selection(), {}).sentence
    assert "not known to have come to all_reduce 3" in said
    assert "the file ends before the dump does" in said
    assert {"DUMP_DAMAGED", "RANKS_LEFT_OUT"} <= {*codes(answer.notes)}
    states = kinetoscope.collective_states(job).frame
    assert dict(states.select("rank", "state").iter_rows()) == {0: "scheduled", 1: "no records", 2: "no records"}
