"""The plan of a rank: its findings in the order in which they save most, all replayed together.

Each finding changes its times to such a part that alone it saves what it promises, at the lower end and at the upper
one. The plan has two replays: one of all lower ends so far, one of all upper ends; what a finding saves after those
before it is the difference that it makes to each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kinetoscope.advisor.finding import Finding, Stake
from kinetoscope.advisor.laws import together, uncounted
from kinetoscope.advisor.rule import RankView
from kinetoscope.model.critical_path.joint import ReplayedChange, joined
from kinetoscope.model.critical_path.what_if import Factors

_TRIES: Final = 8
"""Replays in which the part is sought that saves what is promised."""

_PROMISE_ERROR: Final = 0.005
"""Share of a promise by which the part that is taken may save less."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A finding in its place.

    Attributes:
        finding: as it was given.
        alone: what it saves of an average step if nothing else is done, ns.
        least, most: what it saves after those before it: in the replay of all lower ends, and of all upper ends. Where
            the upper ends leave less of it than the lower ends do, `least` is more than `most`.
        device: the device time of an average step that goes with it after those before it, at the upper ends, ns.
        causes: of an average step after it, at the upper ends, ns by `CAUSES`; () from the first finding on for which
            there is no replay.
    """

    finding: Finding
    alone: Stake
    least: float
    most: float
    device: float
    causes: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A finding to be placed; `change` is None where no replay says what it saves.

    `parts`, `saved`: the parts of its change for both ends, and what they save alone, ns of an average step.
    """

    finding: Finding
    change: ReplayedChange | None = None
    parts: tuple[float, float] = (0.0, 0.0)
    saved: tuple[float, float] = (0.0, 0.0)


@dataclass(slots=True)
class _Done:
    """The steps so far. At both ends: the changes and their parts, what replays save, and what is promised."""

    findings: list[Finding] = field(default_factory=list)
    changes: tuple[list[tuple[ReplayedChange, float]], list[tuple[ReplayedChange, float]]] = field(
        default_factory=lambda: ([], [])
    )
    replayed: tuple[float, float] = (0.0, 0.0)
    promised: tuple[float, float] = (0.0, 0.0)


def plan_of_rank(rank: RankView, findings: Sequence[Finding]) -> list[Planned]:
    """Findings with time at stake in the order of a plan: at each place the one that saves most after those before it.

    What one has no replay for, it saves as promised, as far as time is left that no finding before it counts; those of
    them that give way (`overlap_priority`) come last. Of n findings there are n (n + 1) + 18 n replays at most.

    Args:
        rank: that they are about.
        findings: as they are alone: with `time`, `factors`, and their stakes within the laws.
    """
    left = [candidate(rank, each) for each in findings if each.stake.high > 0]
    done = _Done()
    planned, device = [], 0.0
    while left:
        first = min(map(_gives_way, left))
        chosen, saved, replayed = _best(rank, done, [each for each in left if _gives_way(each) == first])
        left.remove(chosen)
        done.findings.append(chosen.finding)
        if chosen.change is not None:
            for changes, part in zip(done.changes, chosen.parts, strict=True):
                changes.append((chosen.change, part))
        done.replayed = replayed
        done.promised = (done.promised[0] + saved[0], done.promised[1] + saved[1])
        factors = joined(rank.trace, done.changes[1])
        gone = _device_time(rank, factors)
        causes = rank.causes(factors) if len(done.changes[1]) == len(done.findings) else ()
        planned.append(Planned(chosen.finding, chosen.finding.stake, *saved, gone - device, causes))
        device = gone
    return planned


def candidate(rank: RankView, finding: Finding) -> Candidate:
    """The finding with the parts of its change that save alone what it promises."""
    if finding.factors is None:
        return Candidate(finding)
    change = ReplayedChange.of(finding.factors)

    def gain(part: float) -> float:
        return _gain(rank, joined(rank.trace, [(change, part)]))

    whole = gain(1.0)
    low, high = (_part(gain, whole, wanted) for wanted in (finding.stake.low, finding.stake.high))
    return Candidate(finding, change, (low[0], high[0]), (low[1], high[1]))


