"""DEVICE001: matrix products and convolutions are computed in FP32 or TF32 though the device has 16 bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.optimizers import optimizer_steps
from kinetoscope.advisor.evidence.source_location import launched_in
from kinetoscope.advisor.evidence.stakes import is_worth_reporting, stake_by_time, unblocked_launches
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import quoted, share
from kinetoscope.algorithms.arrays import Bools, Floats
from kinetoscope.algorithms.intervals.intervals import intersection, union
from kinetoscope.model.device.hardware import devices
from kinetoscope.model.device.peaks import Peak, known_peaks
from kinetoscope.model.roofline.precision import FP32, TF32
from kinetoscope.model.roofline.rates import FlopRates, flop_rates
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.names import rows_containing

_CAPABLE: Final = (7, 0)
"""Compute capability from which on NVIDIA's devices have tensor cores."""

_MIN_STEP_SHARE: Final = 0.03
"""Share of the steps' time from which on such products matter."""

_BEST_PEAK_SHARE: Final = 0.8
"""Share of the peak that the best kernels reach."""

_LOW_PEAK_SHARE: Final = 0.3
"""Share of the peak that every kernel reaches, of the memory's bandwidth twice as much."""

_LARGE_PEAK_SHARE: Final = 0.6
_LARGE_FLOP: Final = 2e9
"""Share of the peak that products of so many operations reach in any case."""

_MIN_KERNEL_NS: Final = 4_000
"""No kernel is shorter than this."""

_BY_NAME: Final = (0.4, 1 / 8)
"""What is left of the time of a product at most and at least, where no shapes were recorded."""

_OTHER_TIME_LEFT: Final = 0.5
_FEW_BYTES_TIME_LEFT: Final = 0.3
"""The same at least of other kernels outside the optimizer, which move half as many bytes with 16 bits, where there is
no TF32 and products take more than this share of the step: then all of the model is to change."""

_MIN_TF32_SHARE: Final = 0.1
"""Share of the steps' time from which on products in TF32 are reported."""

_TF32_TIME_LEFT: Final = (0.8, 0.4)
"""Share of the time that such a product takes in BF16 at most, its casts included, and at least."""

_WORDS: Final = ("sgemm", "scudnn", "_ffma_", "_simt_s", "gemmSN_", "implicit_convolve_sgemm")
"""What the names of kernels hold that compute products in plain FP32 (cuBLAS, cuDNN, CUTLASS)."""


