"""Memory taken and given back, as the allocator reported it: instants with a size, and sums over spans of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.model.kinds import EventKind
from kinetoscope.model.trace import Trace

_HOST: Final = 0
"""`Device Type` of the host's memory."""


@dataclass(frozen=True)
class Allocations:
    """What the allocators of the host, or of all devices, did; in order of time.

    Attributes:
        rows: int32 [instants], their rows.
        time: int64 [instants], when, ns, ascending.
        size: int64 [instants], bytes: positive where memory was taken, negative where it was given back.
    """

    rows: NDArray[np.int32]
    time: NDArray[np.int64]
    size: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def change_within(self, first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bytes taken less bytes given back from `first` to `last`, both included, on any thread: int64 [spans].

        A span whose last instant is before its first has none.
        """
        before = np.concatenate([[0], np.cumsum(self.size)])
        begin = before[np.searchsorted(self.time, first, side="left")]
        end = before[np.searchsorted(self.time, last, side="right")]
        return np.where(last >= first, end - begin, 0)


def allocations(trace: Trace, *, on_device: bool) -> Allocations:
    """The allocations of the host's memory, or of all devices'."""
    rows = trace.rows(EventKind.MEMORY)
    is_host = trace.integers("Device Type", rows, missing=_HOST) == _HOST
    rows = rows[is_host != on_device]
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    return Allocations(rows, trace.start[rows], trace.integers("Bytes", rows, missing=0))
