"""The floor of device work: the time that its arithmetic and its traffic would take at the device's peaks.

The floor of a call is the longest of what its products, its other arithmetic, and its traffic to memory or over a link
would take alone: the roofline of Williams, Waterman and Patterson (CACM 52(4), 2009) as a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, get_args

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats, Int8s, Int32s, Int64s
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.algorithms.statistics import nearest_rank
from kinetoscope.model.device.peaks import PRECISIONS
from kinetoscope.model.execution.device_work import DeviceWork
from kinetoscope.model.roofline.calls import CostedCalls, Uncovered, costed_calls
from kinetoscope.model.roofline.charged_work import charged_work
from kinetoscope.model.roofline.precision import FP32, TF32, UNKNOWN_PRECISION, call_precisions
from kinetoscope.model.roofline.rates import peak_rates
from kinetoscope.model.roofline.transfers import Link
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.model.trace.trace import Trace

MAX_LATENCY_NS: Final = 3_000
"""Longest time that a device can need only to begin and end a kernel."""

_SHORTEST_QUANTILE: Final = (1, 100)
"""Quantile of the durations of a device's kernels that counts as its shortest."""

LINKS: Final = get_args(Link)
"""Memory and links that bytes pass."""

_RATES_OF_LINKS: Final = {"none": "memory", "host": "host_link", "device": "link", "network": "network"}

_VECTOR_RATES: Final = ("vector_fp32", "vector_fp64")


class Bound(IntEnum):
    """Limits of a call."""

    COMPUTE = 0
    MEMORY = 1
    LINK = 2
    LATENCY = 3
    """Its floor is shorter than what its kernels need to begin and end."""


BOUNDS: Final = tuple(each.name.lower() for each in Bound)


@dataclass(frozen=True)
class Floors:
    """The device work of a trace in units, each what one call launched or one transfer, and the floor of each.

    Attributes:
        calls: the calls of known cost.
        unit: int32 [work], the unit of each piece of device work.
        share: float64 [work], share of each piece in the time of its unit.
        call: int32 [units], places in `calls`, −1 for work of unknown cost.
        row: int32 [units], row of the operator; of the device work itself where no operator is known.
        longest: int32 [units], place in `charged_work` of the longest piece.
        uncovered: int8 [units], why there is no floor, an `Uncovered`.
        time: int64 [units], durations of the device work, ns.
        pieces: int64 [units], how many pieces of device work.
        precision: int8 [units], what products were computed in, a place in `PRECISIONS`; −1 unknown, or no products.
        flop, vector_flop: float64 [units], operations of products, and all others; NaN unknown.
        bytes: float64 [units], that pass the memory, of a transfer the link; NaN unknown.
        peak: float64 [units], operations a second of products; where there are none, of other arithmetic. NaN unknown.
        link: int8 [units], what the bytes pass, a place in `LINKS`.
        bandwidth: float64 [units], bytes a second that may pass it; NaN unknown.
        compute, traffic: float64 [units], time at those peaks, ns; NaN unknown.
        floor: float64 [units], the longer of the two, ns; NaN where there is none.
        bound: int8 [units], a `Bound`; −1 where there is no floor.
        at_least: bool [units], the floor may be higher, as arguments give a range or a peak is unknown.
        in_cache: bool [units], it can be faster than its floor: the bytes fit into the device's largest cache, or those
            beyond its size would have fitted into the time.
    """

    calls: CostedCalls
    unit: Int32s
    share: Floats
    call: Int32s
    row: Int32s
    longest: Int32s
    uncovered: Int8s
    time: Int64s
    pieces: Int64s
    precision: Int8s
    flop: Floats
    vector_flop: Floats
    bytes: Floats
    peak: Floats
    link: Int8s
    bandwidth: Floats
    compute: Floats
    traffic: Floats
    floor: Floats
    bound: Int8s
    at_least: Bools
    in_cache: Bools

    def __len__(self) -> int:
        return len(self.time)

    @property
    def is_covered(self) -> Bools:
        """True for units with a floor: bool [units]."""
        return ~np.isnan(self.floor)

    @property
    def headroom(self) -> Floats:
        """Time above the floor, ns: float64 [units]; NaN where there is no floor."""
        return np.maximum(self.time - self.floor, 0.0)

    @property
    def is_too_fast(self) -> Bools:
        """Units that are faster than their floors, and no cache explains it: bool [units]."""
        return (self.floor > self.time) & ~self.in_cache

    def among(self, work: Bools) -> Bools:
        """The units whose longest piece is among some of the work (bool [work]): bool [units]."""
        return work[self.longest]


