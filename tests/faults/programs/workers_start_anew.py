# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""The workers of the loader are started anew in each epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch.utils.data import DataLoader

from tests.faults.programs.parts import Sleeping, endless, perceptron, training

CODE, NAME, STEPS, STACKS = "DATA003", "workers started anew in each short epoch", 32, False


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """Workers live on from epoch to epoch."""
    data = Sleeping(0.0002, count=16 * 8)
    loader = DataLoader(data, 16, num_workers=2, persistent_workers=fixed)
    yield training(perceptron(512), endless(loader))
