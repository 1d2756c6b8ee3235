"""Ranks that are slow again and again: from the times of all its steps."""

from __future__ import annotations

from kinetoscope.model.answer import Partial
from kinetoscope.model.history.of_trace import of_run, rank_first, table_of
from kinetoscope.model.history.tables import RETURNS
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace

RESULT = rank_first(RETURNS)


def history_returns(trace: Trace, select: Selection) -> Partial:
    """Is a rank the slowest again and again?

    Method. In each block of steps the rank that is most above the others in a part of the step that is its own; a
    rank that is it more often than chance has it, in several episodes, is named.

    How to read it. `episodes` is how often it came back, `period` at which distance, `part` in what it is slower.

    Limits. A rank that is slow for good is a change. It is about the whole run: nothing is selected.
    """
    del select
    return table_of(trace, "returns", RESULT)


ANALYSIS = of_run("Ranks that are slow again and again", history_returns, RESULT)
