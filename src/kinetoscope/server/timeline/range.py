"""A stretch of the timeline in one sentence and a few numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kinetoscope.model.execution.calls import call_name
from kinetoscope.model.timeline.counters import device_titles
from kinetoscope.model.timeline.range import KINDS, PHASES, Range, Top, in_range
from kinetoscope.model.trace.text import listed
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.grammar import short
from kinetoscope.views.numbers import shown

_STARVED: Final = {
    "data loading": "starved while data is loaded",
    "waiting": "idle while the host waits for it",
    "optimizer": "starved while the optimizer is launched",
    "backward": "starved while the backward pass is launched",
    "forward": "starved while the forward pass is launched",
    "operators": "starved while the host launches work",
    "python": "starved while the host runs Python",
    "nothing": "idle while nothing is recorded on the host",
}
_WORTH: Final = 0.05
"""Share of the range from which on a loss is worth a word."""


def range_answer(trace: Trace, begin: int, end: int, steps_by: str | None = None) -> dict[str, Any]:
    """What happens from `begin` to `end`, ns after the origin."""
    found = in_range(trace, begin, end, steps_by)
    titles = device_titles(trace)
    return {
        "sentence": sentence(trace, found, end - begin),
        "facts": list(_facts(found)),
        "busy": {titles.get(device, str(device)): time / max(found.length, 1) for device, time in found.busy.items()},
        "by_kind": [
            {"kind": kind, "ns": round(time)} for kind, time in zip(KINDS, found.kinds, strict=True) if time > 0
        ],
        "top": [
            *(_top(trace, each, "device") for each in found.device_top),
            *(_top(trace, each, "host") for each in found.host_top),
        ],
    }


def sentence(trace: Trace, found: Range, length: int) -> str:
    """The range, of a length in ns, in a sentence."""
    if not found.length:
        return f"In view, {shown(length, 'ns')}: nothing was recorded."
    return f"In view, {_steps(found)}: {_busy(trace, found)}."


def _steps(found: Range) -> str:
    if not found.marked or not found.steps:
        return shown(found.length, "ns")
    if len(found.steps) == 1:
        return f"{'' if found.whole else 'part of '}step {found.steps[0]}"
    return f"{len(found.steps):,} steps"


def _busy(trace: Trace, found: Range) -> str:
    if not found.busy:
        return _host(trace, found)
    titles = [device_titles(trace).get(device, str(device)) for device in found.busy]
    share = sum(found.busy.values()) / len(titles) / found.length
    gpus = all(title.startswith("GPU") for title in titles)
    one = "the GPU" if gpus else titles[0]
    who = f"{one} is" if len(titles) == 1 else f"the {len(titles)} {'GPUs' if gpus else 'devices'} are"
    mean = "" if len(titles) == 1 else " on average"
    text = f"{who} busy {_percent(share)} of the time{mean}"
    alone = found.kinds[KINDS.index("communication")] / found.length
    before = found.before / len(titles) / found.length
    if before >= _WORTH / 10:
        text += f", and {_percent(before)} with work from before the recording"
    idle = 1 - share - before
    if alone > max(idle, _WORTH):
        part = "all of it" if alone > share - _WORTH / 10 else _percent(alone)
        return f"{text}, {part} in communication that no computation covers"
    if idle < _WORTH or not found.idle.sum():
        return text
    most = PHASES[int(found.idle.argmax())]
    words = _STARVED[most] if len(titles) == 1 else _STARVED[most].replace("waits for it", "waits for them")
    return f"{text}, and {words}" if share or before else f"{who} {words}"


def _host(trace: Trace, found: Range) -> str:
    text = f"the main thread is busy {_percent(found.host / found.length)} of the time"
    if found.host_top and found.host:
        top = found.host_top[0]
        return f"{text}, {_percent(min(top.time / found.host, 1))} of it in {_name(trace, top)}"
    return text


def _facts(found: Range) -> Iterator[str]:
    if len(found.steps) > 1 and found.marked:
        yield f"Steps {listed(found.steps)}"
    if found.longest is not None and found.busy and found.longest[1] - found.longest[0] >= _WORTH * found.length / 10:
        yield f"longest idle stretch {shown(found.longest[1] - found.longest[0], 'ns')}"


def _top(trace: Trace, top: Top, side: str) -> dict[str, Any]:
    name = _name(trace, top)
    named = {"name": name, "label": short(name), "kind": top.kind, "ns": top.time, "calls": top.calls, "row": top.row}
    return {**named, "side": side}


def _name(trace: Trace, top: Top) -> str:
    return call_name(trace.strings.label(top.name), int(trace.kind[top.row]))


def _percent(share: float) -> str:
    percent = round(100 * share)
    if share > 0 and percent == 0:
        return "less than 1%"
    if share < 1 and percent == 100:
        return "more than 99%"
    return f"{percent}%"
