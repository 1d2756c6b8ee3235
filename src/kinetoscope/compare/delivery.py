"""Promise and delivery: what findings that are gone in the next run had promised, and what the step time brought."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal

import numpy as np
import polars as pl

from kinetoscope.advisor.advice import Advice, advise
from kinetoscope.advisor.finding import Finding, Stake
from kinetoscope.analyses import named
from kinetoscope.compare.diff.programs import Difference, Program, program
from kinetoscope.compare.statistics.noise import Word, changes
from kinetoscope.model.answer import Partial
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.job import Job, Readable, jobs_of, part_of
from kinetoscope.model.steps.selection import ALL, Selection, default_to_steady
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Result, Schema

Outcome = Literal["as promised", "more", "less", "noise", "void"]

RESULT = Schema(
    Column("run", pl.String, "The run that the finding was about."),
    Column("next", pl.String, "The run after it, in which the finding is gone."),
    Column("code", pl.String, "Code of the rule; `kinetoscope advise --explain CODE` says more."),
    Column("message", pl.String, "What was wrong."),
    Column(
        "status",
        pl.String,
        "gone; mostly gone: of what it promised, less than a quarter is still promised; still runs: it is not found "
        "any more, but the kernel that it showed takes as long as before.",
    ),
    Column("promised_low", pl.Int64, "How much shorter a step would surely be without it.", "ns"),
    Column("promised_high", pl.Int64, "How much shorter it would be at most.", "ns"),
    Column("together", pl.Int64, "How many findings are gone between the two runs; they share what came."),
    Column("together_low", pl.Int64, "What they promised together, surely: the sum over them.", "ns"),
    Column("together_high", pl.Int64, "What they promised together at most, and no more than the step.", "ns"),
    Column("brought", pl.Int64, "How much shorter the mean step is, by all that changed; longer if negative.", "ns"),
    Column(
        "outcome",
        pl.String,
        "as promised: within what they promised together; more; less; noise: the step is not known to have changed; "
        "void: the runs are on different devices, or of different programs, or what it named still runs.",
    ),
)
"""The rows of `delivery`: one for each finding that is gone, in order of the runs, then of what was promised."""


_MOSTLY_GONE_SHARE: Final = 0.25
"""Share of a finding's stake below which it is mostly gone."""

_STILL_RUNS_SHARE: Final = 0.5
"""Of the time of the kernel that a finding showed: from this share on, the next run has it still."""

