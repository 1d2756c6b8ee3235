"""Memory that is reserved and nobody uses, over a history: releasable, split off, kept by pools, lost to rounding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s, rows_of
from kinetoscope.algorithms.caching_allocator import LARGE_SEGMENT_BYTES
from kinetoscope.algorithms.idle_segments import ALLOC, FREE, SEGMENT_ALLOC, SEGMENT_FREE, idle_levels
from kinetoscope.model.snapshot.of_trace import known_snapshot
from kinetoscope.model.snapshot.replay import SnapshotHistory, history, level
from kinetoscope.model.snapshot.segment_history import GRANULE_BYTES, SegmentHistory, segment_history
from kinetoscope.model.snapshot.snapshot import DEFAULT_POOL, NONE, Snapshot
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

MAX_SEGMENTS_AT_ONCE: Final = 1 << 17
"""Segments and granules that a device can have at one time; a file with more is wrong, and nothing counts as idle."""


def default_pools(snapshot: Snapshot) -> Int64s:
    """Rows of the default pool: NONE stands for it, too, where the record does not say (before torch 2.11)."""
    return np.array([NONE, *(row for row, pool in enumerate(snapshot.pools) if pool == DEFAULT_POOL)], np.int64)


@dataclass(frozen=True)
class UnusedLevels:
    """Bytes before the first event of a history and after each: int64 [events + 1].

    Attributes:
        releasable: of segments of the default pool, or granules of expandable ones, of which nothing is in use:
            `empty_cache` frees them.
        split: of the default pool's other segments what is not in use: it cannot be freed. torch's statistic
            `inactive_split_bytes` has the same, but for expandable segments.
        private: what is not in use of the pools of CUDA graphs and `MemPool`s.
    """

    releasable: Int64s
    split: Int64s
    private: Int64s


@derived
def unused_levels(trace: Trace, device: int) -> UnusedLevels:
    """The levels of a device."""
    past, lives, default = history(trace, device), segment_history(trace, device), default_pools(known_snapshot(trace))
    private = _private_levels(past, lives, default)
    releasable = _releasable(past, rows_of(lives, np.isin(lives.pool, default)))
    unused = level(trace, device, "reserved") - level(trace, device, "active")
    return UnusedLevels(releasable, unused - private - releasable, private)


def _private_levels(past: SnapshotHistory, lives: SegmentHistory, default: Int64s) -> Int64s:
    """Bytes that private pools reserve, less what is in use there."""
    changes = np.zeros(len(past.events) + 1, np.int64)
    if np.isin(lives.pool, default).all():
        return changes
    for size, pool, allocated_at, freed_at, sign in (
        (lives.size, lives.pool, lives.allocated_at, lives.freed_at, 1),
        (past.size, past.pool, past.allocated_at, past.freed_at, -1),
    ):
        which = ~np.isin(pool, default)
        for event, towards in ((allocated_at[which], sign), (freed_at[which], -sign)):
            counts = (event != NONE) | (towards == sign)  # what was not freed is of no event
            np.add.at(changes, event[counts] + 1, towards * size[which][counts])
    return np.cumsum(changes)


def _releasable(past: SnapshotHistory, lives: SegmentHistory) -> Int64s:
    levels = np.zeros(len(past.events) + 1, np.int64)
    units = _units(lives)
    ended = units.freed_at != NONE
    there = np.bincount(units.allocated_at + 1, minlength=len(levels)) - np.bincount(
        units.freed_at[ended] + 1, minlength=len(levels)
    )
    if np.cumsum(there).max() > MAX_SEGMENTS_AT_ONCE:
        return levels
    gone = past.freed_at != NONE
    parts = (
        (SEGMENT_ALLOC, units.address, units.size, units.allocated_at),
        (ALLOC, past.address, past.size, past.allocated_at),
        (FREE, past.address[gone], past.size[gone], past.freed_at[gone]),
        (SEGMENT_FREE, units.address[ended], units.size[ended], units.freed_at[ended]),
    )
    does = np.concatenate([np.full(len(part[1]), part[0], np.int8) for part in parts])
    address, size, event = (np.concatenate([part[place] for part in parts]) for place in (1, 2, 3))
    order = np.argsort(event, kind="stable")  # of one event in the order of `parts`
    starts, sizes, used = (np.zeros(len(units), np.int64) for _ in range(3))
    when = event[order].astype(np.int32)
    idle_levels(does[order], address[order], size[order], when, starts, sizes, used, levels)
    return levels


def _units(lives: SegmentHistory) -> SegmentHistory:
    """Units that the allocator can free by themselves: segments, and granules of 2 MiB or 20 MiB of expandable ones."""
    order = np.lexsort((lives.address, lives.allocated_at))
    lives = rows_of(lives, order)
    if not len(lives):
        return lives
    is_piece = lives.is_expandable & ~lives.is_small
    follows: Bools = np.zeros(len(lives), np.bool_)
    follows[1:] = is_piece[1:] & is_piece[:-1] & (lives.allocated_at[1:] == lives.allocated_at[:-1])
    follows[1:] &= lives.address[1:] == (lives.address + lives.size)[:-1]
    run = np.cumsum(~follows) - 1
    place = np.arange(len(lives)) - np.flatnonzero(~follows)[run]
    first = np.flatnonzero(~follows | (place % (LARGE_SEGMENT_BYTES // GRANULE_BYTES) == 0))
    return replace(rows_of(lives, first), size=np.add.reduceat(lives.size, first))
