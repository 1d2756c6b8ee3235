"""The rows of counters over the parts of a selection, and the notes on what their sampling leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.model.counters.parts import OF_DEVICES, By, TimeParts, parts, without
from kinetoscope.model.counters.quantities import known_counter
from kinetoscope.model.counters.sampled import SampledCounter
from kinetoscope.model.counters.totals import totals
from kinetoscope.model.device.busy import busy
from kinetoscope.model.steps.scope import Scope
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.text import duration_text, number_of
from kinetoscope.notes import Note


def counter_rows(view: Scope, every: Sequence[SampledCounter], by: By) -> tuple[pl.DataFrame, tuple[Note, ...]]:
    """The rows of some counters, at least one, a row for each part of the selected time, and notes on them."""
    works = {each.device: each.all for each in busy(view)}
    among = {device: parts(view, by, device) for device in {each.device for each in every}}
    frame = pl.concat([_rows(each, among[each.device], works) for each in every])
    notes = [*_unsampled(frame), *_of_no_device(every, by)]
    if by in ("operator", "kernel"):
        notes += _coarse(every, among)
    return frame, tuple(notes)


def _unsampled(frame: pl.DataFrame) -> Iterator[Note]:
    if (frame["sampled"] < frame["duration"]).any():
        yield Note(
            "NOT_SAMPLED",
            "Some counters have no samples for part of the time: means and integrals leave that out.",
        )


def _of_no_device(every: Sequence[SampledCounter], by: By) -> Iterator[Note]:
    count = len({each.name for each in every if each.device is None})
    if by in OF_DEVICES and count:
        yield Note("COUNTERS_OF_NO_DEVICE", f"{number_of(count, 'counter')} of no known device are left out.")


def _coarse(every: Sequence[SampledCounter], among: dict[int | None, TimeParts]) -> Iterator[Note]:
    """The note that samples are further apart than the work that they are charged to lasts."""
    series = max(every, key=lambda each: each.interval if len(among[each.device]) else -1)
    times = among[series.device].times
    length = int(np.median(times.end - times.start)) if len(times.start) else series.interval
    if length < series.interval:
        work, apart = duration_text(length), duration_text(series.interval)
        yield Note(
            "SAMPLED_COARSELY",
            f"Half of the work lasts less than {work}, and the samples of {series.name} are {apart} apart: a value is"
            " that of all that ran about then, and what one operator or kernel takes of it is a guess.",
        )


def _rows(series: SampledCounter, among: TimeParts, works: dict[int, Intervals]) -> pl.DataFrame:
    """The rows of a counter, in the order of the parts; those of names with the longest first."""
    count, known = len(among), known_counter(series)
    total = totals(series, among.times, among.codes, count)
    busy_mean = idle_mean = np.full(count, np.nan)
    if series.device is not None and series.device in works:
        runs = works[series.device]
        busy_mean, idle_mean = (
            totals(series, *among.within(each), count).mean for each in (runs, without(among.times, runs))
        )
    scale = known.scale if known and known.quantity == "power" else np.nan
    frame = pl.DataFrame(
        {
            "source": pl.repeat(series.source, count, dtype=pl.String, eager=True),
            "counter": pl.repeat(series.name, count, dtype=pl.String, eager=True),
            "step": pl.Series(among.step, dtype=pl.Int64),
            "kind": pl.Series(among.kind, dtype=pl.String),
            "name": pl.Series(among.name, dtype=pl.String),
            "unit": pl.repeat(series.unit or None, count, dtype=pl.String, eager=True),
            "samples": total.samples,
            "interval": pl.repeat(series.interval, count, dtype=pl.Int64, eager=True),
            "duration": total.duration,
            "sampled": total.sampled,
            "sampled_share": polars_columns.numbers(_shares(total.sampled, total.duration)),
            "mean": polars_columns.numbers(total.mean),
            "min": polars_columns.numbers(total.least),
            "max": polars_columns.numbers(total.greatest),
            "busy_mean": polars_columns.numbers(busy_mean),
            "idle_mean": polars_columns.numbers(idle_mean),
            "integral": total.integral,
            "error": total.error,
            "energy": polars_columns.numbers(total.integral * scale),
        }
    )
    is_named = frame["name"].is_not_null().any()
    return frame.sort("duration", "name", descending=[True, False], nulls_last=True) if is_named else frame


def _shares(part: Int64s, whole: Int64s) -> Floats:
    return np.asarray(part / np.where(whole > 0, whole, np.nan), np.float64)
