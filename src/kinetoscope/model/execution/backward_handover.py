"""Waits of one thread of the host for another: the backward pass, which torch runs on a thread of its own.

The thread that calls `backward` waits until that is done, and nothing in a trace says so. What is assumed: while calls
of a backward thread begin within one stretch of the forward thread's time in which that begins and ends no call, the
forward thread handed over to them at the beginning of the stretch, unless they were under way, and went on when the
last of them that was over by then had ended. There may be several stretches in one backward pass: nodes of the graph
that need no device run on the thread that waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.intervals import innermost
from kinetoscope.algorithms.trees.tree import NO_ROW
from kinetoscope.model.execution.autograd import backward_links
from kinetoscope.model.execution.call_tree import call_tree, main_thread
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace


@dataclass(frozen=True)
class Handovers:
    """From a thread to another, and back again, in order of the other thread's calls.

    Attributes:
        thread: int32 [handovers], track of the thread that waits; other: of the one that it waits for.
        begin: int64 [handovers], when the waiting thread handed over; end: when it began its next call, or ended one.
        inside: int32 [handovers], the call in which it waits, NO_ROW for none.
        first: int32 [handovers], the first of the other thread's calls, NO_ROW if that thread was at work already.
        last: int32 [handovers], of its calls that were over at `end` the last one, NO_ROW if there is none.
    """

    thread: Int32s
    other: Int32s
    begin: Int64s
    end: Int64s
    inside: Int32s
    first: Int32s
    last: Int32s


@derived
def host_time(trace: Trace) -> innermost.Stretches:
    """The innermost call on each host thread, at each instant."""
    calls = call_tree(trace)
    return innermost.stretches(trace.start, trace.end, calls.order, calls.offsets)


@derived
def handovers(trace: Trace) -> Handovers:
    """Find where threads wait for the backward pass."""
    table = np.concatenate([np.empty((0, 7), np.int64), *(_between(trace, *pair) for pair in _threads(trace))])
    thread, other, inside, first, last = (table[:, column].astype(np.int32) for column in (0, 1, 4, 5, 6))
    return Handovers(thread, other, table[:, 2].copy(), table[:, 3].copy(), inside, first, last)


def _threads(trace: Trace) -> Iterator[tuple[int, int]]:
    """Each backward thread: the thread that waits for it, and itself.

    It waits where most of the forward operators were that the backward thread's belong to; if no link tells, the main
    thread does.
    """
    linked = backward_links(trace).forward
    backward = np.flatnonzero((arguments.integers(trace, "forward_thread") > 0) | (linked >= 0))
    backward = backward[call_tree(trace).depth[backward] >= 0]
    for other in np.unique(trace.track[backward]).tolist():
        rows = backward[trace.track[backward] == other]
        forward = linked[rows][linked[rows] >= 0]
        thread = int(np.bincount(trace.track[forward]).argmax()) if len(forward) else main_thread(trace)
        if thread not in (other, -1):
            yield thread, other


def _between(trace: Trace, thread: int, other: int) -> Int64s:
    """The handovers between two threads: rows of thread, other, begin, end, inside, first and last."""
    calls, time = call_tree(trace), host_time(trace)
    rows = calls.order[calls.offsets[other] : calls.offsets[other + 1]]
    rows = rows[calls.depth[rows] == 0]
    stretch = innermost.at(time, np.full(len(rows), thread, np.int32), trace.start[rows])
    busy_until = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(trace.end[rows])])[:-1]
    inside = (stretch >= 0) & (stretch + 1 < time.offsets[thread + 1])  # not before its first or after its last call
    rows, stretch, busy_until = rows[inside], stretch[inside], busy_until[inside]
    if not len(rows):
        return np.empty((0, 7), np.int64)
    low = np.flatnonzero(np.concatenate([[True], np.diff(stretch) != 0]))
    begin, end = time.time[stretch[low]], time.time[stretch[low] + 1]
    over = trace.end[rows] <= time.time[stretch + 1]
    last = np.maximum.reduceat(np.where(over, np.arange(len(rows)), NO_ROW), low)
    return np.stack(
        [
            np.full(len(low), thread),
            np.full(len(low), other),
            begin,
            end,
            time.row[stretch[low]],
            np.where(busy_until[low] <= begin, rows[low], NO_ROW),
            np.where(last >= 0, rows[last], NO_ROW),
        ],
        axis=1,
    )
