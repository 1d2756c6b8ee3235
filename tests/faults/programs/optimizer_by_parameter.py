# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""The optimizer goes through many small parameters one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from tests.faults.programs.parts import perceptron, training, vectors

CODE, NAME, STEPS, STACKS = "HOST004", "Adam, parameter by parameter", 12, False


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """One call of the fused optimizer."""
    model = perceptron(64, layers=40)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, foreach=False, fused=fixed)
    yield training(model, vectors(32), optimizer=optimizer)
