"""Kinds of events, which give the marks of the timeline their colour."""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import UInt8s
from kinetoscope.model.execution.activities import takes_next_batch
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import is_asynchronous, is_data_loading
from kinetoscope.model.execution.runtime_calls import SYNCHRONIZING_CALLS, runtime_call_kinds
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.trace import Trace

MARK_KINDS: Final = (
    "computation",
    "communication",
    "memory",
    "data_loading",
    "runtime",
    "host",
    "annotation",
    "python",
    "waiting",
    "other",
)
"""Kinds of marks. Of two that have the same time in one mark the first counts."""

_OF_EVENT: Final = {
    EventKind.HOST_OP: "host",
    EventKind.ANNOTATION: "annotation",
    EventKind.PYTHON: "python",
    EventKind.RUNTIME: "runtime",
    EventKind.DEVICE_ANNOTATION: "annotation",
    EventKind.DEVICE_SYNC: "waiting",
    EventKind.COUNTER_RANGE: "computation",
}
_OF_WORK: Final = {
    WorkKind.COMPUTATION: "computation",
    WorkKind.COMMUNICATION: "communication",
    WorkKind.MEMCPY: "memory",
    WorkKind.MEMSET: "memory",
}


@derived
def mark_kinds(trace: Trace) -> UInt8s:
    """The kind of each event, a place in MARK_KINDS: uint8 [events]."""
    number = {kind: place for place, kind in enumerate(MARK_KINDS)}
    of_event = np.array([number[_OF_EVENT.get(kind, "other")] for kind in EventKind], np.uint8)
    kinds = of_event[trace.kind]
    kinds[is_data_loading(trace) | takes_next_batch(trace)] = number["data_loading"]
    kinds[is_asynchronous(trace)] = number["communication"]
    kinds[np.isin(runtime_call_kinds(trace), SYNCHRONIZING_CALLS)] = number["waiting"]
    work = device_work(trace)
    of_work = np.array([number[_OF_WORK[kind]] for kind in WorkKind], np.uint8)
    kinds[work.rows] = of_work[work.kind]
    return kinds
