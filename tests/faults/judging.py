"""How well the advisor judges: what it finds, what it finds wrongly, and whether it promises what a fix then brings."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kinetoscope.advisor.advice import Advice, advise
from kinetoscope.advisor.finding import SEVERITIES, Finding
from kinetoscope.reading import read
from tests.advisor.laws import keep_the_laws
from tests.faults.case import Case, Draw, Healthy

ERROR: Final = 0.002
"""Share of a step that a measured gain is wrong by: steps vary, and so do two means of them."""


@dataclass(frozen=True)
class Judged:
    """What came of a case.

    Attributes:
        code, family, name: of the case.
        timed: whether time is at stake.
        faulty, fixed: mean step of the twins, ns.
        step: the faulty twin's as the advisor sees it, ns.
        severity: of the finding of the case's rule; "" if there is none.
        low, high: what it promises, ns.
        place: the finding's place among all, from 1; 0 for none.
        message: what it says.
        false: codes of rules that warn about the fixed twin, though its fault is gone.
        error: share of the step that the gain may be wrong by.
    """

    code: str
    family: str
    name: str
    timed: bool
    faulty: float
    fixed: float
    step: float
    severity: str
    low: float
    high: float
    place: int
    message: str
    false: tuple[str, ...]
    error: float = ERROR

    @property
    def found(self) -> bool:
        """Is the fault named at all?"""
        return bool(self.severity)

    @property
    def gain(self) -> float:
        """Share of the faulty step that the fix brings."""
        return (self.faulty - self.fixed) / self.faulty if self.faulty else 0.0

    @property
    def promised(self) -> tuple[float, float]:
        """The interval as shares of the step."""
        return (self.low / self.step, self.high / self.step) if self.step else (0.0, 0.0)

    @property
    def kept(self) -> bool:
        """Does the measured gain lie in the interval?"""
        low, high = self.promised
        return low - self.error <= self.gain <= high + self.error


@dataclass(frozen=True)
class Score:
    """Of many cases and healthy programs.

    Attributes:
        cases, found: how many.
        runs, false: fixed twins and healthy programs, and warnings about them.
        timed: cases of time that were found.
        kept: of these, whose gain lies in the interval.
        width: median width of the interval, share of the step.
        correlation: of the ranks of promised middle and measured gain.
    """

    cases: int
    found: int
    runs: int
    false: int
    timed: int
    kept: int
    width: float
    correlation: float

    @property
    def recall(self) -> float:
        return self.found / self.cases if self.cases else 1.0

    @property
    def falsehood(self) -> float:
        return self.false / self.runs if self.runs else 0.0

    @property
    def containment(self) -> float:
        return self.kept / self.timed if self.timed else 1.0


def advised(draw: Draw) -> tuple[Advice, float]:
    """What the advisor says of a program, and its mean step, ns."""
    with tempfile.TemporaryDirectory() as folder:
        step = draw(Path(folder))
        advice = advise(read(folder, jobs=1))
    keep_the_laws(advice)
    return advice, step


def judged(case: Case) -> Judged:
    """Draw both twins, and see."""
    (advice, faulty), (other, fixed) = advised(case.faulty), advised(case.fixed)
    wrong = tuple(each.code for each in other.of("warning", "critical") if each.code not in case.still)
    told: dict[str, Any] = {"family": case.family, "name": case.name, "timed": case.timed}
    return Judged(code=case.code, **told, faulty=faulty, fixed=fixed, **said(advice, case.code), false=wrong)


def said(advice: Advice, code: str) -> dict[str, Any]:
    """What findings of a rule say together; of several rules, joined by +, each has to find something."""
    codes = code.split("+")
    mine = [finding for finding in advice.findings if finding.code in codes]
    if {finding.code for finding in mine} != set(codes):
        return {"step": advice.step, "severity": "", "low": 0.0, "high": 0.0, "place": 0, "message": ""}
    worst = max((finding.severity for finding in mine), key=SEVERITIES.index)
    place = next(place for place, finding in enumerate(advice.findings, 1) if finding.code in codes)
    low, high = (sum(getattr(finding.stake, end) for finding in mine) for end in ("low", "high"))
    found = {"severity": worst, "low": low, "high": high, "place": place, "message": mine[0].message}
    return {"step": advice.step, **found}


def warnings(program: Healthy) -> tuple[Finding, ...]:
    """What the advisor warns of in a healthy program: nothing, if it is right."""
    return advised(program.draw)[0].of("warning", "critical")


def score(cases: Iterable[Judged], healthy: Iterable[Sequence[object]] = ()) -> Score:
    """All of them; `healthy`: the warnings about each healthy program."""
    every, well = list(cases), list(healthy)
    timed = [each for each in every if each.timed and each.found]
    widths = [each.promised[1] - each.promised[0] for each in timed]
    return Score(
        cases=len(every),
        found=sum(each.found for each in every),
        runs=len(every) + len(well),
        false=sum(bool(each.false) for each in every) + sum(bool(each) for each in well),
        timed=len(timed),
        kept=sum(each.kept for each in timed),
        width=statistics.median(widths) if widths else 0.0,
        correlation=_correlation([sum(each.promised) / 2 for each in timed], [each.gain for each in timed]),
    )


def _correlation(left: Sequence[float], right: Sequence[float]) -> float:
    """Spearman's; 1 of fewer than three."""
    if len(left) < 3:
        return 1.0
    if len(set(left)) == 1 or len(set(right)) == 1:
        return 0.0
    return statistics.correlation(_ranks(left), _ranks(right))


def _ranks(values: Sequence[float]) -> list[float]:
    """Places in order, those of equals averaged."""
    order = sorted(values)
    return [order.index(value) + (order.count(value) - 1) / 2 for value in values]
