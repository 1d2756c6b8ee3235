# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""A metric calls the model again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from tests.faults.programs.parts import perceptron, vectors

CODE, NAME, STEPS, STACKS = "HOST013", "a second forward pass for a metric", 20, True


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """The metric looks at the outputs that are there."""
    model, batches = perceptron(512, 4), vectors(128)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        inputs, target = next(batches)
        optimizer.zero_grad()
        outputs = model(inputs)
        nn.functional.cross_entropy(outputs, target).backward()
        optimizer.step()
        with torch.no_grad():
            (outputs if fixed else model(inputs)).argmax(1).eq(target).sum()

    yield step
