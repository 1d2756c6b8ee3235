"""Runs in a row: what each was, what it changed, and what that brought."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import PurePath
from typing import Any, Final

import numpy as np
import polars as pl

from kinetoscope.advisor.rule import RankView
from kinetoscope.algorithms.arrays import Floats
from kinetoscope.charts import Bars
from kinetoscope.compare.diff.programs import Program, program
from kinetoscope.compare.ledger.command_diff import command_changes, flat, mapping_changes, short
from kinetoscope.compare.statistics.noise import changes
from kinetoscope.compare.statistics.whole_series import is_of_history, whole_series
from kinetoscope.errors import InputError, UsageError
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.names import names_of_used_devices
from kinetoscope.model.history.rank_series import PARTS
from kinetoscope.model.job import Job, Readable, jobs_of, part_of
from kinetoscope.model.steps.selection import ALL, Selection, default_to_steady
from kinetoscope.model.trace.recording import Recording, recording
from kinetoscope.model.trace.text import listed
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Result, Schema

RESULT = Schema(
    Column("run", pl.String, "Name of the run: as it was recorded with, else of its file or folder."),
    Column("step_time", pl.Int64, "Mean step after the warm-up, over all ranks.", "ns"),
    Column("samples_per_second", pl.Float64, "Samples of all ranks in a second of such steps; null if not known."),
    Column("utilization", pl.Float64, "Share of the time in which a kernel runs, mean over devices.", "fraction"),
    Column("matrix_unit_share", pl.Float64, "Computation on tensor or matrix cores, where names tell.", "fraction"),
    Column("memory_peak", pl.Int64, "Most memory in use on a device; of the host where there is none.", "bytes"),
    Column(
        "gain_previous",
        pl.Float64,
        "How many times as fast as the run before: by samples if known, else by steps; null on another device.",
    ),
    Column("gain_first", pl.Float64, "How many times as fast as the first run, alike."),
    Column("verdict", pl.String, "Against the run before. better, worse: beyond noise; same; inconclusive."),
    Column("changed", pl.String, "What is different from the run before: command line, parameters, versions, commit."),
    Column("steps", pl.Int64, "Steps of all ranks that the means are over."),
    Column("ranks", pl.String, "The ranks that were read."),
    Column("path", pl.String, "Where the run is."),
)
"""The rows of `ledger`: one for each run, in the order in which they are named."""

CHART: Final = Bars("run", "step_time", limit=40)

_FACTS = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("times", pl.List(pl.Int64), "Length of each selected step, ns.", "ns"),
    Column("samples", pl.List(pl.Int64), "Samples of each of them; null if not known."),
    Column("kernel_time", pl.Int64, "Time in which a kernel ran, summed over devices.", "ns"),
    Column("window", pl.Int64, "The time looked at, summed over devices.", "ns"),
    Column("matrix_unit_time", pl.Float64, "Time of kernels on matrix units, as far as names tell.", "ns"),
    Column("told_time", pl.Int64, "Time of computation whose kernels' names tell.", "ns"),
    Column("memory_peak", pl.Int64, "Most memory in use on a device.", "bytes"),
    Column("recording", pl.String, "What the recorder knew, as JSON."),
    Column("devices", pl.String, "The devices that did something."),
)
"""What is asked of each rank."""

_NO_SAMPLES: Final = (
    "Throughput is not known of {} (step(samples=...) of kinetoscope.profile tells, or --samples-per-step)."
)


def ledger(runs: Iterable[Job | Readable], *, samples_per_step: float | None = None, select: Selection = ALL) -> Result:
    """What did each of several runs bring, and what was changed for it?

    Method. A row is a run, in the order given. Step time is the mean over all steps of all ranks, without those of the
    warm-up unless steps are selected. Throughput is samples of all ranks over the time of their steps, as the recorder
    wrote down how many samples each step had, or `samples_per_step` of all ranks together. Utilization and the share of
    tensor cores are those of `device_utilization`, the peak is that of `memory_curve`, the greatest of all devices. The
    gain is the ratio of throughputs where both runs have one, else of step times: 1.25 is a quarter more work a second.

    How to read it. The verdict holds the steps of a run against those of the run before: a gain that is not beyond
    noise may be none. Between different devices, or different programs, nothing is a gain: gain and verdict are null.
    `changed` is what is known to be different; what the recorder did not see is not in it.

    Limits. The history of a run has steps and samples, and nothing else that is listed here. A gain between a history
    and a trace is the profiler's, too. Two runs on different machines differ by that, too. Without the recorder, only
    devices are compared.

    Args:
        runs: in the order of the rows.
        samples_per_step: samples of all ranks together in a step, for runs that do not say.
        select: what is looked at in each.

    Raises:
        InputError: a run cannot be read, or has no step.
        UsageError: there is no run.
    """
    jobs = jobs_of(runs)
    if not jobs:
        raise UsageError("a ledger needs a run, better two or more")
    entries = [ledger_entry(run, select=select, samples_per_step=samples_per_step) for run in jobs]
    return result_of_entries(entries)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One run as the ledger knows it.

    Attributes:
        path: what the user named. ranks: that answered.
        steps: how many steps of all ranks there are; time: of all of them, ns.
        values: the length of each step, mean over ranks, ns: float64 [steps].
        rate: samples of all ranks in a second; None if not known.
        utilization, matrix_unit_share: of all devices; None if not known.
        memory_peak: bytes; None if not recorded.
        recording: what the recorder knew, of the first rank; None if it did not record.
        devices: those that did something.
        notes: what was left out or assumed.
        program: what ran; None if that is not known.
    """

    path: str
    ranks: tuple[int, ...]
    steps: int
    time: int
    values: Floats
    rate: float | None
    utilization: float | None
    matrix_unit_share: float | None
    memory_peak: int | None
    recording: Recording | None
    devices: str
    notes: tuple[Note, ...]
    program: Program | None = None

    def is_comparable(self, before: LedgerEntry) -> bool:
        """True if a difference of the steps is due to a change of the program: it is one program, on like devices."""
        known = self.program is not None and before.program is not None
        return not known or not self.program.difference_from(before.program)  # type: ignore[union-attr, arg-type]

    @property
    def step(self) -> float:
        """The mean step, ns."""
        return self.time / self.steps


