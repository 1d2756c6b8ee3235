"""DEVICE003: long kernels with fewer blocks than the device has multiprocessors."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, Final

import numpy as np

from kinetoscope.advisor.evidence.stakes import unblocked_launches
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import quoted, share, wording
from kinetoscope.algorithms.arrays import Bools, Floats
from kinetoscope.model.device.hardware import device_of
from kinetoscope.model.device.tensor_cores import ON_MATRIX_UNIT, kernel_units
from kinetoscope.model.roofline.floors import floors
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.views.sentences import Quantity, say

_MIN_KERNEL_NS: Final = 20_000
"""A shorter kernel mostly begins and ends."""

_MIN_STEP_SHARE: Final = 0.03
"""Share of the steps' time from which on a kernel matters."""

_CERTAIN_SHARE: Final = 0.5
"""Certain share of the gain of more blocks: partial results have to be combined, or memory is the limit."""

_MIN_TIME_LEFT: Final = 0.02
_NEAR_FLOOR: Final = 0.75
"""Share of its time that a kernel's floor takes from which on more blocks bring little."""

_HALF: Final = 0.5
"""Share of the multiprocessors that have a block, below which most of the device is empty."""

_LOW_OCCUPANCY: Final = 10.0
"""Per cent of a multiprocessor's warps below which a kernel hides little of its latency."""

_GOOD_OCCUPANCY: Final = 25.0
"""The same, above which more of them bring little."""

_MAX_KERNELS: Final = 3
"""Kernels that are named, those with the longest time."""


def kernels_that_leave_the_device_empty(rank: RankView) -> Iterator[Finding]:
    """Do long kernels leave a part of the device idle?

    What it checks. Kernels of 20 µs and more with less than one block for each multiprocessor, by name; and kernels
    that use no matrix units and whose estimated occupancy is under 10 %. ROCm does not record occupancy. Kernels whose
    floor is more than three quarters of their time are left out.

    Why it matters. With fewer blocks than multiprocessors the rest of the device is idle. At stake is the time that the
    steps gain if the same work were spread over all of them, or took its floor, where its shapes tell one and that is
    longer; half of it comes at least, as partial results have to be combined. Few warps on a multiprocessor cannot hide
    their latency, but some kernels need no more: none of that is sure.

    What to do. Give the kernel more to do at once, usually by a larger batch; change the grid of your own kernels.
    """
    trace, work = rank.trace, rank.work
    blocks = _blocks(rank)
    occupancy = arguments.floats(trace, "occupancy", work.rows)
    floor = _floors(rank)
    long = (
        (floor <= _NEAR_FLOOR)
        & rank.scope.device_work_mask
        & work.of(WorkKind.COMPUTATION)
        & (work.duration >= _MIN_KERNEL_NS)
    )
    few = long & (blocks > 0) & (blocks < 1)
    yield from _claims(rank, few, np.maximum(blocks, np.maximum(floor, _MIN_TIME_LEFT)), blocks, sure=_CERTAIN_SHARE)
    thin = (
        long & (blocks >= 1) & (occupancy > 0) & (occupancy < _LOW_OCCUPANCY) & (kernel_units(trace) != ON_MATRIX_UNIT)
    )
    yield from _claims(rank, thin, np.maximum(occupancy / _GOOD_OCCUPANCY, floor), occupancy / 100, sure=0.0)


def _floors(rank: RankView) -> Floats:
    """The share of its time that the limits of the device ask for, of each piece of work: float64 [work]; 0 unknown."""
    limits = floors(rank.trace)
    return np.nan_to_num(np.minimum(limits.floor / np.maximum(limits.time, 1), 1.0))[limits.unit]


def _blocks(rank: RankView) -> Floats:
    """Blocks for each multiprocessor, of each kernel: as recorded, else by its grid (ROCm); NaN where nothing tells."""
    trace, work = rank.trace, rank.work
    blocks = arguments.floats(trace, "blocks_per_sm", work.rows)
    grids = arguments.codes(trace, "grid", work.rows)
    codes, place = np.unique(grids, return_inverse=True)
    size = np.array([_size(trace.strings.nested(code)) if code >= 0 else np.nan for code in codes.tolist()])[place]
    for number in np.unique(work.device).tolist():
        device, here = device_of(trace, number), np.isnan(blocks) & (work.device == number)
        blocks[here] = size[here] / device.multiprocessors if device and device.multiprocessors else np.nan
    return blocks


def _size(grid: Any) -> float:
    if not isinstance(grid, list) or not all(isinstance(each, int) and 0 < each < 1 << 31 for each in grid):
        return np.nan
    return float(prod(grid))


def _claims(rank: RankView, chosen: Bools, left: Floats, filled: Floats, *, sure: float) -> Iterator[Finding]:
    """Findings of the kernels that take most time.

    Args:
        rank: the rank.
        chosen: bool [work].
        left: float64 [work], what is left of the time of each at least.
        filled: float64 [work], the share of the multiprocessors that have a block; or of their warps that it has.
        sure: the share of the gain that comes at least.
    """
    trace, work = rank.trace, rank.work
    names = trace.name[work.rows]
    codes, place = np.unique(names[chosen], return_inverse=True)
    time = np.bincount(place, weights=work.duration[chosen], minlength=len(codes))
    for code in np.argsort(-time, kind="stable")[:_MAX_KERNELS].tolist():
        these = np.flatnonzero(chosen & (names == codes[code]))
        spans = rank.work_time(these)
        if spans.length < _MIN_STEP_SHARE * rank.time.length:
            continue
        factors = unblocked_launches(rank)
        factors.work[these] = left[these]
        saved = saving(rank, sure, factors, spans)
        if saved is None:
            continue
        longest = int(these[np.argmax(work.duration[these])])
        name = trace.strings.glance(int(codes[code]))
        mean = float(np.average(filled[these], weights=work.duration[these]))
        facts: dict[str, Quantity | str] = {
            "kernel": quoted(name),
            "runs": saved.per_step,
            "part": saved.part,
            "calls": rank.each_step(len(these), "call"),
            "filled": share(mean, 1),
            "limit": saved.limit(float((work.duration * (1 - left))[these].sum())),
        }
        yield saved.finding(
            message=say(
                "{kernel} leaves {empty} of the device empty. It runs {runs} of each step ({part}; {calls}), and"
                " {filled} of the multiprocessors have a block.{limit}",
                empty="most" if mean < _HALF else "a part",
                **facts,
            )
            if sure
            else say(
                "{kernel} has few warps on each multiprocessor. It runs {runs} of each step ({part}; {calls}) with"
                " {filled} of the warps of a multiprocessor.{limit}",
                **facts,
            ),
            change=wording(rank.program).larger_batch(4),
            why=say("The gain assumes the same work spread over the whole device; half of it counts as the least.")
            if sure
            else say("The gain assumes the same work spread over the whole device, which does not help every kernel."),
            confidence="medium" if sure else "low",
            evidence=rank.event(int(work.rows[longest]), "the longest call", "kernels"),
            key=quoted(name),
            at_most="critical" if sure else "note",
        )


RULE = Rule("DEVICE003", "Kernels leave the device empty", kernels_that_leave_the_device_empty, needs="device")
