"""Lost time of the run: from the times of all its steps."""

from __future__ import annotations

from kinetoscope.model.answer import Partial
from kinetoscope.model.history.of_trace import of_run, rank_first, table_of
from kinetoscope.model.history.tables import LOST
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace

RESULT = rank_first(LOST)


def history_lost(trace: Trace, select: Selection) -> Partial:
    """How was the time of the run spent, and how much was lost by which cause?

    Method. The steps at the best steady level that the run had are its first row; the others are what it took beyond
    that: pauses that marks explain, spikes, changes, restarts and steps that were run again. The rows add up to the
    time of the run, of a rank on average.

    How to read it. `change` is a number of `history_changes`. What no row names is noise.

    Limits. The best level is one that the run had: what it could be, a window tells. It is about the whole run:
    nothing is selected.
    """
    del select
    return table_of(trace, "lost", RESULT)


ANALYSIS = of_run("Lost time of the run", history_lost, RESULT)
