"""All rules on one rank, where its trace is: what they find, without counting the same time twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import polars as pl

from kinetoscope.advisor.finding import NEGLIGIBLE_STEP_SHARE, Evidence, Finding, Stake
from kinetoscope.advisor.laws import StepTime, lawful, paced, sets_pace, together, uncounted
from kinetoscope.advisor.plan_of_rank import plan_of_rank
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.rules import our_rules
from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.answer import Partial
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Schema
from kinetoscope.views.sentences import Quantity, Sentence

V = TypeVar("V")

_EVIDENCE: Final = pl.Struct(
    {
        **dict.fromkeys(("text", "analysis", "file"), pl.String),
        **dict.fromkeys(("start", "end", "row", "line", "rank"), pl.Int64),
        "params": pl.List(pl.List(pl.String)),
    }
)
FACT: Final = pl.Struct({**dict.fromkeys(("part", "name", "text", "unit"), pl.String), "value": pl.Float64})
"""A quantity of a sentence of a finding: in which (message, why, evidence, record), its name, as shown, as stored."""

_FINDING: Final = pl.Struct(
    {
        **dict.fromkeys(("code", "severity", "message", "change", "why", "confidence", "key"), pl.String),
        **dict.fromkeys(("at_most", "at_least"), pl.String),
        **dict.fromkeys(("low", "high", "step", "takes"), pl.Float64),
        "facts": pl.List(FACT),
        "evidence": pl.List(_EVIDENCE),
        "ranks": pl.List(pl.Int64),
        "same_time_as": pl.String,
    }
)
_FINDING_FIELDS: Final = tuple(
    name for name in _FINDING.to_schema() if name not in ("low", "high", "evidence", "facts", "ranks")
)
_EVIDENCE_FIELDS: Final = tuple(name for name in _EVIDENCE.to_schema() if name != "params")

_PLACE: Final = pl.Struct(
    {
        "place": pl.Int64,
        **dict.fromkeys(("alone_low", "alone_high", "least", "most", "device"), pl.Float64),
        "causes": pl.List(pl.Float64),
    }
)

FINDINGS = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("finding", _FINDING, "A finding about it; null if there is none."),
    Column("place", _PLACE, "Its place in the rank's plan; null where none is asked for, or it is no step of it."),
    Column("causes", pl.List(pl.Float64), "What it is made of, ns by `CAUSES`; null where no plan is asked for."),
    Column("step", pl.Float64, "The rank's average step.", "ns"),
    Column("steps", pl.Int64, "How many steps are selected."),
    Column("program", pl.String, "What the program does: training, serving, inference, unknown."),
    Column("whole", pl.Boolean, "Is the whole window the only step, as nothing marks any?"),
)
"""The answer of a rank: a row for each finding; one row where there is none."""

_MEMORY: Final = "MEMORY"
"""How the codes of the rules begin that a memory snapshot without a trace has something for."""


def findings_of_rank(
    trace: Trace,
    select: Selection,
    own: tuple[Rule, ...] = (),
    only: tuple[int, ...] | None = None,
    planned: bool = False,
) -> Partial:
    """The findings of all rules about one rank: rows of `FINDINGS`; `own` are those of extensions.

    `only`: the ranks that rules are asked of; of others there is the length of the step. None: all. `planned`: with
    their places in a plan.
    """
    rank = RankView(trace, select)
    is_asked = only is None or trace.source.rank in only
    every = [*our_rules(), *own] if is_asked else []
    if trace.source.is_snapshot:
        every = [rule for rule in every if rule.code.startswith(_MEMORY)]
    every = [rule for rule in every if rule.fits(rank.recorded, rank.program, rank.met)]
    claims, failures = run_rules(((rule.code, rule.of_rank) for rule in every), rank, "trace")
    ranked = [*_ranked(claims, rank.step_time, trace.source.rank)]
    rows: list[dict[str, Any] | None] = [_to_row(each) for _, each in ranked]
    places = _places(rank, ranked) if planned else [None] * len(rows)
    step = 0.0 if trace.source.is_snapshot else rank.step  # annotations are no measure of a step
    columns = {"finding": pl.Series(rows or [None], dtype=_FINDING), "place": pl.Series(places or [None], dtype=_PLACE)}
    causes = [*rank.causes(rank.factors())] if planned else None
    frame = pl.DataFrame(columns).with_columns(
        causes=pl.lit(causes, pl.List(pl.Float64)),
        step=pl.lit(step),
        steps=pl.lit(rank.step_count, pl.Int64),
        program=pl.lit(rank.program),
        whole=pl.lit(rank.scope.steps.origin == "window"),
    )
    return Partial(frame, (*rank.scope.notes, *rank.notes, *failures))


def run_rules(
    functions: Iterable[tuple[str, Callable[[V], Iterable[Finding]] | None]], view: V, what: str
) -> tuple[list[Finding], list[Note]]:
    """The findings of rules (code and function) about a view; and a note for each rule that failed on it."""
    findings: list[Finding] = []
    failures = []
    for code, function in functions:
        if function is not None:
            try:
                findings += [dataclasses.replace(each, code=code) for each in function(view)]
            except KinetoscopeError:
                raise
            except Exception as error:  # noqa: BLE001 - one failing rule must not stop the others
                whose = "our mistake" if function.__module__.startswith("kinetoscope.") else "its author's mistake"
                said = f"Rule {code} failed on this {what}, which is {whose}: {error!r:.200}."
                failures.append(Note("RULE_FAILED", said, "warning", about=code))
    return findings, failures


def rank_findings(findings: Sequence[Finding], step: StepTime, *, rank: int | None = None) -> Iterator[Finding]:
    """Findings, those with most at stake first, within the laws; a later one counts only time that none before it has.

    Args:
        findings: of rules, as they yield them.
        step: the average step.
        rank: that they are about; None: the job.
    """
    return (each for _, each in _ranked(findings, step, rank))


def _places(rank: RankView, ranked: Sequence[tuple[Finding, Finding]]) -> list[dict[str, Any] | None]:
    """The place of each finding in the plan of its rank, as rows of `_PLACE`; None for one that is no step of it."""
    alone = [each for each, counted in ranked if counted.stake.high > 0 and (each.factors or each.change)]
    rows: dict[int, dict[str, Any]] = {
        id(each.finding): {
            "place": place,
            "alone_low": each.alone.low,
            "alone_high": each.alone.high,
            "least": each.least,
            "most": each.most,
            "device": each.device,
            "causes": each.causes,
        }
        for place, each in enumerate(plan_of_rank(rank, alone))
    }
    return [rows.get(id(each)) for each, _ in ranked]


def _ranked(findings: Sequence[Finding], step: StepTime, rank: int | None) -> Iterator[tuple[Finding, Finding]]:
    """Each finding as it is alone, and as `rank_findings` has it."""
    counted: list[Finding] = []
    promised = 0.0
    findings = paced(findings, step)
    alone = [dataclasses.replace(each, stake=lawful(each, step)) for each in findings]
    for finding, given in sorted(
        zip(alone, findings, strict=True),
        key=lambda pair: (
            not sets_pace(pair[1]),
            pair[0].overlap_priority,
            -pair[0].stake.middle,
            pair[0].code,
            pair[0].key,
        ),
    ):
        stake, same_time_as = uncounted(finding, counted)
        stake = together(finding, stake, counted, promised, step)
        if given.stake.high > 0 and (stake.high <= 0 or stake.high < NEGLIGIBLE_STEP_SHARE * step.length):
            continue
        promised += stake.high
        if finding.time is not None:
            counted.append(finding)
        yield (
            finding,
            dataclasses.replace(
                finding.with_stake(stake, step.length, finding.at_most),
                evidence=tuple(
                    each if rank is None else dataclasses.replace(each, rank=rank) for each in finding.evidence
                ),
                time=None,
                factors=None,
                ranks=() if rank is None else (rank,),
                same_time_as=same_time_as,
            ),
        )


# --- between where the trace is and where the answer is


def _to_row(finding: Finding) -> dict[str, Any]:
    evidence = [
        {
            **{name: getattr(each, name) for name in _EVIDENCE_FIELDS},
            "params": [list(param) for param in each.params.items()],
        }
        for each in finding.evidence
    ]
    own = {name: getattr(finding, name) for name in _FINDING_FIELDS}
    stake = {"low": finding.stake.low, "high": finding.stake.high}
    return {**own, **stake, "ranks": list(finding.ranks), "evidence": evidence, "facts": facts_of(finding)}


def facts_of(finding: Finding) -> list[dict[str, Any]]:
    """The quantities of its sentences, as rows of `FACT`."""
    return [
        {
            "part": part,
            "name": each.name,
            "text": each.text,
            "unit": each.unit,
            "value": float(each.value) if isinstance(each.value, (int, float)) else None,
        }
        for part, each in finding.facts
    ]


def from_row(row: dict[str, Any]) -> Finding:
    """The finding in a row of `FINDINGS`; its sentences carry what was measured where the trace is."""
    facts = [
        (each["part"], Quantity(each["value"] if each["value"] is not None else each["text"], each["unit"],
                                each["text"], name=each["name"]))
        for each in row.pop("facts")
    ]  # fmt: skip

    def said(part: str, text: str) -> str:
        quantities = [quantity for of, quantity in facts if of == part and quantity.text in text]
        return Sentence(text, quantities) if quantities else text

    evidence = tuple(
        Evidence(**{**each, "text": said("evidence", each["text"]), "params": dict(each["params"])})
        for each in row["evidence"]
    )
    stake = Stake(row.pop("low"), row.pop("high"))
    words = {"message": said("message", row["message"]), "why": said("why", row["why"])}
    return Finding(**{**row, **words, "stake": stake, "evidence": evidence, "ranks": tuple(row["ranks"])})
