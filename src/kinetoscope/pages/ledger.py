"""Ledger: the runs in a row, what each brought, and whether findings that are gone kept their promise.

Of a run that `kinetoscope try` recorded, what came of the trials stands first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from kinetoscope.advisor.advice import advise
from kinetoscope.compare.delivery import delivery_of_advice, run_facts
from kinetoscope.compare.diff.programs import Program, program
from kinetoscope.compare.ledger.ledger import LedgerEntry, ledger_entry, result_of_entries
from kinetoscope.compare.trials.tried import of_run
from kinetoscope.errors import InputError, KinetoscopeError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.text import number_of
from kinetoscope.pages import CHOSEN
from kinetoscope.pages.answers.trial_words import sentence as sentence_of_tried
from kinetoscope.pages.answers.trials import blocks_of_tried
from kinetoscope.pages.answers.trials import notes as notes_of_tried
from kinetoscope.pages.blocks import (
    Bar,
    BarsBlock,
    Block,
    Control,
    ControlsBlock,
    NoteBlock,
    Page,
    RowsBlock,
    chosen_value,
)
from kinetoscope.pages.sections.tables import table
from kinetoscope.readers.files.stream import is_url
from kinetoscope.schema import Result
from kinetoscope.views.numbers import grouped, significant
from kinetoscope.views.sentences import EMPTY, Sentence, cell, count, measured, say

_HIDDEN_COLUMNS: Final = ("path", "ranks", "together", "together_low", "together_high")
"""Columns that the command line shows and the page has no room for."""

_OF_CHOICES: Final = (("program", "of this program"), ("all", "of every program"))


@dataclass(frozen=True, slots=True)
class Group:
    """Runs of one program, oldest first, with their rows of the ledger."""

    program: Program | None
    runs: list[Job] = field(default_factory=list)
    entries: list[LedgerEntry] = field(default_factory=list)


def page(
    job: Job, select: Selection, params: Mapping[str, str], *, runs: Iterable[tuple[str, Job]] = (), listed: int = 0
) -> Page:
    """The gain of each run, oldest first: of the open run's program, of every program apart, or of the chosen runs.

    `runs` are ids and jobs of what is looked at, the open run among them; `listed` is how many runs there are. Chosen
    runs are all shown, those of a program together.
    """
    chosen = bool(params.get(CHOSEN))
    of = chosen_value(params, "of", [value for value, _ in _OF_CHOICES], "program")
    own = Group(_program(job))
    groups = [own]
    shown_ids: list[str] = []
    left: list[str] = []
    count = other = 0
    for identity, run in runs or (("", job),):
        count += 1
        group = own if run.path == job.path else _group_of(run, groups)
        if (group is not own or _is_of_memory_alone(run)) and of == "program" and not chosen:
            other += 1
            continue
        try:
            group.entries.append(ledger_entry(run, select=select))
        except KinetoscopeError as error:  # a run without steps must not cost the others their rows
            left.append(f"{run.path} is left out: {error}.")
            continue
        group.runs.append(run)
        shown_ids.append(identity)
    controls = ControlsBlock(
        (
            *(() if chosen else (Control("of", "Runs", of, _OF_CHOICES),)),
            Control(CHOSEN, "Chosen runs", ",".join(shown_ids), runs=True, chosen=chosen),
        )
    )
    groups = [group for group in groups if group.runs]
    facts = _facts(len(shown_ids), count, max(listed, count), other, chosen)
    tried, trials, notes_of_trials = _trials(job.path)
    if not groups:
        sentence = tried or "No run here has a step to compare."
        return Page("ledger", "Ledger", sentence, facts, (*trials, controls), (*notes_of_trials, *left))
    ledgers = [result_of_entries(group.entries) for group in groups]
    said = [NoteBlock(_sentence(ledgers), "Recorded runs")] if tried else []
    blocks: list[Block] = [*trials, *said, controls]
    for group, ledger in zip(groups, ledgers, strict=True):
        title = f" of {_name_of(group, ledger)}" if len(groups) > 1 else ""
        blocks += _blocks(group.runs, ledger, select, job.path, title)
    of_runs = dict.fromkeys(note for ledger in ledgers for note in ledger.notes)
    notes = (*notes_of_trials, *of_runs, *left)
    return Page("ledger", "Ledger", tried or _sentence(ledgers), facts, tuple(blocks), notes)


def _trials(path: str) -> tuple[Sentence, tuple[Block, ...], tuple[str, ...]]:
    """A sentence, blocks and notes on the trials of which this is a run; nothing of any other run."""
    if is_url(path):
        return EMPTY, (), ()
    try:
        tried = of_run(path)
    except InputError as error:
        return EMPTY, (), (str(error),)
    if tried is None:
        return EMPTY, (), ()
    return sentence_of_tried(tried[0]), (*blocks_of_tried(*tried),), notes_of_tried(tried[0])


def _is_of_memory_alone(run: Job) -> bool:
    """Whether it is memory snapshots, which have no step."""
    return all(source.is_snapshot for source in run.sources)


def _program(run: Job) -> Program | None:
    try:
        return program(run)
    except KinetoscopeError:  # the comparison names what cannot be read
        return None


def _group_of(run: Job, groups: list[Group]) -> Group:
    """The group of the run's program: one of those, or a new one. What cannot be told is with the first."""
    its = _program(run)
    for group in groups:
        if its is None or group.program is None or group.program.is_like(its):
            return group
    groups.append(Group(its))
    return groups[-1]


