"""Ranks of the run: from the times of all its steps."""

from __future__ import annotations

from kinetoscope.model.answer import Partial
from kinetoscope.model.history.of_trace import RANKS_OF_RUN, of_run, table_of
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace

RESULT = RANKS_OF_RUN


def history_ranks(trace: Trace, select: Selection) -> Partial:
    """By how much was each rank behind the others, over the whole run?

    Method. The mean time of a rank's steps in each row of `history_steps`, against the median of all ranks.

    How to read it. A rank that is behind in one row after the other is slow; one that is behind now and then comes
    back.

    Limits. Ranks that wait for each other are slow together: then `history_changes` names the rank whose own part of
    the step is longer. It is about the whole run: nothing is selected.
    """
    del select
    return table_of(trace, "ranks", RESULT)


ANALYSIS = of_run("Ranks of the run", history_ranks, RESULT)
