"""DEVICE001: matrix products and convolutions are computed in FP32 or TF32 though the device has 16 bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.limits import (
    KEPT_PEAK_SHARE,
    PRODUCTS_REACH,
    TRAFFIC_REACHES,
    left,
    peak_in,
    selected_units,
    time_of,
    with_work,
)
from kinetoscope.advisor.evidence.optimizers import optimizer_steps
from kinetoscope.advisor.evidence.stakes import is_worth_reporting, stake_by_time
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import quoted, share
from kinetoscope.algorithms.arrays import Bools, Floats
from kinetoscope.algorithms.intervals.intervals import intersection, union
from kinetoscope.model.device.hardware import devices, is_rocm
from kinetoscope.model.execution.device_work import launched_by
from kinetoscope.model.roofline.floors import Floors, floors
from kinetoscope.model.roofline.precision import FP32, TF32
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.names import rows_containing

_CAPABLE: Final = (7, 0)
"""Compute capability from which on NVIDIA's devices have tensor cores."""

_MIN_STEP_SHARE: Final = 0.03
"""Share of the steps' time from which on such products matter."""

_BY_NAME: Final = (0.4, 1 / 8)
"""What is left of the time of a product at most and at least, where no shapes were recorded."""

_OTHER_TIME_LEFT: Final = 0.5
_FEW_BYTES_TIME_LEFT: Final = 0.3
"""The same at least of other kernels outside the optimizer, which move half as many bytes with 16 bits, where products
take more than this share of the step: then all of the model may change."""

_MIN_TF32_SHARE: Final = 0.1
"""Share of the steps' time from which on products in TF32 are reported."""

_TF32_BY_NAME: Final = (0.8, 0.4)
"""What is left of a product in TF32 where no shapes were recorded."""

_CASTS: Final = 0.5
"""What autocast's copies move for each byte of a product: 6 bytes an element of input, weight and their gradients."""

_WORDS: Final = ("sgemm", "scudnn", "_ffma_", "_simt_s", "gemmSN_", "implicit_convolve_sgemm")
"""What the names of kernels hold that compute products in plain FP32 (cuBLAS, cuDNN, CUTLASS)."""


def matrix_units_unused(rank: RankView) -> Iterator[Finding]:
    """Are products computed in FP32 or TF32 on a device that has tensor cores?

    What it checks. Matrix products, convolutions and attention with FP32 elements whose kernels, by their names, do not
    use tensor cores, on NVIDIA devices of compute capability 7.0 and above. Where shapes were not recorded, only
    kernels whose names say so (`sgemm`, `scudnn`). Kernels with ambiguous names are left out.

    Why it matters. Tensor cores multiply matrices in 16 bits 8 to 16 times as fast as plain units do in FP32; from
    Ampere on they are 8 times as fast in TF32, which needs one line. At most, each product takes its floor in 16 bits,
    and other kernels but the optimizer's half of their time, as they move half the bytes. Sure is the gain at half of
    the peak in TF32 (without TF32: in FP16) and 70 % of the bandwidth, which cuBLAS and cuDNN exceed. Products in TF32
    are reported, too, as a note, since 16 bits change the numbers: for sure they keep 85 % of the share of the peak
    that they reach now, and the casts take their time, too.

    What to do. Allow TF32, or train in BF16 with autocast (FP16 and a gradient scaler before Ampere).
    """
    numbers = [each.number for each in devices(rank.trace) if (each.capability or (0, 0)) >= _CAPABLE
               and not is_rocm(rank.trace)]  # fmt: skip
    if not rank.has_device or not rank.step_count or not numbers:
        return
    limits = floors(rank.trace)
    yield from _in_tf32(rank, limits)
    yield from _in_fp32(rank, limits, numbers)


def _in_fp32(rank: RankView, limits: Floors, numbers: list[int]) -> Iterator[Finding]:
    """Products on plain units."""
    has_tf32 = _has_tf32(rank, numbers)
    on_capable = np.isin(rank.work.device, numbers) & rank.scope.device_work_mask
    slow = selected_units(rank) & limits.among(on_capable) & (limits.precision == FP32) & (limits.flop > 0)
    named = rows_containing(rank.trace, _WORDS, EventKind.KERNEL)[rank.work.rows] & on_capable & rank.work.of(
        WorkKind.COMPUTATION) & (limits.call[limits.unit] < 0)  # fmt: skip
    concerned = slow[limits.unit] | named
    spans = intersection(union(rank.work.start[concerned], rank.work.end[concerned]), rank.time)
    if spans.length < _MIN_STEP_SHARE * rank.time.length:
        return
    sure = time_of(limits, peak_in(rank.trace, limits, "tf32" if has_tf32 else "fp16"),
                   limits.bytes * (1.0 if has_tf32 else 0.5), PRODUCTS_REACH, TRAFFIC_REACHES)  # fmt: skip
    best = time_of(limits, _half(rank, limits), limits.bytes / 2)
    at_most = np.where(named, _BY_NAME[0], left(limits, slow, _or_by_name(limits, sure, _BY_NAME[0])))
    at_least = np.where(named, _BY_NAME[1], left(limits, slow, _or_by_name(limits, best, _BY_NAME[1])))
    others = _others(rank, concerned) & (spans.length > _FEW_BYTES_TIME_LEFT * rank.time.length)
    at_least = np.where(others, _OTHER_TIME_LEFT, at_least)
    low, high = rank.gains(with_work(rank, at_most)), rank.gains(with_work(rank, at_least))
    stake = stake_by_time(rank, low, high, spans)
    if not is_worth_reporting(rank, stake):
        return
    row, name = _longest(rank, concerned)
    yield Finding(
        message="Matrix products run in FP32 without tensor cores. They take"
        f" {share(spans.length, rank.time.length)} of the step, in kernels such as {quoted(name)}.",
        stake=stake,
        change='+ torch.set_float32_matmul_precision("high")  # TF32; and torch.backends.cudnn.allow_tf32 = True\n'
        '+ with torch.autocast("cuda", dtype=torch.bfloat16): ...  # or BF16'
        if has_tf32
        else '+ with torch.autocast("cuda", dtype=torch.float16): ...  # and torch.amp.GradScaler()',
        why="At most, products take their floor in 16 bits, and other kernels half of their time; surely products reach"
        f" {PRODUCTS_REACH:.0%} of the peak in {'TF32' if has_tf32 else 'FP16'}. Where sizes were not recorded"
        " (record_shapes=True), 12 to 40 % of their time is left.",
        confidence="medium",
        evidence=(rank.event(row, "the longest such kernel", "kernels"),),
        time=spans,
    )  # fmt: skip


