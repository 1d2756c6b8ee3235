"""HOST006: Python collects garbage while it should train."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.phrases import each_step
from kinetoscope.advisor.evidence.stakes import is_worth_it, stake_seen
from kinetoscope.advisor.finding import Claim, Evidence
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.views.numbers import shown

_NAME: Final = "Python GC"
_SURE: Final = 0.8
"""Of what is at stake, what surely goes: some garbage has to be collected some time."""


_AFTER: Final = 1.1
"""What a collection costs beyond its span: it leaves the caches cold, and memory to be freed."""


def garbage_collection(look: RankView) -> Iterator[Claim]:
    """Does Python's garbage collector hold up the training?

    What it checks. Spans `Python GC`, which torch records from 2.9 on with stacks if it is asked to
    (`record_python_gc_info` of the experimental configuration), and how much of them no device work hides.

    Why it matters. A full collection looks at every object of the process, and nothing else runs in Python meanwhile.
    It comes when enough objects were made, which is at another time on each rank: then all ranks wait for the one. At
    stake is what the steps gain without the collections, surely eight tenths of it.

    What to do. Freeze what lives for good after the model is built, and collect at times of your own, on all ranks at
    once.
    """
    trace = look.trace
    rows = np.flatnonzero(
        rows_named(trace, _NAME.__eq__, EventKind.PYTHON, EventKind.ANNOTATION, holding=(_NAME,)) & look.view.host
    )
    if not len(rows) or not look.count:
        return
    factors = look.factors()
    for track in np.unique(trace.track[rows]).tolist():
        factors.cut[track] = look.spans(rows[trace.track[rows] == track])
    gains = look.gains(factors)
    spans = look.spans(rows)
    stake = stake_seen(look, _SURE * gains, _AFTER * gains)
    if not is_worth_it(look, stake):
        return
    longest = int(rows[np.argmax(trace.end[rows] - trace.start[rows])])
    start, end = look.shown(trace.start[longest], trace.end[longest])
    yield Claim(
        message=f"Python's garbage collector stops the program. It runs {each_step(len(rows) / look.count, 'time')},"
        f" {shown(look.each_step(spans.length), 'ns')} of each step and {shown(end - start, 'ns')} at the longest.",
        stake=stake,
        change="+ gc.collect(); gc.freeze()  # once, before the loop\n"
        "+ gc.disable()  # and gc.collect() every so many steps",
        why="Some garbage has to be collected some time: eight tenths of the gain count as sure.",
        evidence=(Evidence("the longest collection", "step_breakdown", start=start, end=end, row=longest),),
        time=look.exposed(spans),
    )


RULE = Rule("HOST006", "Python's garbage collector stops the program", of_rank=garbage_collection)
