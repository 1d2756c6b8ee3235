"""Logs of devices that another program wrote beside the job, such as nvidia-smi with `--format=csv -lms 100`.

Their times are local ones without a zone. The zone is the offset from UTC, in quarters of an hour, by which the log has
samples while the trace was recorded; where several fit, UTC is taken if it does, else the nearest to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Floats, Int32s, Int64s
from kinetoscope.errors import InputError
from kinetoscope.model.counters.sampled import SampledCounter, counter_series, of_samples
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note

COMPANION: Final = "device_log"

_QUARTER: Final = 900_000_000_000
_WEST, _EAST = -12 * 4, 14 * 4
"""Zones of the world, in quarters of an hour."""


@dataclass(frozen=True)
class DeviceLog:
    """A log.

    Attributes:
        url: the file.
        program: that wrote it.
        is_utc: its times are since 1970 and need no zone.
        time: int64 [samples], ns since 1970, in the zone of the log.
        device: int32 [samples], the number of the device.
        values: float64 [samples] by the name of the column, with its unit in brackets; NaN where there is none.
    """

    url: str
    program: str
    is_utc: bool
    time: Int64s
    device: Int32s
    values: Mapping[str, Floats]


@dataclass(frozen=True)
class CountersOfTrace:
    """All counters that were sampled in the time of a trace.

    Attributes:
        series: the counters, by the clock of the trace.
        notes: on zones, and on logs that share no time with the trace.
    """

    series: tuple[SampledCounter, ...] = ()
    notes: tuple[Note, ...] = ()


@derived
def counters_of(trace: Trace) -> CountersOfTrace:
    """The counters of a trace, and of the logs that belong to it."""
    series: list[SampledCounter] = [*counter_series(trace)]
    notes: list[Note] = []
    for place in range(len(trace.companions(COMPANION))):
        try:
            log: DeviceLog = trace.companions(COMPANION)[place]
        except InputError as error:
            notes.append(Note("LOG_UNREADABLE", f"{error}.", "warning"))
            continue
        offset, note = _zone(trace, log)
        notes += [note] if note is not None else []
        if offset is not None:
            series += _series(trace, log, offset)
    return CountersOfTrace(tuple(series), tuple(notes))


def _zone(trace: Trace, log: DeviceLog) -> tuple[int | None, Note | None]:
    """What is to be subtracted from the times of a log, ns; None where it has none of the trace's time."""
    timed = trace.start[trace.start > np.iinfo(np.int64).min]
    first, last = (int(each) + trace.base for each in (timed.min(initial=0), trace.end.max(initial=0)))
    name = log.url.rpartition("/")[2]
    offsets = [0] if log.is_utc else [_QUARTER * quarters for quarters in range(_WEST, _EAST + 1)]
    times = np.sort(log.time)
    low = np.searchsorted(times, np.array([first + offset for offset in offsets]), side="left")
    high = np.searchsorted(times, np.array([last + offset for offset in offsets]), side="right")
    fitting = sorted((offset for offset, count in zip(offsets, high - low, strict=True) if count > 0), key=abs)
    if not fitting:
        return None, Note("LOG_APART", f"{name} has no sample of the time of the trace, in no zone.", "warning")
    if log.is_utc:
        return 0, None
    hours = f"{fitting[0] / (4 * _QUARTER):+g} h"
    others = "" if len(fitting) == 1 else f" {len(fitting) - 1} other zones fit, too: it is a guess."
    return fitting[0], Note("LOG_ZONE", f"{name} says no zone; by its samples it is UTC {hours}.{others}")


def _series(trace: Trace, log: DeviceLog, offset: int) -> list[SampledCounter]:
    made = []
    for device in np.unique(log.device).tolist():
        own = log.device == device
        for name, values in log.values.items():
            known = own & ~np.isnan(values)
            if known.any():
                source = f"GPU {device} ({log.program})"
                made.append(of_samples(source, device, name, log.time[known] - offset - trace.base, values[known]))
    return made
