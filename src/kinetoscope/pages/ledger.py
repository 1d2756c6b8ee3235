"""Ledger: the runs in a row, what each brought, and whether findings that are gone kept their promise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kinetoscope.advisor.advice import advise
from kinetoscope.compare.delivery import of_advice
from kinetoscope.compare.ledger import entry, of_entries
from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.job import Job
from kinetoscope.model.selection import Selection
from kinetoscope.pages.blocks import Bar, Bars, Block, Note, Page, Rows
from kinetoscope.pages.tables import table
from kinetoscope.schema import Result
from kinetoscope.views.numbers import shown

_HIDDEN: Final = ("path", "ranks", "together", "together_low", "together_high")
"""Columns that the command line shows and the page has no room for."""


def page(job: Job, select: Selection, params: Mapping[str, str], *, runs: Sequence[Job] = ()) -> Page:
    """What each of the runs brought, oldest first."""
    del params
    told, entries, left = [], [], []
    for run in runs or (job,):
        try:
            entries.append(entry(run, select=select))
            told.append(run)
        except KinetoscopeError as error:  # a run without steps must not cost the others their rows
            left.append(f"{run.path} is left out: {error}.")
    if not told:
        return Page("ledger", "Ledger", "No run here has a step to compare.", cannot=tuple(left))
    found = of_entries(entries)
    notes = (*found.notes, *left)
    return Page("ledger", "Ledger", _sentence(found), (), tuple(_blocks(told, found, select)), notes)


def _sentence(found: Result) -> str:
    first, *_, last = [*found.frame.iter_rows(named=True)] * 2
    if found.frame.height < 2:
        return f"There is one run here: a step takes {shown(last['step_time'], 'ns')}."
    from_to = f"{shown(first['step_time'], 'ns')} to {shown(last['step_time'], 'ns')} a step"
    gain = last["gain_first"]
    if gain is None:
        return f"{found.frame.height} runs: from {from_to}."
    words = f"{gain:.3g} times as fast" if gain >= 1 else f"{1 / gain:.3g} times as slow"
    return f"{found.frame.height} runs, from the first to the last {words}: {from_to}."


def _blocks(runs: Sequence[Job], found: Result, select: Selection) -> Iterator[Block]:
    bars = [
        Bar(name, "host", time, detail=_detail(gain, changed))
        for name, time, gain, changed in found.frame.select("run", "step_time", "gain_first", "changed").rows()
    ]
    yield Bars("Mean step", bars, cumulative=False)
    yield _rows("Runs", found)
    if len(runs) < 2:
        yield Note("Put the traces of the next run beside this one, in a folder of its own: it becomes the next row.")
        return
    kept = of_advice(found.frame.get_column("run").to_list(), [advise(run, select=select) for run in runs])
    if kept.frame.height:
        yield _rows("Promise and delivery", kept)
    else:
        yield Note("No finding of a run is gone in the next one.", "Promise and delivery")


def _detail(gain: float | None, changed: str | None) -> str:
    """Words on hover."""
    faster = "" if gain is None else f"{gain:.2f} times as fast as the first run"
    return "; ".join(each for each in (faster, changed) if each)


def _rows(title: str, result: Result) -> Rows:
    """The rows of a result that no analysis makes."""
    return table(title, result.schema.without(*_HIDDEN), result.frame)
