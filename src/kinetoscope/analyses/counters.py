"""Means and integrals of counters that were sampled beside the work, such as power, clocks and traffic."""

from __future__ import annotations

from typing import Annotated, Final

import polars as pl

from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.counters.device_log import counters_of
from kinetoscope.model.counters.parts import By
from kinetoscope.model.counters.quantities import is_level
from kinetoscope.model.counters.rows import counter_rows
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, MeanBy, Param, RatioOf, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("source", pl.String, "Whose counter it is, as the file says, such as GPU 0 Counters."),
    Column("counter", pl.String, "Name of the counter."),
    Column("step", pl.Int64, "Number of the step; null unless by step."),
    Column("kind", pl.String, "computation, communication, copies or idle; null unless by kind."),
    Column("name", pl.String, "The operator that launched the work, or the kernel; null unless by these, or unknown."),
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
    Column("energy", pl.Float64, "Of power: the integral in joules; null for all other counters."),
    across={
        "key": "source counter step kind name unit",
        "sum": "samples duration sampled integral error energy",
        RatioOf("sampled", "duration"): "sampled_share",
        MeanBy("sampled"): "mean",
        "least": "min",
        "greatest": "max",
        "own": "interval busy_mean idle_mean",
    },
)


def counters(
    trace: Trace,
    select: Selection,
    *,
    by: Annotated[
        By,
        Param(
            "A row for each counter; or also for each step, kind of work, step and kind of work, operator that launched"
            " device work, or kernel."
        ),
    ] = "counter",
) -> Partial:
    """How high were power, clocks, traffic and other counters sampled beside the work, and how much energy is that?

    Method. A value holds until the next sample of its counter, but for no longer than an interval (the median distance
    of two samples) where the next one comes later than 1.5 of them: what is between is not sampled, and counts nowhere.
    Mean and integral are over the time of the selection that is sampled: of the steps, on the host where no device
    works. `busy_mean` counts the time in which kernels, copies or sets run on the counter's device.

    With `by="kind"` each instant is charged once: to computation if a computation kernel runs on the counter's device,
    else to communication, else to copies and sets, else to idle; the four sum to the whole. With `by="operator"` or
    `"kernel"` a row has the time in which any selected work of that name runs, whatever else runs then.

    How to read it. The integral of power is `energy`: W over a step is joules a step. A mean that is high while the
    device is idle is what it takes for waiting. `sampled_share` below 1 says that samples are missing.

    Logs of devices that belong to the run (`--device-log`, such as nvidia-smi writes) are joined by time: a line counts
    for the device of its number.

    Limits. A sample is taken as the value from then on. What is shorter than the interval is not seen: the rows of work
    that lasts less have what ran around it, too, and a note says so. `error` bounds the integral if the value does not
    leave, between two samples, the range of both. Some boards average power over up to a second. Where
    `CUDA_VISIBLE_DEVICES` numbers devices anew, those of a log are others.
    """
    every = counters_of(trace)
    levels = [each for each in every.series if is_level(each)]
    if not levels:
        return Partial(RESULT.per_rank.empty(), (_NO_COUNTERS, *every.notes))
    frame, notes = counter_rows(scope(trace, select), levels, by)
    return Partial(frame, (*every.notes, *notes))


ANALYSIS = Analysis("Counters", counters, RESULT)

_NO_COUNTERS: Final = Note(
    "NO_COUNTERS",
    "No counters were recorded beside the work. A log of nvidia-smi with a time in each line, named by --device-log,"
    " has some.",
)
