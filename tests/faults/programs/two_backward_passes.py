# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""Each of two losses has a backward pass of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from tests.faults.programs.parts import perceptron, vectors

CODE, NAME, STEPS, STACKS = "HOST014", "a backward pass for each loss", 20, False


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """The losses are added up."""
    model, batches = perceptron(512, 4), vectors(128)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        inputs, target = next(batches)
        optimizer.zero_grad()
        outputs = model(inputs)
        first, second = nn.functional.cross_entropy(outputs, target), outputs.square().mean()
        if fixed:
            (first + second).backward()
        else:
            first.backward(retain_graph=True)
            second.backward()
        optimizer.step()

    yield step
