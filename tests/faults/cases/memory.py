"""Faults of memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.faults.case import Case, drawing, planted
from tests.faults.host import Body
from tests.faults.network import Network
from tests.faults.program import Program

Part = Callable[[Program, int], object]

_A100: Final[dict[str, Any]] = {"device": "NVIDIA A100-SXM4-40GB", "capability": (8, 0), "memory": 40e9}


def nothing(p: Program, n: int) -> None:
    """A step without a fault."""


def training(
    begin: Part = nothing,
    inside: Part = nothing,
    *,
    layers: int = 4,
    batch: int = 8,
    each: float = 200e6,
    length: int = 1024,
) -> Body:
    """A training step whose layers take memory each, and give it back in the backward pass."""

    def body(p: Program, n: int) -> None:
        p.loader(500 * batch, workers=4)
        if p.device:
            p.to_device(1e5 * batch, pinned=True, blocking=False)
        begin(p, n)
        net, held = Network(p), []
        for _ in range(layers):
            held.append(p.malloc(each))
            net.block(batch, length, 1024, 16)
            inside(p, n)
        net.backward()
        for address in reversed(held):
            p.free(address)
        net.optimizer(5e7)

    return body


def larger_batch(name: str, times: int, **more: Any) -> Case:
    """So many samples in one step or in several: the fixed twin's step is counted for as many samples."""
    batch, program = more.pop("batch"), {"steps": 12, **more}
    length, layers = program.pop("length", 512), program.pop("layers", 12)
    small = training(batch=batch, each=50e6 * batch, layers=layers, length=length)
    large = training(batch=batch * times, each=50e6 * batch * times, layers=layers, length=length)
    draw = drawing(large, **program)

    def fixed(folder: Path) -> float:
        return draw(folder) / times

    return Case("MEMORY001", name, drawing(small, **program), fixed, still=("HOST001",))


def fragments(name: str, allocated: float, reserved: float, fixed: float, **program: Any) -> Case:
    """The allocator holds so much, and as much as it needs in the fixed twin."""
    every = {"steps": 8, "allocated": int(allocated), **program}
    faulty, sound = (drawing(training(), reserved=int(held), **every) for held in (reserved, fixed))
    return Case("MEMORY004", name, faulty, sound, timed=False)


def emptied(p: Program, n: int) -> None:
    """`torch.cuda.empty_cache()`: what is free goes back to the driver."""
    p.release(400)


def odd_sizes(p: Program, n: int) -> None:
    """A request that fits nowhere, in every other step."""
    if n % 2 == 0:
        p.runtime("cudaMalloc", 4000)


def keeping(size: float) -> Part:
    """Something is kept in each step, and never freed."""

    def begin(p: Program, n: int) -> None:
        with p.op("aten::clone", 3, shapes=[[int(size) // 4]]):
            p.malloc(size)

    return begin


_SHORT: Final[dict[str, Any]] = {"batch": 1, "length": 64, "layers": 2}
_LEVEL: Final[dict[str, Any]] = {"allocated": int(30e9), "reserved": int(50e9)}

CASES = (
    larger_batch("a small batch, and launches take longer than kernels", 8, batch=1, seed=51, allocated=int(2e9)),
    larger_batch("a small batch, A100", 8, batch=1, seed=52, allocated=int(4e9), length=1024, layers=6, **_A100),
    planted(
        "MEMORY002", "all but full", training(each=2e9), training(), seed=53, timed=False, allocated=int(68e9),
        reserved=int(78e9), steps=8,
    ),
    planted(
        "MEMORY002", "all but full, A100", training(each=1e9), training(each=1e6), seed=54, timed=False,
        allocated=int(34e9), reserved=int(39e9), steps=8, **_A100,
    ),
    planted(
        "MEMORY003", "the cache is emptied in each step", training(emptied), training(), seed=55, allocated=int(30e9)
    ),
    planted(
        "MEMORY003", "the cache is emptied in each layer", training(nothing, emptied), training(), seed=56,
        allocated=int(30e9),
    ),
    planted("MEMORY003", "sizes that fit nowhere", training(odd_sizes, odd_sizes), training(), seed=57, **_LEVEL),
    fragments("half of what is held lies idle", 34e9, 72e9, 40e9, seed=58),
    fragments("fragments, A100", 17e9, 36e9, 22e9, seed=61, **_A100),
    planted(
        "MEMORY005", "something is kept in each step", training(keeping(4e6)), training(), seed=59, timed=False,
        **_LEVEL,
    ),
    planted(
        "MEMORY005", "something is kept on the host", training(keeping(1e6), **_SHORT), training(**_SHORT), seed=60,
        timed=False, device=None, steps=8,
    ),
)  # fmt: skip
