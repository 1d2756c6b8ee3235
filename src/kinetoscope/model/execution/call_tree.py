"""The call tree of each host thread: which operator, annotation, Python call or runtime call encloses which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms import ordering
from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, any_of
from kinetoscope.algorithms.intervals.ownership import owned_time
from kinetoscope.algorithms.trees import tree
from kinetoscope.model.execution.marks import is_asynchronous, is_module_call, is_step
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import HOST_KINDS, EventKind
from kinetoscope.model.trace.trace import Trace

PROFILER_OPERATORS: Final = (
    "profiler::_record_function_enter",
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
    "aten::is_leaf",
    "aten::output_nr",
    "aten::_version",
)
"""Operators that torch's own tables leave out: those of the profiler itself and getters that cost nothing."""


@dataclass(frozen=True)
class CallTree:
    """The host's calls.

    Attributes:
        member: bool [events], which events take part.
        order: int32 [members], their rows by track, start, and the one recorded longer first.
        offsets: int64 [tracks + 1], where the rows of each track begin in it.
        parent: int32 [events], row of the call around it, −1 for outermost calls and events that take no part.
        depth: int16 [events] (int32 if that is too short), 0 for outermost calls, −1 for events that take no part.
        cut: int64 [cut], rows of the calls that are open in the tree until another time than their end, as an overlap
            cuts them; cut_at: int64 [cut], that time. See `open_until`.
        partial: how many calls overlap another one without lying inside it.
    """

    member: Bools
    order: Int32s
    offsets: Int64s
    parent: Int32s
    depth: NDArray[np.signedinteger]
    cut: Int64s
    cut_at: Int64s
    partial: int


@derived
def call_tree(trace: Trace) -> CallTree:
    """The calls of the host nested by time. Where two overlap partly the shorter piece is cut off; see `tree.nest`.

    Captured calls, which have no length, are not nested by time: they lie where they were captured.
    """
    member = any_of(trace.kind, HOST_KINDS)
    member &= ~any_of(trace.name, trace.strings.codes(PROFILER_OPERATORS).tolist())
    member &= ~is_asynchronous(trace)
    order, offsets = ordering.track_order(
        trace.track, trace.start, trace.end, tracks=len(trace.tracks), selected=member
    )
    recorded = order, offsets
    if trace.captured is not None:
        recorded = ordering.some_of(order, offsets, order < trace.recorded)
    nested = tree.nest(trace.start, trace.end, *recorded)
    if partial := nested.partial:
        del nested  # of a large trace these columns are the peak
        # A Python call ends no later than its caller: where it does, its return was not recorded.
        frames = ordering.some_of(*recorded, trace.kind[recorded[0]] == EventKind.PYTHON)
        ends = tree.nest(trace.start, trace.end, *frames, cut=tree.Cut.LATER).until
        nested = tree.nest(trace.start, ends, *recorded)
    parent, depth, until, _ = _with_captured(trace, nested)
    cut = np.flatnonzero(until != trace.end) if partial else np.empty(0, np.int64)
    is_short = depth.max(initial=0) <= np.iinfo(np.int16).max
    return CallTree(
        member, order, offsets, parent, depth.astype(np.int16) if is_short else depth, cut, until[cut], partial
    )


@derived
def open_until(trace: Trace) -> Int64s:
    """Until when each call is open in the tree: its end, or where an overlap cuts it: int64 [events]."""
    calls = call_tree(trace)
    if not len(calls.cut):
        return trace.end
    until = trace.end.copy()
    until[calls.cut] = calls.cut_at
    return until


def _with_captured(trace: Trace, nested: tree.Nested) -> tree.Nested:
    """`nested`, with the captured calls where they were captured."""
    if trace.captured is None:
        return nested
    nested.parent[trace.recorded :] = trace.captured.parent
    nested.depth[trace.recorded :] = nested.depth[trace.captured.launch] + 1 + trace.captured.depth
    return nested


@derived
def enclosing_op(trace: Trace) -> Int32s:
    """The operator that each event is, or is called by: int32 [events], −1 for none."""
    return nearest_op(trace)


def nearest_op(trace: Trace) -> Int32s:
    """`enclosing_op`, not kept: to be looked at once, while no more is known of the trace."""
    return tree.ancestor(call_tree(trace).parent, trace.kind == EventKind.HOST_OP)


@derived
def enclosing_annotation(trace: Trace) -> Int32s:
    """The innermost annotation that each event is, or lies in: int32 [events], −1 for none."""
    return tree.ancestor(call_tree(trace).parent, trace.kind == EventKind.ANNOTATION)


