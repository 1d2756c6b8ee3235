"""What events are, and which kernels are those of collective libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope.model.trace.event_kinds import COLLECTIVE_KERNEL_WORDS, EventKind, is_collective_kernel, kind_of
from kinetoscope.model.trace.trace import event_kinds, is_device_work
from kinetoscope.reading import read
from tests import drawn

SHARED = Path(__file__).resolve().parents[4] / "shared" / "traces"
X, INSTANT = ord("X"), ord("i")


@pytest.mark.parametrize(
    ("phase", "category", "name", "kind"),
    [
        (X, "cpu_op", "aten::mm", EventKind.HOST_OP),
        (X, "Operator", "aten::mm", EventKind.HOST_OP),  # 2021
        (X, "user_annotation", "ProfilerStep#1", EventKind.ANNOTATION),
        (X, "gpu_user_annotation", "ProfilerStep#1", EventKind.DEVICE_ANNOTATION),
        (X, "python_function", "nn.Module: Linear_0", EventKind.PYTHON),
        (X, "cuda_runtime", "cudaLaunchKernel", EventKind.RUNTIME),
        (X, "cuda_driver", "cuLaunchKernelEx", EventKind.RUNTIME),
        (X, "Runtime", "cudaLaunchKernel", EventKind.RUNTIME),
        (X, "xpu_driver", "urEnqueueKernelLaunch", EventKind.RUNTIME),
        (X, "graph_event_node", "EventRecord", EventKind.DEVICE_SYNC),
        (X, "graph_host_node", "HostNode: std::function", EventKind.DEVICE_SYNC),
        (X, "kernel", "nvjet_hsh", EventKind.KERNEL),
        (X, "Kernel", "volta_sgemm", EventKind.KERNEL),
        (X, "mtia_ccp_events", "pe_exe", EventKind.KERNEL),
        (X, "mtia_ccp_events", "event_wait", EventKind.DEVICE_SYNC),
        (X, "gpu_memcpy", "Memcpy HtoD", EventKind.MEMCPY),
        (X, "Memcpy", "Memcpy HtoD", EventKind.MEMCPY),
        (X, "gpu_memset", "Memset (Device)", EventKind.MEMSET),
        (X, "cuda_sync", "Stream Sync", EventKind.DEVICE_SYNC),
        (X, "cuda_event", "Event Record", EventKind.DEVICE_SYNC),
        (X, "overhead", "Buffer Flush", EventKind.OVERHEAD),
        (X, "Trace", "PyTorch Profiler (0)", EventKind.SPAN),
        (X, "cuda_profiler_range", "gemm", EventKind.COUNTER_RANGE),
        (X, "something_new", "x", EventKind.OTHER),
        (X, "", "x", EventKind.OTHER),
        (INSTANT, "cpu_instant_event", "[memory]", EventKind.MEMORY),
        (INSTANT, "", "[memory]", EventKind.MEMORY),  # 2021 gave it no category
        (X, "cpu_instant_event", "[memory]", EventKind.MEMORY),  # torch's Python exporter
        (INSTANT, "cpu_instant_event", "[OutOfMemory]", EventKind.INSTANT),
        (INSTANT, "", "Record Window End", EventKind.INSTANT),
        (ord("s"), "ac2g", "ac2g", EventKind.FLOW_START),
        (ord("f"), "ac2g", "ac2g", EventKind.FLOW_END),
        (ord("M"), "", "process_name", EventKind.METADATA),
        (ord("C"), "mtia_counters", "x", EventKind.COUNTER),
        (ord("i"), "cpu_op", "aten::mm", EventKind.INSTANT),
        (0, "cpu_op", "aten::mm", EventKind.OTHER),
    ],
)
def test_phase_category_and_name_make_the_kind(phase: int, category: str, name: str, kind: EventKind) -> None:
    assert kind_of(phase, category, name) == kind


@pytest.mark.parametrize("name", ["mi250_train/*", "mtia/*", "resnet50_v100/num_workers_0/*", "torch_2_13_cpu/mlp.*"])
def test_whole_columns_agree_with_single_events(name: str) -> None:
    paths = sorted(SHARED.glob(name))
    if not paths:
        pytest.skip(f"{name} is not here: shared traces are not part of the project")
    trace = read(paths[0], jobs=1).trace()
    label, rows = trace.strings.label, range(0, len(trace), 7)
    single = [kind_of(int(trace.ph[row]), label(int(trace.category[row])), label(int(trace.name[row]))) for row in rows]
    assert event_kinds(trace)[::7].tolist() == single


def test_device_work_is_kernels_copies_and_sets(tmp_path: Path) -> None:
    trace = drawn.job(
        tmp_path,
        drawn.op("aten::mm", 0, 10, stream=7),  # Inductor's operators carry a stream
        drawn.kernel("gemm", 20, 5, 1),
        drawn.kernel("Memcpy HtoD", 30, 5, 2, category="gpu_memcpy"),
        drawn.kernel("Memset (Device)", 40, 5, 3, category="gpu_memset"),
        drawn.kernel("Stream Wait Event", 50, 5, 4, category="cuda_sync"),
        drawn.kernel("ProfilerStep#1", 0, 90, 0, category="gpu_user_annotation"),
    ).trace()
    assert is_device_work(trace).tolist() == [False, True, True, True, False, False]


@pytest.mark.parametrize(
    "name",
    [
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
        "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
        "void vllm::cross_device_reduce_1stage<c10::BFloat16, 8>",
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport",
        "deep_ep::internode::dispatch",
        "nvshmemi_transfer_rma",
        "mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)",
        "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half, CodecQ4>, __half>",
        "allreduce_rmsnorm_prototype",
        "void aiter::reduce_scatter_cross_device_store<c10::BFloat16, 8>",
        "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8, true, false>(AllReduceParams)",
        "void tensorrt_llm::kernels::twoShotAllReduceKernel<__nv_bfloat16, 4>(AllReduceParams)",
        "void tensorrt_llm::kernels::low_precision::lowPrecisionTwoShotAllReduceKernel<__half, 8>",
        "void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<8, __nv_bfloat16>",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_twoshot_sync<0, __half, 8, false>",
        "void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<8>(int, int, int, int)",
        "kuserbuffers_pushsend(int*, int*, int4*, int4*, int)",
    ],
)
def test_kernels_of_collective_libraries(name: str) -> None:
    assert is_collective_kernel(name)
    assert any(word in name for word in COLLECTIVE_KERNEL_WORDS)


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::reduce_kernel<512, 1>",
        "nvjet_tst_64x64",
        "splitKreduce_kernel",
        "__amd_rocclr_copyBuffer",
        "void softmax<float, BlockAllReduce<float, 128>>",
    ],
)
def test_kernels_that_compute(name: str) -> None:
    assert not is_collective_kernel(name)
