"""Allocations of a snapshot in the trace of the same run: the profiler's record of the same memory at the same time."""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.caching_allocator import SMALL_BYTES
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.memory.allocator import HOST, MISSING_INTEGER, memory_instants
from kinetoscope.model.snapshot.replay import history
from kinetoscope.model.snapshot.snapshot import NONE
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

MAX_CLOCK_ERROR_NS: Final = 1_000_000
"""Greatest difference of the two clocks at which two records are of the same allocation."""


@derived
def joined_instants(trace: Trace, device: int) -> Int32s:
    """The instant of `memory_instants` of each allocation of a history: int32 [allocations], NONE for none.

    It has the same device and address, is the nearest within a millisecond, and has the rounded size: of a large block
    with what was too small to be split off.
    """
    past, instants = history(trace, device), memory_instants(trace)
    joined = np.full(len(past), NONE, np.int32)
    ours = [place for place, (kind, number) in enumerate(instants.devices) if kind != HOST and number == device]
    places = np.flatnonzero(np.isin(instants.device, ours) & (instants.size > 0))
    recorded = np.flatnonzero(past.allocated_at != NONE)
    if not len(places) or not len(recorded):
        return joined
    address = arguments.integers(trace, "address", instants.rows[places], missing=MISSING_INTEGER)
    codes, _ = group(np.concatenate([address, past.address[recorded]]))
    time = np.concatenate([instants.time[places], past.events.time[past.allocated_at[recorded]] - trace.base])
    nearest = _nearest(codes, time, len(places))
    rest = instants.size[places[np.maximum(nearest, 0)]] - past.size[recorded]
    near = (nearest != NONE) & (rest >= 0) & (rest <= SMALL_BYTES)
    joined[recorded[near]] = places[nearest[near]]
    return joined


def _nearest(codes: Int32s, time: Int64s, count: int) -> Int64s:
    """The nearest in time of the first `count` rows with the same code, for each other row: NONE if too far away."""
    order = np.lexsort((time, codes))
    is_first = order < count
    at = np.arange(len(order))
    before = np.maximum.accumulate(np.where(is_first, at, -1))
    after = np.minimum.accumulate(np.where(is_first, at, len(order))[::-1])[::-1]
    best, distance = np.full(len(order), NONE, np.int64), np.full(len(order), MAX_CLOCK_ERROR_NS + 1)
    for candidate in (before, after):
        there = (candidate >= 0) & (candidate < len(order))
        row = order[np.where(there, candidate, 0)]
        gap = np.where(there & (codes[row] == codes[order]), np.abs(time[row] - time[order]), MAX_CLOCK_ERROR_NS + 1)
        better = gap < distance
        best[better], distance[better] = row[better], gap[better]
    nearest = np.empty(len(order), np.int64)
    nearest[order] = best
    return nearest[count:]
