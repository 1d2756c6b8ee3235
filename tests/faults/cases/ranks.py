"""What goes wrong among ranks: jobs of the simulator, with the fault and without it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tests.faults.case import Case, Draw, Healthy, planted
from tests.faults.host import Body
from tests.faults.program import Program
from tests.simulator import Fault, Model, simulate

_FAMILY: Final = "Across ranks"


def job(model: Model) -> Draw:
    """Draws a job of several ranks."""

    def draw(folder: Path) -> float:
        return simulate(model, folder).step_time

    return draw


def _case(code: str, name: str, model: Model, still: tuple[str, ...] = (), /, **fixed: Any) -> Case:
    return Case(code, name, job(model), job(replace(model, **fixed)), still=still, family=_FAMILY)


def _data_parallel(**more: Any) -> Model:
    """Large layers, whose gradients the backward pass just hides."""
    plain: dict[str, Any] = {"ranks": 4, "steps": 10, "layers": 6, "elements": 6_000_000, "noise": 0.01}
    return Model(**{**plain, **more})


def _in_one_process(devices: int, layers: int, kernel: float, host: float) -> Body:
    """DataParallel: the model is copied to all devices, which are served in turn, forward and backward."""

    def body(p: Program, n: int) -> None:
        p.loader(3000, workers=4)
        with p.annotation("DataParallel.forward"):
            for device in range(1, devices):
                with p.op("Broadcast", 20):
                    p.kernel("ncclDevKernel_Broadcast_RING_LL", 120, stream=7 + 100 * device, device=device)
            for place in range(layers):
                for device in range(devices):
                    with p.op("aten::linear", host):
                        p.kernel(_GEMM, kernel * (1 + place % 3 / 4), stream=7 + 100 * device, device=device)
        for device in range(1, devices):
            p.event_wait(7, 7 + 100 * device)
        with p.op("aten::cross_entropy_loss", host):
            p.kernel("void softmax_warp_forward", 60)
        for place in reversed(range(layers)):
            for device in range(devices):
                with p.op("aten::mm", host):
                    p.kernel(_GEMM, 2 * kernel * (1 + place % 3 / 4), stream=7 + 100 * device, device=device)
        for device in range(1, devices):
            p.event_wait(7, 7 + 100 * device)
        with p.annotation("Optimizer.step#SGD.step"), p.op("aten::_fused_sgd_", 20):
            p.kernel("multi_tensor_apply_kernel", 150)
        p.synchronize("cudaStreamSynchronize")

    return body


def _in_its_own(layers: int, kernel: float, host: float) -> Body:
    """The same model on one of the devices, each with a process, gradients reduced meanwhile."""

    def body(p: Program, n: int) -> None:
        p.loader(3000, workers=4)
        for place in range(layers):
            with p.op("aten::linear", host):
                p.kernel(_GEMM, kernel * (1 + place % 3 / 4))
        with p.op("aten::cross_entropy_loss", host):
            p.kernel("void softmax_warp_forward", 60)
        for place in reversed(range(layers)):
            with p.op("aten::mm", host):
                p.kernel(_GEMM, 2 * kernel * (1 + place % 3 / 4))
            if place % 8 == 0:
                p.event_wait(17, 7)
                with p.op("c10d::allreduce_", host):
                    p.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 150, stream=17)
        p.event_wait(7, 17)
        with p.annotation("Optimizer.step#SGD.step"), p.op("aten::_fused_sgd_", 20):
            p.kernel("multi_tensor_apply_kernel", 150)
        p.synchronize("cudaStreamSynchronize")

    return body


_GEMM: Final = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas"

CASES: Final = (
    planted(
        "RANKS001", "four devices, one process", _in_one_process(4, 48, 60, 30), _in_its_own(48, 60, 30), seed=199,
        family=_FAMILY, steps=12,
    ),
    planted(
        "RANKS001", "two devices, one slow process", _in_one_process(2, 32, 90, 90),
        _in_its_own(32, 90, 90), seed=200, family=_FAMILY, steps=12,
    ),
    _case("RANKS002", "gloo, one machine", _data_parallel(seed=201, staged=True), staged=False),
    _case(
        "RANKS002", "gloo, two machines, small model",
        _data_parallel(seed=202, staged=True, ranks=8, elements=500_000), staged=False,
    ),
    _case("RANKS003", "reduced after the backward pass", _data_parallel(seed=203, overlaps=False), overlaps=True),
    _case(
        "RANKS003", "reduced after the backward pass, two machines",
        _data_parallel(seed=204, overlaps=False, ranks=8, elements=10_000_000, noise=0.03), overlaps=True,
    ),
    _case(
        "RANKS003", "gathered when needed",
        _data_parallel(seed=205, style="fsdp", ranks=8, elements=10_000_000), ("RANKS003",), prefetches=True,
    ),
    _case(
        "RANKS003", "gathered when needed, large layers of few kernels",
        _data_parallel(seed=206, style="fsdp", ranks=4, elements=30_000_000, kernel=300_000), ("RANKS003",),
        prefetches=True,
    ),
    _case(
        "RANKS003", "gradients in float32 over a slow network",
        _data_parallel(seed=207, width=4, ranks=8, elements=16_000_000), ("RANKS003",), width=2,
    ),
    _case(
        "RANKS003", "gradients in float32, in small buckets of which the backward pass hides many",
        _data_parallel(seed=227, ranks=8, pieces=10, elements=6_000_000, width=4), ("RANKS003", "RANKS004"), width=2,
    ),
    _case(
        "RANKS003", "gradients in float32, of which the last bucket is in the open",
        _data_parallel(seed=228, elements=8_000_000, width=4), width=2,
    ),
    _case(
        "RANKS004", "gradients in pieces of 64 kB",
        _data_parallel(seed=208, ranks=8, pieces=40, elements=1_280_000, launch=6_000), pieces=1,
    ),
    _case(
        "RANKS004", "gradients in pieces of 250 kB",
        _data_parallel(seed=209, ranks=4, pieces=24, elements=3_000_000, launch=6_000, kernel=60_000), pieces=1,
    ),
    _case(
        "RANKS005", "a slow device",
        _data_parallel(seed=210, ranks=8, elements=2_000_000, fault=Fault("slow_kernels", 3, 0.25)), fault=Fault(),
    ),
    _case(
        "RANKS005", "one loader is slow",
        _data_parallel(seed=211, elements=2_000_000, fault=Fault("data_loading", 2, 1_500_000)), fault=Fault(),
    ),
    _case(
        "RANKS005", "one host does something else",
        _data_parallel(seed=212, ranks=8, style="fsdp", elements=1_000_000, fault=Fault("host_gap", 5, 1_000_000)),
        ("RANKS003",), fault=Fault(),
    ),
    _case(
        "RANKS005", "one rank prints its loss",
        _data_parallel(seed=213, elements=2_000_000, fault=Fault("synchronization", 0, 150_000)), fault=Fault(),
    ),
    _case(
        "RANKS005", "a slow device among tensor parallel ranks",
        _data_parallel(seed=214, ranks=8, tensor=2, elements=1_000_000, fault=Fault("slow_kernels", 1, 0.2)),
        fault=Fault(),
    ),
    _case(
        "RANKS005", "a late host, behind the backward pass of the others",
        _data_parallel(seed=300, elements=40_000_000, fault=Fault("host_gap", 1, 3_000_000)), fault=Fault(),
    ),
    _case(
        "RANKS005", "a slow device, behind the backward pass of the others",
        _data_parallel(seed=301, elements=40_000_000, fault=Fault("slow_kernels", 2, 0.3)), fault=Fault(),
    ),
    _case(
        "RANKS005", "a slow loader, behind the backward pass of the others",
        _data_parallel(seed=302, elements=40_000_000, fault=Fault("data_loading", 3, 3_000_000)), fault=Fault(),
    ),
    _case(
        "RANKS005", "a late host among hosts",
        _data_parallel(seed=239, dialect="gloo", elements=2_000_000, fault=Fault("host_gap", 1, 2_000_000)),
        fault=Fault(),
    ),
    _case(
        "RANKS005", "the later one of two",
        _data_parallel(
            seed=305, ranks=8, elements=9_000_000, fault=Fault("host_gap", 1, 3_000_000),
            other=Fault("slow_kernels", 5, 0.2),
        ),
        ("RANKS005",), fault=Fault(),
    ),
    _case(
        "RANKS006", "sentences of all lengths", _data_parallel(seed=215, elements=1_000_000, uneven=0.15), levelled=True
    ),
    _case(
        "RANKS006", "sentences of all lengths, 16 ranks",
        _data_parallel(seed=216, ranks=16, steps=12, elements=1_000_000, uneven=0.08), levelled=True,
    ),
    _case(
        "RANKS007", "the link of one rank, between pairs",
        _data_parallel(
            seed=217, ranks=8, tensor=2, elements=24_000_000, fault=Fault("slow_link", 4, 4.0), ranks_per_host=2
        ),
        ("RANKS003",), fault=Fault(),
    ),
    _case(
        "RANKS007", "the link of one rank among replicas",
        _data_parallel(seed=218, ranks=8, tensor=4, elements=8_000_000, fault=Fault("slow_link", 6, 3.0)),
        ("RANKS003",), fault=Fault(),
    ),
    _case(
        "RANKS010", "collectives over host memory",
        _data_parallel(seed=225, elements=4_000_000, links=0.1), ("RANKS003",), links=1.0,
    ),
    _case(
        "RANKS010", "collectives over PCIe",
        _data_parallel(seed=226, elements=6_000_000, links=0.2), ("RANKS003",), links=1.0,
    ),
    _case(
        "RANKS010", "parameters gathered over PCIe",
        _data_parallel(seed=227, style="fsdp", elements=12_000_000, links=0.2, prefetches=True), ("RANKS003",),
        links=1.0,
    ),
    _case(
        "RANKS008", "a checkpoint each fifth step",
        _data_parallel(seed=219, steps=20, elements=1_000_000, fault=Fault("host_gap", 0, 6_000_000, 3, 5)),
        fault=Fault(),
    ),
    _case(
        "RANKS008", "evaluation each fourth step",
        _data_parallel(seed=220, ranks=8, steps=16, elements=1_000_000, fault=Fault("host_gap", 0, 3_000_000, 2, 4)),
        fault=Fault(),
    ),
)  # fmt: skip

HEALTHY: Final = (
    Healthy("data parallel, 4 ranks", job(_data_parallel(seed=231, elements=1_000_000))),
    Healthy("data parallel, 16 ranks on 4 machines", job(_data_parallel(seed=232, ranks=16, elements=1_000_000))),
    Healthy("sharded, gathered ahead", job(_data_parallel(seed=233, style="fsdp", prefetches=True, elements=500_000))),
    Healthy("tensor parallel", job(_data_parallel(seed=234, ranks=8, tensor=4, elements=1_000_000))),
    Healthy("pipeline of two stages", job(_data_parallel(seed=235, ranks=4, pipeline=2, elements=500_000))),
    Healthy("uneven steps, even ranks", job(_data_parallel(seed=236, shapes=0.2, elements=1_000_000))),
    Healthy("noise of 5 %", job(_data_parallel(seed=237, noise=0.05, ranks=8, elements=1_000_000))),
    Healthy("gloo on CPUs, exposed", job(_data_parallel(seed=239, dialect="gloo", elements=2_000_000))),
    Healthy("gloo on CPUs", job(_data_parallel(seed=238, dialect="gloo", elements=200_000))),
)
