"""History: since when the whole run is slow, on which rank, what was lost by which cause; its steps at any scale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import polars as pl

from kinetoscope.analyses import asked
from kinetoscope.errors import UsageError
from kinetoscope.model.history.history import History
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.text import number_of
from kinetoscope.pages.blocks import Bar, BarsBlock, Block, Cell, Fact, FactsBlock, Link, NoteBlock, Page
from kinetoscope.pages.pictures.run_steps import run_picture
from kinetoscope.pages.sections.tables import table, with_values
from kinetoscope.pages.sentences.history import (
    CAUSE_WORDS,
    history_sentences,
    lost_sentence,
    steady_sentence,
    stretch_sentences,
)
from kinetoscope.schema import Result, Schema
from kinetoscope.views.numbers import grouped, shown
from kinetoscope.views.sentences import Sentence, join

ANSWERS: Final = ("lost", "changes", "spikes", "returns", "phases", "windows", "steps", "ranks", "marks")
"""Analyses, without `history_` before their names."""

_WINDOWS: Final = 12
"""Windows that have a link."""

_KINDS: Final = {
    "best": "computation",
    "collection": "host",
    "save": "memory",
    "evaluation": "runtime",
    "compile": "runtime",
    "noise": "idle",
}
"""Colours of causes; the others are time at stake."""

_CHANGES: Final = (
    "number", "kind", "who", "step", "until", "before", "after", "change", "part", "part_before", "part_after",
    "phase", "phase_before", "phase_after", "memory_before", "memory_after", "mark", "certainty",
)  # fmt: skip
_SPIKES: Final = (
    "number",
    "cause",
    "part",
    "who",
    "count",
    "period",
    "excess",
    "greatest",
    "lost",
    "share",
    "certainty",
)
_PHASES: Final = (
    "phase", "names", "who", "count", "mean", "share", "longest", "longest_step", "early", "late", "growth",
)  # fmt: skip
_RETURNS: Final = ("rank", "episodes", "steps", "share", "period", "part", "excess", "certainty")


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """The page about the history of a run; `from` and `to` are the steps of a stretch that its reader selected.

    Raises:
        UsageError: a stretch is none.
    """
    del select
    said = job.ask({name: asked(f"history_{name}") for name in ANSWERS})
    stretch = _stretch(params)
    return composed(said, stretch, windows_of(job))


def composed(said: Mapping[str, Result], stretch: tuple[int, int] | None, windows: Mapping[str, Link]) -> Page:
    """The page, from the answers of the analyses of a history, and the links to its windows by their names."""
    notes = tuple(dict.fromkeys(note for result in said.values() for note in result.notes))
    if not said["steps"].frame.height:
        return Page("history", "History", " ".join(notes))
    sentences = sentences_of(said)
    first, others = _first(sentences or [steady_sentence(said["steps"])], lost_sentence(said["lost"]))
    blocks = tuple(_blocks(said, others, stretch, windows))
    return Page("history", "History", first, _facts(said), blocks, notes)


def sentences_of(said: Mapping[str, Result]) -> list[Sentence]:
    """All that is to be said, from the answers of `history_changes`, spikes, returns, lost and phases."""
    changes, spikes, returns, lost, phases = (said[each] for each in ("changes", "spikes", "returns", "lost", "phases"))
    return history_sentences(History(changes, spikes, returns, lost, phases, windows=said.get("windows")))


def _first(sentences: list[Sentence], lost: Sentence) -> tuple[Sentence, list[Sentence]]:
    """The opening of the page, what was lost and the first of the other sentences; and the rest of these."""
    others = [each for each in sentences if each != lost]
    return join([lost, *others[:1]]), others[1:]


def _facts(said: Mapping[str, Result]) -> tuple[str, ...]:
    steps, ranks = said["steps"].frame, said["ranks"].frame["rank"].n_unique()
    first, last = int(steps["step"][0]), int(steps["step"][-1] + steps["steps"][-1])
    ended = said["marks"].frame.filter(kind="end").height
    is_done = [f"{grouped(ended)} of {number_of(ranks, 'rank')} ended"] if ended < ranks else ["ended"]
    return (f"about {grouped(last - first)} steps", number_of(ranks, "rank"), *is_done)


def _blocks(
    said: Mapping[str, Result], others: list[Sentence], stretch: tuple[int, int] | None, windows: Mapping[str, Link]
) -> Iterator[Block]:
    yield run_picture(said, windows, stretch)
    if stretch is not None:
        yield NoteBlock("\n".join(stretch_sentences(said, *stretch)), title=f"Steps {_range(stretch)}", width="wide")
        yield from _window_links(said["windows"].frame, windows, stretch)
    if others:
        yield NoteBlock("\n".join(others), title="Also")
    if stretch is None:
        yield from _window_links(said["windows"].frame, windows, None)
    yield _lost(said["lost"])
    for name, title, columns in (
        ("changes", "Changes", _CHANGES),
        ("spikes", "Spikes", _SPIKES),
        ("returns", "Ranks that are slow again and again", _RETURNS),
        ("phases", "Phases", _PHASES),
    ):
        if said[name].frame.height:
            result = said[name]
            shown_columns = with_values(result.frame, columns)
            yield table(title, Schema(*(result.schema[each] for each in shown_columns)), result.frame)


def _lost(lost: Result) -> BarsBlock:
    """The time of the run by where it went."""
    rows = lost.frame.filter(pl.col("time") > 0)
    bars = [
        Bar(_cause(row), _KINDS.get(row["cause"], "waiting"), row["time"], row["share"])
        for row in rows.iter_rows(named=True)
    ]
    note = "The steps at the best steady level that the run had, and what it took beyond that; of a rank on average."
    return BarsBlock("Where the time of the run went", bars, "ns", cumulative=False, note=note)


def _cause(row: Mapping[str, object]) -> str:
    if row["cause"] == "change":
        return f"change {row['change']}{_of_part(row)}"
    return f"{CAUSE_WORDS.get(str(row['cause']), str(row['cause']))}{_of_part(row)}"


def _of_part(row: Mapping[str, object]) -> str:
    return f" ({row['part']})" if row["part"] else ""


def _window_links(rows: pl.DataFrame, windows: Mapping[str, Link], stretch: tuple[int, int] | None) -> Iterator[Block]:
    """The windows of a stretch, or the last ones of the run."""
    if stretch is not None:
        rows = rows.filter(pl.col("step").is_between(*stretch))
    facts = [
        Fact(
            f"step {grouped(row['step'])}, rank {row['rank']}",
            [*_places(row["file"] or "", windows), Cell(text=_shows(row))],
        )
        for row in rows.tail(_WINDOWS).iter_rows(named=True)
    ]
    if facts:
        yield FactsBlock("Windows", facts, width="narrow" if stretch else "full")


def _shows(row: Mapping[str, Any]) -> str:
    """Why it was opened, and what it shows."""
    change = f"; change {row['change']}" if row["change"] is not None else ""
    shows = f": {row['shows']} {shown(row['before'], 'ns')} → {shown(row['after'], 'ns')}" if row["shows"] else ""
    return f"{row['reason'] or ''}{change}{shows}".lstrip("; ")


def _places(name: str, windows: Mapping[str, Link]) -> list[Cell]:
    """The page and the timeline of a window; of one that was deleted neither."""
    there = windows.get(name)
    if there is None:
        return [Cell(text=f"{name} (deleted)" if name else "deleted"), Cell()]
    return [Cell(text=name, link=there), Cell(text="timeline", link=replace(there, text="timeline", view="timeline"))]


def windows_of(job: Job) -> dict[str, Link]:
    """A link to the page of each window that is still there, by the name of its file."""
    return {
        each.name: Link(each.name, "overview", each.rank, cycle=each.cycle, clear=True)
        for each in job.sources
        if not each.is_history
    }


def _stretch(params: Mapping[str, str]) -> tuple[int, int] | None:
    if not params.get("from") and not params.get("to"):
        return None
    try:
        first, last = int(params.get("from", "")), int(params.get("to", ""))
    except ValueError as error:
        raise UsageError("a stretch is two numbers of steps, from and to") from error
    if not 0 <= first <= last < 1 << 40:
        raise UsageError(f"from step {first} to step {last} is no stretch")
    return first, last


def _range(stretch: tuple[int, int]) -> str:
    return f"{grouped(stretch[0])} – {grouped(stretch[1])}"
