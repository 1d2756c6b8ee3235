"""Why the device had nothing to run before a step: the gap, charged to what the host did in it."""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, exclusive, union
from kinetoscope.model.execution.activities import HostActivity, host_activities
from kinetoscope.model.serving.named_steps import NamedSteps
from kinetoscope.model.serving.shares import in_phase
from kinetoscope.model.trace.trace import Trace

GAP_CAUSES: Final = ("launch", "synchronization", "detokenizing", "scheduler", "inputs", "other")
"""Causes in order of priority: each instant of a gap belongs to the first that applies."""


def times_of_causes(trace: Trace, steps: NamedSteps, gaps: Intervals, busy: Intervals, launch: Int32s) -> Int64s:
    """The time of each cause in the gap before each step: int64 [steps, GAP_CAUSES]; a row sums to the idle time.

    Args:
        trace: the trace.
        steps: its steps.
        gaps: [steps], from the end of the steps before on the device to the first work of the step; may be empty.
        busy: the union in which the device runs anything, which is no gap.
        launch: int32 [steps], row of the call that launched the first work of the step; −1 if unknown.
    """
    charged = np.zeros((len(steps), len(GAP_CAUSES)), np.int64)
    taken = np.flatnonzero(gaps.end > gaps.start)
    if not len(taken):
        return charged
    idle = difference(union(gaps.start[taken], gaps.end[taken]), busy)
    # Gaps are disjoint and in order: each stretch of idle time lies in the last one that has begun.
    step = taken[np.maximum(np.searchsorted(gaps.start[taken], idle.start, side="right") - 1, 0)]
    activity = host_activities(trace)
    for track in np.unique(steps.track[step]).tolist():
        here = np.flatnonzero(steps.track[step] == track)
        on_track = trace.track == track
        own = np.flatnonzero((steps.track == track) & (launch >= 0))

        def phase(rows: Bools, on_track: Bools = on_track) -> Intervals:
            rows = rows & on_track
            return union(trace.start[rows], trace.end[rows])

        until = np.where(gaps.end > gaps.start, gaps.end, steps.host.start)
        classes = [
            union(trace.start[launch[own]], gaps.end[own]),
            phase(activity == HostActivity.SYNCHRONIZATION),
            phase(in_phase(trace, "detokenizing")),
            phase(in_phase(trace, "scheduler")),
            phase(in_phase(trace, "inputs")),
            union(steps.host.start, np.minimum(until, steps.host.end)),  # of the step itself, before it launches
            union(steps.host.start, steps.host.end),  # the end of the step before, when all is launched
        ]
        parts = exclusive(Intervals(idle.start[here], idle.end[here]), classes)
        launches, waits, results, schedules, inputs, begins, ends, rest = parts.T
        columns = (launches, waits, results + ends, schedules, inputs + begins, rest)
        np.add.at(charged, step[here], np.stack(columns, axis=1))
    return charged
