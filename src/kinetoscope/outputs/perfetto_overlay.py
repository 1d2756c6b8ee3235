"""What is drawn over a trace for Perfetto: which analyses give series, and how their tracks are called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from kinetoscope.analyses import named
from kinetoscope.model.critical_path.path import critical_path as find_path
from kinetoscope.model.execution.call_tree import main_thread
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.job import Job
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.exports.perfetto import CounterSeries, Marked


@dataclass(frozen=True, slots=True)
class Curve:
    """One column of an analysis as counter tracks.

    Attributes:
        analysis: its name; it has the columns `time`, from the first event of the trace on, and `device`.
        column: the value.
        name: of the track, in which columns stand in braces; they tell tracks apart.
        key: the unit that the track names.
        scale: what a value is multiplied by, to be in that unit.
    """

    analysis: str
    column: str
    name: str
    key: str
    scale: float = 1.0


CURVES: Final = (
    Curve("device_utilization_series", "utilization", "utilization", "%", 100),
    Curve("device_utilization_series", "sm_efficiency", "est. SM efficiency", "%", 100),
    Curve("queue_length_series", "length", "queue of stream {stream}", "launches"),
    Curve("memory_bandwidth_series", "bandwidth", "bandwidth {direction}", "GB/s", 1e-9),
    Curve("memory_curve", "allocated", "memory allocated, {device}", "bytes"),
    Curve("memory_curve", "reserved", "memory reserved, {device}", "bytes"),
    Curve("memory_timeline", "size", "memory by use: {use}, {device}", "bytes"),
)

_TIMELINE_POINTS: Final = 10_000
"""Instants of a track of one use of memory."""


def series(job: Job) -> Iterator[CounterSeries]:
    """The tracks of a job of one trace, in the order of `CURVES`."""
    trace = job.engine.trace(job.sources[0])
    others = dict.fromkeys(curve.analysis for curve in CURVES if curve.analysis != "memory_timeline")
    answers = {name: named(name)(job).frame for name in others} | {"memory_timeline": _uses(job)}
    for curve in CURVES:
        yield from _tracks(trace, answers[curve.analysis], curve)


def _uses(job: Job) -> pl.DataFrame:
    """`memory_timeline` of a memory snapshot, with 0 at the instants at which a use has nothing."""
    if not job.sources[0].files("snapshot"):
        return named("memory_timeline").schema.empty()
    rows = named("memory_timeline")(job, points=_TIMELINE_POINTS).frame.filter(pl.col("source") == "snapshot")
    instants, uses = rows.select("device", "time").unique(), rows.select("device", "use").unique()
    whole = instants.join(uses, on="device").join(rows, on=["device", "time", "use"], how="left")
    return whole.with_columns(pl.col("size").fill_null(0)).sort("device", "use", "time")


def critical_path(job: Job) -> Marked:
    """The events on the critical paths of all steps, and an arrow wherever a path goes from one event to another."""
    path = find_path(job.engine.trace(job.sources[0]))
    arrows = np.stack([path.tail, path.head], axis=1)[(path.tail >= 0) & (path.head >= 0) & (path.tail != path.head)]
    rows = np.concatenate([path.row[path.row >= 0], arrows.ravel()])
    return Marked("critical", np.unique(rows), np.unique(arrows, axis=0))


def _tracks(trace: Trace, frame: pl.DataFrame, curve: Curve) -> Iterator[CounterSeries]:
    origin = origin_of_time(trace)
    by = ["device", *(name for name in frame.columns if f"{{{name}}}" in curve.name and name != "device")]
    for labels, rows in frame.drop_nulls("time").group_by(by, maintain_order=True):  # snapshots may have no times
        values = rows[curve.column].cast(pl.Float64).fill_null(float("nan")).to_numpy() * curve.scale
        if not np.isfinite(values).any():
            continue
        times = rows["time"].to_numpy() + origin
        if "duration" in rows.columns:  # buckets: the last one has an end
            times = np.append(times, times[-1] + rows["duration"][-1])
            values = np.append(values, 0.0)
        words = {name: "?" if label is None else label for name, label in zip(by, labels, strict=True)}
        yield CounterSeries(curve.name.format(**words), _track(trace, labels[0]), curve.key, times, values)


def _track(trace: Trace, device: Any) -> int:
    """A track of a device's work; of the host, and where there is no work, that of the main thread."""
    number = device
    if isinstance(device, str):
        last = device.rpartition(":")[2]
        number = int(last) if device != "cpu" and last.isdecimal() else None
    work = device_work(trace)
    there = work.rows[work.device == number] if number is not None else work.rows[:0]
    return int(trace.track[there[0]]) if len(there) else main_thread(trace)
