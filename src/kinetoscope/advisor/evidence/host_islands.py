"""Operators that compute on the host between copies from a device and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, marked
from kinetoscope.algorithms.trees.tree import outermost
from kinetoscope.model.device.copies import copies
from kinetoscope.model.device.launches import launches
from kinetoscope.model.execution.call_tree import call_tree, inside
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import is_data_loading, is_optimizer_range
from kinetoscope.model.execution.synchronization import host_waits
from kinetoscope.model.operators.categories import view_ops
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_beginning
from kinetoscope.model.trace.trace import Trace

COMPUTES_NS: Final = 30_000
"""Time of an operator that launches nothing, from which on it computes: views take a few microseconds."""

_NO_COMPUTATION: Final = (
    *("c10d::", "nccl:", "autograd::", "torch::autograd", "record_param_comms", "cuda", "ProfilerStep#"),
    *("aten::empty", "aten::item", "aten::_local_scalar_dense", "aten::is_pinned", "aten::pin_memory"),
    *("aten::_pin_memory", "aten::resize_", "aten::set_", "Torch-Compiled Region", "CompiledFunction", "dynamo"),
)
"""How the names of operators begin that allocate, wait, or stand for others."""


@dataclass(frozen=True)
class HostIslands:
    """Operators that compute on the host, between copies from a device and back.

    Attributes:
        rows: int32 [n], the outermost that launch nothing themselves.
        fetch, send: int32 [n], the call before that copies from the device, and the one after that copies back to it;
            −1 where the neighbouring launch is something else.
    """

    rows: Int32s
    fetch: Int32s
    send: Int32s


@derived
def host_islands(trace: Trace) -> HostIslands:
    """The islands of the whole trace."""
    work, every = device_work(trace), launches(trace)
    tree = call_tree(trace)
    parent = tree.parent
    launching = marked(len(trace), every.rows)
    launching = encloses(parent, launching)
    is_op = tree.member & (trace.kind == EventKind.HOST_OP) & ~launching & ~view_ops(trace)
    is_op &= ~is_optimizer_range(trace)
    is_op &= np.isin(trace.track, np.unique(trace.track[every.rows])) & (trace.end - trace.start >= COMPUTES_NS)
    is_op &= ~rows_beginning(trace, _NO_COMPUTATION, EventKind.HOST_OP)
    is_op &= ~inside(trace, is_data_loading(trace))
    waits = host_waits(trace).call
    holds_wait = marked(len(trace), waits)
    is_op &= ~encloses(parent, holds_wait)
    rows = np.flatnonzero(outermost(parent, is_op)).astype(np.int32)
    direction = np.full(len(trace), -1, np.int8)
    made = copies(trace)
    names = {"DtoH": 0, "HtoD": 1}
    of = np.array([names.get(each, -1) for each in made.directions], np.int8)  # places: 0 from a device, 1 to one
    linked = work.launch[made.work] >= 0
    direction[work.launch[made.work[linked]]] = of[made.direction[linked]] if len(of) else -1
    fetch, send = np.full(len(rows), -1, np.int32), np.full(len(rows), -1, np.int32)
    for track in np.unique(trace.track[rows]).tolist():
        here = trace.track[rows] == track
        calls = every.rows[trace.track[every.rows] == track]
        calls = calls[np.argsort(trace.start[calls], kind="stable")]
        place = np.searchsorted(trace.start[calls], trace.start[rows[here]])
        before, after = calls[np.maximum(place - 1, 0)], calls[np.minimum(place, len(calls) - 1)]
        fetch[here] = np.where((place > 0) & (direction[before] == 0), before, np.int32(-1))
        send[here] = np.where((place < len(calls)) & (direction[after] == 1), after, np.int32(-1))
    known = (fetch >= 0) | (send >= 0)
    return HostIslands(rows[known].astype(np.int32), fetch[known], send[known])


def encloses(parent: Int32s, inner: Bools) -> Bools:
    """Calls that are some of these, or have one in them: bool [events]."""
    result = inner.copy()
    rows = np.flatnonzero(inner)
    while len(rows):
        rows = np.unique(parent[rows])
        rows = rows[rows >= 0]
        rows = rows[~result[rows]]
        result[rows] = True
    return result
