"""Memory taken and given back, as the allocator reported it: instants with a size, and sums over spans of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.model.memory.allocator import HOST, memory_instants
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace


@dataclass(frozen=True)
class Allocations:
    """What the allocator of the host did, or those of the devices, in order of time.

    Attributes:
        rows: int32 [instants], their rows.
        time: int64 [instants], when, ns, ascending.
        size: int64 [instants], bytes: positive where memory was taken, negative where it was given back.
    """

    rows: Int32s
    time: Int64s
    size: Int64s

    def __len__(self) -> int:
        return len(self.rows)

    def change_within(self, first: Int64s, last: Int64s) -> Int64s:
        """Bytes taken less bytes given back from `first` to `last`, both included, on any thread: int64 [spans].

        A span whose last instant is before its first has none.
        """
        before = np.concatenate([[0], np.cumsum(self.size)], dtype=np.int64)
        begin = np.searchsorted(self.time, first, side="left")
        end = np.searchsorted(self.time, last, side="right")
        return np.subtract(before[np.maximum(begin, end)], before[begin])


@derived
def host_allocations(trace: Trace) -> Allocations:
    """Those of the host's memory."""
    return _allocations(trace, of_host=True)


@derived
def device_allocations(trace: Trace) -> Allocations:
    """Those of the memory of all devices."""
    return _allocations(trace, of_host=False)


def _allocations(trace: Trace, *, of_host: bool) -> Allocations:
    found = memory_instants(trace)
    host_devices = np.array([kind == HOST for kind, _ in found.devices], np.bool_)
    chosen = host_devices[found.device] == of_host
    return Allocations(found.rows[chosen], found.time[chosen], found.size[chosen])