def matrix_units_unused(rank: RankView) -> Iterator[Finding]:
    """Are products computed in FP32 or TF32 on a device that has tensor cores?

    What it checks. Matrix products, convolutions and attention with FP32 elements whose kernels, by their names, do not
    use tensor cores, on NVIDIA devices of compute capability 7.0 and above. Where shapes were not recorded, only
    kernels whose names say so (`sgemm`, `scudnn`). Kernels with ambiguous names are left out.

    Why it matters. Tensor cores multiply matrices in 16 bits 8 to 16 times as fast as plain units do in FP32; from
    Ampere on they are 8 times as fast in TF32, which needs one line. At most, the steps gain if each product runs at 80
    % of the peak in 16 bits, or at the memory's bandwidth. Sure is the gain at 30 % of the peak in TF32 (without TF32:
    in FP16, large products at 60 %) and 60 % of the bandwidth. Without TF32 other kernels may gain, too: 16 bits halve
    the bytes that they move. Products in TF32 are reported, too, as a note, since 16 bits change the numbers: they take
    40 to 80 % of their time in BF16 (casts included), and at most, other kernels but the optimizer's half of theirs.

    What to do. Allow TF32, or train in BF16 with autocast (FP16 and a gradient scaler before Ampere).
    """
    numbers = [each.number for each in devices(rank.trace) if (each.capability or (0, 0)) >= _CAPABLE
               and "AMD" not in each.name]  # fmt: skip
    if not rank.has_device or not rank.step_count or not numbers:
        return
    rates = flop_rates(rank.scope)
    yield from _in_tf32(rank, rates)
    at_most, at_least = _left(rank, rates, numbers)
    concerned = at_least < 1
    spans = intersection(union(rank.work.start[concerned], rank.work.end[concerned]), rank.time)
    if spans.length < _MIN_STEP_SHARE * rank.time.length:
        return
    has_tf32 = _has_tf32(rank, numbers)
    low, high = unblocked_launches(rank), unblocked_launches(rank)
    others = rank.work.of(WorkKind.COMPUTATION) & ~launched_in(rank.trace, optimizer_steps(rank.trace).inside)
    others &= ~concerned & (not has_tf32 and spans.length > _FEW_BYTES_TIME_LEFT * rank.time.length)
    low.work[:], high.work[:] = at_most, np.where(others, _OTHER_TIME_LEFT, at_least)
    stake = stake_by_time(rank, rank.gains(low), rank.gains(high), spans)
    if not is_worth_reporting(rank, stake):
        return
    work = np.flatnonzero(concerned)
    longest = int(work[np.argmax(rank.work.duration[work])])
    row = int(rank.work.rows[longest])
    name = rank.trace.strings.glance(int(rank.trace.name[row]))
    yield Finding(
        message="Matrix products run in FP32 without tensor cores. They take"
        f" {share(spans.length, rank.time.length)} of the step, in kernels such as {quoted(name)}.",
        stake=stake,
        change='+ torch.set_float32_matmul_precision("high")  # TF32; and torch.backends.cudnn.allow_tf32 = True\n'
        '+ with torch.autocast("cuda", dtype=torch.bfloat16): ...  # or BF16'
        if has_tf32
        else '+ with torch.autocast("cuda", dtype=torch.float16): ...  # and torch.amp.GradScaler()',
        why="Each product takes the time that it needs on tensor cores, at 80 % of the peak in"
        f" 16 bits, surely at 30 % of that in {'TF32' if has_tf32 else 'FP16'}; where sizes were not recorded"
        " (record_shapes=True), with 12 to 40 % of its time.",
        confidence="medium",
        evidence=(rank.event(row, "the longest such kernel", "kernels"),),
        time=spans,
    )  # fmt: skip


def _in_tf32(rank: RankView, rates: FlopRates) -> Iterator[Finding]:
    """Products on tensor cores in TF32, which 16 bits make up to twice as fast."""
    calls = rates.place[(rates.precision == TF32) & rates.ran & (rates.flop > 0)]
    is_product = np.zeros(len(rates.counts) + 1, np.bool_)
    is_product[calls] = True
    kernels = rates.work & rank.work.of(WorkKind.COMPUTATION)
    named = rows_containing(rank.trace, ("tf32", "TF32"), EventKind.KERNEL)
    mine = kernels & (is_product[rates.counts.call] | named[rank.work.rows])
    spans = intersection(union(rank.work.start[mine], rank.work.end[mine]), rank.time)
    if spans.length < _MIN_TF32_SHARE * rank.time.length:
        return
    others = kernels & ~mine & ~launched_in(rank.trace, optimizer_steps(rank.trace).inside)
    low, high = unblocked_launches(rank), unblocked_launches(rank)
    low.work[mine], high.work[mine] = _TF32_TIME_LEFT
    high.work[others] = _OTHER_TIME_LEFT
    stake = stake_by_time(rank, rank.gains(low), rank.gains(high), spans)
    if not is_worth_reporting(rank, stake):
        return
    longest = int(np.flatnonzero(mine)[np.argmax(rank.work.duration[mine])])
    row = int(rank.work.rows[longest])
    name = rank.trace.strings.glance(int(rank.trace.name[row]))
    trains = rank.program == "training"
    yield Finding(
        message="Matrix products run in TF32, where BF16 is up to twice as fast. They take"
        f" {share(spans.length, rank.time.length)} of the step, in kernels such as {quoted(name)}.",
        stake=stake,
        change='+ with torch.autocast("cuda", dtype=torch.bfloat16): ...'
        + ("  # forward pass and loss" if trains else ""),
        why="Products take 40 to 80 % of their time; at most, other kernels move half as many bytes. Weights are"
        f" rounded to 8 bits of mantissa: compare the {'loss' if trains else 'outputs'}.",
        confidence="medium",
        evidence=(rank.event(row, "the longest such kernel", "kernels"),),
        time=spans,
        key="TF32",
        at_most="note",
    )


