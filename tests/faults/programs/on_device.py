# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""Programs with one thing wrong that only a GPU shows: `python -m tools.gpu record` runs them where there is one.

They run on the CPU, too, where the fix brings nothing: so it is tested that they run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.faults.programs.manual_attention import Attention
from tests.faults.programs.parts import perceptron
from tests.faults.programs.running import Step

NAMES: Final = (
    "values_fetched_in_each_step",
    "pageable_batches",
    "pictures_as_floats",
    "products_in_fp32",
    "model_in_fp64",
    "sizes_off_by_one",
    "layouts_in_turns",
    "attention_by_operators",
    "experts_one_by_one",
    "computed_again",
    "sorted_on_the_host",
    "kernel_by_kernel",
)
"""A literal: `tools.gpu.tasks` reads it without importing torch."""


@dataclass(frozen=True)
class Program:
    """A program as the modules beside this one have it.

    Attributes:
        CODE, NAME, STEPS, STACKS: of the rule; what is wrong; steps of a round; Python's calls are recorded.
        make: a context that gives a function for one step, with the fault or without.
    """

    CODE: str
    NAME: str
    make: Callable[[bool], AbstractContextManager[Step]]
    STEPS: int = 20
    STACKS: bool = False

    def program(self, fixed: bool) -> AbstractContextManager[Step]:
        """A function for one step."""
        return self.make(fixed)


def here() -> torch.device:
    """The device that is set while a program is made."""
    return torch.empty(0).device


def is_small() -> bool:
    """Whether the host computes: then little has to do."""
    return bool(here().type == "cpu")