def ledger_entry(run: Job, *, select: Selection = ALL, samples_per_step: float | None = None) -> LedgerEntry:
    """The facts that the ledger needs of one run.

    Raises:
        InputError: it cannot be read, or has no step.
    """
    run, select = part_of(run, select)
    if is_of_history(run):
        return _of_history(run, select, samples_per_step)
    answer = run.map(_of_trace, _FACTS, default_to_steady(select), recorded=select)
    rows = answer.frame.to_dicts()
    times = [row["times"] for row in rows]
    count = sum(map(len, times))
    if not count or not sum(map(sum, times)):
        raise InputError(f"{run.path} has no step to compare; record with schedule and step() of torch.profiler")
    texts = [row["recording"] for row in rows if row["recording"] is not None]
    ranks = tuple(sorted({row["rank"] for row in rows}))
    return LedgerEntry(
        path=run.path,
        ranks=ranks,
        steps=count,
        time=sum(map(sum, times)),
        values=_means(times),
        rate=_rate(rows, ranks, samples_per_step),
        utilization=_share(rows, "kernel_time", "window"),
        matrix_unit_share=_share(rows, "matrix_unit_time", "told_time"),
        memory_peak=max((row["memory_peak"] for row in rows if row["memory_peak"] is not None), default=None),
        recording=_unpacked(texts[0]) if texts else None,
        devices=", ".join(dict.fromkeys(row["devices"] for row in rows if row["devices"])),
        notes=answer.notes,
        program=program(run),
    )


def _of_history(run: Job, select: Selection, samples_per_step: float | None) -> LedgerEntry:
    """The facts of a whole run: all its steps, in blocks."""
    series = whole_series(run, select)
    frame = series.frame.with_columns(time=pl.sum_horizontal(PARTS))
    if not frame.height:
        raise InputError(f"{run.path} has no step to compare: its history is empty")
    of_blocks = frame.group_by("place").agg((pl.col("time") * pl.col("steps")).sum() / pl.col("steps").sum())
    samples = pl.lit(samples_per_step) / frame["rank"].n_unique() if samples_per_step else pl.col("samples")
    of_ranks = frame.group_by("rank").agg(
        rate=(samples * pl.col("steps")).sum() * 1e9 / (pl.col("time") * pl.col("steps")).sum(),
        is_known=samples.is_not_null().all(),
    )
    return LedgerEntry(
        path=run.path,
        ranks=tuple(frame["rank"].unique().sort().to_list()),
        steps=int(frame["steps"].sum()),
        time=round(float((frame["time"] * frame["steps"]).sum())),
        values=of_blocks.sort("place")["time"].to_numpy(),
        rate=float(of_ranks["rate"].sum()) if of_ranks["is_known"].all() else None,
        utilization=None,
        matrix_unit_share=None,
        memory_peak=None,
        recording=None,
        devices="",
        notes=series.notes,
    )


