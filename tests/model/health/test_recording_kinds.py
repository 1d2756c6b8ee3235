"""What a file records: a drawn trace of each kind, and twins that are programs at work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope import roofline, step_breakdown
from kinetoscope.advisor.advice import advise
from kinetoscope.model.health.recording_kinds import Recognised, recording_kinds
from kinetoscope.outputs.summary import summary
from kinetoscope.pages.blocks import PartsBlock
from kinetoscope.reading import read
from tests.drawn import Event, annotation, event, job, kernel, launch, op, written

MS = 1_000_000
SHARED = Path(__file__).resolve().parents[4] / "shared"


def of(folder: Path, *events: Event, **top: Any) -> tuple[Recognised, ...]:
    return recording_kinds(job(folder, *events, **top).trace())


def begin_capture(start: int) -> Event:
    return event("cuda_runtime", "cudaStreamBeginCapture", start, 10)


def end_capture(start: int) -> Event:
    return event("cuda_runtime", "cudaStreamEndCapture", start, 10)


def capture(nodes: int, start: int = 0) -> list[Event]:
    """The capture of a graph, a launch each 100 ns."""
    launches = [launch(start + 100 * k + 100, 50, start + k + 1) for k in range(nodes)]
    return [begin_capture(start), *launches, end_capture(start + 100 * nodes + 100)]


def eager(count: int, start: int, first: int, *, took: int = 50, apart: int = 1000) -> list[Event]:
    """Operators that launch a kernel each."""
    events = []
    for k in range(count):
        begin, ident = start + apart * k, first + k
        events += [op("aten::mm", begin, took + 20), launch(begin + 10, took, ident)]
        events.append(kernel("gemm", begin + took + 30, 500, ident))
    return events


# --- captures


def test_a_capture_is_known_by_more_nodes_than_work(tmp_path: Path) -> None:
    (found,) = of(tmp_path, *capture(20), *eager(2, 5_000, 900))
    assert (found.kind, found.count, found.graphs, found.time) == ("graph capture", 20, 1, 2_110)
    text = str(summary(str(tmp_path)))
    blocks = summary(str(tmp_path)).blocks
    assert not any(isinstance(block, PartsBlock) for block in blocks), "it is no step whose time goes anywhere"
    assert "This file records the capture of a graph of 20 nodes: it takes 2.11\u00a0µs of" in text
    assert "What to change: Rules about steps of a program do not fit such a recording." in text


def test_several_captures_are_counted(tmp_path: Path) -> None:
    found = job(tmp_path, *capture(3), *capture(4, start=10_000))
    assert [(each.count, each.graphs) for each in recording_kinds(found.trace())] == [(7, 2)]
    assert "the capture of 2 graphs of 7 nodes in all" in str(summary(found))


def test_a_program_that_captures_and_replays_is_no_capture(tmp_path: Path) -> None:
    replays = [launch(10_000 + 2_000 * k, 50, 800 + k, name="cudaGraphLaunch") for k in range(3)]
    work = [kernel("gemm", 10_100 + 2_000 * k + 100 * n, 90, 800 + k) for k in range(3) for n in range(20)]
    assert of(tmp_path, op("aten::mm", 0, 10), *capture(20), *replays, *work) == ()


# --- warm-up


def cold(folder: Path, first: int, *, later: int = 50) -> tuple[Recognised, ...]:
    """A first launch, and others of the same kernel."""
    begin = [op("aten::mm", 0, first + 20), launch(10, first, 1), kernel("gemm", first + 50, 500, 1)]
    return of(folder, *begin, *eager(20, first + 10_000, 2, took=later, apart=2 * later + 1_000))


def test_a_first_launch_that_takes_most_of_the_window_is_a_warm_up(tmp_path: Path) -> None:
    (found,) = cold(tmp_path, 30 * MS)
    assert (found.kind, found.count, found.time) == ("warm-up", 1, 30 * MS)
    text = str(summary(str(tmp_path)))
    assert "This file records a warm-up: 30.0\u00a0ms of 30.0\u00a0ms goes to loading code, once." in text
    assert [each.code for each in advise(read(str(tmp_path), jobs=1)).timed] == ["RECORDING003"]


def test_the_profilers_own_buffers_are_named(tmp_path: Path) -> None:
    buffers = event("overhead", "Activity Buffer Request", 100, 2 * MS, tid=0)
    found = job(tmp_path, op("aten::mm", 0, 2 * MS + 500), buffers, *eager(3, 3 * MS, 1))
    (kind,) = recording_kinds(found.trace())
    assert (kind.kind, kind.time, kind.what) == ("warm-up", 2 * MS, "the profiler's buffers")
    (finding,) = advise(found).timed
    assert finding.code == "RECORDING003"
    assert "The profiler takes memory for its records in the window, once" in finding.message


def compiled_in(folder: Path, *places: int) -> tuple[Recognised, ...]:
    """Five steps of 1 ms, and 9 ms more where torch.compile compiles."""
    folder.mkdir()
    events, at = list[Event](), 0
    for number in range(5):
        begin, took = at, 9 * MS if number in places else 0
        if took:
            events.append(op("_compile.compile_inner (dynamo_timed)", begin + 1_000, took))
        events += eager(1, begin + took + 100_000, number + 1)
        at += took + MS
        events.append(annotation(f"ProfilerStep#{number}", begin, at - begin))
    return of(folder, *events)


def test_what_is_compiled_again_and_again_is_no_warm_up(tmp_path: Path) -> None:
    """A step between without the compiler: what it compiles behind that was compiled before."""
    (found,) = compiled_in(tmp_path / "once", 2, 3, 4)
    assert (found.kind, found.what) == ("warm-up", "compiling code")
    assert compiled_in(tmp_path / "again", 0, 2, 4) == ()


@pytest.mark.parametrize(("first", "later"), [(MS // 2, 50), (30 * MS, 4 * MS)], ids=["short", "all are long"])
def test_a_first_launch_that_is_like_the_others_is_none(tmp_path: Path, first: int, later: int) -> None:
    assert cold(tmp_path, first, later=later) == ()


def test_a_launch_that_waits_while_the_device_works_is_none(tmp_path: Path) -> None:
    busy = [
        launch(0, 5, 1),
        kernel("long", 6, 40 * MS, 1),
        launch(100, 39 * MS, 2),
        kernel("other", 40 * MS + 10, 50, 2),
    ]
    assert of(tmp_path, op("aten::mm", 0, 10), *busy) == ()


# --- lost device work, no operators, other profilers, damaged files


def test_launches_without_any_kernel_are_lost_device_work(tmp_path: Path) -> None:
    calls = [launch(100 * k, 50, k + 1) for k in range(9)]
    gpu = [{"id": 0, "name": "NVIDIA A40", "totalGlobalMem": 48_000_000_000}]
    found = job(tmp_path, op("aten::mm", 0, 900), *calls, deviceProperties=gpu)
    (kind,) = recording_kinds(found.trace())
    assert (kind.kind, kind.count) == ("lost device work", 9)
    lost = found.trace().health["LAUNCHES_WITHOUT_WORK"]
    assert (lost.severity, lost.number) == ("warning", 9)
    assert "NO_DEVICE_WORK" not in found.trace().health
    text = str(summary(found))
    assert "9 launches were recorded, and no kernel: the recorder lost the device's work." in text
    assert "NVIDIA A40" in text.splitlines()[1]
    assert "run on the host" not in text
    assert not any("ProfilerActivity" in each.change for each in advise(found).findings)
    assert any("which is all: when devices worked is not known" in note for note in step_breakdown(found).notes)


def test_a_run_on_the_host_lost_nothing(tmp_path: Path) -> None:
    found = job(tmp_path, op("aten::mm", 0, 900))
    assert recording_kinds(found.trace()) == ()
    assert "NO_DEVICE_WORK" in found.trace().health


def test_calls_and_device_work_without_operators(tmp_path: Path) -> None:
    found = job(tmp_path, *(each for each in eager(20, 0, 1) if each["cat"] != "cpu_op"), record_shapes=1)
    (kind,) = recording_kinds(found.trace())
    assert (kind.kind, kind.count) == ("no operators", 20)
    assert "NO_OPERATORS" in found.trace().health
    text = str(summary(found))
    assert "No operators were recorded, only 20 calls of the runtime" in text
    assert "Operators by device time" not in text
    assert [note.about for note in roofline(found).notes if note.code == "NOT_RECORDED"] == ["operators"]
    (options,) = (each for each in advise(found).findings if each.code == "RECORDING002")
    assert "ProfilerActivity.CPU, ProfilerActivity.CUDA" in options.change


def test_the_profiler_before_kineto_is_named_and_its_operators_are_read(tmp_path: Path) -> None:
    host = {"ph": "X", "pid": "CPU functions", "tid": 1, "args": {}}
    device = {"ph": "X", "pid": "CUDA functions", "tid": 0, "args": {}}
    flow = {"cat": "cpu_to_cuda", "name": "add", "id": 0}
    events = [
        {**host, "name": "add", "ts": 10.5, "dur": 5},
        {**flow, "ph": "s", "pid": "CPU functions", "tid": 1, "ts": 10.5},
        {**flow, "ph": "f", "pid": "CUDA functions", "tid": 0, "ts": 12},
        {**device, "name": "add", "ts": 12, "dur": 3},
        {**host, "name": "mul", "ts": 20, "dur": 5},
    ]
    found = read(written(tmp_path / "old.json", *events), jobs=1)
    (kind,) = recording_kinds(found.trace())
    assert (kind.kind, kind.count, kind.window) == ("autograd profiler", 2, 14_500)
    text = str(summary(found))
    assert "This file is of torch's profiler before Kineto (torch 1.7 and older): 2 operators of the host" in text
    assert advise(found).findings == ()


def test_a_file_that_ends_before_device_work_says_nothing_of_devices(tmp_path: Path) -> None:
    file = written(tmp_path / "cut.json", *eager(0, 0, 1), *(op("aten::mm", 100 * k, 90) for k in range(50)))
    file.write_text(file.read_text()[:-400])
    found = read(file, jobs=1)
    (kind,) = recording_kinds(found.trace())
    assert kind.kind == "cut off"
    assert found.trace().health["NO_DEVICE_WORK"] == "No device work is in what is left of the file."
    assert "This file ends early: 46 events are left of it, and no device work is among them." in str(summary(found))
    assert {each.code for each in advise(found).findings} <= {"RECORDING001", "RECORDING002"}


def test_memory_that_is_given_back_and_taken_is_advised_without_device_work(tmp_path: Path) -> None:
    def runtime(name: str, start: int, took: int) -> Event:
        return event("cuda_runtime", name, start, took, correlation=start)

    calls = [runtime("cudaMalloc", 100, MS), runtime("cudaFree", 2 * MS, 30 * MS), op("aten::mm", 40 * MS, 5 * MS)]
    launches = [launch(45 * MS, 5_000, 7)]
    (finding,) = (each for each in advise(job(tmp_path, *calls, *launches)).findings if each.code == "MEMORY003")
    assert finding.title == "The allocator frees memory of the device and allocates it anew"
    assert finding.stake.low == 0
    assert finding.stake.high == pytest.approx(31 * MS, rel=0.01)
    (tmp_path / "only").mkdir()
    taken = job(tmp_path / "only", calls[0], *launches, calls[2])
    assert not any(each.code == "MEMORY003" for each in advise(taken).findings)


def test_an_event_without_a_possible_time_is_left_out_and_said(tmp_path: Path) -> None:
    begin = 1_400_000_000_000_000  # 16 days after the instant that the file counts from
    ops = [op("aten::mm", begin + 1_000 * k, 900) for k in range(50)]
    for at in (0, "10000000000000000", None):
        bad = {**op("bad", 0, 10), "ts": at}
        found = job(tmp_path, bad, *ops, baseTimeNanoseconds=1_750_000_000_000_000_000)
        codes = {"STRAY_TIMES"} if at == 0 else {"STRAY_TIMES", "IMPOSSIBLE_TIMES"}
        assert codes <= {each.code for each in found.trace().health}
        assert "51 events in 49.9\u00a0µs" in str(summary(found))


# --- real recordings


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        ("traces/normalization_mi210/normalization_layer_test.json.gz", [("warm-up", 18)]),
        ("traces/lost_kernels_a40/notebooks__trace.json", [("lost device work", 9)]),
        ("traces/broken/truncated.pt.trace.json", [("cut off", 352)]),
        ("traces/compile_graphs_3060/trace_05.json.gz", []),
        ("samples/serving/vllm_decode_full/graph_execution.json.gz", []),
        ("samples/serving/vllm_decode_full/capture_traces", [("graph capture", 421)]),
    ],
)
def test_real_recordings(path: str, kinds: list[tuple[str, int]]) -> None:
    if not (SHARED / path).exists():
        pytest.skip("no shared traces beside the checkout")
    found = recording_kinds(read(str(SHARED / path), jobs=1).trace())
    assert [(each.kind, each.count) for each in found] == kinds