def _name_of(group: Group, ledger: Result) -> str:
    """The script, else the newest run."""
    script = group.program.script if group.program is not None else ""
    return f"`{script}`" if script else f"the program of {ledger.frame.get_column('run').item(-1)}"


def _facts(shown: int, count: int, listed: int, other: int, chosen: bool) -> tuple[str, ...]:
    """The number of runs shown out of all, and why."""
    facts = [f"{grouped(shown)} of {grouped(listed)} runs" + (", as chosen" if chosen else "")]
    if count < listed and not chosen:
        facts.append(f"the newest {grouped(count)} were looked at")
    if other:
        facts.append(f"{grouped(other)} of another program left out")
    return tuple(facts)


def _sentence(ledgers: Sequence[Result]) -> Sentence:
    """From the first to the last run of the first program."""
    ledger, *others = ledgers
    below = measured(len(others)).words(number_of(len(others), "other program"))
    more = say(" {below} below.", below=below) if others else EMPTY
    place = pl.int_range(pl.len())  # the same run may stand there twice
    last_place = ledger.frame.height - 1
    last = {name: cell(ledger, name, place == last_place) for name in ("step_time", "gain_first", "verdict")}
    if ledger.frame.height < 2:
        return say(
            "There is one run of this program here: a step takes {time}.{more}", time=last["step_time"], more=more
        )
    from_to = say("{first} to {last} a step", first=cell(ledger, "step_time", place == 0), last=last["step_time"])
    runs = count(ledger)
    gain = last["gain_first"]
    if gain.value is None:
        return say(
            "{runs} runs, {from_to}: on different devices, or of different programs, so none of it is a gain.{more}",
            runs=runs, from_to=from_to, more=more,
        )  # fmt: skip
    times = gain.number
    words = gain.words(significant(times if times >= 1 else 1 / times))
    doubt = ", which may be noise" if ledger.frame.height == 2 and last["verdict"].value in _DOUBT else ""
    return say(
        "{runs} runs, from the first to the last {gain} times as {how}{doubt}: {from_to}.{more}",
        runs=runs, gain=words, how="fast" if times >= 1 else "slow", doubt=doubt, from_to=from_to, more=more,
    )  # fmt: skip


_DOUBT: Final = ("same", "inconclusive")
"""Verdicts of a change that may be none."""


def _blocks(runs: Sequence[Job], ledger: Result, select: Selection, own: str, title: str) -> Iterator[Block]:
    bars = [
        Bar(
            name,
            "host",
            time,
            detail="; ".join(filter(None, (gain and f"{significant(gain)} times as fast as the first run", changed))),
            chosen=run.path == own,
        )
        for run, (name, time, gain, changed) in zip(
            runs, ledger.frame.select("run", "step_time", "gain_first", "changed").rows(), strict=True
        )
    ]
    yield BarsBlock(f"Mean step{title}", bars, cumulative=False)
    yield _rows(f"Runs{title}", ledger)
    if len(runs) < 2:
        if not title:
            yield NoteBlock(
                "Put the traces of the next run beside this one, in a folder of its own: it becomes the next row."
            )
        return
    advice = [advise(run, select=select) for run in runs]
    facts = [run_facts(run, each, select=select) for run, each in zip(runs, advice, strict=True)]
    kept = delivery_of_advice(ledger.frame.get_column("run").to_list(), advice, facts)
    if kept.frame.height:
        yield _rows(f"Promise and delivery{title}", kept)
    elif not title:
        yield NoteBlock("No finding of a run is gone in the next one.", "Promise and delivery")


def _rows(title: str, result: Result) -> RowsBlock:
    """The rows of a result that no analysis makes."""
    return table(title, result.schema.without(*_HIDDEN_COLUMNS), result.frame)
