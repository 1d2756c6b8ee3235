"""MEMORY001: most of the device's memory is unused, and a larger batch would help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.data_loader import FROM_WORKERS, IN_PROCESS, fetches, loader_time
from kinetoscope.advisor.evidence.limits import is_linear
from kinetoscope.advisor.evidence.memory import MemoryUse, memory_use
from kinetoscope.advisor.evidence.source_location import event_evidence
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import share, wording
from kinetoscope.algorithms.arrays import Bools, Floats
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, merge
from kinetoscope.model.execution.call_tree import inside
from kinetoscope.model.execution.marks import is_optimizer_range
from kinetoscope.model.execution.runtime_calls import SYNCHRONIZING_CALLS, RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.roofline.floors import floors
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.views.numbers import shown

_USED: Final = 0.5
"""Share of the memory up to which it counts as unused for the most part."""

_MAX_MEMORY_SHARE: Final = 0.9
"""Share of the memory that a larger batch may fill."""

_MAX_BATCH_RATIO: Final = 8
"""Greatest ratio of the suggested batch to the present one."""

_CERTAIN_SHARE: Final = 0.75
"""Certain share of the gain of a larger batch: some kernels may take longer still."""

_MIN_STEP_SHARE: Final = 0.03
"""Share of a step from which on a larger batch is reported."""

_IDLE: Final = 0.1
"""Share of the time in which devices wait for launches from which on a larger batch is more than a note."""


def unused_memory(rank: RankView) -> Iterator[Finding]:
    """Is there room for a larger batch, and would it help?

    What it checks. The peak of a device's allocator against the device's memory. If less than half is used: how many
    times the batch would fit, assuming that memory allocated between steps stays constant and the rest grows with the
    batch.

    Why it matters. Launches, the optimizer and collectives take as long for a large batch as for a small one. At stake
    is the time gained for the present number of samples. The steps are replayed with computing kernels, copies to the
    device and data loading k times as long, and divided by k, where k is the largest power of two that fits, up to 8;
    the optimizer's kernels take their present time. At most, kernels with less than one block per multiprocessor take
    no longer until they fill the device, and products of layers that take as long as reading their weights no longer
    until arithmetic is the limit. Three quarters of the gain without that count as sure. It is a note where the
    device waits for launches less than a tenth of the time. A larger batch changes the training: the learning rate has
    to follow.

    What to do. Use a larger batch.
    """
    if not rank.has_device or not rank.step_count:
        return
    uses = [use for use in memory_use(rank) if use.total and max(use.most_reserved, use.peak) < _USED * use.total]
    if not uses or len(uses) < len({*rank.work.device[rank.scope.device_work_mask].tolist()}):
        return
    times = min(_fits(use) for use in uses)
    if times < 2:
        return
    now = (rank.windows.end - rank.windows.start).astype(np.float64)
    low, high = _gains(rank, now, times, surely=True), _gains(rank, now, times, surely=False)
    if float(np.mean(high)) < _MIN_STEP_SHARE * rank.step:
        return
    idle = _launching(rank)
    use, words = max(uses, key=lambda use: use.peak), wording(rank.program)
    used = max(use.most_reserved, use.peak)
    yield Finding(
        message=f"{words.batch_fits}. {shown(use.total - used, 'bytes')} of {shown(use.total, 'bytes')} on"
        f" {use.device} are"
        f" unused ({share(use.total - used, use.total)}): the batch could be {times} times as large, so that fixed"
        " costs take a smaller share of each step.",
        stake=rank.stake(_CERTAIN_SHARE * low, high),
        change=words.larger_batch(times),
        why=f"With the larger batch, kernels, copies and loading take {times} times as long; the gain is for the"
        " present number of samples.",
        confidence="medium",
        evidence=(event_evidence(rank, use.row, "the peak", "memory_peak"),),
        at_most="critical" if idle.length >= _IDLE * rank.time.length else "note",
        time=_part(idle, (float(np.mean(low)) + float(np.mean(high))) / 2 * rank.step_count),
    )


def _fits(use: MemoryUse) -> int:
    """How many times the batch fits: a power of two; 1 if only one does, or nothing shows what a batch takes."""
    if use.peak <= use.floor:
        return 1
    overhead = max(use.most_reserved - use.peak, 0)
    room = (_MAX_MEMORY_SHARE * use.total - overhead - use.floor) / (use.peak - use.floor)
    return int(2 ** min(np.floor(np.log2(max(room, 1.0))), np.log2(_MAX_BATCH_RATIO)))


def _gains(rank: RankView, now: Floats, times: int, *, surely: bool) -> Floats:
    """How much shorter each step would be for its samples with a batch so many times as large, ns: float64 [steps]."""
    factors, grows = rank.factors(), _grows(rank)
    factor = np.where(grows, float(times), 1.0)
    if not surely:
        blocks = arguments.floats(rank.trace, "blocks_per_sm", rank.work.rows)
        part = np.where(grows & (blocks < 1), np.maximum(times * blocks, 1.0), factor)
        factor = np.minimum(np.where(np.isnan(blocks), factor, part), _of_weights(rank, times))
    factors.work[:] = factor
    loads = np.concatenate([fetches(rank.trace, IN_PROCESS), fetches(rank.trace, FROM_WORKERS)])
    loading = np.zeros(len(rank.trace), np.bool_)
    loading[loads] = True
    factors.host[inside(rank.trace, loading)] = float(times)
    return now - (now - rank.gains(factors)) / times


def _of_weights(rank: RankView, times: int) -> Floats:
    """How many times as long work takes with so large a batch, if what it reads are weights: float64 [work].

    Products of a layer that are limited by the traffic take no longer until their arithmetic takes that long, too.
    """
    limits = floors(rank.trace)
    reads = is_linear(rank.trace) & (limits.compute < limits.traffic)
    longer = np.maximum(times * limits.compute / np.where(reads, limits.traffic, 1.0), 1.0)
    return np.where(reads, longer, float(times))[limits.unit]


def _grows(rank: RankView) -> Bools:
    """Which device work grows with the batch: computation and copies, but not the optimizer's."""
    trace, work = rank.trace, rank.work
    updates = inside(trace, is_optimizer_range(trace))
    updating = (work.launch >= 0) & updates[work.launch]
    return np.asarray(work.of(WorkKind.COMPUTATION, WorkKind.MEMCPY) & ~updating)


def _launching(rank: RankView) -> Intervals:
    """The devices' idle time in which the host neither waits, nor loads data, nor is in calls of the allocator."""
    trace = rank.trace
    other = np.flatnonzero(
        np.isin(runtime_call_kinds(trace), (*SYNCHRONIZING_CALLS, RuntimeCallKind.ALLOCATE, RuntimeCallKind.FREE))
    )
    return difference(rank.idle, merge(rank.spans(other), loader_time(trace)))


def _part(time: Intervals, length: float) -> Intervals:
    """The first part of each stretch, so that all of them are as long as asked for."""
    share = min(length / max(time.length, 1), 1.0)
    return Intervals(time.start, time.start + np.rint((time.end - time.start) * share).astype(np.int64))


RULE = Rule("MEMORY001", "Room for a larger batch", of_rank=unused_memory)
