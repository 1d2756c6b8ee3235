"""Faults in other strengths and company than their rules were written with: two at once, other vendors, few steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.faults.case import planted
from tests.faults.healthy import perceptron, resnet, transformer
from tests.faults.host import Body
from tests.faults.kernels import elementwise, multi_tensor
from tests.faults.network import Network
from tests.faults.program import Program

_A100: Final[dict[str, Any]] = {"device": "NVIDIA A100-SXM4-40GB", "capability": (8, 0), "memory": 40e9}
_V100: Final[dict[str, Any]] = {"device": "Tesla V100-SXM2-16GB", "capability": (7, 0), "memory": 16e9}
_MI300: Final[dict[str, Any]] = {"device": "AMD Instinct MI300X", "capability": (9, 4), "memory": 192e9}
_CPU: Final[dict[str, Any]] = {"device": None}

Part = Callable[[Program], object]


def nothing(p: Program) -> None:
    """No fault here."""


def loading(us: float, workers: int = 4, size: float = 2e6, **copy: Any) -> Part:
    """A batch of torch's loader, copied to the device."""

    def part(p: Program) -> None:
        p.loader(us, workers=workers)
        if p.device:
            p.to_device(size, **{"pinned": True, "blocking": False, **copy})

    return part


def looked_at(times: int = 1, host: float = 300, *, pinned: bool = True) -> Part:
    """A loss that is fetched, so many times, each followed by something that the host does with it."""

    def part(p: Program) -> None:
        for _ in range(times):
            with p.python("metrics.py(31): log"):
                p.item(pinned=pinned)
                p.host(host)

    return part


def masked(p: Program) -> None:
    """Rows are chosen by a mask: the host has to know how many."""
    with p.python("model.py(88): select"), p.op("aten::nonzero", 12, shapes=[[65536]]):
        p.kernel("void at::native::(anonymous namespace)::DeviceReduceSingleTileKernel", 8)
        p.copy("DtoH", 8, pinned=True)
    p.call("aten::index", 10)
    p.host(150)


def fetched(size: float) -> Part:
    """All of an output goes to the host in each step."""

    def part(p: Program) -> None:
        with p.op("aten::to", 2), p.op("aten::_to_copy", 3), p.op("aten::copy_", 4):
            p.copy("DtoH", size)
        p.host(400)

    return part


def slept(us: float, frame: str = "train.py(57): report") -> Part:
    """The loop waits for something that is nobody's operator."""

    def part(p: Program) -> None:
        with p.python(frame):
            p.wait(us)

    return part


def generated(us: float) -> Part:
    """A batch of a generator of the user's own."""

    def part(p: Program) -> None:
        slept(us, "data.py(20): batches")(p)
        p.to_device(2e6, pinned=True, blocking=False)

    return part


def synchronised(p: Program) -> None:
    """A step whose time is taken."""
    p.synchronize("cudaDeviceSynchronize")
    p.host(500)


def collected(us: float, every: int = 1) -> Part:
    """Python's collector runs."""
    count = iter(range(1 << 30))

    def part(p: Program) -> None:
        if next(count) % every == 0:
            with p.python("Python GC"):
                p.host(us)

    return part


def stepping(
    *,
    first: Part = nothing,
    between: Part = nothing,
    last: Part = nothing,
    layers: Callable[[Network], None] = transformer,
    precision: str = "bf16",
    host: float = 1.0,
    optimizer: Callable[[Network], None] | None = None,
) -> Body:
    """A training step with something before it, between forward and backward, and after it."""

    def body(p: Program, n: int) -> None:
        first(p)
        net = Network(p, precision, host)
        layers(net)
        between(p)
        net.backward()
        (optimizer or (lambda each: each.optimizer(1e8)))(net)
        last(p)

    return body


def by_parameter(count: int) -> Callable[[Network], None]:
    """Adam in a Python loop."""

    def part(net: Network) -> None:
        names = ("lerp_", "mul_", "addcmul_", "sqrt", "div_", "add_", "addcdiv_")
        kernel, shape = elementwise("CUDAFunctor_add", "float"), [256, 256]
        with net.p.annotation("Optimizer.step#Adam.step"):
            for _ in range(count):
                for name in names:
                    net.work(f"aten::{name}", kernel, 3.5, shape, shape, types=["float"] * 2)
                net.p.host(6)
        with net.p.annotation("Optimizer.zero_grad#Adam.zero_grad"):
            net.p.host(15)

    return part


def by_lists(net: Network) -> None:
    """The same, fused."""
    with net.p.annotation("Optimizer.step#Adam.step"):
        net.p.host(60)
        name = multi_tensor("FusedAdamMathFunctor")
        net.work("aten::_fused_adam_", name, 60, [256, 256], types=["TensorList"], cost=120)
    with net.p.annotation("Optimizer.zero_grad#Adam.zero_grad"):
        net.p.host(15)


def small(net: Network) -> None:
    """A small language model: the host can just keep up."""
    transformer(net, layers=6, batch=4, length=512)


def vision(net: Network) -> None:
    """A residual network."""
    resnet(net, batch=128, blocks=8)


_PRODUCT: Final = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_cublas"


def captured(p: Program, n: int) -> None:
    """A step that is one graph."""
    loading(1500)(p)
    us = Network(p).us(2.0 * 128 * 512 * 1536, 2 * 512 * 1536)
    p.graph_launch([(_PRODUCT, us)] * 330)


def eager(p: Program, n: int) -> None:
    """The same kernels, launched one by one."""
    loading(1500)(p)
    net = Network(p)
    us = net.us(2.0 * 128 * 512 * 1536, 2 * 512 * 1536)
    for _ in range(330):
        net.work("aten::mm", _PRODUCT, us, [128, 512], [512, 1536])


