"""Runs of the user's program, with what is changed in each: made when they are asked for, and kept in a folder."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kinetoscope.compare.trials.runs import TimedRun, of_notes
from kinetoscope.errors import InputError
from kinetoscope.record.always_on import mailbox
from kinetoscope.record.session.child_config import TIMED, RecordPlan, TimingPlan
from kinetoscope.record.session.launching import environment_of
from kinetoscope.record.trials.trial import Trial
from kinetoscope.trying.options import TryOptions
from kinetoscope.trying.processes import run_once
from kinetoscope.trying.search import Changes
from kinetoscope.trying.store import RunStore

MIN_STEPS: Final = 10
"""Timed steps without which nothing is said of a run."""

_LIMIT_SECONDS: Final = 60.0
_LIMIT_OF_COMPILING: Final = 300.0
_LIMIT_PER_RUN: Final = 3.0
"""The time limit of a run: so many seconds, and so many times what the first run took."""

_PORT_SECONDS: Final = 5.0
"""Seconds after which a program is started again whose port was still in use."""

LOGS: Final = "logs"
TRACES: Final = "traces"


class Runner:
    """Runs of a program.

    Args:
        options: of the user.
        trials: all that there are, by name.

    Attributes:
        steps: that are timed in each run.
        usual: seconds that a run takes; 0 as long as that is not known.

    Raises:
        InputError: the folder cannot be used.
    """

    def __init__(self, options: TryOptions, trials: Mapping[str, Trial], steps: int) -> None:
        self.steps, self.usual = steps, 0.0
        self._options, self._trials = options, trials
        self._variants = {each.name: each for each in options.variants}
        self.folder = Path(options.folder).absolute()
        try:
            for name in (LOGS, TRACES):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.folder}: {error.strerror or error}; -o DIR names another place") from error
        about = {"command": list(options.command), "steps": options.steps, "seed": options.seed, "load": options.load}
        self.store = RunStore(self.folder, about, resume=options.resume)

    def trace_folder(self, changes: Changes) -> str:
        """The folder of the recorded window with these changes, relative to that of all."""
        return f"{TRACES}/{_file_name(_name_of(changes))}"

    def has_window(self, changes: Changes) -> bool:
        """True if a window was recorded with these changes."""
        return any((self.folder / self.trace_folder(changes)).glob("*.pt.trace.json*"))

    def run(
        self,
        changes: Changes,
        stage: str,
        number: int,
        *,
        looks: Sequence[str] = (),
        record: bool = False,
        limit: float = 0.0,
    ) -> TimedRun:
        """The run, made now if it was not made before.

        Args:
            changes: names of trials and variants that are in force.
            stage: what it is a run for; with the round, `number`, it tells runs of the same changes apart.
            number: the round.
            looks: trials that only look where they would apply.
            record: record a window after the timed steps.
            limit: seconds after which it is ended; 0: by what a run takes.

        Raises:
            InputError: the command cannot be started, or the folder not be written.
        """
        key = (list(changes), stage, number)
        run = self.store.get(key)
        if run is None:
            run = self._made(changes, looks, record=record, limit=limit)
            if "Address already in use" in run.problem:
                time.sleep(_PORT_SECONDS)
                run = self._made(changes, looks, record=record, limit=limit)
            self.store.add(key, run)
        return run

    def _made(self, changes: Changes, looks: Sequence[str], *, record: bool, limit: float) -> TimedRun:
        control = self.folder / ".kinetoscope" / f"{self.store.count}"
        shutil.rmtree(control, ignore_errors=True)
        plan = self._plan(changes, looks, control, record=record)
        compiles = any(self._trials[each].compiles for each in changes if each in self._trials)
        cache = self.folder / ".kinetoscope" / "inductor" / _file_name(_name_of(changes))
        environment = self._environment(plan, changes)
        if compiles:  # what a run leaves that was ended while it compiled breaks those that find it
            environment["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
        limit = limit or max(_LIMIT_OF_COMPILING if compiles else _LIMIT_SECONDS, _LIMIT_PER_RUN * self.usual)
        commands = [self._variants[each].command for each in changes if each in self._variants]
        command = next(filter(None, reversed(commands)), self._options.command)
        log = self.folder / LOGS / f"{self.store.count:03d}-{_file_name(_name_of(changes))}.txt"
        try:
            if record:
                Path(plan.dir).mkdir(parents=True, exist_ok=True)
            ended = run_once(command, environment, log, limit, load=self._options.load)
        except OSError as error:
            raise InputError(f"{error.filename or command[0]}: {error.strerror or error}") from error
        notes = [*mailbox.read_all(control / TIMED).values()]
        failed = [*mailbox.read_all(control / "failed").values()]
        shutil.rmtree(control, ignore_errors=True)
        run = of_notes(notes, ended.seconds, least=MIN_STEPS)
        problem = _problem(ended.code, limit, ended.last_line, notes, failed) or run.problem
        if problem and compiles:
            shutil.rmtree(cache, ignore_errors=True)
        if ended.left and problem:
            problem += f"; {ended.left} processes were left and were ended"
        return dataclasses.replace(run, problem=problem)

    def _plan(self, changes: Changes, looks: Sequence[str], control: Path, *, record: bool) -> RecordPlan:
        options = self._options
        inside = tuple(each for each in changes if each in self._trials)
        timing = TimingPlan(
            name=_name_of(changes),
            changes=inside,
            looks=tuple(each for each in looks if each not in inside),
            extensions=tuple(options.extensions),
            steps=self.steps,
            seed=options.seed,
            writes="writes" in options.allow,
            record=record,
        )
        return RecordPlan(
            dir=str(self.folder / self.trace_folder(changes)),
            control=str(control),
            steps_by=options.steps_by,
            signal=False,
            options={} if record else {"graph_captures": False, "compile_log": False},
            timing=timing,
        )

    def _environment(self, plan: RecordPlan, changes: Changes) -> dict[str, str]:
        """The variables of a run; none that the user has set is replaced but by a variant of the user's."""
        environment = environment_of(plan)
        environment.setdefault("PYTHONHASHSEED", "0")
        environment["KINETOSCOPE_TRIAL"] = _name_of(changes)
        for trial in (self._trials[each] for each in changes if each in self._trials):
            environment = {**trial.environment, **environment}
        for variant in (self._variants[each] for each in changes if each in self._variants):
            environment |= variant.environment
        return environment


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


def _name_of(changes: Changes) -> str:
    return "+".join(changes) or "baseline"


def _file_name(name: str) -> str:
    """A name for a file, of letters that any file system takes."""
    return "".join(letter if letter.isalnum() or letter in "+-_." else "-" for letter in name)[:100] or "-"
