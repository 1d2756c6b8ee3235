"""Advice: what should be changed, and what would it bring? The findings of all rules about a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import Final, cast, overload

import polars as pl

from kinetoscope import dispatch
from kinetoscope.advisor.commands import command
from kinetoscope.advisor.evidence.communication import collectives_of_steps, collectives_question
from kinetoscope.advisor.finding import WARNING_SHARE, Evidence, Finding
from kinetoscope.advisor.history import with_records
from kinetoscope.advisor.join_ranks import findings_of_ranks, joined_findings
from kinetoscope.advisor.laws import within_step
from kinetoscope.advisor.recorded import NO_RULE_FITS, kinds_of_job, what_is_recorded
from kinetoscope.advisor.rule import NO_PROGRAM, OF_JOB, JobView
from kinetoscope.advisor.rules import own_rules, rules
from kinetoscope.advisor.run_rules import FACT, FINDINGS, facts_of, findings_of_rank, rank_findings, run_rules
from kinetoscope.advisor.wording import of_window
from kinetoscope.analyses import asked
from kinetoscope.errors import UsageError, nearest
from kinetoscope.model.analysis import Question
from kinetoscope.model.execution.program import ProgramKind
from kinetoscope.model.job import Job, Readable, part_of
from kinetoscope.model.steps.selection import ALL, Selection, default_to_steady
from kinetoscope.model.trace.text import listed, number_of
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.numbers import scale, shown
from kinetoscope.views.sentences import EMPTY, Sentence, cell, constant, join, measured, say

_PLACES: Final = pl.List(pl.Struct(dict.fromkeys(("id", "text", "file", "command"), pl.String)))

RESULT = Schema(
    Column("number", pl.Int64, "Number of the finding; its evidence has the ids number.1, number.2, …"),
    Column("code", pl.String, "Code of the rule; `kinetoscope advise --explain CODE` says more."),
    Column("severity", pl.String, "critical, warning or note, by the share of the step at stake; see What to change."),
    Column(
        "certainty",
        pl.String,
        "sure: the trace proves half of the upper end or more; likely: it rests on how something scales; guess.",
    ),
    Column("message", pl.String, "What is wrong; its first sentence can stand alone."),
    Column("at_stake_low", pl.Int64, "How much shorter an average step would be at least.", "ns"),
    Column("at_stake_high", pl.Int64, "How much shorter it would be at most.", "ns"),
    Column("share_low", pl.Float64, "The same as a share of the average step: at least.", "fraction"),
    Column("share_high", pl.Float64, "The same as a share of the average step: at most.", "fraction"),
    Column("step", pl.Int64, "The average step that the finding is about.", "ns"),
    Column(
        "takes",
        pl.Int64,
        "Time of it that the named thing takes, over ranks as the time at stake; null where no time is meant.",
        "ns",
    ),
    Column("confidence", pl.String, "high: the trace shows the mechanism; medium: inferred; low: a guess."),
    Column("why", pl.String, "What the time at stake rests on."),
    Column("change", pl.String, "What to do, as lines of a diff."),
    Column("ranks", pl.String, "Ranks that it was found on; empty where it is about all together."),
    Column("same_time_as", pl.String, "Code of a finding that counts most of the same time already; else empty."),
    Column("facts", pl.List(FACT), "The numbers and names of its sentences: in which, name, as shown, and as stored."),
    Column("evidence", pl.String, "What is to be seen where, in words."),
    Column("analysis", pl.String, "The analysis that shows it; null for none."),
    Column("rank", pl.Int64, "Rank of the evidence; null where all are meant."),
    Column("start", pl.Int64, "Start of the evidence, from the first event of the trace on.", "ns", instant=True),
    Column("end", pl.Int64, "End of the evidence, from the first event of the trace on.", "ns", instant=True),
    Column("row", pl.Int64, "Row of the event that is the evidence; null for none."),
    Column("file", pl.String, "Source file; null for none."),
    Column("line", pl.Int64, "Line of the source file; null for none."),
    Column("places", _PLACES, "All evidence: its id, what is to be seen, `file:line`, and the command that shows it."),
)

METHOD: Final = (
    "The time at stake is the difference between the recorded steps and their replay without the fault; time that"
    " device work hides does not count. Time that two findings share is counted by the first. Sure is what the trace"
    " proves; likely is what rests on how something scales."
)
"""How findings are computed: said once wherever they are shown, and in full by each rule."""

_MIN_SHOWN_SHARE: Final = 0.0005
"""Share of a step below which the lower end is shown as none."""


@dataclass(frozen=True, slots=True, repr=False)
class Advice:
    """The findings about a job: the most severe first, of the same severity those with most at stake at most.

    Attributes:
        findings: what to change.
        step: the average step of all ranks, ns.
        notes: what was left out or assumed.
        program: what the program does.
        path, ranks: the job, for the commands that show more.
        select: the part of it that was examined.
        limits: a sentence that rules about one rank were asked of some ranks only; "" if of all.
        recorded: sentences on what the file records, where that is no program at work, so that most rules do not fit.
        whole: nothing marks steps, so that the whole window counts as one.
    """

    findings: tuple[Finding, ...]
    step: float
    notes: tuple[Note, ...] = ()
    program: ProgramKind = "unknown"
    path: str = "PATH"
    ranks: int = 1
    limits: str = ""
    select: Selection = ALL
    recorded: Sentence = EMPTY
    whole: bool = False

    def __len__(self) -> int:
        return len(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __contains__(self, finding: object) -> bool:
        """Is it one of the findings, or the code of one?"""
        return finding in self.findings or any(each.code == finding for each in self.findings)

    @overload
    def __getitem__(self, which: int | str) -> Finding: ...

    @overload
    def __getitem__(self, which: slice) -> tuple[Finding, ...]: ...

    def __getitem__(self, which: int | str | slice) -> Finding | tuple[Finding, ...]:
        """A finding by its place or, of those with a code the first, by that; `"HOST004" in advice` asks for one.

        Raises:
            UsageError: there is no finding of this code.
        """
        if not isinstance(which, str):
            return self.findings[which]
        codes = [each.code for each in self.findings]
        if which not in codes:
            near = nearest(which, codes)
            raise UsageError(f"no finding is {which!r}{near}; there are {', '.join(dict.fromkeys(codes)) or 'none'}")
        return self.findings[codes.index(which)]

    @property
    def timed(self) -> tuple[Finding, ...]:
        """The findings that cost time."""
        return tuple(finding for finding in self.findings if finding.stake.high > 0)

    @property
    def notable(self) -> tuple[Finding, ...]:
        """The findings that may cost so much of a step that they are worth a headline."""
        return tuple(finding for finding in self.timed if finding.stake.high >= WARNING_SHARE * self.step)

    @property
    def measure(self) -> Sentence:
        """The step that the time at stake is a part of, as a sentence without its end."""
        if not self.step:
            return say("There are no steps to measure by")
        step = measured(self.step, "ns")
        if self.whole:
            return say("The window of {step} has no steps and counts as one", step=step)
        if self.ranks == 1:
            return say("A step takes {step}", step=step)
        return say("A step takes {step} on average over {ranks} ranks", step=step, ranks=measured(self.ranks))

    @property
    def headline(self) -> Sentence:
        """The first finding in one sentence, the same on all faces; a timeless one if critical or no time is known."""
        if self.notable:
            return self._promise(self.notable[0])
        if self.recorded and not self.of("critical"):
            return join([self.recorded, NO_RULE_FITS])
        if timeless := self.of("critical") or (() if self.step else self.findings):
            return join([timeless[0].title, "."], "")
        if self.timed:
            least = constant(WARNING_SHARE, "fraction").words(f"{WARNING_SHARE:.0%}")
            return say("No finding costs more than {least} of a step.", least=least)
        if not self.step:
            return say("No rule could be asked: there is no time of a program to examine.")
        return say("No rule finds anything that costs time.")

    @property
    def first(self) -> Sentence:
        """The headline for a face that says itself what the file records."""
        return NO_RULE_FITS if self.recorded and self.headline.endswith(NO_RULE_FITS) else self.headline

    def _promise(self, finding: Finding) -> Sentence:
        """`Up to 296 ms of 603 ms (49%): all ranks wait for rank 0; 120 ms of it is sure.`."""
        table, row = self.result, self.findings.index(finding) + 1
        high, low = (
            cell(table, f"at_stake_{end}", number=row).words(shown(getattr(finding.stake, end), "ns"))
            for end in ("high", "low")
        )
        share = EMPTY
        if finding.step:
            part = cell(table, "share_high", number=row).words(f"{finding.stake.high / finding.step:.0%}")
            share = say(" of {step} ({part})", step=cell(table, "step", number=row), part=part)
        what = _within_a_sentence(finding.title)
        if finding.certainty == "guess":
            return say("At most {high}{share}, a guess: {what}.", high=high, share=share, what=what)
        if low.text == high.text:
            return say("{high}{share}: {what}.", high=high, share=share, what=what)
        if not is_part_sure(finding):
            return say("Up to {high}{share}: {what}; none of it is sure.", high=high, share=share, what=what)
        if finding.confidence == "high":
            return say("Up to {high}{share}: {what}; {low} of it is sure.", high=high, share=share, what=what, low=low)
        return say("Up to {high}{share}: {what}; {low} of it is likely.", high=high, share=share, what=what, low=low)

    def of(self, *severities: str) -> tuple[Finding, ...]:
        """The findings of some severities."""
        return tuple(finding for finding in self.findings if finding.severity in severities)

    @property
    def result(self) -> Result:
        """The same as a table: a row each, with the most telling evidence."""
        rows = [_row(number, each, self) for number, each in enumerate(self.findings, 1)]
        frame = RESULT.frame(rows)
        return Result(frame, RESULT, self.notes, "advise", {} if self.select == ALL else {"select": self.select})

    def __str__(self) -> str:
        return dispatch.text(self)

    def __repr__(self) -> str:
        return f"<Advice with {number_of(len(self.findings), 'finding')}: {self.headline}>"

    def _repr_html_(self) -> str:
        return dispatch.html(self)


def advise(job: Job | Readable, *, select: Selection = ALL, only: Sequence[int] | None = None) -> Advice:
    """The findings of all rules about a job.

    All steps but those of the warm-up are selected if `select` names none. Each rank is examined by itself, where its
    trace is; then all together. A finding of most ranks is one finding, with the median of their stakes. A finding of
    few ranks shortens the step only if the others do not wait for something else, so no part of it is certain.

    Args:
        job: what is examined.
        select: the part of it.
        only: ranks to which rules about one rank are limited; those about all ranks together compare all. None: all.

    Raises:
        InputError: no rank can be read.
    """
    job, select = part_of(job, select)
    return advice_from(job, select, only, job.ask(advice_questions(job, select, only)))


def advice_questions(
    job: Job, select: Selection, only: Sequence[int] | None = None, *, planned: bool = False
) -> dict[str, Question]:
    """The questions that `advice_from` needs the answers to; `planned`: and a plan."""
    select = default_to_steady(select)
    params = {"own": own_rules(), "only": None if only is None else tuple(only), "planned": planned}
    questions = {
        OF_RANKS: Question(findings_of_rank, FINDINGS, select, params),
        _KINDS: asked("recording_kinds", select=select),
    }
    if len(job.ranks) > 1:
        questions |= {_of_job(*each): asked(each[0], select=select, **each[1]) for each in OF_JOB}
        questions[_COLLECTIVES] = collectives_question(select)
    return questions


OF_RANKS, _KINDS, _COLLECTIVES = "findings of rules", "recording_kinds of rules", "collectives of rules"
"""Names of questions that no analysis has."""


def _of_job(name: str, params: Mapping[str, str]) -> str:
    return f"{name} {dict(params)} of rules"


def advice_from(job: Job, select: Selection, only: Sequence[int] | None, answers: Mapping[str, Result]) -> Advice:
    """The advice that follows from the answers to `advice_questions`; others may be among them."""
    select, answer = default_to_steady(select), answers[OF_RANKS]
    step, findings = findings_of_ranks(answer.frame)
    ranks = answer.frame.get_column("rank").unique().to_list()
    findings = list(joined_findings(findings, len(ranks if only is None else {*ranks} & {*only}), step))
    kinds = answer.frame.get_column("program").drop_nulls().mode().sort()
    program = cast(ProgramKind, kinds[0]) if len(kinds) else "unknown"
    failures: list[Note] = []
    of_file = answers[_KINDS]
    recorded = kinds_of_job(of_file, len(ranks))
    if len(job.ranks) > 1:
        view = job_view(job, select, program, answers)
        claims, failures = run_rules(
            ((rule.code, rule.of_job) for rule in rules() if rule.fits(recorded, program)), view, "job"
        )
        findings += rank_findings(claims, replace(view.step_time, length=step))
    limits = EMPTY if only is None else _limits(only, len(ranks))
    whole = bool(answer.frame.get_column("whole").all())
    ranked = _worded(with_records(sorted(within_step(findings, step), key=attrgetter("order"))), whole=whole)
    notes = (*answer.notes, *failures, *([Note("SOME_RANKS", limits)] if limits else []))
    return Advice(
        findings=ranked,
        step=step,
        notes=notes,
        program=program,
        path=job.path,
        ranks=len(job.ranks),
        limits=limits,
        select=select,
        recorded=what_is_recorded(of_file) if recorded & NO_PROGRAM else EMPTY,
        whole=whole,
    )


def _worded(findings: tuple[Finding, ...], *, whole: bool) -> tuple[Finding, ...]:
    """The findings in words of a step, or of the window where that counts as one."""
    if not whole:
        return findings
    return tuple(replace(each, message=of_window(each.message), why=of_window(each.why)) for each in findings)


def job_view(job: Job, select: Selection, program: ProgramKind, answers: Mapping[str, Result]) -> JobView:
    """The view of a job of several ranks that follows from the answers to `advice_questions`."""
    view = JobView(job, select, program, [answers[_of_job(*each)] for each in OF_JOB])
    view.remember(answers[_COLLECTIVES], collectives_of_steps)
    return view


def _limits(only: Sequence[int], ranks: int) -> Sentence:
    if not only:
        return say(
            "Rules about one rank examined none of {ranks} ranks, {why}", ranks=measured(ranks), why=_WHY_SOME_RANKS
        )
    return say(
        "Rules about one rank examined {examined} of {ranks} ranks ({which}), {why}",
        examined=measured(len(only)),
        ranks=measured(ranks),
        which=measured(len(only)).words(listed(only)),
        why=_WHY_SOME_RANKS,
    )


_WHY_SOME_RANKS: Final = "as all traces together are large: kinetoscope advise examines all."

_NAMES: Final = ("Python", "Python's")
"""What begins sentences of ours and keeps its capital letter within another sentence; so does what has several."""


def is_part_sure(finding: Finding) -> bool:
    """Is so much of the stake sure that it is shown?"""
    return finding.stake.low >= _MIN_SHOWN_SHARE * finding.step


def stake_text(finding: Finding) -> str:
    """`28.4 – 53.6 ms (17 – 32%)`; of what is not sure, `up to 53.6 ms (32%)`."""
    low, high = (_share(end / finding.step) for end in (finding.stake.low, finding.stake.high))
    share = high if low == high or not is_part_sure(finding) else f"{low.removesuffix('%')} – {high}"
    return f"{stake_of(finding)} ({share})"


def stake_of(finding: Finding) -> str:
    """`28.4 – 53.6 ms`; of what is not sure, `up to 53.6 ms`."""
    low, high = finding.stake.low, finding.stake.high
    unit = scale([high], "ns")
    last = unit.with_unit(high)
    if not is_part_sure(finding):
        return f"up to {last}"
    return last if unit.with_unit(low) == last else f"{unit.text(low)} – {last}"


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"


def _within_a_sentence(title: str) -> Sentence:
    """A title that follows a colon: its first letter is small unless it begins a name."""
    word = title.partition(" ")[0]
    is_name = word in _NAMES or not (word == "A" or word[1:].islower())
    text = title if is_name else title[:1].lower() + title[1:]
    return Sentence(text, title.quantities if isinstance(title, Sentence) else ())


def _row(number: int, finding: Finding, advice: Advice) -> dict[str, object]:
    place = asdict(finding.evidence[0] if finding.evidence else Evidence(""))
    share = finding.share
    places = [
        {
            "id": f"{number}.{at}",
            "text": each.text,
            "file": f"{each.file}:{each.line}" if each.file else None,
            "command": command(each, advice.path, advice.ranks) or None,
        }
        for at, each in enumerate(finding.evidence, 1)
    ]
    return {
        "number": number,
        "code": finding.code,
        "severity": finding.severity,
        "certainty": finding.certainty,
        "message": finding.message,
        "at_stake_low": round(finding.stake.low),
        "at_stake_high": round(finding.stake.high),
        "share_low": share and share.low,
        "share_high": share and share.high,
        "step": round(finding.step),
        "takes": None if finding.takes is None else round(finding.takes),
        "confidence": finding.confidence,
        "why": finding.why,
        "change": finding.change,
        "ranks": listed(finding.ranks),
        "same_time_as": finding.same_time_as,
        "facts": facts_of(finding),
        "evidence": place["text"],
        **{name: place[name] for name in ("analysis", "rank", "start", "end", "row", "file", "line")},
        "places": places,
    }
