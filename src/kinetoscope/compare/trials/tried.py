"""The result of trying: the program as it is, each trial with what it brought and why it is kept or not, as a table."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import polars as pl

from kinetoscope import dispatch
from kinetoscope.compare.trials.checked import checked
from kinetoscope.errors import InputError
from kinetoscope.notes import Note, Severity
from kinetoscope.readers.reader import TRIALS
from kinetoscope.schema import Column, Result, Schema

FILE: Final = TRIALS

MAX_BYTES: Final = 4_000_000
"""Bytes of such a file that are read; a result of many trials has some ten thousand."""

_FORMAT: Final = 1

_MAX_DEPTH: Final = 5
"""Folders above a trace in which the result that it belongs to is looked for, and its own."""

Outcome = Literal[
    "kept", "no gain", "slower", "loss differs", "no longer matters", "failed", "no effect",
    "nothing to change", "refused", "not asked", "not allowed", "no device", "one rank", "no time",
]  # fmt: skip
"""What came of a trial.

kept: faster beyond noise, and the losses stay. no gain: not faster beyond noise. slower. loss differs: faster, but the
losses are others than rounding explains. no longer matters: kept at first, and without it the step is as short in the
end. failed: its run did not get to its steps. no effect: the change was made, and read back it was not in force. The
others were not run: nothing to change: nothing that it changes is in the program; refused: it must not be applied
there; not asked: no finding asks for it; not allowed: it changes the training, and needs --allow; no device, one rank:
it is for others; no time: the budget was spent.
"""

RESULT = Schema(
    Column("trial", pl.String, "Name of the trial; of two that were tried together, both."),
    Column("title", pl.String, "What it changes."),
    Column("outcome", pl.String, "kept, no gain, slower, loss differs, ...: see What came of a trial."),
    Column("why", pl.String, "Why it is kept, is not, or was not run."),
    Column("on_top_of", pl.String, "Trials that were in force on both sides of the comparison."),
    Column("rounds", pl.Int64, "Rounds, each with one run without it and one with it."),
    Column("base_step", pl.Int64, "Typical step without it, in the median round.", "ns"),
    Column("step", pl.Int64, "Typical step with it, in the median round.", "ns"),
    Column("change", pl.Float64, "Change of the step in the median round; negative for a gain.", "fraction"),
    Column("change_low", pl.Float64, "95 % interval of the mean change, from here", "fraction"),
    Column("change_high", pl.Float64, "to here.", "fraction"),
    Column("samples_per_second", pl.Float64, "Samples of all ranks in a second with it; null if not known."),
    Column("codes", pl.String, "Rules whose findings it answers, of those that were found."),
    Column("promised_low", pl.Int64, "What the findings promised of a recorded step: at least.", "ns"),
    Column("promised_high", pl.Int64, "What they promised: at most.", "ns"),
    Column("brought", pl.Int64, "base_step − step.", "ns"),
    Column("loss", pl.String, "equal, close, different from the loss without it, or unknown."),
    Column("loss_difference", pl.Float64, "Relative difference in the first step whose loss differs.", "fraction"),
    Column(
        "memory", pl.Int64, "Most memory of a rank with it, on its device or, without one, of the process.", "bytes"
    ),
    Column("start", pl.Int64, "What its first steps take more than others, as compiling does.", "ns"),
    Column("pays_after", pl.Int64, "Steps after which that is earned; null without a gain."),
)
"""A row for each trial, those that were run first, in the order in which they were."""

SETUPS: Final = Schema(
    Column("setup", pl.String, "`as it is`: the program itself; `kept`: with all trials that are kept."),
    Column("trials", pl.String, "Names of the trials in force."),
    Column("step", pl.Int64, "Typical step.", "ns"),
    Column("change", pl.Float64, "Change of the step; negative for a gain.", "fraction"),
    Column("change_low", pl.Float64, "95 % interval of the mean change, from here", "fraction"),
    Column("change_high", pl.Float64, "to here.", "fraction"),
    Column("samples_per_second", pl.Float64, "Samples of all ranks in a second; null if not known."),
    Column("memory", pl.Int64, "Most memory of a rank.", "bytes"),
)
"""The program as it is, and, if they were measured, all that is kept together."""


@dataclass(frozen=True, kw_only=True)
class TrialRow:
    """A trial and what came of it; what does not apply is None or empty. Times are ns; see `RESULT`.

    Attributes beside those of the table:
        edit: how to make the change permanent, in words; "" for what is not kept.
        recorded_step: average step of the recording, without the change, whose findings promised it, ns.
        trace: the folder with the recorded window of its last step, relative to that of the result; "" for none.
    """

    trial: str
    title: str
    outcome: Outcome
    why: str = ""
    on_top_of: tuple[str, ...] = ()
    rounds: int = 0
    base_step: int | None = None
    step: int | None = None
    change: float | None = None
    change_low: float | None = None
    change_high: float | None = None
    samples_per_second: float | None = None
    codes: tuple[str, ...] = ()
    promised_low: int | None = None
    promised_high: int | None = None
    recorded_step: int | None = None
    loss: str = ""
    loss_difference: float | None = None
    memory: int | None = None
    start: int | None = None
    pays_after: int | None = None
    edit: str = ""
    trace: str = ""

    @property
    def brought(self) -> int | None:
        """By how much the step is shorter, ns."""
        return None if self.base_step is None or self.step is None else self.base_step - self.step

    @property
    def was_run(self) -> bool:
        """Was a run of it measured?"""
        return self.step is not None


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The result of trying all.

    Attributes:
        command: what was run.
        trials: a row for each trial.
        kept: names of those that are kept, in order.
        step: typical step of the program as it is, ns; of the last comparison with what is kept, or of all its runs.
        step_after: the same with all that is kept; None if nothing is.
        change, change_low, change_high: from the one to the other.
        samples_per_second, samples_after: samples of all ranks in a second, before and after.
        memory, memory_after: most memory of a rank, bytes.
        ranks: how many take steps.
        steps: timed steps of a run.
        noise: how far two runs of the program as it is were apart, as a share.
        runs: how many runs were made.
        seconds: that all took.
        loss: how the losses of the program as it is are from run to run: equal, or why they say nothing.
        patch: the changes to the user's files as a unified diff, and settings besides, as comments; "" for none.
        by_calls: the steps are calls of a model, not an optimizer's.
        notes: what was left out or assumed.
        stopped: why it ended before all was tried; "" if it did not.
        trace: folder of the recorded window of the program as it is, relative to that of the result.
        edits: what findings that no trial answers ask for: code, title and the change, in order of what they promise.
    """

    command: tuple[str, ...]
    trials: tuple[TrialRow, ...] = ()
    kept: tuple[str, ...] = ()
    step: int = 0
    step_after: int | None = None
    change: float | None = None
    change_low: float | None = None
    change_high: float | None = None
    samples_per_second: float | None = None
    samples_after: float | None = None
    memory: int = 0
    memory_after: int | None = None
    ranks: int = 1
    steps: int = 0
    noise: float = 0.0
    runs: int = 0
    seconds: float = 0.0
    loss: str = ""
    patch: str = ""
    by_calls: bool = False
    notes: tuple[Note, ...] = ()
    stopped: str = ""
    trace: str = ""
    edits: tuple[tuple[str, str, str], ...] = field(default=())

    @property
    def result(self) -> Result:
        """The same as a table."""
        rows = [
            tuple(
                "+".join(value) if isinstance(value := getattr(row, name), tuple) and name == "on_top_of"
                else ", ".join(value) if isinstance(value, tuple) else value
                for name in RESULT.names
            )
            for row in self.trials
        ]  # fmt: skip
        return Result(RESULT.frame(rows), RESULT, self.notes, "try", {})

    @property
    def setups(self) -> Result:
        """The program as it is and with all that is kept, as a table; see `SETUPS`."""
        rows: list[tuple[Any, ...]] = []
        if self.step:
            rows.append(("as it is", "", self.step, None, None, None, self.samples_per_second, self.memory or None))
        if self.step_after is not None:
            change = (self.change, self.change_low, self.change_high)
            names = names_of(self.kept)
            rows.append(("kept", names, self.step_after, *change, self.samples_after, self.memory_after))
        return Result(SETUPS.frame(rows), SETUPS)

    @property
    def was_measured(self) -> bool:
        """Was any trial measured?"""
        return any(row.was_run for row in self.trials)

    def to_json(self) -> str:
        """All of it as JSON: the baseline and `trials`, each with its name, `kept`, `why`, times and intervals."""
        own = _finite(dataclasses.asdict(self))
        trials = [{"name": row.trial, **each, "kept": row.outcome == "kept", "brought": row.brought}
                  for each, row in zip(own.pop("trials"), self.trials, strict=True)]  # fmt: skip
        of_base = ("step", "samples_per_second", "memory", "noise", "loss", "trace")
        own["baseline"] = {name: own[name] for name in of_base}
        own["notes"] = [[note.code, str(note), note.severity] for note in self.notes]
        return json.dumps({"format": _FORMAT, **own, "trials": trials}, indent=1, allow_nan=False)

    def __str__(self) -> str:
        return dispatch.text(self)

    def _repr_html_(self) -> str:
        return dispatch.html(self)