def result_of_entries(entries: Sequence[LedgerEntry]) -> Result:
    """The ledger of runs that are known."""
    names = _names(entries)
    works = [_work(before, after) for before, after in pairwise(entries)]
    sides = [([before.tolist()], [after.tolist()]) for before, after in works]
    verdicts = [None, *(verdict.word for verdict in changes(sides))]
    rows = []
    for place, each in enumerate(entries):
        before = entries[place - 1] if place else None
        rows.append(
            {
                "run": names[place],
                "step_time": (2 * each.time + each.steps) // (2 * each.steps),
                "samples_per_second": each.rate,
                "utilization": each.utilization,
                "matrix_unit_share": each.matrix_unit_share,
                "memory_peak": each.memory_peak,
                "gain_previous": _gain(before, each) if before else None,
                "gain_first": _gain(entries[0], each) if before else None,
                "verdict": verdicts[place] if before and each.is_comparable(before) else None,
                "changed": "; ".join(differences(before, each)) if before else None,
                "steps": each.steps,
                "ranks": listed(each.ranks),
                "path": each.path,
            }
        )
    frame = RESULT.frame(rows)
    return Result(
        frame, RESULT, tuple(_notes(entries, names)), "ledger", {"runs": [each.path for each in entries]}, CHART
    )


# --- one rank


def _of_trace(trace: Trace, select: Selection, *, recorded: Selection) -> Partial:
    """The facts of a rank: of the steps in `select`, and the memory of all that is `recorded`."""
    rank = RankView(trace, select)
    windows = rank.windows
    times = [] if trace.source.is_snapshot else (windows.end - windows.start).tolist()
    known = recording(trace)
    step_samples = known.samples if known is not None and rank.scope.steps.origin == "profiler" else {}
    used = rank.ask("device_utilization").frame.drop_nulls("utilization")
    share = used.drop_nulls("matrix_unit_share")
    matrix = share.select((pl.col("matrix_unit_share") * pl.col("told_time")).sum()).item()
    row: dict[str, Any] = {
        "times": times,
        "samples": [step_samples.get(number) for number in rank.scope.steps.number.tolist()],
        "kernel_time": used.get_column("kernel_time").sum() if used.height else None,
        "window": used.get_column("window").sum() if used.height else None,
        "matrix_unit_time": matrix if share.height else None,
        "told_time": share.get_column("told_time").sum() if share.height else None,
        "memory_peak": _peak(RankView(trace, recorded), has_device=rank.has_device),
        "recording": json.dumps(asdict(known)) if known is not None else None,
        "devices": ", ".join(names_of_used_devices(rank.trace)),
    }
    return Partial(_FACTS.per_rank.frame([row]), rank.scope.notes)


def _peak(rank: RankView, *, has_device: bool) -> int | None:
    """Most in use on a device; on the host where no device's memory was recorded."""
    curve = rank.ask("memory_curve").frame
    on_device = curve.filter(pl.col("device") != "cpu")
    if has_device and not on_device.height:
        return None
    peak = (on_device if on_device.height else curve).get_column("allocated").max()
    return peak if isinstance(peak, int) else None


# --- one run


def _means(times: Sequence[Sequence[int]]) -> Floats:
    """The length of each step by its place, mean over the traces that have so many."""
    most = max(map(len, times))
    total, count = np.zeros(most), np.zeros(most)
    for each in times:
        total[: len(each)] += each
        count[: len(each)] += 1
    return np.asarray(total / count, np.float64)


