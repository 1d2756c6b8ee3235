"""Which memory snapshots belong to which rank of a run, and what a snapshot is by itself."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.analyses import named
from kinetoscope.errors import NotATraceError
from kinetoscope.model.snapshot.of_trace import snapshot_of
from kinetoscope.model.steps.steps import steps
from kinetoscope.reading import read

FRAMES = [{"name": "forward", "filename": "train.py", "line": 3}]


def event(action: str, time_us: int, **more: Any) -> dict[str, Any]:
    return {"action": action, "addr": 1 << 40, "size": 700, "stream": 0, "time_us": time_us, "frames": FRAMES, **more}


def content(size: int = 1024) -> dict[str, Any]:
    block = {"address": 1 << 40, "size": size, "requested_size": 700, "state": "active_allocated", "frames": FRAMES}
    sizes = {"total_size": size, "allocated_size": size, "active_size": size, "requested_size": 700}
    segment = {"device": 0, "address": 1 << 40, **sizes, "stream": 0, "segment_type": "small", "blocks": [block]}
    history = [event("alloc", 1_000_000 + 10 * k, user_metadata=json.dumps({"step": 7 + k // 2})) for k in range(1)]
    history += [
        event("free_requested", 1_000_020, user_metadata='{"step": 8}'),
        event("free_completed", 1_000_021, user_metadata='{"step": 8}'),
        event("alloc", 1_000_050, user_metadata='{"step": 9}'),
    ]
    stages = (("START", 1_000_001), ("END", 1_000_041))
    annotations = [{"name": "Optimizer.step#SGD.step", "stage": s, "device": 0, "time_us": t} for s, t in stages]
    return {"segments": [segment], "device_traces": [history], "external_annotations": annotations}


def snapshot(path: Path, size: int = 1024) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pickle.dumps(content(size)))
    return path


def trace(path: Path, rank: int = 0) -> Path:
    events = [{"ph": "X", "cat": "cpu_op", "name": f"aten::{path.name}", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]
    facts = {"distributedInfo": {"rank": rank, "world_size": 2}}
    path.write_text(json.dumps({"schemaVersion": 1, **facts, "traceEvents": events}))
    return path


def names(path: str | Path | list[str], **options: Any) -> dict[int, list[str]]:
    return {each.rank: [Path(url).name for url in each.files("snapshot")] for each in read(path, **options).sources}


def test_a_snapshot_by_itself_is_a_job_with_its_annotations_and_the_steps_of_its_metadata(tmp_path: Path) -> None:
    job = read(snapshot(tmp_path / "any.name"))
    got = snapshot_of(job.trace())
    assert got is not None
    assert got.segments.size.tolist() == [1024]
    assert steps(job.trace()).number.tolist() == [7, 8, 9]
    frame = named("annotations")(job).frame
    assert frame.filter(name="Optimizer.step#SGD.step").get_column("host_total").to_list() == [40_000]


def test_snapshots_stand_beside_traces_by_rank_and_by_the_name_of_the_trace(tmp_path: Path) -> None:
    for rank in (0, 1):
        trace(tmp_path / f"h_1.rank{rank}of2.step3.5.pt.trace.json", rank)
        trace(tmp_path / f"h_1.rank{rank}of2.step9.6.pt.trace.json", rank)
        snapshot(tmp_path / "snapshots" / f"h_1.rank{rank}of2.step9.6.memory.pickle")
    snapshot(tmp_path / "rank1.pickle")
    (tmp_path / "model_rank0.pickle").write_bytes(pickle.dumps({"weights": [1, 2]}))  # not ours
    of = {
        (each.rank, each.cycle): [Path(url).name for url in each.files("snapshot")] for each in read(tmp_path).sources
    }
    assert of == {
        (0, 0): [],
        (0, 1): ["h_1.rank0of2.step9.6.memory.pickle"],
        (1, 0): ["rank1.pickle"],
        (1, 1): ["rank1.pickle", "h_1.rank1of2.step9.6.memory.pickle"],
    }


def test_a_trace_named_alone_has_what_is_named_after_it_and_what_a_recorder_put_there(tmp_path: Path) -> None:
    trace(tmp_path / "a.pt.trace.json")
    snapshot(tmp_path / "of_another_run.pickle")
    assert names(tmp_path / "a.pt.trace.json") == {0: []}
    snapshot(tmp_path / "a.memory.pickle")
    snapshot(tmp_path / "snapshots" / "oom.pickle")
    assert names(tmp_path / "a.pt.trace.json") == {0: ["a.memory.pickle", "oom.pickle"]}
    assert names(tmp_path) == {0: ["a.memory.pickle", "of_another_run.pickle", "oom.pickle"]}


def test_a_name_without_a_rank_belongs_to_the_only_rank_and_of_several_to_none(tmp_path: Path) -> None:
    trace(tmp_path / "a.json")
    snapshot(tmp_path / "oom.pickle")
    assert names(tmp_path) == {0: ["oom.pickle"]}
    trace(tmp_path / "b.json", 1)
    job = read(tmp_path)
    assert [each.files("snapshot") for each in job.sources] == [(), ()]
    assert any("tell no rank" in note and "oom.pickle" in note for note in job.notes)


def test_snapshots_are_named_left_out_and_refused(tmp_path: Path) -> None:
    trace(tmp_path / "a.json")
    other = snapshot(tmp_path / "elsewhere" / "s.pickle")
    snapshot(tmp_path / "beside.pickle")
    assert names(tmp_path / "a.json", snapshot=other) == {0: ["s.pickle"]}
    assert names(tmp_path / "a.json", snapshot="off") == {0: []}
    assert names([str(tmp_path / "a.json"), str(other)], snapshot=None)[0][-1:] != []
    with pytest.raises(NotATraceError, match="no memory snapshot"):
        read(tmp_path / "a.json", snapshot=tmp_path / "a.json")


def test_ranks_of_a_folder_of_snapshots_come_from_their_names(tmp_path: Path) -> None:
    for rank in (0, 3):
        snapshot(tmp_path / f"memory_rank{rank}.pickle")
    assert names(tmp_path) == {0: ["memory_rank0.pickle"], 3: ["memory_rank3.pickle"]}


@pytest.mark.parametrize(
    "name",
    [
        "memory_snapshot/step_000000000020/{rank:06d}_step_20.pickle",
        "snapshot_{rank}.pickle",
        "snapshot_oom_rank_{rank}.pickle",
        "snapshot_rank7_oom_rank-{rank}.pickle",
    ],
    ids=["torchtitan", "Megatron-LM", "Megatron-LM, out of memory", "Megatron-Core 0.19, out of memory"],
)
def test_trainers_that_name_no_rank(tmp_path: Path, name: str) -> None:
    for rank in (0, 3):
        file = tmp_path / "run" / name.format(rank=rank)
        file.parent.mkdir(parents=True, exist_ok=True)
        snapshot(file)
    expected = {rank: [Path(name.format(rank=rank)).name] for rank in (0, 3)}
    assert names(tmp_path / "run") == expected
    for rank in expected:
        trace(tmp_path / "run" / f"rank{rank}_trace.json", rank)
    assert names(tmp_path / "run") == expected


def test_a_snapshot_above_the_folder_of_traces_finds_its_rank(tmp_path: Path) -> None:
    """Megatron writes traces into `torch_profile`, and the snapshot of the last rank where the user says."""
    (tmp_path / "torch_profile").mkdir()
    for rank in range(2):
        trace(tmp_path / "torch_profile" / f"rank-{rank}.json", rank)
    snapshot(tmp_path / "snapshot_rank1.pickle")
    assert names(tmp_path) == {0: [], 1: ["snapshot_rank1.pickle"]}


def test_a_number_in_a_snapshot_of_one_process_is_no_rank(tmp_path: Path) -> None:
    trace(tmp_path / "a.json")
    snapshot(tmp_path / "snapshot_7.pickle")
    assert names(tmp_path) == {0: ["snapshot_7.pickle"]}
