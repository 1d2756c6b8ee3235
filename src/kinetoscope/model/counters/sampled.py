"""Counters as series of samples, each with the time for which it holds.

A value holds until the next sample. Where that comes later than 1.5 intervals, the median distance of two samples, what
is between is not sampled: nothing is made up for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.model.trace.counters import counters
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import XPU_METRICS
from kinetoscope.model.trace.trace import Trace

_MISSED_AFTER_INTERVALS: Final = 1.5
"""Intervals after which a sample that is missing is missed."""

_UNIT: Final = re.compile(r"\(([^()]{1,12})\)\s*\Z|\[(?:Throughput |Ratio )?([^\[\]]{1,16})\]\s*\Z")
"""The unit in the brackets behind a name: `Power Draw (W)`, or as Nsight writes it, `SMs Active [Throughput %]`."""

_ON_DEVICE_TRACKS: Final = (XPU_METRICS, "mtia_counters")
"""Categories of counters whose process is the number of the device."""

_DEVICE: Final = re.compile(r"\A(?:GPU|Device|CUDA|HIP)\s*(\d{1,4})\b", re.IGNORECASE)


@dataclass(frozen=True)
class SampledCounter:
    """The samples of a counter.

    Attributes:
        source: whose it is, such as `GPU 0 Counters`.
        device: the number of the device, where the source names one.
        name: what it counts.
        unit: in the brackets behind its name; "" for none.
        start, end: int64 [samples], the time for which each holds, ns; the last one for an interval.
        value: float64 [samples].
        interval: the median distance of two samples, ns; 0 of one.
    """

    source: str
    device: int | None
    name: str
    unit: str
    start: Int64s
    end: Int64s
    value: Floats
    interval: int


@derived
def counter_series(trace: Trace) -> tuple[SampledCounter, ...]:
    """The counters of a trace, by source and name; samples that are no finite number are left out."""
    samples = counters(trace)
    known = ~np.isnan(samples.value)
    rows, value = samples.rows[known], samples.value[known]
    keys = np.stack([trace.track[rows], trace.name[rows], samples.key[known], trace.category[rows]], axis=1)
    used, which = np.unique(keys, axis=0, return_inverse=True)
    series = [
        _series(trace, key, trace.start[rows[chosen]], value[chosen])
        for number, key in enumerate(used.tolist())
        for chosen in (np.flatnonzero(which.ravel() == number),)
    ]
    return tuple(sorted(series, key=lambda each: (each.source, each.name)))


def _series(trace: Trace, key: list[int], time: Int64s, value: Floats) -> SampledCounter:
    track, name, inner, category = key
    said, more = trace.strings.label(name), trace.strings.label(inner)
    title = " · ".join(dict.fromkeys(each for each in (said, more) if each))
    source = _text(trace.tracks.pids[track])
    device = _DEVICE.match(source)
    number = int(device[1]) if device else None
    pid = trace.tracks.pids[track]
    if category >= 0 and trace.strings.label(category) in _ON_DEVICE_TRACKS and isinstance(pid, int):
        source, number = f"Device {pid}", pid
    return of_samples(source, number, title, time, value)


def of_samples(source: str, device: int | None, name: str, time: Int64s, value: Floats) -> SampledCounter:
    """The series of samples.

    Args:
        source: see `SampledCounter`.
        device: its number; None where it is of none.
        name: of the counter, its unit in brackets at the end.
        time: int64 [samples], ns, in any order; of one instant the last sample counts.
        value: float64 [samples].
    """
    order = np.argsort(time, kind="stable")
    time, value = time[order], value[order]
    is_last = np.append(time[1:] > time[:-1], True)
    time, value = time[is_last], value[is_last]
    distance = np.diff(time)
    interval = int(np.median(distance)) if len(distance) else 0
    end = np.append(time[1:], time[-1:] + interval)
    late = np.append(distance > _MISSED_AFTER_INTERVALS * interval, False)
    end[late] = time[late] + interval
    unit = _UNIT.search(name)
    return SampledCounter(source, device, name, (unit[1] or unit[2]) if unit else "", time, end, value, interval)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
