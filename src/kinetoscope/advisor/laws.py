"""The laws of promises: what the time at stake of a finding can be at most, whatever its rule computed.

0 ≤ low ≤ high ≤ what the thing itself takes. A step is never shorter than the device's work that remains. Of a guess
nothing is sure. All findings together, time that they share counted once, leave at least what remains. Where the
loader's workers set the pace, nothing is sure but what makes batches come sooner; where they share the cores that the
training computes on, nothing at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from kinetoscope.advisor.finding import Finding, Stake
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, merge
from kinetoscope.views.sentences import join

_MOSTLY_COUNTED: Final = 0.5
"""Share of a finding's time that others count already, from which on it is named after the one that counts most."""

_WORKERS: Final = "DATA002"
"""The rule that says that the training waits for the loader's workers."""

_OF_BATCHES: Final = frozenset({"DATA001", _WORKERS, "DATA003", "DATA004"})
"""The rules about how batches are made; copies of them come later."""

_PACED: Final = "The loader's workers set the pace (DATA002), so a step may wait for them instead."

_SHARED: Final = "Training and workers are more than the cores, so what one of them saves another may take."


@dataclass(frozen=True, slots=True)
class StepTime:
    """The average step that promises are held against, ns.

    Attributes:
        length: of it; 0 where there is no step.
        busy: when a device works in the selected steps, a union; None: they are steps of several ranks.
        count: how many steps `busy` is of.
        least: without `busy`, what a step takes at least: the computation of the rank that computes least.
        shares_cores: the host computes, and its ranks and the workers of their loaders are more than its cores.
    """

    length: float
    busy: Intervals | None = None
    count: int = 0
    least: float = 0.0
    shares_cores: bool = False

    def remaining(self, gone: Sequence[Intervals]) -> float:
        """Device work of an average step that remains without some time (unions), ns."""
        if self.busy is None:
            return self.least
        left = difference(self.busy, merge(*gone)) if gone else self.busy
        return left.length / self.count if self.count else 0.0

    def room(self, gone: Sequence[Intervals]) -> float:
        """By how much an average step can be shorter at most, if some time goes, ns."""
        return max(self.length - self.remaining(gone), 0.0)


def lawful(finding: Finding, step: StepTime) -> Stake:
    """The stake of a finding within what it can be alone."""
    stake = finding.stake
    if stake.high <= 0:
        return Stake(0.0, 0.0)
    high = stake.high if finding.takes is None else min(stake.high, finding.takes)
    if step.length > 0:
        high = min(high, step.room([] if finding.time is None else [finding.time]))
    return _within(stake, high, finding)


def sets_pace(finding: Finding) -> bool:
    """Is it that each step surely waits for the loader's workers? What other findings save comes after them."""
    return finding.code == _WORKERS and finding.stake.low > 0


def paced(findings: Sequence[Finding], step: StepTime) -> list[Finding]:
    """Findings of a rank, of which nothing is sure where it surely waits for workers: they are no faster for the rest.

    Each batch takes the workers as long as before, so what a step saves elsewhere it may wait longer for the next one;
    and a core that becomes free computes for somebody else, where they are too few.
    """
    paces = any(sets_pace(each) for each in findings)
    if not paces and not step.shares_cores:
        return list(findings)
    why = _SHARED if step.shares_cores else _PACED
    return [
        each
        if each.stake.low <= 0 or (each.code in _OF_BATCHES and not step.shares_cores)
        else replace(each, stake=Stake(0.0, each.stake.high), why=join((each.why, why)))
        for each in findings
    ]


def uncounted(finding: Finding, counted: Sequence[Finding]) -> tuple[Stake, str]:
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


def together(finding: Finding, stake: Stake, before: Sequence[Finding], promised: float, step: StepTime) -> Stake:
    """The stake within what the findings before it leave of the step; they promise `promised` ns together at most."""
    if step.length <= 0:
        return stake
    gone = [each.time for each in (*before, finding) if each.time is not None]
    return _within(stake, min(stake.high, max(step.room(gone) - promised, 0.0)), finding)


def _within(stake: Stake, high: float, finding: Finding) -> Stake:
    low = 0.0 if finding.confidence == "low" else min(max(stake.low, 0.0), high)
    return Stake(low, max(high, 0.0))


def within_step(findings: Sequence[Finding], step: float) -> list[Finding]:
    """Findings of a rank and of all ranks, in their order, of which those that promise least give way to the step."""
    room = step
    lawful_ones: dict[int, Finding] = {}
    for place in sorted(range(len(findings)), key=lambda at: -findings[at].stake.middle):
        finding = findings[place]
        if step > 0 and finding.stake.high > room:
            finding = finding.with_stake(_within(finding.stake, room, finding), step, finding.at_most)
        room -= finding.stake.high
        lawful_ones[place] = finding
    return [lawful_ones[place] for place in range(len(findings))]
