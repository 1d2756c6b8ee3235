"""A run in numbers: what each metric of a gate was in each step, and what the run ran on.

Metrics are named as on the command line: `step_time`, `throughput`, `memory_peak`, `op:NAME`, `kernel:NAME`. The steps
are those after the warm-up (`selection.settled`). Of several ranks a time is the mean, a peak the greatest, and samples
add up. An operator has the time of the device work that was launched in it and in what it calls, if any was recorded in
the run at all; else its time on the host, with what it calls. Sums, so that work on several streams counts in full.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int64s, scattered
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.compare.statistics.whole_series import is_of_history, whole_series
from kinetoscope.model.analysis import Question
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.names import names_of_used_devices
from kinetoscope.model.execution.calls import call_names, calls
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import is_step
from kinetoscope.model.history.of_trace import FILES
from kinetoscope.model.history.rank_series import PARTS
from kinetoscope.model.job import Job, Readable, part_of
from kinetoscope.model.memory.allocator import HOST, Instants, instants_in, memory_instants
from kinetoscope.model.operators.costs import device_costs, groups_of, host_costs, launched
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import ALL, Selection, default_to_steady
from kinetoscope.model.steps.steps import step_of, step_of_work
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.recording import recording
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Schema, Unit

STEP_TIME: Final = "step_time"
THROUGHPUT: Final = "throughput"
MEMORY_PEAK: Final = "memory_peak"
OPERATOR: Final = "op:"
KERNEL: Final = "kernel:"

UNITS: Final[Mapping[str, Unit]] = {STEP_TIME: "ns", MEMORY_PEAK: "bytes", THROUGHPUT: ""}
"""Units of the metrics that are not of a name; those are in ns. Throughput is in samples per second."""

_SAMPLES: Final = "samples"
_ENVIRONMENT: Final = "environment"

RESULT: Final = Schema(
    Column("metric", pl.String, "Name of the metric; environment: a fact about the run, in JSON, as where."),
    Column("where", pl.String, "Where it was measured: device, host; empty where that is no question."),
    Column("cycle", pl.Int64, "Cycle of the profiler's schedule."),
    Column("place", pl.Int64, "Which of the selected steps, from 0."),
    Column("total", pl.Int64, "Sum over ranks; in ns or bytes."),
    Column("most", pl.Int64, "The greatest of a rank."),
    Column("ranks", pl.Int64, "How many ranks have it."),
)

_KEY: Final = ("metric", "where", "cycle", "place")
_VERSIONS: Final = ("cuda_runtime_version", "cuda_driver_version", "hip_runtime_version")
_MAX_CHARACTERS: Final = 200
"""Characters of a fact."""


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """The values of a metric, one a step.

    Attributes:
        values: of each step, in order; of a history of each block of steps; one value for the run if it is no matter of
            steps.
        where: device or host, for operators; history, for what is measured in one.
        steps: how many steps there are, where a value is of several.
    """

    values: tuple[float, ...]
    where: str = ""
    steps: int = 0

    @property
    def mean(self) -> float:
        """Mean over all steps; 0 without steps."""
        return sum(self.values) / len(self.values) if self.values else 0.0


@dataclass(frozen=True, slots=True)
class Environment:
    """The machine and libraries of a run.

    Attributes:
        devices: name of the devices that were used, by name, ascending; empty for the host alone.
        ranks: how many ranks were measured.
        versions: of torch, CUDA and such, by name.
    """

    devices: tuple[str, ...] = ()
    ranks: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Numbers:
    """A run in numbers.

    Attributes:
        path: what the user named.
        environment: what it ran on.
        series: the metrics by their names.
        notes: what was left out or assumed.
        complete: False where only what matters was kept of it (`baseline`).
    """

    path: str
    environment: Environment
    series: Mapping[str, MetricSeries]
    notes: tuple[Note, ...] = ()
    complete: bool = True

    @property
    def steps(self) -> int:
        """How many steps were measured."""
        series = self.series.get(STEP_TIME, MetricSeries(()))
        return series.steps or len(series.values)

    def has(self, prefix: str) -> bool:
        """Is there any metric whose name begins so?"""
        return any(name.startswith(prefix) for name in self.series)


def numbers(job: Job | Readable, *, select: Selection = ALL) -> Numbers:
    """Measure a run.

    Raises:
        InputError: no rank can be read.
    """
    job, select = part_of(job, select)
    if is_of_history(job):
        return _of_history(job, select)
    answer = job.answer(Question(_of_trace, RESULT, default_to_steady(select), combine=_together, finish=_sorted))
    frame = answer.frame
    facts = frame.filter(pl.col("metric") == _ENVIRONMENT)
    environment = _environment(facts, len(job.ranks))
    series = dict(_series(frame.filter(pl.col("metric") != _ENVIRONMENT)))
    return Numbers(job.path, environment, series, answer.notes)


def _of_history(job: Job, select: Selection) -> Numbers:
    """The numbers of a whole run: a value for each block of its steps, mean over ranks."""
    series = whole_series(job, select)
    of_ranks = series.frame.with_columns(time=pl.sum_horizontal(PARTS))
    blocks = of_ranks.group_by("place").agg(pl.col("time").mean(), pl.col("samples").sum()).sort("place")
    steps = int(series.frame.group_by("place").agg(pl.col("steps").max())["steps"].sum())
    values = {STEP_TIME: MetricSeries(tuple(blocks["time"].to_list()), FILES, steps)}
    rates = blocks.filter((pl.col("samples") > 0) & (pl.col("time") > 0)).select(
        pl.col("samples") * 1e9 / pl.col("time")
    )
    if rates.height:
        values[THROUGHPUT] = MetricSeries(tuple(rates["samples"].to_list()), FILES, steps)
    return Numbers(job.path, Environment(ranks=len(job.ranks)), values if blocks.height else {}, series.notes)


# --- all ranks


def _together(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    return _summed(pl.concat([one, other]))


def _sorted(frame: pl.DataFrame) -> pl.DataFrame:
    return _summed(frame).sort(*_KEY)


def _summed(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.group_by(_KEY).agg(pl.col("total").sum(), pl.col("most").max(), pl.col("ranks").sum())


def _series(frame: pl.DataFrame) -> Iterator[tuple[str, MetricSeries]]:
    """The metrics, those of no step at 0 there: steps are those that have a step time."""
    measured = frame.filter(pl.col("metric") == STEP_TIME).select("cycle", "place", "ranks")
    place = {(cycle, at): index for index, (cycle, at, _) in enumerate(measured.iter_rows())}
    of_ranks = measured.get_column("ranks").to_list()
    totals: dict[tuple[str, str], list[int]] = {}
    for metric, where, cycle, at, total, most, _ in frame.iter_rows():
        if metric == MEMORY_PEAK:
            totals.setdefault((metric, where), [0])[0] = max(most, totals.get((metric, where), [0])[0])
        elif (cycle, at) in place:
            totals.setdefault((metric, where), [0] * len(place))[place[cycle, at]] += total
    samples = totals.pop((_SAMPLES, ""), None)
    for (metric, where), values in totals.items():
        if metric == MEMORY_PEAK:
            yield metric, MetricSeries((float(values[0]),), where)
        else:
            yield (
                metric,
                MetricSeries(tuple(total / count for total, count in zip(values, of_ranks, strict=True)), where),
            )
    if samples is not None:
        times = totals[STEP_TIME, ""]
        rates = (
            count * 1e9 * ranks / time
            for count, time, ranks in zip(samples, times, of_ranks, strict=True)
            if count and time
        )
        yield THROUGHPUT, MetricSeries(tuple(rates))


def _environment(facts: pl.DataFrame, ranks: int) -> Environment:
    names: set[str] = set()
    versions: dict[str, str] = {}
    for text in facts.get_column("where").to_list():
        fact = json.loads(text)
        names.update(fact["devices"])
        versions.update(fact["versions"])
    return Environment(tuple(sorted(names)), ranks, dict(sorted(versions.items())))


# --- one rank


def _of_trace(trace: Trace, select: Selection) -> Partial:
    view = scope(trace, select)
    count = len(view.steps)
    rows = [_rows(STEP_TIME, "", np.arange(count), view.steps.device.end - view.steps.device.start)]
    rows += [_of_operators(view), _of_kernels(view), _of_memory(view), _of_samples(view), _facts(trace)]
    frame = pl.concat([RESULT.conform(each) for each in rows if len(each)] or [RESULT.empty()])
    frame = frame.with_columns(pl.lit(trace.source.cycle, pl.Int64).alias("cycle"))
    return Partial(frame, view.notes)


def _rows(metric: Any, where: str, place: Int64s, total: Int64s) -> pl.DataFrame:
    return pl.DataFrame({"place": place, "total": total}, schema={"place": pl.Int64, "total": pl.Int64}).with_columns(
        metric=pl.Series(metric, dtype=pl.String) if isinstance(metric, list) else pl.lit(metric, pl.String),
        where=pl.lit(where, pl.String),
        cycle=pl.lit(0, pl.Int64),
        most=pl.col("total"),
        ranks=pl.lit(1, pl.Int64),
    )


def _of_operators(view: Scope) -> pl.DataFrame:
    """The time of each operator in each step, with what it calls: of its device work, or else its own."""
    trace = view.trace
    all_calls = calls(trace, EventKind.PYTHON)
    shown = all_calls.shown & view.host_mask_untimed & (trace.kind == EventKind.HOST_OP) & ~is_step(trace)
    rows = np.flatnonzero(shown).astype(np.int32)
    place = step_of(view.steps.host, trace.start[rows])
    rows, place = rows[place >= 0], place[place >= 0]
    if not len(rows):
        return RESULT.empty()
    codes, first = group(call_names(trace)[rows], place)
    code = scattered(len(trace), rows, codes, np.int32)
    groups = groups_of(trace, all_calls, code, rows[first].astype(np.int32))
    on_device = len(device_work(trace)) > 0
    costs = (
        device_costs(view, all_calls, groups, launched(view, all_calls))
        if on_device
        else host_costs(view, all_calls, groups)
    )
    total = costs["device_total" if on_device else "host_total"]
    if total is None:
        return RESULT.empty()
    names = trace.strings.labels(call_names(trace)[rows[first]].tolist())
    metric = [OPERATOR + name for name in names]
    return _rows(metric, "device" if on_device else "host", place[first], total)


def _of_kernels(view: Scope) -> pl.DataFrame:
    """The time of each kernel, copy and set in each step (`step_of_work`)."""
    trace, work = view.trace, view.device_work
    chosen = np.flatnonzero(view.device_work_mask)
    place = step_of_work(trace, work, view.steps)[chosen]
    chosen, place = chosen[place >= 0], place[place >= 0]
    if not len(chosen):
        return RESULT.empty()
    start, end = view.clipped(work.start[chosen], work.end[chosen])
    codes, first = group(trace.name[work.rows[chosen]], place)
    total = sum_by(codes, len(first), end - start)
    names = trace.strings.labels(trace.name[work.rows[chosen[first]]].tolist())
    return _rows([KERNEL + name for name in names], "device", place[first], total)


def _of_memory(view: Scope) -> pl.DataFrame:
    """The most that was in use on a device; on the host where no device said anything."""
    instants = memory_instants(view.trace)
    chosen = instants_in(view)
    there = [each for each in np.unique(instants.device[chosen]).tolist() if instants.devices[each][0] != HOST]
    where = "device" if there else "host"
    peaks = [_peak(instants, chosen, each) for each in there or np.unique(instants.device[chosen]).tolist()]
    if not peaks:
        return RESULT.empty()
    return _rows(MEMORY_PEAK, where, np.zeros(1, np.int64), np.array([max(peaks)], np.int64))


def _peak(instants: Instants, chosen: Bools, device: int) -> int:
    """The most that was in use on a device at an instant selected, or right before it."""
    after = instants.allocated[chosen & (instants.device == device)]
    before = after - instants.size[chosen & (instants.device == device)]
    return max(int(after.max()), int(before.max()), 0)


def _of_samples(view: Scope) -> pl.DataFrame:
    """How many samples each step had, where the recorder counted them."""
    known = recording(view.trace)
    if known is None or view.steps.origin != "profiler":
        return RESULT.empty()
    samples = [known.samples.get(number, 0) for number in view.steps.number.tolist()]
    if not any(samples):
        return RESULT.empty()
    return _rows(_SAMPLES, "", np.arange(len(samples)), np.array(samples, np.int64))


def _facts(trace: Trace) -> pl.DataFrame:
    names = sorted(map(_cut, names_of_used_devices(trace)))
    known = recording(trace)
    versions = {name: _cut(str(trace.metadata[name])) for name in _VERSIONS if name in trace.metadata}
    if known is not None:
        versions |= {_cut(name): _cut(version) for name, version in known.versions.items()}
    text = json.dumps({"devices": names, "versions": versions}, sort_keys=True)
    return _rows(_ENVIRONMENT, text, np.zeros(1, np.int64), np.zeros(1, np.int64))


def _cut(text: str) -> str:
    return text[:_MAX_CHARACTERS]
