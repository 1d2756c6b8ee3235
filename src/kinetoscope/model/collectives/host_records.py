"""Records of a collective: its work or its span, and the calls on the host that describe it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.grouping import group, reduce_by
from kinetoscope.algorithms.trees import tree
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import RANGE_KINDS
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import COMMUNICATION_RECORD, WorkKind, is_collective_kernel
from kinetoscope.model.trace.names import rows_beginning
from kinetoscope.model.trace.trace import Trace

HOST_LIBRARIES: Final = ("gloo:", "ucc:", "mpi:")
"""Prefixes of spans that are the collective itself, not a call that launches it."""

_LIBRARIES: Final = ("nccl:", "xccl:", "hccl:", "rccl:", *HOST_LIBRARIES)
KERNEL_OPERATORS: Final = ("symm_mem::", "_C_custom_ar::")
"""Prefixes of operators, torch's and vLLM's, whose kernels are the collective, over memory that all devices map."""

_OPERATORS: Final = ("c10d::", *KERNEL_OPERATORS)
_NO_CODE: Final = -1


@dataclass(frozen=True)
class Records:
    """Collectives and the rows that describe them: int32 [calls] each, −1 for none.

    Attributes:
        row: the work or the span; it may carry the arguments of a collective itself.
        launch: the call of the runtime.
        parameters: `record_param_comms`.
        span: the library's annotation.
        operator: the operator of `c10d`.
        device, stream: int64 [calls], −1 for none.
        start, end: int64 [calls], ns.
    """

    row: Int32s
    launch: Int32s
    parameters: Int32s
    span: Int32s
    operator: Int32s
    device: Int64s
    stream: Int64s
    start: Int64s
    end: Int64s

    def integers(self, trace: Trace, name: str) -> Int64s:
        """An argument of the work, else of the call on the host, where it is a count; else −1."""
        own = arguments.integers(trace, name, self.row)
        called = np.where(
            self.parameters >= 0, arguments.integers(trace, name, np.maximum(self.parameters, 0)), _NO_CODE
        )
        return np.where(own >= 0, own, called)

    def codes(self, trace: Trace, name: str) -> Int64s:
        """String codes of an argument of the work, else of the call on the host; else −1."""
        own = arguments.codes(trace, name, self.row)
        called = np.where(self.parameters >= 0, arguments.codes(trace, name, np.maximum(self.parameters, 0)), _NO_CODE)
        return np.where(own >= 0, own, called)


def on_device(trace: Trace) -> Records | None:
    """Work on devices; None if there is none."""
    work = device_work(trace)
    mine = np.flatnonzero(work.of(WorkKind.COMMUNICATION))
    if not len(mine):
        return None
    anchor = np.where(work.launch[mine] >= 0, work.launch[mine], work.op[mine])
    parent = call_tree(trace).parent
    around = [
        _above(tree.ancestor(parent, rows_beginning(trace, names, *RANGE_KINDS)), anchor)
        for names in ((COMMUNICATION_RECORD,), _LIBRARIES, _OPERATORS)
    ]
    kept = _proper(trace, work.rows[mine], around, work.op[mine])
    mine, anchor = mine[kept], anchor[kept]
    parameters, span, operator = (each[kept] for each in around)
    # A call may launch several kernels on a device; a replayed graph launches those of many calls.
    alone = np.arange(len(mine), dtype=np.int64) + len(trace)
    codes, _ = group(np.where(parameters >= 0, parameters, alone), work.device[mine])
    count = int(codes.max()) + 1
    order = np.lexsort((work.rows[mine], work.start[mine], codes))
    first = order[np.searchsorted(codes[order], np.arange(count))]
    chosen = mine[first]
    return Records(
        row=work.rows[chosen],
        launch=work.launch[chosen],
        parameters=parameters[first],
        span=span[first],
        operator=operator[first],
        device=work.device[chosen],
        stream=work.stream[chosen],
        start=reduce_by(codes, count, work.start[mine]).least,
        end=reduce_by(codes, count, work.end[mine]).greatest,
    )


def on_host(trace: Trace) -> Records | None:
    """Spans of libraries on the host; None if there are none."""
    rows = np.flatnonzero(rows_beginning(trace, HOST_LIBRARIES, *RANGE_KINDS)).astype(np.int32)
    if not len(rows):
        return None
    none = np.full(len(rows), _NO_CODE, np.int32)
    operator = _above(tree.ancestor(call_tree(trace).parent, rows_beginning(trace, _OPERATORS, *RANGE_KINDS)), rows)
    return Records(
        row=rows,
        launch=none,
        parameters=none,
        span=rows,
        operator=operator,
        device=none.astype(np.int64),
        stream=none.astype(np.int64),
        start=trace.start[rows],
        end=np.maximum(trace.end[rows], trace.start[rows]),
    )


def _above(ancestor: Int32s, rows: Int32s) -> Int32s:
    return np.where(rows >= 0, ancestor[rows], np.int32(_NO_CODE))


def _proper(trace: Trace, rows: Int32s, around: list[Int32s], op: Int32s) -> Bools:
    """True where work is the collective itself: beside a kernel of the library, its call may launch copies."""
    names = trace.name[rows]
    of_library = [
        code for code in np.unique(names[names >= 0]).tolist() if is_collective_kernel(trace.strings.glance(code))
    ]
    itself = np.isin(names, of_library) | (arguments.codes(trace, "collective", rows) >= 0)
    call = np.where(around[0] >= 0, around[0], op)
    return np.asarray(itself | ~np.isin(call, call[itself & (call >= 0)]))
