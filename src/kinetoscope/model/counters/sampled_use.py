"""The use of a device as counters have sampled it: multiprocessors at work, traffic of its memory."""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Floats, Int32s, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.model.counters.device_log import counters_of
from kinetoscope.model.counters.parts import unions_of_groups
from kinetoscope.model.counters.quantities import KnownCounter, of_device
from kinetoscope.model.counters.totals import totals
from kinetoscope.model.device.peaks import known_peaks
from kinetoscope.model.trace.trace import Trace

_NS_PER_S: Final = 1e9


def sm_active(trace: Trace, device: int, times: Intervals) -> float | None:
    """The mean share of multiprocessors that have work in some times (a union); None where no counter says."""
    known = of_device(counters_of(trace).series, device, "sm_active")
    mean = totals(known[0].series, times).mean[0] * known[0].scale if known else np.nan
    return None if np.isnan(mean) else float(mean)


def dram_traffic(trace: Trace, device: Int64s, times: Intervals, codes: Int32s, groups: int) -> Floats:
    """The traffic of the devices' memory while the work of each group runs, bytes a second: float64 [groups].

    Args:
        trace: the trace.
        device: int64 [work], the device of each piece.
        times: when it runs.
        codes: int32 [work], the group of each; negative for none.
        groups: how many there are.

    Returns NaN for groups in whose time nothing was sampled.
    """
    moved, sampled = np.zeros(groups), np.zeros(groups)
    for number in np.unique(device[codes >= 0]).tolist():
        parts = _rates(trace, number)
        if not parts:
            continue
        own = (codes >= 0) & (device == number)
        united, of = unions_of_groups(Intervals(times.start[own], times.end[own]), codes[own], groups)
        every = [(totals(each.series, united, of, groups), scale) for each, scale in parts]
        moved += np.sum([total.integral * scale for total, scale in every], axis=0)
        sampled += every[0][0].sampled
    return np.asarray(moved * _NS_PER_S / np.where(sampled > 0, sampled, np.nan), np.float64)


def _rates(trace: Trace, device: int) -> list[tuple[KnownCounter, float]]:
    """The counters whose sum is the traffic of a device's memory, and what makes bytes a second of each."""
    every = counters_of(trace).series
    if known := of_device(every, device, "dram_rate", "dram_rate_part"):
        return [(each, each.scale) for each in known[: 1 if known[0].quantity == "dram_rate" else None]]
    known = of_device(every, device, "dram_active", "dram_active_part")
    peak = known_peaks(trace, device).peak
    most = peak.rates.get("memory") if peak is not None else None
    if not known or most is None:
        return []
    return [(each, each.scale * most) for each in known[: 1 if known[0].quantity == "dram_active" else None]]
