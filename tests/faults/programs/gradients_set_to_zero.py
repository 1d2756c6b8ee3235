# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""Gradients are written over with zeros in each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from tests.faults.programs.parts import perceptron, vectors

CODE, NAME, STEPS, STACKS = "HOST005", "zero_grad(set_to_none=False)", 12, False


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """Gradients are dropped."""
    model = perceptron(128, layers=60)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = vectors(16)

    def step() -> None:
        inputs, target = next(batches)
        optimizer.zero_grad(set_to_none=fixed)
        nn.functional.cross_entropy(model(inputs), target).backward()
        optimizer.step()

    yield step
