"""Sentences about a whole run: since when it is slow, on which rank, what changed, and what was lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from kinetoscope.advisor.wording import quoted
from kinetoscope.model.history.history import History
from kinetoscope.model.history.tables import PART_WORDS
from kinetoscope.schema import Result
from kinetoscope.views.numbers import grouped, shown, significant
from kinetoscope.views.sentences import EMPTY, Quantity, Sentence, cell, computed, greatest, join, say, total

MOST_LOST: Final = 3
"""Causes of lost time that a sentence names."""

NOTABLE_SPIKES: Final = 0.001
"""Share of the run from which on spikes are said that marks explain, or that have a period."""

NOTABLE_OTHER_SPIKES: Final = 0.01
"""Share of the run from which on other spikes are said; each machine has some."""

MOST_PHASES: Final = 4
"""Phases that a sentence names."""

NOTABLE_GROWTH: Final = 0.1
"""Change of a phase's typical time, from the first quarter to the last, from which on it is said."""

_HOUR: Final = 3_600_000_000_000

CAUSE_WORDS: Final = {
    "best": "steps at their best",
    "collection": "garbage collection",
    "save": "saving",
    "evaluation": "evaluation",
    "compile": "compilation",
    "window": "recording a window",
    "restart": "restarts",
    "repeated": "steps that were run again",
    "spike": "single slow steps",
    "drift": "drift",
    "slowest rank": "a rank that is the slowest again and again",
    "level": "level",
    "noise": "noise",
}
"""Words for the causes of lost time."""

_MARK_WORDS: Final = {
    "restart": "a restart",
    "compile": "a compilation",
    "evaluation": "an evaluation",
    "save": "a save",
    "phase": "another phase",
    "window": "a window",
}

_CERTAINTY: Final = {"sure": "", "likely": "This is likely, not proven.", "guess": "This is a guess."}

Row = Mapping[str, Any]


def history_sentences(history: History) -> list[Sentence]:
    """All that is to be said of a run: lost time, changes, spikes, ranks that are slow again and again."""
    spikes = [row for row in history.spikes if row["share"] >= _notable(row)]
    said = [
        lost_sentence(history.lost),
        *(
            join([change_sentence(history.changes, row), window_sentence(history.windows, row["number"])])
            for row in history.changes
        ),
        *(_first_step(history.spikes, row) or spike_sentence(history.spikes, row) for row in spikes),
        *(return_sentence(history.returns, row) for row in history.returns),
        phases_sentence(history.phases),
        *(growth_sentence(history.phases, row) for row in history.phases if abs(row["growth"] or 0) >= NOTABLE_GROWTH),
    ]
    return [each for each in said if each]


def _notable(row: Row) -> float:
    return NOTABLE_SPIKES if row["cause"] or row["period"] is not None else NOTABLE_OTHER_SPIKES


def change_sentence(result: Result, row: Row) -> Sentence:
    """A change: `From step 41,200 on, rank 3 takes 12% longer: waiting for data 8.00 ms → 37.0 ms`."""
    if row["kind"] == "creep":
        said = _creep(result, row)
    else:
        said = say("{what}{part}{mark}.", what=_change(result, row), part=_part(result, row), mark=_mark(result, row))
    return join([said, _CERTAINTY[row["certainty"]]])


def spike_sentence(result: Result, row: Row) -> Sentence:
    """A group of spikes: `Every 266 steps a step takes 1.40 s more: garbage collection, 0.6% of the run`."""
    why = (
        _words(result, row, "cause", CAUSE_WORDS) or _words(result, row, "part", PART_WORDS) or say("no mark says why")
    )
    facts: dict[str, Quantity | str] = {"why": why, **{name: _of(result, row, name) for name in ("excess", "share")}}
    where = say(" on {who}", who=_who(result, row)) if row["who"] != "all" and row["ranks"] else EMPTY
    facts["counted"] = "" if row["ranks"] == 1 else ", by the rank that lost most in each"
    if row["period"] is not None:
        period = _of(result, row, "period")
        period = period.words(grouped(round(row["period"])))
        return say(
            "Every {period} steps a step takes {excess} more{where}: {why}, {share} of the run{counted}.",
            period=period, where=where, **facts,
        )  # fmt: skip
    count = _of(result, row, "count").words(f"{grouped(row['count'])} step{'s' * (row['count'] != 1)}")
    some = say("typically ") if row["count"] > 1 else EMPTY
    return say(
        "{count}{where} took {some}{excess} more: {why}, {share} of the run{counted}.",
        count=count, some=some, where=where, **facts,
    )  # fmt: skip


