"""When the threads that launch device work are busy with launching it, and with nothing else that has a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.advisor.rule import RankView
from kinetoscope.algorithms.arrays import Int32s
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, intersection, merge, union
from kinetoscope.model.device.launches import launches
from kinetoscope.model.execution.call_tree import call_tree, self_times
from kinetoscope.model.execution.lost_work import capturing
from kinetoscope.model.execution.marks import is_data_loading, is_mark, is_optimizer_range
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.execution.synchronization import host_waits
from kinetoscope.model.trace.event_kinds import EventKind

_PAUSE: Final = 50_000
"""Between two operators, ns: so much Python is part of asking for the next one; more has another reason."""


ONE_TIME_NS: Final = 5_000_000
"""Own time of a call from which on it does something once: load a library, compile a kernel, open a device."""


@dataclass(frozen=True)
class LaunchingTime:
    """Of the selected launch calls.

    Attributes:
        calls: int32 [calls], their rows.
        stretches: by track, the time of operators and launch calls and the short pauses between them, without waiting,
            allocating, data loading and the capture of graphs.
    """

    calls: Int32s
    stretches: dict[int, Intervals]

    @property
    def length(self) -> int:
        """Of all stretches, ns."""
        return sum(stretch.length for stretch in self.stretches.values())


def launching_time(rank: RankView) -> LaunchingTime:
    """Find it for the selected steps."""
    trace, all_launches = rank.trace, launches(rank.trace)
    calls = all_launches.rows[rank.scope.host_mask[all_launches.rows]]
    tree, waits = call_tree(trace), host_waits(trace)
    asking = tree.member & np.isin(trace.kind, (EventKind.HOST_OP, EventKind.RUNTIME)) & ~is_data_loading(trace)
    asking &= ~is_mark(trace) & ~is_optimizer_range(trace)
    other = np.isin(runtime_call_kinds(trace), (RuntimeCallKind.ALLOCATE, RuntimeCallKind.FREE))
    other[waits.call] = True
    other |= is_data_loading(trace) | (asking & (self_times(trace) > ONE_TIME_NS))
    stretches = {}
    for track in np.unique(trace.track[calls]).tolist():
        here = trace.track == track
        rows = np.flatnonzero(asking & here)
        spans = union(trace.start[rows], trace.end[rows])
        pauses = Intervals(spans.end[:-1], spans.start[1:])
        short = pauses.end - pauses.start <= _PAUSE
        bridged = merge(spans, Intervals(pauses.start[short], pauses.end[short]))
        others = np.flatnonzero(other & here)
        without = merge(union(trace.start[others], trace.end[others]), capturing(trace))
        stretches[track] = intersection(difference(bridged, without), rank.time)
    return LaunchingTime(calls, stretches)
