"""Files of torch's own allocator (`real/README.md`): read whole, played backwards without a fault, causes named."""

from __future__ import annotations

import gzip
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kinetoscope import memory_curve, memory_peak
from kinetoscope.model.memory.record import Level
from kinetoscope.model.snapshot.replay import history_of, level_of
from kinetoscope.model.snapshot.snapshot import NONE
from kinetoscope.outputs.summary import summary
from kinetoscope.pages.blocks import NoteBlock
from kinetoscope.readers.snapshot import load
from kinetoscope.reading import read
from tests.snapshots.allocator import Settings
from tests.snapshots.process import START_US, Process
from tests.snapshots.real.record import RECORDED
from tests.snapshots.writing import write

LEVELS: tuple[Level, ...] = ("allocated", "active", "reserved")

FILES = sorted((Path(__file__).parent / "real").glob("*.pickle.gz"))


def test_each_program_was_recorded_with_two_versions() -> None:
    assert {path.name for path in FILES} == {
        f"{name}_{version}.pickle.gz" for name in RECORDED for version in ("2.13.0", "2.15.0")
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".pickle.gz"))
def test_it_is_read_whole_and_played_back_to_nothing(path: Path) -> None:
    snapshot = load(str(path), iter([gzip.decompress(path.read_bytes())]))
    assert list(snapshot.devices) == ([0, 1] if path.name.startswith("two_devices") else [0])
    for device in snapshot.devices:
        past = history_of(snapshot, device)
        assert past is not None
        assert past.impossible == 0
        assert not (past.allocated_at == NONE).any()  # the history began before the first allocation
        levels = [level_of(snapshot, past, what) for what in LEVELS]
        assert all(each[0] == 0 for each in levels)
        for lower, upper in pairwise(levels):
            assert (lower <= upper).all()
        held = snapshot.segments.device == device
        assert levels[-1][-1] == snapshot.segments.size[held].sum()


def said(name: str, version: str = "2.15.0") -> str:
    folder = Path(__file__).parent / "real"
    return " ".join(str(summary(str(folder / f"{name}_{version}.pickle.gz"))).split())


@pytest.mark.parametrize("version", [pytest.param("2.13.0", marks=pytest.mark.slow), "2.15.0"])
def test_the_summary_leads_with_what_was_planted(version: str) -> None:
    assert re.search(r"cuda:0 had no 524 MB for the request at programs.py:\d+: live data", said("too_much", version))
    assert re.search(r"had no 105 MB for the request at programs.py:\d+: fragmentation", said("fragmentation", version))
    leak = said("leak", version)
    assert "It grows by 32.8 MB a step: a leak." in leak
    assert "MEMORY005" in leak
    healthy = said("training", version)
    assert "leak" not in healthy
    assert "had no" not in healthy
    for text in (leak, healthy):  # what a trace would be told of
        assert not re.search("device work|A step takes|No memory events|costs time", text)


def test_doctor_has_nothing_to_say_of_whole_snapshots() -> None:
    assert not [path.name for path in FILES if read(str(path)).trace().health]


def codes(snapshot: dict[str, Any], folder: Path, beside: str = "") -> dict[str, str]:
    write(folder / f"{beside.removesuffix('.json') or 'snapshot'}.memory.pickle", snapshot)
    path = folder / beside if beside else folder / "snapshot.memory.pickle"
    return {each.code: str(each) for each in read(str(path)).trace().health}


def test_doctor_says_what_a_snapshot_lacks(tmp_path: Path) -> None:
    process = Process(Settings(), total=1 << 32)
    kept = process.alloc("aten::empty", 1 << 20)
    assert list(codes(process.snapshot(), tmp_path)) == ["SNAPSHOT_WITHOUT_HISTORY"]
    process.record(max_entries=1000)
    for _ in range(600):
        process.free(process.alloc("aten::empty", 1 << 10))
    process.free(kept)
    found = codes(process.snapshot(), tmp_path)
    assert "SNAPSHOT_TRUNCATED" in found
    assert "its last 1,000 events" in found["SNAPSHOT_TRUNCATED"]
    late = Process(Settings(), total=1 << 32)
    late.alloc("aten::empty", 9 << 20)
    late.record()
    late.alloc("aten::empty", 1 << 20)
    assert codes(late.snapshot(), tmp_path)["SNAPSHOT_WITHOUT_STACKS"].startswith("90% of the bytes in use on cuda:0")


def test_doctor_says_that_a_snapshot_is_of_another_time_than_its_trace(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1000.0, "dur": 5.0}
    process = Process(Settings(), total=1 << 32)
    process.record()
    process.alloc("aten::empty", 1 << 20)
    began = process.snapshot()["device_traces"][0][0]["time_us"]
    for apart, said_so in ((0, False), (3_600_000_000, True)):
        base = (began - 1000 + apart) * 1000
        (tmp_path / "a.json").write_text(json.dumps({"baseTimeNanoseconds": base, "traceEvents": [event]}))
        found = codes(process.snapshot(), tmp_path, "a.json")
        assert ("SNAPSHOT_APART" in found) == said_so, found
        assert "NO_MEMORY" not in found


