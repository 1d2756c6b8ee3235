# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""Gradients are reduced layer by layer: many small collectives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.faults.programs.ddp import launch, stepping
from tests.faults.programs.parts import perceptron
from tests.faults.programs.running import Measured

CODE, NAME, STEPS = "RANKS004", "many small collectives", 12


def measure(folder: Path, rounds: int, steps: int) -> Measured:
    """On two ranks."""
    return launch(__name__, folder, rounds, steps)


def train(rank: int, fixed: bool) -> Callable[[], None]:
    """In buckets of 25 MB, as is the default."""
    return stepping(perceptron(64, layers=60), 16, 256, buckets=25.0 if fixed else 0.001)
