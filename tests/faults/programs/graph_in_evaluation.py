# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""A model is evaluated with gradients on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from tests.faults.programs.parts import perceptron, vectors

CODE, NAME, STEPS, STACKS = "HOST012", "evaluation that builds a graph", 60, False


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """Gradients are off."""
    model, batches = perceptron(128, 20), vectors(4)

    def step() -> None:
        with torch.set_grad_enabled(not fixed):
            model(next(batches)[0]).argmax(1)

    yield step
