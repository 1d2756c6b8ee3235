"""Changes of the run: from the times of all its steps."""

from __future__ import annotations

from kinetoscope.model.answer import Partial
from kinetoscope.model.history.of_trace import of_run, rank_first, table_of
from kinetoscope.model.history.tables import CHANGES
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace

RESULT = rank_first(CHANGES)


def history_changes(trace: Trace, select: Selection) -> Partial:
    """Since when does the run take longer, or need more memory, and on which rank?

    Method. The time of a step, with the gap before it, is cleaned of spikes and reduced to means of blocks; levels
    that differ by more than the noise of batches of blocks, and by an effect that matters, are changes. What the
    parts of the step changed by says what it is. `docs/metrics.md` has the definitions.

    How to read it. `step` is where it begins, with `step_low` and `step_high` around it; `part` makes up half of it
    and more; `mark` is what happened there. *sure* passes each test by far, *guess* barely.

    Limits. Ranks that wait for each other slow down together: the rank whose own part changed is named. It is about
    the whole run: nothing is selected.
    """
    del select
    return table_of(trace, "changes", RESULT)


ANALYSIS = of_run("Changes of the run", history_changes, RESULT)
