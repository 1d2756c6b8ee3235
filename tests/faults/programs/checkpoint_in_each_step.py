# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""A checkpoint is written in each step."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from tests.faults.programs.parts import perceptron, training, vectors

CODE, NAME, STEPS, STACKS = "HOST008", "checkpoint written in each step", 16, False


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """None is."""
    model = perceptron(512)
    train = training(model, vectors(64))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.pt"

        def step() -> None:
            train()
            if not fixed:
                torch.save(model.state_dict(), file)

        yield step
