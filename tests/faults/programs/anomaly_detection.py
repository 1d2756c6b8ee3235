# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""Anomaly detection is left on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from tests.faults.programs.parts import perceptron, training, vectors

CODE, NAME, STEPS, STACKS = "HOST011", "anomaly detection left on", 20, False


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """The same without."""
    train = training(perceptron(512, 4), vectors(64))

    def step() -> None:
        with torch.autograd.set_detect_anomaly(not fixed):
            train()

    yield step
