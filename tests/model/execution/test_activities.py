from __future__ import annotations

from pathlib import Path

from kinetoscope import critical_path, idle_breakdown, step_breakdown
from kinetoscope.model.execution.activities import HostActivity, host_activities, takes_next_batch
from tests import drawn


def test_each_event_is_one_activity(tmp_path: Path) -> None:
    events = {
        HostActivity.NONE: drawn.op("ProfilerStep#1", 0, 1000),
        HostActivity.OPERATOR: drawn.op("aten::mm", 10, 5),
        HostActivity.PYTHON: drawn.python("train.py(1): forward", 20, 5),
        HostActivity.ANNOTATION: drawn.annotation("forward", 30, 5),
        HostActivity.DATA_LOADING: drawn.annotation("enumerate(DataLoader)#_Single.__next__", 40, 5),
        HostActivity.COMMUNICATION: drawn.annotation("gloo:all_reduce", 50, 5),
        HostActivity.RUNTIME_CALL: drawn.launch(60, 5, 1),
        HostActivity.ALLOCATION: drawn.event("cuda_runtime", "cudaMalloc", 70, 5),
        HostActivity.SYNCHRONIZATION: drawn.event("cuda_runtime", "cudaDeviceSynchronize", 80, 5),
    }
    kernel = drawn.kernel("gemm", 70, 5, 1)
    trace = drawn.job(tmp_path, *events.values(), kernel).trace()
    assert host_activities(trace).tolist() == [*events, HostActivity.NONE]


# --- loaders of other makes

NEXT = "<built-in function next>"
MS = 1_000_000


def test_next_is_a_batch_unless_it_is_short_or_something_else(tmp_path: Path) -> None:
    events = [
        drawn.python("train.py(1): main", 0, 100 * MS),
        drawn.python(NEXT, 1 * MS, 5 * MS),  # a batch
        drawn.python(NEXT, 10 * MS, MS // 2),  # too short
        drawn.python("contextlib.py(137): __enter__", 20 * MS, 5 * MS),
        drawn.python(NEXT, 20 * MS + 1, 4 * MS),  # of a context manager
        drawn.python("nn.Module: Net_0", 30 * MS, 5 * MS),
        drawn.python(NEXT, 30 * MS + 1, 4 * MS),  # in a module
        drawn.python(NEXT, 50 * MS, 9 * MS),  # around an iterator that runs the model
        drawn.python(NEXT, 51 * MS, 2 * MS),  # a batch in it
        drawn.python("nn.Module: Net_0", 54 * MS, 4 * MS),
        drawn.python(NEXT, 60 * MS, 9 * MS),  # around an iterator that computes on the device
        *(drawn.launch(61 * MS, 10, 1), drawn.kernel("gemm", 62 * MS, 10, 1)),
        drawn.python(NEXT, 40 * MS, 5 * MS),  # around torch's own loader, which leaves a range
        drawn.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 40 * MS + 1, 4 * MS),
    ]
    trace = drawn.job(tmp_path, *events).trace()
    assert takes_next_batch(trace).nonzero()[0].tolist() == [1, 8]


def test_a_generator_of_ones_own_is_a_loader_if_its_name_says_so(tmp_path: Path) -> None:
    names = {
        "own_loader.py(6): batches": True,
        "train.py(31): get_data": True,
        "train.py(40): log": False,
        "train.py(50): save_data": False,
        "torch/utils/thing.py(4): batches": False,
        "site-packages/lib/io.py(4): load": False,
    }
    events = [drawn.python(name, place * 10 * MS, 5 * MS) for place, name in enumerate(names)]
    trained = [drawn.python("train.py(60): train_batch", 80 * MS, 5 * MS)]
    backward = [drawn.python("train.py(70): batches", 90 * MS, 5 * MS)]
    node = drawn.op("autograd::engine::evaluate_function: MmBackward0", 91 * MS, MS)
    trace = drawn.job(tmp_path, *events, *trained, *backward, node).trace()
    assert takes_next_batch(trace)[: len(names)].tolist() == list(names.values())
    assert not takes_next_batch(trace)[len(names) :].any()


def test_it_is_data_loading_for_every_question(tmp_path: Path) -> None:
    events = []
    for step in range(2):
        at = step * 100 * MS
        events += [
            drawn.annotation(f"ProfilerStep#{step}", at, 100 * MS),
            drawn.python(NEXT, at + MS, 50 * MS),
            drawn.python("nn.Module: Net_0", at + 60 * MS, 10 * MS),
            drawn.op("aten::mm", at + 61 * MS, 2 * MS),
            drawn.launch(at + 62 * MS, 1000, step + 1),
            drawn.kernel("gemm", at + 63 * MS, 36 * MS, step + 1),
        ]
    job = drawn.job(tmp_path, *events)
    steps = step_breakdown(job).frame
    assert steps.get_column("data_loading").to_list()[1] == 50 * MS
    assert steps.get_column("step_gap_cause").to_list()[1] == "data wait"
    idle = idle_breakdown(job).frame.filter(detail="data loading")
    assert idle.get_column("time").to_list() == [50 * MS]
    assert critical_path(job).frame.get_column("data_loading").to_list()[1] >= 50 * MS
