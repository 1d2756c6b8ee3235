"""Work from before the recording: until when each device was busy with what had been launched before it began.

Such work leaves no trace, but for what had to wait for it: the first recorded work of a stream that was in the queue
long before it started. A stream keeps its order, so until then it was busy, or held, by what had been launched before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, difference
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note

LAUNCH_LATENCY_NS: Final = 30_000
"""From the end of a launch call until an idle device begins, at most."""

_QUEUED_NS: Final = 1_000_000
"""First work that is queued longer waited for other work; less may be the latency of a first launch."""


@dataclass(frozen=True)
class WorkBefore:
    """The devices that were busy with work from before the recording.

    Attributes:
        begin: when the recording began, ns.
        device: int64 [devices], their numbers.
        until: int64 [devices], when they began with what was recorded, ns.
    """

    begin: int
    device: Int64s
    until: Int64s

    @property
    def end(self) -> int:
        """When the last of the devices began with what was recorded, ns; `begin` if there was no such work."""
        return int(self.until.max(initial=self.begin))

    def of_device(self, device: int, ran: Intervals) -> Intervals:
        """When a device did work from before the recording: until it was over, less what was recorded (a union)."""
        until = self.until[self.device == device]
        return difference(Intervals(np.full(len(until), self.begin), until), ran)


@derived
def work_before(trace: Trace) -> WorkBefore:
    """The devices that were busy with work from before the recording, and until when.

    A device was busy with such work until a stream starts its first work, where nothing recorded runs just before, if

    - that work was in the queue for more than 1 ms, and for the greater part of the time since the recording began; or
    - it is the device's first, and its launch was not recorded, though launches of other work of that stream were.
    """
    work, host = device_work(trace), call_tree(trace).member
    none = WorkBefore(0, np.empty(0, np.int64), np.empty(0, np.int64))
    if not host.any() or not len(work):
        return none
    begin = int(trace.start.min(where=host, initial=np.iinfo(np.int64).max))
    held_until = dict(_held(trace, work, begin))
    return WorkBefore(begin, np.array(list(held_until), np.int64), np.array(list(held_until.values()), np.int64))


def notes_of_earlier_work(trace: Trace) -> Iterator[Note]:
    """The note on numbers that leave work from before the recording out."""
    before = work_before(trace)
    if len(before.device):
        who = "the device was" if len(np.unique(device_work(trace).device)) == 1 else "devices were"
        yield Note(
            "WORK_BEFORE",
            f"For the first {(before.end - before.begin) / 1e6:,.3g} ms {who} busy with work from before the "
            "recording: that time is in no step, and not idle.",
        )


def _held(trace: Trace, work: DeviceWork, begin: int) -> Iterator[tuple[int, int]]:
    """Each device that was held up, and until when."""
    for device in np.unique(work.device).tolist():
        here = np.flatnonzero(work.device == device)
        here = here[np.lexsort((work.end[here], work.start[here]))]
        ran = np.maximum.accumulate(np.concatenate([[begin], work.end[here[:-1]]]))
        _, first = np.unique(work.stream[here], return_index=True)
        first = first[work.start[here[first]] - ran[first] > LAUNCH_LATENCY_NS]
        until = [int(work.start[here[each]]) for each in first.tolist() if _waited(trace, work, here, each, begin)]
        if until:
            yield device, max(until)


def _waited(trace: Trace, work: DeviceWork, here: Int64s, first: int, begin: int) -> bool:
    """True if the first work of a stream, one of `here`, waited for work from before the recording."""
    place = here[first]
    call = int(work.launch[place])
    if call < 0:
        return first == 0 and bool((work.launch[here[work.stream[here] == work.stream[place]]] >= 0).any())
    launched = max(int(trace.end[call]), begin)
    queued = int(work.start[place]) - launched
    return queued > _QUEUED_NS and queued >= launched - begin
