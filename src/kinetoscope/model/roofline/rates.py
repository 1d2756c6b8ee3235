"""Device time of the counted calls, and the peak of their devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Bools, Floats, Int8s, Int32s, Int64s, marked
from kinetoscope.algorithms.grouping import sum_by
from kinetoscope.model.device.peaks import PRECISIONS, known_peaks
from kinetoscope.model.roofline.calls import CostedCalls, costed_calls
from kinetoscope.model.roofline.precision import call_precisions, longest_kernels
from kinetoscope.model.steps.scope import Scope, unclipped
from kinetoscope.model.trace.trace import Trace


@dataclass(frozen=True)
class FlopRates:
    """The selected calls that are counted, in file order.

    Attributes:
        counts: all counted calls of the trace.
        place: int64 [calls], which of those they are.
        flop: float64 [calls], floating-point operations of each.
        precision: int8 [calls], places in `peaks.PRECISIONS`, −1 where unknown.
        ran: bool [calls], of which device work was recorded.
        device: int64 [calls], where its longest kernel ran; −1 for none.
        device_time: int64 [calls], durations of the device work launched in it, ns.
        peak: float64 [calls], operations a second of its device in its precision; NaN where that is not known.
        devices: how many devices they ran on.
        work: bool [work], the selected device work, whenever it ran.
    """

    counts: CostedCalls
    place: Int64s
    flop: Floats
    precision: Int8s
    ran: Bools
    device: Int64s
    device_time: Int64s
    peak: Floats
    devices: int
    work: Bools

    def __len__(self) -> int:
        return len(self.place)

    @property
    def rows(self) -> Int32s:
        """Their rows: int32 [calls]."""
        return self.counts.rows[self.place]

    @property
    def variant(self) -> Int32s:
        """Places in the variants of `counts`: int32 [calls]."""
        return self.counts.variant[self.place]

    @property
    def ideal(self) -> Floats:
        """The time that each would take at the peak, ns: float64 [calls]; 0 for those that did not run on a device."""
        return np.where(self.ran & (self.flop > 0), self.flop / self.peak * 1e9, 0.0)


def flop_rates(view: Scope) -> FlopRates:
    """The counted calls that start in the selection, each with all of its device work on the selected devices."""
    trace, work = view.trace, view.device_work
    counts = costed_calls(trace)
    chosen = unclipped(view).device_work_mask
    time = np.where(chosen, work.duration, 0)
    device_time = sum_by(np.where(chosen, counts.call, -1).astype(np.int32), len(counts), time)
    ran = marked(len(counts), counts.call[chosen & (counts.call >= 0)])
    selected = counts.is_product & view.host_mask[counts.rows]
    if view.select.devices is not None or view.select.streams is not None:
        selected &= ran
    longest = longest_kernels(counts, work)
    device = np.where(longest >= 0, work.device[longest], -1) if len(work) else np.full(len(counts), -1, np.int64)
    precision = call_precisions(trace)
    place = np.flatnonzero(selected)
    return FlopRates(
        counts=counts,
        place=place,
        flop=counts.flop[place],
        precision=precision[place],
        ran=ran[place],
        device=device[place],
        device_time=device_time[place],
        peak=peak_rates(trace, device[place], PRECISIONS, precision[place]),
        devices=len(np.unique(device[place][ran[place] & (device[place] >= 0)])),
        work=chosen,
    )


def peak_rates(trace: Trace, device: Int64s, names: Sequence[str], place: NDArray[np.integer[Any]]) -> Floats:
    """The peak of each device (its number, int64 [n]) that stands at a place of `names` (−1: none), NaN unknown."""
    result = np.full(len(device), np.nan)
    for number in np.unique(device).tolist():
        peak = known_peaks(trace, number).peak
        rates = np.array([*(np.nan if peak is None else peak.rates.get(name, np.nan) for name in names), np.nan])
        here = device == number
        result[here] = rates[place[here]]
    return result
