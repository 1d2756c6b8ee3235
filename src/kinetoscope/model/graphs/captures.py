"""Captures of graphs: what was launched between the beginning and the end of a capture becomes the nodes of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int8s, Int32s, Int64s, any_of
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace

KERNEL_ARGUMENT: Final = "kernel"
"""The argument in which ROCm's launches name the kernel; CUDA's do not."""

NODE_CALLS: Final = (
    RuntimeCallKind.LAUNCH,
    RuntimeCallKind.COPY,
    RuntimeCallKind.COPY_AND_WAIT,
    RuntimeCallKind.SET,
)
"""Calls of the runtime that become nodes with work of the device."""


@dataclass(frozen=True)
class Captures:
    """The captures of a trace, in order of their beginning.

    Attributes:
        begin, end: int64 [captures], when the capture begins and ends, ns.
        span: int32 [captures], row of the outermost annotation around it, which engines name `capture_32_FULL`; −1.
        offsets: int64 [captures + 1], where the nodes of each begin.
        launch: int32 [nodes], row of the call that made the node.
        event: int8 [nodes], the `EventKind` of its work: KERNEL, MEMCPY or MEMSET.
        kernel: int32 [nodes], code of the kernel's name; −1 where the launch does not tell.
    """

    begin: Int64s
    end: Int64s
    span: Int32s
    offsets: Int64s
    launch: Int32s
    event: Int8s
    kernel: Int32s

    def __len__(self) -> int:
        return len(self.begin)


@derived
def captures(trace: Trace) -> Captures:
    """The captures of a trace; one whose end was not recorded is none.

    What any thread launches while one captures counts: the backward pass launches on threads of its own.
    """
    kinds = runtime_call_kinds(trace)
    begins, ends = (
        np.flatnonzero(kinds == kind) for kind in (RuntimeCallKind.BEGIN_CAPTURE, RuntimeCallKind.END_CAPTURE)
    )
    begins, ends = (rows[np.argsort(trace.start[rows], kind="stable")] for rows in (begins, ends))
    begin, end = trace.end[begins], trace.start[ends]
    until = np.searchsorted(end, begin)
    following = np.append(begin[1:], np.iinfo(np.int64).max)
    whole = until < len(end)
    whole[whole] &= end[until[whole]] <= following[whole]
    begins, begin, end = begins[whole], begin[whole], end[until[whole]]
    launch = np.flatnonzero(any_of(kinds, NODE_CALLS)).astype(np.int32)
    launch = launch[np.argsort(trace.start[launch], kind="stable")]
    low, high = np.searchsorted(trace.start[launch], begin), np.searchsorted(trace.start[launch], end)
    sizes = high - low
    nodes = np.concatenate([launch[:0], *(launch[a:b] for a, b in zip(low.tolist(), high.tolist(), strict=True))])
    event = np.full(len(nodes), EventKind.KERNEL, np.int8)
    event[any_of(kinds[nodes], (RuntimeCallKind.COPY, RuntimeCallKind.COPY_AND_WAIT))] = EventKind.MEMCPY
    event[kinds[nodes] == RuntimeCallKind.SET] = EventKind.MEMSET
    return Captures(
        begin=begin,
        end=end,
        span=_outermost_annotations(trace, begins),
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        launch=nodes,
        event=event,
        kernel=trace.codes_of(KERNEL_ARGUMENT, nodes).astype(np.int32),
    )


def _outermost_annotations(trace: Trace, rows: Int64s) -> Int32s:
    """The outermost annotation that each of a few calls lies in: int32 [rows], −1 for none."""
    parent, is_annotation = call_tree(trace).parent, trace.kind == EventKind.ANNOTATION
    outermost = np.full(len(rows), -1, np.int32)
    for place, row in enumerate(rows.tolist()):
        while row >= 0:
            if is_annotation[row]:
                outermost[place] = row
            row = int(parent[row])
    return outermost
