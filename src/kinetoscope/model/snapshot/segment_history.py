"""The segments that an allocator had reserved on its device at any instant of its history.

A segment of cudaMalloc has a life as an allocation has. An expandable one grows and shrinks by granules; each granule
has a life, and what is mapped without a gap is one segment, as in a snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, any_of, rows_of, scattered
from kinetoscope.algorithms.grouping import group
from kinetoscope.algorithms.lifetimes import ALLOC, FREE_COMPLETED, NO_EVENT, undo
from kinetoscope.model.snapshot.of_trace import known_snapshot
from kinetoscope.model.snapshot.replay import SnapshotHistory, history
from kinetoscope.model.snapshot.snapshot import GROWING, NONE, SEGMENT_MAP, SEGMENT_UNMAP, SHRINKING, Snapshot
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

GRANULE_BYTES: Final = 2 << 20
"""What expandable segments are mapped by, and the size of a segment of the small pool (kSmallBuffer)."""

MAX_GRANULES: Final = 1 << 22
"""Granules of all ranges of a history up to which they are told apart: 8 TiB that were mapped; more of long ones."""

_GRANULES_OF_A_RANGE: Final = 64
"""Granules of a range, on average, up to which those of a long history are told apart."""


@dataclass(frozen=True)
class SegmentHistory:
    """Segments of a device, or granules of expandable ones.

    Attributes:
        address, size: int64, bytes.
        stream: int64, the pointer of the CUDA stream.
        pool: int32, row of `Snapshot.pools`; NONE where neither the event nor the snapshot says.
        is_small: bool, of the pool of requests up to 1 MiB; of what was freed by the size that it was allocated in.
        is_expandable: bool.
        stack: int32, of the request that allocated it on the device; NONE where it was not recorded.
        allocated_at, freed_at: int32, the event that allocated and that freed it; NONE before and after the history.
    """

    address: Int64s
    size: Int64s
    stream: Int64s
    pool: Int32s
    is_small: Bools
    is_expandable: Bools
    stack: Int32s
    allocated_at: Int32s
    freed_at: Int32s

    def __len__(self) -> int:
        return len(self.address)


@derived
def segment_history(trace: Trace, device: int) -> SegmentHistory:
    """All segments and granules that were ever reserved, in no order."""
    return segment_history_of(known_snapshot(trace), history(trace, device))


def segment_history_of(snapshot: Snapshot, past: SnapshotHistory) -> SegmentHistory:
    """The segments in one history; see `segment_history`."""
    segments, events = snapshot.segments, past.events
    here = np.flatnonzero(segments.device == past.device)
    of_events = np.flatnonzero(any_of(events.action, (*GROWING, *SHRINKING)))
    action = events.action[of_events]
    by_granule = any_of(action, (SEGMENT_MAP, SEGMENT_UNMAP))
    last = _pieces(segments.address[here], segments.size[here], segments.is_expandable[here])
    past_ones = _pieces(events.address[of_events], events.size[of_events], by_granule)
    keys, _ = group(np.concatenate([last.address, past_ones.address]))
    count, event = len(last.address), of_events[past_ones.of]
    is_free = any_of(events.action[event], SHRINKING)
    does = np.where(is_free, FREE_COMPLETED, ALLOC).astype(np.int8)
    live = np.full(int(keys.max(initial=-1)) + 1, NO_EVENT, np.int32)
    live[keys[:count]] = np.arange(count, dtype=np.int32)
    allocated_at, waits, freed_at = (np.full(count + int(is_free.sum()), NO_EVENT, np.int32) for _ in range(3))
    at = np.array([count, 0], np.int64)
    undo(does, keys[count:].astype(np.int32), live, allocated_at, waits, freed_at, at)
    rows = int(at[0])
    # Where each comes from: a segment of the last state, else the event that freed it.
    piece = np.concatenate([np.arange(count), count + freed_at[count:rows]])
    segment = here[last.of]

    def column(of_last: NDArray[Any], of_past: NDArray[Any]) -> NDArray[Any]:
        values: NDArray[Any] = np.concatenate([of_last, of_past])[piece]
        return values

    begins, ends = (_events_at(event, each[:rows]) for each in (allocated_at, freed_at))
    stack = column(segments.stack[segment], np.full(len(event), NONE))
    begun = begins != NONE
    stack[begun] = events.stack[begins[begun]]
    is_small = column(segments.is_small[segment], events.size[event] <= GRANULE_BYTES)
    guessed = begun & (piece >= count)
    is_small[guessed] = events.size[begins[guessed]] <= GRANULE_BYTES
    return SegmentHistory(
        address=column(last.address, past_ones.address),
        size=column(last.size, past_ones.size),
        stream=column(segments.stream[segment], events.stream[event]),
        pool=column(segments.pool[segment], events.pool[event]).astype(np.int32),
        is_small=is_small,
        is_expandable=column(segments.is_expandable[segment], by_granule[past_ones.of]),
        stack=stack.astype(np.int32),
        allocated_at=begins.astype(np.int32),
        freed_at=ends.astype(np.int32),
    )


def _events_at(event: Int64s, places: Int32s) -> Int64s:
    """The event of each piece; NONE where it has none."""
    return scattered(len(places), places != NO_EVENT, event[places[places != NO_EVENT]], np.int64)


class _Granules(NamedTuple):
    """Ranges cut into granules, the others whole: int64 [pieces] each; `of` is the range."""

    of: Int64s
    address: Int64s
    size: Int64s


def _pieces(address: Int64s, size: Int64s, by_granule: Bools) -> _Granules:
    counts = np.where(by_granule, np.maximum(-(-size // GRANULE_BYTES), 0), 1)
    most = max(MAX_GRANULES, _GRANULES_OF_A_RANGE * len(address))
    if counts.sum(dtype=np.float64) > most:  # no device has as much memory; a wrong file may say so
        by_granule, counts = np.zeros_like(by_granule), np.ones_like(counts)
    of = np.repeat(np.arange(len(address)), counts)
    offset = (np.arange(len(of)) - (np.cumsum(counts) - counts)[of]) * GRANULE_BYTES
    rest = size[of] - offset
    return _Granules(of, address[of] + offset, np.where(by_granule[of], np.minimum(rest, GRANULE_BYTES), rest))


def segments_after(lives: SegmentHistory, event: int) -> SegmentHistory:
    """Segments reserved after an event (−1: before all of them), by address; `allocated_at` is of the first granule."""
    alive = rows_of(lives, (lives.allocated_at <= event) & ((lives.freed_at == NONE) | (lives.freed_at > event)))
    alive = rows_of(alive, np.argsort(alive.address, kind="stable"))
    if not len(alive):
        return alive
    joins = alive.is_expandable[1:] & alive.is_expandable[:-1]
    joins &= alive.address[1:] == alive.address[:-1] + alive.size[:-1]
    joins &= (alive.stream[1:] == alive.stream[:-1]) & (alive.pool[1:] == alive.pool[:-1])
    joins &= alive.is_small[1:] == alive.is_small[:-1]
    first = np.flatnonzero(np.concatenate([[True], ~joins]))
    return replace(rows_of(alive, first), size=np.add.reduceat(alive.size, first))
