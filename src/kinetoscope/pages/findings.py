"""What to change: the findings of all rules, ranked by the time at stake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from kinetoscope.advisor.advice import METHOD, Advice
from kinetoscope.advisor.finding import Evidence, Finding
from kinetoscope.advisor.plan import plan
from kinetoscope.advisor.rules import rules
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.answers.plan import plan_table
from kinetoscope.pages.blocks import Block, FindingRow, FindingsBlock, Link, Page
from kinetoscope.pages.documents import finding_text
from kinetoscope.views.sentences import join

BAR_NOTE: Final = "The whole bar is the average step; its dark end is the least, its light end the most at stake. "
"""Words on the picture of findings."""


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """All findings, those that cost time first; and the order in which to make the changes."""
    del params
    planned = plan(job, select=select)
    advice = replace(planned.advice, path=job.path)
    about = {rule.code: f"{rule.title}. {rule.doc.partition('Why it matters.')[0]}" for rule in rules()}
    timed = [_row(each, about, advice, len(job.ranks)) for each in advice.timed]
    others = [_row(each, about, advice, len(job.ranks)) for each in advice.findings if each not in advice.timed]
    blocks: list[Block] = []
    if timed or not others:  # else what other pages show of this one would be empty
        blocks.append(FindingsBlock("", timed, advice.step, advice, note=BAR_NOTE + METHOD, width="full"))
    if len(planned) > 1:
        blocks.append(plan_table(planned))
    if others:
        blocks.append(FindingsBlock("Without time at stake", others, advice.step, advice, width="full"))
    return Page("findings", "What to change", advice.headline, (), tuple(blocks), advice.notes)


FINDINGS: Final = 5
"""Shown where nobody asks for another number: what fits on a screen."""

_SEVERITIES: Final = {"critical": "critical", "warning": "warnings", "note": "notes"}
"""The word for several of each."""


def of_advice(advice: Advice, *, limit: int | None = None) -> Page:
    """The findings as `advise` says them: in one list, numbered, at most `limit` (None: a screenful, 0: all)."""
    limit = FINDINGS if limit is None else limit or len(advice.findings)
    counts = {severity: len(advice.of(severity)) for severity in _SEVERITIES}
    said = ", ".join(
        f"{count} {_SEVERITIES[severity] if count > 1 else severity}" for severity, count in counts.items() if count
    )
    rows = [_row(each, {}, advice, advice.ranks) for each in advice.findings[:limit]]
    block = FindingsBlock(
        "",
        rows,
        advice.step,
        advice,
        max(len(advice.findings) - limit, 0),
        note=METHOD if advice.timed else "",
    )
    facts = (f"{advice.measure}{': ' if said else ''}{said}.",)
    return Page("findings", "", advice.headline, facts, (block,), advice.notes)


def _row(finding: Finding, about: Mapping[str, str], advice: Advice, ranks: int) -> FindingRow:
    detail = join([finding.detail, finding.why, *finding.remarks(ranks)])
    return FindingRow(
        code=finding.code,
        severity=finding.severity,
        certainty=finding.certainty,
        low=finding.stake.low,
        high=finding.stake.high,
        message=join([finding.title, "."], ""),
        detail=detail,
        change=finding.change,
        links=tuple(link for each in finding.evidence for link in _links(each)),
        rule=" ".join(about.get(finding.code, "").split()),
        markdown=finding_text(finding, advice),
        finding=finding,
    )


def _links(evidence: Evidence) -> Iterator[Link]:
    """Links to the evidence: the timeline, the source, the table."""
    rank = evidence.rank
    if evidence.row is not None or evidence.start is not None:
        yield Link(evidence.text, view="timeline", rank=rank, time=evidence.time_range, row=evidence.row)
    if evidence.file:
        yield Link(f"{evidence.file}:{evidence.line}", file=evidence.file, line=evidence.line or 0, rank=rank)
    if evidence.analysis:
        yield Link(f"table {evidence.analysis}", view="analyses", rank=rank, params={"name": evidence.analysis})
