"""Means and integrals of counters that were sampled beside the work, such as power, clocks and traffic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.intervals.intervals import Intervals, difference, intersection, union
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.counters.device_log import logged_counters
from kinetoscope.model.counters.sampled import SampledCounter, counter_series
from kinetoscope.model.device.busy import busy
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, MeanBy, Param, RatioOf, Schema

By = Literal["counter", "step"]

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("source", pl.String, "Whose counter it is, as the file says, such as GPU 0 Counters."),
    Column("counter", pl.String, "Name of the counter."),
    Column("step", pl.Int64, "Number of the step; null unless by step."),
    Column("unit", pl.String, "Its unit, from the brackets behind its name; null where it has none."),
    Column("samples", pl.Int64, "Samples that hold at some time of the selection."),
    Column("interval", pl.Int64, "Median distance of two samples.", "ns"),
    Column("duration", pl.Int64, "Time that is asked about.", "ns"),
    Column("sampled", pl.Int64, "Part of it that has a value.", "ns"),
    Column("sampled_share", pl.Float64, "Sampled / duration.", "fraction"),
    Column("mean", pl.Float64, "Mean over the sampled time, in the counter's unit."),
    Column("min", pl.Float64, "Least value."),
    Column("max", pl.Float64, "Greatest value."),
    Column("busy_mean", pl.Float64, "Mean while work runs on its device; null where that is not known."),
    Column("idle_mean", pl.Float64, "Mean while none runs there; null where that is not known."),
    Column("integral", pl.Float64, "Integral over the sampled time, in its unit times seconds: of W joules."),
    Column("error", pl.Float64, "The most by which it is off, if the value lies between those of two samples."),
    across={
        "key": "source counter step unit",
        "sum": "samples duration sampled integral error",
        RatioOf("sampled", "duration"): "sampled_share",
        MeanBy("sampled"): "mean",
        "least": "min",
        "greatest": "max",
        "own": "interval busy_mean idle_mean",
    },
)

_NS_PER_S: Final = 1e9


def counters(
    trace: Trace,
    select: Selection,
    *,
    by: Annotated[By, Param("A row for each counter, or for each counter and step.")] = "counter",
) -> Partial:
    """How high were power, clocks, traffic and other counters sampled beside the work, and how much energy is that?

    Method. A value holds until the next sample of its counter, but for no longer than an interval (the median distance
    of two samples) where the next one comes later than 1.5 of them: what is between is not sampled, and counts nowhere.
    Mean and integral are over the time of the selection that is sampled: of the steps, on the host where no device
    works. `busy_mean` counts the time in which kernels, copies or sets run on the counter's device.

    How to read it. The integral of power is energy: W over a step is joules a step. A mean that is high while the
    device is idle is what it takes for waiting. `sampled_share` below 1 says that samples are missing.

    Logs of devices that belong to the run (`--device-log`, such as nvidia-smi writes) are joined by time: a line counts
    for the device of its number.

    Limits. A sample is taken as the value from then on. What is shorter than the interval is not seen; `error` bounds
    the integral only if the value does not leave, between two samples, the range of both. Some boards average power
    over up to a second.
    """
    logged = logged_counters(trace)
    series = (*counter_series(trace), *logged.series)
    if not series:
        return Partial(RESULT.per_rank.empty(), (_NO_COUNTERS, *logged.notes))
    view = scope(trace, select)
    of_devices = {each.device: each.all for each in busy(view)}
    rows = [row for each in series for row in _rows(view, each, of_devices, by)]
    unsampled = [row["counter"] for row in rows if row["sampled"] < row["duration"]]
    notes = [Note("NOT_SAMPLED", _UNSAMPLED)] if unsampled else []
    return Partial(RESULT.per_rank.frame([tuple(row.values()) for row in rows]), (*logged.notes, *notes))


_NO_COUNTERS: Final = Note(
    "NO_COUNTERS",
    "No counters were recorded beside the work. A log of nvidia-smi with a time in each line, named by --device-log,"
    " has some.",
)
_UNSAMPLED: Final = "Some counters have no samples for part of the time: means and integrals leave that out."


def _rows(view: Scope, series: SampledCounter, of_devices: dict[int, Intervals], by: By) -> Iterator[dict[str, Any]]:
    steps = view.steps.device
    start, end = view.clipped(steps.start, steps.end)
    if by == "step":
        for number, one, other in zip(view.steps.number.tolist(), start.tolist(), end.tolist(), strict=True):
            yield _row(series, Intervals(np.array([one]), np.array([other])), of_devices, number)
    else:
        yield _row(series, union(start, end), of_devices, None)


def _row(
    series: SampledCounter, times: Intervals, of_devices: dict[int, Intervals], step: int | None
) -> dict[str, Any]:
    sampled, values = series.sampled(times), series.within(times)
    works = intersection(times, of_devices[series.device]) if series.device in of_devices else None
    return {
        "source": series.source,
        "counter": series.name,
        "step": step,
        "unit": series.unit or None,
        "samples": len(values),
        "interval": series.interval,
        "duration": times.length,
        "sampled": sampled,
        "sampled_share": sampled / times.length if times.length else None,
        "mean": _NS_PER_S * series.integral(times) / sampled if sampled else None,
        "min": float(values.min()) if len(values) else None,
        "max": float(values.max()) if len(values) else None,
        "busy_mean": _mean(series, works),
        "idle_mean": _mean(series, difference(union(*times), works) if works is not None else None),
        "integral": series.integral(times),
        "error": series.error(times),
    }


def _mean(series: SampledCounter, times: Intervals | None) -> float | None:
    sampled = series.sampled(times) if times is not None else 0
    return _NS_PER_S * series.integral(times) / sampled if times is not None and sampled else None


ANALYSIS = Analysis("Counters", counters, RESULT)
