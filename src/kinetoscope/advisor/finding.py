"""What a rule has found: time at stake, the reason, the evidence, and what to change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:  # the command line asks for the severities before it loads anything large
    from kinetoscope.algorithms.intervals.intervals import Intervals

Severity = Literal["note", "warning", "critical"]
Confidence = Literal["low", "medium", "high"]
Certainty = Literal["sure", "likely", "guess"]

SEVERITIES: Final[tuple[Severity, ...]] = ("note", "warning", "critical")
"""From the least on."""

WARNING: Final = 0.03
"""Share of a step that surely is at stake from which on a finding is a warning."""

CRITICAL: Final = 0.2
"""The same, from which on it is critical."""

LIKELY: Final = 0.2
"""Share of a step that is at stake at most from which on a finding is a warning, if any of it is sure."""

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
        message: what is wrong: a short sentence that can stand alone, and one or two with the numbers.
        stake: time at stake in an average step.
        change: what to do, as the lines of a diff (`-` out, `+` in), one to four of them; "" where no code is meant.
        why: what the stake rests on beside the replay of the steps, in one sentence or two: what is supposed.
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

    @property
    def title(self) -> str:
        """The first sentence of the message, without its full stop."""
        return first_sentence(self.message)

    @property
    def certainty(self) -> Certainty:
        """How sure the time at stake is: at least half of it, less, or a guess."""
        if self.confidence == "low":
            return "guess"
        return "sure" if self.stake.low * 2 >= self.stake.high else "likely"

    @property
    def order(self) -> tuple[int, float, str, str]:
        """Findings are shown in this order: by severity, then by what is at stake at most."""
        return -SEVERITIES.index(self.severity), -self.stake.high, self.code, self.key


_SENTENCE: Final = re.compile(r"(?:[^`.]|`[^`]*`|\.(?!\s|$))*")


def first_sentence(message: str) -> str:
    """Up to the first full stop that ends a sentence; names stand between backquotes and may hold any."""
    found = _SENTENCE.match(message)
    return found[0] if found else message


def severity(stake: Stake, step: float, confidence: Confidence, at_most: Severity = "critical") -> Severity:
    """How much a finding matters: by the share of the step that surely is at stake, and that may be."""
    low, high = (stake.low / step, stake.high / step) if step > 0 else (0.0, 0.0)
    warned = low >= WARNING or (low > 0 and high >= LIKELY)
    found: Severity = "critical" if low >= CRITICAL else "warning" if warned else "note"
    allowed: Severity = "note" if confidence == "low" else at_most
    return min(found, allowed, key=SEVERITIES.index)
