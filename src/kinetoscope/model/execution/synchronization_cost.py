"""What it costs that the host waits for a device: the time in which the device then has nothing to do."""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.execution.streams import NOTHING, launch_times
from kinetoscope.model.execution.synchronization import host_waits
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

_NEVER: Final = np.iinfo(np.int64).min


@derived
def idle_after(trace: Trace) -> Int64s:
    """Idle time of a device that follows from each call of `host_waits`, ns: int64 [calls].

    What is launched next after a call would have come sooner by the call's own time, and with it the end of the idle
    time before it. Several calls before one launch share what there is, the first ones first.
    """
    waits, work, launch = host_waits(trace), device_work(trace), launch_times(trace)
    idle = np.zeros(len(waits), np.int64)
    start, end = trace.start[waits.call], np.maximum(trace.end[waits.call], trace.start[waits.call])
    meant = np.where(waits.work >= 0, work.device[waits.work], NOTHING) if len(work) else np.empty(0, np.int64)
    for device in np.unique(work.device).tolist() if len(waits) else ():
        here = np.flatnonzero((work.device == device) & (work.launch >= 0))
        here = here[np.lexsort((work.start[here], launch[here]))]
        calls = np.flatnonzero((meant == device) | (meant == NOTHING))
        following = np.searchsorted(launch[here], end[calls])
        calls, following = calls[following < len(here)], here[following[following < len(here)]]
        order = np.argsort(following, kind="stable")  # calls of several threads do not end as they begin
        calls, following = calls[order], following[order]
        busy_until = _busy_until(work, device)[following]
        room = np.maximum(work.start[following] - np.maximum(busy_until, start[calls]), 0)
        idle[calls] = np.maximum(idle[calls], _shared(following, room, end[calls] - start[calls]))
    return idle


def _busy_until(work: DeviceWork, device: int) -> Int64s:
    """The latest end of what started on the device before each piece of its work: int64 [work]."""
    order = np.flatnonzero(work.device == device)
    order = order[np.argsort(work.start[order], kind="stable")]
    until = np.full(len(work), _NEVER)
    until[order[1:]] = np.maximum.accumulate(work.end[order])[:-1]
    return until


def _shared(key: Int64s, room: Int64s, wanted: Int64s) -> Int64s:
    """What each gets of the room of the first of its run of equal keys, in order."""
    if not len(key):
        return wanted
    first = np.concatenate([[True], key[1:] != key[:-1]])
    begin = np.maximum.accumulate(np.where(first, np.arange(len(key)), 0))
    total = np.cumsum(wanted)
    before = total - wanted - (total - wanted)[begin]
    return np.minimum(before + wanted, room[begin]) - np.minimum(before, room[begin])
