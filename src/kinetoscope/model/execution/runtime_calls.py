"""The kind of each call of a device's runtime or driver, by its name, whatever the vendor.

Correlation ids link launches to their work; names are for calls without recorded work, and for what else calls do:
synchronize, wait for an event, allocate. Copies that block the host are known by their times (`runtime_call_kinds`).
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.work_before import LAUNCH_LATENCY_NS
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.names import codes_of_names, rows_containing
from kinetoscope.model.trace.trace import Trace


class RuntimeCallKind(IntEnum):
    """Kinds of calls of the runtime or driver, by what they do."""

    OTHER = 0
    """Not such a call, or one that asks for attributes and the like."""
    LAUNCH = 1
    GRAPH_LAUNCH = 2
    COPY = 3
    """A copy that is queued."""
    COPY_AND_WAIT = 4
    """A copy that the host waits for: it is a launch and a synchronization in one."""
    SET = 5
    WAIT_FOR_STREAM = 6
    """The host waits for all that was queued on a stream."""
    WAIT_FOR_DEVICE = 7
    WAIT_FOR_EVENT = 8
    STREAM_WAITS = 9
    """A stream, not the host, shall wait for an event."""
    RECORD_EVENT = 10
    QUERY_EVENT = 11
    ALLOCATE = 12
    FREE = 13
    BEGIN_CAPTURE = 14
    """From here on, what is launched on a stream is not run but becomes part of a graph."""
    END_CAPTURE = 15


_PATTERNS: Final[tuple[tuple[RuntimeCallKind, str], ...]] = (
    (RuntimeCallKind.GRAPH_LAUNCH, r"GraphLaunch"),
    (RuntimeCallKind.LAUNCH, r"LaunchKernel|LaunchCooperative|KernelLaunch|ExtLaunch"),
    (RuntimeCallKind.LAUNCH, r"^(?:cu|cuda|hip)Launch(?:Grid|Host)|^runFunction"),
    (RuntimeCallKind.BEGIN_CAPTURE, r"StreamBeginCapture"),
    (RuntimeCallKind.END_CAPTURE, r"StreamEndCapture"),
    (
        RuntimeCallKind.STREAM_WAITS,
        r"StreamWaitEvent|StreamWaitValue|waitOnEvent|EventsWaitWithBarrier|AppendWaitOnEvents",
    ),
    (RuntimeCallKind.RECORD_EVENT, r"EventRecord|recordEvent"),
    (RuntimeCallKind.QUERY_EVENT, r"EventQuery|StreamQuery|EventHostQuery"),
    (RuntimeCallKind.WAIT_FOR_EVENT, r"EventSynchronize|EventHostSynchronize|^urEventWait|^piEventsWait"),
    (
        RuntimeCallKind.WAIT_FOR_STREAM,
        r"StreamSynchronize|synchronizeStream|QueueSynchronize|QueueFinish|ListHostSynchronize",
    ),
    (RuntimeCallKind.WAIT_FOR_DEVICE, r"(?:Device|Ctx|Context|Thread)Synchronize|^synchronize$"),
    (RuntimeCallKind.COPY, r"[mM]emcpy\w*Async|Enqueue(?:USMMemcpy|MemBufferCopy|MemBuffer(?:Read|Write))"),
    (RuntimeCallKind.COPY, r"AppendMemoryCopy|enqueueCommand memcpy"),
    (RuntimeCallKind.COPY_AND_WAIT, r"Memcpy"),
    (RuntimeCallKind.SET, r"Memset|USMFill|AppendMemoryFill"),
    (
        RuntimeCallKind.ALLOCATE,
        r"^(?:cuda|hip)(?:Malloc|HostAlloc|HostMalloc|MemCreate|MemMap)|^zeMemAlloc|^urUSM\w*Alloc",
    ),
    (RuntimeCallKind.ALLOCATE, r"^cuMem(?:Alloc|Create|Map|HostAlloc)"),
    (RuntimeCallKind.FREE, r"^(?:cuda|hip)(?:Free|HostFree|MemUnmap|MemRelease)|^zeMemFree|^urUSMFree"),
    (RuntimeCallKind.FREE, r"^cuMem(?:Free|Unmap|Release|HostFree)"),
)
"""Kinds by pattern; the first match decides. CUDA, HIP, Level Zero and Unified Runtime (XPU), MTIA."""

_NOT_PAGEABLE: Final = ("inned", "Device -> Device", "DtoD")
"""Words in the names of copies that touch no pageable memory."""

TO_HOST: Final = ("DtoH", "DeviceToHost", "DEVICE_TO_HOST")
"""Words of copies to the host."""

_COMPILED: Final = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)

SYNCHRONIZING_CALLS: Final = (
    RuntimeCallKind.COPY_AND_WAIT,
    RuntimeCallKind.WAIT_FOR_STREAM,
    RuntimeCallKind.WAIT_FOR_DEVICE,
    RuntimeCallKind.WAIT_FOR_EVENT,
)
"""Kinds of calls in which the host waits for a device."""


def runtime_call_kind(name: str) -> RuntimeCallKind:
    """The kind of a call of this name."""
    return next((kind for kind, pattern in _COMPILED if pattern.search(name)), RuntimeCallKind.OTHER)


@derived
def runtime_call_kinds(trace: Trace) -> Int8s:
    """The `RuntimeCallKind` of each event, OTHER for what is no call of the runtime: int8 [events].

    A call that queues a copy by its name makes the host wait for it, if the copy touches pageable memory and begins
    before the call is over: what is small the driver takes over at once. Where the trace does not say what memory it
    is (ROCm), if the call lasts longer than a launch takes, and until the copy is over.
    """
    rows = trace.rows(EventKind.RUNTIME)
    result = np.zeros(len(trace), np.int8)
    of_name = np.zeros(len(trace.strings) + 1, np.int8)
    for code in codes_of_names(trace, EventKind.RUNTIME).tolist():
        of_name[code + 1] = runtime_call_kind(trace.strings.label(code))
    result[rows] = of_name[trace.name[rows] + 1]
    result[_blocked(trace, result == RuntimeCallKind.COPY)] = RuntimeCallKind.COPY_AND_WAIT
    return result


def reached_by(trace: Trace, calls: Int32s) -> Int64s:
    """The latest time at which an idle device begins what each call launches, ns: int64 [calls].

    A delay beyond it is not launch latency: the device was not idle, or something held the work.
    """
    waits = runtime_call_kinds(trace)[calls] == RuntimeCallKind.COPY_AND_WAIT
    return np.where(waits, trace.start[calls], np.maximum(trace.end[calls], trace.start[calls])) + LAUNCH_LATENCY_NS


def copies_named(trace: Trace, words: tuple[str, ...]) -> Bools:
    """Copies with one of the words in their names, or in the arguments of a plain `Memcpy`: bool [events].

    The words are parts of kinds of memory and directions: `ageable`, `inned`, `DtoD`.
    """
    named = rows_containing(trace, words, EventKind.MEMCPY)
    rows, holding = trace.rows(EventKind.MEMCPY), np.flatnonzero(trace.strings.holding(words))
    for name in ("source_memory", "destination_memory", "copy_direction"):
        named[rows] |= np.isin(arguments.codes(trace, name, rows), holding)
    return named


def _blocked(trace: Trace, queues: Bools) -> Int32s:
    """Calls that queue a copy and make the host wait for it."""
    work = device_work(trace)
    copies = np.flatnonzero((work.kind == WorkKind.MEMCPY) & (work.launch >= 0))
    copies = copies[queues[work.launch[copies]]]
    call, rows = work.launch[copies], work.rows[copies]
    pageable, known = (copies_named(trace, words)[rows] for words in (("ageable",), _NOT_PAGEABLE))
    begun = pageable & (work.start[copies] < trace.end[call])
    lasting = ~pageable & ~known & (trace.end[call] - trace.start[call] > LAUNCH_LATENCY_NS)
    return call[begun | (lasting & (trace.end[call] >= work.end[copies]))]
