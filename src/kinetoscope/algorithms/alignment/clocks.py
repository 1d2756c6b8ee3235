"""Clocks set by events that all who take part leave at one instant: robust least squares of offset and rate.

What a clock shows of event e is T[e] + offset + rate · (T[e] − origin) + noise, with T[e], the true time, unknown. One
clock of each set of clocks that events join is the reference: its offset and rate are 0. Noise has outliers, so the
squares are reweighted (Huber's weights). The equations are solved by conjugate gradients, which need nothing but sums
over observations: any number of clocks, and no matrix.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats, Int64s
from kinetoscope.algorithms.statistics import SIGMA_PER_MAD

_ROUNDS: Final = 12
_ITERATIONS: Final = 200
_TOLERANCE: Final = 1e-13
_HUBER: Final = 1.5
"""Deviations beyond which an observation counts for less."""

_FLOOR: Final = 1.0
"""Least deviation that is believed, ns."""


class Fit(NamedTuple):
    """Clocks relative to the reference of their component.

    Attributes:
        component: int64 [clocks], number of the set of clocks that events join, by its least clock.
        offset, rate: float64 [clocks], ns and ns a ns; see above.
        error_offset, error_rate: their standard errors, as if the events' true times were known.
        residual: float64 [observations], ns by which each is later than the fit says.
        spread: float, standard deviation of the residuals as the median tells it, ns.
    """

    component: Int64s
    offset: Floats
    rate: Floats
    error_offset: Floats
    error_rate: Floats
    residual: Floats
    spread: float


def components(clock: Int64s, event: Int64s, clocks: int) -> Int64s:
    """For each clock the least clock that it is joined to by events, directly or through others: int64 [clocks]."""
    label = np.arange(clocks, dtype=np.int64)
    if not len(clock):
        return label
    events = int(event.max()) + 1
    while True:
        least = np.full(events, clocks, np.int64)
        np.minimum.at(least, event, label[clock])
        joined = label.copy()
        np.minimum.at(joined, clock, least[event])
        joined = joined[joined]  # a label is a clock: what that one has found counts too
        if np.array_equal(joined, label):
            return label
        label = joined


def fit(clock: Int64s, event: Int64s, time: Floats, drifts: Bools) -> Fit:
    """Set the clocks.

    Args:
        clock: int64 [observations], whose.
        event: int64 [observations], of which event; events of one observation tell nothing.
        time: float64 [observations], what the clock showed, ns from an origin near to all.
        drifts: bool [clocks], of which clocks the rate is sought; of the others it is 0.
    """
    clocks = len(drifts)
    component = components(clock, event, clocks)
    free = component != np.arange(clocks)
    events = int(event.max(initial=-1)) + 1
    scale = max(float(np.abs(time).max(initial=0.0)), 1.0)
    lever = _means(event, time, np.ones(len(time)), events)[event] / scale
    weight = np.ones(len(time))
    solution = np.zeros((2, clocks))
    residual = time.copy()
    spread = _FLOOR
    for _ in range(_ROUNDS):
        previous = solution
        solution = _solved(clock, event, time, lever, weight, free, events, solution, drifts)
        left = time - solution[0][clock] - solution[1][clock] * lever
        # The median of an event is not moved by one rank that leaves late; so many ranks take part in few events only.
        residual = left - _means(event, left, weight, events)[event]
        spread = max(SIGMA_PER_MAD * float(np.median(np.abs(residual))) if len(residual) else 0.0, _FLOOR)
        weight = 1.0 / np.maximum(1.0, np.abs(residual) / (_HUBER * spread))
        if np.abs(solution - previous).max(initial=0.0) < 0.01:
            break
    counts = np.bincount(clock, weight, clocks)
    levers = np.bincount(clock, weight * lever**2, clocks)
    error_rate = spread / np.sqrt(np.maximum(levers, 1e-30)) / scale
    return Fit(
        component,
        solution[0],
        solution[1] / scale,
        spread / np.sqrt(np.maximum(counts, 1e-30)),
        np.where(levers > 0, error_rate, np.inf),
        residual,
        spread if len(residual) else 0.0,
    )


def _means(event: Int64s, values: Floats, weight: Floats, events: int) -> Floats:
    total = np.bincount(event, weight, events)
    return np.bincount(event, weight * values, events) / np.where(total > 0, total, 1.0)


def _solved(
    clock: Int64s, event: Int64s, time: Floats, lever: Floats, weight: Floats, free: Bools,
    events: int, first: Floats, drifts: Bools,
) -> Floats:  # fmt: skip
    """Offsets and (scaled) rates with the least weighted squares, by conjugate gradients from `first` on."""
    clocks = len(free)
    mask = np.stack([free, free & drifts]).astype(np.float64)
    counts = np.bincount(clock, weight, clocks), np.bincount(clock, weight * lever**2, clocks)
    inverse = mask / np.maximum(np.stack(counts), 1e-9)

    def gathered(values: Floats) -> Floats:
        """The gradient of values at the observations, less what the events' own times take up."""
        values = weight * (values - _means(event, values, weight, events)[event])
        return mask * np.stack([np.bincount(clock, values, clocks), np.bincount(clock, values * lever, clocks)])

    def applied(unknown: Floats) -> Floats:
        return gathered(unknown[0][clock] + unknown[1][clock] * lever)

    solution = first * mask
    rest = gathered(time) - applied(solution)
    direction = inverse * rest
    power = start = float((rest * direction).sum())
    for _ in range(_ITERATIONS):
        if power <= _TOLERANCE * max(start, 1e-30) or power < 1e-12:
            break
        image = applied(direction)
        step = power / max(float((direction * image).sum()), 1e-300)
        solution = solution + step * direction
        rest = rest - step * image
        scaled = inverse * rest
        power, before = float((rest * scaled).sum()), power
        direction = scaled + (power / before) * direction
    return solution
