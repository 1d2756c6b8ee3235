"""MEMORY001: most of the device's memory is unused, and a larger batch would help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.launch_time import launching_time
from kinetoscope.advisor.evidence.limits import is_linear
from kinetoscope.advisor.evidence.memory import MemoryUse, memory_use
from kinetoscope.advisor.evidence.source_location import event_evidence
from kinetoscope.advisor.finding import Finding, Stake
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import quoted, share, wording
from kinetoscope.algorithms.arrays import Bools, Floats
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, intersection, merge, union
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.device.one_time import ONE_TIME_NS
from kinetoscope.model.execution.marks import is_collective_range
from kinetoscope.model.execution.optimizers import optimizer_steps, update_times, zero_grads
from kinetoscope.model.execution.runtime_calls import SYNCHRONIZING_CALLS, RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.roofline.floors import floors
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.sentences import measured, say

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

_PIECE_NS: Final = 20_000
"""Pieces of host time that shrink evenly, ns: an operator takes about as long."""

_IDLE: Final = 0.1
"""Share of the time in which devices wait for launches from which on a larger batch is more than a note."""


def unused_memory(rank: RankView) -> Iterator[Finding]:
    """Is there room for a larger batch, and would it help?

    What it checks. The peak of a device's allocator against the device's memory. If less than half is used: how many
    times the batch would fit, assuming that memory allocated between steps stays constant and the rest grows with the
    batch.

    Why it matters. Launches, the optimizer and the exchange of gradients take as long for a large batch as for a small
    one. At stake is the time gained for the present number of samples if that, and only that, is shared by k times as
    many, where k is the largest power of two that fits, up to 8: the calls that launch device work and the short pauses
    between them, updates, and in a training collectives take a k-th. All other host time is assumed to grow with the
    batch, as loading and Python code for each sample do, and so do kernels and copies. At most, kernels with less than
    one block per multiprocessor take no longer until they fill the device, and products of layers that take as long as
    reading their weights no longer until arithmetic is the limit. Three quarters of the gain without that are likely.
    It is a note where the device waits for launches less than a tenth of the time. A larger batch changes the training:
    the learning rate has to follow.

    What to do. Use a larger batch.
    """
    uses = [use for use in memory_use(rank) if use.total and max(use.most_reserved, use.peak) < _USED * use.total]
    if not uses or len(uses) < len({*rank.work.device[rank.scope.device_work_mask].tolist()}):
        return
    times = min(_fits(use) for use in uses)
    if times < 2:
        return
    fixed = _fixed(rank)
    best = _shared(rank, fixed, times, surely=False)
    low, high = rank.gains(_shared(rank, fixed, times, surely=True)), rank.gains(best)
    if float(np.mean(high)) < _MIN_STEP_SHARE * rank.step:
        return
    waiting = rank.exposed(merge(*fixed.values()))
    time = merge(waiting, _of_work(rank, times))
    use, words = max(uses, key=lambda use: use.peak), wording(rank.program)
    used, least = max(use.most_reserved, use.peak), rank.stake(_CERTAIN_SHARE * low, high)
    yield Finding(
        message=say(
            "{fits}. {unused} of {memory} on {device} are unused ({part}): the batch could be {times} times as large,"
            " so that launches, the optimizer and what else takes as long for any batch, {fixed} of each step, are"
            " shared by more samples.{changes}",
            fits=words.batch_fits,
            unused=measured(use.total - used, "bytes"),
            memory=measured(use.total, "bytes"),
            device=quoted(use.device),
            part=share(use.total - used, use.total),
            times=measured(times),
            fixed=rank.time_per_step(time.length),
            changes=" It changes the training." if rank.program == "training" else "",
        ),
        stake=Stake(least.low, min(least.high, max(float(high.max()), 0.0))),
        factors=best,
        takes=rank.per_step(time.length),
        change=words.larger_batch(times),
        why=say(
            "With the larger batch everything takes {times} times as long but for launches, the optimizer and the"
            " exchange of gradients; the gain is for the present number of samples.",
            times=measured(times),
        ),
        confidence="medium",
        evidence=(event_evidence(rank, use.row, "the peak", "memory_peak"),),
        at_most="critical" if waiting.length >= _IDLE * rank.time.length else "note",
        time=time,
    )


def _fits(use: MemoryUse) -> int:
    """How many times the batch fits: a power of two; 1 if only one does, or nothing shows what a batch takes."""
    if use.peak <= use.floor:
        return 1
    overhead = max(use.most_reserved - use.peak, 0)
    room = (_MAX_MEMORY_SHARE * use.total - overhead - use.floor) / (use.peak - use.floor)
    return int(2 ** min(np.floor(np.log2(max(room, 1.0))), np.log2(_MAX_BATCH_RATIO)))


def _fixed(rank: RankView) -> dict[int, Intervals]:
    """By thread, the host's time that is known to be the same for any batch: launching, updates, collectives."""
    trace = rank.trace
    fixed = launching_time(rank).stretches
    steps, zero = np.flatnonzero(optimizer_steps(trace).rows), np.flatnonzero(zero_grads(trace).rows)
    updates = update_times(trace, steps)
    exchange = np.flatnonzero(is_collective_range(trace)) if rank.program == "training" else zero[:0]
    rows = np.concatenate([steps, zero, exchange])
    start = np.concatenate([updates.start, trace.start[zero], trace.start[exchange]])
    for track in np.unique(trace.track[rows]).tolist():
        here = trace.track[rows] == track
        waits = np.flatnonzero(_waits(trace) & (trace.track == track))
        own = difference(union(start[here], trace.end[rows[here]]), rank.spans(waits))
        fixed[track] = merge(fixed.get(track, Intervals(start[:0], start[:0])), intersection(own, rank.time))
    return fixed


