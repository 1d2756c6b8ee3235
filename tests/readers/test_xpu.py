"""Traces of Intel's GPUs as Kineto writes them since June 2026, drawn after its source: no public file was to be had.

Device work has no argument `stream` (its queue is the track), launches are calls of Unified Runtime, waits of the host
are `xpu_sync` on the thread, collectives of oneCCL are `collective_comm` there, annotations have copies on the queues,
and so have kernels whose metrics were asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kinetoscope
from kinetoscope.model.job import Job
from tests.drawn import annotation, event, job, op

US = 1000
MAX = {"id": 0, "name": "Intel(R) Data Center GPU Max 1550", "totalGlobalMem": 68_719_476_736, "maxComputeUnits": 512,
       "maxWorkGroupSize": 1024, "maxNumSubGroups": 64, "globalMemCacheSize": 213_909_504}  # fmt: skip


def work(category: str, name: str, start: int, duration: int, correlation: int, *, queue: int = 3, **args: Any) -> Any:
    own: dict[str, Any] = {"External id": correlation, "correlation": correlation, "device": 0, "sycl queue": queue}
    own |= {"context": "0x0000000012345678", "l0 queue": "0x0000000087654321", "appended": "1.500", **args}
    return event(category, name, start * US, duration * US, pid=0, tid=queue, **own)


def call(name: str, start: int, duration: int, correlation: int, category: str = "xpu_runtime") -> Any:
    return event(category, name, start * US, duration * US, correlation=correlation)


@pytest.fixture
def run(tmp_path: Path) -> Job:
    """A step: a copy to the device, a product, an all-reduce by oneCCL, and the host waits."""
    collective: dict[str, Any] = {
        "Collective name": "allreduce",
        "In msg nelems": 1 << 20,
        "Out msg nelems": 1 << 20,
        "dtype": "Float",
        "Group size": 2,
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1]",
    }
    return job(
        tmp_path,
        annotation("ProfilerStep#7", 0, 100 * US),
        op("aten::copy_", 1 * US, 6 * US),
        call("urEnqueueUSMMemcpy", 2, 3, 1),
        op("aten::mm", 8 * US, 6 * US),
        call("urEnqueueKernelLaunchWithArgsExp", 9, 3, 2),
        call("zeCommandListAppendLaunchKernelWithArguments", 10, 1, 2, "xpu_driver"),
        op("c10d::allreduce_", 15 * US, 12 * US),
        op("record_param_comms", 16 * US, 10 * US, **collective),
        event("collective_comm", "xccl::allreduce", 17 * US, 8 * US, Communicator_id=12),
        call("urEnqueueKernelLaunch", 18, 3, 3),
        call("urQueueFinish", 30, 60, 4),
        event("xpu_sync", "zeEventHostSynchronize", 31 * US, 58 * US, pid=-1, correlation=4, Type="HOST_EVENT"),
        work("gpu_memcpy", "Memcpy M2D (MEMORY -> DEVICE)", 10, 10, 1, bytes=1 << 20),
        work("kernel", "gemm_kernel", 25, 20, 2, kernel_id=5, sycl_node_id=9),
        work("kernel", "void Kernel<SyclAllReduce>", 50, 30, 3, queue=4),
        event("gpu_user_annotation", "ProfilerStep#7", 10 * US, 70 * US, pid=0, tid=3),
        *(
            event(
                "kernel",
                f"metrics: {name}",
                start * US - 1,
                length * US + 2,
                pid=0,
                tid=3,
                kernel_id=5,
                queue="1",
                **{"GpuTime::ns": 20_000, "XVE_ACTIVE::%": share},
            )
            for name, start, length, share in (
                ("gemm_kernel", 25, 20, 75.0),
                ("void Kernel<SyclAllReduce>", 50, 30, 5.0),
            )
        ),
        *(
            {
                "ph": "C",
                "cat": "xpu_scope_profiler",
                "name": "xpu",
                "pid": 0,
                "tid": 3,
                "ts": time,
                "args": {"XVE_ACTIVE": share},
            }
            for time, share in ((25.0, 75.0), (45.0, 0.0), (50.0, 5.0), (80.0, 0.0))
        ),
        deviceProperties=[MAX],
        distributedInfo={"backend": "xccl", "rank": 0, "world_size": 2},
    )


def test_work_has_its_queue_its_operator_and_its_kind(run: Job) -> None:
    rows = {row["name"]: row for row in kinetoscope.kernels(run, group_by="launch", copies=True).frame.to_dicts()}
    assert {name: (row["kind"], row["operator"]) for name, row in rows.items()} == {
        "void Kernel<SyclAllReduce>": ("communication", "record_param_comms"),
        "gemm_kernel": ("computation", "aten::mm"),
        "Memcpy M2D (MEMORY -> DEVICE)": ("memcpy", "aten::copy_"),
    }
    assert kinetoscope.memory_bandwidth(run).frame["direction"].to_list() == ["HtoD"]
    assert kinetoscope.idle_breakdown(run, by="stream").frame["stream"].to_list() == [3]


def test_a_step_has_its_time_and_the_host_waits_once(run: Job) -> None:
    step = kinetoscope.step_breakdown(run).frame.row(0, named=True)
    assert (step["step"], step["computation"], step["communication"]) == (7, 20 * US, 30 * US)
    waits = kinetoscope.synchronizations(run).frame
    assert waits["call"].to_list() == ["urQueueFinish"]


def test_a_collective_of_oneccl_counts_once(run: Job) -> None:
    rows = kinetoscope.collectives(run).frame.to_dicts()
    assert [(row["kind"], row["process_group"], row["calls"], row["bytes"]) for row in rows] == [
        ("all_reduce", "0 [0-1]", 1, 4 << 20)
    ]


def test_a_kernel_that_comes_again_with_its_metrics_counts_once(run: Job) -> None:
    rows = {(row["counter"], row["operator"]): row for row in kinetoscope.hardware_counters(run).frame.to_dicts()}
    assert rows["XVE_ACTIVE::%", "aten::mm"]["mean"] == 75.0
    assert {counter for counter, _ in rows} == {"GpuTime::ns", "XVE_ACTIVE::%"}
    [series] = kinetoscope.counters(run).frame.to_dicts()
    assert (series["source"], series["counter"], series["max"]) == ("Device 0", "xpu · XVE_ACTIVE", 75.0)


def test_the_device_is_known(run: Job) -> None:
    assert {*kinetoscope.peaks(run).frame["product"]} == {"Max 1550, one tile"}
