# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""One rank sleeps in each step; the other one waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tests.faults.programs.ddp import launch, stepping
from tests.faults.programs.parts import perceptron
from tests.faults.programs.running import Measured

CODE, NAME, STEPS = "RANKS005", "one rank is late in each step", 12


def measure(folder: Path, rounds: int, steps: int) -> Measured:
    """On two ranks."""
    return launch(__name__, folder, rounds, steps)


def train(rank: int, fixed: bool) -> Callable[[], None]:
    """No rank does."""
    step = stepping(perceptron(512), 64, 256)

    def late() -> None:
        if rank == 1 and not fixed:
            time.sleep(0.03)
        step()

    return late
