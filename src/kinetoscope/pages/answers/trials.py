"""Pages on trials: what came of trying, what would be tried, and the same as parts of a page in a browser."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from kinetoscope.compare.trials.tried import TrialRow, Tried
from kinetoscope.model.trace.text import number_of
from kinetoscope.notes import Note
from kinetoscope.pages.answers.trial_table import promise, table
from kinetoscope.pages.answers.trial_words import FAILED, NAME_CELLS, WHY_CELLS, facts, sentence
from kinetoscope.pages.blocks import Bar, BarsBlock, Block, CodeBlock, NoteBlock, Page
from kinetoscope.pages.grid import GridBlock, GridRow
from kinetoscope.pages.sections.tables import table as rows_of
from kinetoscope.views.numbers import grouped, scale
from kinetoscope.views.sentences import code, constant, say
from kinetoscope.views.text import brief

_MAX_EDITS: Final = 5
"""Changes that no trial can make which are shown with their lines."""

_WITH_REASON: Final = ("refused", "not allowed", "no time")
"""Outcomes that say less than the reason beside them."""

_MAX_BARS: Final = 40
_MAX_CODE_LINES: Final = 1000
"""Trials, and lines of a patch, that are drawn: anyone may have written the file."""

_PAGE_COLUMNS: Final = (
    *("trial", "outcome", "step", "change", "change_low", "change_high", "promised_low", "promised_high", "brought"),
    *("loss", "samples_per_second", "memory", "rounds", "codes", "why"),
)
"""Columns of the table on a page."""


def of_tried(tried: Tried, folder: str = "") -> Page:
    """The whole answer, as text: what it says of each trial is a line of a table; `folder` is where it lies."""
    blocks = (*table(tried), *rest(tried))
    return Page("try", "", sentence(tried), facts(tried), blocks, notes(tried), commands=(*_next(tried, folder),))


def of_list(wanted: Sequence[TrialRow], others: Sequence[TrialRow]) -> Page:
    """The trials that would be run, in order, with what they promise; and those that would not, with the reason."""
    number = constant(len(wanted)).words(number_of(len(wanted), "change"))
    said = say("{number} would be tried, in this order:", number=number) if wanted else "No change would be tried."
    promised = scale([each for row in wanted for each in (row.promised_low, row.promised_high)], "ns")
    rows = [GridRow((row.trial, promise(promised, row), ", ".join(row.codes), row.title)) for row in wanted]
    blocks = [GridBlock("", ("", "promised", "asked for by", "to"), rows)] if rows else []
    left = [*_not_run(others)]
    return Page("try", "", said, (), (*blocks, *([NoteBlock("\n".join(left), "Not tried")] if left else [])))


def _next(tried: Tried, folder: str) -> Iterator[tuple[str, str]]:
    """Commands that show more of what lies in the folder."""
    if not folder:
        return
    place = shlex.quote(folder)
    yield f"kinetoscope ledger {place}", "this again"
    last = next((row.trace for row in reversed(tried.trials) if row.outcome == "kept" and row.trace), "")
    if last and tried.trace:
        yield f"kinetoscope diff {place}/{tried.trace} {place}/{shlex.quote(last)}", "where the time went"
    if tried.trace:
        yield f"kinetoscope view {place}", "the recorded windows"


def blocks_of_tried(tried: Tried, trace: str = "") -> Iterator[Block]:
    """The same as parts of a page in a browser; `trace` is the recorded window that is open, as rows name it."""
    run = [row for row in tried.trials if row.was_run]
    result = tried.result
    shown_rows = result.frame.filter(pl.col("step").is_not_null() | pl.col("outcome").is_in(FAILED))
    said = " · ".join(facts(tried))
    if tried.step:
        own = Bar("as it is", "host", tried.step, chosen=trace == tried.trace != "")
        yield BarsBlock("A step with each trial", [own, *(_bar(row, trace) for row in run[:_MAX_BARS])], note=said,
                        cumulative=False)  # fmt: skip
    elif said:
        yield NoteBlock(said)
    if shown_rows.height:
        yield rows_of("Trials", result.schema.only(_PAGE_COLUMNS), shown_rows)
    yield from rest(tried)


def _bar(row: TrialRow, trace: str) -> Bar:
    """A trial with its step, and the step without it."""
    kind = "computation" if row.outcome == "kept" else "idle"
    return Bar(
        brief(row.trial, NAME_CELLS),
        kind,
        row.step or 0,
        detail=row.outcome,
        name=row.trial,
        chosen=trace == row.trace != "",
        before=row.base_step,
    )


def notes(tried: Tried) -> tuple[Note, ...]:
    """Notes on what was left out, and first of all that it was stopped, if the sentence does not say so."""
    if not tried.stopped or not (tried.was_measured or tried.kept):
        return tried.notes
    return (Note("STOPPED", f"It ended before all was tried: {tried.stopped}", "warning"), *tried.notes)


def rest(tried: Tried) -> Iterator[Block]:
    """Blocks on what was not run, how to keep what is kept, and what only an edit can change."""
    left = [*_not_run(tried.trials)]
    if left:
        yield NoteBlock("\n".join(left), "Not run")
    by_hand = [f"{row.trial}: {row.edit}" for row in tried.trials if row.edit and row.outcome == "kept"]
    if tried.patch or by_hand:
        yield CodeBlock("To keep it", _cut(tried.patch or "\n".join(by_hand)))
    yield from _by_edit(tried)


def _by_edit(tried: Tried) -> Iterator[Block]:
    """Findings that no trial answers, with the lines of their change."""
    for place, (rule, title, change) in enumerate(tried.edits[:_MAX_EDITS]):
        head = "What only an edit can change\n" if not place else ""
        yield NoteBlock(f"{code(rule)} {title}", head.strip())
        if change:
            yield CodeBlock("", _cut(change))
    if len(tried.edits) > _MAX_EDITS:
        yield NoteBlock(f"… {grouped(len(tried.edits) - _MAX_EDITS)} more findings that no trial answers.")


def _cut(code: str) -> str:
    lines = code.splitlines()
    more = len(lines) - _MAX_CODE_LINES
    return "\n".join([*lines[:_MAX_CODE_LINES], f"… {grouped(more)} more lines"]) if more > 0 else code


def _not_run(trials: Sequence[TrialRow]) -> Iterator[str]:
    """A line for each reason, with the names of the trials."""
    groups: dict[str, list[str]] = {}
    for row in trials:
        if not row.was_run and row.outcome not in FAILED:
            why = brief(row.why, WHY_CELLS) if row.why and row.outcome in _WITH_REASON else row.outcome
            groups.setdefault(why, []).append(row.trial)
    for why, names in groups.items():
        yield f"{why}: {', '.join(names)}"