def _rate(rows: Sequence[Mapping[str, Any]], ranks: Sequence[int], per_step: float | None) -> float | None:
    """Samples of all ranks in a second; None where a rank does not tell."""
    if per_step is not None:
        times = [time for row in rows for time in row["times"]]
        return float(per_step * len(times) * 1e9 / sum(times))
    total = 0.0
    for rank in ranks:
        rate = _rate_of_rank([row for row in rows if row["rank"] == rank])
        if rate is None:
            return None
        total += rate
    return total


def _rate_of_rank(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Samples of one rank in a second, of the steps that have a number of samples; None if none has."""
    counted = [
        (samples, time)
        for row in rows
        for samples, time in zip(row["samples"], row["times"], strict=True)
        if samples is not None and time > 0
    ]
    if not counted:
        return None
    return float(sum(samples for samples, _ in counted) * 1e9 / sum(time for _, time in counted))


def _share(rows: Sequence[Mapping[str, Any]], part: str, whole: str) -> float | None:
    total = sum(row[whole] for row in rows if row[whole] is not None)
    if not total:
        return None
    return float(sum(row[part] for row in rows if row[part] is not None) / total)


def _unpacked(text: str) -> Recording:
    facts = json.loads(text)
    facts["command"] = tuple(facts["command"])
    return Recording(**facts)


# --- several runs


def _gain(before: LedgerEntry, after: LedgerEntry) -> float | None:
    """How many times as fast; None where it would be no gain of the program's."""
    if not after.is_comparable(before):
        return None
    if before.rate and after.rate:
        return after.rate / before.rate
    return before.step / after.step


def _work(before: LedgerEntry, after: LedgerEntry) -> tuple[Floats, Floats]:
    """The steps of both, for as much work as in a step of the run before."""
    if before.rate and after.rate:
        return before.values, after.values * (before.rate * before.step) / (after.rate * after.step)
    return before.values, after.values


def _names(entries: Sequence[LedgerEntry]) -> list[str]:
    """Names that tell the runs apart: those that they were recorded with, else the shortest ends of their paths."""
    given = [each.recording.run if each.recording else "" for each in entries]
    if all(given) and len(set(given)) == len(given):
        return given
    return distinct_names([each.path for each in entries])


def differences(before: LedgerEntry, after: LedgerEntry) -> Iterator[str]:
    """Each difference in a few words, those that the user typed first."""
    if before.recording and after.recording:
        yield from _recorded_differences(before.recording, after.recording)
    if before.devices != after.devices:
        yield f"{short(before.devices) or 'the host alone'} → {short(after.devices) or 'the host alone'}"
    if before.program and after.program and not after.program.is_like(before.program):
        yield "another program"
    if len(before.ranks) != len(after.ranks):
        yield f"{len(before.ranks)} → {len(after.ranks)} ranks"


def _recorded_differences(one: Recording, other: Recording) -> Iterator[str]:
    yield from command_changes(one.command, other.command)
    yield from mapping_changes(flat(one.about), flat(other.about))
    yield from mapping_changes(one.versions, other.versions)
    if one.commit != other.commit:
        yield f"commit {short(one.commit[:8]) or '?'} → {short(other.commit[:8]) or '?'}"
    if one.branch != other.branch:
        yield f"branch {short(one.branch) or '?'} → {short(other.branch) or '?'}"


def _notes(entries: Sequence[LedgerEntry], names: Sequence[str]) -> Iterator[Note]:
    silent = [name for name, each in zip(names, entries, strict=True) if each.rate is None]
    if silent:
        who = "any run" if len(silent) == len(entries) else ", ".join(silent)
        yield Note("NO_THROUGHPUT", _NO_SAMPLES.format(who))
    if len({each.ranks for each in entries}) > 1:
        yield Note("LEDGER_OF_DIFFERENT_RANKS", "The runs have different ranks; each is the mean over its own.")
    for note in dict.fromkeys(note for each in entries for note in each.notes):
        of = [name for name, each in zip(names, entries, strict=True) if note in each.notes]
        yield note if len(of) == len(entries) else note.reworded(f"{', '.join(of)}: {note}")


def distinct_names(paths: Sequence[str]) -> list[str]:
    """The shortest ends of the paths that tell them apart: `num_workers_0` and `num_workers_4`."""
    parts = [PurePath(path.rstrip("/")).parts or (path,) for path in paths]
    for length in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return list(paths)
