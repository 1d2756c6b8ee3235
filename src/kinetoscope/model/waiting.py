"""Who waits for device work: which calls of the host, and which device work for that of another stream.

Where synchronisation was recorded (`cuda_sync`, which few people switch on), it is taken from there. Else it is
inferred from times: a call that synchronises by its meaning can have waited for a stream only if all that was launched
on the stream before had ended when the call ended; of those streams it waited for the work that ended last, if that
ended while the call ran. Calls that synchronise are those for a stream, an event or the device; copies without `Async`
in their name, those that touch pageable memory (which wait for their own stream only), and freeing of device memory.

Device work waited for that of another stream if it was launched long before, its own stream was idle, and it started
just when the other ended. What follows a call by which a stream waits for an event depends on what was launched last
on another stream, also where it did not have to wait, if the times do not speak against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.joining import match_first
from kinetoscope.algorithms.tree import ancestor
from kinetoscope.model import arguments
from kinetoscope.model.calltree import call_tree
from kinetoscope.model.device import DeviceWork, device_work
from kinetoscope.model.kinds import EventKind, WorkKind
from kinetoscope.model.naming import rows_named
from kinetoscope.model.runtime_calls import WAITS, CallKind, call_kinds
from kinetoscope.model.stream_order import NOTHING, launch_times, stream_order, streams
from kinetoscope.model.trace import Trace

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

_STREAM_SYNC, _EVENT_SYNC, _CONTEXT_SYNC, _STREAM_WAIT = (
    "Stream Sync",
    "Event Sync",
    "Context Sync",
    "Stream Wait Event",
)
_NEVER: Final = np.iinfo(np.int64).min
_DEVICE_WIDE: Final = (CallKind.WAIT_FOR_DEVICE, CallKind.FREE)
NEAR: Final = 20_000
"""ns in which work starts that waited for other work by an event: on our traces 1 to 15 µs."""


@dataclass(frozen=True)
class HostWaits:
    """Calls of the host that synchronise with a device, in order of time.

    Attributes:
        call: int32 [calls], their rows.
        work: int32 [calls], place in `device_work` of what each could not end before; NOTHING if that is not known.
        recorded: bool [calls], whether that was recorded; else it is inferred.
        waited: bool [calls], whether that work ended while the call ran: the call did wait.
        own: int32 [calls], place in `device_work` of the copy that the call queued and waits for; NOTHING for none.
    """

    call: Int32s
    work: Int32s
    recorded: Bools
    waited: Bools
    own: Int32s

    def __len__(self) -> int:
        return len(self.call)


@dataclass(frozen=True)
class StreamWaits:
    """Device work that waited for work of another stream, by an event.

    Attributes:
        work: int32 [waits], place in `device_work` of what waited; on: what it waited for, which ended before.
        recorded: bool [waits], whether that was recorded; else it is inferred.
    """

    work: Int32s
    on: Int32s
    recorded: Bools


# --- the host


def host_waits(trace: Trace, use_recorded: bool = True) -> HostWaits:
    """Find what each synchronising call waited for; with `use_recorded` false as if nothing had been recorded."""
    work, kinds = trace.of(device_work), trace.of(call_kinds)
    own = _own_copies(trace)
    waiting = np.isin(kinds, WAITS) | (own >= 0) | _frees(trace)
    parent = trace.of(call_tree).parent
    around = ancestor(parent, waiting)
    # Drivers record a call in a call: the outer one has waited.
    nested = waiting & (parent >= 0) & (around[parent] >= 0) if len(parent) else waiting
    calls = np.flatnonzero(waiting & ~nested).astype(np.int32)
    calls = calls[np.lexsort((calls, trace.start[calls]))]
    found = np.full(len(calls), NOTHING, np.int32)
    recorded = np.zeros(len(calls), np.bool_)
    if use_recorded:
        found, recorded = _recorded(trace, calls)
    rest = np.flatnonzero(~recorded)
    found[rest] = _inferred(trace, calls[rest], own[calls[rest]])
    waited = (found >= 0) & (work.end[found] > trace.start[calls]) if len(work) else found >= 0
    return HostWaits(calls, found, recorded, waited, own[calls])


def other_streams(trace: Trace, waits: HostWaits) -> tuple[Int64s, Int32s]:
    """What calls that wait for a device also waited for: places in `waits`, and in `device_work` of the last work on
    each of the device's other streams.
    """
    calls, work = waits.call, trace.of(device_work)
    wide = np.isin(trace.of(call_kinds)[calls], _DEVICE_WIDE) & (waits.work >= 0)
    places, others = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for stream in trace.of(streams) if wide.any() else ():
        count = stream.launched_until(trace.start[calls])
        last = np.maximum(count - 1, 0)
        also = wide & (count > 0) & (stream.reach[last] <= trace.end[calls])
        also &= (work.device[waits.work] == stream.device) & (work.stream[waits.work] != stream.stream)
        places.append(np.flatnonzero(also))
        others.append(stream.latest[last[also]])
    return np.concatenate(places), np.concatenate(others)


def _own_copies(trace: Trace) -> Int32s:
    """The copy that each call queued, for calls that wait for it: int32 [events], NOTHING for all others."""
    work = trace.of(device_work)
    copies = np.flatnonzero((work.kind == WorkKind.MEMCPY) & (work.launch >= 0))
    pageable = rows_named(trace, lambda name: "ageable" in name, EventKind.MEMCPY, holding=("ageable",))
    waits = rows_named(trace, lambda name: "MemcpyWithStream" in name, EventKind.RUNTIME, holding=("MemcpyWithStream",))
    call = work.launch[copies]
    queued = trace.of(call_kinds)[call] == CallKind.COPY
    waiting = (trace.of(call_kinds)[call] == CallKind.COPY_AND_WAIT) | (
        queued & (pageable[work.rows[copies]] | waits[call])
    )
    own = np.full(len(trace), NOTHING, np.int32)
    own[call[waiting]] = copies[waiting]
    return own


def _frees(trace: Trace) -> Bools:
    """Calls that free memory of a device at once, for which they first wait until the device is idle."""

    def fits(name: str) -> bool:
        return "Async" not in name and "Host" not in name

    named = rows_named(trace, fits, EventKind.RUNTIME)
    return np.asarray(named & (trace.of(call_kinds) == CallKind.FREE))


def _inferred(trace: Trace, calls: Int32s, own: Int32s) -> Int32s:
    """What each call could not end before: the latest end in the call; else what is sure to have been over."""
    work = trace.of(device_work)
    start, end = trace.start[calls], trace.end[calls]
    found, latest = np.full(len(calls), NOTHING, np.int32), np.full(len(calls), _NEVER)
    if not len(calls) or not len(work):
        return found
    over, launched = found.copy(), latest.copy()
    device_wide = np.isin(trace.of(call_kinds)[calls], _DEVICE_WIDE)
    for stream in trace.of(streams):
        count = stream.launched_until(start)
        last = np.maximum(count - 1, 0)
        possible = (count > 0) & (stream.reach[last] <= end)
        possible &= (own < 0) | ((work.stream[own] == stream.stream) & (work.device[own] == stream.device))
        during = possible & (stream.reach[last] > start)
        better = during & (stream.reach[last] > latest)
        found[better], latest[better] = stream.latest[last[better]], stream.reach[last[better]]
        # Nothing to wait for: a device had finished; the stream meant is likely that of the last launch.
        key = np.where(device_wide, stream.reach[last], stream.launch[last])
        better = possible & ~during & (key > launched)
        over[better], launched[better] = stream.latest[last[better]], key[better]
    return np.where(found >= 0, found, over)


# --- what was recorded


def _sync_rows(trace: Trace, *names: str) -> Int32s:
    wanted = rows_named(trace, names.__contains__, EventKind.DEVICE_SYNC, holding=("Sync", "Wait"))
    return np.flatnonzero(wanted).astype(np.int32)


def _calls_of(trace: Trace, ids: Int64s) -> Int32s:
    """The call of the runtime with each correlation id, NOTHING where there is none."""
    calls = trace.rows(EventKind.RUNTIME)
    place = match_first(ids, arguments.integers(trace, "correlation", calls))
    return np.where((place >= 0) & (ids > 0), calls[place], np.int32(NOTHING)) if len(calls) else place


def _recorded(trace: Trace, calls: Int32s) -> tuple[Int32s, Bools]:
    found, recorded = np.full(len(calls), NOTHING, np.int32), np.zeros(len(calls), np.bool_)
    rows = _sync_rows(trace, _STREAM_SYNC, _EVENT_SYNC, _CONTEXT_SYNC)
    place_of = np.full(len(trace) + 1, NOTHING, np.int32)
    place_of[calls] = np.arange(len(calls))
    place = place_of[_calls_of(trace, arguments.integers(trace, "correlation", rows))]
    rows, place = rows[place >= 0], place[place >= 0]
    record = _calls_of(trace, arguments.integers(trace, "wait_on_record", rows))
    told = (trace.name[rows] != trace.strings.code(_EVENT_SYNC)) | (record >= 0)
    rows, place, record = rows[told], place[told], record[told]
    name = trace.name[rows]
    on_event = name == trace.strings.code(_EVENT_SYNC)
    until = np.where(on_event, trace.start[record], trace.start[calls[place]])
    stream = np.where(
        on_event, arguments.integers(trace, "wait_on_stream", rows), arguments.integers(trace, "stream", rows)
    )
    stream[name == trace.strings.code(_CONTEXT_SYNC)] = NOTHING
    device = arguments.integers(trace, "device", rows)
    recorded[place] = True
    latest = np.full(len(calls), _NEVER)
    for each in trace.of(streams) if len(rows) else ():
        count = np.minimum(
            each.launched_until(until), np.searchsorted(each.reach, trace.end[calls[place]], side="right")
        )
        last = np.maximum(count - 1, 0)
        meant = (count > 0) & ((stream == each.stream) | (stream < 0)) & ((device == each.device) | (device < 0))
        better = meant & (each.reach[last] > latest[place])
        found[place[better]], latest[place[better]] = each.latest[last[better]], each.reach[last[better]]
    return found, recorded


# --- other streams


def stream_waits(trace: Trace, use_recorded: bool = True) -> StreamWaits:
    """Find the device work that waited for an event; with `use_recorded` false as if nothing had been recorded."""
    calls = np.flatnonzero(trace.of(call_kinds) == CallKind.STREAM_WAITS).astype(np.int32)
    told = calls[:0]
    pairs: list[Pairs] = []
    if use_recorded:
        told, found = _recorded_stream_waits(trace)
        pairs.append(found)
    pairs += [_coincidences(trace), _after_wait_calls(trace, calls[~np.isin(calls, told)])]
    waiting, on = (np.concatenate(part).astype(np.int32) for part in zip(*pairs, strict=True))
    _, first = np.unique(waiting.astype(np.int64) * len(trace) + on, return_index=True)
    recorded = first < len(pairs[0][0]) if use_recorded else np.zeros(len(first), np.bool_)
    return StreamWaits(waiting[first], on[first], recorded)


Pairs = tuple[Int32s, Int32s]
"""Places in `device_work`: what waited, and what for."""


def _recorded_stream_waits(trace: Trace) -> tuple[Int32s, Pairs]:
    """The calls of which it was recorded what waits for what, and the pairs."""
    work = trace.of(device_work)
    rows = _sync_rows(trace, _STREAM_WAIT)
    call = _calls_of(trace, arguments.integers(trace, "correlation", rows))
    record = _calls_of(trace, arguments.integers(trace, "wait_on_record", rows))
    rows, call, record = (part[(call >= 0) & (record >= 0)] for part in (rows, call, record))
    waits, waited = arguments.integers(trace, "stream", rows), arguments.integers(trace, "wait_on_stream", rows)
    device = arguments.integers(trace, "device", rows)
    waiting, on = np.full(len(rows), NOTHING, np.int32), np.full(len(rows), NOTHING, np.int32)
    for stream in trace.of(streams) if len(rows) else ():
        here = (device == stream.device) | (device < 0)
        following = np.searchsorted(stream.launch, trace.start[call])
        there = here & (waits == stream.stream) & (following < len(stream.place))
        waiting[there] = stream.place[following[there]]
        count = stream.launched_until(trace.start[record])
        there = here & (waited == stream.stream) & (count > 0)
        on[there] = stream.latest[count[there] - 1]
    both = (waiting >= 0) & (on >= 0)
    both[both] = work.end[on[both]] <= work.start[waiting[both]]
    return call, (waiting[both], on[both])


def _ready(trace: Trace) -> Int64s:
    """When each piece of device work was launched, and what was before it on its stream had ended: int64 [work]."""
    before = trace.of(stream_order).before
    return np.maximum(np.where(before >= 0, trace.of(device_work).end[before], _NEVER), trace.of(launch_times))


def _coincidences(trace: Trace) -> Pairs:
    """Work that had been ready for long and started just when work of another stream ended, launched before it."""
    work, launch, on = trace.of(device_work), trace.of(launch_times), trace.of(stream_order).elsewhere
    places = np.flatnonzero((on >= 0) & (work.launch >= 0)).astype(np.int32)
    on, ready = on[places], _ready(trace)[places] if len(places) else launch[:0]
    start = work.start[places]
    fits = (start - ready > NEAR) & (start - work.end[on] <= NEAR) & (work.end[on] > ready)
    fits &= launch[on] <= launch[places]
    return places[fits], on[fits]


def _after_wait_calls(trace: Trace, calls: Int32s) -> Pairs:
    work = trace.of(device_work)
    waiting = _launched_next(trace, calls)
    calls, waiting = calls[waiting >= 0], waiting[waiting >= 0]
    on, launched = np.full(len(calls), NOTHING, np.int32), np.full(len(calls), _NEVER)
    if not len(calls):
        return waiting, on
    start, ready = work.start[waiting], _ready(trace)[waiting]
    for stream in trace.of(streams):
        count = stream.launched_until(trace.start[calls])
        last = np.maximum(count - 1, 0)
        end = stream.reach[last]
        fits = (count > 0) & (work.device[waiting] == stream.device) & (work.stream[waiting] != stream.stream)
        fits &= (end <= ready) | ((end <= start) & (start - end <= NEAR))
        fits &= stream.launch[last] > launched
        on[fits], launched[fits] = stream.latest[last[fits]], stream.launch[last[fits]]
    return waiting[on >= 0], on[on >= 0]


def _launched_next(trace: Trace, calls: Int32s) -> Int32s:
    """The work that is launched next on the thread of each call, NOTHING if there is none."""
    work, launch = trace.of(device_work), trace.of(launch_times)
    found = np.full(len(calls), NOTHING, np.int32)
    for track, linked in _by_track(trace, work):
        here = np.flatnonzero(trace.track[calls] == track)
        following = np.searchsorted(launch[linked], trace.start[calls[here]])
        there = following < len(linked)
        found[here[there]] = linked[following[there]]
    return found


def _by_track(trace: Trace, work: DeviceWork) -> Iterator[tuple[int, Int32s]]:
    """Each thread that launches, and the work that it launched in order of launch."""
    linked = np.flatnonzero(work.launch >= 0).astype(np.int32)
    track = trace.track[work.launch[linked]]
    order = np.lexsort((work.rows[linked], work.start[linked], trace.start[work.launch[linked]], track))
    linked, track = linked[order], track[order]
    bounds = np.flatnonzero(np.diff(track)) + 1
    for part in np.split(np.arange(len(linked)), bounds):
        if len(part):
            yield int(track[part[0]]), linked[part]
