"""Captured calls: a replay has the operators, shapes, modules and stacks that its graph was captured with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import graphs, modules, operators
from kinetoscope.algorithms.arrays import Int32s
from kinetoscope.model.execution.call_tree import call_tree, enclosing_module
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.graphs.captures import captures
from kinetoscope.model.graphs.replays import replays
from kinetoscope.model.job import Job
from kinetoscope.model.trace.trace import Trace
from kinetoscope.reading import read
from tests.conftest import ROOT, few_examples
from tests.drawn import Event, annotation, event, kernel, launch, op, python, written

SAMPLE = ROOT.parent / "shared" / "samples" / "serving" / "vllm_decode_full"
NODES = (("aten::mm", "gemm", [[8, 4], [4, 2]]), ("aten::add", "add_kernel", [[8, 2], [8, 2]]))


def captured(nodes: tuple[tuple[str, str, list[list[int]]], ...] = NODES, *, named: bool = True) -> list[Event]:
    """The recording of a capture: each operator launches one kernel, which does not run."""
    events = [
        annotation("capture_8_FULL", 0, 100_000),
        op("aten::before", 100, 100),
        launch(120, 10, 1, name="hipLaunchKernel"),
        event("cuda_runtime", "hipStreamBeginCapture", 500, 100, correlation=2),
        python("nn.Module: Net_0", 900, 90_000),
    ]
    for place, (name, of_kernel, dims) in enumerate(nodes):
        at = 1000 * (place + 1)
        arguments: dict[str, Any] = {"Input Dims": dims, "External id": 7 + place}
        events.append(op(name, at, 500, **arguments))
        call = launch(at + 100, 100, 10 + place, name="hipExtModuleLaunchKernel")
        if named:
            call["args"] |= {"kernel": of_kernel}
        events.append(call)
    return [*events, event("cuda_runtime", "hipStreamEndCapture", 95_000, 100, correlation=99)]


def replayed(count: int, nodes: tuple[tuple[str, str, list[list[int]]], ...] = NODES) -> list[Event]:
    """A recording in which the graph is replayed; each node takes 100 ns more than the one before."""
    events = list[Event]()
    for replay in range(count):
        at = 100_000 * replay
        events += [op("aten::host", at, 60_000, **{"External id": 7}), annotation("step", at + 10, 50_000)]
        events.append(launch(at + 1000, 2000, 50 + replay, name="hipGraphLaunch"))
        events += [
            kernel(of_kernel, at + 5000 + 1000 * place, 100 * (place + 1), 50 + replay)
            for place, (_, of_kernel, _) in enumerate(nodes)
        ]
    return events


def joined(folder: Path, count: int, capture: list[Event]) -> Job:
    return read(
        written(folder / "replay.json", *replayed(count)), capture=written(folder / "capture.json", *capture), jobs=1
    )


@pytest.mark.parametrize("named", [True, False])
def test_a_replay_has_the_operators_of_its_capture(tmp_path: Path, named: bool) -> None:
    job = joined(tmp_path, 3, captured(named=named))
    rows = {row["name"]: row for row in operators(job, group_by="shapes").frame.rows(named=True)}
    assert [rows[name]["calls"] for name, _, _ in NODES] == [3, 3]
    assert [rows[name]["device_total"] for name, _, _ in NODES] == [300, 600]
    assert [rows[name]["host_total"] for name, _, _ in NODES] == [0, 0]
    assert rows["aten::mm"]["input_shapes"] == "[[8, 4], [4, 2]]"
    assert rows["aten::host"]["device_total"] == 900
    assert rows["aten::host"]["host_total"] == 3 * 60_000
    assert "aten::before" not in rows
    of_module = modules(job).frame.row(0, named=True)
    assert (of_module["path"], of_module["calls"], of_module["device_total"]) == ("Net_0", 3, 900)


def test_captured_calls_lie_in_the_launch_and_are_no_launches(tmp_path: Path) -> None:
    trace = joined(tmp_path, 2, captured()).trace()
    work = device_work(trace)
    assert (runtime_call_kinds(trace)[work.launch] == RuntimeCallKind.GRAPH_LAUNCH).all()
    assert (work.captured >= trace.recorded).all()
    tree = call_tree(trace)
    for place in range(len(work)):
        chain = [int(work.captured[place])]
        while tree.parent[chain[-1]] >= 0:
            chain.append(int(tree.parent[chain[-1]]))
        assert int(work.launch[place]) in chain
        assert [tree.depth[row] for row in chain] == list(range(len(chain)))[::-1]


def test_what_shows_the_file_shows_the_file(tmp_path: Path) -> None:
    job = joined(tmp_path, 2, captured())
    trace, alone = job.trace(), read(tmp_path / "replay.json", jobs=1).trace()
    assert len(trace) > trace.recorded == len(alone)
    assert list(trace.events()) == list(alone.events()) == list(trace.as_recorded().events())
    assert trace.table("events").equals(alone.table("events"))


def test_another_graph_keeps_its_launch_alone(tmp_path: Path) -> None:
    other = (NODES[0], ("aten::mul", "mul_kernel", [[8, 2]]))
    trace = joined(tmp_path, 2, captured(other)).trace()
    assert trace.captured is not None
    assert trace.captured.notes == ("2 replays of CUDA graphs match no capture trace: no operators are assigned.",)
    assert (device_work(trace).captured < 0).all()


def test_a_capture_in_the_same_recording_counts(tmp_path: Path) -> None:
    shifted = [{**each, "ts": each["ts"] + 1000} for each in replayed(2)]
    trace = read(written(tmp_path / "both.json", *captured(), *shifted), jobs=1).trace()
    assert (device_work(trace).captured >= 0).all()


def test_with_annotations_and_a_capture_both_count(tmp_path: Path) -> None:
    events = replayed(2)
    for each in events:
        if each["name"] == "gemm":
            each["args"] |= {"module_fqn": "layers.0", "name": "attention"}
    capture = [each for each in captured() if each["cat"] != "python_function"]
    files = (written(tmp_path / f"{name}.json", *each) for name, each in (("replay", events), ("capture", capture)))
    job = read(next(files), capture=next(files), jobs=1)
    rows = {row["name"]: row["device_total"] for row in operators(job).frame.rows(named=True)}
    assert (rows["aten::mm"], rows["aten::add"], rows["attention"]) == (200, 400, 200)
    assert modules(job).frame.select("path", "device_total").rows() == [("layers", 200), ("layers/0", 200)]
    (graph,) = graphs(job).frame.to_dicts()
    assert (graph["source"], graph["captured_as"]) == ("annotations, capture", "capture_8_FULL")
    assert (graph["operator_share"], graph["module_share"]) == (1, 200 / 600)


names = st.sampled_from(["aten::mm", "aten::add", 'odd "name" \\ü', "aten::mm.out"])


@few_examples
@given(st.lists(st.tuples(names, st.sampled_from("abc")), min_size=1, max_size=6), st.integers(1, 4))
def test_each_node_has_the_operator_of_its_place(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, str]], count: int
) -> None:
    nodes = tuple((name, of_kernel, [[place]]) for place, (name, of_kernel) in enumerate(drawn))
    folder = tmp_path_factory.getbasetemp()
    files = written(folder / "r.json", *replayed(count, nodes)), written(folder / "c.json", *captured(nodes))
    trace = read(files[0], capture=files[1], jobs=1).trace()
    every, work = replays(trace), device_work(trace)
    assert len(every) == count
    for replay in range(count):
        ops = work.op[every.work_of(replay)]
        assert trace.strings.labels(trace.name[ops].tolist()) == [name for name, _, _ in nodes]
        assert [trace.event(row)["args"]["Input Dims"] for row in ops.tolist()] == [dims for _, _, dims in nodes]


@pytest.mark.skipif(not SAMPLE.exists(), reason="needs the shared samples")
def test_every_kernel_of_a_real_replay_has_its_operator() -> None:
    capture = SAMPLE / "capture_traces"
    trace = read(SAMPLE / "graph_execution.json.gz", capture=capture, jobs=1).trace()
    work = device_work(trace)
    assert int((work.captured >= 0).sum()) == 421
    assert (work.op >= 0).all()
    recording = read(next(capture.iterdir()), jobs=1).trace()
    assert np.diff(captures(recording).offsets).tolist() == [421]


def test_of_too_many_captured_calls_only_those_of_modules_are_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 20
    capture = [*captured(), *(python(f"net.py({line}): forward", 950 + line, 80_000 - line) for line in range(9))]
    whole = joined(tmp_path, count, capture).trace()
    monkeypatch.setattr("kinetoscope.model.graphs.attach.MAX_CALLS", 100)
    fewer = joined(tmp_path, count, capture).trace()
    assert (len(whole) - whole.recorded, len(fewer) - fewer.recorded) == (count * 12, count * 3)
    for trace in (whole, fewer):
        assert trace.strings.labels(trace.name[device_work(trace).op].tolist()) == ["aten::mm", "aten::add"] * count
        assert (modules_of(trace) >= 0).all()
        depth = call_tree(trace).depth
        parent = call_tree(trace).parent
        rows = np.flatnonzero(parent >= 0)
        assert (depth[rows] == depth[parent[rows]] + 1).all()


def modules_of(trace: Trace) -> Int32s:
    return enclosing_module(trace)[device_work(trace).caller]
