"""Critical path: what the length of a step follows from, and what it would be if something took less."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.errors import UsageError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.blocks import (
    Block,
    Cell,
    Control,
    ControlsBlock,
    Fact,
    FactsBlock,
    Page,
    Part,
    PartsBlock,
    TableBlock,
)
from kinetoscope.pages.pictures.ribbon import ribbon
from kinetoscope.pages.sentences.recorded import device_labels
from kinetoscope.pages.sentences.steps import nothing, way_back
from kinetoscope.schema import Result, Unit
from kinetoscope.views.numbers import shown
from kinetoscope.views.sentences import EMPTY, Quantity, Sentence, constant, join, mean, say

CAUSES: Final = {
    "host": ("host", "Host"),
    "data_loading": ("data_loading", "Data loading"),
    "launch": ("runtime", "Launch"),
    "computation": ("computation", "Computation"),
    "communication": ("communication", "Communication"),
    "copies": ("memory", "Copies"),
    "gaps": ("waiting", "Gaps"),
    "other": ("idle", "Not explained"),
}
"""Columns of the analysis, each with its kind of time and its words."""

_SLIDERS: Final = ("host", "data_loading", "launch", "computation", "communication", "copies")

_MAX_PERCENT: Final = 200.0  # per cent

_BOUND_SHARE: Final = 0.5
"""Share of the critical path from which on it is said that one cause bounds the step."""


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """The page of what bounds the step."""
    shares = {cause: _share(params, cause) for cause in _SLIDERS}
    what_if = "; ".join(f"{cause}={share / 100:g}" for cause, share in shares.items() if share != 100)
    times = named("critical_path")(job, select=select, what_if=what_if)
    if not times.frame.height:
        none = nothing("step", select)
        return Page("critical_path", "Critical path", none, (), way_back(select), times.notes)
    events = named("critical_path_events")(job, select=select, group_by="event")
    return Page(
        "critical_path",
        "Critical path",
        join([_sentence(times), _answer(times, shares)]),
        blocks=tuple(_blocks(job, times, events, shares)),
        cannot=tuple(dict.fromkeys((*times.notes, *events.notes))),
    )


def _share(params: Mapping[str, str], cause: str) -> float:
    """Per cent of its time that a cause shall take."""
    text = params.get(cause, "100")
    try:
        share = float(text)
    except ValueError:
        share = -1
    if not 0 <= share <= _MAX_PERCENT:
        raise UsageError(f"{cause} is {text!r}; it can be 0 to {_MAX_PERCENT:.0f} per cent of its time")
    return share


def _sentence(times: Result) -> Sentence:
    step, means = mean(times, "duration"), {cause: mean(times, cause) for cause in CAUSES}
    cause = max(CAUSES, key=lambda name: means[name].number)
    share = means[cause] / step
    facts: dict[str, Quantity | str] = {
        "step": step,
        "cause": CAUSES[cause][1].lower(),
        "time": means[cause],
        "share": share,
    }
    if cause == "other":
        return say("What a step of {step} waits for is not known for {time} of its critical path ({share}).", **facts)
    if share.number < _BOUND_SHARE:
        return say(
            "No one cause bounds a step of {step}: of its critical path most is {cause}, {time} ({share}).", **facts
        )
    return say("A step of {step} is bound by {cause}: {time} of its critical path ({share}).", **facts)


def _answer(times: Result, shares: Mapping[str, float]) -> Sentence:
    """The effect of the sliders, to follow the sentence; empty where none is moved."""
    step, then = mean(times, "duration"), mean(times, "what_if")
    if then.value is None:
        return EMPTY
    moved = [
        say(
            "{cause} at {share}",
            cause=CAUSES[cause][1].lower(),
            share=constant(share / 100, "fraction").words(f"{share:g}%"),
        )
        for cause, share in shares.items()
        if share != 100
    ]
    change = (then - step) / step
    sign = "−" if change.number < 0 else "+"
    return say(
        "With {changes} it would take {then} ({change}).",
        changes=join(moved, " and "), then=then, change=change.words(f"{sign}{shown(abs(change.number), 'fraction')}"),
    )  # fmt: skip


def _blocks(job: Job, times: Result, events: Result, shares: Mapping[str, float]) -> Iterator[Block]:
    yield _parts(times)
    path = ribbon(events, {cause: kind for cause, (kind, _) in CAUSES.items()}, device_labels(job))
    if path.start:
        yield path
    sliders = [
        Control(
            cause,
            CAUSES[cause][1],
            f"{share:g}",
            low=0,
            high=_MAX_PERCENT,
            step=10,
            unit="%",
            doc=times.schema[cause].doc,
        )
        for cause, share in shares.items()
    ]
    note = "The schedule of each step is computed again: what was hidden may come to the fore."
    yield ControlsBlock(sliders, "What if it took …", note=note, width="wide")
    yield _prediction(times)
    of_step = ("step", "duration", *CAUSES, "inferred_share", "what_if", "gain")
    yield TableBlock("Steps", "critical_path", columns=of_step, links={"step": "step", "start": "start"})
    columns = ("cause", "name", "pieces", "time", "share")
    yield TableBlock(
        "Calls and kernels on the path", "critical_path_events", columns=columns, sort="-time", links={"name": "name"}
    )
    links = {"row": "event", "start": "start"}
    each = ("step", "start", "time", "cause", "name", "thread", "device", "stream")
    by_event = {"group_by": "event"}
    yield TableBlock(
        "The path, piece by piece", "critical_path_events", by_event, columns=each, sort="start", links=links
    )


def _parts(times: Result) -> PartsBlock:
    mean = times.frame.select(pl.col(*CAUSES).cast(pl.Float64).mean()).row(0, named=True)
    parts = [Part(kind, label, mean[name], times.schema[name].doc) for name, (kind, label) in CAUSES.items()]
    return PartsBlock("What an average step waits for", [part for part in parts if part.value])


def _prediction(times: Result) -> FactsBlock:
    def cells(column: str, unit: Unit = "ns") -> list[Cell]:
        value = times.frame.get_column(column).cast(pl.Float64).mean()
        return [Cell(float(value) if isinstance(value, (int, float)) else None, unit, doc=times.schema[column].doc)]

    facts = [Fact("As recorded", cells("duration"))]
    if times.frame.get_column("what_if").count():
        facts += [Fact("Predicted", cells("what_if")), Fact("Gain", cells("gain"))]
    note = "" if len(facts) > 1 else "Move a slider to see what the step would take."
    return FactsBlock("The average step", facts, note=note)
