"""What the device work would take on other devices: a range, as how near it comes to their limits is not known."""

from __future__ import annotations

from typing import Annotated, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Floats
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.busy import no_work_note
from kinetoscope.model.device.peaks import PEAKS, PRECISIONS, Peak, known_peaks
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.roofline.floors import LINKS, Floors, floors, shortest_kernels
from kinetoscope.model.steps.scope import scope, unclipped
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, RatioOf, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("product", pl.String, "The device, by its product."),
    Column("device_time", pl.Int64, "Durations of the selected device work, as recorded.", "ns"),
    Column("expected_time", pl.Int64, "An estimate of it on that device, at the efficiency as recorded.", "ns"),
    Column("speedup", pl.Float64, "Device_time / expected_time."),
    Column("least_speedup", pl.Float64, "Device_time / longest_time."),
    Column("most_speedup", pl.Float64, "Device_time / shortest_time."),
    Column("shortest_time", pl.Int64, "It on that device, if its libraries come nearer to the limits there.", "ns"),
    Column("longest_time", pl.Int64, "It on that device, if they come less near.", "ns"),
    Column("floor", pl.Int64, "Floors of the work on that device.", "ns"),
    Column("scaled_time", pl.Int64, "Of device_time, that of work with floors on both devices; other is kept.", "ns"),
    Column("lacks", pl.String, "Precisions that the work needs and the device does not have: nothing is expected."),
    Column("source", pl.String, "Where its peaks are from."),
    across={
        "key": "product",
        "agreed": "lacks source",
        "sum": "device_time expected_time shortest_time longest_time floor scaled_time",
        RatioOf("device_time", "expected_time"): "speedup",
        RatioOf("device_time", "longest_time"): "least_speedup",
        RatioOf("device_time", "shortest_time"): "most_speedup",
    },
)

_OF_LINKS: Final = {"none": ("memory",), "host": ("host_link",), "device": ("link", "host_link"), "network": ()}
"""What bytes pass, and the peaks of it; of several the first that a device has."""

EFFICIENCY_RATIO: Final = 1.6
"""Ratio of the efficiencies of the same work on two devices at most: of ten measured speedups between an H100 and an
MI300X the one farthest from the expected one is 1.52 times off (0.71 where 1.08 was expected)."""

_ESTIMATE: Final = Note(
    "ESTIMATES",
    "These are estimates: how near work comes to the limits of a device depends on its libraries. The range supposes"
    " that this differs between two devices no more than between an H100 and an MI300X.",
)


def other_devices(
    trace: Trace,
    select: Selection,
    *,
    product: Annotated[str, Param("Only products whose name has this text.")] = "",
) -> Partial:
    """How long would the device work take on another device?

    Method. Of each call the floor on the recorded device and on the other one are computed (see `roofline`), neither
    less than the recorded device's shortest kernels. Expected is its time × the ratio of the two: the call comes as
    near to the limits of the other device as it came to those of this one. Work without a floor on both keeps its time.
    How near it comes is a matter of libraries and does not carry over: of ten measured speedups between an H100 and an
    MI300X one was 1.52 times off. So the shortest time is expected / 1.6, though no less than the floor, and the
    longest expected × 1.6.

    How to read it. Compare devices by the range: where it holds 1, nothing tells which of the two is faster. Five
    programs that were measured on both an H100 and an MI300X lie within it in both directions; four of them gained less
    from the larger datasheet than expected. What is bound by memory gains from bandwidth alone, what is bound by
    latency from nothing. A device that lacks a precision cannot run the program as it is.

    Limits. An estimate: libraries, clocks and caches differ. `kinetoscope diff` of runs on both says what is true. It
    is the time of device work, not of a step: where the host or other ranks set the pace, a faster device waits.
    Whether the memory suffices is for you to see: see `memory_peak`.
    """
    work, view = device_work(trace), scope(trace, select)
    if not len(work):
        return Partial(RESULT.per_rank.empty(), (no_work_note(view),))
    every = floors(trace)
    chosen = every.among(unclipped(view).device_work_mask)
    known = {number: known_peaks(trace, number) for number in np.unique(work.device[every.longest[chosen]]).tolist()}
    used = next((lookup.peak for lookup in known.values() if lookup.peak is not None), None)
    if used is None or len({lookup.peak and lookup.peak.product for lookup in known.values()}) > 1:
        return Partial(RESULT.per_rank.empty(), tuple(dict.fromkeys(lookup.note for lookup in known.values())))
    latency = shortest_kernels(trace)[every.longest]
    wanted = product.lower()
    others = [peak for peak in PEAKS if wanted in peak.product.lower() and "memory" in peak.rates]
    rows = [_row(every, chosen, latency, used, peak) for peak in others]
    rows.sort(key=lambda row: (row[2] is None, row[2], row[0]))
    return Partial(RESULT.per_rank.frame(rows), (next(iter(known.values())).note, _ESTIMATE))