def _device_time(rank: RankView, factors: Factors) -> float:
    """The device time of an average step that goes, ns."""
    chosen = rank.scope.device_work_mask
    return rank.per_step(float((rank.work.duration[chosen] * (1.0 - factors.work[chosen])).sum()))


def _gives_way(candidate: Candidate) -> int:
    return 0 if candidate.change is not None else candidate.finding.overlap_priority


def _gain(rank: RankView, factors: Factors) -> float:
    return rank.per_step(float(rank.gains(factors).sum()))


def _part(gain: Callable[[float], float], whole: float, wanted: float) -> tuple[float, float]:
    """The part of a change that saves what is wanted, or a little less, and what it saves; all where that is not more.

    A longest path bends: the part lies between two others, and is sought along the line between them and in the middle.
    """
    if wanted <= 0:
        return 0.0, 0.0
    if whole <= wanted:
        return 1.0, max(whole, 0.0)
    low, saved, high, more = 0.0, 0.0, 1.0, whole
    for turn in range(_TRIES):
        if saved >= (1 - _PROMISE_ERROR) * wanted:
            break
        line = (wanted * (1 - _PROMISE_ERROR / 2) - saved) / (more - saved)
        part = low + (high - low) * (line if turn % 2 == 0 else 0.5)
        now = gain(part)
        if now <= wanted:
            low, saved = part, max(now, saved)
        else:
            high, more = part, now
    return low, saved


def _best(
    rank: RankView, done: _Done, candidates: Sequence[Candidate]
) -> tuple[Candidate, tuple[float, float], tuple[float, float]]:
    """The finding that saves most after those before it, what it saves, and what the replays save with it."""
    best: tuple[Candidate, tuple[float, float], tuple[float, float]] | None = None
    for each in sorted(candidates, key=lambda each: (-_at_most(each.finding), each.finding.code, each.finding.key)):
        if best is not None and _at_most(each.finding) < sum(best[1]):
            break  # nor does any of the others
        saved, replayed = _after(rank, done, each)
        if best is None or _order(each, saved) < _order(best[0], best[1]):
            best = each, saved, replayed
    assert best is not None
    return best


def _at_most(finding: Finding) -> float:
    """Twice the middle of what it can save after any others: no more than the thing takes; at the lower end, too."""
    takes = finding.stake.high if finding.takes is None else finding.takes
    return takes * (2 if finding.stake.low > 0 else 1)


def _order(candidate: Candidate, saved: tuple[float, float]) -> tuple[float, str, str]:
    return -sum(saved), candidate.finding.code, candidate.finding.key


def _after(rank: RankView, done: _Done, candidate: Candidate) -> tuple[tuple[float, float], tuple[float, float]]:
    """The savings of a finding after others, and of the replays with it, at both ends.

    The replay of a rule may say less than its promise, which has a margin: so much more is saved here, too.
    """
    finding, change = candidate.finding, candidate.change
    if change is None:
        stake, _ = uncounted(finding, done.findings)
        saved, replayed = (stake.low, stake.high), done.replayed
    else:
        ends = []
        for end, wanted in enumerate((finding.stake.low, finding.stake.high)):
            factors = joined(rank.trace, [*done.changes[end], (change, candidate.parts[end])])
            now = max(_gain(rank, factors), done.replayed[end])
            more, own = now - done.replayed[end], candidate.saved[end]
            likely = min(wanted, more * wanted / own) if own > 0 else wanted if not done.findings else more
            ends.append((max(now - done.promised[end], likely), now))
        saved, replayed = (ends[0][0], ends[1][0]), (ends[0][1], ends[1][1])
    takes = rank.step if finding.takes is None else finding.takes
    alone = replace(finding, stake=Stake(min(saved), max(saved)))
    high = min(saved[1], takes, together(alone, alone.stake, done.findings, done.promised[1], rank.step_time).high)
    low = min(saved[0], takes, done.promised[1] + high - done.promised[0])
    return (max(low, 0.0), max(high, 0.0)), replayed
