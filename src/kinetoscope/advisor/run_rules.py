"""All rules about one rank, in one look at its trace; what claims the same time is told apart where the trace is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import polars as pl

from kinetoscope.advisor.finding import SEVERITIES, SMALL, Claim, Evidence, Finding, Stake, severity
from kinetoscope.advisor.rule import RankView
from kinetoscope.advisor.rules import rules
from kinetoscope.algorithms.intervals.intervals import difference, merge
from kinetoscope.errors import KinetoscopeError, UsageError
from kinetoscope.model.job import Partial
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Schema

L = TypeVar("L")

CLAIMS = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("finding", pl.String, "A finding about it, as JSON."),
    Column("step", pl.Float64, "The rank's average step.", "ns"),
    Column("steps", pl.Int64, "How many steps were looked at."),
    Column("program", pl.String, "What the program does: training, serving, inference, unknown."),
)
"""What is sent home from where the trace is; a rank without findings has one row without."""

_COVERED = 0.5
"""Of the time that a finding claims; if others count so much of it already, it is named after them."""


def survey(trace: Trace, select: Selection) -> Partial:
    """What all rules find on one rank: rows of `CLAIMS`."""
    look = RankView(trace, select)
    claims, failed = asked(((rule.code, rule.of_rank) for rule in rules()), look, "trace")
    found = list(ranked(claims, look.step, rank=trace.source.rank))
    texts = [*map(packed, found), *([] if found else [None])]
    frame = pl.DataFrame({"finding": pl.Series(texts, dtype=pl.String)}).with_columns(
        step=pl.lit(look.step), steps=pl.lit(look.count, pl.Int64), program=pl.lit(look.program)
    )
    return Partial(frame, (*look.view.notes, *failed))


def asked(
    questions: Iterable[tuple[str, Callable[[L], Iterable[Claim]] | None]], look: L, what: str
) -> tuple[list[tuple[str, Claim]], list[str]]:
    """What functions of rules, by their codes, claim about what they look at; and which of them failed on it."""
    claims: list[tuple[str, Claim]] = []
    failed = []
    for code, ask in questions:
        if ask is not None:
            try:
                claims += [(code, claim) for claim in ask(look)]
            except KinetoscopeError:
                raise
            except Exception as error:  # noqa: BLE001 - the other rules have their say, and this is told
                failed.append(f"Rule {code} failed on this {what}, which is our mistake: {error!r:.200}.")
    return claims, failed


def ranked(claims: Sequence[tuple[str, Claim]], step: float, *, rank: int = -1) -> Iterator[Finding]:
    """Findings, those with most at stake first; a later one counts only time that none before it has counted."""
    order = sorted(claims, key=lambda each: (each[1].broad, -each[1].stake.middle, each[0], each[1].key))
    counted: list[tuple[str, Claim]] = []
    for code, claim in order:
        stake, same = _fresh(claim, counted)
        if claim.stake.high > 0 and stake.high < SMALL * step:
            continue
        if claim.time is not None:
            counted.append((code, claim))
        yield Finding(
            code=code,
            severity=severity(stake, step, claim.confidence, claim.at_most),
            message=claim.message,
            stake=stake,
            step=step,
            change=claim.change,
            why=claim.why,
            confidence=claim.confidence,
            evidence=tuple(dataclasses.replace(each, rank=rank if rank >= 0 else each.rank) for each in claim.evidence),
            ranks=() if rank < 0 else (rank,),
            same_time_as=same,
            key=claim.key,
        )


def _fresh(claim: Claim, counted: Sequence[tuple[str, Claim]]) -> tuple[Stake, str]:
    """What of the stake nobody counts yet, and whose finding counts most of the rest."""
    if claim.time is None or not claim.time.length or not counted:
        return claim.stake, ""
    whole = claim.time.length
    left = difference(claim.time, merge(*(other.time for _, other in counted if other.time is not None))).length
    stake = claim.stake.times(left / whole) if left < whole else claim.stake
    if left > (1 - _COVERED) * whole:
        return stake, ""

    def shared(other: Claim) -> int:
        assert claim.time is not None
        assert other.time is not None
        return whole - difference(claim.time, other.time).length

    return stake, max(counted, key=lambda each: shared(each[1]))[0]


# --- between where the trace is and where the answer is


def packed(finding: Finding) -> str:
    """A finding as JSON."""
    return json.dumps(dataclasses.asdict(finding))


def unpacked(text: str) -> Finding:
    """The finding that `packed` wrote, here or on a worker of the user's."""
    plain = json.loads(text)
    if plain["severity"] not in SEVERITIES:
        raise UsageError("a worker sent a finding that this version does not know; give all the same version")
    plain["stake"] = Stake(**plain["stake"])
    plain["evidence"] = tuple(Evidence(**each) for each in plain["evidence"])
    plain["ranks"] = tuple(plain["ranks"])
    return Finding(**plain)
