"""The plan: in which order to make the changes, what each saves after those before it, and what the limit is then."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import polars as pl

from kinetoscope import dispatch
from kinetoscope.advisor.advice import OF_RANKS, Advice, advice_from, advice_questions, job_view
from kinetoscope.advisor.evidence.stakes import WELL_BELOW
from kinetoscope.advisor.finding import Finding, Stake
from kinetoscope.advisor.join_ranks import findings_of_ranks, joined_findings
from kinetoscope.model.critical_path.path import CAUSES
from kinetoscope.model.job import Job, Readable, part_of
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.trace.text import number_of
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.sentences import EMPTY, Sentence, cell, join, say

RESULT = Schema(
    Column("number", pl.Int64, "Place in the plan, from 1 on."),
    Column("code", pl.String, "Code of the rule; `kinetoscope advise --explain CODE` says more."),
    Column("key", pl.String, "Which of several findings of the rule: the name of an operator, a source line."),
    Column("title", pl.String, "What is wrong."),
    Column("certainty", pl.String, "sure, likely or guess, as in `advise`."),
    Column("device_time", pl.Int64, "Device time of a step that goes with it at most, after those before it.", "ns"),
    Column("saves_low", pl.Int64, "How much shorter an average step becomes by it after those before it: least.", "ns"),
    Column("saves_high", pl.Int64, "The same: most.", "ns"),
    Column("alone_low", pl.Int64, "How much shorter it would become by this alone: at least.", "ns"),
    Column("alone_high", pl.Int64, "The same: at most.", "ns"),
    Column("remains_low", pl.Int64, "The average step then, if each finding so far brings the most.", "ns"),
    Column("remains_high", pl.Int64, "The same, if each brings the least.", "ns"),
    Column(
        "limit",
        pl.String,
        "The cause of most of the critical path then, replayed with the most of each; null where nothing is replayed.",
    ),
    Column("limit_time", pl.Int64, "Its time in an average step of that replay.", "ns"),
    Column("replayed", pl.Int64, "The average step of that replay: the sum of the eight causes.", "ns"),
    *(Column(name, pl.Int64, f"Its part of cause {name}, as in `critical-path`.", "ns") for name in CAUSES),
    Column("change", pl.String, "What to do, as lines of a diff."),
)

_LIMITS: Final = {
    "host": "the host",
    "data_loading": "loading data",
    "launch": "launching",
    "computation": "computation on the device",
    "communication": "communication, in which ranks wait for one another",
    "copies": "copies on the device",
    "gaps": "gaps between work on the device",
    "other": "what nothing explains",
}
"""Words for the limit of the steps, by cause."""

_Which = tuple[str, str]
"""Code and key of a finding."""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A finding in its place.

    Attributes:
        finding: what to change; its `stake` is what `advise` says, where findings share time.
        alone: what it saves of an average step if nothing else is done, ns.
        after: what it saves after those before it.
        remaining: the average step then, ns.
        device: the device time of it that goes with the step of the plan at most, ns.
        causes: what the replayed step is made of then, ns by `CAUSES`; () from the first finding on that no replay has.
    """

    finding: Finding
    alone: Stake
    after: Stake
    remaining: Stake
    device: float
    causes: tuple[float, ...]

    @property
    def code(self) -> str:
        """The code of its rule."""
        return self.finding.code

    @property
    def key(self) -> str:
        """The operator or source line that tells several findings of the rule apart."""
        return self.finding.key

    @property
    def title(self) -> Sentence:
        """The trouble in a sentence without a full stop."""
        return self.finding.title

    @property
    def limit(self) -> str:
        """The cause that most of the replayed step is due to then, one of `CAUSES`; "" where nothing was replayed."""
        return _greatest(self.causes)


