"""The allocations of a history and the levels of memory, by an exact replay backwards from the snapshot's state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, any_of, scattered
from kinetoscope.algorithms.grouping import group
from kinetoscope.algorithms.lifetimes import NO_EVENT, undo
from kinetoscope.model.memory.record import Level
from kinetoscope.model.snapshot.of_trace import known_snapshot, snapshot_of, time_apart
from kinetoscope.model.snapshot.rounding import rounded
from kinetoscope.model.snapshot.snapshot import (
    FREE_COMPLETED,
    FREE_REQUESTED,
    GROWING,
    INACTIVE,
    NONE,
    PENDING_FREE,
    SHRINKING,
    Snapshot,
    SnapshotEvents,
)
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

_ROUND_NUMBER: Final = 1000
"""Of such a multiple is the `max_entries` of a history that people give."""


@dataclass(frozen=True)
class SnapshotHistory:
    """One device: its events and its allocations, those from before the history first, then in order of their event.

    An allocation is one request. Columns of `allocations` rows:

    Attributes:
        device: number of the device.
        events: its history.
        address, requested: int64, where, and bytes requested.
        size: int64, bytes as rounded: exactly what it has where it is still there; else by the rules of rounding,
            without the rest of a large block that is too small to be split off (up to 1 MiB).
        stream: int64, the stream that it was allocated on; of those from before the history the one of their segment.
        pool: int32, row of `Snapshot.pools`: of the event, else of the segment that now has the address; else NONE.
        stack: int32, of the request; NONE where it was not recorded.
        allocated_at: int32, event of `alloc`; NONE before the history.
        free_requested_at: int32, event from which on its free waits or is completed; NONE.
        freed_at: int32, event of `free_completed`; NONE where it is still there.
        impossible: events that do not fit the state, such as the free of what is not there.
    """

    device: int
    events: SnapshotEvents
    address: Int64s
    requested: Int64s
    size: Int64s
    stream: Int64s
    pool: Int32s
    stack: Int32s
    allocated_at: Int32s
    free_requested_at: Int32s
    freed_at: Int32s
    impossible: int

    def __len__(self) -> int:
        return len(self.address)

    @property
    def is_truncated(self) -> bool:
        """True if the ring of entries was probably full: a round number of events, and frees of what came before."""
        early = bool(((self.allocated_at == NONE) & (self.freed_at != NONE)).any())
        return early and len(self.events) > 0 and len(self.events) % _ROUND_NUMBER == 0

    def active_after(self, event: int) -> Bools:
        """Allocations whose free is not completed after an event (−1: before all of them): bool [allocations]."""
        active = np.zeros(len(self), np.bool_)
        begun = int(np.searchsorted(self.allocated_at, event, side="right"))  # they are in order of it
        # As unsigned numbers NONE is above all events.
        active[:begun] = event < 0 or self.freed_at[:begun].view(np.uint32) > np.uint32(max(event, 0))
        return active


def histories(trace: Trace) -> list[SnapshotHistory]:
    """The history of each device in the last snapshot of the trace's rank; none without one."""
    snapshot = snapshot_of(trace)
    return [history(trace, device) for device in (() if snapshot is None else snapshot.devices)]


@derived
def history(trace: Trace, device: int) -> SnapshotHistory:
    """The history of a device that the last snapshot of the trace's rank has.

    Where it shares no instant with the trace, its events have no times: they would be none of the trace's.
    """
    past = history_of(known_snapshot(trace), device)
    if not time_apart(trace):
        return past
    nowhen = np.broadcast_to(np.array(NONE, np.int64), (len(past.events),))
    return replace(past, events=replace(past.events, time=nowhen))


