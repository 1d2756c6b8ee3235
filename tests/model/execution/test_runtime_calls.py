"""What calls of the runtimes do, told from their names."""

from pathlib import Path
from typing import Any

import pytest

from kinetoscope import read
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kind, runtime_call_kinds
from tests import drawn


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaLaunchKernel", RuntimeCallKind.LAUNCH),
        ("cudaLaunchKernelExC", RuntimeCallKind.LAUNCH),
        ("cuLaunchKernelEx", RuntimeCallKind.LAUNCH),
        ("cudaLaunchCooperativeKernel", RuntimeCallKind.LAUNCH),
        ("hipExtModuleLaunchKernel", RuntimeCallKind.LAUNCH),
        ("hipLaunchKernel", RuntimeCallKind.LAUNCH),
        ("runFunction - job_prep_and_submit_for_execution", RuntimeCallKind.LAUNCH),
        ("urEnqueueKernelLaunch", RuntimeCallKind.LAUNCH),
        ("cudaGraphLaunch", RuntimeCallKind.GRAPH_LAUNCH),
        ("hipGraphLaunch", RuntimeCallKind.GRAPH_LAUNCH),
        ("cudaMemcpyAsync", RuntimeCallKind.COPY),
        ("cuMemcpyHtoDAsync_v2", RuntimeCallKind.COPY),
        ("hipMemcpyWithStream", RuntimeCallKind.COPY_AND_WAIT),
        ("enqueueCommand memcpyHtoDAsync", RuntimeCallKind.COPY),
        ("cudaMemcpy", RuntimeCallKind.COPY_AND_WAIT),
        ("cuMemcpyDtoH_v2", RuntimeCallKind.COPY_AND_WAIT),
        ("cudaMemsetAsync", RuntimeCallKind.SET),
        ("cuMemsetD32Async", RuntimeCallKind.SET),
        ("cudaStreamSynchronize", RuntimeCallKind.WAIT_FOR_STREAM),
        ("synchronizeStream", RuntimeCallKind.WAIT_FOR_STREAM),
        ("hipDeviceSynchronize", RuntimeCallKind.WAIT_FOR_DEVICE),
        ("cuCtxSynchronize", RuntimeCallKind.WAIT_FOR_DEVICE),
        ("synchronize", RuntimeCallKind.WAIT_FOR_DEVICE),
        ("cudaEventSynchronize", RuntimeCallKind.WAIT_FOR_EVENT),
        ("hipStreamWaitEvent", RuntimeCallKind.STREAM_WAITS),
        ("enqueueCommand waitOnEvent", RuntimeCallKind.STREAM_WAITS),
        ("cudaEventRecordWithFlags", RuntimeCallKind.RECORD_EVENT),
        ("recordEvent", RuntimeCallKind.RECORD_EVENT),
        ("cudaEventQuery", RuntimeCallKind.QUERY_EVENT),
        ("cudaMalloc", RuntimeCallKind.ALLOCATE),
        ("cudaHostAlloc", RuntimeCallKind.ALLOCATE),
        ("cuMemCreate", RuntimeCallKind.ALLOCATE),
        ("cudaFree", RuntimeCallKind.FREE),
        ("cudaFreeHost", RuntimeCallKind.FREE),
        ("hipHostFree", RuntimeCallKind.FREE),
        ("cudaOccupancyMaxActiveBlocksPerMultiprocessor", RuntimeCallKind.OTHER),
        ("cudaStreamGetCaptureInfo_v2", RuntimeCallKind.OTHER),
        ("cudaEventElapsedTime", RuntimeCallKind.OTHER),
        ("hipEventDestroy", RuntimeCallKind.OTHER),
        ("cudaGraphInstantiate", RuntimeCallKind.OTHER),
    ],
)
def test_a_call_is_known_by_its_name(name: str, kind: RuntimeCallKind) -> None:
    assert runtime_call_kind(name) is kind


