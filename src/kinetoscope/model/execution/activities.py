"""Activities of the host in its calls: one classification for idle time, steps, stragglers and the comparison."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int8s, any_of
from kinetoscope.algorithms.trees.tree import subtree_sum
from kinetoscope.model.execution.call_tree import call_tree, enclosing_module
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.frames import frame_text, user_source
from kinetoscope.model.execution.marks import is_asynchronous, is_data_loading, is_mark, is_module_call
from kinetoscope.model.execution.runtime_calls import SYNCHRONIZING_CALLS, RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.names import rows_beginning, rows_named
from kinetoscope.model.trace.trace import Trace


class HostActivity(IntEnum):
    """Activities of the host in a call. Each analysis gives its own names and priorities to them."""

    DATA_LOADING = 0
    SYNCHRONIZATION = 1
    """A call of the runtime that waits for a device by its meaning (`runtime_calls.WAITS`)."""
    ALLOCATION = 2
    """A call of the runtime that allocates memory of a driver, or frees it."""
    RUNTIME_CALL = 3
    """Another call of the device's runtime or driver."""
    COMMUNICATION = 4
    """A collective of gloo, which runs on the host."""
    OPERATOR = 5
    PYTHON = 6
    ANNOTATION = 7
    """A range that the user or a library named."""
    NONE = 8
    """A mark around calls, or no call of the host."""


RUNTIME_ACTIVITIES: Final = (HostActivity.SYNCHRONIZATION, HostActivity.ALLOCATION, HostActivity.RUNTIME_CALL)

_OF_KIND: Final = {
    EventKind.RUNTIME: HostActivity.RUNTIME_CALL,
    EventKind.HOST_OP: HostActivity.OPERATOR,
    EventKind.PYTHON: HostActivity.PYTHON,
    EventKind.ANNOTATION: HostActivity.ANNOTATION,
}


_NEXT_CALL: Final = "<built-in function next>"
_MIN_BATCH_NS: Final = 1_000_000
"""A shorter call is no batch."""

_LOADER_WORDS: Final = frozenset(
    {"batch", "batches", "data", "dataset", "fetch", "load", "loader", "sample", "samples"}
)
_OTHER_WORDS: Final = frozenset({"checkpoint", "model", "save", "state", "weights", "train", "eval", "step"})
"""Words in the name of a function that makes batches, and of one that does something else with them."""


@derived
def takes_next_batch(trace: Trace) -> Bools:
    """Python calls that take or make the next batch without torch's data loader: bool [events].

    `next` of 1 ms and more counts, and so does a function of the user's own whose name says so (`batches`, `get_data`),
    as the profiler shows a generator that a loop goes through. It is no batch where a model runs inside or around it (a
    module's forward, a node of autograd, or a launch), where torch's loader leaves its range inside, or if a context
    manager calls it.
    """
    calls = rows_named(trace, _NEXT_CALL.__eq__, EventKind.PYTHON, holding=(_NEXT_CALL,)) | _makes_batches(trace)
    rows = np.flatnonzero(calls)
    calls[rows] = trace.end[rows] - trace.start[rows] >= _MIN_BATCH_NS
    if not calls.any():
        return calls
    tree = call_tree(trace)
    calls &= ~computes_inside(trace) & (
        subtree_sum(is_data_loading(trace).astype(np.int64), tree.parent, tree.order) == 0
    )
    rows, parent = np.flatnonzero(calls), tree.parent
    managers = rows_named(trace, lambda name: "contextlib.py(" in name, EventKind.PYTHON, holding=("contextlib.py(",))
    calls[rows[(enclosing_module(trace)[rows] >= 0) | ((parent[rows] >= 0) & managers[parent[rows]])]] = False
    return calls


@derived
def computes_inside(trace: Trace) -> Bools:
    """Calls in which a model runs: a module's forward, a node of autograd, or a launch: bool [events]."""
    tree, work, kinds = call_tree(trace), device_work(trace), runtime_call_kinds(trace)
    runs = is_module_call(trace) | rows_beginning(trace, ("autograd::engine",), EventKind.HOST_OP)
    runs |= np.isin(kinds, (RuntimeCallKind.LAUNCH, RuntimeCallKind.GRAPH_LAUNCH))  # captured ones have no work
    runs[work.launch[(work.launch >= 0) & work.of(WorkKind.COMPUTATION)]] = True
    return np.asarray(subtree_sum(runs.astype(np.int64), tree.parent, tree.order) > 0)


def _makes_batches(trace: Trace) -> Bools:
    """Calls of functions of the user's own that are named like loaders: bool [events]."""

    def fits(name: str) -> bool:
        words = {*name.rpartition("): ")[2].lower().split("_")}
        named = bool(words & _LOADER_WORDS) and not words & _OTHER_WORDS
        return named and user_source(frame_text(name)).file is not None

    return rows_named(trace, fits, EventKind.PYTHON, holding=(".py(",))


@derived
def host_activities(trace: Trace) -> Int8s:
    """The `HostActivity` of each event: int8 [events]."""
    of_kind = np.array([_OF_KIND.get(kind, HostActivity.NONE) for kind in EventKind], np.int8)
    activity = of_kind[trace.kind]
    calls = runtime_call_kinds(trace)
    activity[is_mark(trace)] = HostActivity.NONE
    activity[any_of(calls, (RuntimeCallKind.ALLOCATE, RuntimeCallKind.FREE))] = HostActivity.ALLOCATION
    activity[any_of(calls, SYNCHRONIZING_CALLS)] = HostActivity.SYNCHRONIZATION
    activity[is_data_loading(trace) | takes_next_batch(trace)] = HostActivity.DATA_LOADING
    activity[is_asynchronous(trace)] = HostActivity.COMMUNICATION
    return activity