@derived
def enclosing_frame(trace: Trace) -> Int32s:
    """The Python call that each event is, or is called by: int32 [events], −1 for none."""
    return tree.ancestor(call_tree(trace).parent, trace.kind == EventKind.PYTHON)


@derived
def enclosing_module(trace: Trace) -> Int32s:
    """The call of a module's forward that each event is, or is called by: int32 [events], −1 for none."""
    return tree.ancestor(call_tree(trace).parent, is_module_call(trace))


def innermost_at(trace: Trace, track: Int32s, time: Int64s) -> Int32s:
    """The innermost call that runs on each track at each time: int32 [times], rows, −1 for none."""
    calls = call_tree(trace)
    return tree.enclosing(calls.order, calls.offsets, trace.start, open_until(trace), calls.parent, track, time)


def inside(trace: Trace, calls: Bools) -> Bools:
    """Events that are some calls (bool [events]), or lie in them: bool [events]."""
    return np.asarray(tree.ancestor(call_tree(trace).parent, calls) >= 0)


@derived
def outermost_ops(trace: Trace) -> Bools:
    """Calls of operators in no other operator: bool [events]. Steps, operators in files of 2021, are left out."""
    calls = call_tree(trace)
    return tree.outermost(calls.parent, calls.member & (trace.kind == EventKind.HOST_OP) & ~is_step(trace))


@derived
def outermost_op(trace: Trace) -> Int32s:
    """The outermost operator that each event is, or is called by: int32 [events], −1 for none."""
    return tree.ancestor(call_tree(trace).parent, outermost_ops(trace))


class WholeCalls(NamedTuple):
    """Calls of which each lies as a whole in the one around it, as a call that began later cuts the earlier one off.

    Attributes:
        parent: int32 [events], the innermost call that each lies in as a whole, −1 for none.
        until: int64 [events], its end, or where a call begins that lasts longer.
    """

    parent: Int32s
    until: Int64s


@derived
def whole_calls(trace: Trace) -> WholeCalls:
    """The calls by the parents of torch's `key_averages`, each open until the first that begins in it and outlasts it.

    So the time of a call less that of its children is what no later call has: never below 0, and each instant once.
    """
    calls = call_tree(trace)
    return whole_among(trace, calls.member, calls.parent)


def whole_among(trace: Trace, shown: Bools, parent: Int32s) -> WholeCalls:
    """`whole_calls` as if only those `shown` (bool [events]) had been recorded; `parent`: the call around each."""
    calls = call_tree(trace)
    if not calls.partial:
        return WholeCalls(parent, trace.end)
    recorded = ordering.some_of(calls.order, calls.offsets, shown[calls.order] & (calls.order < trace.recorded))
    nested = tree.nest(trace.start, trace.end, *recorded, cut=tree.Cut.EARLIER)
    nested.parent[trace.recorded :] = parent[trace.recorded :]
    return WholeCalls(nested.parent, nested.until)


@derived
def self_times(trace: Trace) -> Int64s:
    """Time in which each call runs and none that began later, ns: int64 [events], 0 where it takes no part.

    Of calls that lie in each other that is the duration less that of the calls directly inside.
    """
    whole = whole_calls(trace)
    time = whole.until - trace.start
    np.maximum(time, 0, out=time)  # in place: of a large trace these columns are the peak
    time *= call_tree(trace).member
    time -= tree.children_sum(time, whole.parent)
    return time


def owned_times(trace: Trace, shown: Bools, window: tuple[int, int] | None = None) -> Int64s:
    """Time in which each call is, of those `shown` (bool [events]) that run, the one that began last: int64 [events].

    Over the calls of a thread it sums to the time in which any of them runs.
    """
    calls = call_tree(trace)
    order, offsets = ordering.some_of(calls.order, calls.offsets, shown[calls.order])
    return owned_time(trace.start, trace.end, order, offsets, *window or ())


@derived
def main_thread(trace: Trace) -> int:
    """The track that the training loop runs on: with the most steps, else with the most time in calls; −1 for none.

    Threads with nothing but Python calls are the last resort: monitors and pools wait as long as the recording lasts.
    """
    calls = call_tree(trace)
    outermost = np.flatnonzero(calls.depth == 0)
    if not len(outermost):
        return -1
    steps = is_step(trace)
    if steps.any():
        return int(np.bincount(trace.track[steps]).argmax())
    time = np.bincount(
        trace.track[outermost], weights=(trace.end - trace.start)[outermost], minlength=len(trace.tracks)
    )
    works = np.bincount(trace.track[calls.member & (trace.kind != EventKind.PYTHON)], minlength=len(trace.tracks)) > 0
    return int(np.where(works, time, -1).argmax() if works.any() else time.argmax())
