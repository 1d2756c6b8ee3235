"""What a rule has found: time at stake, the reason, the evidence, and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:  # the command line asks for the severities before it loads anything large
    from kinetoscope.algorithms.intervals import Intervals

Severity = Literal["note", "warning", "critical"]
Confidence = Literal["low", "medium", "high"]

SEVERITIES: Final[tuple[Severity, ...]] = ("note", "warning", "critical")
"""From the least on."""

WARNING: Final = 0.03
"""Share of a step that surely is at stake from which on a finding is a warning."""

CRITICAL: Final = 0.2
"""The same, from which on it is critical."""

SMALL: Final = 0.005
"""Share of a step under which a finding about time is not worth a word."""


@dataclass(frozen=True, slots=True)
class Stake:
    """Nanoseconds that a step would be shorter by: surely, and at most."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """By which findings are ranked."""
        return (self.low + self.high) / 2

    def times(self, factor: float) -> Stake:
        """Both ends times a factor."""
        return Stake(self.low * factor, self.high * factor)


NOTHING: Final = Stake(0.0, 0.0)
"""No time is at stake: what the finding is about costs something else, such as memory, or knowledge."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where to look.

    Attributes:
        text: what is to be seen there, in a few words, with its numbers.
        analysis, params: the question whose answer shows it.
        start, end: a time range, ns after the first event of the trace; −1 for none.
        row: an event of the trace; −1 for none.
        file, line: a place in the user's source; "" for none.
        rank: of the trace that `start`, `end` and `row` are of; −1 where all are meant.
    """

    text: str
    analysis: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    start: int = -1
    end: int = -1
    row: int = -1
    file: str = ""
    line: int = 0
    rank: int = -1


@dataclass(frozen=True, slots=True)
class Claim:
    """What a rule says about one rank, or about a job.

    Attributes:
        message: what is wrong, in one sentence with its numbers.
        stake: time at stake in an average step.
        change: what to do, as the lines of a diff (`-` out, `+` in), one to four of them; "" where no code is meant.
        why: the argument for the stake, in one sentence or two: what was measured, what is supposed.
        confidence: high: measured; medium: inferred; low: a guess, which is never more than a note.
        evidence: where to look, the most telling first; three at most.
        time: the time that would go, of device and host together: disjoint, ascending, ns of the trace. Two findings
            that claim the same time are not counted twice. None where it cannot be told.
        key: tells several findings of one rule apart: the name of an operator, a source line.
        at_most: the greatest severity that it can have, whatever is at stake.
        broad: 1 or more: others may say more exactly what is wrong in the same time; this counts only what none of
            those that are less broad counts.
    """

    message: str
    stake: Stake
    change: str = ""
    why: str = ""
    confidence: Confidence = "high"
    evidence: tuple[Evidence, ...] = ()
    time: Intervals | None = None
    key: str = ""
    at_most: Severity = "critical"
    broad: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim among all others of its job.

    Attributes:
        code: of its rule, such as DATA001.
        severity: how much it matters.
        message, change, why, confidence, evidence, key: as in `Claim`.
        stake: time at stake in an average step, ns; less what a finding before it counts already.
        step: the average step, ns.
        ranks: those that it was found on; empty where it is about the job.
        same_time_as: code of the finding that counts most of the same time; "" for none.
    """

    code: str
    severity: Severity
    message: str
    stake: Stake
    step: float
    change: str = ""
    why: str = ""
    confidence: Confidence = "high"
    evidence: tuple[Evidence, ...] = ()
    ranks: tuple[int, ...] = ()
    same_time_as: str = ""
    key: str = ""


def severity(stake: Stake, step: float, confidence: Confidence, at_most: Severity = "critical") -> Severity:
    """How much a finding matters: by the share of the step that surely is at stake."""
    share = stake.low / step if step > 0 else 0.0
    found: Severity = "critical" if share >= CRITICAL else "warning" if share >= WARNING else "note"
    allowed: Severity = "note" if confidence == "low" else at_most
    return min(found, allowed, key=SEVERITIES.index)