def _has_tf32(rank: RankView, numbers: list[int]) -> bool:
    return any((each.capability or (0, 0)) >= (8, 0) for each in devices(rank.trace) if each.number in numbers)


def _left(rank: RankView, rates: FlopRates, numbers: list[int]) -> tuple[Floats, Floats]:
    """What is left of the time of each piece of work at most and at least: float64 [work] each."""
    slow = np.flatnonzero((rates.precision == FP32) & rates.ran & np.isin(rates.device, numbers) & (rates.flop > 0))
    slow = slow[rates.device_time[slow] > 0]
    sizes = np.array([each.bytes or 0.0 for each in rates.counts.variants], np.float64)[rates.variant[slow]]
    keep = np.ones((2, len(rates.counts) + 1))
    for number in np.unique(rates.device[slow]).tolist():
        peak = known_peaks(rank.trace, number).peak
        here = rates.device[slow] == number
        calls = slow[here]
        time = rates.device_time[calls].astype(np.float64)
        at_most, at_least = _times(peak, rates.flop[calls], sizes[here], time)
        keep[0, rates.place[calls]] = np.minimum(at_most / time, 1)
        keep[1, rates.place[calls]] = np.minimum(at_least / time, 1)
    chosen = (rates.counts.call >= 0) & rank.work.of(WorkKind.COMPUTATION) & rates.work
    of_call = keep[:, np.where(chosen, rates.counts.call, -1)]
    named = _named(rank, numbers) & (rates.counts.call < 0)
    return np.where(named, _BY_NAME[0], of_call[0]), np.where(named, _BY_NAME[1], of_call[1])


def _times(peak: Peak | None, flop: Floats, size: Floats, time: Floats) -> tuple[Floats, Floats]:
    """What calls take on tensor cores at most and at least, ns. `size`: bytes in FP32."""
    half = (peak.flops("fp16") or peak.flops("bf16")) if peak is not None else None
    if peak is None or half is None:
        return time * _BY_NAME[0], time * _BY_NAME[1]
    tf32 = peak.flops("tf32")
    bandwidth = (peak.bandwidth or 1e12) / 1e9  # bytes a ns
    reached = np.where(flop >= _LARGE_FLOP, _LARGE_PEAK_SHARE, _LOW_PEAK_SHARE)
    moved = size * (1.0 if tf32 else 0.5)
    sure = np.maximum(flop / (reached * (tf32 or half)) * 1e9, moved / (2 * _LOW_PEAK_SHARE * bandwidth))
    best = np.maximum(flop / (_BEST_PEAK_SHARE * half) * 1e9, size * 0.5 / bandwidth)
    return np.maximum(sure, _MIN_KERNEL_NS), np.maximum(best, _MIN_KERNEL_NS / 2)


def _named(rank: RankView, numbers: list[int]) -> Bools:
    """Work that computes products in plain FP32 by its name: bool [work]."""
    named = rows_containing(rank.trace, _WORDS, EventKind.KERNEL)
    return np.asarray(named[rank.work.rows] & rank.scope.device_work_mask & np.isin(rank.work.device, numbers))


RULE = Rule("DEVICE001", "Tensor cores are not used, or not in 16 bits", of_rank=matrix_units_unused)
