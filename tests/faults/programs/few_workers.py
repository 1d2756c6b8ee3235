# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""One worker cannot keep up with the training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch.utils.data import DataLoader

from tests.faults.programs.parts import Sleeping, endless, perceptron, training

CODE, NAME, STEPS, STACKS = "DATA002", "one worker of a loader that needs four", 24, False


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """With as many workers as it takes."""
    loader = DataLoader(Sleeping(0.001), 16, num_workers=8 if fixed else 1, persistent_workers=True)
    yield training(perceptron(512), endless(loader))