def _finite(value: Any) -> Any:
    """The same without numbers that JSON does not have: an interval of one round has no ends."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def from_json(text: str, name: str = FILE) -> Tried:
    """The inverse of `Tried.to_json`.

    Raises:
        InputError: it is something else.
    """
    try:
        data = json.loads(text)
        if data.pop("format") != _FORMAT:
            raise InputError(f"{name} was written by another version of kinetoscope; try again with --resume or anew")
        trials = tuple(checked(TrialRow, row) for row in data.pop("trials"))
        notes = tuple(_note(*each) for each in data.pop("notes"))
        return dataclasses.replace(checked(Tried, data), trials=trials, notes=notes)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{name} is no result of `kinetoscope try`: {error!r:.200}") from error


def _note(code: str, said: str, severity: str) -> Note:
    if severity not in typing.get_args(Severity):
        raise ValueError(f"a note is {severity!r:.60}")
    return Note(str(code), str(said), typing.cast(Severity, severity))


def load(folder: Path) -> Tried:
    """The result in a folder of `kinetoscope try`.

    Raises:
        InputError: there is none.
    """
    path = folder / FILE if folder.is_dir() else folder
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise InputError(f"{path} is no file")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; `kinetoscope try` writes it") from error
    if len(data) > MAX_BYTES:
        raise InputError(f"{path} is no result of `kinetoscope try`: it has more than {MAX_BYTES:,} bytes")
    return from_json(data.decode("utf-8", "replace"), str(path))


def of_run(path: str) -> tuple[Tried, str] | None:
    """The result whose folder holds a run, and the run's folder in it as its rows name it; None for any other run.

    Args:
        path: of a trace, of a folder of traces, or of the result's folder itself, for which that name is "".

    Raises:
        InputError: a file of that name lies there, and is no result.
    """
    folder = folder_of(path)
    if folder is None:
        return None
    tried, name = load(folder), Path(path).absolute().relative_to(folder).as_posix()
    traces = {tried.trace, *(row.trace for row in tried.trials)} - {""}
    owner = next((each for each in traces if f"{name}/".startswith(f"{each.rstrip('/')}/")), None)
    return (tried, "") if name == "." else None if owner is None else (tried, owner)


def folder_of(path: str) -> Path | None:
    """The nearest folder with a result in which this path is, or that it is; links are followed to none."""
    place = Path(path).absolute()
    near = (each for each in (place, *place.parents)[:_MAX_DEPTH] if (each / FILE).is_file())
    return next((each for each in near if not (each / FILE).is_symlink()), None)


def pays_after(start: float, base: float, new: float) -> int | None:
    """Steps after which what a change costs at the start (ns) is earned by shorter steps (ns); None without a gain."""
    return math.ceil(start / (base - new)) if new < base else None


def names_of(changes: Sequence[str]) -> str:
    """`workers + threads`."""
    return " + ".join(changes)
