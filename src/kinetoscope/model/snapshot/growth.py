"""Memory of a device at the ends of steps: what outlives its step, what a step leaves, and what keeps it."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int8s, Int32s, Int64s
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.model.memory.record import StepAllocations
from kinetoscope.model.memory.windows import MemoryWindows
from kinetoscope.model.snapshot.replay import SnapshotHistory
from kinetoscope.model.snapshot.snapshot import NONE, Snapshot, private_pools

HOLDERS: Final = ("references", "stream", "graph pool")
"""What keeps an allocation: references to its tensor, for its free was not requested; work of another stream that must
end before its free completes; the private pool of a CUDA graph (or a `MemPool`), whose blocks replays write."""

NEVER_FREED: Final = np.iinfo(np.int32).max
"""Event of a free that the history does not have."""


def carried_over(past: SnapshotHistory, steps: MemoryWindows) -> Int64s:
    """Bytes requested that are in use at the end of each step and were allocated before it began: int64 [steps]."""
    first = np.searchsorted(steps.start, past.allocated_at, side="right")
    last = np.searchsorted(steps.end, _over(past), side="right")
    is_held = first < last
    change = np.zeros(len(steps) + 1, np.int64)
    np.add.at(change, first[is_held], past.requested[is_held])
    np.subtract.at(change, last[is_held], past.requested[is_held])
    return np.cumsum(change)[:-1]


def step_allocations(past: SnapshotHistory, steps: MemoryWindows) -> StepAllocations:
    """Bytes that each step allocates, and leaves."""
    step = steps.of(past.allocated_at)
    rows = np.flatnonzero(step >= 0)
    step, size, stack = step[rows], past.requested[rows], past.stack[rows]
    is_held = _over(past)[rows] >= steps.end[step]
    of_stack, first = group(stack)
    holds = np.bincount(of_stack[is_held], minlength=len(first)) > 0
    of_step = step.astype(np.int32)
    held, others = (
        sum_by(np.where(which, of_step, np.int32(NONE)), len(steps), size) for which in (is_held, ~holds[of_stack])
    )
    at_first, at_last = (
        sum_by(np.where(is_held & (step == place), of_stack, np.int32(NONE)), len(first), size)
        for place in (0, len(steps) - 1)
    )
    growing = np.flatnonzero(at_last > at_first)
    growing = growing[np.argsort(at_first[growing] - at_last[growing], kind="stable")]
    count = np.bincount(of_stack[is_held & (step == len(steps) - 1)], minlength=len(first))
    return StepAllocations(
        held, others, stack[first[growing]], (at_last - at_first)[growing], count[growing], pl.DataFrame()
    )


def holders(snapshot: Snapshot, past: SnapshotHistory, rows: Int64s, end: int) -> Int8s:
    """Holder of each allocation at an event, a place in HOLDERS: int8 [rows]."""
    private = private_pools(snapshot)[past.pool[rows]]
    waits = past.free_requested_at[rows]
    return np.where((waits != NONE) & (waits < end), 1, np.where(private, 2, 0)).astype(np.int8)


def _over(past: SnapshotHistory) -> Int32s:
    """The event that freed each allocation, NEVER_FREED for none: int32."""
    return np.where(past.freed_at == NONE, np.int32(NEVER_FREED), past.freed_at)
