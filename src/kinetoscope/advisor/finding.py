"""A finding: what is wrong, the time at stake, the evidence, and what to change. Rules make it, all faces show it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:  # the command line asks for the severities before it loads anything large
    from kinetoscope.algorithms.intervals.intervals import Intervals
    from kinetoscope.model.critical_path.what_if import Factors
    from kinetoscope.views.sentences import Quantity, Sentence

Severity = Literal["note", "warning", "critical"]
Confidence = Literal["low", "medium", "high"]
Certainty = Literal["sure", "likely", "guess"]

SEVERITIES: Final[tuple[Severity, ...]] = ("note", "warning", "critical")
"""In ascending order."""

WARNING_SHARE: Final = 0.03
"""Certain share of a step from which on a finding is a warning."""

CRITICAL_SHARE: Final = 0.2
"""Certain share of a step from which on it is critical."""

POSSIBLE_WARNING_SHARE: Final = 0.2
"""Possible share of a step from which on a finding is a warning, if any of it is certain."""

NEGLIGIBLE_STEP_SHARE: Final = 0.005
"""Share of a step below which time at stake is not reported."""


@dataclass(frozen=True, slots=True)
class Stake:
    """The nanoseconds by which a step would be shorter: at least and at most; `advisor.laws` has their bounds."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The value by which findings are ranked."""
        return (self.low + self.high) / 2

    def times(self, factor: float) -> Stake:
        """Both ends times a factor."""
        return Stake(self.low * factor, self.high * factor)


NO_STAKE: Final = Stake(0.0, 0.0)
"""No time is at stake: the finding is about something else, such as memory or the recording."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A place that shows a finding. What is not known or not meant is None.

    Attributes:
        text: what is to be seen there, in a few words, with its numbers.
        analysis, params: the analysis that shows it.
        start, end: a time range, ns after the first event of the trace.
        row: an event of the trace.
        file, line: a place in the user's source.
        rank: rank of the trace that `start`, `end` and `row` refer to.
    """

    text: str
    analysis: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    start: int | None = None
    end: int | None = None
    row: int | None = None
    file: str | None = None
    line: int | None = None
    rank: int | None = None

    @property
    def time_range(self) -> tuple[int, int] | None:
        """Start and end, if they are known and some time lies between them."""
        known = self.start is not None and self.end is not None and 0 <= self.start < self.end
        return (self.start, self.end) if known else None  # type: ignore[return-value]


