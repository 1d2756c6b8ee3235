"""What calls of the runtimes do, told from their names."""

from pathlib import Path

import pytest

from kinetoscope.model.runtime_calls import CallKind, call_kind, call_kinds
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
    assert trace.of(call_kinds).tolist() == [CallKind.OTHER, CallKind.WAIT_FOR_STREAM]
