# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""Attention is written out: product, softmax, product."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

CODE, NAME, STEPS, STACKS = "DEVICE005", "attention written out", 10, False


class Attention(nn.Module):
    """Over 8 heads of 32."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused, self.inner, self.outer = fused, nn.Linear(256, 768), nn.Linear(256, 256)

    def forward(self, inputs: Tensor) -> Tensor:
        batch, length, width = inputs.shape
        parts = self.inner(inputs).view(batch, length, 3, 8, width // 8).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        if self.fused:
            seen = nn.functional.scaled_dot_product_attention(query, key, value)
        else:
            seen = torch.softmax(query @ key.transpose(-2, -1) / math.sqrt(width // 8), -1) @ value
        return inputs + self.outer(seen.transpose(1, 2).reshape(batch, length, width))


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """One fused operator."""
    model = Attention(fixed)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    inputs = torch.randn(1, 512, 256)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    yield step
