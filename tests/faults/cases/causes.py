"""Faults that cost time beside the model: tensors on the wrong side, values one by one, work on what is not needed."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

from tests.faults.case import Case, drawing, planted
from tests.faults.cases.host import on_host, small, training
from tests.faults.healthy import perceptron, transformer
from tests.faults.host import Body
from tests.faults.kernels import elementwise, multi_tensor
from tests.faults.network import Network
from tests.faults.program import Program

_A100: Final[dict[str, Any]] = {"device": "NVIDIA A100-SXM4-40GB", "capability": (8, 0), "memory": 40e9}
_MI300: Final[dict[str, Any]] = {"device": "AMD Instinct MI300X", "capability": (9, 4), "memory": 192e9}

_CPU: Final[dict[str, Any]] = {"device": None}

Layers = Callable[[Network], None]


def between(part: Callable[[Program], object]) -> Layers:
    """A language model with something between its layers."""

    def layers(net: Network) -> None:
        transformer(net, layers=3, batch=4, length=512)
        part(net.p)
        transformer(net, layers=3, batch=4, length=512)

    return layers


def on_the_host(us: float, size: float, *, back: bool = True, pinned: bool = False) -> Callable[[Program], object]:
    """An operator on a copy of the tensor on the host."""

    def part(p: Program) -> None:
        with p.python("model.py(40): choose"):
            p.to_host(size, pinned=pinned)
            p.call("torchvision::nms", us, shapes=[[2000, 4], [2000]])
            if back:
                p.to_device(size, pinned=pinned)

    return part


def on_the_device(us: float) -> Callable[[Program], object]:
    """The same on the device."""

    def part(p: Program) -> None:
        with p.python("model.py(40): choose"), p.op("torchvision::nms", 10, shapes=[[2000, 4], [2000]]):
            p.kernel("void nms_kernel_impl<float>(int, double, float const*, unsigned long long*)", us)

    return part


def noise(us: float, size: float) -> Callable[[Program], object]:
    """Random numbers that are drawn on the host, and sent to the device."""

    def part(p: Program) -> None:
        with p.op("aten::randn", 4):
            p.call("aten::empty", 4)
            p.call("aten::normal_", us)
        p.to_device(size)

    return part


def falls_back(us: float, size: float) -> Callable[[Program], object]:
    """An operator that the device has no kernel for: it copies its input and its result by itself."""

    def part(p: Program) -> None:
        with p.op("aten::linalg_eig", 10, shapes=[[512, 512]]):
            p.to_host(size)
            p.call("aten::linalg_eig", us, shapes=[[512, 512]])
            p.to_device(size)

    return part


def counted(elements: int) -> Callable[[Program, int], object]:
    """A metric in plain Python: predictions and targets are compared one by one."""

    def part(p: Program, n: int) -> None:
        del n
        with p.python("metrics.py(12): accuracy"):
            for _ in range(2):
                p.call("aten::unbind", elements, shapes=[[elements]])
            for _ in range(elements):
                p.host(1)
                with p.op("aten::eq", 2, shapes=[[], []]):
                    if p.device:
                        p.kernel(elementwise("CompareEqFunctor", "long"), 2)
                with p.op("aten::is_nonzero", 2, shapes=[[]]):
                    if p.device:
                        p.item()
                    else:
                        p.call("aten::item", 2, shapes=[[]])

    return part


def compared(p: Program, n: int) -> None:
    """The same for all of them at once."""
    del n
    for op in ("aten::eq", "aten::sum"):
        with p.op(op, 5, shapes=[[64], [64]]):
            if p.device:
                p.kernel(elementwise("CompareEqFunctor", "long"), 3)


def embedded(rows: int, indices: int, width: int, *, sparse: bool, fused: bool = False) -> Body:
    """A language model over a table, of whose rows a batch touches few."""

    def body(p: Program, n: int) -> None:
        p.loader(1500, workers=4)
        net = Network(p, "bf16" if p.device else "fp32")
        table, touched = [rows, width], [indices]
        each = net.us(0, 4.0 * rows * width)
        part = max(indices / rows, 0.001) * 3
        net.work("aten::embedding", "indexSelectSmallIndex", net.us(0, 8.0 * indices * width), table, touched,
                 grad="EmbeddingBackward0")  # fmt: skip
        transformer(net, layers=4, batch=4, length=512) if p.device else perceptron(net, rows=64, width=256)

        def backward() -> None:
            with p.grad("EmbeddingBackward0"):
                if sparse:
                    net.work("aten::embedding_sparse_backward", "indexSelect", each * part, [indices, width], touched)
                    return
                net.work(
                    "aten::embedding_dense_backward", "embedding_backward_feature_kernel", each * 1.2,
                    [indices, width], touched, [], concrete=["", "", str(rows), "-1", "False"],
                    types=["float", "long int", "Scalar", "Scalar", "Scalar"],
                )  # fmt: skip

        net._tape.insert(0, backward)
        net.backward()
        with p.annotation("Optimizer.step#Adam.step"):
            factor = part if sparse else 1.0
            if fused:
                net.work("aten::_fused_adam_", multi_tensor("FusedAdam"), net.us(0, 28.0 * rows * width * factor),
                         [indices if sparse else rows, width], types=["TensorList"])  # fmt: skip
            else:
                for op in ("lerp_", "mul_", "addcmul_", "sqrt", "div_", "addcdiv_"):
                    us = net.us(0, 12.0 * rows * width * factor)
                    net.work(f"aten::{op}", elementwise("CUDAFunctor_add", "float"), us,
                             [indices if sparse else rows, width])  # fmt: skip

    return body


def padding(lengths: Callable[[int], list[int]]) -> Body:
    """Sequences that the program pads itself, and a network that computes for all of it."""

    def body(p: Program, n: int) -> None:
        each = lengths(n)
        lists: Any = [[[size, 512] for size in each]]
        with p.op("aten::pad_sequence", 40, shapes=lists, types=["TensorList"], strides=[[]]):
            p.call("aten::full", 20)
        if p.device:
            p.to_device(8 * len(each) * max(each), pinned=True, blocking=False)
        net = Network(p, "bf16" if p.device else "fp32")
        rows, width = len(each) * max(each), 2048 if p.device else 512
        for _ in range(8):
            net.linear(rows, width, width)
            net.pointwise("aten::relu", rows, width)
        net.backward()
        net.optimizer(1e7 if p.device else 1e5)

    return body


def mixed(n: int) -> list[int]:
    """Sequences of all lengths."""
    del n
    return [84 + 20 * place for place in range(48)]


def alike(n: int) -> list[int]:
    """Sequences of about one length; over 24 steps they are as long as those of all lengths."""
    return [84 + 40 * (n % 24) + place % 20 for place in range(48)]


def _no_work(p: Program, node: str) -> None:
    """A node of the backward pass that only hands its gradient on."""
    with p.grad(node):
        pass


def turned(times: int, size: tuple[int, int], *, copied: bool) -> Layers:
    """Layers between which a tensor is transposed, with copies and without."""

    def layers(net: Network) -> None:
        rows, width = size
        for _ in range(times):
            net.linear(rows, width, width)
            for before, turn in (([8, rows // 8, width], [8, width, rows // 8]),
                                 ([8, width, rows // 8], [8, rows // 8, width])):  # fmt: skip
                net.p.call("aten::transpose", 3, shapes=[before, [], []])
                if copied:
                    _made_contiguous(net, turn)
            net.pointwise("aten::relu", rows, width)

    return layers


def _made_contiguous(net: Network, shape: list[int]) -> None:
    with net.p.op("aten::contiguous", 2, shapes=[shape, []]):
        us = net.us(0, 2.0 * net.width * prod(shape))
        net.work("aten::clone", elementwise("direct_copy_kernel_cuda", net.type), us, shape, grad="CloneBackward0")
    net._later(lambda: _no_work(net.p, "CloneBackward0"))


def headed(times: int, *, copied: bool) -> Layers:
    """Attention over heads that are views of products; copied, or read as they are."""

    def layers(net: Network) -> None:
        batch, heads, length, width = 8, 16, 1024, 64
        for _ in range(times):
            net.linear(batch * length, heads * width, 3 * heads * width)
            for _ in range(3):
                net.p.call("aten::view", 2, shapes=[[batch, length, heads * width], []])
                net.p.call("aten::transpose", 3, shapes=[[batch, length, heads, width], [], []])
                if copied:
                    _made_contiguous(net, [batch, heads, length, width])
            net.attention(batch, heads, length, width)
            net.linear(batch * length, heads * width, heads * width)

    return layers


_METRIC: Final = training(on_host, after=counted(64), precision="fp32")


def crowded(slower: float) -> Body:
    """A training whose operators take so many times as long, as some of their threads have no core."""

    def body(p: Program, n: int) -> None:
        p.loader(1500, workers=4)
        net = Network(p, "fp32")
        for _ in range(4):
            for op in ("aten::addmm", "aten::relu"):
                p.call(op, 300 * slower, shapes=[[256, 512], [512, 512]])
        net._tape.clear()
        net.optimizer(1e5)

    return body


def with_threads(threads: int, workers: int = 0, ranks: int = 1) -> dict[str, Any]:
    """A program on the host alone, with what the recorder notes of a machine with eight cores."""
    facts = {"cores": 8, "threads": threads, "workers": workers, "local_ranks": ranks}
    return {**_CPU, "top": {"kinetoscope": {"format": "kinetoscope.meta/1", "cpu": facts}}}


CASES = (
    Case(
        "HOST016",
        "four ranks of eight threads on eight cores",
        drawing(crowded(1.6), seed=950, **with_threads(8, ranks=4)),
        drawing(crowded(1.0), seed=950, **with_threads(2, ranks=4)),
    ),
    Case(
        "HOST016",
        "as many threads as cores, beside eight workers",
        drawing(crowded(1.25), seed=951, **with_threads(8, workers=8)),
        drawing(crowded(1.0), seed=951, **with_threads(4, workers=4)),
    ),
    planted(
        "HOST010",
        "an operator on the host between the layers",
        training(between(on_the_host(900, 1e5))),
        training(between(on_the_device(30))),
        seed=901,
        stacks=True,
        steps=8,
    ),
    planted(
        "HOST010",
        "an operator on the host, A100, pinned",
        training(between(on_the_host(2500, 4e5, pinned=True))),
        training(between(on_the_device(60))),
        seed=902,
        **_A100,
    ),
    planted(
        "HOST010",
        "an operator that falls back to the host",
        training(between(falls_back(1200, 1e6))),
        training(between(on_the_device(80))),
        seed=903,
    ),
    planted(
        "HOST010",
        "random numbers drawn on the host",
        training(between(noise(1800, 2e6))),
        training(between(on_the_device(10))),
        seed=904,
    ),
    planted(
        "HOST010",
        "an operator on the host, MI300X",
        training(between(on_the_host(1500, 1e5))),
        training(between(on_the_device(30))),
        seed=905,
        still=("DEVICE003",),
        **_MI300,
    ),
    planted(
        "HOST015",
        "a metric in plain Python, on the host alone",
        _METRIC,
        training(on_host, after=compared, precision="fp32"),
        seed=910,
        stacks=True,
        **_CPU,
    ),
    planted(
        "HOST015",
        "a metric in plain Python that fetches each value",
        training(small, after=counted(64)),
        training(small, after=compared),
        seed=911,
        steps=8,
    ),
    planted(
        "MEMORY006",
        "a table of 500,000 rows, Adam by parameter",
        embedded(500_000, 4096, 128, sparse=False),
        embedded(500_000, 4096, 128, sparse=True),
        seed=920,
    ),
    planted(
        "MEMORY006",
        "a table of two million rows, Adam fused, A100",
        embedded(2_000_000, 8192, 64, sparse=False, fused=True),
        embedded(2_000_000, 8192, 64, sparse=True, fused=True),
        seed=921,
        **_A100,
    ),
    planted(
        "MEMORY006",
        "a table of 100,000 rows, on the host alone",
        embedded(100_000, 640, 32, sparse=False),
        embedded(100_000, 640, 32, sparse=True),
        seed=922,
        **_CPU,
    ),
    planted("DATA008", "sequences of all lengths in a batch", padding(mixed), padding(alike), seed=930, steps=24),
    planted(
        "DATA008",
        "sequences of all lengths, on the host alone",
        padding(mixed),
        padding(alike),
        seed=931,
        steps=24,
        **_CPU,
    ),
    planted(
        "DEVICE007",
        "copies between transpositions",
        training(turned(8, (16384, 1024), copied=True)),
        training(turned(8, (16384, 1024), copied=False)),
        seed=940,
        still=("DEVICE003",),
    ),
    planted(
        "DEVICE007",
        "heads that are copied before attention",
        training(headed(6, copied=True)),
        training(headed(6, copied=False)),
        seed=942,
        still=("DEVICE003",),
    ),
    planted(
        "DEVICE007",
        "copies between transpositions, on the host alone",
        training(turned(4, (512, 256), copied=True), precision="fp32"),
        training(turned(4, (512, 256), copied=False), precision="fp32"),
        seed=941,
        **_CPU,
    ),
)
