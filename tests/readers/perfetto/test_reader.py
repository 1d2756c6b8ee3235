"""Recordings of Perfetto: slices, stages of GPUs, counters, what is interned, and whatever clock they were taken by."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import kinetoscope
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.trace.counters import counters
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace
from tests.readers.perfetto.encoding import THREAD, begin, end, recording


def read(folder: Path, *packets: dict[str, Any]) -> Trace:
    file = folder / "trace.pftrace"
    file.write_bytes(gzip.compress(recording(*THREAD, *packets)))
    return kinetoscope.read(file).trace()


def spans(trace: Trace) -> list[tuple[str, int, int]]:
    rows = [row for row in range(len(trace)) if chr(trace.ph[row]) == "X"]
    named = [trace.strings.label(int(trace.name[row])) for row in rows]
    return sorted(zip(named, trace.start[rows].tolist(), trace.end[rows].tolist(), strict=True))


def test_slices_have_their_kinds_and_arguments(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        begin(
            10, "aten::mm", category="cpu_op", External_id=7, Input_Dims=[[2, 3], [3, 4]], Concrete_Inputs={"a": 1.5}
        ),
        begin(12, "cudaLaunchKernel", category="cuda_runtime", correlation=5),
        end(15),
        end(20),
        begin(30, "mine", ok=True),
        end(40),
    )
    assert spans(trace) == [("aten::mm", 10, 20), ("cudaLaunchKernel", 12, 15), ("mine", 30, 40)]
    [op], [call], [mine] = (trace.rows(kind) for kind in (EventKind.HOST_OP, EventKind.RUNTIME, EventKind.ANNOTATION))
    assert trace.event(op)["args"] == {"External id": 7, "Input Dims": [[2, 3], [3, 4]], "Concrete Inputs": {"a": 1.5}}
    assert trace.event(call)["args"] == {"correlation": 5}
    assert trace.event(mine)["args"] == {"ok": True}
    assert (trace.event(op)["pid"], trace.event(op)["tid"]) == (900, 901)


STAGES = {
    "trusted_packet_sequence_id": 1,
    "sequence_flags": 1,
    "interned_data": {
        "event_names": [{"iid": 1, "name": "gemm<float>"}],
        "gpu_specifications": [
            {"iid": 1, "name": "Kernel"},
            {"iid": 2, "name": "Memcpy"},
            {"iid": 9, "name": "[0007] stream 7"},
        ],
        "compute_kernels": [{"iid": 1, "demangled_name": "gemm<float>"}],
        "compute_arg_names": [{"iid": 1, "name": "registers_per_thread"}],
        "gpu_counter_descriptors": [
            {"iid": 1, "gpu_id": 3, "counter_descriptor": {"specs": [{"counter_id": 4, "name": "Power (W)"}]}}
        ],
    },
}


def stage(time: int, duration: int, number: int, which: int = 1, **more: Any) -> dict[str, Any]:
    event = {"event_id": number, "duration": duration, "gpu_id": 3, "hw_queue_iid": 9, "stage_iid": which, **more}
    return {"timestamp": time, "trusted_packet_sequence_id": 1, "sequence_flags": 2, "gpu_render_stage_event": event}


def test_stages_are_device_work_that_calls_launched(tmp_path: Path) -> None:
    launch = begin(12, "cudaLaunchKernel", category="cuda_runtime", correlation=5)
    graph = begin(40, "cudaGraphLaunch", category="cuda_runtime")
    graph["track_event"]["gpu_correlation"] = {"render_stage_submission_event_ids": [102, 103]}
    config = {"grid_size": {"x": 4, "y": 1, "z": 1}, "workgroup_size": {"x": 256, "y": 1, "z": 1}}
    extra = [{"name": "correlation", "value": "5"}, {"name": "context id", "value": "1"}]
    trace = read(
        tmp_path,
        STAGES,
        launch,
        end(15),
        graph,
        end(45),
        stage(20, 10, 101, name_iid=1, kernel_iid=1, extra_data=extra, launch=config),
        stage(50, 5, 102, kernel_iid=1),
        stage(60, 5, 103, 2, extra_data=[{"name": "bytes", "value": "64"}]),
        {
            "timestamp": 21,
            "trusted_packet_sequence_id": 1,
            "gpu_counter_event": {"counter_descriptor_iid": 1, "counters": [{"counter_id": 4, "double_value": 250.5}]},
        },
    )
    work = device_work(trace)
    assert (work.duration.tolist(), work.device.tolist(), work.stream.tolist()) == ([10, 5, 5], [3] * 3, [7] * 3)
    launches = [trace.strings.label(int(trace.name[row])) for row in work.launch.tolist()]
    assert launches == ["cudaLaunchKernel", "cudaGraphLaunch", "cudaGraphLaunch"]
    kernel, other, copy = work.rows.tolist()
    assert trace.event(kernel)["args"]["grid"] == [4, 1, 1]
    assert (trace.event(kernel)["name"], trace.event(other)["name"]) == ("gemm<float>", "gemm<float>")
    assert (trace.kind[copy], trace.event(copy)["args"]["bytes"]) == (EventKind.MEMCPY, 64)
    assert counters(trace).value.tolist() == [250.5]
    assert trace.event(int(counters(trace).rows[0]))["pid"] == "GPU 3 Counters"
