"""The whole of a run at one glance: how busy it was, and with what, in equal stretches of time."""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Floats
from kinetoscope.algorithms.intervals.intervals import Intervals, covered, exclusive, union
from kinetoscope.model.device.busy import busy
from kinetoscope.model.execution.call_tree import call_tree, main_thread
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import ALL
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

BUCKETS: Final = 512


@derived
def shares(trace: Trace, first: int, bucket: int) -> dict[str, Floats]:
    """Which share of each of BUCKETS stretches of time was of which kind: float64 [BUCKETS] each.

    The mean of the devices, each instant of one for one kind; without devices what the main thread did.

    Args:
        trace: of which.
        first: beginning of the first stretch, ns as the file counts them.
        bucket: length of each, ns.
    """
    edges = first + bucket * np.arange(BUCKETS + 1, dtype=np.int64)
    windows = Intervals(edges[:-1], edges[1:])
    devices = busy(scope(trace, ALL))
    if not devices:
        calls = call_tree(trace)
        outermost = (calls.depth == 0) & (trace.track == main_thread(trace))
        ran = union(trace.start[outermost], trace.end[outermost])
        return {"host": covered(windows, ran) / bucket} if len(ran.start) else {}
    total = np.zeros((BUCKETS, 3))
    for each in devices:
        total += exclusive(windows, [each.computation, each.communication, each.memory])[:, :3] / bucket
    mean = total / len(devices)
    kinds = ("computation", "communication", "memory")
    return {kind: mean[:, place] for place, kind in enumerate(kinds) if mean[:, place].any()}
