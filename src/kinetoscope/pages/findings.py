"""What to change: the findings of all rules, ranked by the time at stake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kinetoscope.advisor.advice import Advice, advise
from kinetoscope.advisor.finding import Evidence
from kinetoscope.advisor.finding import Finding as Found
from kinetoscope.model.job import Job
from kinetoscope.model.naming import listed
from kinetoscope.model.selection import Selection
from kinetoscope.pages.blocks import Finding, Findings, Link, Note, Page
from kinetoscope.views.numbers import shown

_ABOUT = (
    "The dark end of a bar is sure to be won, the light one possible; the whole bar is the average step. What two"
    " findings claim alike is counted with the first."
)


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """All findings, those that cost time first."""
    del params
    advice = advise(job, select=select)
    timely = [finding for finding in advice.findings if finding.stake.high > 0]
    others = [finding for finding in advice.findings if finding.stake.high <= 0]
    blocks: list[Findings | Note] = [Findings("", [_shown(each) for each in timely], advice.step, _ABOUT, width="full")]
    if others:
        blocks.append(Findings("Besides", [_shown(each) for each in others], advice.step, width="full"))
    return Page("findings", "What to change", _sentence(advice), (), tuple(blocks), advice.notes)


def _sentence(advice: Advice) -> str:
    """The first finding, and what all that is sure would bring."""
    serious = advice.of("critical", "warning")
    if not serious:
        return "Nothing was found that surely costs more than 3% of a step."
    sure = sum(finding.stake.low for finding in serious)
    share = shown(min(sure / advice.step, 1.0), "fraction") if advice.step else ""
    things = "1 thing costs" if len(serious) == 1 else f"{len(serious)} things cost"
    together = "surely" if len(serious) == 1 else "together surely"
    return f"{things} time: {together} {shown(sure, 'ns')} of a step of {shown(advice.step, 'ns')} ({share})."


def _shown(finding: Found) -> Finding:
    detail = finding.why
    if finding.ranks and len(finding.ranks) > 1:
        detail = f"{detail} On ranks {listed(finding.ranks)}.".strip()
    if finding.same_time_as:
        detail = f"{detail} It is about the same time as {finding.same_time_as}.".strip()
    return Finding(
        code=finding.code,
        severity=finding.severity,
        low=finding.stake.low,
        high=finding.stake.high,
        message=finding.message,
        detail=detail,
        change=finding.change,
        links=tuple(link for each in finding.evidence for link in _links(each)),
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
