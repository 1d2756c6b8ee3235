"""Curves that step, at any scale: the mean and the greatest level of each unit of time.

Of each 64 steps that follow one another, and of each 4096, and so on, the area and the greatest level are kept, so that
a view of all costs no more than one of a part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.algorithms.arrays import Floats, Int64s, require_rows
from kinetoscope.algorithms.compiled import compiled, frozen, inlined

_LEVEL_SHIFT = 6  # log2 of the steps of a node of the first level, and of the nodes that a node of the next one joins


@dataclass(frozen=True)
class Sampled:
    """A curve, and sums over it.

    Attributes:
        time: int64 [steps], ascending, ns: a level holds from one to the next, the last one forever.
        level: float64 [steps]; NaN where it is not known.
        nodes: int64 [levels], where the nodes of each level begin.
        area: float64 [nodes], level × ns; known: int64 [nodes], time in which the level is known, ns; greatest:
            float64 [nodes], −inf if it is not known.
    """

    time: Int64s
    level: Floats
    nodes: Int64s
    area: Floats
    known: Int64s
    greatest: Floats

    def __len__(self) -> int:
        return len(self.time)


def sampled(time: Int64s, level: Floats) -> Sampled:
    """Prepare a curve.

    Args:
        time: when each level begins, ascending, ns.
        level: finite, or NaN where it is not known.

    Raises:
        ValueError: the arrays differ in length.
    """
    require_rows(time.size, level=level)
    sizes = []
    nodes = max(time.size - 1, 0) >> _LEVEL_SHIFT  # the last level has no end
    while nodes:
        sizes.append(nodes)
        nodes >>= _LEVEL_SHIFT
    begins = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    area, known = np.zeros(begins[-1]), np.zeros(begins[-1], np.int64)
    greatest = np.full(begins[-1], -np.inf)
    arrays = frozen(time, np.int64), frozen(level, np.float64)
    _sum_up(*arrays, begins, area, known, greatest)
    return Sampled(*arrays, begins, area, known, greatest)


def sample(curve: Sampled, first: int, unit: int, units: int) -> tuple[Floats, Floats]:
    """The mean and the greatest level of each unit of time, NaN where none is known: float64 [units] each.

    What is greatest may hold for an instant only, until another level begins at the same time.

    Args:
        curve: of which.
        first: beginning of the first unit, ns.
        unit: length of a unit, ns; they follow one another.
        units: how many.
    """
    mean, greatest = np.empty(units), np.empty(units)
    arrays = (
        frozen(curve.time, np.int64),
        frozen(curve.level, np.float64),
        frozen(curve.nodes, np.int64),
        frozen(curve.area, np.float64),
        frozen(curve.known, np.int64),
        frozen(curve.greatest, np.float64),
    )
    _sample(*arrays, first, unit, mean, greatest)
    return mean, greatest


@compiled
def _sum_up(time: Int64s, level: Floats, nodes: Int64s, area: Floats, known: Int64s, greatest: Floats) -> None:
    if nodes.size > 1:
        for place in range(nodes[1] << _LEVEL_SHIFT):
            if level[place] == level[place]:
                node = place >> _LEVEL_SHIFT
                held = time[place + 1] - time[place]
                area[node] += level[place] * held
                known[node] += held
                greatest[node] = max(greatest[node], level[place])
    for each in range(1, nodes.size - 1):
        for node in range(nodes[each], nodes[each + 1]):
            child = nodes[each - 1] + ((node - nodes[each]) << _LEVEL_SHIFT)
            for other in range(child, child + (1 << _LEVEL_SHIFT)):
                area[node] += area[other]
                known[node] += known[other]
                greatest[node] = max(greatest[node], greatest[other])


@inlined
def _reach(time: Int64s, nodes: Int64s, place: int, end: int) -> tuple[int, int]:
    """The largest node that begins with a step and ends by a time: its number, and the step after it; 0 for none."""
    node, reach = 0, 0
    for level in range(nodes.size - 1):
        shift = _LEVEL_SHIFT * (level + 1)
        stop = place + (1 << shift)
        if place & ((1 << shift) - 1) or stop >= time.size or time[stop] > end:
            break
        node, reach = nodes[level] + (place >> shift), stop
    return node, reach


@inlined
def _step_at(time: Int64s, at: int) -> int:
    """The first step that begins at a time, else the one that holds then, −1 for none."""
    low, high = 0, time.size
    while low < high:
        probe = (low + high) >> 1
        if time[probe] < at:
            low = probe + 1
        else:
            high = probe
    if low < time.size and time[low] == at:
        return low
    return low - 1


@compiled
def _sample(
    time: Int64s,
    level: Floats,
    nodes: Int64s,
    area: Floats,
    known: Int64s,
    greatest: Floats,
    first: int,
    unit: int,
    mean: Floats,
    most: Floats,
) -> None:
    place = _step_at(time, first)
    for each in range(mean.size):
        now = first + each * unit
        end = now + unit
        total, held, top = 0.0, 0, -np.inf
        if place < 0 and time.size and time[0] < end:
            place, now = 0, time[0]
        while place >= 0 and now < end:
            node, reach = 0, 0
            if now == time[place]:
                node, reach = _reach(time, nodes, place, end)
            if reach:
                total += area[node]
                held += known[node]
                top = max(top, greatest[node])
                place, now = reach, time[reach]
                continue
            until = end
            if place + 1 < time.size:
                until = min(until, time[place + 1])
            if level[place] == level[place]:
                total += level[place] * (until - now)
                held += until - now
                top = max(top, level[place])
            now = until
            if place + 1 < time.size and time[place + 1] == until:
                place += 1
        mean[each] = total / held if held else np.nan
        most[each] = top if held else np.nan
