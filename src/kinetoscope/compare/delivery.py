"""Promise and delivery: what findings that are gone in the next run had promised, and what the step time brought."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal

import polars as pl

from kinetoscope.advisor.advice import Advice, advise
from kinetoscope.advisor.finding import Finding, Stake
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.schema import Column, Result, Schema

Outcome = Literal["as promised", "more", "less"]

RESULT = Schema(
    Column("run", pl.String, "The run that the finding was about."),
    Column("next", pl.String, "The run after it, in which the finding is gone."),
    Column("code", pl.String, "Code of the rule; `kinetoscope advise --explain CODE` says more."),
    Column("message", pl.String, "What was wrong."),
    Column("status", pl.String, "gone; or mostly gone: of what it promised, less than a quarter is still promised."),
    Column("promised_low", pl.Int64, "How much shorter a step would surely be without it.", "ns"),
    Column("promised_high", pl.Int64, "How much shorter it would be at most.", "ns"),
    Column("together", pl.Int64, "How many findings are gone between the two runs; they share what came."),
    Column("together_low", pl.Int64, "What they promised together, surely: the sum over them.", "ns"),
    Column("together_high", pl.Int64, "What they promised together at most, and no more than the step.", "ns"),
    Column("brought", pl.Int64, "How much shorter the mean step is, by all that changed; longer if negative.", "ns"),
    Column("outcome", pl.String, "as promised: within what they promised together; more; less."),
)
"""The rows of `delivery`: one for each finding that is gone, in order of the runs, then of what was promised."""


_MOSTLY_GONE_SHARE: Final = 0.25
"""Share of a finding's stake below which it is mostly gone."""


@dataclass(frozen=True, slots=True)
class DeliveredGain:
    """What findings that are gone had promised together, and what came.

    Attributes:
        gone: the findings, those with most at stake first; of what is mostly gone the stake is less what is left.
        left: the codes and keys of those that are only mostly gone.
        low, high: what they promised together, ns of a mean step.
        brought: by how much the mean step is shorter, ns.
    """

    gone: tuple[Finding, ...]
    left: frozenset[tuple[str, str]]
    low: float
    high: float
    brought: float

    @property
    def outcome(self) -> Outcome:
        """How both compare."""
        if self.brought < self.low:
            return "less"
        return "more" if self.brought > self.high else "as promised"


def delivery(runs: Sequence[Job], *, select: Selection = ALL) -> Result:
    """Did what was changed bring what the advisor had promised?

    Method. A finding of a run is gone if the advisor does not find it in the next one: no finding of that code about
    the same thing, unless another of that code came instead. It is mostly gone if less than a quarter of what it
    promised is promised still, which is then taken off its promise. What it promised is its interval: how much shorter
    a mean step would surely be, and at most. What came is the difference of the mean steps, over the steps that the
    advisor looks at. Where several findings are gone at once nobody can tell which of them brought what: the sum of
    what they promised is held against what came. Findings that claim time which another one counts have been charged
    with what is left, so the sum counts no time twice.

    Limits. All that changed between the runs is in what came, also what no finding is about. Findings that stand for no
    time (memory, what was not recorded) promise nothing, and have no row.

    Args:
        runs: in order; each but the last is held against the next.
        select: what is looked at in each.

    Raises:
        InputError: a run cannot be read.
    """
    return delivery_of_advice([run.path for run in runs], [advise(run, select=select) for run in runs])


def delivery_of_advice(names: Sequence[str], advice: Sequence[Advice]) -> Result:
    """The same of runs about which the advisor has said all; `names` are shown."""
    rows = []
    for (name, before), (following, after) in pairwise(zip(names, advice, strict=True)):
        gain = delivered(before, after)
        for finding in gain.gone:
            rows.append(
                (
                    name,
                    following,
                    finding.code,
                    finding.message,
                    "mostly gone" if (finding.code, finding.key) in gain.left else "gone",
                    round(finding.stake.low),
                    round(finding.stake.high),
                    len(gain.gone),
                    round(gain.low),
                    round(gain.high),
                    round(gain.brought),
                    gain.outcome,
                )
            )
    frame = pl.DataFrame(rows, schema={column.name: column.dtype for column in RESULT}, orient="row")
    return Result(frame, RESULT, (), "delivery", {"runs": list(names)})


def delivered(before: Advice, after: Advice) -> DeliveredGain:
    """What the findings of one run that the next one does not have had promised, and what came."""
    smaller = list(_smaller(before.findings, after.findings))
    gone = tuple(sorted([*_gone(before.findings, after.findings), *smaller], key=_order))
    low = sum(finding.stake.low for finding in gone)
    high = min(sum(finding.stake.high for finding in gone), before.step)
    left = frozenset((finding.code, finding.key) for finding in smaller)
    return DeliveredGain(gone, left, low, max(high, low), before.step - after.step)


def _order(finding: Finding) -> tuple[float, str, str]:
    return (-finding.stake.middle, finding.code, finding.key)


def _smaller(before: Sequence[Finding], after: Sequence[Finding]) -> Iterator[Finding]:
    """Those of which little is left, with the stake that is gone."""
    there = {(finding.code, finding.key): finding.stake for finding in after}
    for finding in before:
        left = there.get((finding.code, finding.key))
        if left is not None and finding.stake.high > 0 and left.middle < _MOSTLY_GONE_SHARE * finding.stake.middle:
            gone = Stake(max(finding.stake.low - left.high, 0.0), finding.stake.high - left.low)
            yield replace(finding, stake=gone)


def _gone(before: Sequence[Finding], after: Sequence[Finding]) -> Iterator[Finding]:
    """Of each code those whose key is not there any more, less those that came under another key instead."""
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
