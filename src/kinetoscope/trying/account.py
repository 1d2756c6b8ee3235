"""The result of trying, as it is shown and written: a row for each trial, and what is kept of all."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kinetoscope.advisor.finding import Finding
from kinetoscope.compare.statistics.paired import PairedChange
from kinetoscope.compare.trials.patch import Applied, patch_of
from kinetoscope.compare.trials.runs import TimedRun
from kinetoscope.compare.trials.tried import Outcome, TrialRow, Tried, names_of, pays_after
from kinetoscope.notes import Note
from kinetoscope.record.trials.trial import Trial
from kinetoscope.trying.candidates import Candidates
from kinetoscope.trying.losses import difference_of, objection, own_difference
from kinetoscope.trying.options import TryOptions
from kinetoscope.trying.runner import Runner
from kinetoscope.trying.search import Changes, Comparison, Search, noise


@dataclass
class Account:
    """Facts about the trials of a program, as far as they are known.

    Attributes:
        options: of the user.
        trials: all that there are, by name.
        runner: makes the runs.
        first: the run that was recorded, in which the trials only looked.
        base: runs of the program as it is.
        candidates: what is tried, and why the rest is not.
        promised: by what was changed already the findings that each trial answers, of the recording with that.
        recorded: the average step of that recording, ns.
        findings: about the program as it is, those with time at stake.
        search: the trials that were run; None as long as none was.
        notes: what was left out.
        stopped: why it ended before all was tried.
    """

    options: TryOptions
    trials: Mapping[str, Trial]
    runner: Runner
    first: TimedRun = field(default_factory=TimedRun)
    base: list[TimedRun] = field(default_factory=list)
    candidates: Candidates = field(default_factory=lambda: Candidates((), (), {}))
    promised: dict[Changes, Mapping[str, Sequence[Finding]]] = field(default_factory=dict)
    recorded: dict[Changes, float] = field(default_factory=dict)
    findings: Sequence[Finding] = ()
    search: Search | None = None
    notes: list[Note] = field(default_factory=list)
    stopped: str = ""

    @property
    def noise(self) -> float:
        """How far runs of the program as it is are apart; of more than two without the one that is furthest off."""
        steps = sorted(run.typical for run in self.base)
        return min(noise(steps[1:]), noise(steps[:-1])) if len(steps) > 2 else noise(steps)

    @property
    def rows(self) -> tuple[TrialRow, ...]:
        """A row for each trial that was run, in order."""
        return tuple(map(self._row, self.search.tried)) if self.search is not None else ()

    def tried(self, seconds: float) -> Tried:
        """All that came of it, after so many seconds."""
        before, after, change = self._in_the_end()
        middle = change.middle if change is not None else len(before) // 2
        step = before[middle].typical if before[0].steps else 0.0
        step_after = after[middle].typical if after else None
        samples = before[0].samples
        changes = self.search.accepted if self.search is not None else ()
        return Tried(
            command=self.options.command,
            trials=(*self.rows, *self.candidates.rows, *self._skipped()),
            kept=changes,
            step=round(step),
            step_after=round(step_after) if step_after is not None else None,
            change=change.change if change is not None else None,
            change_low=change.low if change is not None else None,
            change_high=change.high if change is not None and math.isfinite(change.high) else None,
            samples_per_second=samples / step * 1e9 if samples and step else None,
            samples_after=after[0].samples / step_after * 1e9 if step_after and after[0].samples else None,
            memory=max(run.memory for run in before),
            memory_after=max(run.memory for run in after) if after else None,
            ranks=self.first.ranks or 1,
            steps=self.runner.steps,
            noise=self.noise if len(self.base) > 1 else 0.0,
            runs=self.runner.store.count,
            seconds=seconds,
            loss=own_difference(self.base).word,
            by_calls=self.first.by_calls,
            notes=tuple(self.notes),
            stopped=self.stopped,
            trace=self.runner.trace_folder(()),
            patch=self._edit(changes, after[0]) if after else "",
            edits=self._edits(),
        )

    def _in_the_end(self) -> tuple[Sequence[TimedRun], Sequence[TimedRun], PairedChange | None]:
        """Runs of the program as it is, and of all that is kept, with the change from one to the other."""
        search, base = self.search, self.base or [self.first]
        if search is None or not search.accepted:
            return base, (), None
        last = search.final or next(each for each in reversed(search.tried) if each.new == search.accepted)
        if last.base or last.change is None:  # no time was left to hold all that is kept against the program as it is
            return base, (), None
        return last.of_base, last.of_new, last.change

    def _skipped(self) -> Iterator[TrialRow]:
        for changes in self.search.skipped if self.search is not None else ():
            why = "the time of --budget was spent"
            yield TrialRow(trial=names_of(changes), title=self._title(changes), outcome="no time", why=why)

    def _row(self, comparison: Comparison) -> TrialRow:
        added = comparison.added
        promised = self.promised.get(comparison.base, {})
        findings = {(each.code, each.key): each for name in added for each in promised.get(name, ())}.values()
        outcome, why = self._outcome(comparison)
        row = TrialRow(
            trial=names_of(added),
            title=self._title(added),
            outcome=outcome,
            why=why,
            on_top_of=comparison.base,
            codes=tuple(dict.fromkeys(each.code for each in findings)),
            promised_low=round(sum(each.stake.low for each in findings)) if findings else None,
            promised_high=round(sum(each.stake.high for each in findings)) if findings else None,
            recorded_step=round(self.recorded.get(comparison.base, 0.0)) if findings else None,
        )
        change = comparison.change
        if change is None:
            return row
        base, new = (side[change.middle].typical for side in (comparison.of_base, comparison.of_new))
        starts = [statistics.median(run.start for run in side) for side in (comparison.of_base, comparison.of_new)]
        start = max(starts[1] - starts[0], 0.0)
        loss = difference_of(comparison, self.trials, self.base)
        samples = comparison.of_new[0].samples
        is_gain = outcome == "kept"
        return dataclasses.replace(
            row,
            rounds=change.rounds,
            base_step=round(base),
            step=round(new),
            change=change.change,
            change_low=change.low,
            change_high=change.high if math.isfinite(change.high) else None,
            samples_per_second=samples / new * 1e9 if samples else None,
            loss=loss.word,
            loss_difference=loss.first if loss.word in ("close", "different") and math.isfinite(loss.first) else None,
            memory=max(run.memory for run in comparison.of_new),
            start=round(start),
            pays_after=pays_after(start, base, new) if is_gain else None,
            edit=self._edit(added, comparison.of_new[0]) if is_gain else "",
            trace=self.runner.trace_folder(comparison.new),
        )

    def _outcome(self, comparison: Comparison) -> tuple[Outcome, str]:
        if comparison.change is None:
            return ("no effect" if comparison.idle else "failed"), comparison.problem
        rounds = comparison.change.rounds
        if comparison.word == "slower":
            return "slower", f"its steps are longer in each of {rounds} rounds"
        if comparison.word == "no gain":
            return "no gain", f"its steps are not shorter beyond noise, in {rounds} rounds"
        if why := objection(comparison, self.trials, self.base):
            return "loss differs", why
        if self.search is not None and set(comparison.added) & set(self.search.removed):
            return "no longer matters", "in the end, the steps are as short without it"
        return "kept", f"its steps are shorter in each of {rounds} rounds, and the losses stay"

    def _title(self, changes: Changes) -> str:
        return " and ".join(
            self.trials[each].title if each in self.trials else f"the variant {each}" for each in changes
        )

    def _edit(self, changes: Changes, run: TimedRun) -> str:
        script = next((str(Path(each).absolute()) for each in self.options.command if each.endswith(".py")), "")
        return patch_of([*self._applied(changes, run)], program=script, root=Path.cwd()).text

    def _applied(self, changes: Changes, run: TimedRun) -> Iterator[Applied]:
        """The changes of trials that a run was made with, to be made permanent."""
        for trial in (self.trials[each] for each in changes if each in self.trials):
            note = run.changes.get(trial.name, {})
            places = [(str(file), int(line)) for file, line in note.get("places", ())]
            yield Applied(edit=trial.edit, facts=note.get("facts", {}), places=places, title=trial.title)

    def _edits(self) -> tuple[tuple[str, str, str], ...]:
        """The findings with a time at stake that no trial answers."""
        answered = {code for trial in self.trials.values() for code in trial.answers}
        return tuple((each.code, str(each.title), each.change) for each in self.findings if each.code not in answered)