@derived
def _waits(trace: Trace) -> Bools:
    """Calls that wait for the device, ask the driver for memory, or do something once: bool [events]."""
    kinds = (*SYNCHRONIZING_CALLS, RuntimeCallKind.ALLOCATE, RuntimeCallKind.FREE)
    waiting: Bools = np.isin(runtime_call_kinds(trace), kinds)
    waiting |= (trace.kind == EventKind.RUNTIME) & (trace.end - trace.start > ONE_TIME_NS)
    return waiting


def _shared(rank: RankView, fixed: dict[int, Intervals], times: int, *, surely: bool) -> Factors:
    """A what-if in which what is the same for any batch takes so small a part, as more samples share it."""
    factors = rank.factors()
    for track, time in fixed.items():
        factors.cut[track] = _thinned(time, 1.0 - 1.0 / times)
    factors.work[:] = _left_of_work(rank, times, surely=surely)
    linked = rank.work.launch >= 0
    factors.delay[linked] = 1.0 / times
    if not surely:
        factors.gap[linked] = 1.0 / times
    return factors


def _left_of_work(rank: RankView, times: int, *, surely: bool) -> Floats:
    """The share of its time that each piece of device work takes for each sample: float64 [work]."""
    grows = _grows(rank)
    part = np.where(grows, 1.0, 1.0 / times)
    if surely:
        return part
    blocks = arguments.floats(rank.trace, "blocks_per_sm", rank.work.rows)
    filled = np.where(grows & (blocks < 1), np.maximum(times * blocks, 1.0) / times, part)
    return np.minimum(np.where(np.isnan(blocks), part, filled), _of_weights(rank, times))


def _of_weights(rank: RankView, times: int) -> Floats:
    """The share that work takes for each sample of so large a batch, if it reads weights: float64 [work].

    Products of a layer that are limited by the traffic take no longer until their arithmetic takes that long, too.
    """
    limits = floors(rank.trace)
    reads = is_linear(rank.trace) & (limits.compute < limits.traffic)
    longer = np.maximum(times * limits.compute / np.where(reads, limits.traffic, 1.0), 1.0)
    return (np.where(reads, longer, float(times)) / times)[limits.unit]


def _grows(rank: RankView) -> Bools:
    """Device work that grows with the batch: all but the optimizer's, and in a training the exchange of gradients."""
    trace, work = rank.trace, rank.work
    updates = optimizer_steps(trace).inside | zero_grads(trace).inside
    grows = ~((work.launch >= 0) & updates[work.launch])
    if rank.program == "training":
        grows &= ~work.of(WorkKind.COMMUNICATION)
    return np.asarray(grows)


def _of_work(rank: RankView, times: int) -> Intervals:
    """The part of device work in the selected steps that goes at most."""
    work, gone = rank.work, 1.0 - _left_of_work(rank, times, surely=False)
    length = np.rint(work.duration * gone).astype(np.int64)
    return intersection(union(work.start, work.start + length), rank.time)


def _thinned(time: Intervals, gone: float) -> Intervals:
    """A part of some time, spread evenly: the beginning of each piece of it."""
    count = np.maximum(-(-(time.end - time.start) // _PIECE_NS), 1)
    place = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    start = np.repeat(time.start, count) + place * _PIECE_NS
    end = np.minimum(start + _PIECE_NS, np.repeat(time.end, count))
    return Intervals(start, start + np.rint((end - start) * gone).astype(np.int64))


RULE = Rule("MEMORY001", "Room for a larger batch", unused_memory, needs="device")
