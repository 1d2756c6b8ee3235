"""What should be changed, and what would it bring? The findings of all rules about a job."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from operator import attrgetter
from typing import Final, cast

import polars as pl

from kinetoscope.advisor.finding import SEVERITIES, WARNING, Finding, Stake, severity
from kinetoscope.advisor.rule import JobView
from kinetoscope.advisor.rules import rules
from kinetoscope.advisor.run_rules import CLAIMS, asked, ranked, survey, unpacked
from kinetoscope.model.execution.program import ProgramKind
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL, Selection, settled
from kinetoscope.model.trace.text import listed
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.numbers import shown
from kinetoscope.views.text import printable

RESULT = Schema(
    Column("code", pl.String, "Code of the rule; `kinetoscope advise --explain CODE` says more."),
    Column("severity", pl.String, "critical, warning or note, by the share of the step at stake; see What to change."),
    Column("certainty", pl.String, "sure: at least half of the upper end; likely: less; guess: not measured."),
    Column("message", pl.String, "What is wrong; its first sentence can stand alone."),
    Column("at_stake_low", pl.Int64, "How much shorter an average step would surely be.", "ns"),
    Column("at_stake_high", pl.Int64, "How much shorter it would be at most.", "ns"),
    Column("share_low", pl.Float64, "The same as a share of the average step: surely.", "fraction"),
    Column("share_high", pl.Float64, "The same as a share of the average step: at most.", "fraction"),
    Column("confidence", pl.String, "high: measured; medium: inferred; low: a guess."),
    Column("why", pl.String, "What the time at stake rests on."),
    Column("change", pl.String, "What to do, as lines of a diff."),
    Column("ranks", pl.String, "Ranks that it was found on; empty where it is about all together."),
    Column("same_time_as", pl.String, "Code of a finding that counts most of the same time already; else empty."),
    Column("evidence", pl.String, "What is to be seen where, in words."),
    Column("analysis", pl.String, "The analysis that shows it; null for none."),
    Column("rank", pl.Int64, "Rank of the evidence; null where all are meant."),
    Column("start", pl.Int64, "Start of the evidence, from the first event of the trace on.", "ns", instant=True),
    Column("end", pl.Int64, "End of the evidence, from the first event of the trace on.", "ns", instant=True),
    Column("row", pl.Int64, "Row of the event that is the evidence; null for none."),
    Column("file", pl.String, "Source file; null for none."),
    Column("line", pl.Int64, "Line of the source file; null for none."),
)

METHOD: Final = (
    "The time at stake is what a replay of the recorded steps without the fault is shorter by; what device work hides"
    " brings nothing. Of time that two findings share, the first counts all."
)
"""How findings are computed: said once wherever they are shown, and in full by each rule."""

_NOTHING: Final = 0.0005
"""Share of a step under which the lower end is shown as nothing."""

_EVERYWHERE: Final = 0.9
"""Share of the ranks from which on a finding is about all of them."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The findings about a job: the most severe first, of the same severity those with most at stake at most.

    Attributes:
        findings: what to change.
        step: the average step of all ranks, ns.
        notes: what was left out or assumed.
        program: what the program does.
    """

    findings: tuple[Finding, ...]
    step: float
    notes: tuple[str, ...] = ()
    program: ProgramKind = "unknown"

    @property
    def timed(self) -> tuple[Finding, ...]:
        """Those that cost time."""
        return tuple(finding for finding in self.findings if finding.stake.high > 0)

    @property
    def notable(self) -> tuple[Finding, ...]:
        """Those that may cost so much of a step that they are worth a headline."""
        return tuple(finding for finding in self.timed if finding.stake.high >= WARNING * self.step)

    @property
    def headline(self) -> str:
        """The first finding in one sentence, the same on all faces."""
        if self.notable:
            return _sentence(self.notable[0])
        return (
            f"No finding costs more than {WARNING:.0%} of a step."
            if self.timed
            else "No rule finds anything that costs time."
        )

    def of(self, *severities: str) -> tuple[Finding, ...]:
        """Those of some severities."""
        return tuple(finding for finding in self.findings if finding.severity in severities)

    @property
    def result(self) -> Result:
        """The same as a table: a row each, with the most telling evidence."""
        frame = pl.DataFrame([_row(each) for each in self.findings], schema={c.name: c.dtype for c in RESULT})
        return Result(frame, RESULT, self.notes, "advise")

    def __str__(self) -> str:
        return f"{self.headline}\n{self.result}"

    def _repr_html_(self) -> str:
        return f"<p><b>{escape(printable(self.headline))}</b></p>{self.result._repr_html_()}"


def advise(job: Job, *, select: Selection = ALL) -> Advice:
    """Look at a job with all rules.

    All steps but those of the warm-up are looked at if `select` names none. Each rank is looked at by itself, where
    its trace is; then all together. What was found on most ranks is one finding, with the middle of their stakes; what
    was found on few shortens the step only if the others do not wait for something else, so nothing of it is sure.

    Raises:
        InputError: no rank can be read.
    """
    return of_all_ranks(of_ranks_alone(claims(job, select=select)), job, select)


def of_all_ranks(alone: Advice, job: Job, select: Selection = ALL) -> Advice:
    """The same with what only all ranks together tell."""
    if len(job.ranks) < 2:
        return alone
    look = JobView(job, settled(select), alone.program)
    said, failed = asked(((rule.code, rule.of_job) for rule in rules()), look, "job")
    findings = sorted([*alone.findings, *ranked(said, alone.step)], key=attrgetter("order"))
    return replace(alone, findings=tuple(findings), notes=(*alone.notes, *failed))


def of_ranks_alone(answer: Result) -> Advice:
    """What the answer of `claims` says, without what only all ranks together tell."""
    step, alone = _of_ranks(answer.frame)
    findings = sorted(_joined(alone, answer.frame.get_column("rank").n_unique(), step), key=attrgetter("order"))
    return Advice(tuple(findings), step, answer.notes, _program(answer.frame))


def claims(job: Job, *, select: Selection = ALL) -> Result:
    """What do the rules find on each rank by itself?"""
    return job.map(survey, CLAIMS, settled(select))


def _program(answers: pl.DataFrame) -> ProgramKind:
    """What most ranks do."""
    kinds = answers.get_column("program").drop_nulls().mode().sort()
    return cast(ProgramKind, kinds[0]) if len(kinds) else "unknown"


_COMMON: Final = (
    *("A ", "An ", "The ", "All ", "Each ", "Many ", "Some ", "In ", "One ", "More ", "Host ", "Device ", "Devices "),
    *("Copies ", "Images ", "Matrix ", "Attention ", "Computation ", "Gradients ", "Parameters ", "Graph ", "Process "),
)
"""How sentences begin whose first letter is small within another sentence."""


def is_part_sure(finding: Finding) -> bool:
    """Is so much of the stake sure that it is shown?"""
    return finding.stake.low >= _NOTHING * finding.step


def _sentence(finding: Finding) -> str:
    """`Up to 296 ms of 603 ms (49%): all ranks wait for rank 0; …`."""
    low, high = (shown(end, "ns") for end in (finding.stake.low, finding.stake.high))
    share = f" of {shown(finding.step, 'ns')} ({finding.stake.high / finding.step:.0%})" if finding.step else ""
    title = finding.title
    title = title[:1].lower() + title[1:] if title.startswith(_COMMON) else title
    if low == high:
        return f"{high}{share}: {title}."
    sure = low if is_part_sure(finding) else "none"
    return f"Up to {high}{share}: {title}; {sure} of it is sure."


def _of_ranks(answers: pl.DataFrame) -> tuple[float, list[Finding]]:
    """The average step, and what each rank's findings are over all its cycles, each weighted by its steps."""
    step, found = 0.0, []
    cycles = answers.unique(["rank", "cycle"] if "cycle" in answers.columns else ["rank"], maintain_order=True)
    steps = dict(cycles.group_by("rank").agg(pl.col("steps").sum()).iter_rows())
    if total := cycles.get_column("steps").sum():
        step = cycles.select((pl.col("step") * pl.col("steps")).sum() / total).item()
    parts: dict[tuple[int, str, str], list[tuple[Finding, int]]] = {}
    beside = {rule.code for rule in rules() if rule.alone} if answers["rank"].n_unique() > 1 else ()
    for rank, text, count in answers.drop_nulls("finding").select("rank", "finding", "steps").iter_rows():
        finding = unpacked(text)
        if finding.code in beside:
            continue
        parts.setdefault((rank, finding.code, finding.key), []).append((finding, count))
    for (rank, _, _), each in parts.items():
        low, high = (
            sum(getattr(finding.stake, end) * count for finding, count in each) / (steps[rank] or 1)
            for end in ("low", "high")
        )
        worst = max((finding for finding, _ in each), key=lambda finding: finding.stake.middle)
        stake = Stake(low, high) if steps[rank] else worst.stake
        most = max((finding.severity for finding, _ in each), key=SEVERITIES.index)
        found.append(replace(worst, stake=stake, step=step, severity=severity(stake, step, worst.confidence, most)))
    return step, found


