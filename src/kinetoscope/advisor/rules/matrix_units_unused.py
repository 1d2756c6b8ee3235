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
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import quoted, share
from kinetoscope.algorithms.arrays import Bools, Floats
from kinetoscope.algorithms.intervals.intervals import Intervals, intersection, merge, union
from kinetoscope.model.device.hardware import devices, is_rocm
from kinetoscope.model.device.peaks import known_peaks
from kinetoscope.model.execution.device_work import launched_by
from kinetoscope.model.execution.optimizers import optimizer_steps
from kinetoscope.model.roofline.floors import Floors, floors
from kinetoscope.model.roofline.precision import FP32, TF32, THREE_TF32
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.names import rows_containing, rows_named
from kinetoscope.views.sentences import EMPTY, Quantity, Sentence, say

_CAPABLE: Final = (7, 0)
"""Compute capability from which on NVIDIA's devices have tensor cores."""

_MIN_STEP_SHARE: Final = 0.03
"""Share of the steps' time from which on such products matter."""

_LEFT_BY_NAME: Final = (0.4, 1 / 8)
"""What is left of the time of a product at most and at least, where no shapes were recorded, of a device with tensor
cores as fast as they come; its own peaks may leave more."""

_SLOW_TF32: Final = ((8, 6), (8, 9), (12, 0), (12, 1))
"""Compute capabilities of devices that are as fast in FP32 as in TF32 (GeForce) or half as fast (workstations), and in
16 bits two or four times as fast: without a peak it is not known which (NVIDIA's whitepapers on GA102, Ada, Blackwell).
"""

_SLOW_TIME_LEFT: Final = {True: 1 / 2, False: 1 / 4}
"""What is left of a product on such a device at least: is it a GeForce?"""

_OTHER_TIME_LEFT: Final = 0.5
_FEW_BYTES_TIME_LEFT: Final = 0.3
"""The same at least of other kernels outside the optimizer, which move half as many bytes with 16 bits, where products
take more than this share of the step: then all of the model may change."""

_MIN_TF32_SHARE: Final = 0.1
"""Share of the steps' time from which on products in TF32 are reported."""

_TF32_BY_NAME: Final = (0.8, 0.4)
"""What is left of a product in TF32 where no shapes were recorded, at most and at least."""

_THREE_BY_NAME: Final = 1 / 6
"""The same at least of three products in TF32 in place of one in 16 bits, which is twice as fast as TF32."""

_CASTS: Final = 0.5
"""What autocast's copies move for each byte of a product: 6 bytes an element of input, weight and their gradients."""

_WORDS: Final = ("sgemm", "scudnn", "_ffma_", "_simt_s", "gemmSN_", "implicit_convolve_sgemm")
"""What the names of kernels hold that compute products in plain FP32 (cuBLAS, cuDNN, CUTLASS)."""

_TF32_WORDS: Final = ("tf32", "TF32")
"""The same of kernels that compute them in TF32."""


def matrix_units_unused(rank: RankView) -> Iterator[Finding]:
    """Are products computed in FP32 or TF32 on a device that has tensor cores?

    What it checks. Matrix products, convolutions and attention with FP32 elements whose kernels, by their names, do not
    use tensor cores, on NVIDIA devices of compute capability 7.0 and above. Where shapes were not recorded, only
    kernels whose names say so (`sgemm`, `scudnn`). Kernels with ambiguous names are left out.

    Why it matters. Tensor cores multiply matrices in 16 bits 8 to 16 times as fast as plain units do in FP32 on devices
    of data centres (V100, T4, A100, H100), twice on GeForce cards, four times on workstations'. TF32, which needs one
    line, is 8 times as fast as FP32 on A100 and H100, and not faster at all on GeForce cards. At most, each product
    takes its floor in 16 bits, and other kernels but the optimizer's half of their time, as they move half the bytes.
    At least it is the gain at half of the peak in TF32 (without TF32: in FP16) and 70 % of the bandwidth, which cuBLAS
    and cuDNN exceed. On a device whose peaks are not known nothing is gained for sure. Products in TF32 are reported,
    too, as a note, since 16 bits change the numbers: at least they keep 85 % of the share of the peak that they reach
    now, and the casts take their time, too. So is attention in FP32 by three products in TF32 each.

    What to do. Allow TF32 where it is faster, or train in BF16 with autocast (before Ampere: FP16, with a scaler).
    """
    numbers = [each.number for each in devices(rank.trace) if (each.capability or (0, 0)) >= _CAPABLE
               and not is_rocm(rank.trace)]  # fmt: skip
    if not numbers:
        return
    limits = floors(rank.trace)
    yield from _in_tf32(rank, limits, by_three=False)
    yield from _in_tf32(rank, limits, by_three=True)
    yield from _in_fp32(rank, limits, numbers)


