"""Calls of the host that wait for device work, the work they wait for, and the idle time that follows from it.

Where synchronisation was recorded (`cuda_sync`, which few people switch on), it is taken from there. Else it is
inferred from times: a call that synchronises by its meaning can have waited for a stream only if all that was launched
on the stream before had ended when the call ended; of those streams it waited for the work that ended last, if that
ended while the call ran. An event may have been recorded before the last launches: a call that waits for one, and can
have waited for no whole stream, waited for the last work that ended while it ran. Calls that synchronise are those for
a stream, an event or the device; copies that the host waits for (`runtime_call_kinds`; they wait for their own stream
only), and freeing of device memory.

A copy may end after the call that waits for it: the host goes on once the data are staged, and the clocks of host and
device differ by microseconds. As a stream keeps its order, the call has then waited for what the stream had before; and
for a copy to the host itself, without which it has no data, whatever the clocks say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, any_of, scattered
from kinetoscope.algorithms.grouping import match_first
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.execution.call_tree import whole_calls
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.execution.runtime_calls import (
    SYNCHRONIZING_CALLS,
    TO_HOST,
    RuntimeCallKind,
    copies_named,
    runtime_call_kinds,
)
from kinetoscope.model.execution.streams import NO_WORK, launch_times, streams
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.names import rows_containing, rows_named
from kinetoscope.model.trace.trace import Trace

_STREAM_SYNC, _EVENT_SYNC, _CONTEXT_SYNC = "Stream Sync", "Event Sync", "Context Sync"
_NO_STREAM: Final = (1 << 32) - 1
"""CUPTI's number for no stream."""
SHORTEST_WAIT_NS: Final = 20_000
"""A call that ends sooner found its event over."""
_EARLIEST_TIME: Final = np.iinfo(np.int64).min
_DEVICE_WIDE: Final = (RuntimeCallKind.WAIT_FOR_DEVICE, RuntimeCallKind.FREE)


@dataclass(frozen=True)
class HostWaits:
    """Calls of the host that synchronise with a device, in order of time.

    Attributes:
        call: int32 [calls], their rows.
        work: int32 [calls], place in `device_work` of what each could not end before; NO_WORK if that is not known.
        recorded: bool [calls], whether that was recorded; else it is inferred.
        waited: bool [calls], whether that work ended while the call ran: the call did wait.
        own: int32 [calls], place in `device_work` of the copy that the call queued and waits for; NO_WORK for none.
        inside: int32 [inside], rows of further such calls, each inside one of these, with which it waited.
        around: int64 [inside], which of `call` that is.
    """

    call: Int32s
    work: Int32s
    recorded: Bools
    waited: Bools
    own: Int32s
    inside: Int32s
    around: Int64s

    def __len__(self) -> int:
        return len(self.call)


@derived
def host_waits(trace: Trace, use_recorded: bool = True) -> HostWaits:
    """The work that each synchronizing call waited for; with `use_recorded` false as if none had been recorded."""
    work, kinds = device_work(trace), runtime_call_kinds(trace)
    blocking, copies = _own_copies(trace)
    # Freeing memory of a device at once waits until the device is idle.
    frees = (kinds == RuntimeCallKind.FREE) & ~rows_containing(trace, ("Async", "Host"), EventKind.RUNTIME)
    waiting = any_of(kinds, SYNCHRONIZING_CALLS) | frees
    waiting[blocking] = True
    # Drivers record a call in a call: the outer one has waited.
    alone, inside, outer = _apart(trace, waiting)
    order = np.lexsort((alone, trace.start[alone]))
    calls = alone[order]
    around = np.argsort(order)[np.searchsorted(alone, outer)]
    own = scattered(len(trace), blocking, copies, np.int32)[calls]
    awaited = np.full(len(calls), NO_WORK, np.int32)
    recorded = np.zeros(len(calls), np.bool_)
    if use_recorded:
        awaited, recorded = _recorded(trace, calls)
    rest = np.flatnonzero(~recorded)
    awaited[rest] = _inferred(trace, calls[rest], own[rest])
    waited = (awaited >= 0) & (work.end[awaited] > trace.start[calls]) if len(work) else awaited >= 0
    return HostWaits(calls, awaited, recorded, waited, own, inside, around)


