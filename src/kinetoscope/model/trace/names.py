"""Events chosen by their names; each distinct name is tried once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinetoscope.algorithms.arrays import Bools, any_of
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace


def rows_named(trace: Trace, fits: Callable[[str], bool], *kinds: EventKind, holding: tuple[str, ...] = ()) -> Bools:
    """Which events of these kinds have a name that fits: bool [events]. Looks at each distinct name once.

    holding: words of which a name that fits holds one, so that the others need not be looked at.
    """
    rows = np.flatnonzero(any_of(trace.kind, kinds))
    marks = np.zeros(len(trace.strings) + 1, np.bool_)
    marks[trace.name[rows] + 1] = True
    if holding:
        marks[1:] &= trace.strings.holding(holding)
        marks[0] = False
    for code in (np.flatnonzero(marks) - 1).tolist():
        marks[code + 1] = fits(trace.strings.glance(code))
    result = np.zeros(len(trace), np.bool_)
    result[rows] = marks[trace.name[rows] + 1]
    return result


def rows_beginning(trace: Trace, prefixes: tuple[str, ...], *kinds: EventKind) -> Bools:
    """Events of these kinds whose name begins with one of the prefixes: bool [events]."""
    return rows_named(trace, lambda name: name.startswith(prefixes), *kinds, holding=prefixes)


def rows_containing(trace: Trace, words: tuple[str, ...], *kinds: EventKind) -> Bools:
    """Events of these kinds whose name contains one of the words: bool [events]."""
    return rows_named(trace, lambda name: any(word in name for word in words), *kinds, holding=words)
