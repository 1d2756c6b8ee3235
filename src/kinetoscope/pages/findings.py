"""What to change: the findings of all rules, ranked by the time at stake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kinetoscope.advisor.advice import METHOD, advise
from kinetoscope.advisor.finding import Evidence
from kinetoscope.advisor.finding import Finding as Found
from kinetoscope.advisor.rules import rules
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.text import listed
from kinetoscope.pages.parts.blocks import Finding, Findings, Link, Note, Page

_ABOUT = f"The whole bar is the average step; its dark end is sure, its light end possible. {METHOD}"


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """All findings, those that cost time first."""
    del params
    advice = advise(job, select=select)
    about = {rule.code: f"{rule.title}. {rule.doc.partition('Why it matters.')[0]}" for rule in rules()}
    ranks = len(job.ranks)
    timed = [_shown(each, about, ranks) for each in advice.timed]
    others = [_shown(each, about, ranks) for each in advice.findings if each not in advice.timed]
    blocks: list[Findings | Note] = [Findings("", timed, advice.step, _ABOUT, width="full")]
    if others:
        blocks.append(Findings("Without time at stake", others, advice.step, width="full"))
    return Page("findings", "What to change", advice.headline, (), tuple(blocks), advice.notes)


def _shown(finding: Found, about: Mapping[str, str], ranks: int) -> Finding:
    title = f"{finding.title}."
    detail = f"{finding.message[len(title) :].strip()} {finding.why}".strip()
    if 0 < len(finding.ranks) < ranks:
        detail = f"{detail} On rank{'s' * (len(finding.ranks) > 1)} {listed(finding.ranks)} only.".strip()
    if finding.same_time_as:
        detail = f"{detail} {finding.same_time_as} counts most of this time already.".strip()
    return Finding(
        code=finding.code,
        severity=finding.severity,
        certainty=finding.certainty,
        low=finding.stake.low,
        high=finding.stake.high,
        message=title,
        detail=detail,
        change=finding.change,
        links=tuple(link for each in finding.evidence for link in _links(each)),
        rule=" ".join(about.get(finding.code, "").split()),
    )


def _links(evidence: Evidence) -> Iterator[Link]:
    """Where it is to be seen: the timeline, the source, the table."""
    rank = evidence.rank if evidence.rank >= 0 else None
    if evidence.row >= 0 or evidence.start >= 0:
        time = (evidence.start, evidence.end) if 0 <= evidence.start < evidence.end else None
        row = evidence.row if evidence.row >= 0 else None
        yield Link(evidence.text, view="timeline", rank=rank, time=time, row=row)
    if evidence.file:
        yield Link(f"{evidence.file}:{evidence.line}", file=evidence.file, line=evidence.line, rank=rank)
    if evidence.analysis:
        yield Link(f"table {evidence.analysis}", view="analyses", rank=rank, params={"name": evidence.analysis})
