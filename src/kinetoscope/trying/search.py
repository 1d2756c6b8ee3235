"""The order of trials: which are tried on top of which, and when one is out: greedy, by rounds in turns.

It knows no processes: `measure` runs a setup once. A candidate, one trial or two that need each other, is run in turns
with what is kept so far. After two rounds it is out if it was slower by 5 % in both; after three if it was not faster
in each; after five, eight where the machine is noisy, it is kept if `paired` calls it a gain and the losses stay. When
all were tried, what is kept is run in turns with the program as it is, and with each kept change taken away once: one
that brings nothing any more, beyond noise, goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from kinetoscope.compare.statistics.paired import MIN_GAIN, ROUNDS, PairedChange, paired
from kinetoscope.compare.trials.runs import TimedRun

Changes = tuple[str, ...]
"""Names of the trials that change the process, in order; () is the program as it is."""

_CLEAR_LOSS_SHARE: Final = 0.05
"""Share by which a candidate that is out after two rounds was slower in both."""

_MIN_ROUNDS: Final = 3
"""Rounds after which a candidate is out that was not faster in each of them."""

_NOISY_SHARE: Final = 0.1
_MORE_ROUNDS: Final = 3
"""So many more rounds are run where the runs of the base are further apart than this share."""

_DISTURBED_RATIO: Final = 1.5
"""A run whose step is so many times off the other runs of its setup is run again."""

_MAX_REPEATS: Final = 2
"""Times that a disturbed run is run again at most."""

_SHORTER_RATIO: Final = 1.5
"""A candidate that brought nothing is tried again once the step has become so many times shorter since."""


@dataclass(frozen=True)
class Measured:
    """A run that was made.

    Attributes:
        changes: what was changed.
        stage: which comparison it belongs to.
        round: of it, from 1.
        run: what was measured.
        disturbed: it was far off the others of its setup, and run again.
    """

    changes: Changes
    stage: str
    round: int
    run: TimedRun
    disturbed: bool = False


Word = Literal["gain", "no gain", "slower", "failed", "inconclusive"]


@dataclass(frozen=True)
class Comparison:
    """Two setups that were run in turns.

    Attributes:
        base, new: what was changed in each.
        of_base, of_new: their runs, one a round.
        change: of the step; None where a run of one failed.
        problem: of the run that failed.
        idle: that is that a change was not in force.
    """

    base: Changes
    new: Changes
    of_base: tuple[TimedRun, ...] = ()
    of_new: tuple[TimedRun, ...] = ()
    change: PairedChange | None = None
    problem: str = ""
    idle: bool = False

    @property
    def added(self) -> Changes:
        """The changes that the base has not."""
        return tuple(each for each in self.new if each not in self.base)

    @property
    def word(self) -> Word:
        """A word for the change of the step alone, whatever the losses are."""
        if self.change is None:
            return "failed"
        if self.change.is_gain:
            return "gain"
        return "slower" if self.change.is_loss else "no gain"


@dataclass
class Search:
    """The trials of a program.

    Attributes:
        measure: runs a setup once, as (changes, stage, round).
        accepts: why a faster candidate is not kept all the same, such as another loss; "" if it is.
        has_time: whether so many runs of a setup fit into what is left of the time.
        rounds: how many are run of what may be a gain.
        conflicts: whether two changes exclude each other; the one that is tried takes the other's place.
        more: what else is worth a try once these changes are kept, such as what the next recording asks for.
        tried: a comparison for each candidate that was run, in order; one that was tried twice is there twice.
        accepted: the changes that are kept.
        removed: changes that were kept, and brought nothing any more in the end.
        skipped: candidates for which no time was left.
        final: what is kept against the program as it is.
        without: by kept change, what is kept against the same without it.
    """

    measure: Callable[[Changes, str, int], TimedRun]
    accepts: Callable[[Comparison], str]
    has_time: Callable[[int], bool] = lambda _: True
    rounds: int = ROUNDS
    conflicts: Callable[[str, str], bool] = lambda _, __: False
    more: Callable[[Changes], Sequence[Changes]] = lambda _: ()
    tried: list[Comparison] = field(default_factory=list)
    accepted: Changes = ()
    removed: Changes = ()
    skipped: list[Changes] = field(default_factory=list)
    final: Comparison | None = None
    without: dict[str, Comparison] = field(default_factory=dict)

    def run(self, candidates: Sequence[Changes]) -> None:
        """Try the candidates in this order, then hold what is kept against the program as it is."""
        steps: dict[Changes, float] = {}
        order, place = [*candidates], 0
        while place < len(order):
            before = self.accepted
            self._try(order[place], steps)
            place += 1
            if self.accepted != before:
                order += [each for each in self.more(self.accepted) if each not in order]
        now = self._step_now()
        for candidate in order:
            again = steps.get(candidate, 0.0) > _SHORTER_RATIO * now and not set(candidate) & set(self.accepted)
            if again and self._may_gain(candidate):
                self._try(candidate, steps)
        self._take_away()

    def _try(self, candidate: Changes, steps: dict[Changes, float]) -> None:
        new = tuple(each for each in candidate if each not in self.accepted)
        if not new:
            return
        if not self.has_time(2 * _MIN_ROUNDS):
            self.skipped.append(candidate)
            return
        rest = tuple(each for each in self.accepted if not any(self.conflicts(each, other) for other in new))
        if any(each.base == self.accepted and each.new == (*rest, *new) for each in self.tried):
            return
        comparison = self.compare(self.accepted, (*rest, *new), "+".join(new))
        self.tried.append(comparison)
        if comparison.of_base:
            steps[candidate] = comparison.of_base[-1].typical
        if comparison.word == "gain" and not self.accepts(comparison):
            self.accepted = comparison.new

    def _step_now(self) -> float:
        last = next((each for each in reversed(self.tried) if each.new == self.accepted and each.of_new), None)
        return last.of_new[-1].typical if last is not None else math.inf

    def _may_gain(self, candidate: Changes) -> bool:
        """Was it at least not slower, and did it run?"""
        last = next(each for each in reversed(self.tried) if set(candidate) <= {*each.added})
        return last.word == "no gain"

    def compare(self, base: Changes, new: Changes, stage: str) -> Comparison:
        """Run two setups in turns until it is known whether the second is faster."""
        runs: tuple[list[TimedRun], list[TimedRun]] = ([], [])
        number, last = 0, self.rounds
        while number < last:
            number += 1
            order = (0, 1) if number % 2 else (1, 0)
            for side in order:
                run = self.undisturbed((base, new)[side], stage, number, runs[side])
                if run.problem:
                    return Comparison(base, new, tuple(runs[0]), tuple(runs[1]), None, run.problem, run.idle)
                runs[side].append(run)
            if number == 2:
                for side in order:
                    self._mend_first((base, new)[side], stage, runs[side])
            change = paired(*([run.typical for run in side] for side in runs))
            if _is_out(change, [run.typical for run in runs[0]], [run.typical for run in runs[1]]):
                break
            if number == self.rounds and noise([run.typical for run in runs[0]]) > _NOISY_SHARE:
                last += _MORE_ROUNDS
        return Comparison(base, new, tuple(runs[0]), tuple(runs[1]), change)

    def _mend_first(self, changes: Changes, stage: str, runs: list[TimedRun]) -> None:
        """Run the first round of a setup again if the second shows that something else had the machine in it."""
        if runs[0].typical > _DISTURBED_RATIO * runs[1].typical:
            again = self.measure(changes, f"{stage} again 1", 1)
            runs[0] = runs[0] if again.problem else min(runs[0], again, key=lambda run: run.typical)

    def undisturbed(self, changes: Changes, stage: str, number: int, before: Sequence[TimedRun]) -> TimedRun:
        """A run of a setup, made again if it is far off the runs before it: something else had the machine."""
        run = self.measure(changes, stage, number)
        for again in range(_MAX_REPEATS):
            if run.problem or not before or not _is_off(run.typical, [each.typical for each in before]):
                break
            other = self.measure(changes, f"{stage} again {again + 1}", number)
            run = min(run, other, key=lambda each: math.inf if each.problem else each.typical)
        return run

    def _take_away(self) -> None:
        """Hold what is kept against the program as it is, and against the same without each kept change."""
        if not self.accepted or not self.has_time(2 + len(self.accepted)):
            return
        setups: dict[str, Changes] = {"": (), "all": self.accepted}
        if len(self.accepted) > 1:
            setups |= {each: tuple(other for other in self.accepted if other != each) for each in self.accepted}
        runs: dict[str, list[TimedRun]] = {name: [] for name in setups}
        for number in range(1, self.rounds + 1):
            if number > 1 and not self.has_time(len(setups)):
                break
            names = list(setups) if number % 2 else list(reversed(setups))
            for name in names:
                runs[name].append(self.undisturbed(setups[name], "in the end", number, runs[name]))
        self.final = _of_runs((), self.accepted, runs[""], runs["all"])
        self.without = {
            each: _of_runs(setups[each], self.accepted, runs[each], runs["all"])
            for each in self.accepted
            if each in setups
        }
        if not self.without and self.final.change is not None and not _matters(self.final.change):
            self.removed, self.accepted, self.final = (*self.removed, *self.accepted), (), None
            return
        idle = [each for each, of in self.without.items() if of.change is not None and not _matters(of.change)]
        if idle and (worst := max(idle, key=lambda each: _change_of(self.without[each]))):
            self.removed = (*self.removed, worst)
            self.accepted = setups[worst]
            if len(idle) > 1 and len(self.accepted) > 1:
                self._take_away()
            else:
                self.final = _of_runs((), self.accepted, runs[""], runs[worst])
                self.without.pop(worst)


def _change_of(comparison: Comparison) -> float:
    return comparison.change.change if comparison.change is not None else 0.0


def _matters(change: PairedChange) -> bool:
    """Does the program run faster with it than without it: in every round, or by an interval that leaves no doubt?"""
    return change.high < 0 or (change.is_shorter and change.change <= -MIN_GAIN)


def _of_runs(base: Changes, new: Changes, of_base: Iterable[TimedRun], of_new: Iterable[TimedRun]) -> Comparison:
    rounds = [(one, other) for one, other in zip(of_base, of_new, strict=False) if not (one.problem or other.problem)]
    if not rounds:
        problem = next((run.problem for run in (*of_base, *of_new) if run.problem), "no round was run")
        return Comparison(base, new, problem=problem)
    ones, others = zip(*rounds, strict=True)
    change = paired([run.typical for run in ones], [run.typical for run in others])
    return Comparison(base, new, tuple(ones), tuple(others), change)


def _is_out(change: PairedChange, base: Sequence[float], new: Sequence[float]) -> bool:
    if change.rounds == _MIN_ROUNDS - 1:
        return all(other > (1 + _CLEAR_LOSS_SHARE) * one for one, other in zip(base, new, strict=True))
    return change.rounds >= _MIN_ROUNDS and not change.is_shorter


def _is_off(value: float, others: Sequence[float]) -> bool:
    middle = sorted(others)[len(others) // 2]
    return value > _DISTURBED_RATIO * middle or middle > _DISTURBED_RATIO * value


def noise(base: Sequence[float]) -> float:
    """How far runs of the same program are apart: the longest step / the shortest − 1."""
    return max(base) / min(base) - 1 if base and min(base) > 0 else math.inf
