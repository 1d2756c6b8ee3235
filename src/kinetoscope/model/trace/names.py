"""Events chosen by their names; each distinct name is tried once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinetoscope.algorithms.arrays import Bools, any_of, marked
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace


def rows_named(trace: Trace, fits: Callable[[str], bool], *kinds: EventKind, holding: tuple[str, ...] = ()) -> Bools:
    """Events of these kinds with a name that fits: bool [events]; `fits` is called once for each distinct name.

    holding: words of which a name that fits contains one; names without any are not tried.
    """
    fitting = _names_of(trace, kinds)
    if holding:
        fitting[1:] &= trace.strings.holding(holding)
        fitting[0] = False
    for code in (np.flatnonzero(fitting) - 1).tolist():
        fitting[code + 1] = fits(trace.strings.glance(code))
    if not fitting.any():
        return np.zeros(len(trace), np.bool_)
    return fitting[trace.name + 1] & any_of(trace.kind, kinds)


def codes_of_names(trace: Trace, *kinds: EventKind) -> list[int]:
    """The names that events of these kinds have, ascending; −1 is the first where some have none."""
    codes: list[int] = (np.flatnonzero(_names_of(trace, kinds)) - 1).tolist()
    return codes


def _names_of(trace: Trace, kinds: tuple[EventKind, ...]) -> Bools:
    """The names that events of any of these kinds have, as `_names_by_kind`: bool [strings + 1]."""
    return np.asarray(_names_by_kind(trace)[list(kinds)].any(axis=0))


@derived
def _names_by_kind(trace: Trace) -> Bools:
    """The names that events of each kind have: bool [kinds, strings + 1], those without a name first."""
    names = len(trace.strings) + 1
    place = trace.kind.astype(np.int64)
    place *= names
    place += trace.name + 1
    return marked(len(EventKind) * names, place).reshape(-1, names)


def rows_beginning(trace: Trace, prefixes: tuple[str, ...], *kinds: EventKind) -> Bools:
    """Events of these kinds whose name begins with one of the prefixes: bool [events]."""
    return rows_named(trace, lambda name: name.startswith(prefixes), *kinds, holding=prefixes)


def rows_containing(trace: Trace, words: tuple[str, ...], *kinds: EventKind) -> Bools:
    """Events of these kinds whose name contains one of the words: bool [events]."""
    return rows_named(trace, lambda name: any(word in name for word in words), *kinds, holding=words)
