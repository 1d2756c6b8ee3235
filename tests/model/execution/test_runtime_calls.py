"""What calls of the runtimes do, told from their names."""

from pathlib import Path

import pytest

from kinetoscope import read
from kinetoscope.model.execution.runtime_calls import CallKind, call_kind, call_kinds
from tests import drawn


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaLaunchKernel", CallKind.LAUNCH),
        ("cudaLaunchKernelExC", CallKind.LAUNCH),
        ("cuLaunchKernelEx", CallKind.LAUNCH),
        ("cudaLaunchCooperativeKernel", CallKind.LAUNCH),
        ("hipExtModuleLaunchKernel", CallKind.LAUNCH),
        ("hipLaunchKernel", CallKind.LAUNCH),
        ("runFunction - job_prep_and_submit_for_execution", CallKind.LAUNCH),
        ("urEnqueueKernelLaunch", CallKind.LAUNCH),
        ("cudaGraphLaunch", CallKind.GRAPH_LAUNCH),
        ("hipGraphLaunch", CallKind.GRAPH_LAUNCH),
        ("cudaMemcpyAsync", CallKind.COPY),
        ("cuMemcpyHtoDAsync_v2", CallKind.COPY),
        ("hipMemcpyWithStream", CallKind.COPY_AND_WAIT),
        ("enqueueCommand memcpyHtoDAsync", CallKind.COPY),
        ("cudaMemcpy", CallKind.COPY_AND_WAIT),
        ("cuMemcpyDtoH_v2", CallKind.COPY_AND_WAIT),
        ("cudaMemsetAsync", CallKind.SET),
        ("cuMemsetD32Async", CallKind.SET),
        ("cudaStreamSynchronize", CallKind.WAIT_FOR_STREAM),
        ("synchronizeStream", CallKind.WAIT_FOR_STREAM),
        ("hipDeviceSynchronize", CallKind.WAIT_FOR_DEVICE),
        ("cuCtxSynchronize", CallKind.WAIT_FOR_DEVICE),
        ("synchronize", CallKind.WAIT_FOR_DEVICE),
        ("cudaEventSynchronize", CallKind.WAIT_FOR_EVENT),
        ("hipStreamWaitEvent", CallKind.STREAM_WAITS),
        ("enqueueCommand waitOnEvent", CallKind.STREAM_WAITS),
        ("cudaEventRecordWithFlags", CallKind.RECORD_EVENT),
        ("recordEvent", CallKind.RECORD_EVENT),
        ("cudaEventQuery", CallKind.QUERY_EVENT),
        ("cudaMalloc", CallKind.ALLOCATE),
        ("cudaHostAlloc", CallKind.ALLOCATE),
        ("cuMemCreate", CallKind.ALLOCATE),
        ("cudaFree", CallKind.FREE),
        ("cudaFreeHost", CallKind.FREE),
        ("hipHostFree", CallKind.FREE),
        ("cudaOccupancyMaxActiveBlocksPerMultiprocessor", CallKind.OTHER),
        ("cudaStreamGetCaptureInfo_v2", CallKind.OTHER),
        ("cudaEventElapsedTime", CallKind.OTHER),
        ("hipEventDestroy", CallKind.OTHER),
        ("cudaGraphInstantiate", CallKind.OTHER),
    ],
)
def test_a_call_is_known_by_its_name(name: str, kind: CallKind) -> None:
    assert call_kind(name) is kind


def test_only_calls_of_the_runtime_have_a_kind(tmp_path: Path) -> None:
    called = drawn.launch(10, 5, 1, name="cudaStreamSynchronize")
    trace = drawn.job(tmp_path, drawn.op("cudaStreamSynchronize", 0, 20), called).trace()
    assert call_kinds(trace).tolist() == [CallKind.OTHER, CallKind.WAIT_FOR_STREAM]


PAGEABLE, UNKNOWN = "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Host -> Device)"


@pytest.mark.parametrize(
    ("copy", "call", "run", "kind"),
    [
        (PAGEABLE, (0, 90_000), (20_000, 91_000), CallKind.COPY_AND_WAIT),  # in pieces, as the host hands them over
        (PAGEABLE, (0, 6_000), (7_000, 8_000), CallKind.COPY),  # small: taken into the queue
        ("Memcpy DtoH (Device -> Pageable)", (0, 14_000), (10_000, 12_000), CallKind.COPY_AND_WAIT),
        (UNKNOWN, (0, 90_000), (80_000, 85_000), CallKind.COPY_AND_WAIT),
        (UNKNOWN, (0, 20_000), (10_000, 12_000), CallKind.COPY),  # as long as any launch
        (UNKNOWN, (0, 90_000), (80_000, 95_000), CallKind.COPY),
        ("Memcpy HtoD (Pinned -> Device)", (0, 66_000), (50_000, 52_000), CallKind.COPY),  # slow for another reason
        ("Memcpy DtoD (Device -> Device)", (0, 66_000), (50_000, 52_000), CallKind.COPY),
    ],
)
def test_whether_the_host_waits_for_a_queued_copy(
    tmp_path: Path, copy: str, call: tuple[int, int], run: tuple[int, int], kind: CallKind
) -> None:
    queued = drawn.launch(call[0], call[1] - call[0], 1, name="cudaMemcpyAsync")
    work = drawn.kernel(copy, run[0], run[1] - run[0], 1, category="gpu_memcpy")
    assert call_kinds(drawn.job(tmp_path, queued, work).trace()).tolist() == [kind, CallKind.OTHER]


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
    kinds = call_kinds(read(shared_traces / name).trace())
    found = [int((kinds == kind).sum()) for kind in (CallKind.COPY, CallKind.COPY_AND_WAIT)]
    assert found == [copies - waits, waits]
