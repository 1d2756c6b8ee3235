"""Faults of what the device is asked to do: in which precision, sizes, layout and parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.faults.case import Case, Draw, Healthy, drawing, planted
from tests.faults.healthy import recommender, resnet, transformer
from tests.faults.host import Body
from tests.faults.kernels import elementwise, gemm
from tests.faults.network import Network
from tests.faults.program import Program
from tests.faults.writing import write_clocks

_A100: Final[dict[str, Any]] = {"device": "NVIDIA A100-SXM4-40GB", "capability": (8, 0), "memory": 40e9}
_V100: Final[dict[str, Any]] = {"device": "Tesla V100-SXM2-16GB", "capability": (7, 0), "memory": 16e9}
_MI300: Final[dict[str, Any]] = {"device": "AMD Instinct MI300X", "capability": (9, 4), "memory": 192e9}
_CPU: Final[dict[str, Any]] = {"device": None}

Layers = Callable[[Network], None]


def training(layers: Layers, precision: str = "bf16", *, last: bool = True) -> Body:
    """A training step."""

    def body(p: Program, n: int) -> None:
        p.loader(1500, workers=4)
        if p.device:
            p.to_device(1e6, pinned=True, blocking=False)
        net = Network(p, precision, last=last)
        layers(net)
        net.backward()
        net.optimizer(5e7)

    return body


def vision(net: Network) -> None:
    """A residual network."""
    resnet(net, batch=96, blocks=8)


def language(net: Network) -> None:
    """A language model."""
    transformer(net, layers=6)


def products(net: Network) -> None:
    """Nearly nothing but matrix products."""
    for _ in range(10):
        net.linear(8192, 2048, 2048)
        net.pointwise("aten::relu", 8192, 2048)


def towers(net: Network) -> None:
    """Products, and other things between them."""
    for _ in range(8):
        net.linear(4096, 1024, 4096)
        net.pointwise("aten::gelu", 4096, 4096)
        net.linear(4096, 4096, 1024)
        net.norm(4096, 1024)


def beside(size: int, slower: float, name: str = "") -> Layers:
    """A model whose head has a size that the loads of tensor cores do not fit: its kernels are so much slower."""

    def layers(net: Network) -> None:
        for _ in range(4):
            net.block(8, 1024, 1024, 16)
        rows, width = 8192, 1024
        flops, moved = 2.0 * rows * width * size, 2.0 * (rows * width + width * size + rows * size)
        kernel = name or gemm(net.of, net.precision)

        def product(op: str, m: int, k: int, n: int, **more: Any) -> None:
            net.work(op, kernel, slower * net.us(flops, moved), [m, k], [k, n], **more)

        with net.p.op("aten::linear", 3, shapes=[[rows, width], [size, width]], types=[net.type] * 2):
            product("aten::mm", rows, width, size, strides=[[width, 1], [1, width]], grad="MmBackward0")

        def backward() -> None:
            with net.p.grad("MmBackward0"):
                product("aten::mm", size, rows, width, strides=[[1, size], [width, 1]])
                product("aten::mm", rows, size, width, strides=[[size, 1], [width, 1]])

        net._later(backward)

    return layers


def few_blocks(us: float, blocks: int, *, times: int = 2) -> Layers:
    """A kernel of the user's own in so many blocks."""

    def layers(net: Network) -> None:
        for _ in range(4):
            net.block(8, 1024, 1024, 16)
        for _ in range(times):
            with net.p.op("mine::scan", 8, shapes=[[8192, 1024]], types=[net.type]):
                net.p.kernel("void mine::scan_kernel<float>(float const*, float*, int)", us, grid=(blocks, 1, 1))

    return layers


def turned(net: Network) -> None:
    """A residual network with the channels first: images are turned around each convolution."""
    for _ in range(8):
        for name in ("nchwToNhwcKernel", "nhwcToNchwKernel"):
            with net.p.op("aten::cudnn_convolution", 5):
                kernel = f"void cudnn::ops::{name}<__half, __half, float, false, true, (cudnnKernelDataType_t)2>(int)"
                net.p.kernel(kernel, 220)
    vision(net)