def _apart(trace: Trace, waiting: Bools) -> tuple[Int32s, Int32s, Int32s]:
    """Rows of the calls that lie as a whole in no other of them, of those that do, and the outermost around these."""
    rows = np.flatnonzero(waiting).astype(np.int32)
    if not _any_overlap(trace, rows):
        return rows, rows[:0], rows[:0]
    parent = whole_calls(trace).parent
    nearest = ancestor(parent, waiting)
    outer, above = rows.copy(), rows.copy()
    while (above >= 0).any():
        outer = np.where(above >= 0, above, outer)
        above = np.where((above >= 0) & (parent[above] >= 0), nearest[parent[above]], np.int32(NO_WORK))
    return rows[outer == rows], rows[outer != rows], outer[outer != rows]


def _any_overlap(trace: Trace, rows: Int32s) -> bool:
    """True if one of some calls begins before another one of its thread is over."""
    order = rows[np.lexsort((trace.start[rows], trace.track[rows]))]
    same_thread = trace.track[order[1:]] == trace.track[order[:-1]]
    return bool((same_thread & (trace.start[order[1:]] < trace.end[order[:-1]])).any())


def other_streams(trace: Trace, waits: HostWaits) -> tuple[Int64s, Int32s]:
    """Further work that calls for a whole device waited for: the last on each of its other streams.

    Returns:
        int64 [n], places in `waits`, and int32 [n], places in `device_work`.
    """
    calls, work = waits.call, device_work(trace)
    wide = np.isin(runtime_call_kinds(trace)[calls], _DEVICE_WIDE) & (waits.work >= 0)
    places, others = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for stream in streams(trace) if wide.any() else ():
        count = stream.launched_until(trace.start[calls])
        last = np.maximum(count - 1, 0)
        also = wide & (count > 0) & (stream.reach[last] <= trace.end[calls])
        also &= (work.device[waits.work] == stream.device) & (work.stream[waits.work] != stream.stream)
        places.append(np.flatnonzero(also))
        others.append(stream.latest[last[also]])
    return np.concatenate(places), np.concatenate(others)


def _own_copies(trace: Trace) -> tuple[Int32s, Int64s]:
    """Rows of the calls that wait for a copy that they queued, and its place in `device_work`; the last of several."""
    work = device_work(trace)
    copies = np.flatnonzero((work.kind == WorkKind.MEMCPY) & (work.launch >= 0))
    call = work.launch[copies]
    waiting = runtime_call_kinds(trace)[call] == RuntimeCallKind.COPY_AND_WAIT
    return call[waiting], copies[waiting]


def _inferred(trace: Trace, calls: Int32s, own: Int32s) -> Int32s:
    """The work that each call could not end before: the latest end in the call; else the last that was over."""
    work = device_work(trace)
    start, end = trace.start[calls], trace.end[calls]
    awaited, latest = np.full(len(calls), NO_WORK, np.int32), np.full(len(calls), _EARLIEST_TIME)
    if not len(calls) or not len(work):
        return awaited
    over, launched = awaited.copy(), latest.copy()
    device_wide = np.isin(runtime_call_kinds(trace)[calls], _DEVICE_WIDE)
    for stream in streams(trace):
        count = stream.launched_until(start)
        meant = (own < 0) | ((work.stream[own] == stream.stream) & (work.device[own] == stream.device))
        is_late = meant & (own >= 0) & (work.end[own] > end)
        count = np.where(is_late, np.searchsorted(stream.launch, start), count)
        last = np.maximum(count - 1, 0)
        possible = meant & (count > 0) & (stream.reach[last] <= end)
        during = possible & (stream.reach[last] > start)
        better = during & (stream.reach[last] > latest)
        awaited[better], latest[better] = stream.latest[last[better]], stream.reach[last[better]]
        # Nothing to wait for: a device had finished; the stream meant is likely that of the last launch.
        key = np.where(device_wide, stream.reach[last], stream.launch[last])
        better = possible & ~during & (key > launched)
        over[better], launched[better] = stream.latest[last[better]], key[better]
    long = (runtime_call_kinds(trace)[calls] == RuntimeCallKind.WAIT_FOR_EVENT) & (end - start >= SHORTEST_WAIT_NS)
    earlier = np.flatnonzero(long & (awaited < 0))
    for stream in streams(trace) if len(earlier) else ():
        count = np.searchsorted(stream.reach, end[earlier], side="right")
        last = np.maximum(np.minimum(count, stream.launched_until(start[earlier])) - 1, 0)
        better = (count > 0) & (stream.reach[last] > np.maximum(start[earlier], latest[earlier]))
        chosen = earlier[better]
        awaited[chosen], latest[chosen] = stream.latest[last[better]], stream.reach[last[better]]
    to_host = np.isin(own, np.flatnonzero(copies_named(trace, TO_HOST)[work.rows])) & (own >= 0)
    over = np.where(to_host & (work.end[own] > end), own, over)
    return np.where(awaited >= 0, awaited, over)