def host_mlp(net: Network) -> None:
    """For a CPU."""
    perceptron(net, rows=1024)


_READY: Final = stepping(first=loading(2000))
_SMALL: Final = stepping(first=loading(2000), layers=small)
_VISION: Final[dict[str, Any]] = {"layers": vision, "precision": "fp16"}

CASES = (
    # loading
    planted("DATA001", "in the process, 3 steps", stepping(first=loading(45e3, 0)), _READY, seed=301, steps=3),
    planted("DATA001", "in the process, jitter of 20 %", stepping(first=loading(30e3, 0)), _READY, seed=302, noise=0.2),
    planted("DATA001", "in the process, MI300X", stepping(first=loading(26e3, 0)), _READY, seed=303, **_MI300),
    planted(
        "DATA001+HOST002",
        "in the process, and the loss looked at",
        stepping(first=loading(15e3, 0), last=looked_at(1, 1500)),
        _READY,
        seed=304,
    ),
    planted(
        "DATA002",
        "three workers of six, 60 steps",
        stepping(first=loading(110e3, 3)),
        stepping(first=loading(110e3, 6)),
        seed=305,
        steps=40,
    ),
    planted(
        "DATA002",
        "one worker of two, 4 steps",
        stepping(first=loading(40e3, 1)),
        stepping(first=loading(40e3, 4)),
        seed=306,
        steps=4,
    ),
    planted(
        "DATA002",
        "two workers of three, jitter of 15 %",
        stepping(first=loading(64e3, 2)),
        stepping(first=loading(64e3, 5)),
        seed=307,
        noise=0.15,
    ),
    planted("DATA004", "a generator that waits", stepping(first=generated(20e3)), _READY, seed=308),
    planted(
        "DATA005",
        "large pageable batches, A100",
        stepping(first=loading(2000, 4, 120e6, pinned=False), **_VISION),
        stepping(first=loading(2000, 4, 120e6), **_VISION),
        seed=309,
        **_A100,
    ),
    planted(
        "DATA007",
        "large pageable batches, MI300X",
        stepping(first=loading(2000, 4, 120e6, pinned=False), **_VISION),
        stepping(first=loading(2000, 4, 120e6), **_VISION),
        seed=310,
        **_MI300,
    ),
    # the host
    planted(
        "HOST002",
        "the loss looked at in each small step",
        stepping(first=loading(2000), layers=small, last=looked_at(1, 400)),
        _SMALL,
        seed=320,
    ),
    planted(
        "HOST002",
        "looked at twelve times a step, MI300X",
        stepping(first=loading(2000), between=looked_at(12, 60)),
        _READY,
        seed=321,
        **_MI300,
    ),
    planted(
        "HOST002",
        "looked at, copied to pageable memory, 3 steps",
        stepping(first=loading(2000), layers=small, last=looked_at(2, 250, pinned=False)),
        _SMALL,
        seed=322,
        steps=3,
    ),
    planted(
        "HOST002",
        "rows chosen by a mask, with stacks",
        stepping(first=loading(2000), layers=small, between=masked),
        stepping(first=loading(2000), layers=small),
        seed=323,
        stacks=True,
        steps=8,
    ),
    planted(
        "HOST002",
        "a large output fetched in each step",
        stepping(first=loading(2000), last=fetched(20e6)),
        _READY,
        seed=324,
    ),
    planted(
        "HOST002",
        "the device synchronised in each step",
        stepping(first=loading(2000), layers=small, last=synchronised),
        _SMALL,
        seed=325,
        noise=0.1,
    ),
    planted(
        "HOST002",
        "looked at, and the loader too slow",
        stepping(first=loading(40e3, 2), last=looked_at(1, 2500)),
        stepping(first=loading(40e3, 2)),
        seed=326,
        still=("DATA002",),
    ),
    planted("HOST001", "launched one by one instead of in a graph", eager, captured, seed=330),
    planted("HOST001", "the same with a slow host, 3 steps", eager, captured, seed=331, steps=3, launch_us=9),
    planted(
        "HOST004",
        "Adam parameter by parameter",
        stepping(first=loading(2000), layers=small, optimizer=by_parameter(120)),
        stepping(first=loading(2000), layers=small, optimizer=by_lists),
        seed=332,
    ),
    planted(
        "HOST004",
        "Adam parameter by parameter, a few of them",
        stepping(first=loading(2000), optimizer=by_parameter(60)),
        stepping(first=loading(2000), optimizer=by_lists),
        seed=333,
        stacks=True,
        steps=8,
    ),
    planted(
        "HOST006",
        "the collector in each third step",
        stepping(first=loading(2000), layers=small, last=collected(30e3, 3)),
        _SMALL,
        seed=334,
        stacks=True,
        steps=12,
    ),
    planted(
        "HOST006",
        "the collector in each step",
        stepping(first=loading(2000), layers=small, last=collected(9e3)),
        _SMALL,
        seed=335,
        stacks=True,
        steps=8,
    ),
    planted(
        "HOST008",
        "the loop waits in each step",
        stepping(first=loading(2000), layers=small, last=slept(12e3)),
        _SMALL,
        seed=336,
    ),
    planted(
        "HOST008",
        "the loop waits in each step, on the host alone",
        stepping(first=loading(2000), layers=host_mlp, precision="fp32", last=slept(12e3)),
        stepping(first=loading(2000), layers=host_mlp, precision="fp32"),
        seed=337,
        **_CPU,
    ),
    planted(
        "HOST008",
        "the loop waits a little, with stacks",
        stepping(first=loading(2000), layers=small, last=slept(5e3)),
        _SMALL,
        seed=338,
        stacks=True,
        steps=8,
    ),
)