def _first_step(result: Result, row: Row) -> Sentence:
    """`The first step took 4.90 s more than those after it, 10.9% of the run`; nothing of other spikes."""
    if row["count"] != 1 or row["first"] != 0 or row["cause"]:
        return EMPTY
    facts = {name: _of(result, row, name) for name in ("excess", "share")}
    return say("The first step took {excess} more than those after it, {share} of the run.", **facts)


def window_sentence(windows: Result | None, change: int) -> Sentence:
    """`The window of step 41,260 shows decode_jpeg: 4.00 ms → 33.0 ms a step`; nothing where no window shows it."""
    rows = [row for row in windows or () if row["change"] == change and row["shows"]]
    if windows is None or not rows:
        return EMPTY
    facts = {name: cell(windows, name, change=change) for name in ("step", "shows", "before", "after")}
    shows = facts.pop("shows").words(quoted(rows[0]["shows"]))
    return say("The window of step {step} shows {shows}: {before} → {after} a step.", shows=shows, **facts)


def return_sentence(result: Result, row: Row) -> Sentence:
    """A rank: `Rank 5 is the slowest again and again: 8 times, in 20% of the steps, by 12.0 ms: waiting for data`."""
    which = {"rank": row["rank"]}
    said = say(
        "Rank {rank} is the slowest again and again: {episodes} times, in {share} of the steps, by {excess}: {part}.",
        part=PART_WORDS[row["part"]],
        **{name: cell(result, name, **which) for name in ("rank", "episodes", "share", "excess")},
    )
    return join([said, _CERTAINTY[row["certainty"]]])


def phases_sentence(result: Result) -> Sentence:
    """`Phases of the run: generation 58%, update 22%`; nothing of a run without any."""
    some = (say("{phase} {share}", phase=_of(result, row, "phase"), share=_of(result, row, "share")) for row in result)
    named = join(list(some)[:MOST_PHASES], ", ")
    return say("Phases of the run: {named}.", named=named) if named else EMPTY


def growth_sentence(result: Result, row: Row) -> Sentence:
    """`The phase generation takes 31% longer in the last quarter than in the first: 20.0 s → 26.2 s`."""
    growth = _of(result, row, "growth")
    return say(
        "The phase {phase} takes {size} {more} in the last quarter of its times than in the first: {early} → {late}.",
        size=growth.words(shown(abs(growth.number), "fraction")),
        more="longer" if growth.number > 0 else "less",
        **{name: _of(result, row, name) for name in ("phase", "early", "late")},
    )


def steady_sentence(steps: Result) -> Sentence:
    """A run of which nothing else is said: `A step takes 120 ms; nothing changed, …`."""
    median = computed(steps, lambda frame: frame["median"].median(), "ns")
    return say("A step takes {median}; nothing changed, and no time was lost that stands out.", median=median)


def lost_sentence(result: Result) -> Sentence:
    """`Of 5.00 h 0.400 h were lost: 5% evaluation, 3% by change 1`; nothing of a series without steps."""
    rows = [row for row in result if row["cause"] != "best" and row["time"] > 0]
    if not rows:
        return EMPTY
    whole = total(result, "time")
    lost = whole - cell(result, "time", number=1)
    causes = join((_loss(result, row) for row in rows[:MOST_LOST]), ", ")
    return say(
        "Of {whole} {lost} were lost: {causes}.", whole=_hours(whole, whole), lost=_hours(lost, whole), causes=causes
    )


