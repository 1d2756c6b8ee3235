"""The counters beside the lanes of a timeline: how much is used, queued, moved and held, from moment to moment.

They are the numbers of the analyses of utilization, queue length, memory bandwidth and memory, and the counters that a
file itself holds. Each kind is computed when one of its lanes is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Floats, Int32s, Int64s, marked
from kinetoscope.algorithms.grouping import group_in_order
from kinetoscope.algorithms.intervals.intervals import union
from kinetoscope.algorithms.intervals.sweeps import Levels, count_open, sum_open
from kinetoscope.algorithms.layout.sampling import Sampled, sampled
from kinetoscope.model.device.copies import copies, transfers
from kinetoscope.model.device.queues import queues
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.memory.allocator import memory_instants
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import ALL
from kinetoscope.model.timeline.tracks import track_names
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.counters import counters
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Unit

MAX_COUNTERS: Final = 64
"""Lanes of counters at most."""

_BEFORE_ALL_NS: Final = -(1 << 62)
"""Before all times, ns."""


@dataclass(frozen=True, slots=True)
class Counter:
    """A lane of a counter.

    Attributes:
        id: unique in the trace.
        title: of the lane.
        source: the kind of counter that it is, see `_SOURCES`.
        place: which of those of this kind.
        kind: one of MARK_KINDS, for its colour.
        unit: of its levels.
        max: the greatest level that it can have, if there is one.
    """

    id: str
    title: str
    source: str
    place: int
    kind: str
    unit: Unit
    max: float | None = None


def counter_lanes(trace: Trace) -> tuple[Counter, ...]:
    """The first MAX_COUNTERS counters of a trace, which are shown."""
    return all_counters(trace)[:MAX_COUNTERS]


@derived
def all_counters(trace: Trace) -> tuple[Counter, ...]:
    """The counters that a trace has."""
    every = []
    for source, (titles, _, kind, unit, most) in _SOURCES.items():
        for place, title in enumerate(titles(trace)):
            every.append(Counter(f"{source}.{place}", title, source, place, kind, unit, most))
    return tuple(every)


def counter_curve(trace: Trace, source: str, place: int) -> Sampled:
    """The levels of a counter, over times as the file counts them."""
    return _curves(trace, source)[place]


@derived
def _curves(trace: Trace, source: str) -> tuple[Sampled, ...]:
    return tuple(_SOURCES[source][1](trace))


_KERNELS: Final = (WorkKind.COMPUTATION, WorkKind.COMMUNICATION)


def _devices(trace: Trace) -> list[int]:
    """The devices that have kernels."""
    work = device_work(trace)
    return [int(device) for device in np.unique(work.device[work.of(*_KERNELS)])]


@derived
def device_titles(trace: Trace) -> dict[int, str]:
    """The name of each device: `GPU 0`."""
    work, named = device_work(trace), track_names(trace)
    devices, first = np.unique(work.device, return_index=True)
    tracks = trace.track[work.rows[first]].tolist()
    return {device: named[track].process for device, track in zip(devices.tolist(), tracks, strict=True)}


def _per_device(what: str) -> Callable[[Trace], list[str]]:
    return lambda trace: [f"{device_titles(trace)[device]} · {what}" for device in _devices(trace)]


def _of_curve(curve: Levels, groups: int) -> Iterator[Sampled]:
    """The curves of the groups: 0 before the first point of each."""
    bounds = np.searchsorted(curve.group, np.arange(groups + 1))
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        yield sampled(
            np.concatenate([[_BEFORE_ALL_NS], curve.time[low:high]]).astype(np.int64),
            np.concatenate([[0.0], curve.level[low:high]]),
        )


# --- what devices do


def _kernels(trace: Trace, device: int) -> Int64s:
    """Places in `device_work` of the kernels of a device."""
    work = device_work(trace)
    return np.flatnonzero(work.of(*_KERNELS) & (work.device == device))


def _utilization(trace: Trace) -> Iterator[Sampled]:
    work = device_work(trace)
    for device in _devices(trace):
        kernels = _kernels(trace, device)
        busy = union(work.start[kernels], work.end[kernels])
        yield from _of_curve(count_open(np.zeros(len(busy.start), np.int32), *busy), 1)


@derived
def _blocks(trace: Trace) -> Floats:
    """Blocks per multiprocessor of each piece of device work, NaN if not known."""
    blocks = arguments.floats(trace, "blocks_per_sm", device_work(trace).rows)
    return np.where(blocks >= 0, blocks, np.nan)


def _filling_devices(trace: Trace) -> list[int]:
    """Devices of which it was recorded how many blocks their kernels have."""
    known = ~np.isnan(_blocks(trace))
    return [device for device in _devices(trace) if known[_kernels(trace, device)].any()]


def _filling_titles(trace: Trace) -> list[str]:
    return [f"{device_titles(trace)[device]} · SM efficiency" for device in _filling_devices(trace)]


def _filling(trace: Trace) -> Iterator[Sampled]:
    work = device_work(trace)
    for device in _filling_devices(trace):
        kernels = _kernels(trace, device)
        blocks = np.minimum(np.nan_to_num(_blocks(trace)[kernels]), 1.0)
        curve = sum_open(np.zeros(len(kernels), np.int32), work.start[kernels], work.end[kernels], blocks)
        yield from _of_curve(curve._replace(level=np.minimum(curve.level, 1.0)), 1)


def _queues(trace: Trace) -> Iterator[Sampled]:
    launched, devices = queues(trace, ALL), _devices(trace)
    place = np.searchsorted(devices, launched.device)
    chosen = np.isin(launched.device, devices)[launched.queue]
    of = place[launched.queue][chosen].astype(np.int32)
    yield from _of_curve(count_open(of, launched.start[chosen], launched.end[chosen]), len(devices))


def _copy_titles(trace: Trace) -> list[str]:
    every, work = copies(trace), device_work(trace)
    _, example = group_in_order(work.device[every.work], every.direction)
    return [
        f"{device_titles(trace)[device]} · {every.directions[direction]} bandwidth"
        for device, direction in zip(
            work.device[every.work[example]].tolist(), every.direction[example].tolist(), strict=True
        )
    ]


def _bandwidth(trace: Trace) -> Iterator[Sampled]:
    rates = transfers(scope(trace, ALL))
    return _of_curve(rates.bandwidth, len(rates))


# --- memory


def _memory_devices(trace: Trace) -> list[tuple[int, bool]]:
    """Each device with memory, and then again where it is told how much its allocator holds."""
    instants = memory_instants(trace)
    held = marked(len(instants.devices), instants.device[instants.reserved >= 0])
    return [(each, what) for each in range(len(instants.devices)) for what in (False, True) if held[each] or not what]


def _memory_titles(trace: Trace) -> list[str]:
    instants = memory_instants(trace)
    return [
        f"{instants.device_name(device)} · memory {'reserved' if reserved else 'allocated'}"
        for device, reserved in _memory_devices(trace)
    ]


def _memory(trace: Trace) -> Iterator[Sampled]:
    instants = memory_instants(trace)
    for device, reserved in _memory_devices(trace):
        places = instants.of_device(device)
        levels = (instants.reserved if reserved else instants.allocated)[places].astype(np.float64)
        levels[levels < 0] = np.nan
        before = np.nan if reserved else max(instants.before(int(places[0])), 0)
        yield sampled(
            np.concatenate([[_BEFORE_ALL_NS], instants.time[places]]).astype(np.int64),
            np.concatenate([[before], levels]),
        )


# --- what the file holds


@dataclass(frozen=True)
class _Recorded:
    """The counters of the file: titles, the one of each sample, times and values in order of time."""

    titles: tuple[str, ...]
    code: Int32s
    time: Int64s
    value: Floats


@derived
def _recorded(trace: Trace) -> _Recorded:
    samples = counters(trace)
    code, first = group_in_order(trace.track[samples.rows], trace.name[samples.rows], samples.key)
    names, named = trace.strings, track_names(trace)
    titles = []
    for example in first.tolist():
        row = int(samples.rows[example])
        parts = (
            named[int(trace.track[row])].process,
            names.label(int(trace.name[row])),
            names.label(int(samples.key[example])),
        )
        titles.append(" · ".join(dict.fromkeys(part.strip() for part in parts if part.strip())))
    order = np.argsort(trace.start[samples.rows], kind="stable")
    return _Recorded(tuple(titles), code[order], trace.start[samples.rows][order], samples.value[order])


def _recorded_titles(trace: Trace) -> list[str]:
    return list(_recorded(trace).titles) if (trace.kind == EventKind.COUNTER).any() else []


def _recorded_curves(trace: Trace) -> Iterator[Sampled]:
    recorded = _recorded(trace)
    for each in range(min(len(recorded.titles), MAX_COUNTERS)):
        chosen = recorded.code == each
        yield sampled(
            np.concatenate([[_BEFORE_ALL_NS], recorded.time[chosen]]).astype(np.int64),
            np.concatenate([[np.nan], recorded.value[chosen]]),
        )


_Titles = Callable[[Trace], list[str]]
_Curves = Callable[[Trace], Iterator[Sampled]]
_SOURCES: Final[dict[str, tuple[_Titles, _Curves, str, Unit, float | None]]] = {
    "utilization": (_per_device("utilization"), _utilization, "computation", "fraction", 1.0),
    "sm_efficiency": (_filling_titles, _filling, "computation", "fraction", 1.0),
    "queue": (_per_device("queue"), _queues, "runtime", "", None),
    "bandwidth": (_copy_titles, _bandwidth, "memory", "bytes/s", None),
    "memory": (_memory_titles, _memory, "host", "bytes", None),
    "recorded": (_recorded_titles, _recorded_curves, "host", "", None),
}
"""Of each kind of counter: titles of its lanes, their curves, colour, unit, and the greatest level if it is known."""
