"""Memory of a device that outlives its step: how much of it each step holds, and which of it stays."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Int8s, Int32s, Int64s
from kinetoscope.model.snapshot.replay import SnapshotHistory
from kinetoscope.model.snapshot.snapshot import NONE, Snapshot
from kinetoscope.model.snapshot.windows import HistoryWindows

HOLDERS: Final = ("references", "stream", "graph pool")
"""What keeps an allocation: references to its tensor, for its free was not requested; work of another stream that must
end before its free completes; the private pool of a CUDA graph (or a `MemPool`), whose blocks replays write."""


class KeptAllocations(NamedTuple):
    """Allocations that stay: rows int32 of the history, the step int64 of each, what keeps it int8, of HOLDERS."""

    rows: Int32s
    step: Int64s
    holder: Int8s


def held_over(past: SnapshotHistory, steps: HistoryWindows) -> Int64s:
    """Bytes, as rounded, that are in use at the end of each step and were taken before it began: int64 [steps].

    What a step takes and holds at its own end does not count: that differs with the sizes of its inputs.
    """
    first = np.searchsorted(steps.start, past.taken, side="right")
    over = np.where(past.returned == NONE, np.iinfo(np.int32).max, past.returned)
    last = np.searchsorted(steps.end, over, side="right")
    held = first < last
    change = np.zeros(len(steps) + 1, np.int64)
    np.add.at(change, first[held], past.size[held])
    np.subtract.at(change, last[held], past.size[held])
    return np.cumsum(change)[:-1]


def kept(snapshot: Snapshot, past: SnapshotHistory, steps: HistoryWindows) -> KeptAllocations:
    """Allocations taken in any step but the last, and in use at the end of the last."""
    end = int(steps.end[-1])
    rows = np.flatnonzero((past.returned == NONE) | (past.returned >= end)).astype(np.int32)
    step = steps.of(past.taken[rows])
    earlier = (step >= 0) & (step < len(steps) - 1)
    rows, step = rows[earlier], step[earlier]
    private = np.array([pool != (0, 0) for pool in (*snapshot.pools, (0, 0))], np.bool_)[past.pool[rows]]
    waits = past.free_requested[rows]
    holder = np.where((waits != NONE) & (waits < end), 1, np.where(private, 2, 0)).astype(np.int8)
    return KeptAllocations(rows, step, holder)
