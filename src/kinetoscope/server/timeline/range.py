"""A stretch of the timeline in one sentence and a few numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kinetoscope.model.execution.calls import call_name
from kinetoscope.model.timeline.counters import device_titles
from kinetoscope.model.timeline.range import KINDS, PHASES, Range, TopName, in_range
from kinetoscope.model.trace.text import listed
from kinetoscope.model.trace.trace import Trace
from kinetoscope.server.timeline.hues import hue_of, module_classes
from kinetoscope.views.grammar import short
from kinetoscope.views.numbers import shown

_STARVED_WORDS: Final = {
    "data loading": "starved while data is loaded",
    "waiting": "idle while the host waits for it",
    "optimizer": "starved while the optimizer is launched",
    "backward": "starved while the backward pass is launched",
    "forward": "starved while the forward pass is launched",
    "operators": "starved while the host launches work",
    "python": "starved while the host runs Python",
    "nothing": "idle while nothing is recorded on the host",
}
_NOTABLE_TIME_SHARE: Final = 0.05
"""Share of the range from which on a loss is worth a word."""


def range_answer(
    trace: Trace, begin: int, end: int, steps_by: str | None = None, *, modules: bool = False
) -> dict[str, Any]:
    """The answer about a range from `begin` to `end`, ns after the origin; with the classes of `modules` in it."""
    stretch = in_range(trace, begin, end, steps_by)
    titles = device_titles(trace)
    return {
        "sentence": sentence(trace, stretch, end - begin),
        "facts": list(_facts(stretch)),
        "busy": {
            titles.get(device, str(device)): time / max(stretch.length, 1) for device, time in stretch.busy.items()
        },
        "by_kind": [
            {"kind": kind, "ns": round(time)} for kind, time in zip(KINDS, stretch.kinds, strict=True) if time > 0
        ],
        "top": [
            *(_top(trace, each, "device") for each in stretch.device_top),
            *(_top(trace, each, "host") for each in stretch.host_top),
        ],
        **({"modules": module_classes(trace, begin, end)} if modules else {}),
    }


def sentence(trace: Trace, stretch: Range, length: int) -> str:
    """The range, of a length in ns, in a sentence."""
    if not stretch.length:
        return f"In view, {shown(length, 'ns')}: nothing was recorded."
    return f"In view, {_steps(stretch)}: {_busy(trace, stretch)}."


def _steps(stretch: Range) -> str:
    if not stretch.marked or not stretch.steps:
        return shown(stretch.length, "ns")
    if len(stretch.steps) == 1:
        return f"{'' if stretch.whole else 'part of '}step {stretch.steps[0]}"
    return f"{len(stretch.steps):,} steps"


def _busy(trace: Trace, stretch: Range) -> str:
    if not stretch.busy:
        return _host(trace, stretch)
    titles = [device_titles(trace).get(device, str(device)) for device in stretch.busy]
    share = sum(stretch.busy.values()) / len(titles) / stretch.length
    gpus = all(title.startswith("GPU") for title in titles)
    one = "the GPU" if gpus else titles[0]
    who = f"{one} is" if len(titles) == 1 else f"the {len(titles)} {'GPUs' if gpus else 'devices'} are"
    mean = "" if len(titles) == 1 else " on average"
    text = f"{who} busy {_percent(share)} of the time{mean}"
    alone = stretch.kinds[KINDS.index("communication")] / stretch.length
    before = stretch.before / len(titles) / stretch.length
    if before >= _NOTABLE_TIME_SHARE / 10:
        text += f", and {_percent(before)} with work from before the recording"
    idle = 1 - share - before
    if alone > max(idle, _NOTABLE_TIME_SHARE):
        part = "all of it" if alone > share - _NOTABLE_TIME_SHARE / 10 else _percent(alone)
        return f"{text}, {part} in communication that no computation covers"
    if idle < _NOTABLE_TIME_SHARE or not stretch.idle.sum():
        return text
    most = PHASES[int(stretch.idle.argmax())]
    words = _STARVED_WORDS[most] if len(titles) == 1 else _STARVED_WORDS[most].replace("waits for it", "waits for them")
    return f"{text}, and {words}" if share or before else f"{who} {words}"


def _host(trace: Trace, stretch: Range) -> str:
    text = f"the main thread is busy {_percent(stretch.host / stretch.length)} of the time"
    if stretch.host_top and stretch.host:
        top = stretch.host_top[0]
        return f"{text}, {_percent(min(top.time / stretch.host, 1))} of it in {_name(trace, top)}"
    return text


def _facts(stretch: Range) -> Iterator[str]:
    if len(stretch.steps) > 1 and stretch.marked:
        yield f"Steps {listed(stretch.steps)}"
    if (
        stretch.longest is not None
        and stretch.busy
        and stretch.longest[1] - stretch.longest[0] >= _NOTABLE_TIME_SHARE * stretch.length / 10
    ):
        yield f"longest idle stretch {shown(stretch.longest[1] - stretch.longest[0], 'ns')}"


def _top(trace: Trace, top: TopName, side: str) -> dict[str, Any]:
    name = _name(trace, top)
    named = {"name": name, "label": short(name), "kind": top.kind, "ns": top.time, "calls": top.calls, "row": top.row}
    return {**named, "side": side, "hue": hue_of(name)}


def _name(trace: Trace, top: TopName) -> str:
    return call_name(trace.strings.label(top.name), int(trace.kind[top.row]))


def _percent(share: float) -> str:
    percent = round(100 * share)
    if share > 0 and percent == 0:
        return "less than 1%"
    if share < 1 and percent == 100:
        return "more than 99%"
    return f"{percent}%"
