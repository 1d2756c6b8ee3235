"""Events chosen by their names; each distinct name is tried once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinetoscope.algorithms.arrays import Bools, any_of, marked
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace


def rows_named(trace: Trace, fits: Callable[[str], bool], *kinds: EventKind, holding: tuple[str, ...] = ()) -> Bools:
    """Events of these kinds with a name that fits: bool [events]; `fits` is called once for each distinct name.

    holding: words of which a name that fits contains one; names without any are not tried.
    """
    result = np.zeros(len(trace), np.bool_)
    held = trace.strings.holding(holding) if holding else None
    if held is not None and not held.any():
        return result
    rows = np.flatnonzero(any_of(trace.kind, kinds))
    fitting = marked(len(trace.strings) + 1, trace.name[rows] + 1)
    if held is not None:
        fitting[1:] &= held
        fitting[0] = False
    for code in (np.flatnonzero(fitting) - 1).tolist():
        fitting[code + 1] = fits(trace.strings.glance(code))
    result[rows] = fitting[trace.name[rows] + 1]
    return result


def rows_beginning(trace: Trace, prefixes: tuple[str, ...], *kinds: EventKind) -> Bools:
    """Events of these kinds whose name begins with one of the prefixes: bool [events]."""
    return rows_named(trace, lambda name: name.startswith(prefixes), *kinds, holding=prefixes)


def rows_containing(trace: Trace, words: tuple[str, ...], *kinds: EventKind) -> Bools:
    """Events of these kinds whose name contains one of the words: bool [events]."""
    return rows_named(trace, lambda name: any(word in name for word in words), *kinds, holding=words)
