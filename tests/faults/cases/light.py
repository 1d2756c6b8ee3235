"""Light faults, of some percent of a step, as programs that run well otherwise have them; and ranks in other jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tests.faults.case import Case, planted
from tests.faults.cases.autograd import anomaly
from tests.faults.cases.causes import compared, counted, falls_back, on_the_device, on_the_host, padding
from tests.faults.cases.host import in_one_pass, in_passes, launch_blocking
from tests.faults.cases.mixes import Part, by_lists, by_parameter, loading, looked_at, nothing, slept
from tests.faults.cases.ranks import job
from tests.faults.healthy import perceptron, transformer
from tests.faults.host import Body
from tests.faults.kernels import elementwise
from tests.faults.network import Network
from tests.faults.program import Program
from tests.simulator import Fault, Model

_A100: Final[dict[str, Any]] = {"device": "NVIDIA A100-SXM4-40GB", "capability": (8, 0), "memory": 40e9}
_MI300: Final[dict[str, Any]] = {"device": "AMD Instinct MI300X", "capability": (9, 4), "memory": 192e9}


def stepping(first: Part, extra: Part = nothing, last: Part = nothing, *, optimizer: Any = None) -> Body:
    """A step of a middle-sized language model with something small beside it."""

    def body(p: Program, n: int) -> None:
        first(p)
        net = Network(p)
        transformer(net, layers=8, batch=8, length=1024)
        extra(p)
        net.backward()
        (optimizer or (lambda each: each.optimizer(1e8)))(net)
        last(p)

    return body


def head(precision: str) -> Part:
    """Two products outside of autocast."""

    def part(p: Program) -> None:
        net = Network(p, precision, training=False)
        for _ in range(2):
            net.linear(4096, 1024, 2048)

    return part


def chain(count: int) -> Part:
    """Element-wise operators in a row on large tensors."""

    def part(p: Program) -> None:
        net = Network(p, training=False)
        for _ in range(count):
            net.pointwise("aten::mul", 8192, 4096, reads=2)

    return part


def fused() -> Part:
    """What a compiler makes of them."""

    def part(p: Program) -> None:
        net = Network(p, training=False)
        us = net.us(0, 2.0 * 8192 * 4096 * 3)
        with p.op("triton_poi_fused_mul_0", 4):
            p.kernel("triton_poi_fused_mul_0", us, launch="cuLaunchKernel")

    return part


def few_blocks(us: float, blocks: int) -> Part:
    """A kernel of the user's own."""

    def part(p: Program) -> None:
        with p.op("mine::scan", 8, shapes=[[8192, 1024]]):
            p.kernel("void mine::scan<float>(float const*, float*, int)", us, grid=(blocks, 1, 1))

    return part


def emptied(p: Program) -> None:
    """`torch.cuda.empty_cache()`, and what was freed is allocated again."""
    p.release(200)
    for _ in range(3):
        p.free(p.malloc(150e6))


def logged(us: float) -> Part:
    """The loss is fetched, and sent away."""

    def part(p: Program) -> None:
        looked_at(1, 5)(p)
        slept(us)(p)

    return part


def _host(extra: Part = nothing) -> Body:
    """A perceptron on the host alone."""

    def body(p: Program, n: int) -> None:
        p.loader(3000, workers=4)
        net = Network(p, "fp32")
        perceptron(net, rows=512)
        extra(p)
        net.backward()
        net.optimizer(1e6)

    return body


def _ranks(code: str, name: str, model: Model, **fixed: Any) -> Case:
    return Case(code, name, job(model), job(replace(model, **fixed)))


def _job(**more: Any) -> Model:
    plain: dict[str, Any] = {"ranks": 8, "steps": 8, "layers": 6, "elements": 1_500_000, "noise": 0.01}
    return Model(**{**plain, **more})


_READY: Final = loading(2000)
_GOOD: Final = stepping(_READY)


def large_model(p: Program, n: int) -> None:
    """A training step of long kernels."""
    del n
    loading(2000, 4)(p)
    net = Network(p)
    transformer(net, layers=8, batch=32, length=2048, width=2048)
    net.backward()
    net.optimizer(1e8)


