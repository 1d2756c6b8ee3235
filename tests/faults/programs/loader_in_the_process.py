# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""Batches are made by the thread that trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch.utils.data import DataLoader

from tests.faults.programs.parts import Sleeping, endless, perceptron, training

CODE, NAME, STEPS, STACKS = "DATA001", "loader in the training process", 20, False


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """With workers, which make the batches ahead."""
    data = Sleeping(0.001)
    loader = DataLoader(data, 16, num_workers=8, persistent_workers=True) if fixed else DataLoader(data, 16)
    yield training(perceptron(512), endless(loader))