def updating(model: nn.Module, loss: Callable[[], Tensor]) -> Step:
    """A step of training."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, foreach=True)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


@contextmanager
def values_fetched(fixed: bool) -> Iterator[Step]:
    """The loss of each of eight small parts is fetched; the fix keeps them on the device."""
    model, parts = perceptron(512, 4), [torch.randn(8 if is_small() else 256, 256) for _ in range(8)]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)

    def step() -> None:
        total = 0.0 if not fixed else torch.zeros((), device=parts[0].device)
        for part in parts:
            optimizer.zero_grad()
            loss = model(part).square().mean()
            loss.backward()
            optimizer.step()
            total += loss.detach() if fixed else loss.item()

    yield step


@contextmanager
def batches(fixed: bool, *, pictures: bool) -> Iterator[Step]:
    """Batches come from the host: from pinned memory or not; as floating-point numbers or as they are."""
    side, count = (32, 4) if is_small() else (224, 256)
    device = here()
    model = nn.Sequential(nn.Conv2d(3, 32, 7, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
    model.append(nn.Linear(512, 10))
    packed = torch.randint(256, (count, 3, side, side), dtype=torch.uint8, device="cpu")
    batch = packed if pictures and fixed else packed.float()
    if device.type == "cuda" and (pictures or fixed):
        batch = batch.pin_memory()

    def loss() -> Tensor:
        there = batch.to(device, non_blocking=pictures or fixed)
        return model(there.float() if there.dtype == torch.uint8 else there).square().mean()

    yield updating(model, loss)


@contextmanager
def products(fixed: bool, *, faulty: torch.dtype, right: torch.dtype, off: int = 0) -> Iterator[Step]:
    """Large products in a type, of a size."""
    width = (256 if is_small() else 4096) + (0 if fixed else off)
    model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(4))).to(right if fixed else faulty)
    batch = torch.randn(width, width, dtype=right if fixed else faulty)
    yield updating(model, lambda: model(batch).float().square().mean())


class Turning(nn.Module):
    """Convolutions; between them the channels come first again, or stay last."""

    def __init__(self, turning: bool) -> None:
        super().__init__()
        self.turning = turning
        self.layers = nn.ModuleList(nn.Conv2d(64, 64, 3, padding=1) for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
            if self.turning:
                x = x.contiguous(memory_format=torch.contiguous_format).contiguous(memory_format=torch.channels_last)
        return x


@contextmanager
def layouts(fixed: bool) -> Iterator[Step]:
    """Images are turned after each convolution."""
    side, count = (16, 2) if is_small() else (56, 128)
    type_ = torch.float32 if is_small() else torch.bfloat16
    model = Turning(not fixed).to(dtype=type_, memory_format=torch.channels_last)
    batch = torch.randn(count, 64, side, side, dtype=type_).contiguous(memory_format=torch.channels_last)
    yield updating(model, lambda: model(batch).float().square().mean())


@contextmanager
def attention(fixed: bool) -> Iterator[Step]:
    """As on the CPU, of the size of a device."""
    count, length = (1, 64) if is_small() else (32, 2048)
    type_ = torch.float32 if is_small() else torch.bfloat16
    model, batch = Attention(fixed).to(type_), torch.randn(count, length, 256, dtype=type_)
    yield updating(model, lambda: model(batch).float().square().mean())


@contextmanager
def experts(fixed: bool) -> Iterator[Step]:
    """Products of 32 experts, one after another or as one."""
    weights = nn.Parameter(torch.randn(32, 256, 256) / 16)
    parts = torch.randn(32, 64, 256)
    kept = nn.Module()
    kept.weights = weights

    def loss() -> Tensor:
        if fixed:
            return torch.bmm(parts, weights).square().mean()
        return torch.stack([part @ weight for part, weight in zip(parts, weights, strict=True)]).square().mean()

    yield updating(kept, loss)


@contextmanager
def computed_again(fixed: bool) -> Iterator[Step]:
    """Each block is checkpointed, though there is memory."""
    width, count = (128, 8) if is_small() else (2048, 4096)
    blocks = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(8))
    batch = torch.randn(count, width, requires_grad=True)

    def loss() -> Tensor:
        x = batch
        for block in blocks:
            x = block(x) if fixed else checkpoint(block, x, use_reentrant=False)
        return x.square().mean()

    yield updating(blocks, loss)


@contextmanager
def sorted_on_the_host(fixed: bool) -> Iterator[Step]:
    """Outputs are sorted on a copy on the host, and go back."""
    model, batch = perceptron(1024), torch.randn(50 if is_small() else 100_000, 256)

    def loss() -> Tensor:
        outputs = model(batch)
        scores = outputs.detach()[:, 0]
        order = scores.argsort() if fixed else scores.cpu().argsort().to(outputs.device)
        return outputs[order[: len(order) // 2]].square().mean()

    yield updating(model, loss)


@contextmanager
def kernel_by_kernel(fixed: bool) -> Iterator[Step]:
    """Many small kernels are launched one by one; the fix replays a graph of them."""
    model, batch = perceptron(128, 48), torch.randn(32, 256)
    act = updating(model, lambda: model(batch).square().mean())
    if not (fixed and here().type == "cuda"):
        yield act
        return
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            act()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        act()
    yield graph.replay


_FP32, _FP64, _BF16 = torch.float32, torch.float64, torch.bfloat16

PROGRAMS: Final = dict(
    zip(
        NAMES,
        (
            Program("HOST002", "each loss fetched", values_fetched, STACKS=True),
            Program("DATA005", "batches from pageable memory", partial(batches, pictures=False)),
            Program("DATA006", "pictures as floating-point numbers", partial(batches, pictures=True)),
            Program("DEVICE001", "products in FP32", partial(products, faulty=_FP32, right=_BF16)),
            Program("DEVICE013", "a model in FP64", partial(products, faulty=_FP64, right=_FP32), STEPS=6),
            Program("DEVICE002", "sizes off by one", partial(products, faulty=_BF16, right=_BF16, off=1)),
            Program("DEVICE004", "layouts in turns", layouts),
            Program("DEVICE005", "attention by operators", attention),
            Program("DEVICE011", "experts one by one", experts),
            Program("MEMORY007", "activations computed again", computed_again),
            Program("HOST010", "sorted on the host", sorted_on_the_host, STACKS=True),
            Program("HOST001", "kernel by kernel", kernel_by_kernel),
        ),
        strict=True,
    )
)
