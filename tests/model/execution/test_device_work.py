"""Device work, what launched it, and for which operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.trace.event_kinds import WorkKind
from tests import drawn
from tests.drawn import Event, kernel, launch, op


def work_of(folder: Path, *events: Event) -> DeviceWork:
    return device_work(drawn.job(folder, *events).trace())


def test_work_belongs_to_the_operator_around_its_launch(tmp_path: Path) -> None:
    outer, inner, call = op("aten::linear", 0, 100), op("aten::addmm", 10, 50), launch(20, 5, 1)
    found = work_of(tmp_path, outer, inner, call, kernel("gemm", 200, 7, 1, stream=9, device=2))
    assert (found.launch.tolist(), found.op.tolist()) == ([2], [1])
    assert (found.device.tolist(), found.stream.tolist(), found.duration.tolist()) == ([2], [9], [7])


def test_calls_of_the_driver_launch_too(tmp_path: Path) -> None:
    call = drawn.event("cuda_driver", "cuLaunchKernelEx", 20, 5, correlation=1)
    assert work_of(tmp_path, call, kernel("nvjet", 200, 7, 1)).launch.tolist() == [0]


def test_one_launch_of_a_graph_starts_many_kernels(tmp_path: Path) -> None:
    call = launch(20, 5, 1, name="cudaGraphLaunch")
    assert work_of(tmp_path, call, kernel("a", 200, 7, 1), kernel("b", 210, 7, 1)).launch.tolist() == [0, 0]


def test_the_launch_may_stand_behind_its_work_in_the_file(tmp_path: Path) -> None:
    assert work_of(tmp_path, kernel("gemm", 200, 7, 1), launch(20, 5, 1)).launch.tolist() == [1]


def test_correlation_0_links_nothing(tmp_path: Path) -> None:
    assert work_of(tmp_path, launch(20, 5, 0), kernel("gemm", 200, 7, 0)).launch.tolist() == [-1]


def test_without_a_launch_the_external_id_names_the_operator(tmp_path: Path) -> None:
    for key in ("External id", "external id"):
        same: dict[str, Any] = {key: 5}
        found = work_of(tmp_path, op("aten::mm", 0, 10, **same), kernel("gemm", 200, 7, 1, **same))
        assert (found.launch.tolist(), found.op.tolist()) == ([-1], [0])


def test_an_external_id_that_is_the_correlation_id_names_nothing(tmp_path: Path) -> None:
    same: dict[str, Any] = {"External id": 5}  # as all files of 2022-2023
    found = work_of(tmp_path, op("aten::mm", 0, 10, **same), kernel("gemm", 200, 7, 5, **same))
    assert found.op.tolist() == [-1]


def test_device_and_stream_come_from_the_lane_where_the_event_does_not_say(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "Kernel", "name": "gemm", "pid": 1, "tid": "stream 7", "ts": 1, "dur": 1, "args": {}}
    found = work_of(tmp_path, event)
    assert (found.device.tolist(), found.stream.tolist()) == ([1], [7])


def test_work_that_ends_before_it_starts_is_empty(tmp_path: Path) -> None:
    found = work_of(tmp_path, kernel("gemm", 200, -50, 1))
    assert (found.start.tolist(), found.end.tolist()) == ([200], [200])


def test_kinds_of_work(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"Collective name": "allreduce"}
    found = work_of(
        tmp_path,
        op("record_param_comms", 0, 50),
        launch(10, 2, 1),
        kernel("copy_in", 100, 5, 1),  # launched by a collective
        kernel("ncclDevKernel_AllReduce", 110, 5, 2),
        kernel("my_reduce", 120, 5, 3, **arguments),
        kernel("gemm", 130, 5, 4),
        kernel("Memcpy DtoH", 140, 5, 5, category="gpu_memcpy"),
        kernel("Memset (Device)", 150, 5, 6, category="gpu_memset"),
    )
    communication = [WorkKind.COMMUNICATION] * 3
    assert found.kind.tolist() == [*communication, WorkKind.COMPUTATION, WorkKind.MEMCPY, WorkKind.MEMSET]
    assert found.of(WorkKind.MEMCPY, WorkKind.MEMSET).tolist() == [False] * 4 + [True] * 2


def test_a_trace_of_the_host_alone_has_no_work(tmp_path: Path) -> None:
    found = work_of(tmp_path, op("aten::mm", 0, 10))
    assert len(found) == 0
    assert found.launch.dtype == found.op.dtype
