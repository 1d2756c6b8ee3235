"""What rules see of drawn traces."""

from __future__ import annotations

from pathlib import Path

from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView
from kinetoscope.advisor.rules import rules
from kinetoscope.model.steps.selection import Selection
from tests.drawn import Event, annotation, job

STEP = 1_000_000
"""ns of a drawn step."""


def rank_view(folder: Path, *events: Event, **top: object) -> RankView:
    """One rank with these events, its steady steps selected."""
    return RankView(job(folder, *events, **top).trace(), Selection(steps="steady"))


def findings(code: str, view: RankView) -> list[Finding]:
    """What the rule of a code says."""
    rule = next(rule for rule in rules() if rule.code == code)
    assert rule.of_rank is not None
    return list(rule.of_rank(view)) if rule.fits(view.recorded, view.program, view.met) else []


def steps(count: int, length: int = STEP) -> list[Event]:
    """The marks of so many steps, without a gap between them."""
    return [annotation(f"ProfilerStep#{n}", n * length, length) for n in range(count)]
