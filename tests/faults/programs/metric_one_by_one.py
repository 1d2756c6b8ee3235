# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""A metric is computed in plain Python, element by element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from tests.faults.programs.parts import perceptron, vectors

CODE, NAME, STEPS, STACKS = "HOST015", "a metric in plain Python", 30, True


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """All of them are compared at once."""
    model, batches = perceptron(256), vectors(128)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        inputs, target = next(batches)
        optimizer.zero_grad()
        outputs = model(inputs)
        nn.functional.cross_entropy(outputs, target).backward()
        optimizer.step()
        predicted = outputs.detach().argmax(1)
        if fixed:
            (predicted == target).sum()
        else:
            sum(bool(one == other) for one, other in zip(predicted, target, strict=True))

    yield step
