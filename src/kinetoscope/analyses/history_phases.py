"""Phases of the run: from the marks of its history that have a name."""

from __future__ import annotations

from kinetoscope.model.answer import Partial
from kinetoscope.model.history.of_trace import of_run, rank_first, table_of
from kinetoscope.model.history.tables import PHASES
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace

RESULT = rank_first(PHASES)


def history_phases(trace: Trace, select: Selection) -> Partial:
    """How long do the phases of the run take, and does one grow?

    Method. Marks with a name: of `record_function`, `kinetoscope.range`, and the timers of verl, slime, NeMo-RL and
    TRL, which the recorder keeps where they take 100 ms and more. Names that these frameworks have for the same thing
    are one phase; any other name is a phase of its own.

    How to read it. `share` is of the time of the run, on the ranks that had the phase. `growth` compares the typical
    time of the last quarter with that of the first.

    Limits. Times are those of the host that has the timer: a driver waits in them for its workers. A phase inside of
    another is counted in both. It is about the whole run: nothing is selected.
    """
    del select
    return table_of(trace, "phases", RESULT)


ANALYSIS = of_run("Phases of the run", history_phases, RESULT)
