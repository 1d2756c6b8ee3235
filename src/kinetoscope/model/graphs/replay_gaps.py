"""Gaps between the kernels of a replay, and whether the recording may have made them.

A replay needs nothing of the host between its kernels: the device starts the next when the one before has ended. In
recordings that slow no kernel the median gap is nothing on an RTX 3060 and an MI300X, and 2.4 µs at the 90th
percentile. A profiler that marks each kernel keeps it waiting for longer, at each of them alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.graphs.replays import replays
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

MAX_MEDIAN_NS: Final = 3_000
"""The median gap that a device needs from one kernel of a replay to the next, at most."""

_MAX_GAP_SPREAD: Final = 4
"""How often the lower quartile of gaps made by marking kernels goes into their 90th percentile, at most: what waits for
other streams, other ranks or lost kernels has gaps of all lengths."""

_MIN_SHARE: Final = 0.05
"""Share of the time of all replays from which on gaps matter."""


@dataclass(frozen=True, slots=True)
class ReplayGaps:
    """Time inside replays in which no kernel of theirs ran.

    Attributes:
        count: gaps, also those of no length: one less than the pieces of work, in each replay.
        low, median, high: the lower quartile, the median and the 90th percentile of their lengths, ns.
        total: length of all, ns.
        span: time of all replays, from the beginning of the first kernel to the end of the last, ns.
    """

    count: int
    low: int
    median: int
    high: int
    total: int
    span: int

    @property
    def are_suspect(self) -> bool:
        """Are they longer than a device needs, at most kernels alike, and do they matter?"""
        is_longer = self.median > MAX_MEDIAN_NS and self.high <= _MAX_GAP_SPREAD * self.low
        return is_longer and self.total >= _MIN_SHARE * self.span


@derived
def replay_gaps(trace: Trace) -> ReplayGaps:
    """The gaps inside the replays of a trace."""
    replayed, work = replays(trace), device_work(trace)
    if not len(replayed.work):
        return ReplayGaps(0, 0, 0, 0, 0, 0)
    of = np.repeat(np.arange(len(replayed)), replayed.sizes)
    start, end = work.start[replayed.work], np.maximum(work.end, work.start)[replayed.work]
    order = np.lexsort((start, of))
    of, start, end = of[order], start[order], end[order]
    first = np.flatnonzero(np.append(True, of[1:] != of[:-1]))
    # Replays side by side on one axis, so that one running maximum serves all.
    begin = start[first]
    longest = int((end - begin[of]).max()) + 1
    start, end = start - begin[of] + of * longest, end - begin[of] + of * longest
    until = np.maximum.accumulate(end)
    inner = np.flatnonzero(of[1:] == of[:-1])
    gap = np.maximum(start[inner + 1] - until[inner], 0)
    span = int((until[np.append(first[1:], len(of)) - 1] - start[first]).sum())
    low, median, high = (int(each) for each in np.percentile(gap, (25, 50, 90))) if len(gap) else (0, 0, 0)
    return ReplayGaps(len(gap), low, median, high, int(gap.sum()), span)
