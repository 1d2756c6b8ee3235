"""What the host does in each of its calls: one classification for idle time, steps, stragglers and the comparison."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int8s
from kinetoscope.model.execution.marks import is_asynchronous, is_data_loading, is_mark
from kinetoscope.model.execution.runtime_calls import SYNCHRONIZING_CALLS, RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace


class HostActivity(IntEnum):
    """What the host does in a call. Each analysis gives its own names and priorities to them."""

    DATA_LOADING = 0
    SYNCHRONIZATION = 1
    """A call of the runtime that waits for a device by its meaning (`runtime_calls.WAITS`)."""
    ALLOCATION = 2
    """A call of the runtime that takes memory from a driver, or gives it back."""
    RUNTIME_CALL = 3
    """Another call of the device's runtime or driver."""
    COMMUNICATION = 4
    """A collective of gloo, which runs on the host."""
    OPERATOR = 5
    PYTHON = 6
    ANNOTATION = 7
    """A range that the user or a library named."""
    NONE = 8
    """A mark around calls, or no call of the host."""


RUNTIME_ACTIVITIES: Final = (HostActivity.SYNCHRONIZATION, HostActivity.ALLOCATION, HostActivity.RUNTIME_CALL)

_OF_KIND: Final = {
    EventKind.RUNTIME: HostActivity.RUNTIME_CALL,
    EventKind.HOST_OP: HostActivity.OPERATOR,
    EventKind.PYTHON: HostActivity.PYTHON,
    EventKind.ANNOTATION: HostActivity.ANNOTATION,
}


@derived
def host_activities(trace: Trace) -> Int8s:
    """The `HostActivity` of each event: int8 [events]."""
    of_kind = np.array([_OF_KIND.get(kind, HostActivity.NONE) for kind in EventKind], np.int8)
    activity = of_kind[trace.kind]
    calls = runtime_call_kinds(trace)
    activity[is_mark(trace)] = HostActivity.NONE
    activity[np.isin(calls, (RuntimeCallKind.ALLOCATE, RuntimeCallKind.FREE))] = HostActivity.ALLOCATION
    activity[np.isin(calls, SYNCHRONIZING_CALLS)] = HostActivity.SYNCHRONIZATION
    activity[is_data_loading(trace)] = HostActivity.DATA_LOADING
    activity[is_asynchronous(trace)] = HostActivity.COMMUNICATION
    return activity
