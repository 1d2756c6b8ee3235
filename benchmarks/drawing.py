"""Runs that are drawn by chance: steps with noise between them, and noise between the runs; nothing of a trace."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.compare.statistics.noise import Samples

Floats = NDArray[np.float64]
Pair = tuple[Samples, Samples]

BETWEEN_STEPS: Final = 0.03
BETWEEN_RUNS: Final = 0.02
"""Standard deviations, as shares of the step; that between runs is at most this."""

_STEP: Final = 100e6
"""ns."""


def _normal(rng: np.random.Generator, steps: int) -> Floats:
    return rng.normal(0, BETWEEN_STEPS, steps)


def _heavy(rng: np.random.Generator, steps: int) -> Floats:
    """Three degrees of freedom, and every twentieth step 20 to 100 % longer: a garbage collector, a checkpoint."""
    pauses = (rng.random(steps) < 0.05) * rng.uniform(0.2, 1.0, steps)
    return np.asarray(BETWEEN_STEPS / math.sqrt(3) * rng.standard_t(3, steps) + pauses)


def _alike(rng: np.random.Generator, steps: int) -> Floats:
    """Neighbours are correlated by 0.7."""
    values = np.empty(steps)
    last = rng.normal(0, BETWEEN_STEPS)
    for step in range(steps):
        last = 0.7 * last + rng.normal(0, BETWEEN_STEPS * math.sqrt(1 - 0.49))
        values[step] = last
    return values


def _drifting(rng: np.random.Generator, steps: int) -> Floats:
    """From the first step to the last each run becomes slower or faster, by 4 % or so."""
    return _normal(rng, steps) + np.linspace(-0.5, 0.5, steps) * rng.normal(0, 0.04)


def _two_lengths(rng: np.random.Generator, steps: int) -> Floats:
    """Three steps of ten are 6 % longer."""
    return rng.normal(0, BETWEEN_STEPS / 2, steps) + 0.06 * (rng.random(steps) < 0.3)


def _warming(rng: np.random.Generator, steps: int) -> Floats:
    """The first steps are longer, how much and how many differs."""
    return _normal(rng, steps) + rng.uniform(0.2, 1.5) * np.exp(-np.arange(steps) / rng.uniform(0.3, 1.5))


def _two_modes(rng: np.random.Generator, steps: int) -> Floats:
    """Three runs of ten are 3 % slower altogether: another placement, another algorithm."""
    return _normal(rng, steps) + 0.03 * float(rng.random() < 0.3)


NOISES: Final[dict[str, Callable[[np.random.Generator, int], Floats]]] = {
    "normal": _normal,
    "heavy tails and pauses": _heavy,
    "neighbours alike": _alike,
    "drifting": _drifting,
    "steps of two lengths": _two_lengths,
    "warming up": _warming,
    "runs of two kinds": _two_modes,
}


@dataclass(frozen=True, slots=True)
class Shape:
    """How many runs before and now, and steps in each; 0 is drawn: 1 to 5 runs, 3 to 50 steps."""

    base: int = 0
    new: int = 0
    steps: int = 0


def pairs(
    count: int,
    shape: Shape = Shape(),
    *,
    seed: int,
    noise: str = "normal",
    effect: float = 0.0,
    between: float | None = None,
) -> Iterator[Pair]:
    """Comparisons, each of runs drawn anew; `effect` is by what share the new runs are slower.

    Noise between runs is normal; its standard deviation is drawn for each comparison, all from 0 to BETWEEN_RUNS alike,
    unless `between` says it.
    """
    rng = np.random.default_rng(seed)
    for _ in range(count):
        deviation = rng.uniform(0, BETWEEN_RUNS) if between is None else between
        steps = shape.steps or int(rng.integers(3, 51))
        runs = [shape.base or int(rng.integers(1, 6)), shape.new or int(rng.integers(1, 6))]
        yield (
            _side(rng, runs[0], steps, noise, deviation, 1.0),
            _side(rng, runs[1], steps, noise, deviation, 1.0 + effect),
        )


def _side(
    rng: np.random.Generator, runs: int, steps: int, noise: str, between: float, slower: float
) -> list[list[float]]:
    return [(_STEP * slower * np.exp(rng.normal(0, between) + NOISES[noise](rng, steps))).tolist() for _ in range(runs)]
