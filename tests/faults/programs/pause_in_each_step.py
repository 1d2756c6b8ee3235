# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""The loop sleeps in each step: it waits for a service that logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.faults.programs.parts import perceptron, training, vectors

CODE, NAME, STEPS, STACKS = "HOST008", "logging that waits, in each step", 20, False


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """Nothing is waited for."""
    train = training(perceptron(512), vectors(64))

    def step() -> None:
        train()
        if not fixed:
            time.sleep(0.004)

    yield step
