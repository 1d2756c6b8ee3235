"""Events chosen by their names; each distinct name is tried once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s, any_of, marked
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace

_NAMES_WORTH_A_SEARCH: Final = 500
"""So many are narrowed down by a search through all strings; fewer are tried one by one."""


def rows_named(trace: Trace, fits: Callable[[str], bool], *kinds: EventKind, holding: tuple[str, ...] = ()) -> Bools:
    """Events of these kinds with a name that fits: bool [events]; `fits` is called once for each distinct name.

    holding: words of which a name that fits contains one; names without any are not tried.
    """
    codes = codes_of_names(trace, *kinds)
    if holding and len(codes) > _NAMES_WORTH_A_SEARCH:
        codes = codes[codes >= 0]
        codes = codes[trace.strings.holding(holding)[codes]]
    names = ((code, trace.strings.glance(code)) for code in codes.tolist())
    fitting = [code for code, name in names if (not holding or any(map(name.__contains__, holding))) and fits(name)]
    if not fitting:
        return np.zeros(len(trace), np.bool_)
    result = any_of(trace.kind, kinds)
    rows = np.flatnonzero(result)
    result[rows] = marked(len(trace.strings) + 1, np.array(fitting) + 1)[trace.name[rows] + 1]
    return result


def codes_of_names(trace: Trace, *kinds: EventKind) -> Int64s:
    """The names that events of these kinds have, ascending: int64; −1 is the first where some have none."""
    used = np.zeros(len(trace.strings) + 1, np.bool_)
    for kind in kinds:
        used[_names(trace, kind) + 1] = True
    return np.flatnonzero(used) - 1


@derived
def _names(trace: Trace, kind: EventKind) -> Int64s:
    return np.flatnonzero(marked(len(trace.strings) + 1, trace.name[trace.rows(kind)] + 1)) - 1


def rows_beginning(trace: Trace, prefixes: tuple[str, ...], *kinds: EventKind) -> Bools:
    """Events of these kinds whose name begins with one of the prefixes: bool [events]."""
    return rows_named(trace, lambda name: name.startswith(prefixes), *kinds, holding=prefixes)


def rows_containing(trace: Trace, words: tuple[str, ...], *kinds: EventKind) -> Bools:
    """Events of these kinds whose name contains one of the words: bool [events]."""
    return rows_named(trace, lambda name: any(word in name for word in words), *kinds, holding=words)
