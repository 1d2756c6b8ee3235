"""Faults of the host: what it does too slowly, too often, or at the wrong time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final

from tests.faults.case import planted
from tests.faults.healthy import perceptron, resnet, transformer
from tests.faults.host import Body
from tests.faults.kernels import elementwise, multi_tensor
from tests.faults.network import Network
from tests.faults.program import Program

_A100: Final[dict[str, Any]] = {"device": "NVIDIA A100-SXM4-40GB", "capability": (8, 0), "memory": 40e9}
_MI300: Final[dict[str, Any]] = {"device": "AMD Instinct MI300X", "capability": (9, 4), "memory": 192e9}
_CPU: Final[dict[str, Any]] = {"device": None}

Layers = Callable[[Network], None]
Part = Callable[[Program, int], object]


def nothing(p: Program, n: int) -> None:
    """No fault."""


def training(
    layers: Layers,
    *,
    before: Part = nothing,
    after: Part = nothing,
    update: Layers | None = None,
    precision: str = "bf16",
) -> Body:
    """A training step with something before its forward pass and after its optimizer."""

    def body(p: Program, n: int) -> None:
        p.loader(1500, workers=4)
        if p.device:
            p.to_device(1e6, pinned=True, blocking=False)
        before(p, n)
        net = Network(p, precision)
        layers(net)
        net.backward()
        (update or fused)(net)
        after(p, n)

    return body


def fused(net: Network) -> None:
    """An optimizer that costs next to nothing."""
    net.optimizer(2e7 if net.p.device else 1e5)


def small(net: Network) -> None:
    """A language model with which the host can just keep up."""
    transformer(net, layers=6, batch=4, length=512)


def large(net: Network) -> None:
    """One with which it can easily."""
    transformer(net, layers=8)


def vision(net: Network) -> None:
    """A residual network."""
    resnet(net, batch=96, blocks=8)


def on_host(net: Network) -> None:
    """For a CPU."""
    perceptron(net, rows=256, width=512)


# --- launches


def token(us: float, kernels: int, *, graph: bool) -> Body:
    """A token of a language model: many short kernels, launched one by one or as a graph."""

    def body(p: Program, n: int) -> None:
        names = (
            "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_cublas",
            elementwise("CUDAFunctor_add", "c10::BFloat16"),
        )
        p.to_device(4096, pinned=True, blocking=False, dtype="long int")
        if graph:
            p.graph_launch([(names[k % 2], us) for k in range(kernels)])
            return
        for k in range(kernels):
            with p.op("aten::linear" if k % 2 == 0 else "aten::rms_norm", 5, shapes=[[1, 4096]]):
                p.kernel(names[k % 2], us)

    return body


def launch_blocking(body: Body) -> Body:
    """The same with `CUDA_LAUNCH_BLOCKING=1`."""

    def blocking(p: Program, n: int) -> None:
        p.launch_blocking = True
        body(p, n)

    return blocking


# --- element by element


def written_out(rows: int, width: int, *, times: int, ops: int = 8) -> Layers:
    """An activation written out in Python, an operator for each arithmetic operation."""
    names = ("mul", "add", "pow", "mul", "add", "mul", "tanh", "add", "mul", "mul")

    def layers(net: Network) -> None:
        for _ in range(times):
            net.linear(rows, width, width)
            for k in range(ops):
                net.pointwise(f"aten::{names[k % len(names)]}", rows, width, node="MulBackward0")

    return layers


def in_one(rows: int, width: int, *, times: int, ops: int = 8) -> Layers:
    """The same, compiled."""
    del ops

    def layers(net: Network) -> None:
        for _ in range(times):
            net.linear(rows, width, width)
            net.pointwise("triton_poi_fused_add_mul_pow_tanh_0", rows, width, node="CompiledFunctionBackward",
                          name="triton_poi_fused_add_mul_pow_tanh_0")  # fmt: skip

    return layers


# --- optimizers, gradients


def no_closure(net: Network) -> None:
    """The loss and its gradients are there already."""


def closure(net: Network) -> None:
    """What Lightning gives to `step`: the forward and the backward pass."""
    on_host(net) if net.p.device is None else small(net)
    net.backward()


def by_parameter(
    count: int, name: str, ops: tuple[str, ...], *, size: int = 65536, us: float = 3.0, first: Layers = no_closure
) -> Layers:
    """An update in a Python loop over the parameters, after a closure if there is one."""

    def update(net: Network) -> None:
        with net.p.annotation(f"Optimizer.step#{name}.step"):
            first(net)
            for _ in range(count):
                for op in ops:
                    net.work(op, elementwise("CUDAFunctor_add", "float"), us, [size], [size], types=["float"] * 2)
                net.p.host(5)
        with net.p.annotation(f"Optimizer.zero_grad#{name}.zero_grad"):
            net.p.host(15)

    return update


def at_once(name: str, us: float, *, first: Layers = no_closure) -> Layers:
    """The same for all of them at once."""

    def update(net: Network) -> None:
        with net.p.annotation(f"Optimizer.step#{name}.step"):
            first(net)
            net.p.host(60)
            kernel = multi_tensor("FusedAdamMathFunctor")
            net.work(f"aten::_fused_{name.lower()}_", kernel, us, [256, 256], types=["TensorList"], cost=80)
        with net.p.annotation(f"Optimizer.zero_grad#{name}.zero_grad"):
            net.p.host(15)

    return update


PASSES: Final = {
    "Adam": (("lerp_", 3), ("mul_", 2), ("addcmul_", 3), ("sqrt", 2), ("div_", 2), ("add_", 2), ("addcdiv_", 4)),
    "SGD": (("add_", 3), ("mul_", 2), ("add_", 3), ("add_", 3)),
}
"""Operators over all parameters of an update with `foreach`, and how often each reads or writes one of them."""

_LISTS: Final = {"lerp_": 2, "addcmul_": 3, "addcdiv_": 3}
"""Lists among their arguments, where it is not one, or two of those that read two."""


def in_passes(name: str, elements: float, *, launches: int = 4) -> Layers:
    """An update with `foreach`: each operator goes through all parameters."""

    def update(net: Network) -> None:
        with net.p.annotation(f"Optimizer.step#{name}.step"):
            net.p.host(250)
            for op, accesses in PASSES[name]:
                lists = _LISTS.get(op, 2 if accesses > 2 else 1)
                _of_lists(net, f"aten::_foreach_{op}", lists, accesses, elements, launches, "BinaryOpListAlphaFunctor")
        with net.p.annotation(f"Optimizer.zero_grad#{name}.zero_grad"):
            net.p.host(15)

    return update


def in_one_pass(name: str, elements: float, *, launches: int = 4) -> Layers:
    """The same with `fused`."""
    accesses = {"Adam": 7, "SGD": 5}[name]

    def update(net: Network) -> None:
        with net.p.annotation(f"Optimizer.step#{name}.step"):
            net.p.host(200)
            op = f"aten::_fused_{name.lower()}_"
            _of_lists(net, op, accesses // 2 + 1, accesses, elements, launches, "FusedAdamMathFunctor")
        with net.p.annotation(f"Optimizer.zero_grad#{name}.zero_grad"):
            net.p.host(15)

    return update


def _of_lists(
    net: Network, op: str, lists: int, accesses: int, elements: float, launches: int, functor: str, *, tensors: int = 20
) -> None:
    """An operator over lists of FP32 tensors, in so many launches."""
    shapes, strides = [[int(elements) // tensors]] * tensors, [[1]] * tensors
    told: dict[str, Any] = {"shapes": [shapes] * lists + [[]], "strides": [strides] * lists + [[]]}
    with net.p.op(op, 60, types=["TensorList"] * lists + ["Scalar"], **told):
        for _ in range(launches):
            us = net.us(0, 4.0 * accesses * elements / launches)
            net.p.kernel(multi_tensor(functor), us, grid=(2000, 1, 1))


ADAM: Final = (
    "aten::lerp_",
    "aten::mul_",
    "aten::addcmul_",
    "aten::sqrt",
    "aten::div_",
    "aten::add_",
    "aten::addcdiv_",
)
SGD: Final = ("aten::mul_", "aten::add_", "aten::add_")


def zeros(count: int, us: float, *, adds: bool = True, filled: bool = True) -> Layers:
    """Gradients are filled with zeros, and the backward pass adds to them; or they are dropped, and it only stores."""

    def update(net: Network) -> None:
        with net.p.backward():
            for _ in range(count):
                with (
                    net.p.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 2),
                    net.p.op("torch::autograd::AccumulateGrad", 2),
                ):
                    if adds and filled:
                        net.work("aten::add_", elementwise("CUDAFunctor_add", "float"), us, [65536], [65536])
        fused(net)
        with net.p.annotation("Optimizer.zero_grad#AdamW.zero_grad"):
            for _ in range(count if filled else 0):
                if net.p.device is None:
                    net.p.call("aten::zero_", us, shapes=[[65536]])
                    continue
                with net.p.op("aten::zero_", 3, shapes=[[65536]]), net.p.op("aten::fill_", 4, shapes=[[65536]]):
                    net.p.kernel(elementwise("FillFunctor", "float"), us)

    return update


# --- Python


def collected(us: float, every: int = 1) -> Part:
    """Python's collector runs in each so-manieth step."""

    def part(p: Program, n: int) -> None:
        if n % every == 0:
            with p.annotation("Python GC"):
                p.host(us)

    return part


