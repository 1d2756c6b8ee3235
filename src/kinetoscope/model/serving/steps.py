"""The steps of a serving engine as a table: batch, time on host and device, gaps and their causes, shares."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Floats, Int8s, Int32s, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, covered, extents, union
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.work_before import work_before
from kinetoscope.model.graphs.replays import is_replayed
from kinetoscope.model.serving.batches import acceptance, decode_delay
from kinetoscope.model.serving.gap_causes import GAP_CAUSES, times_of_causes
from kinetoscope.model.serving.named_steps import NamedSteps, named_steps, numbers_said
from kinetoscope.model.serving.shares import SHARES, shares_in_steps, times_of_shares, work_shares
from kinetoscope.model.steps.steps import step_of
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

_NUMBERS: Final = {
    "batch": "batch",
    "padded_batch": "padded_batch",
    "tokens": "tokens",
    "prefill_tokens": "prefill.sq",
    "decode_tokens": "decode.sq",
    "prefill_requests": "prefill.requests",
    "decode_requests": "decode.requests",
    "context": "context",
}
"""Columns, and where a name says them."""

MAX_GAP_RATIO: Final = 10
"""A longer gap / the median time of a step on the device is a pause: the server had no requests."""

_CAPTURE: Final = re.compile(r"(?:capture_|bs_)(\d{1,9})_")
"""How annotations around the capture of a graph are named: `capture_32_FULL`, `capture_32_DECODE`, `bs_32_rank0`."""


@dataclass(frozen=True)
class ServingSteps:
    """The steps of a trace.

    Attributes:
        named: the steps, and what their names say.
        step: int64 [work], the step of each piece of device work; −1 for work between steps.
        share: int8 [work], place in SHARES of each.
        frame: a row for each step; the columns are those of the analysis `serving_steps`, without `rank`, `step` and
            `start`.
    """

    named: NamedSteps
    step: Int64s
    share: Int8s
    frame: pl.DataFrame


@derived
def serving_steps(trace: Trace, steps_by: str | None = None) -> ServingSteps:
    """The steps of a serving engine; `steps_by` as for `steps`, for programs whose engine names none."""
    named = named_steps(trace, steps_by)
    step = _steps_of_work(trace, named)
    share = shares_in_steps(trace, step)
    return ServingSteps(named, step, share, _frame(trace, named, step, share))


def _steps_of_work(trace: Trace, named: NamedSteps) -> Int64s:
    """The step in which each piece of work was launched; sampling after a step, until the next one, belongs to it."""
    work = device_work(trace)
    if not len(named) or not len(work):
        return np.full(len(work), -1, np.int64)
    launched = np.where(work.launch >= 0, trace.start[work.launch], work.start)
    step = step_of(named.host, launched)
    before = np.searchsorted(named.host.start, launched, side="right") - 1
    return np.where((step < 0) & (work_shares(trace) == SHARES.index("sampling")), before, step)


def _frame(trace: Trace, named: NamedSteps, step: Int64s, of_work: Int8s) -> pl.DataFrame:
    count, ran = len(named), _after_earlier_work(trace)
    first, last, launch = _spans(trace, count, step, ran)
    runs = last > first
    # The turn of a step begins when all steps before it are over on the device; that of the first with its range, or
    # when the device is done with work from before the recording.
    before = work_before(trace)
    over = np.maximum.accumulate(np.concatenate([[np.iinfo(np.int64).min], last])) if count else last
    began = np.minimum(np.maximum(named.host.start, before.end), first)
    since = np.where(over[:count] > np.iinfo(np.int64).min, over[:count], began)
    since = np.where(runs, np.minimum(since, first), 0)
    paused = runs & (first - since > MAX_GAP_RATIO * np.median((last - first)[runs])) if runs.any() else runs
    begin = np.where(paused, np.clip(named.host.start, since, first), since)
    gap = Intervals(begin, np.where(runs, first, 0))
    busy = union(*ran)
    causes = times_of_causes(trace, named, gap, busy, launch)
    between = covered(gap, busy)
    shares = times_of_shares(ran, of_work, step, count)
    device_busy = shares.sum(axis=1)
    share = dict(zip(SHARES, shares.T, strict=True))
    turn = np.where(runs, last - gap.start, 0)
    said = numbers_said(named, *_NUMBERS.values())
    kinds = [each.kind for each in named.said]
    captured = np.where([kind == "decode" for kind in kinds], _captured_batch(trace, named), -1)
    said["padded_batch"] = np.where(said["padded_batch"] >= 0, said["padded_batch"], captured)
    largest = np.where(causes.any(axis=1), causes.argmax(axis=1), -1) if count else np.empty(0, np.int64)
    engines = [each.engine or None for each in named.said]
    delay = decode_delay(kinds, said["decode.requests"], turn, runs)
    accepted = acceptance(kinds, said["batch"], said["decode.sq"], numbers_said(named, "decode.sk")["decode.sk"])
    replayed = _replayed(trace, step, count)
    time = np.where(runs, turn, named.host.end - named.host.start)
    known = (said["tokens"] >= 0) & (time > 0)
    names = np.where(named.row >= 0, trace.name[named.row], -1) if count else named.row
    return pl.DataFrame(
        {
            "row": polars_columns.rows(named.row),
            "name": polars_columns.texts(trace.strings, names).cast(pl.String),
            "host_start": named.host.start,
            "device_end": polars_columns.column(last, runs),
            "engine": pl.Series(engines, dtype=pl.String),
            "kind": pl.Series(kinds, dtype=pl.String),
            **{name: polars_columns.rows(said[where]) for name, where in _NUMBERS.items()},
            "wall": named.host.end - named.host.start,
            "duration": polars_columns.column(turn, runs),
            "device_busy": device_busy,
            "attention": share["attention"],
            "gemm": share["gemm"],
            "moe": share["moe"],
            "communication": share["communication"],
            "sampling": share["sampling"],
            "other": share["computation"] + share["copy"],
            "device_idle": polars_columns.column(last - first - device_busy, runs),
            "device_between": polars_columns.column(between, runs),
            "gap": polars_columns.column(gap.end - gap.start - between, runs),
            "gap_cause": polars_columns.labelled(largest, GAP_CAUSES.__getitem__).cast(pl.String),
            **{f"gap_{name}": polars_columns.column(causes[:, place], runs) for place, name in enumerate(GAP_CAUSES)},
            "pause": polars_columns.column(begin - since, paused),
            "replayed": polars_columns.numbers(replayed),
            "tokens_per_second": polars_columns.column(said["tokens"] * 1e9 / np.maximum(time, 1), known),
            "decode_delay": polars_columns.rows(delay),
            "acceptance": polars_columns.numbers(accepted),
        }
    )


def _after_earlier_work(trace: Trace) -> Intervals:
    """When each piece of device work ran, without the time until a device is done with work from before the recording.

    Until then the device is not the steps' own, though a copy on another stream may run.
    """
    work, until = device_work(trace), work_before(trace).end
    if not len(work_before(trace).device):
        return Intervals(work.start, work.end)
    return Intervals(np.maximum(work.start, until), np.maximum(work.end, until))


def _spans(trace: Trace, count: int, step: Int64s, ran: Intervals) -> tuple[Int64s, Int64s, Int32s]:
    """When the first work of each step starts, when its last ends, and the launch of the first; −1 if unknown."""
    work, inside = device_work(trace), np.flatnonzero(step >= 0)
    first, last = extents(step, count, ran.start, ran.end)
    launch = np.full(count, -1, np.int32)
    begins = inside[ran.start[inside] == first[step[inside]]]
    launch[step[begins]] = work.launch[begins]
    return first, last, launch


def _captured_batch(trace: Trace, named: NamedSteps) -> Int64s:
    """The batch that the largest graph which each step replays was captured for: int64 [steps], −1 if unknown."""
    result = np.full(len(named), -1, np.int64)
    captured = trace.captured
    if captured is not None and len(captured.replay):
        sizes = [int(match[1]) if (match := _CAPTURE.match(label)) else -1 for label in captured.labels]
        step = step_of(named.host, trace.start[captured.replay])
        inside = step >= 0
        np.maximum.at(result, step[inside], np.array(sizes, np.int64)[captured.label][inside])
    return result


def _replayed(trace: Trace, step: Int64s, count: int) -> Floats:
    """Share of the device time of each step that replays of graphs take; NaN without device time."""
    work, of_graph = device_work(trace), is_replayed(trace)
    inside = step >= 0
    total = np.bincount(step[inside], work.duration[inside], count)
    replayed = np.bincount(step[inside & of_graph], work.duration[inside & of_graph], count)
    return np.where(total > 0, replayed / np.maximum(total, 1), np.nan)
