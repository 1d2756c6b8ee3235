"""Marks of the run: from the times of all its steps."""

from __future__ import annotations

from kinetoscope.model.answer import Partial
from kinetoscope.model.history.of_trace import of_run, table_of
from kinetoscope.model.history.series import MARKS
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace

RESULT = MARKS


def history_marks(trace: Trace, select: Selection) -> Partial:
    """Is there anything that happened during the run and explains its steps?

    Method. What the recorder saw: garbage collections by generation, saves, evaluations, compilations, windows,
    restarts, and how it ended.

    How to read it. `step` is the step in which, or before which, it starts; times are ns since 1970.

    Limits. A rank that was killed has no mark of its end. It is about the whole run: nothing is selected.
    """
    del select
    return table_of(trace, "marks", RESULT)


ANALYSIS = of_run("Marks of the run", history_marks, RESULT)