@derived
def floors(trace: Trace, *, on_host: bool = False) -> Floors:
    """The floors of all device work of a trace, or of the operators of a host."""
    costed, charged = costed_calls(trace), charged_work(trace, on_host=on_host)
    work = charged.work
    operator = np.where(work.op >= 0, work.op, work.rows)
    anchor = np.where(charged.call >= 0, np.append(costed.rows, np.int32(-1))[charged.call], operator)
    unit, first = group(anchor, charged.call)
    call, longest = charged.call[first], _longest(work, unit, len(first))
    device = work.device[longest]
    variants = costed.variants

    def of_call(values: Sequence[float | None]) -> Floats:
        return costed.at(call, values)

    flop = of_call([each.flop for each in variants])
    vector_flop = of_call([each.cost.vector_flop for each in variants])
    moved = of_call([each.bytes for each in variants])
    passed = np.nan_to_num(of_call([LINKS.index(each.link) for each in variants])).astype(np.int64)
    types = [each.type.precision if each.type is not None else "" for each in variants]
    is_double = of_call([each == "fp64" for each in types]) > 0
    precision = np.append(call_precisions(trace), np.int8(UNKNOWN_PRECISION))[call]
    precision[~(flop > 0)] = UNKNOWN_PRECISION
    matrix = peak_rates(trace, device, PRECISIONS, precision)
    vector = peak_rates(trace, device, _VECTOR_RATES, is_double.astype(np.int64))
    bandwidth = peak_rates(trace, device, [_RATES_OF_LINKS[link] for link in LINKS], passed)
    # Where nothing tells whether FP32 was computed in TF32, the faster of the two keeps the floor a floor.
    is_open = (precision < 0) & (flop > 0) & (of_call([each == "fp32" for each in types]) > 0)
    either = [peak_rates(trace, device, PRECISIONS, np.where(is_open, each, -1)) for each in (FP32, TF32)]
    least = of_call([each.least_flop for each in variants])
    products = _time(least, np.where(is_open, np.fmax(*either), matrix))
    compute, traffic = np.fmax(products, _time(vector_flop, vector)), _time(moved, bandwidth)
    is_known = ~np.isnan(traffic) | (products > 0)  # other arithmetic alone tells nothing
    floor = np.where(is_known, np.fmax(compute, traffic), np.nan)
    is_range = of_call([each.cost.is_range for each in variants]) > 0
    pieces, time = np.bincount(unit, minlength=len(first)), sum_by(unit, len(first), work.duration)
    beyond = _time(
        np.maximum(moved - peak_rates(trace, device, ("cache",), np.zeros(len(first), np.int64)), 0), bandwidth
    )
    return Floors(
        calls=costed,
        unit=unit,
        share=np.where(time[unit] > 0, work.duration / np.maximum(time[unit], 1), 1 / pieces[unit]),
        call=call,
        row=np.where((call < 0) | (passed > 0), operator[longest], anchor[first]).astype(np.int32),
        longest=longest,
        uncovered=_reasons(charged.uncovered[first], floor, flop, moved),
        time=time,
        pieces=pieces,
        precision=precision,
        flop=flop,
        vector_flop=vector_flop,
        bytes=moved,
        peak=np.where(flop > 0, matrix, vector),
        link=passed.astype(np.int8),
        bandwidth=bandwidth,
        compute=compute,
        traffic=traffic,
        floor=floor,
        bound=_bounds(
            charged.work,
            shortest_kernels(trace, on_host=on_host)[longest] * pieces,
            longest,
            passed,
            compute,
            traffic,
            floor,
        ),
        at_least=is_known & (is_range | np.isnan(traffic) | np.isnan(products) | is_open),
        in_cache=(passed == 0) & (beyond <= np.where(floor > time, time, 0.0)),
    )


def shortest_kernels(trace: Trace, *, on_host: bool = False) -> Floats:
    """The time that the device of each piece of work needs to begin and end a kernel, ns: float64 [work].

    It is the duration of its shortest kernels, and at most `MAX_LATENCY_NS`.
    """
    work = charged_work(trace, on_host=on_host).work
    codes, first = group(work.device)
    kernels = np.where(work.of(WorkKind.COMPUTATION), codes, np.int32(-1))
    [shortest] = nearest_rank(kernels, len(first), work.duration, _SHORTEST_QUANTILE)
    return np.minimum(shortest, MAX_LATENCY_NS).astype(np.float64)[codes]


def _longest(work: DeviceWork, unit: Int32s, units: int) -> Int32s:
    """The longest piece of device work of each unit, the first of several: int32 [units]."""
    order = np.lexsort((-np.arange(len(work)), work.duration))
    longest = np.empty(units, np.int32)
    longest[unit[order]] = order  # of several writes the last one stays
    return longest


def _time(amount: Floats, rate: Floats) -> Floats:
    """Nanoseconds that an amount takes at a rate a second; nothing takes no time, whatever the rate."""
    return np.where(amount == 0, 0.0, amount / rate * 1e9)


def _reasons(uncovered: Int8s, floor: Floats, flop: Floats, moved: Floats) -> Int8s:
    """Why there is no floor; of known cost because no peak is known, or no type of elements."""
    of_cost = np.where((flop > 0) | ~np.isnan(moved), Uncovered.NO_PEAK, Uncovered.NO_ARGUMENTS)
    without = np.where(uncovered == Uncovered.NOT, of_cost, uncovered)
    return np.where(np.isnan(floor), without, Uncovered.NOT).astype(np.int8)


def _bounds(
    work: DeviceWork, latency: Floats, longest: Int32s, passed: Int64s, compute: Floats, traffic: Floats, floor: Floats
) -> Int8s:
    of_traffic = np.where(passed > 0, Bound.LINK, Bound.MEMORY)
    bound = np.where(np.nan_to_num(compute) > np.nan_to_num(traffic), Bound.COMPUTE, of_traffic)
    is_collective = work.kind[longest] == WorkKind.COMMUNICATION  # their latency is the network's
    is_short = (floor < latency) & ~is_collective
    return np.where(np.isnan(floor), -1, np.where(is_short, Bound.LATENCY, bound)).astype(np.int8)
