"""The trials that are worth a run: what a look at the program and the findings of its recording ask for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.plan import AdvicePlan
from kinetoscope.compare.trials.runs import TimedRun
from kinetoscope.compare.trials.tried import TrialRow
from kinetoscope.errors import UsageError, nearest
from kinetoscope.record.trials.trial import Trial
from kinetoscope.trying.options import TryOptions
from kinetoscope.trying.search import Changes


@dataclass(frozen=True)
class Candidates:
    """The trials to run, in order, and why the rest is not.

    Attributes:
        order: names of trials and pairs of them, those that promise most first.
        rows: of those that are not run.
        promised: by name the findings that it answers.
    """

    order: tuple[Changes, ...]
    rows: tuple[TrialRow, ...]
    promised: Mapping[str, tuple[Finding, ...]]


def known(options: TryOptions, trials: Mapping[str, Trial]) -> None:
    """Check the names that the user gave.

    Raises:
        UsageError: no trial has such a name.
    """
    names = [*trials, *(variant.name for variant in options.variants)]
    for name in (*options.only, *options.skip):
        if name not in names:
            raise UsageError(f"there is no trial {name!r}{nearest(name, names)}; `kinetoscope try --list` lists them")


def candidates(
    options: TryOptions,
    trials: Mapping[str, Trial],
    first: TimedRun,
    planned: AdvicePlan | None,
) -> Candidates:
    """Choose.

    Args:
        options: of the user.
        trials: all that there are.
        first: the run in which the trials only looked.
        planned: the findings about the recorded window in the order of their plan; None if there is none.
    """
    looks = first.changes
    findings = planned.advice.findings if planned is not None else ()
    promised = {name: tuple(each for each in findings if each.code in trial.answers) for name, trial in trials.items()}
    rows, chosen = [], []
    for name, trial in trials.items():
        outcome = _why_not(trial, options, first, promised[name])
        if outcome is None:
            chosen.append(name)
        elif outcome[0]:
            codes = tuple(dict.fromkeys(each.code for each in promised[name]))
            rows.append(TrialRow(trial=name, title=trial.title, outcome=outcome[0], why=outcome[1], codes=codes))
    places = {step.code: place for place, step in reversed([*enumerate(planned.steps if planned is not None else ())])}
    chosen.sort(
        key=lambda name: min((places.get(each.code, len(places)) for each in promised[name]), default=len(places))
    )
    order = [*((variant.name,) for variant in options.variants), *_with_pairs(chosen, trials, looks, options)]
    return Candidates(tuple(order), tuple(rows), promised)


def _why_not(
    trial: Trial,
    options: TryOptions,
    first: TimedRun,
    promised: Sequence[Finding],
) -> tuple[Any, str] | None:
    """The outcome of a trial that is not run, and why; None if it is to be; "" as outcome: the user left it out."""
    if trial.name in options.skip or (options.only and trial.name not in options.only):
        return "", ""
    if options.variants and not (options.only or options.everything):
        return "", ""
    if trial.needs == "device" and not first.devices:
        return "no device", "torch has no device here"
    if trial.needs == "ranks" and first.ranks < 2:
        return "one rank", "the job has one rank"
    if taken := [name for name in trial.environment if name in os.environ]:
        return "refused", f"{taken[0]} is set already"
    look = first.changes.get(trial.name, {})
    if not look.get("count"):
        refused = look.get("refused") or {}
        if refused:
            return "refused", max(refused, key=lambda why: refused[why])
        return "nothing to change", "the program has nothing that it changes"
    if trial.allow and trial.allow not in options.allow:
        return "not allowed", f"it changes the training; --allow {trial.allow} tries it"
    if options.only or options.everything or trial.unasked or promised:
        return None
    return "not asked", "no finding asks for it"


def _with_pairs(
    chosen: Sequence[str], trials: Mapping[str, Trial], looks: Mapping[str, Mapping[str, Any]], options: TryOptions
) -> Iterator[Changes]:
    """The trials, and behind each the pairs with those that it may need; such a one needs no finding of its own."""
    for name in chosen:
        yield (name,)
        for other in trials[name].partners:
            fits = other in trials and looks.get(other, {}).get("count") and other not in options.skip
            if fits and (not options.only or other in options.only):
                yield (name, other)
