"""Device work, its links and its lanes in files of each era and vendor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinetoscope import Trace, read, step_breakdown, temporal_breakdown
from kinetoscope.model.execution.call_tree import main_thread
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.steps.steps import steps
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from tests import drawn
from tests.catalog.samples import SHARED, required


def event(category: str, name: str, start: int, duration: int, pid: Any, tid: Any, **args: Any) -> drawn.Event:
    return {
        "ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": duration, "args": args
    }  # fmt: skip


def work_of(folder: Path, *events: drawn.Event) -> tuple[Trace, DeviceWork]:
    trace = drawn.job(folder, *events).trace()
    return trace, device_work(trace)


def test_2021_has_other_categories_text_for_threads_and_two_spellings_of_the_external_id(tmp_path: Path) -> None:
    trace, work = work_of(
        tmp_path,
        event("Operator", "ProfilerStep#5", 0, 100, 25738, "25738", **{"External id": 1}),
        event("Operator", "aten::conv2d", 10, 20, 25738, "25738", **{"External id": 2}),
        event("Runtime", "cudaLaunchKernel", 12, 3, 25738, "25738", correlation=7, **{"external id": 2}),
        event("Kernel", "cudnn", 40, 9, 0, "stream 7", correlation=7, device=0, stream=7, **{"external id": 2}),
        event("Memset", "Memset (Device)", 60, 1, 0, "stream 7", correlation=99, **{"external id": 2}),
    )
    assert steps(trace).number.tolist() == [5]
    assert trace.tracks.integer_tids()[main_thread(trace)] == 25738
    assert (work.launch.tolist(), work.op.tolist()) == ([2, -1], [1, 1])
    assert (work.device.tolist(), work.stream.tolist()) == ([0, 0], [7, 7])
    assert work.kind.tolist() == [WorkKind.COMPUTATION, WorkKind.MEMSET]


def test_rocm_calls_its_calls_cuda_and_its_streams_by_address(tmp_path: Path) -> None:
    trace, work = work_of(
        tmp_path,
        event("cpu_op", "aten::mm", 0, 20, 1, 1, **{"External id": 4}),
        event("cuda_runtime", "hipModuleLaunchKernel", 5, 2, 1, 1, correlation=3, stream="0x0", kernel="Cijk"),
        event("kernel", "Cijk_Ailk", 30, 8, 2, 0, correlation=3, device=2, stream=0, kind="Dispatch Kernel"),
        event("gpu_memcpy", "Memcpy HtoD", 40, 8, 2, 0, correlation=5, device=2, stream=0, kind="HostToDevice"),
    )
    assert (work.launch.tolist(), work.op.tolist()) == ([1, -1], [0, -1])
    assert (work.device.tolist(), work.stream.tolist()) == ([2, 2], [0, 0])
    assert trace.rows(EventKind.RUNTIME).tolist() == [1]


def test_mtia_tells_work_from_waiting_by_name(tmp_path: Path) -> None:
    trace, work = work_of(
        tmp_path,
        event("mtia_runtime", "runFunction", 0, 5, 1, 1, correlation=3),
        event("mtia_ccp_events", "merge", 10, 8, 17, 3910, correlation=3, stream=112),
        event("mtia_ccp_events", "dma_request", 20, 8, 17, 3910, stream=105),
        event("mtia_ccp_events", "event_wait", 30, 8, 17, 3910, stream=105),
        event("mtia_ccp_events", "collective_subgraph_execution", 50, 8, 17, 3911, stream=105),
    )
    assert work.rows.tolist() == [1, 2, 4]
    assert work.kind.tolist() == [WorkKind.COMPUTATION, WorkKind.MEMCPY, WorkKind.COMMUNICATION]
    assert (work.launch.tolist(), work.device.tolist()) == ([0, -1, -1], [17, 17, 17])
    assert trace.rows(EventKind.DEVICE_SYNC).tolist() == [3]


def test_a_rank_may_drive_two_devices(tmp_path: Path) -> None:
    job = drawn.job(
        tmp_path,
        drawn.annotation("ProfilerStep#1", 0, 100),
        drawn.launch(10, 2, 1),
        drawn.launch(20, 2, 2),
        drawn.kernel("gemm", 30, 40, 1, device=0),
        drawn.kernel("gemm", 50, 60, 2, device=1),
    )
    [step] = step_breakdown(job).frame.to_dicts()
    assert (step["duration"], step["computation"]) == (110, 80)  # each instant once, on whichever device
    by_device = temporal_breakdown(job).frame
    assert by_device.select("device", "window", "computation").rows() == [(0, 40, 40), (1, 60, 60)]


# --- where real traces say both, what they say agrees

SAY_BOTH = [
    ("resnet50_v100/num_workers_0/worker0.1623143089861.pt.trace.json.gz", 9096, 9096),
    ("ddp_nccl_a100/nccl_data.json.gz", 3774, 3774),
    ("eager_b200/eager_trace.json.gz", 929, 927),
    ("owlv2_h100/google_owlv2-large-patch14-ensemble__1016001.json.gz", 5165, 5165),
    ("resnet_ddp_mi300/resnet_act_checkpoint.json.gz", 3653, 2685),
    ("mi250_train/mi250_minitoy_train_ROCm6_2_kineto.json.gz", 16, 16),
]


@pytest.mark.parametrize(("name", "pieces", "known"), SAY_BOTH, ids=[name.partition("/")[0] for name, _, _ in SAY_BOTH])
def test_the_place_of_the_launch_names_the_operator_that_the_external_id_names(
    name: str, pieces: int, known: int
) -> None:
    trace = read(required(SHARED / name), jobs=1).trace()
    work = device_work(trace)
    linked = (work.launch >= 0) & (work.op >= 0)
    ids = arguments.integers(trace, "external_id")
    assert (len(work), int(linked.sum())) == (pieces, known)
    assert np.array_equal(ids[work.op[linked]], ids[work.rows[linked]])


@pytest.mark.parametrize("name", ["trace_diff/control/control.json.gz", "alexnet_a100/*.json.gz", "queue_length/*.gz"])
def test_files_of_2022_and_2023_hold_the_correlation_under_that_key(name: str) -> None:
    [file] = required(SHARED).glob(name)
    trace = read(file, jobs=1).trace()
    work = device_work(trace)
    ids, correlation = (arguments.integers(trace, key, work.rows) for key in ("external_id", "correlation"))
    assert np.array_equal(ids, correlation)
    assert (work.op[work.launch < 0] == -1).all()  # so that it is not believed
