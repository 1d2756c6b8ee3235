"""Try: record the program once, then run it changed and unchanged in turns, and keep what makes its steps shorter.

`TrySession` goes in three parts, so that a face can ask between them: `survey` records and looks at the program as it
is, `measure_noise` runs it twice more, `run` tries the candidates.
"""

from __future__ import annotations

import dataclasses
import math
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kinetoscope.advisor import plan as plans
from kinetoscope.advisor.advice import Advice
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.history import machine_of, remember
from kinetoscope.compare.trials.learned import records_of
from kinetoscope.compare.trials.patch import Applied, patch_of
from kinetoscope.compare.trials.runs import LEADING, ROUNDING, TimedRun, loss_difference, of_notes
from kinetoscope.compare.trials.tried import FILE, TrialRow, Tried, pays_after
from kinetoscope.errors import InputError, KinetoscopeError
from kinetoscope.notes import Note
from kinetoscope.reading import read
from kinetoscope.record.always_on import mailbox
from kinetoscope.record.always_on.timing import NOTES
from kinetoscope.record.session.child_config import RecordPlan, TimingPlan
from kinetoscope.record.session.launching import environment_of
from kinetoscope.record.trials import by_name
from kinetoscope.record.trials.trial import Trial
from kinetoscope.trying.candidates import Candidates, candidates, known
from kinetoscope.trying.options import TryOptions, UserVariant
from kinetoscope.trying.processes import run_once
from kinetoscope.trying.progress import TrialProgress, Watch, unwatched
from kinetoscope.trying.search import Changes, Comparison, Search, noise
from kinetoscope.trying.store import RunStore

_LEAST_STEPS: Final = 10
"""Timed steps without which nothing is said of a run."""

_STEPS: Final = 30
_MOST_STEPS: Final = 2000
_SECONDS: Final = 1.0
"""Counted steps of a run: at least so many, and so many seconds of them."""

_NOISE: Final = 0.1
"""Two runs of the program as it is that are further apart call for two more."""

_MOST_NOISE: Final = 0.3
"""Three of four runs that are further apart: the machine tells nothing."""

_LIMIT_SECONDS: Final = 60.0
_LIMIT_OF_COMPILING: Final = 300.0
_LIMIT_TIMES: Final = 3.0
"""Time limit of a run: so many seconds, and so many times what the first run took."""

_PORT_SECONDS: Final = 5.0
_BASE: Final = "as it is"


