"""A stretch of the timeline in one sentence and a few numbers."""

from __future__ import annotations

from typing import Literal

from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.timeline.counters import device_titles
from kinetoscope.model.timeline.range import KINDS, TopName, in_range
from kinetoscope.model.trace.trace import Trace
from kinetoscope.pages.sentences.time_range import facts, name_of, range_sentence
from kinetoscope.server.timeline.answers import KindTime, RangeAnswer, TopOfRange
from kinetoscope.server.timeline.hues import hue_of, module_classes
from kinetoscope.views.grammar import short


def range_answer(
    trace: Trace, begin: int, end: int, steps_by: str | None = None, *, modules: bool = False
) -> RangeAnswer:
    """The answer about a range from `begin` to `end`, ns after the origin; with the classes of `modules` in it."""
    stretch, select = in_range(trace, begin, end, steps_by), Selection(time=(begin, end), steps_by=steps_by)
    titles = device_titles(trace)
    return RangeAnswer(
        sentence=range_sentence(trace, stretch, select),
        facts=facts(trace, stretch, select),
        busy={titles.get(device, str(device)): time / max(stretch.length, 1) for device, time in stretch.busy.items()},
        by_kind=[KindTime(kind, round(time)) for kind, time in zip(KINDS, stretch.kinds, strict=True) if time > 0],
        top=[
            *(_top(trace, each, "device") for each in stretch.device_top),
            *(_top(trace, each, "host") for each in stretch.host_top),
        ],
        modules=module_classes(trace, begin, end) if modules else (),
    )


def _top(trace: Trace, top: TopName, side: Literal["device", "host"]) -> TopOfRange:
    name = name_of(trace, top)
    return TopOfRange(name, short(name), top.kind, top.time, top.calls, top.row, side, hue_of(name))