def heads(*, twice: bool) -> Body:
    """Two losses behind a model; the backward pass of the second goes through its last layers again, or is added."""

    def body(p: Program, n: int) -> None:
        loading(2000, 4)(p)
        net = Network(p)
        transformer(net, layers=8, batch=8, length=1024)
        last, numbers = list(net._tape[-8:]), list(p._tape[-10:])
        net.backward()
        if twice:
            net._tape[:], p._tape[:] = last, numbers
            net.backward()
        net.optimizer(1e8)

    return body


def short(spread: int) -> Callable[[int], list[int]]:
    """Sequences of 900 on average, so far apart."""

    def lengths(n: int) -> list[int]:
        del n
        return [900 - spread + 2 * spread * place // 47 for place in range(48)]

    return lengths


def transposed(p: Program, *, copied: bool, us: float = 150) -> None:
    """Two transpositions, with copies of large tensors between."""
    net = Network(p, training=False)
    for _ in range(2):
        p.call("aten::transpose", 3, shapes=[[8, 4096, 4096], [], []])
        if copied:
            with p.op("aten::contiguous", 2, shapes=[[8, 4096, 4096], []]):
                net.work("aten::clone", elementwise("direct_copy_kernel_cuda", net.type), us, [8, 4096, 4096])
    p.call("aten::transpose", 3, shapes=[[8, 4096, 4096], [], []])


def table(net: Network, *, dense: bool, times: float = 1.0) -> None:
    """The gradient and the update of a table of 40,000 rows."""
    left = times * (1.0 if dense else 0.1)
    with net.p.backward():
        shapes: tuple[list[int], ...] = ([1024, 256], [1024], [])
        net.work(
            f"aten::embedding_{'dense' if dense else 'sparse'}_backward",
            "embedding_backward_feature_kernel",
            90 * left,
            *shapes,
            concrete=["", "", "40000", "-1", "False"],
            types=["float", "long int", "Scalar"],
        )
    net.optimizer(1e8)
    with net.p.annotation("Optimizer.step#SGD.step"):
        net.work("aten::add_", elementwise("CUDAFunctor_add", "float"), 120 * left, [40000 if dense else 1024, 256])


CASES = (
    planted("DATA001", "a loader that is a little slow", stepping(loading(14e3, 0)), _GOOD, seed=501),
    planted("DATA001", "a loader that is a little slow, A100", stepping(loading(45e3, 0)), _GOOD, seed=502, **_A100),
    planted("DATA002", "workers a little slow", stepping(loading(36e3, 2)), stepping(loading(36e3, 6)), seed=503),
    planted(
        "DATA005",
        "batches of some MB from pageable memory",
        stepping(loading(2000, size=9e6, pinned=False)),
        stepping(loading(2000, size=9e6)),
        seed=504,
    ),
    planted(
        "HOST002", "looked at, with a little work after it", stepping(_READY, last=looked_at(1, 500)), _GOOD, seed=505
    ),
    planted(
        "HOST002",
        "looked at, with a little work after it, MI300X",
        stepping(_READY, last=looked_at(1, 800)),
        _GOOD,
        seed=506,
        **_MI300,
    ),
    planted("HOST002", "looked at four times, A100", stepping(_READY, looked_at(4, 150)), _GOOD, seed=507, **_A100),
    planted(
        "HOST003",
        "six element-wise operators in a row",
        stepping(_READY, chain(6)),
        stepping(_READY, fused()),
        seed=508,
    ),
    planted(
        "HOST003",
        "twelve element-wise operators in a row, A100",
        stepping(_READY, chain(12)),
        stepping(_READY, fused()),
        seed=509,
        **_A100,
    ),
    planted(
        "HOST004",
        "forty parameters one by one",
        stepping(_READY, optimizer=by_parameter(40)),
        stepping(_READY, optimizer=by_lists),
        seed=510,
    ),
    planted(
        "HOST002",
        "looked at, and a millisecond of logging",
        stepping(_READY, last=logged(1500)),
        _GOOD,
        seed=512,
    ),
    planted("HOST008", "logging on the host alone", _host(slept(6e3)), _host(), seed=513, device=None),
    planted(
        "DEVICE001", "two products in FP32", stepping(_READY, head("fp32")), stepping(_READY, head("bf16")), seed=515
    ),
    planted(
        "DEVICE001",
        "two products in FP32, A100",
        stepping(_READY, head("fp32")),
        stepping(_READY, head("tf32")),
        seed=516,
        **_A100,
    ),
    planted(
        "DEVICE003",
        "a kernel of 16 blocks",
        stepping(_READY, few_blocks(1500, 16)),
        stepping(_READY, few_blocks(200, 132)),
        seed=517,
    ),
    planted(
        "DEVICE003",
        "a kernel of one block, MI300X",
        stepping(_READY, few_blocks(1200, 1)),
        stepping(_READY, few_blocks(10, 304)),
        seed=518,
        **_MI300,
    ),
    planted("MEMORY003", "the cache emptied after each step", stepping(_READY, last=emptied), _GOOD, seed=519),
    _ranks(
        "RANKS005",
        "a device that is a tenth slower",
        _job(seed=520, fault=Fault("slow_kernels", 3, 0.1)),
        fault=Fault(),
    ),
    _ranks(
        "RANKS005",
        "a host that is late, 2025",
        _job(seed=521, dialect="2025", fault=Fault("host_gap", 5, 900_000)),
        fault=Fault(),
    ),
    _ranks(
        "RANKS005",
        "a slow loader among 16, ROCm",
        _job(seed=522, ranks=16, dialect="rocm", fault=Fault("data_loading", 9, 700_000)),
        fault=Fault(),
    ),
    _ranks(
        "RANKS005",
        "a slow device, sharded",
        _job(seed=523, style="fsdp", prefetches=True, elements=500_000, fault=Fault("slow_kernels", 2, 0.25)),
        fault=Fault(),
    ),
    _ranks(
        "RANKS005",
        "a slow device, clocks apart",
        _job(seed=524, clock_offset=3_000_000, ranks_per_host=4, fault=Fault("slow_kernels", 6, 0.2)),
        fault=Fault(),
    ),
    _ranks("RANKS006", "sentences of slightly different lengths", _job(seed=525, uneven=0.08, steps=12), uneven=0.0),
    _ranks(
        "RANKS003",
        "gradients reduced at the end, 2022",
        _job(seed=526, overlaps=False, elements=3_000_000, dialect="2024"),
        overlaps=True,
    ),
    _ranks(
        "RANKS008",
        "a checkpoint each fourth step, 16 ranks",
        _job(seed=527, ranks=16, steps=16, fault=Fault("host_gap", 0, 4_000_000, 1, 4)),
        fault=Fault(),
    ),
    planted(
        "HOST010",
        "a short operator on the host",
        stepping(loading(2000, 4), on_the_host(350, 2e4)),
        stepping(loading(2000, 4), on_the_device(20)),
        seed=531,
        steps=8,
    ),
    planted(
        "HOST010",
        "a short operator that falls back to the host, A100",
        stepping(loading(2000, 4), falls_back(600, 4e5)),
        stepping(loading(2000, 4), on_the_device(8)),
        seed=532,
        steps=8,
        **_A100,
    ),
    planted(
        "HOST015",
        "twenty values fetched one by one",
        stepping(loading(2000, 4), last=lambda p: counted(20)(p, 0)),
        stepping(loading(2000, 4), last=lambda p: compared(p, 0)),
        seed=533,
        steps=8,
    ),
    planted(
        "HOST004",
        "Adam with foreach, small",
        stepping(loading(2000, 4), optimizer=in_passes("Adam", 2e7, launches=1)),
        stepping(loading(2000, 4), optimizer=in_one_pass("Adam", 2e7, launches=1)),
        seed=534,
        steps=8,
    ),
    planted(
        "HOST004",
        "SGD with foreach, small, A100",
        stepping(loading(2000, 4), optimizer=in_passes("SGD", 8e7, launches=1)),
        stepping(loading(2000, 4), optimizer=in_one_pass("SGD", 8e7, launches=1)),
        seed=535,
        steps=8,
        **_A100,
    ),
    planted(
        "HOST011",
        "anomaly detection left on, large model",
        anomaly(large_model),
        large_model,
        seed=536,
        steps=6,
    ),
    planted(
        "HOST014",
        "two heads with a backward pass each through the last layers",
        heads(twice=True),
        heads(twice=False),
        seed=537,
        steps=8,
    ),
    planted(
        "DEVICE007",
        "two copies between transpositions",
        stepping(loading(2000, 4), lambda p: transposed(p, copied=True)),
        stepping(loading(2000, 4), lambda p: transposed(p, copied=False)),
        seed=538,
        steps=8,
    ),
    planted(
        "MEMORY006",
        "a table of 40,000 rows beside a large model",
        stepping(loading(2000, 4), optimizer=lambda net: table(net, dense=True)),
        stepping(loading(2000, 4), optimizer=lambda net: table(net, dense=False)),
        seed=539,
        steps=8,
    ),
    planted(
        "HOST009",
        "launches that wait, MI300X",
        launch_blocking(stepping(loading(2000, 4))),
        stepping(loading(2000, 4)),
        seed=540,
        steps=6,
        still=("DEVICE003",),
        **_MI300,
    ),
    planted(
        "HOST010",
        "a short operator on the host, MI300X",
        stepping(loading(2000, 4), on_the_host(500, 2e4)),
        stepping(loading(2000, 4), on_the_device(20)),
        seed=541,
        steps=8,
        still=("DEVICE003",),
        **_MI300,
    ),
    planted(
        "HOST015",
        "forty values fetched one by one, A100",
        stepping(loading(2000, 4), last=lambda p: counted(40)(p, 0)),
        stepping(loading(2000, 4), last=lambda p: compared(p, 0)),
        seed=542,
        steps=8,
        **_A100,
    ),
    planted(
        "HOST011",
        "anomaly detection left on, A100",
        anomaly(stepping(loading(2000, 4))),
        stepping(loading(2000, 4)),
        seed=551,
        steps=5,
        **_A100,
    ),
    planted(
        "HOST014",
        "two heads with a backward pass each, A100",
        heads(twice=True),
        heads(twice=False),
        seed=552,
        steps=8,
        **_A100,
    ),
    planted(
        "MEMORY006",
        "a table of 40,000 rows, A100",
        stepping(loading(2000, 4), optimizer=lambda net: table(net, dense=True, times=4)),
        stepping(loading(2000, 4), optimizer=lambda net: table(net, dense=False, times=4)),
        seed=553,
        steps=8,
        **_A100,
    ),
    planted("DATA008", "sequences of similar length", padding(short(180)), padding(short(6)), seed=554, steps=12),
    planted(
        "DATA008",
        "sequences of similar length, A100",
        padding(short(220)),
        padding(short(6)),
        seed=555,
        steps=12,
        **_A100,
    ),
    planted(
        "HOST010",
        "two short operators on the host",
        stepping(loading(2000, 4), on_the_host(350, 2e4), on_the_host(250, 1e4)),
        stepping(loading(2000, 4), on_the_device(20), on_the_device(20)),
        seed=556,
        steps=8,
    ),
    planted(
        "HOST015",
        "sixty values fetched one by one",
        stepping(loading(2000, 4), last=lambda p: counted(60)(p, 0)),
        stepping(loading(2000, 4), last=lambda p: compared(p, 0)),
        seed=557,
        steps=8,
    ),
    planted(
        "DEVICE007",
        "two copies between transpositions, A100",
        stepping(loading(2000, 4), lambda p: transposed(p, copied=True, us=400)),
        stepping(loading(2000, 4), lambda p: transposed(p, copied=False)),
        seed=558,
        steps=8,
        **_A100,
    ),
)
