# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""Tensors are made contiguous between transpositions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

CODE, NAME, STEPS, STACKS = "DEVICE007", "copies between transpositions", 15, False


class Turned(nn.Module):
    """Two transpositions, which undo each other, and a linear layer."""

    def __init__(self, copied: bool) -> None:
        super().__init__()
        self.copied, self.linear = copied, nn.Linear(128, 128)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            x = x.transpose(1, 2)
            x = x.contiguous() if self.copied else x
        return torch.relu(self.linear(x))


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """No copies."""
    model = nn.Sequential(*[Turned(not fixed) for _ in range(4)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(16, 64, 128)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    yield step
