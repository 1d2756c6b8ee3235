"""The history of a device, played through a replica of the allocator: as it was, and under other settings.

As it was: from the segments and blocks that were there at its beginning, and with its segments, each address that the
replica predicts is compared with the recorded one. The share that agrees is the trust in everything else.

Under other settings: what was there at the beginning is requested anew, in order of address, from an empty allocator;
then follow the requests and frees of the history, and the calls of `empty_cache`. Private pools (of CUDA graphs, say)
reserve what they did.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms import caching_allocator as replica
from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s, rows_of
from kinetoscope.algorithms.caching_allocator import SMALL_BYTES, SMALL_SEGMENT_BYTES
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.snapshot.releases import EMPTIED, releases_of
from kinetoscope.model.snapshot.replay import SnapshotHistory
from kinetoscope.model.snapshot.rounding import rounded
from kinetoscope.model.snapshot.segment_history import SegmentHistory, segments_after
from kinetoscope.model.snapshot.settings import AllocatorSettings, recorded_settings
from kinetoscope.model.snapshot.snapshot import (
    NONE,
    OUT_OF_MEMORY,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    Snapshot,
    private_pools,
)

TRUSTED_SHARE: Final = 0.99
"""Share of predicted addresses below which no number is given."""

_LARGE_REST: Final = SMALL_BYTES
"""A rest up to this is not split off a large block."""

_SEGMENT_OPERATIONS: Final = {
    SEGMENT_ALLOC: replica.SEGMENT_ALLOC,
    SEGMENT_FREE: replica.SEGMENT_FREE,
    SEGMENT_MAP: replica.SEGMENT_MAP,
    SEGMENT_UNMAP: replica.SEGMENT_UNMAP,
}


class Trust(NamedTuple):
    """How many requests of the default pool there are, and of how many the replica predicts the address.

    `private` are requests of private pools, which count in neither.
    """

    requests: int
    predicted: int
    private: int

    @property
    def share(self) -> float | None:
        """Predicted / requests; None without requests."""
        return self.predicted / self.requests if self.requests else None


@dataclass(frozen=True)
class ReplayedAllocator:
    """The outcome of a replay by an allocator with other settings.

    Attributes:
        reserved: most bytes reserved. event: when first; NONE before the history.
        in_use: most bytes of blocks in use, without those of private pools.
        device_allocations, device_frees: calls for memory of the device, and those that free it, in the history.
        retries: how often it emptied its cache because the device had no more.
        failures: requests that failed, those that failed in the record among them.
        failed: the event whose request failed and ends the replay, NONE for one before the history; None if none did.
        levels: int64 [events + 1], bytes reserved before the first event and after each; of the time after `failed` 0.
    """

    reserved: int
    in_use: int
    event: int
    device_allocations: int
    device_frees: int
    retries: int
    failures: int
    failed: int | None
    levels: Int64s = field(repr=False)


def trust_of(snapshot: Snapshot, past: SnapshotHistory, lives: SegmentHistory, *, memory: int | None = None) -> Trust:
    """How well the replica predicts the addresses of a history under the settings that were recorded."""
    settings = recorded_settings(snapshot.settings)
    events, start = past.events, segments_after(lives, NONE)
    size = rounded(past.requested, snapshot.settings)
    rows = _OperationRows(past, size, past.address)
    is_private = private_pools(snapshot)
    pool = np.where(is_private[past.pool], past.pool, NONE)
    is_small = size <= SMALL_BYTES

    early = np.flatnonzero(past.allocated_at == NONE)
    early = early[np.argsort(past.address[early], kind="stable")]
    segment = np.maximum(np.searchsorted(start.address, past.address[early], side="right") - 1, 0)
    if len(start):
        is_small[early] = start.is_small[segment]
        size[early] = _sizes_at_first(snapshot, past, early, start, segment, size[early], settings)
    operations = rows.of_history(past)
    order = np.lexsort(
        (
            np.concatenate([np.zeros(len(start)), np.ones(len(early))]),
            np.concatenate([start.address, past.address[early]]),
        )
    )
    ranges = rows.extend(start.size, start.address)
    first = np.concatenate(
        [
            np.where(start.is_expandable, replica.SEGMENT_MAP, replica.SEGMENT_ALLOC),
            np.full(len(early), replica.PRELOAD),
        ]
    )
    first_rows = np.concatenate([ranges, early])
    changes = np.flatnonzero((events.action >= SEGMENT_ALLOC) & (events.action <= SEGMENT_UNMAP))
    of_changes = rows.extend(events.size[changes], events.address[changes])
    does = np.zeros(len(changes), np.int8)
    for action, operation in _SEGMENT_OPERATIONS.items():
        does[events.action[changes] == action] = operation
    went = releases_of(snapshot, past)
    asking = went.last[(went.reason != EMPTIED) & went.serves].astype(np.int64)
    operations = _Operations.sorted(
        _Operations(np.full(len(order), NONE), first.astype(np.int8)[order], first_rows[order]),
        operations,
        _Operations(changes, does, of_changes),
        _Operations(asking, np.full(len(asking), replica.DEVICE_MALLOC, np.int8), np.zeros(len(asking), np.int64)),
    )
    change_small, change_pool = _of_changes(past, changes, lives, is_small, is_private)
    start_pool = np.where(is_private[start.pool], start.pool, NONE)
    queue, queues, names = _queues(
        np.concatenate([pool, start_pool, change_pool]),
        np.concatenate([past.stream, start.stream, events.stream[changes]]),
        np.concatenate([is_small, start.is_small, change_small]),
    )
    options = _options(settings, memory, None)
    options[replica.FOLLOWS] = 1
    _, hits, _ = rows.play(operations, queue, queues, options)
    default = np.repeat(names == NONE, 2)
    total = hits[default].sum(axis=0)
    return Trust(int(total[0]), int(total[1]), int(hits[~default, 0].sum()))


def replayed(
    snapshot: Snapshot,
    past: SnapshotHistory,
    lives: SegmentHistory,
    settings: AllocatorSettings,
    *,
    memory: int | None = None,
    limit: int | None = None,
    emptied: Int64s | None = None,
    requested: Int64s | None = None,
) -> ReplayedAllocator:
    """Play a history under some settings.

    Args:
        snapshot: the file.
        past: the history of one of its devices.
        lives: the segments of that device.
        settings: those to play it under.
        memory: bytes of the device, which decide how many addresses an expandable segment has; None if not known.
        limit: bytes that the device has for this allocator; None for no limit.
        emptied: int64, events after which `empty_cache` had freed segments.
        requested: int64 [allocations], bytes that are requested instead.
    """
    events = past.events
    is_private = private_pools(snapshot)
    divisions = {"roundup_power2_divisions": settings.roundup_power2_divisions}
    rows = _OperationRows(
        past, rounded(past.requested if requested is None else requested, divisions), np.zeros(len(past), np.int64)
    )
    in_default = ~is_private[past.pool]
    early = np.flatnonzero((past.allocated_at == NONE) & in_default)
    early = early[np.argsort(past.address[early], kind="stable")]
    history = rows.of_history(past, in_default)
    failed = np.flatnonzero((events.action == OUT_OF_MEMORY) & ~is_private[events.pool])
    attempts = rows.extend(rounded(events.size[failed], divisions), np.zeros(len(failed), np.int64))
    reserved, changes, sizes = _reserved_privately(lives, is_private)
    reserves = rows.extend(np.concatenate([[reserved], sizes]), np.zeros(len(sizes) + 1, np.int64))
    emptied = np.zeros(0, np.int64) if emptied is None else emptied
    operations = _Operations.sorted(
        _Operations(np.full(1, NONE), np.full(1, replica.RESERVE, np.int8), reserves[:1]),
        _Operations(np.full(len(early), NONE), np.full(len(early), replica.ALLOC, np.int8), early),
        history,
        _Operations(failed, np.full(len(failed), replica.TRY_ALLOC, np.int8), attempts),
        _Operations(changes, np.full(len(changes), replica.RESERVE, np.int8), reserves[1:]),
        _Operations(emptied, np.full(len(emptied), replica.EMPTY_CACHE, np.int8), np.zeros(len(emptied), np.int64)),
    )
    stream = np.concatenate([past.stream, events.stream[failed], np.zeros(len(reserves), np.int64)])
    size = np.concatenate(rows.size)
    queue, queues, _ = _queues(np.full(len(stream), NONE), stream, size <= SMALL_BYTES)
    state, _, after = rows.play(operations, queue, queues, _options(settings, memory, limit))
    return _result(operations, state, after, len(events))


def device_limit(past: SnapshotHistory, reserved: Int64s) -> int | None:
    """Bytes that the device had for the allocator; None if no request failed, which would show it.

    Of several failures the least: others may have allocated some of the device in between. What was reserved fitted.
    """
    failed = np.flatnonzero(past.events.action == OUT_OF_MEMORY)
    if not len(failed):
        return None
    return int(max((reserved[failed + 1] + past.events.address[failed]).min(), reserved.max()))


def default_pool(snapshot: Snapshot, past: SnapshotHistory) -> SnapshotHistory:
    """A history with the allocations of the default pool only."""
    is_private = private_pools(snapshot)
    if not is_private.any():
        return past
    return rows_of(past, ~is_private[past.pool])


class _Operations(NamedTuple):
    """Operations: int64 the event of each, NONE before the history; int8 what it does; int64 with which row."""

    event: Int64s
    does: Int8s
    row: Int64s

    @staticmethod
    def sorted(*parts: _Operations) -> _Operations:
        """All of them by event; of one event, and before the history, in order of the parts."""
        event, does, row = (np.concatenate([part[column] for part in parts]) for column in range(3))
        order = np.argsort(event, kind="stable")
        return _Operations(event[order], does[order], row[order])


class _OperationRows:
    """The rows that operations refer to: allocations first, then others."""

    def __init__(self, past: SnapshotHistory, size: Int64s, address: Int64s) -> None:
        self.size, self.address, self.count = [size], [address], len(past)

    def extend(self, size: Int64s, address: Int64s) -> Int64s:
        self.size.append(size)
        self.address.append(address)
        self.count += len(size)
        return np.arange(self.count - len(size), self.count)

    @staticmethod
    def of_history(past: SnapshotHistory, chosen: Bools | None = None) -> _Operations:
        """Operations of the history on allocations."""
        # A free that does not wait is one operation.
        waits = (past.free_requested_at != NONE) & (past.free_requested_at + 1 != past.freed_at)
        parts = []
        for event, does, which in (
            (past.allocated_at, replica.ALLOC, past.allocated_at != NONE),
            (past.free_requested_at, replica.FREE_REQUESTED, waits),
            (past.freed_at, replica.FREE_COMPLETED, past.freed_at != NONE),
        ):
            row = np.flatnonzero(which if chosen is None else which & chosen)
            parts.append(_Operations(event[row].astype(np.int64), np.full(len(row), does, np.int8), row))
        return _Operations.sorted(*parts)

    def play(
        self, operations: _Operations, queue: Int32s, queues: int, options: Int64s
    ) -> tuple[Int64s, Int64s, Int64s]:
        size, address = np.concatenate(self.size), np.concatenate(self.address)
        played = replica.AllocatorOperations(operations.does, operations.row.astype(np.int32), size, address, queue)
        return replica.play(played, queues, options)


def _queues(pool: Int64s, stream: Int64s, is_small: Bools) -> tuple[Int32s, int, Int64s]:
    """The queue of each row; how many queues there are; the pool of each pair of them."""
    codes, first = group(pool, stream)
    return (2 * codes + is_small).astype(np.int32), 2 * len(first), pool[first]


def _options(settings: AllocatorSettings, memory: int | None, limit: int | None) -> Int64s:
    options = np.zeros(replica.OPTION_COUNT, np.int64)
    # Expandable segments have 1 1/8 of the addresses that the device has bytes.
    options[replica.SPAN] = replica.LONGEST_SPAN if memory is None else memory + memory // 8
    options[replica.MAX_SPLIT] = settings.max_split_size or replica.UNLIMITED
    options[replica.MAX_ROUNDING] = settings.max_non_split_rounding
    options[replica.EXPANDABLE] = settings.expandable_segments
    options[replica.LIMIT] = replica.UNLIMITED if limit is None else limit
    if limit is not None:
        options[replica.COLLECT_ABOVE] = int(settings.garbage_collection_threshold * limit)
    return options


def _result(operations: _Operations, state: Int64s, after: Int64s, events: int) -> ReplayedAllocator:
    failed_at, peak_at = int(state[replica.FAILED_OPERATION]), int(state[replica.PEAK_OPERATION])
    # The level after an event is that after its last operation, else that of the event before.
    last = np.searchsorted(operations.event, np.arange(NONE, events), side="right") - 1
    levels = np.where(last >= 0, after[np.maximum(last, 0)], 0) if len(after) else np.zeros(events + 1, np.int64)
    return ReplayedAllocator(
        reserved=int(state[replica.PEAK]),
        in_use=int(state[replica.MOST_IN_USE]),
        event=int(operations.event[peak_at]) if len(operations.event) else NONE,
        device_allocations=int(state[replica.SEGMENT_ALLOCS]),
        device_frees=int(state[replica.SEGMENT_FREES]),
        retries=int(state[replica.RETRIES]),
        failures=int(state[replica.FAILURES]),
        failed=int(operations.event[failed_at]) if failed_at >= 0 else None,
        levels=levels,
    )


def _reserved_privately(lives: SegmentHistory, is_private: Bools) -> tuple[int, Int64s, Int64s]:
    """Bytes that private pools had reserved at the beginning; events that changed that, and by how much."""
    ours = rows_of(lives, np.flatnonzero(is_private[lives.pool]))
    begun, ended = ours.allocated_at != NONE, ours.freed_at != NONE
    event = np.concatenate([ours.allocated_at[begun], ours.freed_at[ended]]).astype(np.int64)
    return int(ours.size[~begun].sum()), event, np.concatenate([ours.size[begun], -ours.size[ended]])


def _of_changes(
    past: SnapshotHistory, changes: Int64s, lives: SegmentHistory, is_small: Bools, is_private: Bools
) -> tuple[Bools, Int64s]:
    """Size class and pool of events that change segments.

    What is mapped is for the request behind it; what is unmapped is of the class of what was mapped there.
    """
    events = past.events
    small = events.size[changes] <= SMALL_SEGMENT_BYTES
    pool = events.pool[changes].astype(np.int64)
    requests = past.allocated_at[past.allocated_at != NONE]
    row_of = np.flatnonzero(past.allocated_at != NONE)
    grows = (events.action[changes] == SEGMENT_MAP) & (len(requests) > 0)
    after = np.searchsorted(requests, changes[grows])
    known = after < len(requests)
    which = np.flatnonzero(grows)[known]
    small[which] = is_small[row_of[after[known]]]
    shrinks = events.action[changes] == SEGMENT_UNMAP
    order = np.argsort(lives.freed_at, kind="stable")
    life = np.searchsorted(lives.freed_at[order], changes)
    life = order[np.minimum(life, max(len(order) - 1, 0))] if len(order) else np.zeros(len(changes), np.int64)
    if len(lives):
        small[shrinks] = lives.is_small[life[shrinks]]
    return small, np.where(is_private[pool], pool, NONE)


def _sizes_at_first(
    snapshot: Snapshot,
    past: SnapshotHistory,
    early: Int64s,
    start: SegmentHistory,
    segment: Int64s,
    size: Int64s,
    settings: AllocatorSettings,
) -> Int64s:
    """Bytes of the blocks that were there at the beginning, in order of address: int64.

    Those that are still there have them in the snapshot. Of others in large segments, a rest up to 1 MiB may not have
    been split off: such a block reaches to where the next block ever begins, if that is near.
    """
    size = np.where(past.freed_at[early] == NONE, past.size[early], size)
    address = past.address[early]
    until = start.address[segment] + start.size[segment]
    same = segment[1:] == segment[:-1]
    until[:-1][same] = np.minimum(until[:-1], address[1:])[same]
    begins = np.unique(np.concatenate([past.address, snapshot.blocks.address]))
    end = address + size
    place = np.searchsorted(begins, end)
    following = np.where(place < len(begins), begins[np.minimum(place, len(begins) - 1)], until)
    following = np.minimum(following, until)
    split = settings.max_split_size or replica.UNLIMITED
    rest = np.where(size >= split, settings.max_non_split_rounding, _LARGE_REST)
    unsplit = ~start.is_small[segment] & ~start.is_expandable[segment] & (past.freed_at[early] != NONE)
    return np.where(unsplit & (following - end <= rest), np.maximum(following - address, size), size)
