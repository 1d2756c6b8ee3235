"""What the counted calls were computed in: the precision of their elements, or TF32 instead of FP32."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int8s, Int32s
from kinetoscope.algorithms.grouping import reduce_by
from kinetoscope.model.device.peaks import PRECISIONS
from kinetoscope.model.device.tensor_cores import matrix_unit
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.flops.counts import FlopCounts
from kinetoscope.model.trace.element_types import ElementType
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.model.trace.trace import Trace

UNTOLD: Final = -1
FP32: Final = PRECISIONS.index("fp32")
TF32: Final = PRECISIONS.index("tf32")

_TF32: Final = re.compile(r"tf32|xf32", re.IGNORECASE)


def precisions(trace: Trace, counts: FlopCounts, *, amd: bool) -> Int8s:
    """What each counted call was computed in: int8 [calls], places in `device_peaks.PRECISIONS`, UNTOLD: nothing tells.

    FP32 may be computed in TF32, if the user allows it. Matrix units take FP32 as TF32 on NVIDIA's devices, and as such
    on AMD's; so a kernel that uses them tells, by its name, else the longest kernel that it does not. A call without
    recorded kernels is like those of the same shapes, if these agree.
    """
    of_variant = np.array([_precision(each.type) for each in counts.variants], np.int8)
    result = of_variant[counts.variant] if len(of_variant) else np.zeros(0, np.int8)
    is_fp32 = result == FP32
    work = device_work(trace)
    kernels = np.flatnonzero((counts.call >= 0) & work.of(WorkKind.COMPUTATION))
    kernels = kernels[is_fp32[counts.call[kernels]]]
    call, said = counts.call[kernels], _said(trace, trace.name[work.rows[kernels]], amd=amd)
    order = np.lexsort((-kernels, work.duration[kernels], said == TF32))
    result[call[order]] = said[order]  # of several writes the last one stays
    told = np.zeros(len(counts), np.bool_)
    told[call] = True
    alike = reduce_by(np.where(told, counts.variant, -1).astype(np.int32), len(of_variant), result.astype(np.int64))
    agreed = np.where((alike.rows > 0) & (alike.least == alike.greatest), alike.least, of_variant)
    return np.where(told | ~is_fp32, result, agreed[counts.variant]).astype(np.int8) if len(agreed) else result


def longest_kernels(counts: FlopCounts, work: DeviceWork) -> Int32s:
    """The longest computation kernel of each counted call: int32 [calls], places in `work`, −1 for none."""
    chosen = np.flatnonzero((counts.call >= 0) & work.of(WorkKind.COMPUTATION))
    order = chosen[np.lexsort((-chosen, work.duration[chosen]))]
    longest = np.full(len(counts), -1, np.int32)
    longest[counts.call[order]] = order
    return longest


def _precision(kind: ElementType | None) -> int:
    return PRECISIONS.index(kind.precision) if kind is not None and kind.precision else UNTOLD


def _said(trace: Trace, names: Int32s, *, amd: bool) -> Int8s:
    """What the names of kernels of FP32 say: int8, one for each."""
    distinct, places = np.unique(names, return_inverse=True)
    return np.array([_of_kernel(label, amd=amd) for label in trace.strings.labels(distinct.tolist())], np.int8)[places]


def _of_kernel(name: str, *, amd: bool) -> int:
    if _TF32.search(name):
        return TF32
    if amd:
        return FP32
    return {"yes": TF32, "no": FP32}.get(matrix_unit(name), UNTOLD)