def _joined(findings: Sequence[Finding], ranks: int, step: float) -> Iterator[Finding]:
    """What several ranks say, said once."""
    same: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        same.setdefault((finding.code, finding.key), []).append(finding)
    for each in same.values():
        if ranks == 1:
            yield from each
            continue
        low = statistics.median(finding.stake.low for finding in each)
        high = statistics.median(finding.stake.high for finding in each)
        worst = max(each, key=lambda finding: finding.stake.middle)
        found_on = tuple(sorted({rank for finding in each for rank in finding.ranks}))
        stake = Stake(low if len(found_on) >= _EVERYWHERE * ranks else 0.0, high)
        most = max((finding.severity for finding in each), key=SEVERITIES.index)
        yield replace(
            worst, stake=stake, step=step, severity=severity(stake, step, worst.confidence, most), ranks=found_on
        )


def _row(finding: Finding) -> dict[str, object]:
    shown = finding.evidence[0] if finding.evidence else None
    step = finding.step or None
    return {
        "code": finding.code,
        "severity": finding.severity,
        "certainty": finding.certainty,
        "message": finding.message,
        "at_stake_low": round(finding.stake.low),
        "at_stake_high": round(finding.stake.high),
        "share_low": finding.stake.low / step if step else None,
        "share_high": finding.stake.high / step if step else None,
        "confidence": finding.confidence,
        "why": finding.why,
        "change": finding.change,
        "ranks": listed(finding.ranks),
        "same_time_as": finding.same_time_as,
        "evidence": shown.text if shown else "",
        "analysis": shown.analysis or None if shown else None,
        "rank": shown.rank if shown and shown.rank >= 0 else None,
        "start": shown.start if shown and shown.start >= 0 else None,
        "end": shown.end if shown and shown.end >= 0 else None,
        "row": shown.row if shown and shown.row >= 0 else None,
        "file": shown.file or None if shown else None,
        "line": shown.line or None if shown else None,
    }
