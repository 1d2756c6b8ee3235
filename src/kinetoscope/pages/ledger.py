"""Ledger: the runs in a row, what each brought, and whether findings that are gone kept their promise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from kinetoscope.advisor.advice import advise
from kinetoscope.compare.delivery import delivery_of_advice
from kinetoscope.compare.diff.programs import Program, program
from kinetoscope.compare.ledger.ledger import LedgerEntry, ledger_entry, result_of_entries
from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.parts.blocks import (
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
from kinetoscope.pages.parts.tables import table
from kinetoscope.schema import Result
from kinetoscope.views.numbers import grouped, shown, significant

_HIDDEN_COLUMNS: Final = ("path", "ranks", "together", "together_low", "together_high")
"""Columns that the command line shows and the page has no room for."""

_RUN_CHOICES: Final = (("program", "of this program"), ("all", "all"))
_NAMED_DOC: Final = "Only runs whose path holds one of these words, separated by commas; and the open one."


def page(
    job: Job, select: Selection, params: Mapping[str, str], *, runs: Iterable[Job] | None = None, listed: int = 0
) -> Page:
    """The gain of each run, oldest first: those of the open run's program, unless the reader wants others.

    `listed` is how many runs there are, where `runs` are the newest of them.
    """
    of = chosen_value(params, "of", [value for value, _ in _RUN_CHOICES], "program")
    words = [word.strip().lower() for word in params.get("named", "").split(",") if word.strip()]
    own = _program(job)
    entries: list[LedgerEntry] = []
    listed_runs: list[Job] = []
    left: list[str] = []
    count = other = 0
    for run in (job,) if runs is None else runs:
        count += 1
        if words and run.path != job.path and not any(word in run.path.lower() for word in words):
            continue
        if of == "program" and own is not None and run.path != job.path:
            program = _program(run)
            if program is not None and not own.is_like(program):
                other += 1
                continue
        try:
            entries.append(ledger_entry(run, select=select))
            listed_runs.append(run)
        except KinetoscopeError as error:  # a run without steps must not cost the others their rows
            left.append(f"{run.path} is left out: {error}.")
    controls = ControlsBlock(
        (Control("of", "Runs", of, _RUN_CHOICES), Control("named", "Named", params.get("named", ""), doc=_NAMED_DOC))
    )
    facts = _facts(len(listed_runs), count, max(listed, count), other)
    if not listed_runs:
        return Page("ledger", "Ledger", "No run here has a step to compare.", facts, (controls,), tuple(left))
    ledger = result_of_entries(entries)
    place = next((place for place, run in enumerate(listed_runs) if run.path == job.path), -1)
    blocks = (controls, *_blocks(listed_runs, ledger, select, place))
    return Page("ledger", "Ledger", _sentence(ledger), facts, blocks, (*ledger.notes, *left))


def _program(run: Job) -> Program | None:
    try:
        return program(run)
    except KinetoscopeError:  # the comparison names what cannot be read
        return None


def _facts(shown: int, count: int, listed: int, other: int) -> tuple[str, ...]:
    """The number of runs shown out of all, and why."""
    facts = [f"{grouped(shown)} of {grouped(listed)} runs"]
    if count < listed:
        facts.append(f"the newest {grouped(count)} were looked at")
    if other:
        facts.append(f"{grouped(other)} of another program left out")
    return tuple(facts)


def _sentence(ledger: Result) -> str:
    first, *_, last = [*ledger.frame.iter_rows(named=True)] * 2
    if ledger.frame.height < 2:
        return f"There is one run here: a step takes {shown(last['step_time'], 'ns')}."
    from_to = f"{shown(first['step_time'], 'ns')} to {shown(last['step_time'], 'ns')} a step"
    gain = last["gain_first"]
    if gain is None:
        return f"{ledger.frame.height} runs: from {from_to}."
    words = f"{significant(gain)} times as fast" if gain >= 1 else f"{significant(1 / gain)} times as slow"
    return f"{ledger.frame.height} runs, from the first to the last {words}: {from_to}."


def _blocks(runs: Sequence[Job], ledger: Result, select: Selection, own: int) -> Iterator[Block]:
    bars = [
        Bar(
            name,
            "host",
            time,
            detail="; ".join(filter(None, (gain and f"{significant(gain)} times as fast as the first run", changed))),
            chosen=place == own,
        )
        for place, (name, time, gain, changed) in enumerate(
            ledger.frame.select("run", "step_time", "gain_first", "changed").rows()
        )
    ]
    yield BarsBlock("Mean step", bars, cumulative=False)
    yield _rows("Runs", ledger)
    if len(runs) < 2:
        yield NoteBlock(
            "Put the traces of the next run beside this one, in a folder of its own: it becomes the next row."
        )
        return
    kept = delivery_of_advice(ledger.frame.get_column("run").to_list(), [advise(run, select=select) for run in runs])
    if kept.frame.height:
        yield _rows("Promise and delivery", kept)
    else:
        yield NoteBlock("No finding of a run is gone in the next one.", "Promise and delivery")


def _rows(title: str, result: Result) -> RowsBlock:
    """The rows of a result that no analysis makes."""
    return table(title, result.schema.without(*_HIDDEN_COLUMNS), result.frame)
