# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""Each step's loss is kept with its graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from tests.faults.programs.parts import perceptron, vectors

CODE, NAME, STEPS, STACKS, TIMED = "MEMORY005", "losses kept with their graphs", 20, False, False


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """Only the number is kept."""
    model = perceptron(512)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = vectors(256)
    losses: list[Tensor | float] = []

    def step() -> None:
        inputs, target = next(batches)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), target)
        extra = model(inputs).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(extra) if fixed else extra)

    yield step
