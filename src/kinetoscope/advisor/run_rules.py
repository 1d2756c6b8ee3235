"""All rules on one rank, where its trace is: what they find, without counting the same time twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import polars as pl

from kinetoscope.advisor.finding import NEGLIGIBLE_STEP_SHARE, Evidence, Finding, Stake
from kinetoscope.advisor.laws import StepTime, lawful, together
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.rules import our_rules
from kinetoscope.algorithms.intervals.intervals import difference, merge
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

FINDINGS = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("finding", _FINDING, "A finding about it; null if there is none."),
    Column("step", pl.Float64, "The rank's average step.", "ns"),
    Column("steps", pl.Int64, "How many steps are selected."),
    Column("program", pl.String, "What the program does: training, serving, inference, unknown."),
    Column("whole", pl.Boolean, "Is the whole window the only step, as nothing marks any?"),
)
"""The answer of a rank: a row for each finding; one row where there is none."""

_MEMORY: Final = "MEMORY"
"""How the codes of the rules begin that a memory snapshot without a trace has something for."""

_MOSTLY_COUNTED: Final = 0.5
"""Share of a finding's time that others count already, from which on it is named after the one that counts most."""


def findings_of_rank(
    trace: Trace, select: Selection, own: tuple[Rule, ...] = (), only: tuple[int, ...] | None = None
) -> Partial:
    """The findings of all rules about one rank: rows of `FINDINGS`; `own` are those of extensions.

    `only`: the ranks that rules are asked of; of others there is the length of the step. None: all.
    """
    rank = RankView(trace, select)
    is_asked = only is None or trace.source.rank in only
    every = [*our_rules(), *own] if is_asked else []
    if trace.source.is_snapshot:
        every = [rule for rule in every if rule.code.startswith(_MEMORY)]
    every = [rule for rule in every if rule.fits(rank.recorded, rank.program, rank.met)]
    claims, failures = run_rules(((rule.code, rule.of_rank) for rule in every), rank, "trace")
    rows: list[dict[str, Any] | None] = [
        _to_row(each) for each in rank_findings(claims, rank.step_time, rank=trace.source.rank)
    ]
    step = 0.0 if trace.source.is_snapshot else rank.step  # annotations are no measure of a step
    frame = pl.DataFrame({"finding": pl.Series(rows or [None], dtype=_FINDING)}).with_columns(
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
    counted: list[Finding] = []
    promised = 0.0
    alone = [dataclasses.replace(each, stake=lawful(each, step)) for each in findings]
    for finding, given in sorted(
        zip(alone, findings, strict=True),
        key=lambda pair: (pair[0].overlap_priority, -pair[0].stake.middle, pair[0].code, pair[0].key),
    ):
        stake, same_time_as = _uncounted(finding, counted)
        stake = together(finding, stake, counted, promised, step)
        if given.stake.high > 0 and (stake.high <= 0 or stake.high < NEGLIGIBLE_STEP_SHARE * step.length):
            continue
        promised += stake.high
        if finding.time is not None:
            counted.append(finding)
        yield dataclasses.replace(
            finding.with_stake(stake, step.length, finding.at_most),
            evidence=tuple(each if rank is None else dataclasses.replace(each, rank=rank) for each in finding.evidence),
            time=None,
            ranks=() if rank is None else (rank,),
            same_time_as=same_time_as,
        )


def _uncounted(finding: Finding, counted: Sequence[Finding]) -> tuple[Stake, str]:
    """The part of the stake that no finding counts yet; and the code of the one that counts most of the rest."""
    time = finding.time
    if time is None or not time.length or not counted:
        return finding.stake, ""
    others = [(other.code, other.time) for other in counted if other.time is not None]
    left = difference(time, merge(*(each for _, each in others))).length
    stake = finding.stake.times(left / time.length) if left < time.length else finding.stake
    if left > (1 - _MOSTLY_COUNTED) * time.length:
        return stake, ""
    return stake, min(others, key=lambda other: difference(time, other[1]).length)[0]


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
