"""Spikes of the run: from the times of all its steps."""

from __future__ import annotations

from kinetoscope.model.answer import Partial
from kinetoscope.model.history.of_trace import of_run, rank_first, table_of
from kinetoscope.model.history.tables import SPIKES
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace

RESULT = rank_first(SPIKES)


def history_spikes(trace: Trace, select: Selection) -> Partial:
    """Do single steps take long, how often, and why?

    Method. Steps far above those around them, in groups by the mark that explains them (a garbage collection, a save,
    an evaluation, a compilation, a window), the part of the step, and the rank. The period is that of the gaps
    between them.

    How to read it. The group that cost most is first. *sure* is what marks explain.

    Limits. Marks are those that the recorder saw; a save by other means than `torch.save` is none. It is about the
    whole run: nothing is selected.
    """
    del select
    return table_of(trace, "spikes", RESULT)


ANALYSIS = of_run("Spikes of the run", history_spikes, RESULT)