def turned_on_amd(net: Network) -> None:
    """The same by MIOpen."""
    for _ in range(40):
        with net.p.op("aten::miopen_convolution", 5):
            net.p.kernel("batched_transpose_32x32_half", 90)
    vision(net)


def attention(
    net: Network, *, parts: bool, batch: int = 4, heads: int = 16, length: int = 1024, layers: int = 6
) -> None:
    """Blocks whose attention is a fused kernel, or operators one after another."""
    width, size = 64, heads * 64
    rows = batch * length
    for _ in range(layers):
        net.linear(rows, size, 3 * size)
        if parts:
            in_parts(net, batch * heads, length, width)
        else:
            net.attention(batch, heads, length, width)
        net.linear(rows, size, size)


def in_parts(net: Network, batch: int, length: int, width: int) -> None:
    """Scores, scale, mask, soft-max, values: forward and backward."""
    scores, values = [batch, length, length], [batch, length, width]
    flops, moved = 2.0 * batch * length * length * width, net.width * (batch * length * (length + 2 * width))
    us, pass_us = net.us(flops, moved), net.us(0, 2.0 * net.width * batch * length * length)
    kernel = gemm(net.of, net.precision)
    steps: tuple[tuple[str, str, float, tuple[list[int], ...], str, int], ...] = (
        ("aten::bmm", kernel, us, (values, [batch, width, length]), "BmmBackward0", 2),
        ("aten::div", elementwise("CUDAFunctor_div", net.type), pass_us, (scores, []), "DivBackward0", 1),
        ("aten::add", elementwise("CUDAFunctor_add", net.type), pass_us, (scores, scores), "AddBackward0", 0),
        ("aten::_softmax", "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, float, 10>(int)", pass_us,
         (scores,), "SoftmaxBackward0", 1),
        ("aten::bmm", kernel, us, (scores, values), "BmmBackward0", 2),
    )  # fmt: skip
    for op, name, takes, shapes, node, _ in steps:
        net.work(op, name, takes, *shapes, grad=node if net.training else "")

    def backward() -> None:
        for op, name, takes, shapes, node, times in reversed(steps):
            with net.p.grad(node):
                for _ in range(times):
                    net.work(op, name, takes, *shapes)

    net._later(backward)


def between(us: float) -> Body:
    """Small things in Python between the launches of a step, none of them long."""

    def body(p: Program, n: int) -> None:
        net = Network(p)
        for _ in range(60):
            net.linear(4096, 1024, 1024)
            p.host(us)
        net._tape.clear()
        net.optimizer(5e7)

    return body


def fused(net: Network) -> None:
    """Attention by one kernel."""
    attention(net, parts=False)


def parted(net: Network) -> None:
    """Attention operator by operator."""
    attention(net, parts=True)


# --- DEVICE014: the clock


_POWER: Final = "0x0000000000000004"
_HEAT: Final = "0x0000000000000020"
_MEGAHERTZ: Final = 1980


def clocked(code: str, name: str, body: Body, low: range, clock: float, limit: str, **program: Any) -> Case:
    """In some steps the clock is lower, as a log of nvidia-smi says that lies beside the trace."""

    def drawn(slow: range) -> Draw:
        def draw(folder: Path) -> float:
            run = Program(**program)

            def at_its_clock(p: Program, n: int) -> None:
                p.clock = clock if n in slow else 1.0
                body(p, n)
                p.item()

            took = run.run(at_its_clock, folder / "rank0.pt.trace.json", steps=12)
            write_clocks(folder / "device_log" / "smi.csv", run.clocks, _MEGAHERTZ, limit, every=1_000_000)
            return took

        return draw

    return Case(code, name, drawn(low), drawn(range(0)))


