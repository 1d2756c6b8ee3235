"""Faults that cost time beside the model: tensors on the wrong side, values one by one, work on what is not needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.faults.case import planted
from tests.faults.cases.host import training
from tests.faults.healthy import transformer
from tests.faults.network import Network
from tests.faults.program import Program

_A100: Final[dict[str, Any]] = {"device": "NVIDIA A100-SXM4-40GB", "capability": (8, 0), "memory": 40e9}
_MI300: Final[dict[str, Any]] = {"device": "AMD Instinct MI300X", "capability": (9, 4), "memory": 192e9}

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


CASES = (
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
)
