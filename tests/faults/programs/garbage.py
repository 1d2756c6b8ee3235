# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""Python's garbage collector goes through many objects in each step."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.faults.programs.parts import perceptron, training, vectors

CODE, NAME, STEPS, STACKS = "HOST006", "garbage collection in each step", 8, True


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """The collector is told to leave what lives on alone."""
    gc.freeze()  # torch's own objects are not the point
    held = [[{"a": [k]}] for k in range(40_000)]
    train = training(perceptron(512), vectors(64))

    def step() -> None:
        train()
        if fixed:
            return
        gc.collect()

    yield step
    held.clear()