_PROMISES: Final = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("row", pl.Int64, "Row of an event."),
    Column("name", pl.String, "Its name, if it is device work."),
)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts that tell whether a finding can have brought anything.

    Attributes:
        program: what ran, and on which devices.
        steps: the length of each step, mean over the ranks, ns.
        kernels: time of each kernel in a mean step of a rank, ns.
        shown: by code and key of a finding the name of the kernel that its evidence shows.
    """

    program: Program
    steps: tuple[float, ...]
    kernels: Mapping[str, float]
    shown: Mapping[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class DeliveredGain:
    """The promise of the findings that are gone, taken together, and what came.

    Attributes:
        gone: the findings, those with most at stake first; of what is mostly gone the stake is less what is left.
        hidden: those that are not found any more, though the kernel that they showed still runs.
        left: the codes and keys of those that are only mostly gone.
        low, high: what they promised together, ns of a mean step.
        brought: by how much the mean step is shorter, ns.
        change: whether the step is known to have changed.
        void: why nothing can be credited to a change of the program.
    """

    gone: tuple[Finding, ...]
    left: frozenset[tuple[str, str]]
    low: float
    high: float
    brought: float
    change: Word = "better"
    void: Difference = ""
    hidden: tuple[Finding, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """How both compare."""
        if self.void:
            return "void"
        if self.change == "inconclusive" or (self.change == "same" and self.brought >= self.low):
            return "noise"
        if self.brought < self.low:
            return "less"
        return "more" if self.brought > self.high else "as promised"


def delivery(runs: Iterable[Job | Readable], *, select: Selection = ALL) -> Result:
    """Did what was changed bring what the advisor had promised?

    Method. A finding of a run is gone if the advisor does not find it in the next one: no finding of that code about
    the same thing, unless another of that code came instead. It is mostly gone if less than a quarter of what it
    promised is promised still, which is then taken off its promise. What it promised is its interval: how much shorter
    a mean step would surely be, and at most. What came is the difference of the mean steps, over the steps that the
    advisor looks at. Where several findings are gone at once nobody can tell which of them brought what: the sum of
    what they promised is held against what came. Findings that claim time which another one counts have been charged
    with what is left, so the sum counts no time twice.

    Nothing is credited where it cannot be: between runs on different devices or of different programs (*void*), where
    the step is not known to have changed (*noise*), and to a finding whose kernel takes at least half its time still,
    though nothing tells any more what launched it, as in a replayed graph (*still runs*).

    Limits. All that changed between the runs is in what came, also what no finding is about. Findings that stand for no
    time (memory, what was not recorded) promise nothing, and have no row.

    Args:
        runs: in order; each but the last is held against the next.
        select: what is looked at in each.

    Raises:
        InputError: a run cannot be read.
    """
    parts = [part_of(run, select) for run in jobs_of(runs)]
    advice = [advise(run, select=part) for run, part in parts]
    facts = [run_facts(run, each, select=part) for (run, part), each in zip(parts, advice, strict=True)]
    return delivery_of_advice([run.path for run, _ in parts], advice, facts)


def run_facts(run: Job, advice: Advice, *, select: Selection = ALL) -> RunFacts:
    """Facts that must be known of a run besides the advice about it.

    Raises:
        InputError: it cannot be read.
    """
    chosen = default_to_steady(select)
    steps = named("step_breakdown")(run, select=chosen).frame
    places = [name for name in ("cycle", "step") if name in steps.columns]
    times = steps.group_by(places, maintain_order=True).agg(pl.col("duration").mean()).get_column("duration")
    kernels = named("kernels")(run, select=chosen).frame.group_by("name").agg(pl.col("total").sum())
    rows = {(one.rank, one.row): one for finding in advice.findings for one in finding.evidence if one.row is not None}
    shown = run.map(_names_of_work, _PROMISES, ALL, rows=tuple((rank, row) for rank, row in rows if rank is not None))
    names = {(rank, row): name for rank, row, name in shown.frame.select("rank", "row", "name").iter_rows()}
    of_findings = {
        (finding.code, finding.key): names[one.rank, one.row]
        for finding in advice.findings
        for one in finding.evidence
        if (one.rank, one.row) in names
    }
    return RunFacts(
        program(run),
        tuple(times.to_list()),
        {name: time / max(steps.height, 1) for name, time in kernels.iter_rows()},
        of_findings,
    )


def _names_of_work(trace: Trace, _: Selection, *, rows: tuple[tuple[int, int], ...]) -> Partial:
    mine = np.array(sorted({row for rank, row in rows if rank == trace.source.rank}), np.int64)
    mine = mine[np.isin(mine, device_work(trace).rows)]
    names = trace.strings.labels(trace.name[mine].tolist())
    return Partial(pl.DataFrame({"row": mine, "name": names}, schema=_PROMISES.per_rank.types))


def delivery_of_advice(names: Sequence[str], advice: Sequence[Advice], facts: Sequence[RunFacts] = ()) -> Result:
    """The same of runs about which the advisor has said all; `names` are shown, `facts` those of each run."""
    rows = []
    for place, (before, after) in enumerate(pairwise(advice)):
        name, following = names[place : place + 2]
        gain = delivered(before, after, facts[place : place + 2])
        for finding in (*gain.gone, *gain.hidden):
            is_hidden = finding in gain.hidden
            rows.append(
                (
                    name,
                    following,
                    finding.code,
                    finding.title,
                    "still runs" if is_hidden else _status(finding, gain),
                    round(finding.stake.low),
                    round(finding.stake.high),
                    len(gain.gone),
                    round(gain.low),
                    round(gain.high),
                    round(gain.brought),
                    "void" if is_hidden else gain.outcome,
                )
            )
    frame = RESULT.frame(rows)
    return Result(frame, RESULT, (), "delivery", {"runs": list(names)})


def _status(finding: Finding, gain: DeliveredGain) -> str:
    return "mostly gone" if (finding.code, finding.key) in gain.left else "gone"


def delivered(before: Advice, after: Advice, facts: Sequence[RunFacts] = ()) -> DeliveredGain:
    """The promise of the findings of one run that the next one does not have, and what came.

    Args:
        before: about the one run.
        after: about the next.
        facts: of both; where they are not known all is credited.
    """
    smaller = list(_smaller(before.findings, after.findings))
    lost = sorted([*_gone(before.findings, after.findings), *smaller], key=_order)
    hidden = tuple(finding for finding in lost if facts and _still_runs(finding, *facts))
    gone = tuple(finding for finding in lost if finding not in hidden)
    low = sum(finding.stake.low for finding in gone)
    high = min(sum(finding.stake.high for finding in gone), before.step)
    left = frozenset((finding.code, finding.key) for finding in smaller)
    brought = before.step - after.step
    if not facts:
        return DeliveredGain(gone, left, low, max(high, low), brought)
    one, other = facts
    (verdict,) = changes([([one.steps], [other.steps])])
    void = other.program.difference_from(one.program)
    return DeliveredGain(gone, left, low, max(high, low), brought, verdict.word, void, hidden)


def _still_runs(finding: Finding, before: RunFacts, after: RunFacts) -> bool:
    """Does the kernel that a finding showed still take at least half its time?"""
    name = before.shown.get((finding.code, finding.key))
    return name is not None and after.kernels.get(name, 0.0) >= _STILL_RUNS_SHARE * before.kernels.get(name, np.inf)


def _order(finding: Finding) -> tuple[float, str, str]:
    return (-finding.stake.middle, finding.code, finding.key)


def _smaller(before: Sequence[Finding], after: Sequence[Finding]) -> Iterator[Finding]:
    """The findings of which little is left, with the stake that is gone."""
    there = {(finding.code, finding.key): finding.stake for finding in after}
    for finding in before:
        left = there.get((finding.code, finding.key))
        if left is not None and finding.stake.high > 0 and left.middle < _MOSTLY_GONE_SHARE * finding.stake.middle:
            gone = Stake(max(finding.stake.low - left.high, 0.0), finding.stake.high - left.low)
            yield replace(finding, stake=gone)


def _gone(before: Sequence[Finding], after: Sequence[Finding]) -> Iterator[Finding]:
    """The findings of each code whose key is not there any more, less those that came under another key instead."""
    here = {(finding.code, finding.key) for finding in before}
    there = {(finding.code, finding.key) for finding in after}
    moved: dict[str, int] = {}
    for code, _ in there - here:
        moved[code] = moved.get(code, 0) + 1
    left: dict[str, int] = {}
    for code, _ in here - there:
        left[code] = left.get(code, 0) + 1
    for finding in sorted(before, key=_order):
        if (finding.code, finding.key) in there or finding.stake.high <= 0:
            continue
        if left[finding.code] > moved.get(finding.code, 0):
            left[finding.code] -= 1
            yield finding