@dataclass(frozen=True, slots=True, repr=False)
class Finding:
    """A rule's report about one rank or about a job. `run_rules.rank_findings` sets `code` and what follows it.

    Attributes:
        message: what is wrong: a short sentence that can stand alone, and one or two with the numbers.
        stake: time at stake in an average step; once ranked, without what a finding before it counts already.
        takes: nanoseconds of an average step that the thing itself takes which the message names: no gain is larger.
            None for a finding without a stake.
        change: what to do, as the lines of a diff (`-` out, `+` in), one to four of them; "" where no code is meant.
        why: assumptions behind the stake besides the replay of the steps, in one sentence or two.
        confidence: high: the trace shows the mechanism, and the lower end follows from times that it has; medium: the
            lower end rests on how something scales; low: a guess, of which nothing is sure, and never more than a note.
        evidence: where to look, the most telling first; three at most.
        time: the intervals that the change would remove: disjoint, ascending, ns of the trace. Time that two findings
            claim is counted once. None where it is not known, and in an answer.
        factors: what the replay of its upper end changes; a plan replays several together. None where the gain follows
            from no replay, and in an answer.
        key: tells several findings of one rule apart: the name of an operator, a source line.
        at_most: the greatest severity that it can have, whatever is at stake.
        at_least: the least: more than a note where the run itself failed.
        overlap_priority: findings with a higher number give way: they count only time that no lower-numbered finding
            claims.
        code: of its rule, such as DATA001.
        severity: how much it matters.
        step: the average step, ns.
        ranks: those that it was found on; empty where it is about the job.
        same_time_as: code of the finding that counts most of the same time; "" for none.
        record: how trials of what its rule advises turned out so far, in a sentence; "" where none was run.
    """

    message: str
    stake: Stake = NO_STAKE
    change: str = ""
    why: str = ""
    confidence: Confidence = "high"
    evidence: tuple[Evidence, ...] = ()
    time: Intervals | None = field(default=None, compare=False)
    factors: Factors | None = field(default=None, compare=False)
    key: str = ""
    at_most: Severity = "critical"
    at_least: Severity = "note"
    overlap_priority: int = 0
    takes: float | None = None
    code: str = ""
    severity: Severity = "note"
    step: float = 0.0
    ranks: tuple[int, ...] = ()
    same_time_as: str = ""
    record: str = ""

    def __repr__(self) -> str:
        return f"<Finding {self.code or 'of no rule yet'}, {self.severity}: {self.title}>"

    @property
    def title(self) -> Sentence:
        """The first sentence of the message, without its full stop."""
        from kinetoscope.views.sentences import part

        return part(self.message, first_sentence(self.message))

    @property
    def detail(self) -> Sentence:
        """The sentences of the message after the first; "" where there are none."""
        from kinetoscope.views.sentences import part

        return part(self.message, self.message[len(self.title) + 1 :].strip())

    @property
    def certainty(self) -> Certainty:
        """How certain the time at stake is: sure if the trace proves half of it or more; likely; or a guess."""
        if self.confidence == "low":
            return "guess"
        return "sure" if self.confidence == "high" and self.stake.low * 2 >= self.stake.high else "likely"

    @property
    def facts(self) -> tuple[tuple[str, Quantity], ...]:
        """The quantities of its sentences: in which of them, `message`, `why`, `evidence` or `record`, and which."""
        evidence = (("evidence", each.text) for each in self.evidence)
        parts = [("message", self.message), ("why", self.why), *evidence, ("record", self.record)]
        return tuple((part, quantity) for part, text in parts for quantity in getattr(text, "quantities", ()))

    @property
    def share(self) -> Stake | None:
        """The stake as a share of the average step; None where there is no step."""
        return Stake(self.stake.low / self.step, self.stake.high / self.step) if self.step else None

    @property
    def order(self) -> tuple[int, float, str, str]:
        """The sort key of findings as they are shown: by severity, then by what is at stake at most."""
        return -SEVERITIES.index(self.severity), -self.stake.high, self.code, self.key

    def remarks(self, ranks: int) -> list[str]:
        """Sentences for a face: on which of the job's ranks it was found, which finding counts its time, what came."""
        from kinetoscope.model.trace.text import numbered

        sentences = [self.record] if self.record else []
        if 0 < len(self.ranks) < ranks:
            sentences.append(f"On {numbered('rank', self.ranks)} only.")
        if self.same_time_as:
            sentences.append(f"{self.same_time_as} counts most of this time already.")
        return sentences

    def with_stake(self, stake: Stake, step: float, at_most: Severity) -> Finding:
        """The same finding with another stake, and the severity that follows from it."""
        weight = max(severity(stake, step, self.confidence, at_most), self.at_least, key=SEVERITIES.index)
        return dataclasses.replace(self, stake=stake, step=step, severity=weight)


_SENTENCE: Final = re.compile(r"(?:[^`.]|`[^`]*`|\.(?!\s|$))*")


def first_sentence(message: str) -> str:
    """Up to the first full stop that ends a sentence; names stand between backquotes and may hold any."""
    match = _SENTENCE.match(message)
    return match[0] if match else message


def severity(stake: Stake, step: float, confidence: Confidence, at_most: Severity = "critical") -> Severity:
    """The severity of a stake: by the share of the step that is certain, and that is possible."""
    low, high = (stake.low / step, stake.high / step) if step > 0 else (0.0, 0.0)
    is_warning = low >= WARNING_SHARE or (low > 0 and high >= POSSIBLE_WARNING_SHARE)
    earned: Severity = "critical" if low >= CRITICAL_SHARE else "warning" if is_warning else "note"
    allowed: Severity = "note" if confidence == "low" else at_most
    return min(earned, allowed, key=SEVERITIES.index)
