# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""Gradients are reduced after each of four small batches of a step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.faults.programs.ddp import launch, stepping
from tests.faults.programs.parts import perceptron
from tests.faults.programs.running import Measured

CODE, NAME, STEPS = "RANKS003", "gradients reduced after each small batch", 12


def measure(folder: Path, rounds: int, steps: int) -> Measured:
    """On two ranks."""
    return launch(__name__, folder, rounds, steps)


def train(rank: int, fixed: bool) -> Callable[[], None]:
    """After the last batch alone: `no_sync`."""
    return stepping(perceptron(1024, layers=4), 16, 256, accumulate=4, sync_each=not fixed)
