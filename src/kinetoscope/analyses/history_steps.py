"""Step times of the run: from the times of all its steps."""

from __future__ import annotations

from kinetoscope.charts import Lines
from kinetoscope.model.answer import Partial
from kinetoscope.model.history.of_trace import STEPS_OF_RUN, of_run, table_of
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace

RESULT = STEPS_OF_RUN


def history_steps(trace: Trace, select: Selection) -> Partial:
    """How long did the steps take, over the whole run?

    Method. Rows are of so many steps each that there are some hundred. The time of a step is from the end of the step
    before it to its own end, so that the gaps between steps are in it. The least and the greatest are of single
    steps.

    How to read it. Where `slowest` is far above `median`, single steps or single ranks are slow: `history_ranks` says
    which. Where `median` rises, all are.

    Limits. It is about the whole run: nothing is selected.
    """
    del select
    return table_of(trace, "steps", RESULT)


ANALYSIS = of_run("Step times of the run", history_steps, RESULT, Lines("step", "slowest", steps=False))
