"""HOST006: Python collects garbage while it should train."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.views.sentences import measured, say

_NAME: Final = "Python GC"
_CERTAIN_SHARE: Final = 0.8
"""Certain share of the stake: some garbage has to be collected at some time."""


_COST_RATIO: Final = 1.1
"""Cost of a collection as a ratio to its span: it leaves the caches cold, and memory to be freed."""


def garbage_collection(rank: RankView) -> Iterator[Finding]:
    """Does Python's garbage collector stop the training?

    What it checks. Spans `Python GC`, which torch records from 2.9 on with stacks if it is asked to
    (`record_python_gc_info` of the experimental configuration), and how much of them no device work hides.

    Why it matters. A full collection visits every object of the process, and no other Python code runs meanwhile. It
    starts when enough objects were made, at a different time on each rank, and then all ranks wait for that one. At
    stake is the time that the steps gain without the collections; eight tenths of it are the lower end.

    What to do. Freeze long-lived objects after the model is built, and collect at times of your choice, on all ranks at
    once.
    """
    trace = rank.trace
    rows = np.flatnonzero(
        rows_named(trace, _NAME.__eq__, EventKind.PYTHON, EventKind.ANNOTATION, holding=(_NAME,)) & rank.scope.host_mask
    )
    if not len(rows):
        return
    without, spans = rank.without_time(rows), rank.spans(rows)
    gains = rank.gains(without)
    saved = saving(
        rank,
        _CERTAIN_SHARE * gains,
        _COST_RATIO * gains,
        rank.exposed(spans),
        took=spans.length,
        factors=without,
        as_recorded=True,
    )
    if saved is None:
        return
    longest = rank.longest(rows)
    yield saved.finding(
        message=say(
            "Python's garbage collector stops the program. It runs {times}, {took} of each step, and the longest takes"
            " {longest}.",
            times=rank.each_step(len(rows), "time"),
            took=rank.time_per_step(spans.length),
            longest=measured(int(trace.end[longest] - trace.start[longest]), "ns"),
        ),
        change="+ gc.collect(); gc.freeze()  # once, before the loop\n+ gc.disable()  # and gc.collect() every n steps",
        why=say("Some garbage has to be collected some time: eight tenths of the gain remain at least."),
        evidence=rank.event(longest, "the longest collection", "step_breakdown"),
    )


RULE = Rule("HOST006", "Python's garbage collector stops the program", garbage_collection, needs="steps")
