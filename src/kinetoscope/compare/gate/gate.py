"""Did something get worse, beyond noise and by more than it may?

A gate holds some metrics of new runs against those of runs before. A metric fails if it is worse beyond noise (`noise`
says what that is) and its estimated change is the limit or more. Where the runs do not decide,
it is *inconclusive*: it passes, with a note, unless the gate is strict. Several metrics are several chances of a false
alarm: their p-values are adjusted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from kinetoscope import dispatch
from kinetoscope.compare.gate.limits import Limit, assumed_of, limits_of
from kinetoscope.compare.statistics.noise import ASSUMED, Assumed, Samples, Verdict, adjusted, change
from kinetoscope.compare.statistics.numbers import (
    KERNEL,
    MEMORY_PEAK,
    OPERATOR,
    STEP_TIME,
    THROUGHPUT,
    UNITS,
    Numbers,
    numbers,
)
from kinetoscope.errors import InputError, UsageError, nearest
from kinetoscope.model.history.of_trace import FILES
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.trace.recording import not_recorded
from kinetoscope.model.trace.text import listed, number_of
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Result, Schema, Unit
from kinetoscope.views.text import middle, printable

Run = Job | Numbers | str | os.PathLike[str]
Runs = Run | Sequence[Run]
"""One run or several."""

RESULT: Final = Schema(
    Column("metric", pl.String, "What was measured: step_time, throughput, memory_peak, op:NAME, kernel:NAME."),
    Column("base", pl.Float64, "Typical value before; in ns, bytes, or samples per second."),
    Column("new", pl.Float64, "Typical value now."),
    Column("change", pl.Float64, "(new - base) / base; null where base is 0.", "fraction"),
    Column("change_low", pl.Float64, "Where the interval of the change begins.", "fraction"),
    Column("change_high", pl.Float64, "Where it ends.", "fraction"),
    Column("limit", pl.Float64, "By how much it may get worse.", "fraction"),
    Column("p_value", pl.Float64, "So often runs without any change differ as much; adjusted for several metrics."),
    Column("verdict", pl.String, "worse, better, same (a change by the limit is ruled out), inconclusive."),
    Column("failed", pl.Boolean, "Does it fail the gate?"),
)

_MEMORY: Final = Assumed(between=0.005, within=0.0)
"""How much a peak of memory differs between runs: choices of algorithms, order of threads; not from step to step."""

_MAX_NAME_CELLS: Final = 100


_NOT_RECORDED: Final = {
    OPERATOR: "no operators were recorded (ProfilerActivity.CPU records them)",
    KERNEL: not_recorded("device work"),
}


@dataclass(frozen=True, slots=True)
class Check:
    """A metric that was held against its limit.

    Attributes:
        limit: the metric, and what it may.
        verdict: how it changed.
        failed: does it fail the gate?
        unit: of its values.
    """

    limit: Limit
    verdict: Verdict
    failed: bool
    unit: Unit

    @property
    def metric(self) -> str:
        """Its name."""
        return self.limit.metric


@dataclass(frozen=True, repr=False)
class Gate:
    """The result of a gate.

    Attributes:
        checks: the metrics in the order of the limits.
        base: the runs before.
        new: the runs now.
        strict: whether what is inconclusive fails.
        notes: what the verdicts rest on, one sentence each.
    """

    checks: tuple[Check, ...]
    base: tuple[Numbers, ...]
    new: tuple[Numbers, ...]
    strict: bool = False
    notes: tuple[Note, ...] = ()

    def __str__(self) -> str:
        return dispatch.text(self)

    def __repr__(self) -> str:
        return f"<Gate of {number_of(len(self.checks), 'metric')}: {dispatch.call('sentence', self)}>"

    def _repr_html_(self) -> str:
        return dispatch.html(self)

    @property
    def passed(self) -> bool:
        """Is no metric beyond its limit?"""
        return not any(check.failed for check in self.checks)

    @property
    def doubtful(self) -> tuple[Check, ...]:
        """Metrics that the runs do not decide."""
        return tuple(check for check in self.checks if is_doubtful(check.verdict))

    @property
    def result(self) -> Result:
        """A row for each metric; see `RESULT`."""
        rows = [_row(check) for check in self.checks]
        frame = RESULT.frame(rows)
        params = {"base": [run.path for run in self.base], "new": [run.path for run in self.new]}
        return Result(frame, RESULT, self.notes, "gate", params)


def gate(
    base: Runs,
    new: Runs,
    limits: Mapping[str, str | float] | Iterable[Limit | str] | None = None,
    *,
    strict: bool = False,
    select: Selection = ALL,
    noise: str | float = ASSUMED.between,
    any_device: bool = False,
) -> Gate:
    """Did any metric get worse, beyond noise and by more than it may?

    Args:
        base: the runs before: one or several, jobs, paths, or what `numbers` or `baseline.load` made of them.
        new: the runs now.
        limits: `{"step_time": "5%"}` or `["op:aten::conv2d=10%"]`; if there is none, of the step time.
        strict: does a metric fail for which a change by its limit is not ruled out?
        select: what is looked at in jobs.
        noise: by how much runs of one program are expected to differ where they do not tell: 0.02, or 2%.
        any_device: may the runs have run on different devices?

    Raises:
        InputError: a run cannot be read, ran on another device, or does not have a metric.
        UsageError: a limit or the noise is none, or there are no runs.
    """
    wanted, assumed = limits_of(limits), assumed_of(noise)
    before, now = (_measured(side, select) for side in (base, new))
    if not before or not now:
        raise UsageError(
            "a gate needs a run on either side: BASE NEW, --base A B C --new D E F, or --baseline FILE NEW"
        )
    notes = [*_comparable(before, now, any_device), *_noted(before, now)]
    verdicts = adjusted([_verdict(limit, before, now, assumed) for limit in wanted])
    checks = tuple(
        Check(
            limit, verdict, verdict.word == "worse" or (strict and is_doubtful(verdict)), UNITS.get(limit.metric, "ns")
        )
        for limit, verdict in zip(wanted, verdicts, strict=True)
    )
    notes += dict.fromkeys(check.verdict.why for check in checks if check.verdict.why)
    notes += [note for check in checks if (note := _uneven(check, before, now))]
    return Gate(checks, before, now, strict, tuple(dict.fromkeys(notes)))


def is_doubtful(verdict: Verdict) -> bool:
    """Is getting worse by the limit neither shown nor ruled out?"""
    if verdict.word != "inconclusive":
        return False
    worst = verdict.high if verdict.higher_is_worse else None if verdict.low is None else -verdict.low
    return worst is None or worst >= verdict.limit


def _measured(side: Runs, select: Selection) -> tuple[Numbers, ...]:
    several = (side,) if isinstance(side, Job | Numbers | str | os.PathLike) else side
    return tuple(each if isinstance(each, Numbers) else numbers(each, select=select) for each in several)


def _verdict(limit: Limit, base: Sequence[Numbers], new: Sequence[Numbers], assumed: Assumed) -> Verdict:
    before, now = _values(limit.metric, base, new)
    noise = _MEMORY if limit.metric == MEMORY_PEAK else assumed
    return change(before, now, limit=limit.share, assumed=noise, higher_is_worse=limit.higher_is_worse)


# --- values of a metric


def _values(metric: str, base: Sequence[Numbers], new: Sequence[Numbers]) -> tuple[Samples, Samples]:
    """The values of a metric in all runs; where only some runs have an operator or kernel, it is 0 in the others.

    Raises:
        InputError: no run has it, some cannot have it, or it was measured here on the host and there on the device.
    """
    runs = [*base, *new]
    if metric.startswith((OPERATOR, KERNEL)):
        _require_one_measure(metric, runs)
        return [_of_name(metric, run) for run in base], [_of_name(metric, run) for run in new]
    for run in runs:
        if metric not in run.series:
            raise InputError(f"{run.path} has no {metric}: {_missing(metric)}")
    if len({run.series[metric].where for run in runs}) > 1 and metric != MEMORY_PEAK:
        whole = ", ".join(run.path for run in runs if run.series[metric].where == FILES)
        raise InputError(f"{whole}: {metric} is of the whole run there, of a trace elsewhere; compare like with like")
    return [run.series[metric].values for run in base], [run.series[metric].values for run in new]


def _require_one_measure(metric: str, runs: Sequence[Numbers]) -> None:
    """Make sure that the time of an operator or kernel is known of all runs, and was measured alike in all."""
    _known(metric, runs)
    for run in runs:
        if metric not in run.series and not run.complete:
            raise InputError(
                f"{_named(metric)} is not in {run.path}, which keeps what takes 0.5% of a step or more: write it"
                " anew with this limit"
            )
    if len({run.series[metric].where for run in runs if metric in run.series}) > 1:
        raise InputError(
            f"{_named(metric)} was measured on the device in some runs and on the host in others: record device"
            " activities in all of them"
        )


def _of_name(metric: str, run: Numbers) -> tuple[float, ...]:
    """The values of an operator or kernel in a run: 0 where it does not occur."""
    return run.series[metric].values if metric in run.series else (0.0,) * max(run.steps, 1)


def _known(metric: str, runs: Sequence[Numbers]) -> None:
    if any(metric in run.series for run in runs):
        return
    prefix = OPERATOR if metric.startswith(OPERATOR) else KERNEL
    names = {name.removeprefix(prefix): None for run in runs for name in run.series if name.startswith(prefix)}
    what = "operator" if prefix == OPERATOR else "kernel"
    hint = nearest(metric.removeprefix(prefix), names) if names else f": {_NOT_RECORDED[prefix]}"
    raise InputError(f"no run has {what} {_named(metric.removeprefix(prefix))}{hint}")


def _missing(metric: str) -> str:
    if metric == MEMORY_PEAK:
        return "record with profile_memory=True"
    if metric == THROUGHPUT:
        return "tell the recorder how many samples a step has, step(samples=…), or hold step_time"
    return "it has no step with a duration"


def _named(metric: str) -> str:
    return repr(middle(printable(metric), _MAX_NAME_CELLS))


def _uneven(check: Check, base: Sequence[Numbers], new: Sequence[Numbers]) -> Note | None:
    """A note where the mean step grew and the typical one did not: some steps became much longer."""
    change = check.verdict.change
    if check.metric != STEP_TIME or check.failed or change is None:
        return None
    before, now = (sum(run.series[STEP_TIME].mean for run in side) / len(side) for side in (base, new))
    grown = now / before - 1 if before > 0 else 0.0
    if grown - change < check.limit.share or grown < check.limit.share:
        return None
    return Note(
        "STEPS_UNEVEN",
        f"The mean step changed by {grown:+.1%}, the typical one by {change:+.1%}: some steps became much longer, which"
        " the gate does not judge; `kinetoscope diff` says why.",
    )


# --- may they be compared?


def _comparable(base: Sequence[Numbers], new: Sequence[Numbers], any_device: bool) -> list[Note]:
    """Notes on what differs in what they ran on.

    Raises:
        InputError: the devices, or the numbers of ranks, which no limit means.
    """
    notes = []
    before, now = (_devices(side) for side in (base, new))
    if before != now:
        said = f"base ran on {_spelled(before)}, new on {_spelled(now)}"
        if not any_device:
            raise InputError(f"{said}: measure both on the same device, or compare with --any-device")
        notes.append(Note("DIFFERENT_DEVICES", f"Different devices: {said}."))
    ranks = [sorted({run.environment.ranks for run in side}) for side in (base, new)]
    if ranks[0] != ranks[1]:
        notes.append(
            Note(
                "DIFFERENT_NUMBERS_OF_RANKS",
                f"Different numbers of ranks: base {listed(ranks[0])}, new {listed(ranks[1])}.",
            )
        )
    return [*notes, *_version_notes(base, new)]


def _version_notes(base: Sequence[Numbers], new: Sequence[Numbers]) -> Iterator[Note]:
    """A note for each library whose versions differ, and are known of all runs."""
    for name in sorted({name for run in (*base, *new) for name in run.environment.versions}):
        old, fresh = (
            sorted({run.environment.versions.get(name, "not recorded") for run in side}) for side in (base, new)
        )
        if old != fresh and "not recorded" not in (*old, *fresh):
            yield Note(
                "DIFFERENT_VERSIONS",
                printable(f"Different versions of {name}: base {', '.join(old)}, new {', '.join(fresh)}."),
            )


def _devices(side: Sequence[Numbers]) -> list[str]:
    return sorted({name for run in side for name in run.environment.devices or ("the host alone",)})


def _spelled(names: Iterable[object]) -> str:
    return " and ".join(middle(printable(str(name)), _MAX_NAME_CELLS) for name in names)


def _noted(base: Sequence[Numbers], new: Sequence[Numbers]) -> list[Note]:
    """Notes from when the runs were measured: once for all, or with the run's name."""
    notes = []
    runs = [*base, *new]
    for note in dict.fromkeys(note for run in runs for note in run.notes if note.code != "WARM_UP_LEFT_OUT"):
        of = [run.path for run in runs if note in run.notes]
        notes.append(note if len(of) == len(runs) else note.reworded(f"{', '.join(dict.fromkeys(of))}: {note}"))
    return notes


def _row(check: Check) -> tuple[object, ...]:
    verdict = check.verdict
    changed = [
        None if each is None or each == float("inf") else each for each in (verdict.change, verdict.low, verdict.high)
    ]
    return (
        check.metric,
        verdict.base,
        verdict.new,
        *changed,
        verdict.limit,
        verdict.p_value,
        verdict.word,
        check.failed,
    )
