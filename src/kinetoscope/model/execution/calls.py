"""The calls of the host as tables count them: their names, those shown, and those recorded twice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, marked
from kinetoscope.algorithms.trees.tree import NO_ROW, ancestor
from kinetoscope.model.execution.call_tree import call_tree, whole_among
from kinetoscope.model.execution.device_work import DeviceWork
from kinetoscope.model.execution.marks import STEP, is_asynchronous
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace

_ALL_STEPS: Final = "ProfilerStep*"

_OVERLOAD: Final = re.compile(r"(\w+(?:::\w+)+)\.\w+")
"""The name of an operator with that of one of its overloads, as the profiler's option for them writes it."""


@dataclass(frozen=True)
class ShownCalls:
    """The calls that a table shows, nested as if no others had been recorded.

    Attributes:
        shown: bool [events], whether the event is one.
        around: int32 [events], the nearest of them that the event is or lies in, −1 for none.
        parent: int32 [events], of those shown the nearest around it, −1 for outermost calls and all other events.
        whole_parent: int32 [events], the nearest that it lies in as a whole: its time is no self time of that.
        until: int64 [events], the end of each, or where one begins that lasts longer: what follows is of that.
        asynchronous: bool [events], those shown that have no inside: they end on another thread (see `marks`).
    """

    shown: Bools
    around: Int32s
    parent: Int32s
    whole_parent: Int32s
    until: Int64s
    asynchronous: Bools


@derived
def calls(trace: Trace, *hidden: EventKind) -> ShownCalls:
    """All calls but those of hidden kinds and those that repeat the call around them."""
    return calls_among(trace, ~np.isin(trace.kind, hidden))


def calls_among(trace: Trace, candidates: Bools) -> ShownCalls:
    """The calls among some events (bool [events]), but those that repeat the call around them."""
    tree = call_tree(trace)
    nested = tree.member & ~is_repeat(trace) & candidates
    asynchronous = is_asynchronous(trace) & candidates
    around = ancestor(tree.parent, nested)
    parent = np.where(nested & (tree.parent >= 0), around[tree.parent], np.int32(NO_ROW))
    return ShownCalls(nested | asynchronous, around, parent, *whole_among(trace, nested, parent), asynchronous)


@derived
def is_repeat(trace: Trace) -> Bools:
    """Calls directly inside a call of the same name and kind: bool [events].

    Torch records some calls twice, and some as an overload or an out-variant calls another. A call without length, or
    one that ends after the other, is a call of its own.
    """
    parent, names = call_tree(trace).parent, call_names(trace)
    inside = np.flatnonzero(parent >= 0)
    same = inside[(names[inside] == names[parent[inside]]) & (trace.kind[inside] == trace.kind[parent[inside]])]
    same = same[(trace.end[same] > trace.start[same]) & (trace.end[same] <= trace.end[parent[same]])]
    return marked(len(trace), same)


def is_outside_calls(trace: Trace, shown_calls: ShownCalls, time: Int64s) -> Bools:
    """Times at which no shown call runs on any thread, its last instant included: bool [times]."""
    outermost = shown_calls.shown & (shown_calls.whole_parent < 0)
    start, end = np.sort(trace.start[outermost]), np.sort(trace.end[outermost])
    begun = np.searchsorted(start, time, side="right")
    return np.equal(begun, np.searchsorted(end, time, side="left"))


# --- device work


def launching_calls(shown_calls: ShownCalls, work: DeviceWork) -> Int32s:
    """The innermost shown call that launched each piece of device work: int32 [work], −1 for none.

    Where the launch was not recorded, it is that of the operator that the work belongs to.
    """
    return np.where(work.caller >= 0, shown_calls.around[work.caller], np.int32(NO_ROW))


def past_runtime(trace: Trace, shown_calls: ShownCalls, row: Int32s) -> Int32s:
    """The call that makes each call of the runtime; the row itself for other calls and outermost ones."""
    own = row.copy()
    while (runtime := (own >= 0) & (trace.kind[own] == EventKind.RUNTIME)).any():
        own[runtime] = shown_calls.parent[own[runtime]]
    return np.where(own >= 0, own, row)


# --- names


def call_name(text: str, kind: int) -> str:
    """The name under which tables know a call: `ProfilerStep*` for all steps, and an operator without its overload.

    Torch's `key_averages` does the same.
    """
    if kind == EventKind.HOST_OP and (match := _OVERLOAD.fullmatch(text)):
        return match.group(1)
    if kind in (EventKind.HOST_OP, EventKind.ANNOTATION) and text.startswith(STEP):
        return _ALL_STEPS
    return text


@derived
def call_names(trace: Trace) -> Int32s:
    """A code for the name of each event: int32 [events], −1 for none; events of one `call_name` have one code."""
    names = trace.name
    if trace.strings.has_synonyms:
        names = np.append(trace.strings.canonical, np.int32(-1))[names]  # the last is what −1 becomes
    chosen: dict[str, int] = {}
    for kind in (EventKind.HOST_OP, EventKind.ANNOTATION):
        rows = np.flatnonzero(_renamed(trace, kind))
        if len(rows):
            names = names.copy()
            names[rows] = _merged(trace, names[rows], kind, chosen)
    return names


def names_of_calls(trace: Trace, rows: Int32s) -> pl.Series:
    """The names of calls as tables know them (see `call_name`), null for row −1."""
    if not len(trace):
        return pl.Series([None] * len(rows), dtype=pl.String)
    # One text may name an operator and an annotation, and only the operator loses its overload.
    kinds = len(EventKind)
    is_call = rows >= 0
    codes = np.full(len(rows), -1)
    codes[is_call] = call_names(trace)[rows[is_call]].astype(np.int64) * kinds + trace.kind[rows[is_call]]
    return polars_columns.labelled(codes, lambda code: call_name(trace.strings.label(code // kinds), code % kinds))


def _renamed(trace: Trace, kind: EventKind) -> Bools:
    return rows_named(trace, lambda text: call_name(text, kind) != text, kind)


def _merged(trace: Trace, names: Int32s, kind: EventKind, chosen: dict[str, int]) -> Int32s:
    """The code that stands for each name: int32 [names]; `chosen` holds those in use, and gets the new ones."""
    distinct, place = np.unique(names, return_inverse=True)
    codes = np.empty(len(distinct), np.int32)
    for i, code in enumerate(distinct.tolist()):
        name = call_name(trace.strings.label(code), kind)
        if name not in chosen:
            plain = trace.strings.code(name)
            chosen[name] = plain if plain >= 0 else code
        codes[i] = chosen[name]
    return codes[place]
