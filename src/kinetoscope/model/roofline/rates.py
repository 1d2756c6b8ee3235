"""Device time of the counted calls, and the peak of their devices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats, Int8s, Int32s, Int64s
from kinetoscope.algorithms.grouping import sum_by
from kinetoscope.model.device.hardware import devices
from kinetoscope.model.device.peaks import PRECISIONS, Lookup, peak_of
from kinetoscope.model.roofline.calls import CostedCalls, costed_calls
from kinetoscope.model.roofline.precision import FP32, longest_kernels, precisions
from kinetoscope.model.steps.scope import Scope, unclipped
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace


@dataclass(frozen=True)
class FlopRates:
    """The selected calls that are counted, in file order.

    Attributes:
        counts: all counted calls of the trace.
        place: int64 [calls], which of those they are.
        flop: float64 [calls], floating-point operations of each.
        precision: int8 [calls], places in `device_peaks.PRECISIONS`, −1 where unknown.
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


def flop_rates(view: Scope, peak: float | None) -> FlopRates:
    """The counted calls that start in the selection, each with all of its device work on the selected devices.

    peak: operations a second to take for the peak of every device and precision; None: what is known of the device.
    """
    trace, work = view.trace, view.device_work
    counts = costed_calls(trace)
    chosen = unclipped(view).device_work_mask
    time = np.where(chosen, work.duration, 0)
    device_time = sum_by(np.where(chosen, counts.call, -1).astype(np.int32), len(counts), time)
    ran = np.zeros(len(counts), np.bool_)
    ran[counts.call[chosen & (counts.call >= 0)]] = True
    selected = counts.is_product & view.host_mask[counts.rows]
    if view.select.devices is not None or view.select.streams is not None:
        selected &= ran
    longest = longest_kernels(counts, work)
    device = np.where(longest >= 0, work.device[longest], -1) if len(work) else np.full(len(counts), -1, np.int64)
    amd = any("AMD" in each.name for each in devices(trace))
    precision = _without_tf32(trace, counts, device, precisions(trace, counts, amd=amd))
    place = np.flatnonzero(selected)
    return FlopRates(
        counts=counts,
        place=place,
        flop=counts.flop[place],
        precision=precision[place],
        ran=ran[place],
        device=device[place],
        device_time=device_time[place],
        peak=_peaks(trace, device[place], precision[place], peak),
        devices=len(np.unique(device[place][ran[place] & (device[place] >= 0)])),
        work=chosen,
    )


@derived
def lookups(trace: Trace) -> dict[int, Lookup]:
    """The peak of each device that the file describes, by its number."""
    return {device.number: peak_of(device) for device in devices(trace)}


def known_peaks(trace: Trace, number: int) -> Lookup:
    """The peak of a device; where the file describes only others that are alike, theirs."""
    known = lookups(trace)
    if number in known:
        return known[number]
    if known and len({lookup.peak and lookup.peak.product for lookup in known.values()}) == 1:
        return next(iter(known.values()))
    return Lookup(None, "the file does not describe the device")


def _peaks(trace: Trace, device: Int64s, precision: Int8s, peak: float | None) -> Floats:
    if peak is not None:
        return np.full(len(device), peak)
    result = np.full(len(device), np.nan)
    for number in np.unique(device[device >= 0]).tolist():
        known = known_peaks(trace, number).peak
        for code in np.unique(precision[(device == number) & (precision >= 0)]).tolist():
            flops = None if known is None else known.flops(PRECISIONS[code])
            result[(device == number) & (precision == code)] = np.nan if flops is None else flops
    return result


def _without_tf32(trace: Trace, counts: CostedCalls, device: Int64s, precision: Int8s) -> Int8s:
    """On a device that has no TF32, FP32 is FP32 whatever the names of its kernels leave open."""
    is_fp32 = [each.type is not None and each.type.precision == "fp32" for each in counts.variants]
    may_be = np.array(is_fp32, np.bool_)[counts.variant] if is_fp32 else np.zeros(0, np.bool_)
    result = precision.copy()
    for number in np.unique(device[device >= 0]).tolist():
        known = known_peaks(trace, number).peak
        if known is not None and known.flops("tf32") is None:
            result[(device == number) & may_be] = FP32
    return result
