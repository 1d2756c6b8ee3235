"""Rows chosen by what their names say, and numbers as messages name them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

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


def listed(numbers: Iterable[int], limit: int = 10) -> str:
    """Numbers in order, runs of them in short: `0-3, 7`; "" for none. Of many runs the first `limit`, and an …."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = [str(low) if low == high else f"{low}-{high}" for low, high in runs[:limit]]
    return ", ".join([*shown, "…"] if len(runs) > limit else shown)