def test_a_snapshot_of_another_time_than_its_trace_has_no_instants(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1000.0, "dur": 5.0}
    (tmp_path / "a.json").write_text(
        json.dumps({"baseTimeNanoseconds": 1_700_000_000_000_000_000, "traceEvents": [event]})
    )
    process = Process(Settings(), total=1 << 32)
    process.record()
    process.alloc("aten::empty", 1 << 20)
    write(tmp_path / "other.pickle", process.snapshot())
    job = read(str(tmp_path / "a.json"), jobs=1, snapshot=str(tmp_path / "other.pickle"))
    peak = memory_peak(job)
    assert peak.frame.get_column("time").to_list() == [None]
    assert peak.frame.get_column("size").to_list() == [1 << 20]
    assert "of another time than the trace" in " ".join(peak.notes)
    assert memory_curve(job).frame.get_column("time").null_count() > 0
    said = [block.text for block in summary(job).blocks if isinstance(block, NoteBlock)]
    assert said[0].startswith("The memory snapshot is of another time than the trace, or of another run")
    assert not any("into the recording" in sentence for sentence in said)


def test_more_in_use_than_reserved_is_said_first(tmp_path: Path) -> None:
    process = Process(Settings(), total=1 << 32)
    process.record()
    process.alloc("aten::empty", 5 << 20)
    taken = process.snapshot()
    for number in range(20):  # nothing of this lies in a segment
        event = {"addr": (1 << 45) + (number << 24), "size": 9 << 20, "stream": 0, "time_us": START_US + number}
        taken["device_traces"][0].insert(number, {"action": "alloc", **event})
        taken["device_traces"][0].append({"action": "free_completed", **event, "time_us": process.now + number})
    found = codes(taken, tmp_path)
    assert "More is in use on cuda:0 than is reserved, at" in found["SNAPSHOT_CONTRADICTS"]
    job = read(str(tmp_path / "snapshot.memory.pickle"), jobs=1)
    assert found["SNAPSHOT_CONTRADICTS"] in memory_peak(job).notes
    said = summary(str(tmp_path / "snapshot.memory.pickle"))
    assert said.sentence.startswith("The memory snapshot contradicts itself")
    assert "are reserved:" not in str(said)
    sound = Process(Settings(), total=1 << 32)
    sound.record()
    sound.alloc("aten::empty", 5 << 20)
    assert "SNAPSHOT_CONTRADICTS" not in codes(sound.snapshot(), tmp_path)


@pytest.mark.parametrize(
    ("action", "key", "value", "said"),
    [
        ("alloc", "addr", "0x7f", "1 event of the memory snapshot has no action, address or size"),
        ("alloc", "size", 1 << 62, "1 event of the memory snapshot has no action, address or size"),
        ("alloc", "size", -5, "1 event of the memory snapshot has no action, address or size"),
        ("alloc", "size", None, "1 event of the memory snapshot has no action, address or size"),
        ("alloc", "size", 10**30, "1 event of the memory snapshot has no action, address or size"),
        ("free_completed", "action", 7, "1 event of the memory snapshot has no action, address or size"),
        ("alloc", "time_us", float("nan"), "1 value of events of the memory snapshot cannot be"),
        ("alloc", "stream", "main", "1 value of events of the memory snapshot cannot be"),
    ],
)
def test_one_odd_value_costs_one_event(tmp_path: Path, action: str, key: str, value: object, said: str) -> None:
    process = Process(Settings(), total=1 << 32)
    process.record()
    for _ in range(50):
        process.free(process.alloc("aten::empty", 1 << 10))
    process.alloc("aten::empty", 3 << 20)
    taken = process.snapshot()
    assert "SNAPSHOT_ODD_EVENTS" not in codes(taken, tmp_path)
    odd = [event for event in taken["device_traces"][0] if event["action"] == action][20]
    if value is None:
        del odd[key]
    else:
        odd[key] = value
    found = codes(taken, tmp_path)
    assert found["SNAPSHOT_ODD_EVENTS"].startswith(said)
    job = read(str(tmp_path / "snapshot.memory.pickle"), jobs=1)
    peak = memory_peak(job)
    assert found["SNAPSHOT_ODD_EVENTS"] in peak.notes
    assert peak.frame.get_column("size").sum() in ((3 << 20), (3 << 20) + (1 << 10))
    assert peak.frame.get_column("time").null_count() == 0


def test_a_snapshot_for_want_of_memory_belongs_to_the_last_trace_of_its_rank(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1000.0, "dur": 5.0}
    (tmp_path / "snapshots").mkdir()
    windows = ("h_1.rank0of1.step2.100", "h_1.rank0of1.step12.200")
    for name in windows:
        (tmp_path / f"{name}.pt.trace.json").write_text(json.dumps({"traceEvents": [{**event, "name": name}]}))
    programs = ("pending", "graph_pools", "fragmentation")
    for name, program in zip((*windows, "h_1.rank0of1.step20.300.oom"), programs, strict=True):
        small = (Path(__file__).parent / f"real/{program}_2.15.0.pickle.gz").read_bytes()
        (tmp_path / "snapshots" / f"{name}.memory.pickle").write_bytes(gzip.decompress(small))
    taken = [[Path(url).name.split(".")[2] for url in each.files("snapshot")] for each in read(str(tmp_path)).sources]
    assert taken == [["step2"], ["step12", "step20"]]
    alone = summary(str(tmp_path / "snapshots"))  # of one rank the last counts
    assert alone.title == "h_1.rank0of1.step20.300.oom.memory.pickle"
    assert "peaks at 461\u00a0MB" in str(alone)
