# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""What the programs train: tiny models, data that takes its time, and a plain step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise, repeat

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

Batch = tuple[Tensor, Tensor]


class Sleeping(Dataset[Batch]):
    """Vectors that take a while each, as if they were read and decoded."""

    def __init__(self, seconds: float, *, count: int = 1 << 30, size: int = 256) -> None:
        self.seconds, self.count, self.size = seconds, count, size

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> Batch:
        time.sleep(self.seconds)
        generator = torch.Generator("cpu").manual_seed(place)
        values = torch.randn(self.size, generator=generator, device="cpu")  # a loader's workers have no device
        return values, torch.tensor(place % 10, device="cpu")


def perceptron(width: int = 256, layers: int = 3, inputs: int = 256) -> nn.Module:
    """Linear layers."""
    sizes = [inputs, *[width] * layers]
    parts: list[nn.Module] = []
    for left, right in pairwise(sizes):
        parts += [nn.Linear(left, right), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(width, 10))


def endless(loader: Iterable[Batch]) -> Iterator[Batch]:
    """Epoch after epoch."""
    while True:
        yield from loader


def training(
    model: nn.Module, batches: Iterator[Batch], *, optimizer: torch.optim.Optimizer | None = None
) -> Callable[[], None]:
    """A step of a training loop as people write it."""
    chosen = optimizer or torch.optim.SGD(model.parameters(), lr=1e-3)
    device = next(model.parameters()).device

    def step() -> None:
        inputs, target = next(batches)
        if inputs.device != device:
            inputs, target = inputs.to(device), target.to(device)
        chosen.zero_grad()
        nn.functional.cross_entropy(model(inputs), target).backward()
        chosen.step()

    return step


def vectors(batch: int, size: int = 256) -> Iterator[Batch]:
    """The same batch again and again: nothing to wait for."""
    return repeat((torch.randn(batch, size), torch.randint(10, (batch,))))
