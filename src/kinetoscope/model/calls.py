"""The host's calls as tables count them: under which name, with which shapes, and which are one call recorded twice."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.tree import NO_ROW, ancestor
from kinetoscope.model.calltree import call_tree, is_asynchronous
from kinetoscope.model.kinds import HOST_KINDS, EventKind
from kinetoscope.model.naming import rows_named
from kinetoscope.model.trace import Trace

_STEP: Final = "ProfilerStep#"
_ANY_STEP: Final = "ProfilerStep*"

_INPUT_DIMS: Final = ("Input Dims", "Input dims")
"""The shapes of the inputs, as the eras spell it."""


@dataclass(frozen=True)
class Calls:
    """The calls that a table shows, as if no others had been recorded.

    Attributes:
        shown: bool [events], which they are.
        around: int32 [events], the nearest of them that the event is or lies in, −1 for none.
        parent: int32 [events], of those shown the nearest around it, −1 for outermost calls and all other events.
        asynchronous: bool [events], those shown that have no inside: they end on another thread (see `calltree`).
    """

    shown: NDArray[np.bool_]
    around: NDArray[np.int32]
    parent: NDArray[np.int32]
    asynchronous: NDArray[np.bool_]


def calls(trace: Trace, *hidden: EventKind) -> Calls:
    """All calls but those of hidden kinds and those that repeat the call around them."""
    tree = trace.of(call_tree)
    nested = tree.member & ~trace.of(is_repeat) & ~np.isin(trace.kind, hidden)
    around = ancestor(tree.parent, nested)
    parent = np.where(nested & (tree.parent >= 0), around[tree.parent], np.int32(NO_ROW))
    asynchronous = trace.of(is_asynchronous) & ~np.isin(trace.kind, hidden)
    return Calls(nested | asynchronous, around, parent, asynchronous)


def call_names(trace: Trace) -> NDArray[np.int32]:
    """A code for the name of each event: int32 [events]. Names of one text have one code, and so have all steps."""
    steps = trace.name[rows_named(trace, lambda name: name.startswith(_STEP), *HOST_KINDS)]
    if not len(steps) and not trace.strings.has_synonyms:
        return trace.name
    codes = np.append(trace.strings.canonical, np.int32(-1))  # the last is the code of no name
    codes[steps] = steps[:1]
    return codes[trace.name]


def call_label(trace: Trace, code: int) -> str:
    """The text of a code of `call_names`: `ProfilerStep*` for all steps, as torch's own tables have it."""
    text = trace.strings.label(code)
    return _ANY_STEP if text.startswith(_STEP) else text


def is_repeat(trace: Trace) -> NDArray[np.bool_]:
    """Which calls are the only call inside a call of the same name: bool [events].

    Torch records some calls twice, and its tables leave the inner one out. Leaving out a chain of them one by one comes
    to the same: the call around takes over just the calls inside.
    """
    parent, names = trace.of(call_tree).parent, trace.of(call_names)
    inside = np.flatnonzero(parent >= 0)
    around = parent[inside]
    children = np.bincount(around, minlength=len(trace))
    found = np.zeros(len(trace), np.bool_)
    found[inside] = (children[around] == 1) & (names[inside] == names[around])
    return found


def input_dims(trace: Trace, rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """The shapes of each row's inputs as a string code, −1 where they were not recorded: int64 [rows]."""
    found = trace.codes_of(_INPUT_DIMS[0], rows)
    missing = np.flatnonzero(found < 0)
    found[missing] = trace.codes_of(_INPUT_DIMS[1], rows[missing])
    return found


def input_dims_label(trace: Trace, code: int) -> str | None:
    """The text of a code of `input_dims`: a list with the shape of each input; null for −1."""
    return json.dumps(trace.strings.nested(code)) if code >= 0 else None


def is_outside_calls(trace: Trace, time: NDArray[np.int64]) -> NDArray[np.bool_]:
    """At which times no call runs on any thread, its last instant included: bool [times]."""
    outermost = (trace.of(call_tree).depth == 0) | trace.of(is_asynchronous)
    start, end = np.sort(trace.start[outermost]), np.sort(trace.end[outermost])
    begun = np.searchsorted(start, time, side="right")
    return begun == np.searchsorted(end, time, side="left")
