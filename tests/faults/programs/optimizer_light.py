# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""The optimizer goes through the parameters one by one; the model takes longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from tests.faults.programs.parts import perceptron, training, vectors

CODE, NAME, STEPS, STACKS = "HOST004", "AdamW, parameter by parameter, a larger model", 12, False


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """One call of the fused optimizer."""
    model = perceptron(256, layers=24)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False, fused=fixed)
    yield training(model, vectors(64), optimizer=optimizer)