def test_only_calls_of_the_runtime_have_a_kind(tmp_path: Path) -> None:
    called = drawn.launch(10, 5, 1, name="cudaStreamSynchronize")
    trace = drawn.job(tmp_path, drawn.op("cudaStreamSynchronize", 0, 20), called).trace()
    assert runtime_call_kinds(trace).tolist() == [RuntimeCallKind.OTHER, RuntimeCallKind.WAIT_FOR_STREAM]


PAGEABLE, UNKNOWN = "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Host -> Device)"


@pytest.mark.parametrize(
    ("copy", "call", "run", "kind"),
    [
        (
            PAGEABLE,
            (0, 90_000),
            (20_000, 91_000),
            RuntimeCallKind.COPY_AND_WAIT,
        ),  # in pieces, as the host hands them over
        (PAGEABLE, (0, 6_000), (7_000, 8_000), RuntimeCallKind.COPY),  # small: taken into the queue
        ("Memcpy DtoH (Device -> Pageable)", (0, 14_000), (10_000, 12_000), RuntimeCallKind.COPY_AND_WAIT),
        (UNKNOWN, (0, 90_000), (80_000, 85_000), RuntimeCallKind.COPY_AND_WAIT),
        (UNKNOWN, (0, 20_000), (10_000, 12_000), RuntimeCallKind.COPY),  # as long as any launch
        (UNKNOWN, (0, 90_000), (80_000, 95_000), RuntimeCallKind.COPY),
        (
            "Memcpy HtoD (Pinned -> Device)",
            (0, 66_000),
            (50_000, 52_000),
            RuntimeCallKind.COPY,
        ),  # slow for another reason
        ("Memcpy DtoD (Device -> Device)", (0, 66_000), (50_000, 52_000), RuntimeCallKind.COPY),
    ],
)
def test_whether_the_host_waits_for_a_queued_copy(
    tmp_path: Path, copy: str, call: tuple[int, int], run: tuple[int, int], kind: RuntimeCallKind
) -> None:
    queued = drawn.launch(call[0], call[1] - call[0], 1, name="cudaMemcpyAsync")
    work = drawn.kernel(copy, run[0], run[1] - run[0], 1, category="gpu_memcpy")
    assert runtime_call_kinds(drawn.job(tmp_path, queued, work).trace()).tolist() == [kind, RuntimeCallKind.OTHER]


@pytest.mark.parametrize(
    ("name", "copies", "waits"),
    [
        ("owlv2_h100", 85, 65),  # all 55 to pageable memory, and 10 of the 25 from it
        ("eager_b200", 161, 0),  # the first call takes 66 us, for a copy from pinned memory
        ("resnet50_v100/num_workers_0/worker0.1623143089861.pt.trace.json.gz", 12, 6),  # images, not labels
        ("resnet_ddp_mi300", 366, 0),
    ],
)
def test_copies_that_the_host_waits_for_in_real_traces(shared_traces: Path, name: str, copies: int, waits: int) -> None:
    kinds = runtime_call_kinds(read(shared_traces / name).trace())
    found = [int((kinds == kind).sum()) for kind in (RuntimeCallKind.COPY, RuntimeCallKind.COPY_AND_WAIT)]
    assert found == [copies - waits, waits]


@pytest.mark.parametrize(("source", "waits"), [("pageable", True), ("pinned", False)])
def test_the_kind_of_memory_may_stand_in_an_argument(tmp_path: Path, source: str, waits: bool) -> None:
    args: dict[str, Any] = {"copy kind": "HtoD", "src kind": source, "dst kind": "device"}
    call = drawn.launch(0, 100_000, 1, name="cudaMemcpyAsync")
    work = drawn.kernel("Memcpy", 50_000, 60_000, 1, category="gpu_memcpy", **args)
    kinds = runtime_call_kinds(drawn.job(tmp_path, call, work).trace())
    assert (kinds[0] == RuntimeCallKind.COPY_AND_WAIT) == waits
