"""Device work by stream: in which order it was launched, and what was there before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

NOTHING: Final = -1


@dataclass(frozen=True)
class Stream:
    """A stream's work in order of launch.

    Attributes:
        device, stream: its numbers.
        place: int32 [work], places in `device_work`. launch: int64 [work], when each was launched.
        latest: int32 [work], of the first n + 1 the one that ends last; reach: int64 [work], when it ends.
    """

    device: int
    stream: int
    place: Int32s
    launch: Int64s
    latest: Int32s
    reach: Int64s

    def launched_until(self, time: Int64s) -> Int64s:
        """How many had been launched at each time."""
        return np.searchsorted(self.launch, time, side="right")


@dataclass(frozen=True)
class StreamOrder:
    """What was before each piece of device work.

    Attributes:
        position: int64 [work], place in the order of devices, streams and time.
        before: int32 [work], place in `device_work` of what ended last on the same stream before it started.
        elsewhere: int32 [work], the same on the other streams of the device, if that ended later. NOTHING if there is
            none.
    """

    position: Int64s
    before: Int32s
    elsewhere: Int32s


@derived
def launch_times(trace: Trace) -> Int64s:
    """When each piece of device work was launched: int64 [work].

    If that was not recorded, when it was at the latest: streams keep their order, so before what came after it on its
    stream, and before it started.
    """
    work = device_work(trace)
    if not len(work):
        return work.start
    launch = np.where(work.launch >= 0, trace.start[work.launch], work.start)
    order = np.lexsort((work.rows, work.end, work.start, work.stream, work.device))
    for part in _runs(order, work.device[order], work.stream[order]):
        unknown = work.launch[part] < 0
        before_next = np.minimum.accumulate(launch[part][::-1])[::-1]
        launch[part[unknown]] = before_next[unknown]
    return launch


@derived
def streams(trace: Trace) -> tuple[Stream, ...]:
    """All streams of all devices, by number."""
    work, launch = device_work(trace), launch_times(trace)
    order = np.lexsort((work.rows, work.end, work.start, launch, work.stream, work.device)).astype(np.int32)
    return tuple(_stream(work, launch, part) for part in _runs(order, work.device[order], work.stream[order]))


def _stream(work: DeviceWork, launch: Int64s, part: Int32s) -> Stream:
    reach = np.maximum.accumulate(work.end[part])
    is_latest = np.concatenate([[True], reach[1:] > reach[:-1]])
    latest = part[np.maximum.accumulate(np.where(is_latest, np.arange(len(part)), 0))]
    return Stream(int(work.device[part[0]]), int(work.stream[part[0]]), part, launch[part], latest, reach)


@derived
def stream_order(trace: Trace) -> StreamOrder:
    """What was before each piece of device work, on its stream and on the others of its device."""
    work = device_work(trace)
    order = np.lexsort((work.rows, work.end, work.start, work.stream, work.device)).astype(np.int32)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    before, latest = np.full(len(order), NOTHING, np.int32), np.full(len(order), NOTHING, np.int32)
    for part in _runs(order, work.device[order], work.stream[order]):
        found = _ended_last(work, part, position)
        # At one instant several of no duration may end, this one among them: then the one before it in order.
        itself = (found >= 0) & (position[found] >= position[part])
        before[part] = np.where(itself, np.concatenate([[NOTHING], part[:-1]]), found)
    for part in _runs(order, work.device[order]):
        latest[part] = _ended_last(work, part, position)
    other = (latest >= 0) & (work.stream[latest] != work.stream) if len(work) else latest >= 0
    return StreamOrder(position, before, np.where(other, latest, np.int32(NOTHING)))


def _ended_last(work: DeviceWork, part: Int32s, position: Int64s) -> Int32s:
    """Of some work the one that ended last when each of it started, NOTHING if none had ended."""
    ends = part[np.lexsort((position[part], work.end[part]))]
    found = np.searchsorted(work.end[ends], work.start[part], side="right") - 1
    return np.where(found >= 0, ends[found], np.int32(NOTHING))


def _runs(order: NDArray[np.signedinteger], *keys: Int64s) -> list[NDArray[np.signedinteger]]:
    """`order` cut where one of the keys, in this order, changes."""
    changes = np.zeros(max(len(order) - 1, 0), np.bool_)
    for key in keys:
        changes |= np.diff(key) != 0
    return [part for part in np.split(order, np.flatnonzero(changes) + 1) if len(part)]