@dataclass(frozen=True, repr=False)
class AdvicePlan:
    """The findings with time at stake in the order of a plan.

    Attributes:
        advice: all findings, as `advise` has them.
        steps: the first is what to change first.
        causes: what the recorded step is made of, ns by `CAUSES`.
    """

    advice: Advice
    steps: tuple[PlanStep, ...]
    causes: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[PlanStep]:
        return iter(self.steps)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes on what was left out or assumed."""
        several = [Note("PLAN_OF_RANKS", _OF_RANKS)] if self.advice.ranks > 1 and self.steps else []
        return (*self.advice.notes, *several)

    @cached_property
    def result(self) -> Result:
        """The same as a table: a row each."""
        rows = [_row(number, each) for number, each in enumerate(self.steps, 1)]
        select = {} if self.advice.select == ALL else {"select": self.advice.select}
        return Result(RESULT.frame(rows), RESULT, self.notes, "plan", select)

    @property
    def headline(self) -> Sentence:
        """The step that remains after all, and its limit, in one sentence; that of the advice if there is no step."""
        if not self.steps:
            return self.advice.headline
        last = len(self.steps)
        low, high = (cell(self.result, f"remains_{end}", number=last) for end in ("low", "high"))
        remains = say("{low}", low=low) if low.text == high.text else say("{low} to {high}", low=low, high=high)
        limit = self._limit(last)
        return say(
            "With {changes} a step takes {remains}{instead}{limit}.",
            changes=_changes(self.result, last),
            remains=remains,
            instead=say(" instead of {step}", step=cell(self.advice.result, "step", number=1))
            if self.advice.result.frame.height
            else EMPTY,
            limit=say("; {limit}", limit=limit) if limit else EMPTY,
        )

    def limit_after(self, number: int) -> Sentence:
        """`then the limit is the host: 61.0 ms of 70.7 ms`, after the step of this number; "" where it is not known.

        With the device time that goes where the step gains much less.
        """
        step = self.steps[number - 1]
        if not step.limit:
            return EMPTY
        less = EMPTY
        if step.after.high < WELL_BELOW * step.device:
            less = say(
                "of {goes} less device time a step gains {most} at most: ",
                goes=cell(self.result, "device_time", number=number),
                most=cell(self.result, "saves_high", number=number),
            )
        return join([less, self._limit(number)], "")

    def _limit(self, number: int) -> Sentence:
        step = self.steps[number - 1]
        if not step.limit:
            return EMPTY
        return say(
            "then the limit is {what}: {time} of {step}",
            what=_LIMITS[step.limit],
            time=cell(self.result, "limit_time", number=number),
            step=cell(self.result, "replayed", number=number),
        )

    def __str__(self) -> str:
        return dispatch.text(self)

    def __repr__(self) -> str:
        return f"<Plan of {number_of(len(self.steps), 'step')}: {self.headline}>"

    def _repr_html_(self) -> str:
        return dispatch.html(self)


_OF_RANKS: Final = (
    "Each rank has a plan of its own; here are the medians over the ranks, in the median order. That ranks wait for one"
    " another is not replayed: what all ranks have together counts as it is promised alone."
)


def plan(job: Job | Readable, *, select: Selection = ALL, only: Sequence[int] | None = None) -> AdvicePlan:
    """The findings of `advise` in the order in which they save most, all replayed together.

    At each place is the finding that makes the recorded steps shortest after those before it: so a change that saves
    little alone, as the host sets the pace, is worth more once the host is faster. Each step says what is saved then,
    what remains of the average step, and what most of it is made of. Each rank has a plan of its own, where its trace
    is; that of the job has the medians, in the order of the median places.

    Args:
        job: what is examined.
        select: the part of it.
        only: ranks to which rules about one rank are limited; None: all.

    Raises:
        InputError: no rank can be read.
    """
    job, select = part_of(job, select)
    return plan_from(job, select, only, job.ask(advice_questions(job, select, only, planned=True)))


def plan_from(job: Job, select: Selection, only: Sequence[int] | None, answers: Mapping[str, Result]) -> AdvicePlan:
    """The plan that follows from the answers to `advice_questions`, asked with `planned`."""
    advice, frame = advice_from(job, select, only, answers), answers[OF_RANKS].frame
    ranks = frame.get_column("rank").n_unique() if only is None else len({*frame.get_column("rank")} & {*only})
    after, alone, device = (
        _joined(frame, ranks, *ends) for ends in (("least", "most"), ("alone_low", "alone_high"), ("device", "device"))
    )
    by_key = {(each.code, each.key): each for each in advice.timed if each.change or (each.code, each.key) in after}
    recorded = _RecordedPlans.of(frame)
    ordered = sorted((which for which in after if which in by_key), key=lambda which: (recorded.place(which), *which))
    own = [(by_key[which], alone[which], after[which], device[which].high) for which in ordered]
    others = [each for which, each in by_key.items() if which not in after]
    least = job_view(job, select, advice.program, answers).step_time.least if len(job.ranks) > 1 else 0.0
    return AdvicePlan(advice, tuple(_steps(advice.step, least, _merged(own, others), recorded)), recorded.causes(()))


@dataclass(frozen=True, slots=True)
class _RecordedPlans:
    """The plans of all recordings: of each step the finding, and what is left of the step after it.

    Attributes:
        steps: how many are selected in each recording.
        now: what its steps are made of, ns by `CAUSES`.
        plans: findings, by code and key, and what the steps are made of after each.
    """

    steps: list[int]
    now: list[tuple[float, ...]]
    plans: list[list[tuple[_Which, tuple[float, ...]]]]

    @classmethod
    def of(cls, frame: pl.DataFrame) -> _RecordedPlans:
        """The plans in the answers of the ranks."""
        by = ["rank", *(["cycle"] if "cycle" in frame.columns else [])]
        recordings = frame.filter(pl.col("causes").is_not_null()).partition_by(by, maintain_order=True)
        plans = []
        for each in recordings:
            placed = each.filter(pl.col("place").is_not_null()).select("finding", pl.col("place").struct.unnest())
            rows = placed.sort("place").select("finding", "causes").iter_rows()
            plans.append([((finding["code"], finding["key"]), tuple(causes)) for finding, causes in rows])
        return cls(
            [each.item(0, "steps") for each in recordings],
            [tuple(each.item(0, "causes")) for each in recordings],
            plans,
        )

    def place(self, which: _Which) -> float:
        """The median place of a finding in the plans that have it."""
        return statistics.median(
            place for plan in self.plans for place, (finding, _) in enumerate(plan) if finding == which
        )

    def causes(self, done: Collection[_Which]) -> tuple[float, ...]:
        """Causes of an average step when some findings are done, each recording by as many steps of its plan.

        Without any where no replay has one of them.
        """
        if not {*done} <= {finding for plan in self.plans for finding, _ in plan}:
            return ()
        after = []
        for now, plan in zip(self.now, self.plans, strict=True):
            count = sum(finding in done for finding, _ in plan)
            after.append(plan[count - 1][1] if count else now)
        whole = sum(self.steps)
        if not whole or not all(after):
            return ()
        return tuple(
            sum(count * each for count, each in zip(self.steps, column, strict=True)) / whole
            for column in zip(*after, strict=True)
        )


_Entry = tuple[Finding, Stake, Stake, float]
"""A finding, what it saves alone and after others, and the device time that goes with it."""


def _joined(frame: pl.DataFrame, ranks: int, low: str, high: str) -> dict[tuple[str, str], Stake]:
    """The stakes of findings over cycles and ranks, with other ends than those of the advice."""
    ends = [pl.col("place").struct.field(name).alias(end) for name, end in ((low, "low"), (high, "high"))]
    placed = pl.col("place").is_not_null()
    finding = pl.when(placed).then(pl.col("finding").struct.with_fields(*ends))
    step, findings = findings_of_ranks(frame.with_columns(finding=finding))
    return {(each.code, each.key): each.stake for each in joined_findings(findings, ranks, step)}


def _merged(own: Sequence[_Entry], others: Sequence[Finding]) -> Iterator[_Entry]:
    """The findings of ranks in their order, and among them those of the job, which save what they save alone."""
    waiting = sorted(others, key=lambda each: (-each.stake.middle, each.code, each.key))
    for entry in own:
        while waiting and waiting[0].stake.middle > entry[2].middle:
            each = waiting.pop(0)
            yield each, each.stake, each.stake, 0.0
        yield entry
    yield from ((each, each.stake, each.stake, 0.0) for each in waiting)


def _steps(step: float, least: float, entries: Iterator[_Entry], recorded: _RecordedPlans) -> Iterator[PlanStep]:
    """The steps of a plan with what remains after each: never less than `least`, nor than nothing."""
    low = high = step
    done = []
    for finding, alone, after, device in entries:
        most = min(max(after.high, 0.0), max(low - least, 0.0))
        sure = min(max(after.low, 0.0), max(high - (low - most), 0.0))
        low, high = low - most, high - sure
        done.append((finding.code, finding.key))
        saved = Stake(min(sure, most), max(sure, most))
        yield PlanStep(finding, alone, saved, Stake(low, high), device, recorded.causes(done))


def _greatest(causes: Sequence[float]) -> str:
    return CAUSES[max(range(len(CAUSES)), key=lambda place: causes[place])] if any(causes) else ""


def _changes(result: Result, last: int) -> Sentence:
    return say("one change") if last == 1 else say("these {count} changes", count=cell(result, "number", number=last))


def _row(number: int, step: PlanStep) -> dict[str, object]:
    causes = {name: round(step.causes[place]) for place, name in enumerate(CAUSES)} if step.limit else {}
    return {
        "number": number,
        "code": step.code,
        "key": step.key,
        "title": step.title,
        "certainty": step.finding.certainty,
        "device_time": round(step.device),
        "saves_low": round(step.after.low),
        "saves_high": round(step.after.high),
        "alone_low": round(step.alone.low),
        "alone_high": round(step.alone.high),
        "remains_low": round(step.remaining.low),
        "remains_high": round(step.remaining.high),
        "limit": step.limit or None,
        "limit_time": causes.get(step.limit),
        "replayed": sum(causes.values()) if causes else None,
        **dict.fromkeys(CAUSES),
        **causes,
        "change": step.finding.change,
    }
