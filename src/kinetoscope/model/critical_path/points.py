"""The instants of host threads at which something depends on another lane: nodes of `critical_graph`."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Int32s, Int64s, scattered
from kinetoscope.model.execution.backward_handover import handovers, host_time
from kinetoscope.model.execution.call_tree import main_thread
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.synchronization import HostWaits
from kinetoscope.model.steps.steps import steps
from kinetoscope.model.trace.trace import Trace

NONE: Final = -1


class Points(NamedTuple):
    """Instants of host threads, by thread and time, each once; the other fields are places among them.

    launch: [work], NONE if the launch is not known. call_start, call_end: [waits]. begin, end, first, last:
    [handovers], the last two NONE where there is none. steps: [2, steps], start and end; NONE without a host.
    """

    track: Int32s
    time: Int64s
    launch: Int64s
    call_start: Int64s
    call_end: Int64s
    begin: Int64s
    end: Int64s
    first: Int64s
    last: Int64s
    steps: Int64s


def find_points(trace: Trace, waits: HostWaits, steps_by: str | None) -> Points:
    """The points of a trace; `steps_by` as for `steps`."""
    work, hands = device_work(trace), handovers(trace)
    every, main = steps(trace, steps_by), main_thread(trace)
    on_main = np.full(len(every) if main >= 0 else 0, main, np.int32)
    linked = np.flatnonzero(work.launch >= 0)
    first, last = np.flatnonzero(hands.first >= 0), np.flatnonzero(hands.last >= 0)
    parts = [
        (trace.track[work.launch[linked]], trace.start[work.launch[linked]]),
        (trace.track[waits.call], trace.start[waits.call]),
        (trace.track[waits.call], np.maximum(trace.end[waits.call], trace.start[waits.call])),
        (hands.thread, hands.begin),
        (hands.thread, hands.end),
        (hands.other[first], trace.start[hands.first[first]]),
        (hands.other[last], trace.end[hands.last[last]]),
        (on_main, every.host.start[: len(on_main)]),
        (on_main, every.host.end[: len(on_main)]),
    ]
    used = np.unique(np.concatenate([track for track, _ in parts]))
    stretches = host_time(trace)
    used = used[np.diff(stretches.offsets)[used] > 0]
    parts.append((used, stretches.time[stretches.offsets[used]]))
    track = np.concatenate([each for each, _ in parts]).astype(np.int32)
    time = np.concatenate([each for _, each in parts]).astype(np.int64)
    order = np.lexsort((time, track))
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (np.diff(track[order]) != 0) | (np.diff(time[order]) != 0)
    place = np.empty(len(order), np.int64)
    place[order] = np.cumsum(is_new) - 1
    bounds = np.cumsum([0] + [len(each) for each, _ in parts])
    launch, call_start, call_end, begin, end, at_first, at_last, step_start, step_end = (
        place[bounds[k] : bounds[k + 1]] for k in range(len(parts) - 1)
    )
    return Points(
        track[order][is_new],
        time[order][is_new],
        _spread(launch, linked, len(work)),
        call_start,
        call_end,
        begin,
        end,
        _spread(at_first, first, len(hands.thread)),
        _spread(at_last, last, len(hands.thread)),
        np.stack([_or_none(step_start, len(every)), _or_none(step_end, len(every))]),
    )


def _spread(values: Int64s, places: NDArray[np.integer], size: int) -> Int64s:
    return scattered(size, places, values, np.int64)


def _or_none(values: Int64s, size: int) -> Int64s:
    return values if len(values) == size else np.full(size, NONE, np.int64)