def _in_fp32(rank: RankView, limits: Floors, numbers: list[int]) -> Iterator[Finding]:
    """Products on plain units."""
    on_capable = np.isin(rank.work.device, numbers) & rank.scope.device_work_mask
    slow = selected_units(rank) & limits.among(on_capable) & (limits.precision == FP32) & (limits.flop > 0)
    named = rows_containing(rank.trace, _WORDS, EventKind.KERNEL)[rank.work.rows] & on_capable & rank.work.of(
        WorkKind.COMPUTATION) & (limits.call[limits.unit] < 0)  # fmt: skip
    concerned = slow[limits.unit] | named
    spans = rank.work_time(concerned)
    if spans.length < _MIN_STEP_SHARE * rank.time.length:
        return
    has_tf32 = _has_tf32(rank, numbers)
    helps = has_tf32 and _tf32_helps(rank, numbers)
    by_name = _left_by_name(rank, numbers, "tf32" if has_tf32 else "fp16")
    of_unit = by_name[:, limits.longest]
    sure = time_of(limits, peak_in(rank.trace, limits, "tf32" if has_tf32 else "fp16"),
                   limits.bytes * (1.0 if has_tf32 else 0.5), PRODUCTS_REACH, TRAFFIC_REACHES)  # fmt: skip
    best = time_of(limits, _half(rank, limits), limits.bytes / 2)
    at_most = np.where(named, by_name[0], left(limits, slow, _or_by_name(limits, sure, of_unit[0])))
    at_least = np.where(named, by_name[1], left(limits, slow, _or_by_name(limits, best, of_unit[1])))
    tf32, by_three = _in_units(rank, limits, limits.precision == TF32, _TF32_WORDS), _by_three_products(rank)
    others = _others(rank, concerned | _long(rank, tf32) | _long(rank, by_three))  # those are other findings
    others &= spans.length > _FEW_BYTES_TIME_LEFT * rank.time.length
    at_least = np.where(others, _OTHER_TIME_LEFT, at_least)
    low, high, goes = with_work(rank, at_most), with_work(rank, at_least), merge(spans, _half_of(rank, others))
    saved = saving(rank, low, high, spans, took=goes.length, goes=goes)
    if saved is None:
        return
    row, name = _longest(rank, concerned)
    unknown = _without_peaks(rank, concerned)
    yield saved.finding(
        message=say(
            "Matrix products run in FP32 without tensor cores. They take {part} of the step, in kernels such as"
            " {kernel}.{beside}{limit}",
            part=share(spans.length, rank.time.length),
            kernel=quoted(name),
            beside=_beside(rank, others),
            limit=saved.limit(_goes(rank, concerned, at_least)),
        ),
        change=(
            ""
            if not helps
            else '+ torch.set_float32_matmul_precision("high")  # TF32; and torch.backends.cudnn.allow_tf32 = True\n'
        )
        + f'+ with torch.autocast("cuda", dtype=torch.bfloat16): ...{"  # or BF16" if helps else ""}'
        if has_tf32
        else '+ with torch.autocast("cuda", dtype=torch.float16): ...  # and torch.amp.GradScaler()',
        why=unknown
        or say(
            "At most, products take their floor in half precision, and other kernels half of their time; at least they"
            " reach half of the peak in TF32 (before Ampere: in FP16). Where sizes were not recorded"
            " (record_shapes=True), the ratio of the device's peaks counts."
        ),
        confidence="low" if unknown else "medium",
        evidence=rank.event(row, "the longest such kernel", "kernels"),
    )


