"""Device work that waits for work of another stream, by an event.

Where such waits were recorded (`cuda_sync`), they are taken from there. Else they are inferred: work waited for that of
another stream if it was launched long before, its own stream was idle, and it started just when the other ended. What
follows a call by which a stream waits for an event depends on what was launched last on another stream, also where it
did not have to wait, if the times do not speak against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.execution.streams import NO_WORK, launch_times, stream_order, streams
from kinetoscope.model.execution.synchronization import calls_of, sync_rows
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

_STREAM_WAIT: Final = "Stream Wait Event"
_EARLIEST_TIME: Final = np.iinfo(np.int64).min
EVENT_LATENCY_NS: Final = 20_000
"""Latest start of work that waited for an event, after the event: on our traces 1 to 15 µs."""


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


@derived
def stream_waits(trace: Trace, use_recorded: bool = True) -> StreamWaits:
    """Find the device work that waited for an event; with `use_recorded` false as if nothing had been recorded."""
    calls = np.flatnonzero(runtime_call_kinds(trace) == RuntimeCallKind.STREAM_WAITS).astype(np.int32)
    recorded_calls = calls[:0]
    pairs: list[Pairs] = []
    if use_recorded:
        recorded_calls, recorded_pairs = _recorded_stream_waits(trace)
        pairs.append(recorded_pairs)
    pairs += [_coincidences(trace), _after_wait_calls(trace, calls[~np.isin(calls, recorded_calls)])]
    waiting, on = (np.concatenate(part).astype(np.int32) for part in zip(*pairs, strict=True))
    _, first = np.unique(waiting.astype(np.int64) * len(trace) + on, return_index=True)
    recorded = first < len(pairs[0][0]) if use_recorded else np.zeros(len(first), np.bool_)
    return StreamWaits(waiting[first], on[first], recorded)


Pairs = tuple[Int32s, Int32s]
"""Places in `device_work`: what waited, and what for."""


def _recorded_stream_waits(trace: Trace) -> tuple[Int32s, Pairs]:
    """The calls of which it was recorded what waits for what, and the pairs."""
    work = device_work(trace)
    rows = sync_rows(trace, _STREAM_WAIT)
    call = calls_of(trace, arguments.integers(trace, "correlation", rows))
    record = calls_of(trace, arguments.integers(trace, "wait_on_record", rows))
    rows, call, record = (part[(call >= 0) & (record >= 0)] for part in (rows, call, record))
    waits, waited = arguments.integers(trace, "stream", rows), arguments.integers(trace, "wait_on_stream", rows)
    device = arguments.integers(trace, "device", rows)
    waiting, on = np.full(len(rows), NO_WORK, np.int32), np.full(len(rows), NO_WORK, np.int32)
    for stream in streams(trace) if len(rows) else ():
        here = (device == stream.device) | (device < 0)
        following = np.searchsorted(stream.launch, trace.start[call])
        on_stream = here & (waits == stream.stream) & (following < len(stream.place))
        waiting[on_stream] = stream.place[following[on_stream]]
        count = stream.launched_until(trace.start[record])
        on_stream = here & (waited == stream.stream) & (count > 0)
        on[on_stream] = stream.latest[count[on_stream] - 1]
    both = (waiting >= 0) & (on >= 0)
    both[both] = work.end[on[both]] <= work.start[waiting[both]]
    return call, (waiting[both], on[both])


def _ready(trace: Trace) -> Int64s:
    """When each piece of device work was launched, and what was before it on its stream had ended: int64 [work]."""
    before = stream_order(trace).before
    ready: Int64s = np.maximum(
        np.where(before >= 0, device_work(trace).end[before], _EARLIEST_TIME), launch_times(trace)
    )
    return ready


def _coincidences(trace: Trace) -> Pairs:
    """Work that had been ready for long and started just when work of another stream ended, launched before it."""
    work, launch, on = device_work(trace), launch_times(trace), stream_order(trace).elsewhere
    places = np.flatnonzero((on >= 0) & (work.launch >= 0)).astype(np.int32)
    on, ready = on[places], _ready(trace)[places] if len(places) else launch[:0]
    start = work.start[places]
    fits = (start - ready > EVENT_LATENCY_NS) & (start - work.end[on] <= EVENT_LATENCY_NS) & (work.end[on] > ready)
    fits &= launch[on] <= launch[places]
    return places[fits], on[fits]


def _after_wait_calls(trace: Trace, calls: Int32s) -> Pairs:
    work = device_work(trace)
    waiting = _launched_next(trace, calls)
    calls, waiting = calls[waiting >= 0], waiting[waiting >= 0]
    on, launched = np.full(len(calls), NO_WORK, np.int32), np.full(len(calls), _EARLIEST_TIME)
    if not len(calls):
        return waiting, on
    start, ready = work.start[waiting], _ready(trace)[waiting]
    for stream in streams(trace):
        count = stream.launched_until(trace.start[calls])
        last = np.maximum(count - 1, 0)
        end = stream.reach[last]
        fits = (count > 0) & (work.device[waiting] == stream.device) & (work.stream[waiting] != stream.stream)
        fits &= (end <= ready) | ((end <= start) & (start - end <= EVENT_LATENCY_NS))
        fits &= stream.launch[last] > launched
        on[fits], launched[fits] = stream.latest[last[fits]], stream.launch[last[fits]]
    return waiting[on >= 0], on[on >= 0]


def _launched_next(trace: Trace, calls: Int32s) -> Int32s:
    """The work that is launched next on the thread of each call, NO_WORK if there is none."""
    work, launch = device_work(trace), launch_times(trace)
    launched = np.full(len(calls), NO_WORK, np.int32)
    for track, linked in _by_track(trace, work):
        on_track = np.flatnonzero(trace.track[calls] == track)
        following = np.searchsorted(launch[linked], trace.start[calls[on_track]])
        has_next = following < len(linked)
        launched[on_track[has_next]] = linked[following[has_next]]
    return launched


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
