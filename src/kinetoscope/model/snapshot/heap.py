"""The heap of a device at any instant: its segments, the allocations in them, and the holes between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.caching_allocator import LARGE_SEGMENT_BYTES, SMALL_BYTES, SMALL_SEGMENT_BYTES
from kinetoscope.algorithms.grouping import sum_by
from kinetoscope.model.snapshot.of_trace import known_snapshot
from kinetoscope.model.snapshot.replay import SnapshotHistory, history, waiting_since_before
from kinetoscope.model.snapshot.segment_history import SegmentHistory, segment_history, segments_after
from kinetoscope.model.snapshot.snapshot import NONE, Snapshot
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace


@dataclass(frozen=True)
class Heap:
    """Pieces of segments in order of address: allocations, and the holes between them.

    Attributes:
        segments: those that are reserved.
        first: int32 [segments + 1], where the pieces of each segment begin.
        segment: int32 [pieces], which each lies in.
        address, size: int64 [pieces], bytes; an allocation has what could not be split off behind it.
        allocation: int32 [pieces], row of the history; NONE of a hole.
        is_pending: bool [pieces], its free waits for another stream, or for the end of a capture.
        strays: allocations that lie in no segment that is known, or in another one; they are left out.
    """

    segments: SegmentHistory
    first: Int32s
    segment: Int32s
    address: Int64s
    size: Int64s
    allocation: Int32s
    is_pending: Bools
    strays: int

    def __len__(self) -> int:
        return len(self.size)

    @property
    def is_hole(self) -> Bools:
        """Pieces that no allocation has: bool [pieces]."""
        return np.equal(self.allocation, NONE)

    def bytes_of(self, which: Bools) -> Int64s:
        """Bytes of some of the pieces, of each segment: int64 [segments]."""
        total = np.concatenate([[0], np.cumsum(np.where(which, self.size, 0))])
        return np.diff(total[self.first]).astype(np.int64)


@derived
def heap(trace: Trace, device: int, event: int) -> Heap:
    """The heap after an event (−1: before all of them)."""
    return heap_of(known_snapshot(trace), history(trace, device), segment_history(trace, device), event)


def heap_of(
    snapshot: Snapshot, past: SnapshotHistory, lives: SegmentHistory, event: int, *, late_since: int | None = None
) -> Heap:
    """The heap after an event, of a history and its segments.

    Allocations that waited, and were freed after the event `late_since`, are still there where their segment is.
    """
    segments = segments_after(lives, event)
    alive = past.active_after(event)
    late = np.zeros(len(past), np.bool_)
    if late_since is not None:
        late = (past.freed_at > late_since) & (past.freed_at <= event) & (past.allocated_at <= late_since)
        late &= past.freed_at != past.free_requested_at + 1  # nothing waited for
    live = np.flatnonzero(alive | late)
    live = live[np.argsort(past.address[live], kind="stable")]
    address, size = past.address[live], past.size[live]
    place = np.searchsorted(segments.address, address, side="right") - 1
    end = segments.address + segments.size
    fits = place >= 0
    fits[fits] = (address + size)[fits] <= end[place[fits]]
    fits[1:] &= (address[1:] >= (address + size)[:-1]) | ~fits[:-1]  # of two in one place the first counts
    strays = int((~fits & ~late[live]).sum())
    live, place, address, size = live[fits], place[fits], address[fits], size[fits]
    # A hole begins with each segment and behind each allocation, and ends where the next of either begins.
    following = np.concatenate([address[1:], [0]]) if len(address) else address
    is_last = np.concatenate([place[1:] != place[:-1], [True]]) if len(place) else np.zeros(0, np.bool_)
    rest = np.where(is_last, end[place], following) - (address + size)
    # A large block keeps a rest of up to 1 MiB: holes between large blocks are larger.
    unsplit = (rest <= SMALL_BYTES) & ~segments.is_small[place] & ~segments.is_expandable[place]
    size = size + np.where(unsplit, rest, 0)
    rest = np.where(unsplit, 0, rest)
    head = end.copy() - segments.address
    is_first = np.concatenate([[True], place[1:] != place[:-1]]) if len(place) else np.zeros(0, np.bool_)
    head[place[is_first]] = address[is_first] - segments.address[place[is_first]]
    holes = [np.flatnonzero(each > 0) for each in (head, rest)]
    where = np.concatenate([address, segments.address[holes[0]], (address + size)[holes[1]]])
    order = np.argsort(where, kind="stable")
    segment = np.concatenate([place, holes[0], place[holes[1]]])[order].astype(np.int32)
    none = np.full(len(holes[0]) + len(holes[1]), NONE)
    requested = past.free_requested_at[live]
    waits = late[live] | ((requested != NONE) & (requested <= event)) | waiting_since_before(snapshot, past)[live]
    return Heap(
        segments=segments,
        first=np.searchsorted(segment, np.arange(len(segments) + 1)).astype(np.int32),
        segment=segment,
        address=where[order],
        size=np.concatenate([size, head[holes[0]], rest[holes[1]]])[order],
        allocation=np.concatenate([live, none])[order].astype(np.int32),
        is_pending=np.concatenate([waits, none == 0])[order],
        strays=strays,
    )


def releasable_bytes(state: Heap) -> Int64s:
    """Bytes of each segment that could go back to the device: all of it, or its idle granules if it is expandable.

    Returns:
        int64 [segments].
    """
    segments, used = state.segments, state.bytes_of(~state.is_hole)
    whole = np.where(used == 0, segments.size, 0)
    growing = segments.is_expandable[state.segment] & state.is_hole & (used > 0)[state.segment]
    place = np.flatnonzero(growing)
    granule = np.where(segments.is_small[state.segment[place]], SMALL_SEGMENT_BYTES, LARGE_SEGMENT_BYTES)
    start = segments.address[state.segment[place]]
    begin = -(-(state.address[place] - start) // granule)
    end = (state.address[place] + state.size[place] - start) // granule
    idle = np.maximum(end - begin, 0) * granule
    return whole + sum_by(state.segment[place], len(segments), idle)
