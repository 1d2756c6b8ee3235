"""MEMORY001: most of the device's memory is unused, and a larger batch would help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.data_loader import FROM_WORKERS, IN_PROCESS, fetches, loader_time
from kinetoscope.advisor.evidence.memory import Use, memory_use
from kinetoscope.advisor.evidence.phrases import share
from kinetoscope.advisor.evidence.where import seen
from kinetoscope.advisor.finding import Claim
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import wording
from kinetoscope.algorithms.arrays import Bools, Floats
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, merge
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.marks import is_optimizer_range
from kinetoscope.model.execution.runtime_calls import WAITS, CallKind, call_kinds
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.views.numbers import shown

_USED: Final = 0.5
"""Share of the memory up to which it counts as unused for the most part."""

_FULL: Final = 0.9
"""Share of the memory that a larger batch may fill."""

_MOST: Final = 8
"""Times the batch that are ever asked for."""

_SURE: Final = 0.75
"""Of what a larger batch brings, what is sure: some kernels may take longer still."""

_WORTH: Final = 0.03
"""Share of a step from which on a larger batch is worth a word."""

_IDLE: Final = 0.1
"""Share of the time in which devices wait for launches from which on a larger batch is more than a note."""


def unused_memory(look: RankView) -> Iterator[Claim]:
    """Is there room for a larger batch, and would it help?

    What it checks. The most that a device's allocator held, against what the device has. If less than half is used:
    how many times the batch would fit, when what is allocated between steps stays as it is and the rest grows with the
    batch.

    Why it matters. Launches, the optimizer and collectives take as long for a large batch as for a small one. At stake
    is what a step for so many samples as now would be shorter by. The steps are computed anew with computing kernels,
    copies to the device and data loading k times as long, and divided by k, where k is the largest power of two that
    fits, up to 8; the optimizer's kernels take as long as now. At most, kernels with less than one block a
    multiprocessor take no longer until they fill the device. Surely it is three quarters of what remains if all take k
    times as long. It is a note where the device waits for launches less than a tenth of the time. A larger batch is not
    the same training: the learning rate has to follow.

    What to do. A larger batch.
    """
    if not look.has_device or not look.count:
        return
    uses = [use for use in memory_use(look) if use.total and max(use.most_reserved, use.peak) < _USED * use.total]
    if not uses or len(uses) < len({*look.work.device[look.view.work].tolist()}):
        return
    times = min(_fits(use) for use in uses)
    if times < 2:
        return
    now = (look.windows.end - look.windows.start).astype(np.float64)
    low, high = _gains(look, now, times, surely=True), _gains(look, now, times, surely=False)
    if float(np.mean(high)) < _WORTH * look.step:
        return
    idle = _launching(look)
    use, words = max(uses, key=lambda use: use.peak), wording(look.program)
    used = max(use.most_reserved, use.peak)
    yield Claim(
        message=f"{words.batch_fits}. {shown(use.total - used, 'bytes')} of {shown(use.total, 'bytes')} on"
        f" {use.device} are"
        f" unused ({share(use.total - used, use.total)}): {times} times the batch fits, and less of each step goes into"
        " what does not grow with it.",
        stake=look.stake(_SURE * low, high),
        change=words.larger_batch(times),
        why="For the larger batch kernels, copies and loading take so many times as long; the gain is for as many"
        " samples as now.",
        confidence="medium",
        evidence=(seen(look, use.row, "the peak", "memory_peak"),),
        at_most="critical" if idle.length >= _IDLE * look.inside.length else "note",
        time=_part(idle, (float(np.mean(low)) + float(np.mean(high))) / 2 * look.count),
    )


def _fits(use: Use) -> int:
    """How many times the batch fits: a power of two; 1 if only one does, or nothing shows what a batch takes."""
    if use.peak <= use.floor:
        return 1
    overhead = max(use.most_reserved - use.peak, 0)
    room = (_FULL * use.total - overhead - use.floor) / (use.peak - use.floor)
    return int(2 ** min(np.floor(np.log2(max(room, 1.0))), np.log2(_MOST)))


def _gains(look: RankView, now: Floats, times: int, *, surely: bool) -> Floats:
    """How much shorter each step would be for its samples with a batch so many times as large, ns: float64 [steps]."""
    factors, grows = look.factors(), _grows(look)
    factor = np.where(grows, float(times), 1.0)
    if not surely:
        blocks = arguments.floats(look.trace, "blocks_per_sm", look.work.rows)
        part = np.where(grows & (blocks < 1), np.maximum(times * blocks, 1.0), factor)
        factor = np.where(np.isnan(blocks), factor, part)
    factors.work[:] = factor
    loads = np.concatenate([fetches(look.trace, IN_PROCESS), fetches(look.trace, FROM_WORKERS)])
    loading = np.zeros(len(look.trace), np.bool_)
    loading[loads] = True
    factors.host[ancestor(call_tree(look.trace).parent, loading) >= 0] = float(times)
    return now - (now - look.gains(factors)) / times


def _grows(look: RankView) -> Bools:
    """Which device work grows with the batch: computation and copies, but not the optimizer's."""
    trace, work = look.trace, look.work
    inside = ancestor(call_tree(trace).parent, is_optimizer_range(trace)) >= 0
    updating = (work.launch >= 0) & inside[work.launch]
    return np.asarray(work.of(WorkKind.COMPUTATION, WorkKind.MEMCPY) & ~updating)


def _launching(look: RankView) -> Intervals:
    """The devices' idle time in which the host neither waits, nor loads data, nor is in calls of the allocator."""
    trace = look.trace
    other = np.flatnonzero(np.isin(call_kinds(trace), (*WAITS, CallKind.ALLOCATE, CallKind.FREE)))
    return difference(look.idle, merge(look.spans(other), loader_time(trace)))


def _part(time: Intervals, length: float) -> Intervals:
    """The first part of each stretch, so that all of them are as long as asked for."""
    share = min(length / max(time.length, 1), 1.0)
    return Intervals(time.start, time.start + np.rint((time.end - time.start) * share).astype(np.int64))


RULE = Rule("MEMORY001", "Room for a larger batch", of_rank=unused_memory)
