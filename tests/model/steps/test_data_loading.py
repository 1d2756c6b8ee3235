from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope.model.execution.marks import is_data_loading
from kinetoscope.model.steps.data_loading import DATA_WAIT, HOST_GAP, step_gaps
from kinetoscope.reading import read
from tests import drawn
from tests.catalog.samples import required
from tests.conftest import SHARED


@pytest.mark.parametrize(
    ("event", "loads"),
    [
        (drawn.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 1), True),
        (drawn.op("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0, 1), True),
        (drawn.annotation("enumerate(DataPipe)#MapperIterDataPipe", 0, 1), True),
        (drawn.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__init__", 0, 1), False),
        (drawn.annotation("my DataLoader", 0, 1), False),
        (drawn.python("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 1), False),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else "",
)
def test_the_loaders_own_spans(tmp_path: Path, event: drawn.Event, loads: bool) -> None:
    assert is_data_loading(drawn.job(tmp_path, event).trace()).tolist() == [loads]


STEPS = [drawn.annotation(f"ProfilerStep#{number}", 100 * number, 100) for number in range(4)]
FORWARD = [drawn.python("nn.Module: Net_0", 100 * number + 60, 30) for number in range(4)]


def gaps(folder: Path, *events: drawn.Event) -> list[tuple[int | None, str | None]]:
    return list(zip(*step_gaps(drawn.job(folder, *STEPS, *events).trace()), strict=True))


def test_the_first_gap_begins_with_the_first_step(tmp_path: Path) -> None:
    ops = [drawn.op("aten::mm", 100 * number + 70, 10) for number in range(4)]
    assert gaps(tmp_path, *FORWARD, *ops) == [(60, HOST_GAP), (80, HOST_GAP), (80, HOST_GAP), (80, HOST_GAP)]


def test_times_may_be_negative(tmp_path: Path) -> None:
    def earlier(event: drawn.Event) -> drawn.Event:
        return {**event, "ts": event["ts"] - 10}

    ops = [drawn.op("aten::mm", 100 * number + 70, 10) for number in range(4)]
    trace = drawn.job(tmp_path, *map(earlier, [*STEPS, *FORWARD, *ops])).trace()
    assert step_gaps(trace)[0] == [60, 80, 80, 80]


def test_without_an_op_in_the_step_before_the_gap_is_not_known(tmp_path: Path) -> None:
    ops = [drawn.op("aten::mm", 70, 10), drawn.op("aten::mm", 270, 10)]
    assert gaps(tmp_path, *FORWARD, *ops) == [(60, HOST_GAP), (80, HOST_GAP), (None, None), (80, HOST_GAP)]


def test_ops_of_other_threads_and_spans_of_the_loader_do_not_end_a_step(tmp_path: Path) -> None:
    ops = [drawn.op("aten::mm", 70, 10), drawn.op("aten::mm", 90, 5, tid=2)]
    loader = drawn.op("enumerate(DataLoader)#_Iter.__next__", 96, 2)
    assert gaps(tmp_path, *FORWARD, *ops, loader)[1] == (80, DATA_WAIT)


def test_marks_of_steps_that_are_operators_do_not_end_a_step(tmp_path: Path) -> None:
    marks = [drawn.event("Operator", f"ProfilerStep#{number}", 100 * number, 100) for number in range(2)]
    ops = [drawn.event("Operator", "aten::mm", 100 * number + 70, 10) for number in range(2)]
    trace = drawn.job(tmp_path, *marks, *ops, *FORWARD[:2]).trace()
    assert step_gaps(trace)[0] == [60, 80]


def test_a_forward_pass_that_begins_before_the_last_op_has_ended_leaves_no_gap(tmp_path: Path) -> None:
    assert gaps(tmp_path, *FORWARD, drawn.op("aten::mm", 70, 100))[1] == (None, None)


def test_without_a_forward_pass_nothing_is_known(tmp_path: Path) -> None:
    assert gaps(tmp_path, drawn.op("aten::mm", 70, 10)) == [(None, None)] * 4


OPS = [drawn.op("aten::mm", 100 * number + 70, 10) for number in range(4)]


def test_waiting_for_a_device_is_no_gap(tmp_path: Path) -> None:
    copy = drawn.kernel("Memcpy HtoD (Host -> Device)", 155, 2, 9, category="gpu_memcpy")
    waits = [drawn.launch(105, 50, 9, name="hipMemcpyWithStream"), copy]
    assert gaps(tmp_path, *FORWARD, *OPS, *waits)[1] == (80 - 52, DATA_WAIT)


def test_the_launch_of_a_graph_begins_a_forward_pass(tmp_path: Path) -> None:
    graph = [drawn.launch(120, 5, 9, name="cudaGraphLaunch"), drawn.kernel("gemm", 130, 5, 9)]
    assert gaps(tmp_path, *FORWARD, *OPS, *graph)[1] == (40, HOST_GAP)


@pytest.mark.parametrize(("size", "cause"), [(1 << 16, DATA_WAIT), (4096, HOST_GAP)])
def test_a_small_copy_is_no_batch(tmp_path: Path, size: int, cause: str) -> None:
    copy = drawn.kernel("Memcpy HtoD", 155, 2, 9, category="gpu_memcpy", bytes=size)
    queued = [drawn.launch(150, 2, 9, name="cudaMemcpyAsync"), copy]
    assert gaps(tmp_path, *FORWARD, *OPS, *queued)[1] == (78, cause)


def test_work_from_before_the_recording_is_no_gap(tmp_path: Path) -> None:
    late = 100_000_000
    events = [
        drawn.annotation("ProfilerStep#0", 0, 2 * late),
        drawn.launch(20, 5, 1, name="cudaMemcpyAsync"),
        drawn.kernel("Memcpy HtoD", late, 2, 1, category="gpu_memcpy"),
        drawn.python("nn.Module: Net_0", late + 1000, 30),
    ]
    assert step_gaps(drawn.job(tmp_path, *events).trace())[0] == [998]


@pytest.mark.parametrize("name", ["vllm_decode_full/graph_execution.json.gz", "sglang_prefilldecode"])
def test_no_server_waits_for_data(name: str) -> None:
    trace = read(required(SHARED.parent / "samples" / "serving" / name)).trace()
    _, [cause] = step_gaps(trace)
    assert cause == HOST_GAP