def _in_tf32(rank: RankView, limits: Floors, *, by_three: bool) -> Iterator[Finding]:
    """Products on tensor cores in TF32, which 16 bits make faster; or FP32 by three of them."""
    of_three = _by_three_products(rank)
    if by_three:
        slow = selected_units(rank) & limits.among(of_three)
        named = of_three & rank.scope.device_work_mask & (limits.call[limits.unit] < 0)
    else:
        slow = selected_units(rank) & (limits.precision == TF32) & (limits.flop > 0)
        named = rows_containing(rank.trace, _TF32_WORDS, EventKind.KERNEL)[rank.work.rows]
        named &= rank.scope.device_work_mask & (limits.call[limits.unit] < 0)
    concerned = slow[limits.unit] | named
    spans = rank.work_time(concerned)
    if spans.length < _MIN_TF32_SHARE * rank.time.length:
        return
    half = _half(rank, limits)
    unknown = _without_peaks(rank, concerned)
    present = peak_in(rank.trace, limits, "tf32") / 3 if by_three else limits.peak
    casts = _CASTS * limits.bytes / (TRAFFIC_REACHES * limits.bandwidth) * 1e9
    sure = limits.time * present / half / KEPT_PEAK_SHARE + casts
    best = time_of(limits, half, limits.bytes / 2)
    most, least = (1.0 if unknown else _TF32_BY_NAME[0]), (_THREE_BY_NAME if by_three else _TF32_BY_NAME[1])
    at_most = np.where(named, most, left(limits, slow, _or_by_name(limits, sure, most)))
    at_least = np.where(named, least, left(limits, slow, _or_by_name(limits, best, least)))
    plain = _in_units(rank, limits, limits.flop > 0, (*_WORDS, *_TF32_WORDS)) | of_three
    others = _others(rank, concerned | plain)  # other products are other findings
    at_least = np.where(others, _OTHER_TIME_LEFT, at_least)
    low, high, goes = with_work(rank, at_most), with_work(rank, at_least), merge(spans, _half_of(rank, others))
    saved = saving(rank, low, high, spans, took=goes.length, goes=goes)
    if saved is None:
        return
    row, name = _longest(rank, concerned)
    trains = rank.program == "training"
    facts: dict[str, Quantity | str] = {
        "part": share(spans.length, rank.time.length),
        "kernel": quoted(name),
        "beside": _beside(rank, others),
        "limit": saved.limit(_goes(rank, concerned, at_least)),
    }
    yield saved.finding(
        message=say(
            "Attention computes in FP32, by three products in TF32 each. It takes {part} of the step, in kernels such"
            " as {kernel}.{beside}{limit}",
            **facts,
        )
        if by_three
        else say(
            "Matrix products run in TF32, where BF16 is up to twice as fast. They take {part} of the step, in kernels"
            " such as {kernel}.{beside}{limit}",
            **facts,
        ),
        change='+ with torch.autocast("cuda", dtype=torch.bfloat16): ...'
        + ("  # forward pass and loss" if trains else ""),
        why=unknown
        or say(
            "At most, products take their floor in BF16, and other kernels half of their time; at least, products keep"
            " {kept} of their share of the peak. Weights are rounded to fewer bits of mantissa: compare the"
            " {result}.",
            kept=share(KEPT_PEAK_SHARE, 1),
            result="loss" if trains else "outputs",
        ),
        confidence="low" if unknown else "medium",
        evidence=rank.event(row, "the longest such kernel", "kernels"),
        key="3xTF32" if by_three else "TF32",
        at_most="note",
    )


def _long(rank: RankView, work: Bools) -> Bools:
    """Work that is a finding of its own by the time that it takes in the selected steps, else none: bool [work]."""
    spans = rank.work_time(work)
    return work & (spans.length >= _MIN_TF32_SHARE * rank.time.length)


def _in_units(rank: RankView, limits: Floors, units: Bools, words: tuple[str, ...]) -> Bools:
    """Work of some units (bool [units]), and kernels whose names hold one of the words: bool [work]."""
    return units[limits.unit] | rows_containing(rank.trace, words, EventKind.KERNEL)[rank.work.rows]