def compiles(us: float, every: int) -> Part:
    """A new size comes in each so-manieth step, and with it a compilation."""

    def part(p: Program, n: int) -> None:
        version = max(n, 0) // every
        if n % every == 0:
            with p.op("dynamo", 20), p.op("_compile.compile_inner (dynamo_timed)", 0.3 * us):
                p.call("OutputGraph.call_user_compiler (dynamo_timed)", 0.7 * us)
        with p.op(f"Torch-Compiled Region: 0/{version}", 30):
            p.kernel("triton_poi_fused_add_0", 60)

    return part


def regions(pieces: int, between: float) -> Part:
    """A compiled function in pieces, each inside the one before: between them the host goes through Python again."""

    def part(p: Program, n: int) -> None:
        for _ in range(4):
            with contextlib.ExitStack() as regions_around:
                for k in range(pieces):
                    regions_around.enter_context(p.annotation(f"Torch-Compiled Region: {k}/0"))
                    with p.op("CompiledFunction", 20):
                        for _ in range(12 // pieces):
                            p.kernel("triton_poi_fused_add_0", 12)
                    if k + 1 < pieces:
                        p.host(between)
            p.item()

    return part


def saves(us: float, every: int = 1, *, frame: str = "train.py(80): save") -> Part:
    """The loop writes a file in each so-manieth step."""

    def part(p: Program, n: int) -> None:
        if n % every == 0:
            with p.python(frame), p.python("torch/serialization.py(900): save"):
                p.wait(us)

    return part


def looks(times: int, us: float) -> Part:
    """A value is fetched, and the host does something with it."""

    def part(p: Program, n: int) -> None:
        for _ in range(times):
            with p.python("metrics.py(31): log"):
                p.item()
                p.host(us)

    return part


_SMALL: Final = training(small)
_LARGE: Final = training(large)
_ON_HOST: Final = training(on_host, precision="fp32")

CASES = (
    planted(
        "HOST001", "a token, launched kernel by kernel", token(4, 300, graph=False), token(4, 300, graph=True), seed=201
    ),
    planted(
        "HOST001",
        "a token, kernels nearly as long as their launch",
        token(8, 300, graph=False),
        token(8, 300, graph=True),
        seed=202,
        **_A100,
    ),
    planted(
        "HOST001",
        "a token, MI300X, jitter of 10 %",
        token(5, 200, graph=False),
        token(5, 200, graph=True),
        seed=203,
        noise=0.1,
        **_MI300,
    ),
    planted("HOST002", "the loss fetched in each step", training(small, after=looks(1, 500)), _SMALL, seed=210),
    planted(
        "HOST002",
        "five values fetched before the forward pass",
        training(small, before=looks(5, 100)),
        _SMALL,
        seed=211,
        stacks=True,
        steps=8,
    ),
    planted(
        "HOST002",
        "a value fetched, A100, waits recorded",
        training(small, after=looks(2, 600)),
        _SMALL,
        seed=212,
        sync_events=True,
        **_A100,
    ),
    planted(
        "HOST003",
        "an activation written out, large",
        training(written_out(8192, 4096, times=6)),
        training(in_one(8192, 4096, times=6)),
        seed=220,
    ),
    planted(
        "HOST003",
        "an activation written out, small",
        training(written_out(512, 512, times=12)),
        training(in_one(512, 512, times=12)),
        seed=221,
        still=("HOST001",),
    ),
    planted(
        "HOST003",
        "three operators in a row, A100",
        training(written_out(8192, 2048, times=8, ops=3)),
        training(in_one(8192, 2048, times=8, ops=3)),
        seed=222,
        **_A100,
    ),
    planted(
        "HOST003",
        "an activation written out, on the host alone",
        training(written_out(64, 256, times=8), precision="fp32"),
        training(in_one(64, 256, times=8), precision="fp32"),
        seed=223,
        **_CPU,
    ),
    planted(
        "HOST004",
        "SGD with momentum parameter by parameter",
        training(small, update=by_parameter(150, "SGD", SGD)),
        training(small, update=at_once("SGD", 40)),
        seed=230,
        **_A100,
    ),
    planted(
        "HOST004",
        "Adam parameter by parameter, large parameters",
        training(large, update=by_parameter(60, "Adam", ADAM, us=40)),
        training(large, update=at_once("Adam", 60 * 7 * 16)),
        seed=231,
    ),
    planted(
        "HOST004",
        "Adam parameter by parameter, kernels that move much, a device that is busy",
        training(large, update=by_parameter(100, "Adam", ADAM, us=8)),
        training(large, update=at_once("Adam", 100 * 7 * 8 * 0.6)),
        seed=233,
    ),
    planted(
        "HOST004",
        "Adam with foreach where fused would do",
        training(large, update=in_passes("Adam", 15e7)),
        training(large, update=in_one_pass("Adam", 15e7)),
        seed=234,
    ),
    planted(
        "HOST004",
        "SGD with foreach, A100",
        training(large, update=in_passes("SGD", 4e8)),
        training(large, update=in_one_pass("SGD", 4e8)),
        seed=235,
        **_A100,
    ),
    planted(
        "HOST004",
        "AdamW parameter by parameter, on the host alone",
        training(on_host, update=by_parameter(60, "AdamW", ADAM, us=9), precision="fp32"),
        training(on_host, update=at_once("AdamW", 400), precision="fp32"),
        seed=232,
        **_CPU,
    ),
    planted(
        "HOST004",
        "Adam parameter by parameter, behind a closure",
        training(no_closure, update=by_parameter(150, "Adam", ADAM, first=closure)),
        training(no_closure, update=at_once("Adam", 40, first=closure)),
        seed=236,
        **_A100,
    ),
    planted(
        "HOST004",
        "AdamW parameter by parameter, behind a closure, on the host alone",
        training(no_closure, update=by_parameter(60, "AdamW", ADAM, us=9, first=closure), precision="fp32"),
        training(no_closure, update=at_once("AdamW", 400, first=closure), precision="fp32"),
        seed=237,
        **_CPU,
    ),
    planted(
        "HOST005",
        "zeros for 300 small gradients",
        training(small, update=zeros(300, 2.5)),
        training(small, update=zeros(300, 2.5, filled=False)),
        seed=240,
        still=("HOST001",),
    ),
    planted(
        "HOST005",
        "zeros for 100 large gradients, A100",
        training(large, update=zeros(100, 40)),
        training(large, update=zeros(100, 40, filled=False)),
        seed=241,
        **_A100,
    ),
    planted(
        "HOST005",
        "zeros without additions",
        training(small, update=zeros(200, 3, adds=False)),
        training(small, update=zeros(200, 3, filled=False)),
        seed=242,
    ),
    planted(
        "HOST005",
        "zeros for 240 small gradients on the host alone",
        training(on_host, update=zeros(240, 3), precision="fp32"),
        training(on_host, update=zeros(240, 3, filled=False), precision="fp32"),
        seed=243,
        **_CPU,
    ),
    planted("HOST006", "the collector in each second step", training(small, after=collected(6e3, 2)), _SMALL, seed=250),
    planted(
        "HOST006",
        "the collector, on the host alone",
        training(on_host, after=collected(1500), precision="fp32"),
        _ON_HOST,
        seed=251,
        **_CPU,
    ),
    planted(
        "HOST007",
        "a compilation in each fifth step",
        training(small, before=compiles(90e3, 5)),
        training(small, before=compiles(90e3, 10**9)),
        seed=260,
        warm=3,
        steps=15,
    ),
    planted(
        "HOST007",
        "a compilation in each second step",
        training(large, before=compiles(40e3, 2)),
        training(large, before=compiles(40e3, 10**9)),
        seed=261,
        steps=10,
    ),
    planted(
        "HOST007",
        "a graph in six pieces",
        regions(6, 120),
        regions(1, 120),
        seed=262,
        timed=False,
        still=("HOST002", "HOST001"),
    ),
    planted(
        "HOST007",
        "a graph in three pieces, A100",
        regions(3, 250),
        regions(1, 250),
        seed=263,
        timed=False,
        still=("HOST002", "HOST001"),
        **_A100,
    ),
    planted(
        "HOST008",
        "a file written in each step",
        training(small, after=saves(4e3)),
        _SMALL,
        seed=270,
        stacks=True,
        steps=10,
    ),
    planted(
        "HOST008",
        "a file written in each second step",
        training(vision, after=saves(30e3, 2), precision="fp16"),
        training(vision, precision="fp16"),
        seed=271,
    ),
    planted(
        "HOST008",
        "a pause, on the host alone",
        training(on_host, after=saves(2e3), precision="fp32"),
        _ON_HOST,
        seed=272,
        **_CPU,
    ),
    planted("HOST009", "launches that wait", launch_blocking(training(large)), training(large), seed=280),
    planted(
        "HOST009",
        "launches that wait, small kernels, A100",
        launch_blocking(training(small)),
        training(small),
        seed=281,
        still=("HOST001",),
        **_A100,
    ),
)
"""Each with its twin."""
