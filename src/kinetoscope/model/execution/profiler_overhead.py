"""Time of the program that the profiler itself takes: for its buffers, which it writes on no thread's track."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Int32s
from kinetoscope.algorithms.trees.tree import NO_ROW
from kinetoscope.model.execution.call_tree import call_tree, innermost_at
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace

BUFFER_REQUEST: Final = "Activity Buffer Request"
"""CUPTI takes memory for its records, while a call of the program waits."""

_PROFILER_WORK: Final = frozenset((BUFFER_REQUEST, "Buffer Flush", "Instrumentation", "Resource", "UVM Activity Init"))
"""What CUPTI does for itself; loading and compiling code, which is overhead to it, too, the program does without it."""


class ProfilerOverhead(NamedTuple):
    """Interruptions of calls by the profiler: int32 [interruptions] each.

    Attributes:
        row: the event of each.
        call: the innermost call that it lies in as a whole, of all threads the one that began last; −1 for none.
    """

    row: Int32s
    call: Int32s


@derived
def profiler_overhead(trace: Trace) -> ProfilerOverhead:
    """The profiler's own overhead, and the calls that it interrupts.

    CUPTI names no thread. It asks for a buffer when a call of the runtime has none to write to, so the overhead lies in
    that call; where calls of several threads run, the one that began last is meant.
    """
    row = np.flatnonzero(rows_named(trace, _PROFILER_WORK.__contains__, EventKind.OVERHEAD)).astype(np.int32)
    interrupted = np.full(len(row), NO_ROW, np.int32)
    if not len(row):
        return ProfilerOverhead(row, interrupted)
    calls = call_tree(trace)
    for track in np.flatnonzero(np.diff(calls.offsets)).tolist():
        places = np.full(len(row), track, np.int32)
        here = innermost_at(trace, places, trace.start[row])
        while (late := (here >= 0) & (trace.end[here] < trace.end[row])).any():
            here = np.where(late, calls.parent[here], here).astype(np.int32)
        better = (here >= 0) & ((interrupted < 0) | (trace.start[here] > trace.start[interrupted]))
        interrupted = np.where(better, here, interrupted).astype(np.int32)
    return ProfilerOverhead(row, interrupted)
