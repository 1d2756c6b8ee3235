# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""Batches are made by the thread that trains; the model takes longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch.utils.data import DataLoader

from tests.faults.programs.parts import Sleeping, endless, perceptron, training

CODE, NAME, STEPS, STACKS = "DATA001", "light loader in the training process", 20, False


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """With workers, which make the batches ahead."""
    data = Sleeping(0.0001)
    loader = DataLoader(data, 64, num_workers=2, persistent_workers=True) if fixed else DataLoader(data, 64)
    yield training(perceptron(1024), endless(loader))