def _half_of(rank: RankView, work: Bools) -> Intervals:
    """The second half of the time of some work, in the selected steps."""
    start, end = rank.work.start[work], rank.work.end[work]
    return intersection(union((start + end) // 2, end), rank.time)


def _beside(rank: RankView, others: Bools) -> Sentence:
    """A sentence on the time of other kernels that would move half the bytes, after others; "" for none."""
    time = rank.work_time(others)
    if not time.length:
        return EMPTY
    return say(" Others, of half the bytes then, take {others}.",
               others=share(time.length, rank.time.length))  # fmt: skip


def _by_three_products(rank: RankView) -> Bools:
    """Attention in FP32 by three products in TF32: bool [work]."""
    of_events = rows_named(
        rank.trace, lambda name: THREE_TF32.search(name) is not None, EventKind.KERNEL, holding=("fmha_cutlass",)
    )
    return of_events[rank.work.rows]


def _goes(rank: RankView, concerned: Bools, left: Floats) -> float:
    """Device time of some work that goes where a share of it is left (float64 [work]), ns."""
    return float((rank.work.duration * (1 - left))[concerned].sum())


def _without_peaks(rank: RankView, concerned: Bools) -> Sentence:
    """That the peaks of the devices of some work are not known; "" if that of any is."""
    numbers = np.unique(rank.work.device[concerned]).tolist()
    if not numbers or any(known_peaks(rank.trace, number).peak is not None for number in numbers):
        return EMPTY
    names = [each.name for each in devices(rank.trace) if each.number in numbers]
    return say(
        "The peaks of {device} are not known, so that nothing is gained for sure: `--peak` gives them.",
        device=quoted(next(iter(names), "the device")),
    )


def _left_by_name(rank: RankView, numbers: list[int], instead: str) -> Floats:
    """The share of a product that is left at most and at least, by the peaks of its device: float64 [2, work].

    At most it runs at half of the peak of `instead`; where no peak is known that is all of it.
    """
    result = np.stack([np.ones(len(rank.work)), np.full(len(rank.work), _LEFT_BY_NAME[1])])
    for device in devices(rank.trace):
        if device.number not in numbers:
            continue
        here, peak = rank.work.device == device.number, known_peaks(rank.trace, device.number).peak
        if peak is None:
            result[1, here] = (
                _SLOW_TIME_LEFT["GeForce" in device.name] if device.capability in _SLOW_TF32 else _LEFT_BY_NAME[1]
            )
            continue
        plain, other = peak.vector("fp32"), peak.flops(instead)
        best = max(filter(None, (peak.flops("fp16"), peak.flops("bf16"))), default=None)
        if plain and other:
            result[0, here] = min(max(_LEFT_BY_NAME[0], plain / (PRODUCTS_REACH * other)), 1.0)
        if plain and best:
            result[1, here] = max(_LEFT_BY_NAME[1], plain / best)
    return result


def _half(rank: RankView, limits: Floors) -> Floats:
    """The peak in 16 bits of each unit's device: float64 [units]."""
    return np.fmax(*(peak_in(rank.trace, limits, precision) for precision in ("fp16", "bf16")))


def _or_by_name(limits: Floors, time: Floats, share: float | Floats) -> Floats:
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


def _tf32_helps(rank: RankView, numbers: list[int]) -> bool:
    """Is any of these devices faster in TF32 than in FP32?"""
    for device in devices(rank.trace):
        peak = known_peaks(rank.trace, device.number).peak
        plain, tf32 = (peak.vector("fp32"), peak.flops("tf32")) if peak else (None, None)
        if device.number in numbers and (tf32 > plain if plain and tf32 else device.capability not in _SLOW_TF32):
            return True
    return False


def _has_tf32(rank: RankView, numbers: list[int]) -> bool:
    return any((each.capability or (0, 0)) >= (8, 0) for each in devices(rank.trace) if each.number in numbers)


RULE = Rule("DEVICE001", "Tensor cores are not used, or not in 16 bits", matrix_units_unused, needs="device")