def _in_tf32(rank: RankView, limits: Floors) -> Iterator[Finding]:
    """Products on tensor cores in TF32, which 16 bits make up to twice as fast."""
    slow = selected_units(rank) & (limits.precision == TF32) & (limits.flop > 0)
    named = rows_containing(rank.trace, ("tf32", "TF32"), EventKind.KERNEL)[rank.work.rows]
    named &= rank.scope.device_work_mask & (limits.call[limits.unit] < 0)
    concerned = slow[limits.unit] | named
    spans = intersection(union(rank.work.start[concerned], rank.work.end[concerned]), rank.time)
    if spans.length < _MIN_TF32_SHARE * rank.time.length:
        return
    half = _half(rank, limits)
    casts = _CASTS * limits.bytes / (TRAFFIC_REACHES * limits.bandwidth) * 1e9
    sure = limits.time * limits.peak / half / KEPT_PEAK_SHARE + casts
    best = time_of(limits, half, limits.bytes / 2)
    at_most = np.where(named, _TF32_BY_NAME[0], left(limits, slow, _or_by_name(limits, sure, _TF32_BY_NAME[0])))
    at_least = np.where(named, _TF32_BY_NAME[1], left(limits, slow, _or_by_name(limits, best, _TF32_BY_NAME[1])))
    at_least = np.where(_others(rank, concerned), _OTHER_TIME_LEFT, at_least)
    low, high = rank.gains(with_work(rank, at_most)), rank.gains(with_work(rank, at_least))
    stake = stake_by_time(rank, low, high, spans)
    if not is_worth_reporting(rank, stake):
        return
    row, name = _longest(rank, concerned)
    trains = rank.program == "training"
    yield Finding(
        message="Matrix products run in TF32, where BF16 is up to twice as fast. They take"
        f" {share(spans.length, rank.time.length)} of the step, in kernels such as {quoted(name)}.",
        stake=stake,
        change='+ with torch.autocast("cuda", dtype=torch.bfloat16): ...'
        + ("  # forward pass and loss" if trains else ""),
        why="At most, products take their floor in BF16, and other kernels half of their time; surely products keep"
        f" {KEPT_PEAK_SHARE:.0%} of their share of the peak. Weights are rounded to 8 bits of mantissa: compare the"
        f" {'loss' if trains else 'outputs'}.",
        confidence="medium",
        evidence=(rank.event(row, "the longest such kernel", "kernels"),),
        time=spans,
        key="TF32",
        at_most="note",
    )  # fmt: skip


def _half(rank: RankView, limits: Floors) -> Floats:
    """The peak in 16 bits of each unit's device: float64 [units]."""
    return np.fmax(*(peak_in(rank.trace, limits, precision) for precision in ("fp16", "bf16")))


def _or_by_name(limits: Floors, time: Floats, share: float) -> Floats:
    """Times; where no peak is known, a share of the present one."""
    return np.where(np.isnan(time), share * limits.time, time)


def _others(rank: RankView, concerned: Bools) -> Bools:
    """Kernels that would move half as many bytes: all others but the optimizer's: bool [work]."""
    own = launched_by(rank.trace, optimizer_steps(rank.trace).inside)
    return rank.scope.device_work_mask & rank.work.of(WorkKind.COMPUTATION) & ~concerned & ~own


def _longest(rank: RankView, concerned: Bools) -> tuple[int, str]:
    """Row and name of the longest of some kernels."""
    work = np.flatnonzero(concerned)
    row = int(rank.work.rows[work[np.argmax(rank.work.duration[work])]])
    return row, rank.trace.strings.glance(int(rank.trace.name[row]))


def _has_tf32(rank: RankView, numbers: list[int]) -> bool:
    return any((each.capability or (0, 0)) >= (8, 0) for each in devices(rank.trace) if each.number in numbers)


RULE = Rule("DEVICE001", "Tensor cores are not used, or not in 16 bits", of_rank=matrix_units_unused)
