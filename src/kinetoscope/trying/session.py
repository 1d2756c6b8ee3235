"""Try: record the program once, then run it changed and unchanged in turns, and keep what makes its steps shorter.

`TrySession` goes in three parts, so that a face can ask between them: `survey` records and looks at the program as it
is, `measure_noise` runs it twice more, `run` tries the candidates.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Sequence
from typing import Any, Final

from kinetoscope.advisor import plan as plans
from kinetoscope.advisor.history import machine_of, remember
from kinetoscope.compare.trials.learned import records_of
from kinetoscope.compare.trials.runs import LEADING, TimedRun
from kinetoscope.compare.trials.tried import FILE, Tried, names_of
from kinetoscope.errors import InputError, KinetoscopeError, NotFoundError
from kinetoscope.notes import Note
from kinetoscope.reading import read
from kinetoscope.record.session.launching import program_name, runnable
from kinetoscope.record.trials import by_name
from kinetoscope.trying.account import Account
from kinetoscope.trying.candidates import Candidates, candidates, known
from kinetoscope.trying.losses import objection
from kinetoscope.trying.options import TryOptions
from kinetoscope.trying.progress import TrialProgress, Watch, unwatched
from kinetoscope.trying.runner import MIN_STEPS, Runner
from kinetoscope.trying.search import Changes, Search

_STEPS: Final = 30
_MAX_STEPS: Final = 2000
_SECONDS: Final = 1.0
"""Counted steps of a run: at least so many, and so many seconds of them, but no more than the most."""

_WINDOW_STEPS: Final = 8
"""Steps that a recorded window takes, with those before and after it."""

_NOISE_SHARE: Final = 0.1
"""Two runs of the program as it is that are further apart call for two more."""

_MAX_NOISE_SHARE: Final = 0.3
"""Three of four runs that are further apart: the machine tells nothing."""

_AS_IT_IS: Final = "as it is"


class TrySession:
    """The trials of a program.

    Attributes:
        options: of the user.
        watch: is called with a `TrialProgress` before each run.
        trials: all that there are, by name.

    Raises:
        InputError: the folder cannot be used.
    """

    def __init__(self, options: TryOptions, watch: Watch = unwatched) -> None:
        self.options, self.watch = options, watch
        self.trials = by_name(options.extensions)
        known(options, self.trials)
        self._groups = {each.name: each.group for each in options.variants}
        self._runner = Runner(options, self.trials, options.steps or LEADING + _STEPS)
        self.folder = self._runner.folder
        self._account = Account(options, self.trials, self._runner)
        self._began = time.monotonic() - self._runner.store.seconds
        self._remembered = set[str]()

    @property
    def candidates(self) -> Candidates:
        """The trials to run, in order, and why the rest is not."""
        return self._account.candidates

    @property
    def noise(self) -> float:
        """How far runs of the program as it is are apart, as a share."""
        return self._account.noise

    # --- three parts

    def survey(self) -> None:
        """Run the program as it is once: look where trials apply, and record a window.

        Raises:
            InputError: it cannot be run, or takes too few steps.
        """
        self._tell("the program as it is, recorded")
        looks = tuple(self.trials)
        first = self._runner.run((), "survey", 1, looks=looks, record=True, limit=self.options.timeout)
        if first.problem:
            raise InputError(f"nothing can be tried: {first.problem}")
        account = self._account
        if not self._runner.has_window(()) and (steps := len(first.steps) - _WINDOW_STEPS) >= MIN_STEPS:
            # The program ended before its window was recorded: fewer steps are timed, so that one is.
            self._runner.steps = steps
            again = self._runner.run((), "survey", 2, looks=looks, record=True, limit=self.options.timeout)
            first = first if again.problem else again
        elif not self.options.steps:
            asked = LEADING + min(max(_STEPS, math.ceil(_SECONDS * 1e9 / first.typical)), _MAX_STEPS)
            is_short = len(first.steps) < LEADING + _STEPS
            self._runner.steps = min(asked, len(first.steps)) if is_short else asked
        account.first, self._runner.usual = first, first.seconds
        planned = self._plan(())
        account.findings = planned.advice.timed if planned is not None else ()
        account.candidates = candidates(self.options, self.trials, first, planned)
        account.promised[()] = account.candidates.promised
        account.recorded[()] = planned.advice.step if planned is not None else 0.0

    def measure_noise(self) -> None:
        """Run the program as it is twice, four times where the two differ much.

        Raises:
            InputError: it fails, or its runs differ so much that nothing could be told.
        """
        for number in (1, 2, 3, 4):
            self._tell(f"the program as it is, run {number}")
            run = self._runner.run((), "noise", number)
            if run.problem:
                raise InputError(f"nothing can be tried: {run.problem}")
            self._account.base.append(run)
            if number == 2 and self.noise <= _NOISE_SHARE:
                return
        if self.noise > _MAX_NOISE_SHARE and "noise" not in self.options.allow:
            raise InputError(
                f"nothing can be told on this machine now: of four runs of the same program, three differ by "
                f"{self.noise:.0%}; run it where nothing else runs, or --allow noise tries all the same"
            )

    def run(self) -> Tried:
        """Try all candidates; what was measured before the user interrupts, or the disk is full, is there."""
        account = self._account
        search = account.search = Search(
            self._measured,
            lambda comparison: objection(comparison, self.trials, account.base),
            self._has_time,
            self.options.rounds,
            self._conflicts,
            self._more,
        )
        try:
            search.run(account.candidates.order)
        except KeyboardInterrupt:
            account.stopped = "it was interrupted"
        except InputError as error:
            account.stopped = str(error)
        return self.result()

    def result(self) -> Tried:
        """All that came of it so far; written into the folder."""
        tried = self._account.tried(time.monotonic() - self._began)
        if self.options.remember and self._account.search is not None:
            self._remember(tried)
        try:
            (self.folder / FILE).write_text(tried.to_json() + "\n", "utf-8")
        except OSError as error:
            said = f"{self.folder / FILE} cannot be written: {error.strerror or error}."
            tried = dataclasses.replace(tried, notes=(*tried.notes, Note("NOT_WRITTEN", said, "warning")))
        return tried

    def _remember(self, tried: Tried) -> None:
        """Keep how promises turned out, once for each trial."""
        first = self._account.first
        rows = tuple(row for row in tried.trials if row.trial not in self._remembered)
        self._remembered |= {row.trial for row in rows}
        machine = machine_of(*first.devices, first.torch)
        remember(records_of(dataclasses.replace(tried, trials=rows), machine=machine, date=time.strftime("%Y-%m-%d")))

    # --- how long it takes

    @property
    def planned(self) -> int:
        """About how many runs there will be."""
        rounds = self.options.rounds
        of_candidates = len(self.candidates.order) * (rounds + 3)
        return 3 + of_candidates + (3 * rounds if of_candidates else 0)

    @property
    def seconds_a_run(self) -> float:
        """About how long a run takes."""
        return statistics.median([run.seconds for run in self._account.base] or [self._account.first.seconds])

    def _has_time(self, runs: int) -> bool:
        return time.monotonic() - self._began + runs * self.seconds_a_run <= self.options.budget

    def _tell(self, doing: str) -> None:
        account, search, runs = self._account, self._account.search, self._runner.store.count
        planned = max(self.planned, runs + 1) if self.candidates.order else 0
        last = search.tried[-1].of_base if search is not None and search.tried else ()
        self.watch(
            TrialProgress(
                doing=doing,
                runs=runs,
                planned=planned,
                seconds=time.monotonic() - self._began,
                seconds_left=(planned - runs) * self.seconds_a_run if planned else None,
                step=min((run.typical for run in (*account.base, account.first) if run.steps), default=0.0),
                step_now=last[-1].typical if last else 0.0,
                accepted=search.accepted if search is not None else (),
                rows=account.rows,
            )
        )

    # --- what the search asks

    def _measured(self, changes: Changes, stage: str, number: int) -> TimedRun:
        self._tell(f"{names_of(changes) or _AS_IT_IS}, round {number} of {self.options.rounds}")
        return self._runner.run(changes, stage, number, record=not self._runner.has_window(changes))

    def _plan(self, changes: Changes) -> plans.AdvicePlan | None:
        """The findings about a recorded window, in the order in which to act on them."""
        try:
            return plans.plan(read(self.folder / self._runner.trace_folder(changes)))
        except NotFoundError:
            reason = "the program ends before a window is recorded, or its recording failed"
            self._account.notes.append(Note("NO_RECORDED_WINDOW", f"Nothing is asked for by a recording: {reason}."))
            return None
        except KinetoscopeError as error:
            self._account.notes.append(Note("NO_RECORDED_WINDOW", f"Nothing is asked for by a recording: {error}."))
            return None

    def _more(self, accepted: Changes) -> Sequence[Changes]:
        """The candidates that the recording with these changes asks for: one fix makes another matter."""
        planned, account = self._plan(accepted), self._account
        if planned is None:
            return ()
        now = candidates(self.options, self.trials, account.first, planned)
        account.promised[accepted], account.recorded[accepted] = now.promised, planned.advice.step
        left = {row.trial for row in now.rows}
        before = account.candidates
        new = [each for each in now.order if each not in before.order]
        rows = tuple(row for row in before.rows if row.trial in left)
        account.candidates = Candidates((*before.order, *new), rows, before.promised)
        return new

    def _conflicts(self, one: str, other: str) -> bool:
        """Two variants of a group exclude each other."""
        return one in self._groups and self._groups[one] == self._groups.get(other)


def try_changes(command: Sequence[str], *, folder: str = "", watch: Watch = unwatched, **options: Any) -> Tried:
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
    words = tuple(runnable(command))
    session = TrySession(TryOptions(command=words, folder=folder or default_folder(words), **options), watch)
    session.survey()
    if session.candidates.order:
        session.measure_noise()
    return session.run()


def default_folder(command: Sequence[str]) -> str:
    """`tries/train-20260102-030405` for `python train.py`."""
    return f"tries/{program_name(command)}-{time.strftime('%Y%m%d-%H%M%S')}"
