"""Precision of the counted calls: that of their elements, or TF32 instead of FP32."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int8s, Int32s, marked, scattered
from kinetoscope.algorithms.grouping import reduce_by
from kinetoscope.model.device.hardware import is_rocm
from kinetoscope.model.device.peaks import PRECISIONS, known_peaks
from kinetoscope.model.device.tensor_cores import matrix_unit
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.roofline.calls import CostedCalls, costed_calls
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.model.trace.trace import Trace

UNKNOWN_PRECISION: Final = -1
FP32: Final = PRECISIONS.index("fp32")
TF32: Final = PRECISIONS.index("tf32")

_TF32: Final = re.compile(r"tf32|xf32", re.IGNORECASE)

THREE_TF32: Final = re.compile(r"fmha_cutlass[FB]_f32_\w*_sm(?:[89]|1\d)\d")
"""Memory-efficient attention in FP32 from Ampere on: PyTorch's `DefaultGemmType` has CUTLASS multiply by three products
in TF32 each (`OpMultiplyAddFastF32`), as accurate as FP32. No peak is that of such products."""


@derived
def call_precisions(trace: Trace) -> Int8s:
    """The precision of each counted call: int8 [calls], places in `peaks.PRECISIONS`, or UNKNOWN_PRECISION.

    FP32 may be computed in TF32, if the user allows it. Matrix units compute FP32 as TF32 on NVIDIA's devices, and as
    such on AMD's: so the name of a kernel that uses them decides, else that of the longest kernel. A call without
    recorded kernels is like those of the same shapes, if these agree. On a device that has no TF32, FP32 is FP32
    whatever the names of its kernels leave open. That of FP32 by three products in TF32 is unknown.
    """
    counts = costed_calls(trace)
    amd = is_rocm(trace)
    names = (each.cost.precision or (each.type.precision if each.type is not None else "") for each in counts.variants)
    of_variant = np.array([PRECISIONS.index(name) if name else UNKNOWN_PRECISION for name in names], np.int8)
    result = _with_tf32(trace, counts, of_variant, amd=amd)
    longest = longest_kernels(counts, device_work(trace))
    device = np.where(longest >= 0, np.append(device_work(trace).device, -1)[longest], -1)
    may_be = (of_variant == FP32)[counts.variant] if len(of_variant) else np.zeros(0, np.bool_)
    for number in np.unique(device[device >= 0]).tolist():
        known = known_peaks(trace, number).peak
        if known is not None and known.flops("tf32") is None:
            result[(device == number) & may_be] = FP32
    return result


def _with_tf32(trace: Trace, counts: CostedCalls, of_variant: Int8s, *, amd: bool) -> Int8s:
    """The precision of each call by that of its variant, and by the names of its kernels."""
    result = of_variant[counts.variant] if len(of_variant) else np.zeros(0, np.int8)
    is_fp32 = result == FP32
    work = device_work(trace)
    kernels = np.flatnonzero((counts.call >= 0) & work.of(WorkKind.COMPUTATION))
    kernels = kernels[is_fp32[counts.call[kernels]]]
    call, by_name = counts.call[kernels], _by_name(trace, trace.name[work.rows[kernels]], amd=amd)
    order = np.lexsort((-kernels, work.duration[kernels], by_name == TF32))
    result[call[order]] = by_name[order]  # of several writes the last one stays
    is_known = marked(len(counts), call)
    of_equals = reduce_by(
        np.where(is_known, counts.variant, -1).astype(np.int32), len(of_variant), result.astype(np.int64)
    )
    agreed = np.where((of_equals.rows > 0) & (of_equals.least == of_equals.greatest), of_equals.least, of_variant)
    return np.where(is_known | ~is_fp32, result, agreed[counts.variant]).astype(np.int8) if len(agreed) else result


def longest_kernels(counts: CostedCalls, work: DeviceWork) -> Int32s:
    """The longest computation kernel of each counted call: int32 [calls], places in `work`, −1 for none."""
    chosen = np.flatnonzero((counts.call >= 0) & work.of(WorkKind.COMPUTATION))
    order = chosen[np.lexsort((-chosen, work.duration[chosen]))]
    return scattered(len(counts), counts.call[order], order, np.int32)


def _by_name(trace: Trace, names: Int32s, *, amd: bool) -> Int8s:
    """The precision of kernels of FP32 by their names: int8, one for each."""
    distinct, places = np.unique(names, return_inverse=True)
    return np.array([_of_kernel(label, amd=amd) for label in trace.strings.labels(distinct.tolist())], np.int8)[places]


def _of_kernel(name: str, *, amd: bool) -> int:
    if THREE_TF32.search(name):
        return UNKNOWN_PRECISION
    if _TF32.search(name):
        return TF32
    if amd:
        return FP32
    return {"yes": TF32, "no": FP32}.get(matrix_unit(name), UNKNOWN_PRECISION)