CASES = (
    planted("DEVICE001", "towers in FP32, A100", training(towers, "fp32"), training(towers, "tf32"), seed=401, **_A100),
    planted(
        "DEVICE001", "matrix products in FP32, H100", training(products, "fp32"), training(products, "bf16"), seed=402
    ),
    planted(
        "DEVICE001",
        "a residual network in FP32, V100",
        training(vision, "fp32"),
        training(vision, "fp16"),
        seed=403,
        **_V100,
    ),
    planted(
        "DEVICE001",
        "products in FP32, shapes not recorded",
        training(products, "fp32"),
        training(products, "tf32"),
        seed=404,
        shapes=False,
        **_A100,
    ),
    planted(
        "DEVICE001",
        "a recommender in FP32",
        training(recommender, "fp32"),
        training(recommender, "tf32"),
        seed=405,
        **_A100,
    ),
    planted(
        "DEVICE001",
        "a language model in TF32",
        training(language, "tf32"),
        training(language, "bf16"),
        seed=406,
        steps=6,
    ),
    planted(
        "DEVICE001",
        "a residual network in TF32, A100",
        training(vision, "tf32"),
        training(vision, "bf16"),
        seed=407,
        steps=6,
        **_A100,
    ),
    planted(
        "DEVICE002", "a vocabulary of 50,257", training(beside(50257, 1.8)), training(beside(50304, 1.0)), seed=410
    ),
    planted(
        "DEVICE002",
        "a vocabulary of 32,001, without tensor cores",
        training(beside(32001, 6.0, "ampere_h1688sgemm_64x64_tn_align1".replace("h1688sgemm", "hgemm"))),
        training(beside(32064, 1.0)),
        seed=411,
        **_A100,
    ),
    planted(
        "DEVICE002", "a vocabulary of 30,522", training(beside(30522, 1.4)), training(beside(30528, 1.0)), seed=412
    ),
    planted(
        "DEVICE003", "a kernel of 8 blocks", training(few_blocks(1500, 8)), training(few_blocks(140, 132)), seed=420
    ),
    planted(
        "DEVICE003",
        "a kernel of 54 blocks, A100",
        training(few_blocks(2500, 54)),
        training(few_blocks(1600, 108)),
        seed=421,
        **_A100,
    ),
    planted(
        "DEVICE004",
        "images turned around convolutions",
        training(turned, "fp16", last=False),
        training(vision, "fp16", last=False),
        seed=430,
    ),
    planted("DEVICE004", "images turned by MIOpen", training(turned_on_amd), training(vision), seed=431, **_MI300),
    planted("DEVICE005", "attention operator by operator", training(parted), training(fused), seed=440),
    planted("DEVICE005", "the same, MI300X", training(parted), training(fused), seed=441, **_MI300),
    planted("DEVICE005", "the same, shapes not recorded", training(parted), training(fused), seed=442, shapes=False),
    planted("DEVICE006", "Python between launches", between(150), between(2), seed=450, timed=False),
    planted(
        "DEVICE012",
        "an output layer by a slow kernel",
        training(beside(49152, 2.6)),
        training(beside(49152, 1.0)),
        seed=460,
    ),
    planted(
        "DEVICE012",
        "the same, MI300X",
        training(beside(49152, 2.2)),
        training(beside(49152, 1.0)),
        seed=461,
        **_MI300,
    ),
    planted(
        "DEVICE013",
        "matrix products in FP64, on the host",
        training(products, "fp64"),
        training(products, "fp32"),
        seed=470,
        steps=4,
        **_CPU,
    ),
    planted("DEVICE006", "less of it, A100", between(120), between(2), seed=451, timed=False, **_A100),
    clocked("DEVICE014", "a limit of power", training(towers), range(4, 9), 0.7, _POWER, seed=480),
    clocked(
        "DEVICE014",
        "heat from the fourth step on, A100",
        training(products),
        range(4, 12),
        0.8,
        _HEAT,
        seed=481,
        **_A100,
    ),
)
"""Each with its twin."""

HEALTHY: Final = (
    Healthy("a vocabulary that does not fit tensor cores, as fast as what does", drawing(training(beside(50257, 1.0)))),
)