ANALYSIS = Analysis(
    "Other devices", other_devices, RESULT, chart=Bars("product", "expected_time"), selection_notes="always"
)


def _row(every: Floors, chosen: Bools, latency: Floats, used: Peak, other: Peak) -> tuple[object, ...]:
    """One row of RESULT."""
    here = np.where(np.isnan(every.floor), np.nan, np.maximum(every.floor, latency))
    floor, lacks = _floors_on(every, chosen, used, other)
    there = np.maximum(floor, latency)
    scaled = chosen & ~np.isnan(here) & ~np.isnan(there) & (here > 0)
    time = every.time.astype(np.float64)
    each = np.where(scaled, time * there / np.where(scaled, here, 1.0), time)
    ratio = 1.0 if other.product == used.product else EFFICIENCY_RATIO
    least = np.minimum(np.fmax(each / ratio, floor), each)
    expected, shortest, longest = (float(part[chosen].sum()) for part in (each, least, ratio * each))
    total = int(every.time[chosen].sum())
    return (
        other.product,
        total,
        None if lacks else round(expected),
        *(None if lacks or not part else total / part for part in (expected, longest, shortest)),
        None if lacks else round(shortest),
        None if lacks else round(longest),
        None if lacks else round(float(floor[scaled].sum())),
        int(every.time[scaled].sum()),
        ", ".join(lacks) or None,
        other.source,
    )


def _floors_on(every: Floors, chosen: Bools, used: Peak, other: Peak) -> tuple[Floats, list[str]]:
    """The floors of all work on another device, NaN where there is none; and the precisions that it lacks."""
    compute, traffic = every.compute.copy(), every.traffic.copy()
    lacks = []
    is_product = every.flop > 0
    compute[~is_product] *= _ratio(used.rates.get("vector_fp32"), other.rates.get("vector_fp32"))
    compute[is_product & (every.precision < 0)] *= _ratio(_fp32(used), _fp32(other))
    for place, precision in enumerate(PRECISIONS):
        mine = is_product & (every.precision == place)
        if (mine & chosen).any() and other.flops(precision) is None:
            lacks.append(precision)
        compute[mine] *= _ratio(used.flops(precision), other.flops(precision))
    for place, link in enumerate(LINKS):
        rates = [next(filter(None, map(peak.rates.get, _OF_LINKS[link])), None) for peak in (used, other)]
        traffic[every.link == place] *= _ratio(*rates) if _OF_LINKS[link] else 1.0
    is_known = ~np.isnan(every.floor) & (~np.isnan(traffic) | (is_product & ~np.isnan(compute)))
    return np.where(is_known, np.fmax(compute, traffic), np.nan), lacks


def _fp32(peak: Peak) -> float | None:
    """The faster of the two ways to multiply matrices in FP32, where nothing tells which it was."""
    return max(filter(None, (peak.flops("fp32"), peak.flops("tf32"))), default=None)


def _ratio(here: float | None, there: float | None) -> float:
    return here / there if here and there else np.nan
