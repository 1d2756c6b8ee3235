"""The queues of streams: work that was launched and has not begun yet.

A launch is in the queue of a stream from the start of its call to the start of the first thing that it made there. That
of a graph is one entry however many kernels it has, and one on each stream that it has kernels on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.grouping import group, group_in_order
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.algorithms.intervals.sweeps import Levels, count_open
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.graphs.lost_work import captured, no_device_work
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note


@dataclass(frozen=True)
class Queues:
    """The selected launches, each on each stream that it made something on.

    Attributes:
        device, stream: int64 [queues], sorted by both.
        queue: int32 [entries], the queue of each entry.
        start: int64 [entries], start of the call, ns.
        end: int64 [entries], start of the first thing it made on that stream, ns; never before `start`, although the
            clocks of host and device may say so.
        clip: the selected range of time, ns, or None.
        notes: what they leave out.
    """

    device: Int64s
    stream: Int64s
    queue: Int32s
    start: Int64s
    end: Int64s
    clip: tuple[int, int] | None
    notes: tuple[Note, ...]

    def __len__(self) -> int:
        return len(self.stream)

    @property
    def clipped(self) -> Intervals:
        """The time that each entry waits, cut to the range of time."""
        if self.clip is None:
            return Intervals(self.start, self.end)
        return Intervals(np.clip(self.start, *self.clip), np.clip(self.end, *self.clip))

    @property
    def length(self) -> Levels:
        """The length of each queue over time."""
        return count_open(self.queue, *self.clipped)

    @property
    def window(self) -> tuple[int, int]:
        """The range of time; else from the first launch to the last start of device work on any stream, ns."""
        return self.clip or (int(self.start.min()), int(self.end.max()))


def queues(trace: Trace, select: Selection) -> Queues:
    """The queues of all streams on which selected work ran. Work may wait in a range of time and run after it."""
    clip = scope(trace, select).clip
    view = scope(trace, replace(select, time=None))
    work = view.device_work
    chosen = np.flatnonzero(view.device_work_mask & (work.launch >= 0))
    chosen = chosen[np.argsort(work.start[chosen], kind="stable")]
    _, earliest = group(work.launch[chosen], work.device[chosen], work.stream[chosen])
    first = chosen[earliest]  # of a group the first row stands for it
    begun = work.start[first]
    launched = trace.start[work.launch[first]].astype(np.int64)
    if clip is not None:
        reaches = (launched < clip[1]) & (np.maximum(begun, launched) >= clip[0])
        first, begun, launched = first[reaches], begun[reaches], launched[reaches]
    queue, of_queue = group_in_order(work.device[first], work.stream[first])
    early = begun < launched
    return Queues(
        device=work.device[first[of_queue]],
        stream=work.stream[first[of_queue]],
        queue=queue,
        start=launched,
        end=np.maximum(begun, launched),
        clip=clip,
        notes=tuple(_notes(view, len(first), int(early.sum()))),
    )


def _notes(view: Scope, entries: int, early: int) -> list[Note]:
    trace, work = view.trace, view.device_work
    if not len(work):
        return [no_device_work(trace)]
    notes: list[Note] = []
    if not entries:
        notes.append(Note("NO_LINKED_WORK_SELECTED", "No device work with a recorded launch was selected."))
    launch = work.launch[view.device_work_mask]
    if unlinked := int((launch < 0).sum()):
        notes.append(
            Note(
                "UNLINKED_IN_QUEUES",
                f"{unlinked:,} of {len(launch):,} pieces of device work have no recorded launch: not counted.",
            )
        )
    if early:
        notes.append(
            Note(
                "EARLY_IN_QUEUES",
                f"{early:,} launches began on the device before their calls did, by its clock: they waited 0 ns.",
            )
        )
    launches = view.host_mask & np.isin(
        runtime_call_kinds(trace), (RuntimeCallKind.LAUNCH, RuntimeCallKind.GRAPH_LAUNCH)
    )
    launches[work.launch[work.launch >= 0]] = False
    launches &= ~captured(trace)
    if without_work := int(launches.sum()):
        notes.append(
            Note(
                "LAUNCHES_IN_QUEUES",
                f"Launch calls without recorded device work, which may have waited, too: {without_work:,}.",
            )
        )
    return notes
