"""Where one thread of the host waits for another: the backward pass, which torch runs on a thread of its own.

The thread that calls `backward` waits until that is done, and nothing in a trace says so. What is assumed: while calls
of a backward thread begin within one stretch of the forward thread's time in which that begins and ends no call, the
forward thread handed over to them at the beginning of the stretch, unless they were under way, and went on when the
last of them that was over by then had ended. There may be several stretches in one backward pass: nodes of the graph
that need no device run on the thread that waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms import innermost
from kinetoscope.algorithms.tree import NO_ROW
from kinetoscope.model import arguments
from kinetoscope.model.autograd import backward_links
from kinetoscope.model.calltree import call_tree, main_thread
from kinetoscope.model.trace import Trace

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]


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


def host_time(trace: Trace) -> innermost.Stretches:
    """Which call is the innermost one on each host thread, at each instant. Ask by `trace.of`."""
    calls = trace.of(call_tree)
    return innermost.stretches(trace.start, trace.end, calls.order, calls.offsets)


def handovers(trace: Trace) -> Handovers:
    """Find where threads wait for the backward pass. Ask by `trace.of`."""
    found = [part for pair in _threads(trace) for part in _between(trace, *pair)]
    table = np.array(found, np.int64).reshape(-1, 7)
    thread, other, inside, first, last = (table[:, column].astype(np.int32) for column in (0, 1, 4, 5, 6))
    return Handovers(thread, other, table[:, 2].copy(), table[:, 3].copy(), inside, first, last)


def _threads(trace: Trace) -> Iterator[tuple[int, int]]:
    """Each backward thread: the thread that waits for it, and itself.

    It waits where most of the forward operators were that the backward thread's belong to; if no link tells, the main
    thread does.
    """
    linked = trace.of(backward_links).forward
    backward = np.flatnonzero((arguments.integers(trace, "forward_thread") > 0) | (linked >= 0))
    backward = backward[trace.of(call_tree).depth[backward] >= 0]
    for other in np.unique(trace.track[backward]).tolist():
        rows = backward[trace.track[backward] == other]
        forward = linked[rows][linked[rows] >= 0]
        thread = int(np.bincount(trace.track[forward]).argmax()) if len(forward) else trace.of(main_thread)
        if thread not in (other, -1):
            yield thread, other


def _between(trace: Trace, thread: int, other: int) -> Iterator[tuple[int, ...]]:
    calls, time = trace.of(call_tree), trace.of(host_time)
    rows = calls.order[calls.offsets[other] : calls.offsets[other + 1]]
    rows = rows[calls.depth[rows] == 0]
    stretch = innermost.at(time, np.full(len(rows), thread, np.int32), trace.start[rows])
    busy_until = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(trace.end[rows])])
    bounds = np.concatenate([[0], np.flatnonzero(np.diff(stretch)) + 1, [len(rows)]])
    for low, high in pairwise(bounds.tolist()):
        if low == high or stretch[low] < 0 or stretch[low] + 1 >= time.offsets[thread + 1]:
            continue  # before the first or after the last call of the thread
        begin, end = int(time.time[stretch[low]]), int(time.time[stretch[low] + 1])
        first = int(rows[low]) if busy_until[low] <= begin else NO_ROW
        over = rows[low:high][trace.end[rows[low:high]] <= end]
        last = int(over[trace.end[over].argmax()]) if len(over) else NO_ROW
        yield thread, other, begin, end, int(time.row[stretch[low]]), first, last
