"""Gains of the steps by a change: the schedule is computed anew without what goes, and a finding says it."""

from __future__ import annotations

from dataclasses import dataclass

from kinetoscope.advisor.evidence.stakes import is_worth_reporting, limit_left, stake_as_recorded, stake_by_time
from kinetoscope.advisor.finding import Confidence, Evidence, Finding, Severity, Stake
from kinetoscope.advisor.rule import RankView
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.arrays import Floats
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.views.sentences import Quantity, Sentence

Gains = Factors | Floats
"""A what-if that is replayed, or the time that each selected step gains, ns: float64 [steps]."""


@dataclass(frozen=True, slots=True)
class Saving:
    """A gain of a rank's steps that is worth reporting.

    Attributes:
        rank: the rank.
        stake: of an average step.
        time: when the work runs that is changed, a union.
        took: what the thing itself takes in all selected steps, ns.
        goes: the intervals that the change would remove.
        factors: what the replay of the greatest gain changes; None where it follows from no replay.
    """

    rank: RankView
    stake: Stake
    time: Intervals
    took: float
    goes: Intervals
    factors: Factors | None = None

    @property
    def per_step(self) -> Quantity:
        """The time that the thing takes of an average step: `1.2 ms`."""
        return self.rank.time_per_step(self.took)

    @property
    def part(self) -> Quantity:
        """The share of the steps that the thing takes: `12%`."""
        return share(self.took, self.rank.time.length)

    def limit(self, goes: float) -> Sentence:
        """The reason why the steps gain less than so much device time (of all selected steps, ns); see `limit_left`."""
        return limit_left(self.rank, self.stake, goes, self.time)

    def finding(
        self,
        message: str,
        *,
        change: str,
        why: str,
        evidence: Evidence | None = None,
        confidence: Confidence = "high",
        key: str = "",
        at_most: Severity = "critical",
        overlap_priority: int = 0,
    ) -> Finding:
        """The finding that promises it; see `Finding`."""
        return Finding(
            message,
            self.stake,
            change,
            why,
            confidence,
            () if evidence is None else (evidence,),
            self.goes,
            self.factors,
            key,
            at_most,
            overlap_priority=overlap_priority,
            takes=self.rank.per_step(self.took),
        )


def saving(
    rank: RankView,
    sure: float | Gains,
    best: Gains,
    time: Intervals,
    *,
    took: float | None = None,
    goes: Intervals | None = None,
    factors: Factors | None = None,
    as_recorded: bool = False,
) -> Saving | None:
    """The gain of the selected steps by a change; None if it is negligible.

    Args:
        rank: the rank.
        sure: the least gain; a number is a share of the best.
        best: the greatest gain.
        time: when the work runs that is changed, a union.
        took: what the thing itself takes in all selected steps, ns; None: all of `time`.
        goes: the intervals that the change would remove; None: all of `time`.
        factors: what was replayed for `best`, where that is gains.
        as_recorded: the gain comes in few steps, as pauses do, so that its variation says nothing.
    """
    high = _replayed(rank, best)
    low = sure * high if isinstance(sure, (int, float)) else _replayed(rank, sure)
    stake = stake_as_recorded(rank, low, high) if as_recorded else stake_by_time(rank, low, high, time)
    if not is_worth_reporting(rank, stake):
        return None
    return Saving(
        rank,
        stake,
        time,
        time.length if took is None else took,
        time if goes is None else goes,
        best if isinstance(best, Factors) else factors,
    )


def _replayed(rank: RankView, gains: Gains) -> Floats:
    return rank.gains(gains) if isinstance(gains, Factors) else gains
