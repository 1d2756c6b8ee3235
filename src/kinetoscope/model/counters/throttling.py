"""Throttling: the clock of a device while it is busy, step by step, against the one that it usually has then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, covered
from kinetoscope.model.counters.device_log import counters_of
from kinetoscope.model.counters.parts import TimeParts, parts
from kinetoscope.model.counters.quantities import KnownCounter, Quantity, limit_of, of_device
from kinetoscope.model.counters.sampled import SampledCounter
from kinetoscope.model.counters.totals import totals
from kinetoscope.model.device.busy import Busy, busy
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import ALL

_USUAL_BUSY_SHARE: Final = 0.95
"""Share of the busy time in which the clock is the usual one or lower: what lasts for a moment is not usual."""

_BITS: Final = {
    0x02: "applications_clocks_setting",
    0x04: "sw_power_cap",
    0x08: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
}
"""Reasons of NVML (`nvmlClocksEventReasons`) for a clock that is not the highest, as nvidia-smi calls them; an idle
device is none."""


@dataclass(frozen=True)
class DeviceClock:
    """The clock of a device in each selected step.

    Attributes:
        device: its number.
        steps: the steps.
        busy: int64 [steps], when any work ran, ns.
        sampled: int64 [steps], the part of it that has a clock, ns.
        clock, least: float64 [steps], mean and least clock while busy, MHz; NaN without a sample.
        usual: the clock that it has or falls below in 95 % of the busy time of the trace, MHz.
        highest: that it may have at most, as a log says, MHz; None where none does.
        power: float64 [steps], mean while busy, W; NaN where it is not known.
        limits: shares of the busy time in which a reason limits the clock, float64 [steps] by the reason's name.
    """

    device: int
    steps: TimeParts
    busy: Int64s
    sampled: Int64s
    clock: Floats
    least: Floats
    usual: float
    highest: float | None
    power: Floats
    limits: dict[str, Floats]

    @property
    def share(self) -> Floats:
        """Clock / usual clock, 1 at most: float64 [steps]."""
        return np.minimum(self.clock / self.usual, 1.0)

    @property
    def lost(self) -> Floats:
        """The time that the lower clock costs at most, ns: float64 [steps], as if all work went with the clock."""
        return np.asarray(self.sampled * (1.0 - self.share), np.float64)


def clocks(view: Scope) -> Iterator[DeviceClock]:
    """The clocks of the devices that have one sampled."""
    every = counters_of(view.trace).series
    whole = {each.device: each for each in busy(scope(view.trace, ALL))}
    for each in busy(view):
        known = of_device(every, each.device, "sm_clock")
        if known and (usual := _usual(known[0], whole.get(each.device, each).all)):
            yield _of_device(view, every, each, known[0], usual)


def _of_device(
    view: Scope, every: Sequence[SampledCounter], device: Busy, clock: KnownCounter, usual: float
) -> DeviceClock:
    steps = parts(view, "step", device.device)
    times, codes = steps.within(device.all)
    total = totals(clock.series, times, codes, len(steps))

    def first(quantity: Quantity) -> Floats:
        known = of_device(every, device.device, quantity)
        values = totals(known[0].series, times, codes, len(steps)).mean * known[0].scale if known else None
        return np.full(len(steps), np.nan) if values is None else values

    highest = first("greatest_sm_clock")
    return DeviceClock(
        device=device.device,
        steps=steps,
        busy=total.duration,
        sampled=total.sampled,
        clock=total.mean * clock.scale,
        least=total.least * clock.scale,
        usual=usual,
        highest=float(np.nanmax(highest)) if (~np.isnan(highest)).any() else None,
        power=first("power"),
        limits={
            name: np.nan_to_num(totals(series, times, codes, len(steps)).mean)
            for name, series in _reasons(every, device.device)
        },
    )


def _usual(clock: KnownCounter, runs: Intervals) -> float | None:
    """The clock below which a device is in nearly all of its busy time, MHz; None where none was sampled then."""
    weight = covered(Intervals(clock.series.start, clock.series.end), runs)
    if not weight.any():
        return None
    order = np.argsort(clock.series.value)
    place = int(np.searchsorted(np.cumsum(weight[order]), _USUAL_BUSY_SHARE * weight.sum()))
    usual = float(clock.series.value[order[min(place, len(order) - 1)]]) * clock.scale
    return usual if usual > 0 else None


def _reasons(every: Sequence[SampledCounter], device: int) -> Iterator[tuple[str, SampledCounter]]:
    """The reasons that limit a clock, each as 1 where it does and 0 where not."""
    for known in of_device(every, device, "clock_reasons"):
        bits = np.where(np.abs(known.series.value) < 1 << 62, known.series.value, 0).astype(np.int64)
        for bit, name in _BITS.items():
            if (bits & bit).any():
                yield name, replace(known.series, value=((bits & bit) > 0).astype(np.float64))
    for series in every:
        name = limit_of(series)
        if series.device == device and name in _BITS.values() and series.value.any():
            yield name, series
