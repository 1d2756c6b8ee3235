from __future__ import annotations

from pathlib import Path

from kinetoscope.model.execution.activities import HostActivity, host_activities
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
