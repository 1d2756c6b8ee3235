"""Facts of launches where arguments tell none: blocks, estimates of the compiler, gradients that are accumulated."""

from __future__ import annotations

from math import gcd, prod
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s, scattered
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.roofline.formulas.arguments import CHUNK_ELEMENTS, Gradients, arguments_of
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace

_ACCUMULATION: Final = "torch::autograd::AccumulateGrad"
"""The node of the backward pass that adds to the gradient of a parameter."""

MAX_GIGABYTES: Final = 1e9
MAX_OPERATIONS: Final = 1e18
"""Of a kernel; greater estimates are wrong."""


def blocks_and_launches(trace: Trace, owner: Int32s, kernel: Int64s, rows: Int32s) -> tuple[Int64s, Int64s]:
    """The blocks of the kernels of one name that each call launched, and how many these are: int64 [rows] each.

    owner: int32 [work], the row of the call that launched each piece, −1 for others; kernel: int64 [rows], the code of
    the name of the kernels that count.
    """
    work = device_work(trace)
    name = scattered(len(trace) + 1, rows, kernel, np.int64)
    chosen = np.flatnonzero((owner >= 0) & (trace.name[work.rows] == name[owner]))
    of_work = blocks_of_kernels(trace, work.rows[chosen])
    blocks = np.bincount(owner[chosen], of_work, minlength=len(trace))[rows].astype(np.int64)
    return blocks, np.bincount(owner[chosen], minlength=len(trace))[rows]


def blocks_of_kernels(trace: Trace, rows: Int32s) -> Int64s:
    """Blocks of some kernels: int64 [rows], 0 where the grid was not recorded."""
    codes, place = np.unique(arguments.codes(trace, "grid", rows), return_inverse=True)
    sizes = np.array([_blocks(trace, code) for code in codes.tolist()], np.int64)
    return sizes[place] if len(sizes) else np.zeros(0, np.int64)


def _blocks(trace: Trace, code: int) -> int:
    """Blocks of a grid such as `[32, 1, 1]`; 0 where it was not recorded or is none."""
    sizes = trace.strings.nested(code) if code >= 0 else None
    if not isinstance(sizes, list) or not all(isinstance(size, int) and 0 < size < 1 << 31 for size in sizes):
        return 0
    return min(prod(sizes), 1 << 40) if len(sizes) == 3 else 0


@derived
def accumulated_gradients(trace: Trace) -> Gradients | None:
    """The gradients that the trace accumulates, all passes together; None where it has none, or not their shapes."""
    rows = np.flatnonzero(rows_named(trace, _ACCUMULATION.__eq__, EventKind.HOST_OP)).astype(np.int32)
    codes, counts = np.unique(arguments.codes(trace, "input_dims", rows), return_counts=True)
    if not len(codes) or codes[0] < 0:
        return None
    elements = [prod(arguments_of(trace.strings.nested(code)).shape(0)) for code in codes.tolist()]
    return Gradients(
        elements=sum(count * each for count, each in zip(counts.tolist(), elements, strict=True)),
        chunks=sum(count * -(-each // CHUNK_ELEMENTS) for count, each in zip(counts.tolist(), elements, strict=True)),
        repeats=gcd(*counts.tolist()),
    )


def estimates(trace: Trace, rows: Int32s) -> tuple[Int64s, Int64s]:
    """The operations and bytes that the compiler estimated for some calls: int64 [rows] each, −1 where it did not."""
    flop, moved = (arguments.floats(trace, name, rows) for name in ("kernel_flop", "kernel_gigabytes"))
    is_given = (moved >= 0) & (moved < MAX_GIGABYTES)
    is_counted = is_given & (flop >= 0) & (flop < MAX_OPERATIONS)
    operations = np.where(is_given, np.where(is_counted, flop, 0), -1).astype(np.int64)
    return operations, np.where(is_given, np.round(np.where(is_given, moved, 0) * 1e9), -1).astype(np.int64)
