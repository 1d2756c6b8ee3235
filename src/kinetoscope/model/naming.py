"""Rows chosen by what their names say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kinetoscope.model.kinds import EventKind
from kinetoscope.model.trace import Trace


def rows_named(trace: Trace, fits: Callable[[str], bool], *kinds: EventKind) -> NDArray[np.bool_]:
    """Which events of these kinds have a name that fits: bool [events]. Looks at each distinct name once."""
    rows = np.flatnonzero(np.isin(trace.kind, kinds))
    marks = np.zeros(len(trace.strings) + 1, np.bool_)
    marks[trace.name[rows] + 1] = True
    for code in (np.flatnonzero(marks) - 1).tolist():
        marks[code + 1] = fits(trace.strings.label(code))
    result = np.zeros(len(trace), np.bool_)
    result[rows] = marks[trace.name[rows] + 1]
    return result