def history_of(snapshot: Snapshot, device: int) -> SnapshotHistory:
    """The history of a device."""
    segments, blocks = snapshot.segments, snapshot.blocks
    events = snapshot.events[device] if device < len(snapshot.events) else _no_events()
    segment = np.repeat(np.arange(len(segments), dtype=np.int32), np.diff(segments.first_block))
    here = np.flatnonzero((blocks.state != INACTIVE) & (segments.device[segment] == device))
    codes, distinct = group(np.concatenate([blocks.address[here], events.address]))
    live = scattered(len(distinct), codes[: len(here)], np.arange(len(here)), np.int32)
    room = len(here) + int((events.action == FREE_COMPLETED).sum())
    allocated_at, requested, freed_at = (np.full(room, NO_EVENT, np.int32) for _ in range(3))
    at = np.array([len(here), 0], np.int64)
    undo(events.action, codes[len(here) :], live, allocated_at, requested, freed_at, at)  # numbered as ACTIONS are
    count = int(at[0])
    order = np.argsort(allocated_at[:count], kind="stable").astype(np.int32)
    allocated_at, requested, freed_at = allocated_at[order], requested[order], freed_at[order]
    known = np.where(allocated_at != NO_EVENT, allocated_at, freed_at)  # an event with the address; −1: only the block
    still = np.minimum(order, max(len(here) - 1, 0))
    block = here[still] if len(here) else np.zeros(count, np.int64)
    is_there = order < len(here)

    def column(of_event: Int64s, of_block: Int64s) -> Int64s:
        """Values of the block where the allocation is there, else of its event."""
        from_event = of_event[known] if len(of_event) else np.zeros(count, np.int64)
        return np.where(is_there, of_block[block], from_event) if len(of_block) else from_event

    sizes = column(events.size, blocks.requested)
    address = column(events.address, blocks.address)
    stack = np.where(allocated_at != NO_EVENT, events.stack[allocated_at] if len(events) else NONE, NONE)
    stack = np.where(is_there & (stack == NONE), blocks.stack[block] if len(here) else NONE, stack)
    by_address = _segment_at(snapshot, device, address)
    stream, pool = (
        np.where(by_address >= 0, each[by_address] if len(each) else NONE, NONE)
        for each in (segments.stream, segments.pool)
    )
    if len(events):
        stream = np.where(known != NO_EVENT, events.stream[known], stream)
        pool = np.where((known != NO_EVENT) & (events.pool[known] != NONE), events.pool[known], pool)
    rounded_size = rounded(sizes, snapshot.settings)
    return SnapshotHistory(
        device,
        events,
        address,
        sizes,
        np.where(is_there, blocks.size[block], rounded_size) if len(here) else rounded_size,
        stream.astype(np.int64),
        pool.astype(np.int32),
        stack.astype(np.int32),
        allocated_at,
        requested,
        freed_at,
        int(at[1]),
    )


@derived
def level(trace: Trace, device: int, of: Level) -> Int64s:
    """Bytes before the first event and after each: int64 [events + 1]."""
    return level_of(known_snapshot(trace), history(trace, device), of)


def level_of(snapshot: Snapshot, past: SnapshotHistory, of: Level) -> Int64s:
    """The level in one history; see `level`."""
    events = past.events
    changes = np.zeros(len(events) + 1, np.int64)
    if of == "reserved":
        grows, shrinks = (any_of(events.action, which) for which in (GROWING, SHRINKING))
        changes[1:] = np.where(grows, events.size, np.where(shrinks, -events.size, 0))
        held = int(snapshot.segments.size[snapshot.segments.device == past.device].sum())
        changes[0] = held - int(changes[1:].sum())
        return np.cumsum(changes)
    size = past.requested if of == "requested" else past.size
    end = past.freed_at
    if of == "allocated":
        end = np.where(past.free_requested_at != NONE, past.free_requested_at, end)
    changes[0] = int(size[past.allocated_at == NONE].sum())
    is_allocated, is_over = past.allocated_at != NONE, end != NONE
    if of == "allocated":  # what waited before the history began is of no event
        waiting = waiting_since_before(snapshot, past)
        changes[0] -= int(size[waiting].sum())
        is_over &= ~waiting
    changes[past.allocated_at[is_allocated] + 1] = size[is_allocated]
    np.subtract.at(changes, end[is_over] + 1, size[is_over])
    return np.cumsum(changes)


def waiting_since_before(snapshot: Snapshot, past: SnapshotHistory) -> Bools:
    """Allocations whose free was requested before the history began."""
    before = int(np.searchsorted(past.allocated_at, 0))  # they come first
    is_pending = np.isin(past.address[:before], snapshot.blocks.address[snapshot.blocks.state == PENDING_FREE])
    is_unrequested = past.free_requested_at[:before] == NONE
    if not (past.events.action == FREE_REQUESTED).any():  # not recorded (`skip_actions`)
        is_unrequested &= is_pending
    waiting = np.zeros(len(past), np.bool_)
    waiting[:before] = is_unrequested & ((past.freed_at[:before] != NONE) | is_pending)
    return waiting


def _segment_at(snapshot: Snapshot, device: int, address: Int64s) -> Int32s:
    """The segment that has each address at the end: int32, −1 for none."""
    segments = snapshot.segments
    here = np.flatnonzero(segments.device == device)
    if not len(here):
        return np.full(len(address), -1, np.int32)
    here = here[np.argsort(segments.address[here], kind="stable")]
    place = np.searchsorted(segments.address[here], address, side="right") - 1
    row = here[np.maximum(place, 0)]
    is_inside = (place >= 0) & (address < segments.address[row] + segments.size[row])
    return np.where(is_inside, row, -1).astype(np.int32)


def _no_events() -> SnapshotEvents:
    """An empty history."""
    none32, none64 = np.zeros(0, np.int32), np.zeros(0, np.int64)
    return SnapshotEvents(
        np.zeros(0, np.int8), none64, none64, none64, none64, none32, none32, none32, none32, none32, none32
    )
