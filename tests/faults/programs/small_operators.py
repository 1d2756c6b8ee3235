# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""An activation is written out as a chain of element-wise operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from tests.faults.programs.parts import training, vectors

CODE, NAME, STEPS, STACKS = "HOST003", "chain of small element-wise operators", 30, False


class Gelu(nn.Module):
    """The approximation by a hyperbolic tangent, written out."""

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """One fused operator."""
    parts: list[nn.Module] = []
    for _ in range(20):
        parts += [nn.Linear(128, 128), nn.GELU(approximate="tanh") if fixed else Gelu()]
    model = nn.Sequential(nn.Linear(256, 128), *parts, nn.Linear(128, 10))
    yield training(model, vectors(16))
