"""Device work by stream: the order of its launches, and the work before each piece."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

NO_WORK: Final = -1


@dataclass(frozen=True)
class Stream:
    """The work of a stream in order of launch.

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
        """Number of launches until each time."""
        return np.searchsorted(self.launch, time, side="right")


@dataclass(frozen=True)
class StreamOrder:
    """The work before each piece of device work.

    Attributes:
        position: int64 [work], place in the order of devices, streams and time.
        before: int32 [work], place in `device_work` of what ended last on the same stream before it started.
        elsewhere: int32 [work], the same on the other streams of the device, if that ended later. NO_WORK if there is
            none.
    """

    position: Int64s
    before: Int32s
    elsewhere: Int32s


@derived
def launch_times(trace: Trace) -> Int64s:
    """The launch time of each piece of device work: int64 [work].

    Where it was not recorded, the latest possible: streams keep their order, so it is before the launch of what
    follows on the stream, and before the start.
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
    """The work before each piece of device work, on its stream and on the others of its device."""
    work = device_work(trace)
    order = np.lexsort((work.rows, work.end, work.start, work.stream, work.device)).astype(np.int32)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    before, latest = np.full(len(order), NO_WORK, np.int32), np.full(len(order), NO_WORK, np.int32)
    for part in _runs(order, work.device[order], work.stream[order]):
        ended = _ended_last(work, part, position)
        # At one instant several of no duration may end, this one among them: then the one before it in order.
        itself = (ended >= 0) & (position[ended] >= position[part])
        before[part] = np.where(itself, np.concatenate([[NO_WORK], part[:-1]]), ended)
    for part in _runs(order, work.device[order]):
        latest[part] = _ended_last(work, part, position)
    other = (latest >= 0) & (work.stream[latest] != work.stream) if len(work) else latest >= 0
    return StreamOrder(position, before, np.where(other, latest, np.int32(NO_WORK)))


def _ended_last(work: DeviceWork, part: Int32s, position: Int64s) -> Int32s:
    """The piece among `part` that had ended last when each of it started, NO_WORK if none had."""
    ends = part[np.lexsort((position[part], work.end[part]))]
    place = np.searchsorted(work.end[ends], work.start[part], side="right") - 1
    return np.where(place >= 0, ends[place], np.int32(NO_WORK))


def _runs(order: NDArray[np.signedinteger], *keys: Int64s) -> list[NDArray[np.signedinteger]]:
    """`order` cut where one of the keys, in this order, changes."""
    changes = np.zeros(max(len(order) - 1, 0), np.bool_)
    for key in keys:
        changes |= np.diff(key) != 0
    return [part for part in np.split(order, np.flatnonzero(changes) + 1) if len(part)]