# --- what was recorded


def sync_rows(trace: Trace, *names: str) -> Int32s:
    """Recorded waits of these names."""
    wanted = rows_named(trace, names.__contains__, EventKind.DEVICE_SYNC, holding=("Sync", "Wait"))
    return np.flatnonzero(wanted).astype(np.int32)


def calls_of(trace: Trace, ids: Int64s) -> Int32s:
    """The call of the runtime with each correlation id, NO_WORK where there is none."""
    calls = trace.rows(EventKind.RUNTIME)
    place = match_first(ids, arguments.integers(trace, "correlation", calls))
    return np.where((place >= 0) & (ids > 0), calls[place], np.int32(NO_WORK)) if len(calls) else place


def _recorded(trace: Trace, calls: Int32s) -> tuple[Int32s, Bools]:
    awaited, recorded = np.full(len(calls), NO_WORK, np.int32), np.zeros(len(calls), np.bool_)
    rows = sync_rows(trace, _STREAM_SYNC, _EVENT_SYNC, _CONTEXT_SYNC)
    if not len(rows):
        return awaited, recorded
    place_of = scattered(len(trace) + 1, calls, np.arange(len(calls)), np.int32)
    place = place_of[calls_of(trace, arguments.integers(trace, "correlation", rows))]
    rows, place = rows[place >= 0], place[place >= 0]
    record = calls_of(trace, arguments.integers(trace, "wait_on_record", rows))
    known = (trace.name[rows] != trace.strings.code(_EVENT_SYNC)) | (record >= 0)
    rows, place, record = rows[known], place[known], record[known]
    name = trace.name[rows]
    on_event = name == trace.strings.code(_EVENT_SYNC)
    until = np.where(on_event, trace.start[record], trace.start[calls[place]])
    stream = np.where(
        on_event, arguments.integers(trace, "wait_on_stream", rows), arguments.integers(trace, "stream", rows)
    )
    stream[(name == trace.strings.code(_CONTEXT_SYNC)) | (stream >= _NO_STREAM)] = NO_WORK
    device = arguments.integers(trace, "device", rows)
    recorded[place] = True
    latest = np.full(len(calls), _EARLIEST_TIME)
    for each in streams(trace):
        count = np.minimum(
            each.launched_until(until), np.searchsorted(each.reach, trace.end[calls[place]], side="right")
        )
        last = np.maximum(count - 1, 0)
        meant = (count > 0) & ((stream == each.stream) | (stream < 0)) & ((device == each.device) | (device < 0))
        better = meant & (each.reach[last] > latest[place])
        awaited[place[better]], latest[place[better]] = each.latest[last[better]], each.reach[last[better]]
    return awaited, recorded


# --- what it costs


@derived
def idle_after(trace: Trace) -> Int64s:
    """Idle time of a device that follows from each call of `host_waits`, ns: int64 [calls].

    Without the call the next launch would have come sooner by the call's duration, and so the end of the idle time
    before it. Several calls before one launch share that idle time, the first ones first.
    """
    waits, work, launch = host_waits(trace), device_work(trace), launch_times(trace)
    idle = np.zeros(len(waits), np.int64)
    start, end = trace.start[waits.call], np.maximum(trace.end[waits.call], trace.start[waits.call])
    meant = np.where(waits.work >= 0, work.device[waits.work], NO_WORK) if len(work) else np.empty(0, np.int64)
    for device in np.unique(work.device).tolist() if len(waits) else ():
        here = np.flatnonzero((work.device == device) & (work.launch >= 0))
        here = here[np.lexsort((work.start[here], launch[here]))]
        calls = np.flatnonzero((meant == device) | (meant == NO_WORK))
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
    until = np.full(len(work), _EARLIEST_TIME)
    until[order[1:]] = np.maximum.accumulate(work.end[order])[:-1]
    return until


def _shared(key: Int64s, room: Int64s, wanted: Int64s) -> Int64s:
    """The share of each in the room of its run of equal keys, in order."""
    if not len(key):
        return wanted
    first = np.concatenate([[True], key[1:] != key[:-1]])
    begin = np.maximum.accumulate(np.where(first, np.arange(len(key)), 0))
    total = np.cumsum(wanted)
    before = total - wanted - (total - wanted)[begin]
    return np.minimum(before + wanted, room[begin]) - np.minimum(before, room[begin])
