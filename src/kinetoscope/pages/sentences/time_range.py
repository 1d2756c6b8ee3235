"""The sentence about a stretch of the timeline: how busy the devices are in it, and why they run nothing else.

Its numbers are those of `temporal_breakdown` and `idle_breakdown` of that range of time. They are computed from what
the timeline keeps, so that it follows its reader; the same analyses, asked with the range, answer the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.model.execution.calls import call_name
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.timeline.counters import device_titles
from kinetoscope.model.timeline.range import Range, TopName
from kinetoscope.model.trace.text import listed
from kinetoscope.model.trace.trace import Trace
from kinetoscope.pages.sentences.steps import WHY_IDLE
from kinetoscope.schema import Result
from kinetoscope.views.sentences import EMPTY, Quantity, Sentence, cell, count, each, measured, say, total

_NOTABLE_TIME_SHARE: Final = 0.05
"""Share of the range from which on a loss is worth a word."""


def range_sentence(trace: Trace, stretch: Range, select: Selection) -> Sentence:
    """The selected range of time in a sentence."""
    if not stretch.length and select.time is not None:
        begin, end = select.time
        return say("In view, {length}: nothing was recorded.", length=measured(end - begin, "ns"))
    said = _busy(trace, stretch, select) if stretch.busy else _host(trace, stretch)
    return say("In view, {what}: {said}.", what=_steps(trace, stretch, select), said=said)


def _steps(trace: Trace, stretch: Range, select: Selection) -> Sentence:
    if not stretch.marked or not stretch.steps:
        return say("{length}", length=measured(stretch.length, "ns"))
    steps = _answer_about_steps(trace, stretch, select)
    if len(stretch.steps) > 1:
        return say("{count} steps", count=count(steps, rank=trace.source.rank))
    step = cell(steps, "step", rank=trace.source.rank)
    if not stretch.whole:
        return say("part of step {step}", step=step)
    if stretch.around < _NOTABLE_TIME_SHARE / 10 * stretch.length:
        return say("step {step}", step=step)
    return say("step {step} with {around} around it", step=step, around=measured(stretch.around, "ns"))


def _busy(trace: Trace, stretch: Range, select: Selection) -> Sentence:
    titles = [device_titles(trace).get(device, str(device)) for device in stretch.busy]
    gpus = all(title.startswith("GPU") for title in titles)
    devices = _answer(trace, "temporal_breakdown", select, _devices(stretch))
    rank = trace.source.rank
    if len(titles) == 1:
        who: Sentence = say("the {what} is", what="GPU" if gpus else "device")
    else:
        who = say("the {count} {what} are", count=count(devices, rank=rank), what="GPUs" if gpus else "devices")
    window, idle = total(devices, "window", rank=rank), total(devices, "idle", rank=rank)
    if not window:
        return say("{who} at work from before the recording", who=who)
    busy = (window - idle) / window
    rest = (
        " of the rest" if stretch.before >= _NOTABLE_TIME_SHARE / 10 * stretch.length * len(titles) else " of the time"
    )
    mean = " on average" if len(titles) > 1 else ""
    before = "work from before the recording comes first; " if rest == " of the rest" else ""
    text = say(
        "{before}{who} busy {share}{rest}{mean}",
        before=before, who=who, share=busy.words(percent(busy.number)), rest=rest, mean=mean,
    )  # fmt: skip
    alone = total(devices, "exposed_communication", rank=rank) / window
    if alone.number > max(1 - busy.number, _NOTABLE_TIME_SHARE):
        hidden = alone.words(percent(alone.number))
        return say("{text}, {part} in communication that no computation covers", text=text, part=hidden)
    if 1 - busy.number < _NOTABLE_TIME_SHARE or not stretch.idle:
        return text
    reason, detail, most, whole = _most_idle(trace, stretch, select)
    part = EMPTY if most.number > 0.995 * whole.number else say("{most} of it ", most=most)
    return say(
        "{text}; {who} nothing for {idle}, {part}while {why}",
        text=text, who="it runs" if len(titles) == 1 else "they run", idle=whole, part=part,
        why=WHY_IDLE[reason, detail],
    )  # fmt: skip


def _most_idle(trace: Trace, stretch: Range, select: Selection) -> tuple[str, str, Quantity, Quantity]:
    """The reason and the detail with the most idle time, its time, and that of all."""
    rows = [
        {"device": _number(device), "reason": reason, "detail": detail, "time": time}
        for (device, reason, detail), time in stretch.idle.items()
    ]
    idle = _answer(trace, "idle_breakdown", select, rows)
    sums = idle.frame.group_by("reason", "detail").agg(pl.col("time").sum())
    reason, detail, _ = sums.sort("time", "reason", "detail", descending=[True, False, False]).row(0)
    rank = trace.source.rank
    return reason, detail, total(idle, "time", reason=reason, detail=detail, rank=rank), total(idle, "time", rank=rank)


def _devices(stretch: Range) -> list[dict[str, Any]]:
    """A row of `temporal_breakdown` for each device."""
    idle = dict.fromkeys(stretch.busy, 0)
    for (device, _, _), time in stretch.idle.items():
        idle[device] += time
    return [
        {
            "device": _number(device),
            "window": busy + idle[device],
            "idle": idle[device],
            "exposed_communication": stretch.alone[device],
        }
        for device, busy in stretch.busy.items()
    ]


def _answer_about_steps(trace: Trace, stretch: Range, select: Selection) -> Result:
    return _answer(trace, "step_breakdown", select, [{"step": number} for number in stretch.steps])


def _number(device: int) -> int | None:
    return device if device >= 0 else None


def _answer(trace: Trace, analysis: str, select: Selection, rows: Sequence[Mapping[str, Any]]) -> Result:
    """These rows, of some columns, as the answer of an analysis to the range of time."""
    schema = named(analysis).schema.only(["rank", *rows[0]])
    frame = pl.DataFrame([{"rank": trace.source.rank, **row} for row in rows], schema=schema.types)
    return Result(frame, schema, (), analysis, {"select": select})


def _host(trace: Trace, stretch: Range) -> Sentence:
    share = measured(stretch.host / stretch.length, "fraction")
    top = EMPTY
    if stretch.host_top and stretch.host:
        first = stretch.host_top[0]
        part = measured(min(first.time / stretch.host, 1), "fraction")
        top = say(", {part} of it in {name}", part=part.words(percent(part.number)), name=f"`{name_of(trace, first)}`")
    return say("the main thread is busy {share} of the time{top}", share=share.words(percent(share.number)), top=top)


def facts(trace: Trace, stretch: Range, select: Selection) -> list[Sentence]:
    """What else is said of the range, beneath the sentence."""
    said = []
    if len(stretch.steps) > 1 and stretch.marked:
        numbers = each(_answer_about_steps(trace, stretch, select), "step", rank=trace.source.rank)
        said.append(say("Steps {numbers}", numbers=numbers.words(listed(stretch.steps))))
    if stretch.longest is not None and stretch.busy:
        length = stretch.longest[1] - stretch.longest[0]
        if length >= _NOTABLE_TIME_SHARE * stretch.length / 10:
            said.append(say("longest idle stretch {length}", length=measured(length, "ns")))
    return said


def name_of(trace: Trace, top: TopName) -> str:
    """The name of a call or of device work, as it is shown."""
    return call_name(trace.strings.label(top.name), int(trace.kind[top.row]))


def percent(share: float) -> str:
    """A share in whole percent."""
    whole = round(100 * share)
    if share > 0 and whole == 0:
        return "less than 1%"
    return "more than 99%" if share < 1 and whole == 100 else f"{whole}%"
