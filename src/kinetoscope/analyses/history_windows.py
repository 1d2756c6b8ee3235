"""Windows of the run: why each was recorded, and what it shows."""

from __future__ import annotations

from kinetoscope.model.answer import Partial
from kinetoscope.model.history.of_trace import of_run, rank_first, windows_table
from kinetoscope.model.history.windows import WINDOWS
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace

RESULT = rank_first(WINDOWS)


def history_windows(trace: Trace, select: Selection) -> Partial:
    """Why was each window of the run recorded, and what does it show of the changes?

    Method. The last window before a change and the first one after it, of a rank that has the change, are compared: of
    the operators and kernels whose time in a step differs by a quarter of the change or more, `shows` is the innermost.
    Traces beside the history are read for it, four on each side at most; of deleted ones what is left of them.

    How to read it. `before` and `after` are times of that operator or kernel in a step of both windows. `spike` is the
    number of the spikes of which the window recorded one.

    Limits. Without a window on both sides nothing is shown. It is about the whole run: nothing is selected.
    """
    del select
    return Partial(RESULT.conform(windows_table(trace).frame.select(RESULT.names)), windows_table(trace).notes)


ANALYSIS = of_run("Windows of the run", history_windows, RESULT)
