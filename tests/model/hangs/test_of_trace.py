"""What dumps, and where there are none a trace, say of a rank: its calls, its groups, its host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from kinetoscope.model.hangs.of_dumps import LAST_CALLS
from kinetoscope.model.hangs.of_trace import records_of
from kinetoscope.model.hangs.records import Records
from kinetoscope.model.trace.source import Source
from kinetoscope.readers.flight_recorder import load
from kinetoscope.readers.flight_recorder.alone import trace_of
from kinetoscope.reading import read
from tests.conftest import ROOT
from tests.readers.flight_recorder.writing import START, content, dump, entry
from tests.readers.test_snapshots_of_runs import trace

REAL = ROOT / "tests" / "readers" / "flight_recorder" / "data"

WAITING: dict[str, Any] = {
    "state": "scheduled", "retired": False, "time_discovered_started_ns": None, "time_discovered_completed_ns": None,
}  # fmt: skip


def records(entries: list[dict[str, Any]], world: int = 4) -> Records:
    """The records of rank 1, from a dump in NCCL's form."""
    source = Source("dump", rank=1, reader="flight_recorder", companions={"flight_recorder": ("dump",)})
    return records_of(trace_of(source, [load("dump", [content(dump(entries, world=world))])]))


def test_what_gloo_has_retired_is_done_and_its_line_is_the_users() -> None:
    job = read(REAL)
    calls, groups, hosts = records_of(job.trace(0))
    assert calls["state"].to_list() == ["completed"] * 6 + ["scheduled"]
    assert calls["line"].to_list() == ["train.py:10", "train.py:11", "train.py:12", "train.py:13", "train.py:14",
                                       "train.py:28", "train.py:30"]  # fmt: skip
    assert calls["stack"][0].startswith("/job/train.py(22): <module>;/job/train.py(10): step;")
    last = calls.row(-1, named=True)
    assert (last["seq"], last["name"], last["input_sizes"], last["types"]) == (6, "all_reduce", "[16]", "Double")
    assert calls["input_sizes"][5] == "[]"
    assert calls["input_elements"][5] == 1
    reached = groups.select("group", "called", "done", "first_seq").rows()
    assert reached == [("gloo:0 (default_pg)", 6, 5, 1), ("gloo:1 (my_group)", 1, 1, 1)]
    assert hosts.select("rank", "source", "last_time").rows() == [(0, "flight recorder", last["created"])]


def test_members_that_gloo_leaves_out_are_those_of_the_trace(tmp_path: Path) -> None:
    path = trace(tmp_path / "rank0.json")
    config = '"pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}], "rank": 0'
    path.write_text(path.read_text().replace('"rank": 0', config))
    _, groups, hosts = records_of(read(path, flight_recorder=REAL / "nccl_trace_rank_0").trace())
    assert groups.select("group", "ranks").rows() == [("gloo:0 (default_pg)", [0, 1]), ("gloo:1 (my_group)", None)]
    assert hosts["world"].to_list() == [2]


def test_what_nccl_has_retired_without_an_end_has_timed_out() -> None:
    calls, groups, hosts = records([entry(0), entry(1, **WAITING | {"retired": True}), entry(2, **WAITING)])
    assert calls["state"].to_list() == ["completed", "scheduled", "scheduled"]
    assert groups.select("backend", "ranks", "called", "done").rows() == [("nccl", [0, 1, 2, 3], 3, 1)]
    assert hosts["world"].to_list() == [4]
    assert calls["timeout"].to_list() == [600_000_000_000] * 3
    assert calls["completed"].null_count() == 2


def test_sends_have_their_own_numbers_and_the_rank_at_the_other_end() -> None:
    pipeline = {"process_group": ("7", "mesh_pp"), "pg_id": 2, "is_p2p": True}
    names = ["nccl:send 1->2", "nccl:recv 1<-0", "nccl:recv_any 1<-?", "nccl:coalesced"]
    calls, groups, _ = records(
        [
            entry(k, profiling_name=name, p2p_seq_id=5 + k, collective_seq_id=3, **pipeline)
            for k, name in enumerate(names)
        ]
    )
    rows = calls.select("name", "peer", "seq", "is_p2p").rows()
    assert rows == [
        ("send", 2, 5, True),
        ("recv", 0, 6, True),
        ("recv_any", None, 7, True),
        ("coalesced", None, 8, True),
    ]
    reached = groups.filter(group="nccl:7 (mesh_pp)").select("called", "done", "first_seq").row(0)
    assert reached == (None, None, None)


def test_the_last_calls_of_each_group_stay_and_all_that_wait() -> None:
    rare = {"process_group": ("1", "mesh_dp"), "pg_id": 1}
    every = [entry(1000, **WAITING), entry(1001, **rare), *(entry(1002 + k) for k in range(300)), entry(1302, **rare)]
    calls, groups, _ = records(every)
    per_group = calls.group_by("group", maintain_order=True).len().rows()
    assert per_group == [("nccl:0 (default_pg)", LAST_CALLS + 1), ("nccl:1 (mesh_dp)", 2)]
    assert calls["seq"].to_list()[:2] == [1001, 1002]
    assert calls["order"].is_sorted()
    assert groups["first_seq"].to_list() == [1001, 1002]


def test_a_later_dump_says_more_of_a_call(tmp_path: Path) -> None:
    early = dump([entry(0), entry(1, **WAITING)])
    late = dump([entry(1), entry(2, **WAITING)])
    for name, each in (("a_rank_0", late), ("b_rank_0", early)):
        (tmp_path / name).write_bytes(content(each))
    calls, groups, _ = records_of(read(tmp_path).trace())
    assert calls.select("seq", "order", "state").rows() == [
        (1, 0, "completed"), (2, 1, "completed"), (3, 2, "scheduled"),
    ]  # fmt: skip
    assert groups.select("called", "done", "first_seq").rows() == [(3, 2, 1)]


def test_a_trace_without_dumps_says_what_was_done() -> None:
    entries = [entry(k, time_created_ns=START + 10_000_000 * k) for k in range(3)]
    whole = load("dump", [content(dump(entries, world=4))])
    calls, groups, hosts = records_of(trace_of(Source("trace", rank=1), [whole]))
    known, reached, _ = records(entries)
    same = ["rank", "group", "seq", "order", "is_p2p", "name", "input_elements", "output_elements", "state"]
    assert calls.select(same).equals(known.select(same))
    assert groups.equals(reached)
    assert hosts.select("rank", "world", "source").rows() == [(1, 4, "trace")]


def test_nothing_is_said_of_an_empty_trace() -> None:
    assert [len(each) for each in records_of(trace_of(Source("empty"), []))] == [0, 0, 0]
    assert [len(each) for each in records([])] == [0, 1, 1]
    assert isinstance(records([])[0], pl.DataFrame)