def _loss(result: Result, row: Row) -> Sentence:
    share = _of(result, row, "share")
    if row["change"] is not None and row["cause"] == "change":
        return say("{share} by change {number}", share=share, number=_of(result, row, "change"))
    part = say(" ({part})", part=_words(result, row, "part", PART_WORDS)) if row["part"] else EMPTY
    return say("{share} {cause}{part}", share=share, cause=_words(result, row, "cause", CAUSE_WORDS), part=part)


def _hours(time: Quantity, whole: Quantity) -> Quantity:
    return time.words(f"{significant(time.number / _HOUR)} h") if whole.number >= _HOUR else time


def _change(result: Result, row: Row) -> Sentence:
    change = _of(result, row, "change")
    size = change.words(shown(abs(change.number), "fraction"))
    more = "longer" if change.number > 0 else "less"
    who = _who(result, row)
    s = "s" * (row["rank"] is not None or row["who"] == "all")
    if row["kind"] == "drift":
        facts = {name: _of(result, row, name) for name in ("before", "after")}
        return say(
            "Little by little {who} take{s} {size} {more}, {before} → {after} a step",
            who=who, s=s, size=size, more=more, **facts,
        )  # fmt: skip
    step = _of(result, row, "step")
    return say("From step {step} on, {who} take{s} {size} {more}", step=step, who=who, s=s, size=size, more=more)


def _creep(result: Result, row: Row) -> Sentence:
    facts = {name: _of(result, row, name) for name in ("memory_before", "memory_after")}
    where = say(" of {who}", who=_who(result, row)) if row["who"] != "all" and row["rank"] is not None else EMPTY
    name = _words(result, row, "part", PART_WORDS).capitalized()
    return say("{name}{where} grows steadily: {memory_before} → {memory_after}.", name=name, where=where, **facts)


def _part(result: Result, row: Row) -> Sentence:
    if row["phase"]:
        facts = {name: _of(result, row, name) for name in ("phase", "phase_before", "phase_after")}
        return say(": {phase} {phase_before} → {phase_after} a step", **facts)
    if row["part"] is None:
        return say("; no part of the step makes up half of it")
    facts = {name: _of(result, row, name) for name in ("part_before", "part_after")}
    return say(": {part} {part_before} → {part_after}", part=_words(result, row, "part", PART_WORDS), **facts)


def _mark(result: Result, row: Row) -> Sentence:
    return say(", with {mark}", mark=_words(result, row, "mark", _MARK_WORDS)) if row["mark"] else EMPTY


def _who(result: Result, row: Row) -> Quantity:
    """`rank 3`, `ranks 0-2, 5`, `the run`."""
    if row["who"] == "all":
        return _of(result, row, "who").words("the run")
    return _of(result, row, "who").words(f"rank{'s' * (row['rank'] is None)} {row['who']}")


def _words(result: Result, row: Row, column: str, words: Mapping[str, str]) -> Sentence:
    name = row[column]
    return say("{name}", name=_of(result, row, column).words(words.get(name, name))) if name else EMPTY


def _of(result: Result, row: Row, column: str) -> Quantity:
    return cell(result, column, number=row["number"])


def stretch_sentences(said: Mapping[str, Result], first: int, last: int) -> list[Sentence]:
    """Sentences about the steps from `first` to `last`: their times, and the changes that begin in them."""
    steps, changes = said["steps"], said["changes"]
    inside = pl.col("step").is_between(first - pl.col("steps") + 1, last)
    rows = steps.frame.filter(inside)
    if not rows.height:
        return [say("No step of the run is in these.")]
    median = computed(steps, lambda frame: frame.filter(inside)["median"].median(), "ns")
    whole = computed(steps, lambda frame: frame["median"].median(), "ns")
    slowest = greatest(steps, "slowest", inside)
    who = computed(steps, lambda frame: frame.filter(inside).sort("slowest")["rank"][-1])
    times = say(
        "A step takes {median} here, {whole} in the whole run; the slowest one took {slowest}, on rank {who}.",
        median=median, whole=whole, slowest=slowest, who=who,
    )  # fmt: skip
    return [times, *(change_sentence(changes, row) for row in changes if first <= row["step"] <= last)]