class TrySession:
    """The trials of a program.

    Raises:
        InputError: the folder cannot be used.
    """

    def __init__(self, options: TryOptions, watch: Watch = unwatched) -> None:
        self.options = options
        self.trials = by_name(options.extensions)
        known(options, self.trials)
        self._variants = {each.name: each for each in options.variants}
        self.watch, self._began = watch, time.monotonic()
        self.folder = Path(options.folder).absolute()
        try:
            for name in ("logs", "traces"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.folder}: {error.strerror or error}; -o DIR names another place") from error
        about = {"command": list(options.command), "steps": options.steps, "seed": options.seed, "load": options.load}
        self._store = RunStore(self.folder, about, resume=options.resume)
        self._before = self._store.seconds
        self._steps = options.steps or LEADING + _STEPS
        self._doing, self._stopped = "", ""
        self._first = TimedRun()
        self._base: list[TimedRun] = []
        self._search: Search | None = None
        self._notes: list[Note] = []
        self.advice: Advice | None = None
        self.candidates = Candidates((), (), {})
        self._promised: dict[Changes, Mapping[str, Sequence[Finding]]] = {}
        self._recorded: dict[Changes, float] = {}
        self._remembered = set[str]()

    # --- three parts

    def survey(self) -> None:
        """Run the program as it is once: look where trials apply, and record a window.

        Raises:
            InputError: it cannot be run, or takes too few steps.
        """
        self._doing = "the program as it is, recorded"
        self._tell()
        first = self._measured((), "survey", 1, looks=tuple(self.trials), record=True, limit=self.options.timeout)
        if first.problem:
            raise InputError(f"nothing can be tried: {first.problem}")
        self._first = first
        if not self.options.steps:
            step = first.typical / 1e9
            asked = LEADING + min(max(_STEPS, math.ceil(_SECONDS / step)), _MOST_STEPS)
            self._steps = min(asked, len(first.steps)) if len(first.steps) < LEADING + _STEPS else asked
        planned = self._plan("baseline")
        self.advice = planned.advice if planned is not None else None
        self.candidates = candidates(self.options, self.trials, first, planned)
        self._promised[()] = self.candidates.promised
        self._recorded[()] = self.advice.step if self.advice is not None else 0.0

    def measure_noise(self) -> None:
        """Run the program as it is twice, four times where the two differ much.

        Raises:
            InputError: it fails, or its runs differ so much that nothing could be told.
        """
        for number in (1, 2, 3, 4):
            self._doing = f"the program as it is, run {number}"
            self._tell()
            run = self._measured((), "noise", number)
            if run.problem:
                raise InputError(f"nothing can be tried: {run.problem}")
            self._base.append(run)
            if number == 2 and self.noise <= _NOISE:
                return
        if self.noise > _MOST_NOISE and "noise" not in self.options.allow:
            raise InputError(
                f"nothing can be told on this machine now: of four runs of the same program, three differ by "
                f"{self.noise:.0%}; run it where nothing else runs, or --allow noise tries all the same"
            )

    @property
    def noise(self) -> float:
        """How far runs of the program as it is are apart; of more than two without the one that is furthest off."""
        steps = sorted(run.typical for run in self._base)
        if len(steps) > 2:
            return min(noise(steps[1:]), noise(steps[:-1]))
        return noise(steps)

    @property
    def planned(self) -> int:
        """About how many runs there will be."""
        searched = sum(2 * (self.options.rounds + 3) // 2 for _ in self.candidates.order)
        return 3 + searched + (self.options.rounds * 3 if self.candidates.order else 0)

    @property
    def seconds_a_run(self) -> float:
        """About how long a run takes."""
        return statistics.median([run.seconds for run in self._base] or [self._first.seconds])

    def run(self) -> Tried:
        """Try all candidates; what is measured when the user interrupts is kept."""
        self._search = Search(
            self._of_search, self._objection, self._has_time, self.options.rounds, self._conflicts, self._more
        )
        try:
            self._search.run(self.candidates.order)
        except KeyboardInterrupt:
            self._stopped = "it was interrupted"
        except InputError as error:  # the disk is full: what was measured is still said
            self._stopped = str(error)
        return self.result()

    def result(self) -> Tried:
        """What came of it so far; written into the folder."""
        tried = self._tried()
        if self.options.remember and self._search is not None:
            self._remember(tried)
        try:
            (self.folder / FILE).write_text(tried.to_json() + "\n", "utf-8")
        except OSError as error:
            said = f"{self.folder / FILE} cannot be written: {error.strerror or error}."
            problem = Note("NOT_WRITTEN", said, "warning")
            tried = dataclasses.replace(tried, notes=(*tried.notes, problem))
        return tried

    def _remember(self, tried: Tried) -> None:
        """Keep how promises turned out, once for each trial."""
        machine = machine_of(*self._first.devices, self._first.torch)
        rows = tuple(row for row in tried.trials if row.trial not in self._remembered)
        self._remembered |= {row.trial for row in rows}
        remember(records_of(dataclasses.replace(tried, trials=rows), machine=machine, date=time.strftime("%Y-%m-%d")))

    # --- one run

    def _of_search(self, changes: Changes, stage: str, number: int) -> TimedRun:
        what = " + ".join(changes) or _BASE
        self._doing = f"{what}, round {number} of {self.options.rounds}"
        self._tell()
        record = number == 1 and " again " not in stage and stage != "in the end" and bool(changes)
        return self._measured(changes, stage, number, record=record)

    def _measured(
        self,
        changes: Changes,
        stage: str,
        number: int,
        *,
        looks: Sequence[str] = (),
        record: bool = False,
        limit: float | None = None,
    ) -> TimedRun:
        """The run, made now if it was not made before."""
        key = (list(changes), stage, number)
        run = self._store.get(key)
        if run is None:
            run = self._run(changes, looks, record=record, limit=limit)
            if "Address already in use" in run.problem:
                time.sleep(_PORT_SECONDS)
                run = self._run(changes, looks, record=record, limit=limit)
            self._store.add(key, run)
        return run

    def _run(self, changes: Changes, looks: Sequence[str], *, record: bool, limit: float | None) -> TimedRun:
        options, name = self.options, "+".join(changes) or "baseline"
        variants = [self._variants[each] for each in changes if each in self._variants]
        inside = tuple(each for each in changes if each in self.trials)
        control = self.folder / ".kinetoscope" / f"{self._store.count}"
        shutil.rmtree(control, ignore_errors=True)
        trace = self.folder / "traces" / _file_name(name)
        plan = RecordPlan(
            dir=str(trace),
            control=str(control),
            steps_by=options.steps_by,
            signal=False,
            options={} if record else {"graph_captures": False, "compile_log": False},
            timing=TimingPlan(
                name=name,
                changes=inside,
                looks=tuple(each for each in looks if each not in inside),
                extensions=tuple(options.extensions),
                steps=self._steps,
                seed=options.seed,
                writes="writes" in options.allow,
                record=record,
            ),
        )
        command = next((each.command for each in reversed(variants) if each.command), options.command)
        environment = environment_of(plan)
        environment.setdefault("PYTHONHASHSEED", "0")
        environment["KINETOSCOPE_TRIAL"] = name
        compiles = False
        for trial in (self.trials[each] for each in inside):
            environment |= {key: value for key, value in trial.environment.items() if key not in environment}
            compiles |= trial.compiles
        for variant in variants:
            environment |= variant.environment
        cache = self.folder / ".kinetoscope" / "inductor" / _file_name(name)
        if compiles:
            environment["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
        seconds = limit or self._limit(compiles=compiles)
        log = self.folder / "logs" / f"{self._store.count:03d}-{_file_name(name)}.txt"
        try:
            if record:
                trace.mkdir(parents=True, exist_ok=True)
            ended = run_once(command, environment, log, seconds, load=options.load)
        except OSError as error:
            raise InputError(f"{error.filename or command[0]}: {error.strerror or error}") from error
        notes = [*mailbox.read_all(control / NOTES).values()]
        failed = [*mailbox.read_all(control / "failed").values()]
        shutil.rmtree(control, ignore_errors=True)
        run = of_notes(notes, ended.seconds, least=_LEAST_STEPS)
        problem = _problem(ended.code, seconds, ended.last_line, notes, failed) or run.problem
        if problem and compiles:
            shutil.rmtree(cache, ignore_errors=True)
        if ended.left and problem:
            problem += f"; {ended.left} processes were left and were ended"
        return dataclasses.replace(run, problem=problem)

    def _limit(self, *, compiles: bool) -> float:
        return max(_LIMIT_OF_COMPILING if compiles else _LIMIT_SECONDS, _LIMIT_TIMES * self._first.seconds)

    # --- choices

    def _plan(self, name: str) -> plans.Plan | None:
        """The findings about a recorded window, in the order in which to act on them."""
        try:
            return plans.plan(read(self.folder / "traces" / _file_name(name)))
        except KinetoscopeError as error:
            self._notes.append(Note("NO_WINDOW", f"No window of {name} was recorded, so no finding asks: {error}."))
            return None

    def _more(self, kept: Changes) -> Sequence[Changes]:
        """What a recording with the kept changes asks for, that the first one did not: one fix makes another matter."""
        planned = self._plan("+".join(kept))
        if planned is None:
            return ()
        now = candidates(self.options, self.trials, self._first, planned)
        self._promised[kept], self._recorded[kept] = now.promised, planned.advice.step
        named = {row.trial for row in now.rows}
        new = [each for each in now.order if each not in self.candidates.order]
        self.candidates = Candidates(
            (*self.candidates.order, *new), tuple(row for row in self.candidates.rows if row.trial in named), {}
        )
        return new

    def _has_time(self, runs: int) -> bool:
        used = self._before + time.monotonic() - self._began
        return used + runs * self.seconds_a_run <= self.options.budget

    def _conflicts(self, one: str, other: str) -> bool:
        """Of two variants of a group one at most is in force."""
        both = self._variants.get(one), self._variants.get(other)
        return both[0] is not None and both[1] is not None and both[0].group == both[1].group

    def _objection(self, comparison: Comparison) -> str:
        """Why a faster setup is not kept: its losses are others; "" if they are not."""
        difference, allowed = self._loss(comparison)
        if difference.word != "different":
            return ""
        if math.isinf(difference.most):
            return "its loss is not a number any more"
        return (
            f"its loss differs by {difference.first:.1e} in step {difference.step}, "
            f"where {allowed:.0e} is explained by rounding"
            if allowed == ROUNDING
            else f"its loss differs by {difference.first:.1e} in step {difference.step}"
        )

    def _loss(self, comparison: Comparison) -> tuple[Any, float]:
        added = [each for each in comparison.new if each not in comparison.base]
        allowed = max((self._loss_within(self.trials[each]) for each in added if each in self.trials), default=ROUNDING)
        own = self._own_difference()
        if own.word == "different":
            return dataclasses.replace(own, word="unknown"), allowed
        if not (comparison.of_base and comparison.of_new):
            return loss_difference(TimedRun(), TimedRun()), allowed
        return loss_difference(comparison.of_base[0], comparison.of_new[0], allowed), allowed

    def _loss_within(self, trial: Trial) -> float:
        return math.inf if trial.effect == "training" else trial.loss_within

    def _own_difference(self) -> Any:
        """How the losses of the program as it is differ from run to run."""
        if len(self._base) < 2:
            return loss_difference(TimedRun(), TimedRun())
        return loss_difference(self._base[0], self._base[1])

    # --- the result

    def _tell(self) -> None:
        search = self._search
        rows = self._rows() if search is not None else ()
        now = search.tried[-1].of_base[-1].typical if search and search.tried and search.tried[-1].of_base else 0.0
        planned = max(self.planned, self._store.count + 1) if self.candidates.order else 0
        self.watch(
            TrialProgress(
                doing=self._doing,
                runs=self._store.count,
                planned=planned,
                seconds=self._before + time.monotonic() - self._began,
                seconds_left=(planned - self._store.count) * self.seconds_a_run if planned else None,
                step=min((run.typical for run in (*self._base, self._first) if run.steps), default=0.0),
                step_now=now,
                kept=search.kept if search is not None else (),
                rows=rows,
            )
        )

    def _rows(self) -> tuple[TrialRow, ...]:
        assert self._search is not None
        return tuple(map(self._row, self._search.tried))

    def _row(self, comparison: Comparison) -> TrialRow:
        search = self._search
        assert search is not None
        added = tuple(each for each in comparison.new if each not in comparison.base)
        title = " and ".join(self._title(each) for each in added)
        promised = self._promised.get(comparison.base, {})
        findings = {(each.code, each.key): each for name in added for each in promised.get(name, ())}.values()
        row = TrialRow(
            trial=" + ".join(added),
            title=title,
            outcome="failed",
            why=comparison.problem,
            on_top_of=comparison.base,
            codes=tuple(dict.fromkeys(each.code for each in findings)),
            promised_low=round(sum(each.stake.low for each in findings)) if findings else None,
            promised_high=round(sum(each.stake.high for each in findings)) if findings else None,
            recorded_step=round(self._recorded.get(comparison.base, 0.0)) if findings else None,
        )
        if comparison.change is None:
            return dataclasses.replace(row, outcome="no effect" if comparison.idle else "failed")
        change = comparison.change
        base, new = (side[change.middle].typical for side in (comparison.of_base, comparison.of_new))
        loss, _ = self._loss(comparison)
        starts = [statistics.median(run.start for run in side) for side in (comparison.of_base, comparison.of_new)]
        start = max(starts[1] - starts[0], 0.0)
        samples = comparison.of_new[0].samples
        outcome, why = self._outcome(comparison, added)
        return dataclasses.replace(
            row,
            outcome=outcome,
            why=why,
            rounds=change.rounds,
            base_step=round(base),
            step=round(new),
            change=change.change,
            change_low=change.low,
            change_high=change.high if math.isfinite(change.high) else None,
            samples_per_second=samples / new * 1e9 if samples else None,
            loss=loss.word,
            loss_difference=loss.first if math.isfinite(loss.first) and loss.word not in ("equal", "unknown") else None,
            memory=max(run.memory for run in comparison.of_new),
            start=round(start),
            pays_after=pays_after(start, base, new) if outcome == "kept" else None,
            edit=self._edit(added, comparison.of_new[0]) if outcome == "kept" else "",
            trace=f"traces/{_file_name('+'.join(comparison.new))}",
        )

    def _outcome(self, comparison: Comparison, added: Changes) -> tuple[Any, str]:
        search = self._search
        assert search is not None
        assert comparison.change is not None
        rounds = comparison.change.rounds
        if comparison.word == "slower":
            return "slower", f"its steps are longer in each of {rounds} rounds"
        if comparison.word == "no gain":
            return "no gain", f"its steps are not shorter beyond noise, in {rounds} rounds"
        if objection := self._objection(comparison):
            return "loss differs", objection
        if any(each in search.removed for each in added):
            return "no longer matters", "in the end, the steps are as short without it"
        return "kept", f"its steps are shorter in each of {rounds} rounds, and the losses stay"

    def _title(self, name: str) -> str:
        return self.trials[name].title if name in self.trials else f"the variant {name}"

    def _edit(self, added: Changes, run: TimedRun) -> str:
        return patch_of([*self._applied(added, run)], program=self._program, root=Path.cwd()).text

    def _applied(self, changes: Changes, run: TimedRun) -> Iterator[Applied]:
        """The changes of trials that a run was made with, to be made permanent."""
        for trial in (self.trials[each] for each in changes if each in self.trials):
            note = run.changes.get(trial.name, {})
            places = [(str(file), int(line)) for file, line in note.get("places", ())]
            yield Applied(edit=trial.edit, facts=note.get("facts", {}), places=places, title=trial.title)

    @property
    def _program(self) -> str:
        """The user's script, where the command names it."""
        return next((str(Path(each).absolute()) for each in self.options.command if each.endswith(".py")), "")

    def _tried(self) -> Tried:
        search, base = self._search, self._base or [self._first]
        rows = [*self._rows(), *self.candidates.rows] if search is not None else [*self.candidates.rows]
        for skipped in search.skipped if search is not None else ():
            name = " + ".join(skipped)
            title = " and ".join(map(self._title, skipped))
            rows.append(TrialRow(trial=name, title=title, outcome="no time", why="the time of --budget was spent"))
        final = search.final if search is not None else None
        kept = search.kept if search is not None else ()
        if kept and final is None:
            final = next(each for each in reversed(search.tried) if each.new == kept) if search else None
            final = final if final is not None and not final.base else None
        change = final.change if final is not None else None
        before = final.of_base if final is not None and final.of_base else base
        middle = change.middle if change is not None else len(before) // 2
        step = before[middle].typical if before[0].steps else 0.0
        after = final.of_new if final is not None else ()
        step_kept = after[middle].typical if after else None
        samples = before[0].samples
        own = self._own_difference()
        return Tried(
            command=self.options.command,
            trials=tuple(rows),
            kept=kept,
            step=round(step),
            step_kept=round(step_kept) if step_kept is not None else None,
            change=change.change if change is not None else None,
            change_low=change.low if change is not None else None,
            change_high=change.high if change is not None and math.isfinite(change.high) else None,
            samples_per_second=samples / step * 1e9 if samples and step else None,
            samples_kept=after[0].samples / step_kept * 1e9 if step_kept and after[0].samples else None,
            memory=max(run.memory for run in base),
            memory_kept=max(run.memory for run in after) if after else None,
            ranks=self._first.ranks or 1,
            steps=self._steps,
            noise=self.noise if len(self._base) > 1 else 0.0,
            runs=self._store.count,
            seconds=self._before + time.monotonic() - self._began,
            loss=own.word,
            by_calls=self._first.by_calls,
            notes=tuple(self._notes),
            stopped=self._stopped,
            trace="traces/baseline",
            patch=self._edit(kept, after[0]) if after else "",
            edits=self._edits(),
        )

    def _edits(self) -> tuple[tuple[str, str, str], ...]:
        """The findings with a time at stake that no trial answers."""
        answered = {code for trial in self.trials.values() for code in trial.answers}
        findings = self.advice.timed if self.advice is not None else ()
        return tuple((each.code, str(each.title), each.change) for each in findings if each.code not in answered)


def try_changes(
    command: Sequence[str],
    *,
    folder: str = "",
    watch: Watch = unwatched,
    **options: Any,
) -> Tried:
    """Run a program changed and unchanged in turns, and say what makes its steps shorter.

    Args:
        command: that starts the program: `["python", "train.py"]`.
        folder: where results, traces and logs go; "": `tries/NAME-TIME`.
        watch: is called with a `TrialProgress` before each run.
        options: other fields of `TryOptions`.

    Raises:
        InputError: the program fails as it is, takes too few steps, or the machine is too noisy.
        UsageError: a name or an option is wrong.
    """
    from kinetoscope.record.session.launching import runnable

    words = tuple(runnable(command))
    session = TrySession(TryOptions(command=words, folder=folder or default_folder(words), **options), watch)
    session.survey()
    session.measure_noise()
    return session.run()


def default_folder(command: Sequence[str]) -> str:
    """`tries/train-20260102-030405` for `python train.py`."""
    from kinetoscope.record.session.launching import program_name

    return f"tries/{program_name(command)}-{time.strftime('%Y%m%d-%H%M%S')}"


def _problem(
    code: int | None, limit: float, last: str, notes: Sequence[Mapping[str, Any]], failed: Sequence[Mapping[str, Any]]
) -> str:
    """Why a run says nothing; "" if it may."""
    if failed:
        return str(failed[0].get("problem") or failed[0].get("why"))
    if notes and all(note["ended"] == "steps" for note in notes):
        return ""
    if code is None:
        return f"it was not done after {limit:.0f} s"
    if code:
        how = f"with exit code {code}" if code > 0 else f"by signal {-code}"
        return f"it ended {how}: {last}" if last else f"it ended {how}"
    return ""


def _file_name(name: str) -> str:
    """A name for a file, of letters that any file system takes."""
    return "".join(letter if letter.isalnum() or letter in "+-_." else "-" for letter in name)[:100] or "-"


__all__ = ["TrySession", "UserVariant", "default_folder", "try_changes"]
