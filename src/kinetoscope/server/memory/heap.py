"""The heap of a device at an instant: its segments in groups, what lies in them, and a sentence about it."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.grouping import group_in_order
from kinetoscope.model.memory.categories import CATEGORIES
from kinetoscope.model.snapshot.bands import categories, event_instants
from kinetoscope.model.snapshot.heap import Heap, heap_of
from kinetoscope.model.snapshot.of_trace import known_snapshot
from kinetoscope.model.snapshot.replay import SnapshotHistory
from kinetoscope.model.snapshot.segment_history import SegmentHistory, segment_history
from kinetoscope.model.snapshot.snapshot import NONE, Snapshot
from kinetoscope.model.trace.trace import Trace
from kinetoscope.pages.sentences.heap import heap_sentences
from kinetoscope.server.http.endpoint import JsonResponse, rows_response
from kinetoscope.server.memory.answers import HeapSegments, MemoryHeap
from kinetoscope.views.numbers import shown

MAX_PIECES: Final = 200_000
"""Blocks and holes of a picture."""

HOLE: Final = -1
"""Category of a piece that nothing has."""


def heap_answer(trace: Trace, past: SnapshotHistory, event: int, pieces: int) -> JsonResponse[MemoryHeap]:
    """The heap after an event.

    Neighbours of one category that are each too small to be seen are one row, whose allocation is the first of them.
    """
    snapshot = known_snapshot(trace)
    state = heap_of(snapshot, past, segment_history(trace, past.device), event)
    instants = event_instants(trace, past.device)
    group, names = _groups(snapshot, state)
    segments, frame = state.segments, _pieces(trace, past, state, pieces)
    category = frame["category"].to_numpy()
    sizes = frame["requested"].to_numpy()
    head = MemoryHeap(
        event=event,
        time=int(instants[event]) if event >= 0 and len(instants) else None,
        sentence=" ".join(heap_sentences(trace, snapshot, past, state, event)),
        groups=names,
        segments=HeapSegments(
            address=[f"0x{address:x}" for address in segments.address.tolist()],
            size=segments.size.tolist(),
            group=group.tolist(),
            allocated_at=segments.allocated_at.tolist(),
            expandable=segments.is_expandable.tolist(),
        ),
        bytes={
            name: int(sizes[category == place].sum())
            for place, name in enumerate(CATEGORIES)
            if (category == place).any()
        },
    )
    return rows_response(head, frame)


def _pieces(trace: Trace, past: SnapshotHistory, state: Heap, limit: int) -> pl.DataFrame:
    is_block = ~state.is_hole
    row = np.maximum(state.allocation, 0)
    category = np.full(len(state), HOLE, np.int64)
    requested = np.zeros(len(state), np.int64)
    if len(past):
        category[is_block] = categories(trace, past.device)[row[is_block]]
        requested[is_block] = past.requested[row[is_block]]
    offset = state.address - state.segments.address[state.segment] if len(state) else state.address
    first = np.arange(len(state))
    if len(state) > limit:
        is_small = state.size < int(state.size.sum()) // limit
        joins = (
            is_small[1:] & is_small[:-1] & (category[1:] == category[:-1]) & (state.segment[1:] == state.segment[:-1])
        )
        first = np.flatnonzero(np.concatenate([[True], ~joins]))
    counts = np.diff(np.append(first, len(state)))
    return pl.DataFrame(
        {
            "segment": state.segment[first],
            "offset": offset[first],
            "size": np.add.reduceat(state.size, first) if len(first) else state.size,
            "requested": np.add.reduceat(requested, first) if len(first) else requested,
            "category": category[first],
            "allocation": state.allocation[first],
            "count": counts,
            "pending": state.is_pending[first],
        }
    )


def _groups(snapshot: Snapshot, state: Heap) -> tuple[Int64s, list[str]]:
    """The group of each segment: its pool and stream, the largest group first."""
    segments = state.segments
    if not len(segments):
        return np.zeros(0, np.int64), []
    codes, of = group_in_order(segments.pool, segments.stream, segments.is_small.astype(np.int8))
    size, free = (np.bincount(codes, weights) for weights in (segments.size, state.bytes_of(state.is_hole)))
    order = np.argsort(-size, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    streams = len(np.unique(segments.stream)) > 1
    names = [
        f"{_name(snapshot, segments, int(of[each]), streams)} · {shown(size[each], 'bytes')}, "
        f"{shown(free[each], 'bytes')} not in use"
        for each in order.tolist()
    ]
    return place[codes], names


def _name(snapshot: Snapshot, segments: SegmentHistory, at: int, streams: bool) -> str:
    pool, stream = int(segments.pool[at]), int(segments.stream[at])
    words = "Small blocks" if segments.is_small[at] else "Large blocks"
    if pool != NONE and snapshot.pools[pool] != (0, 0):
        words += f", private pool {snapshot.pools[pool]}"
    return f"{words}, stream {f'0x{stream:x}' if stream else 'default'}" if streams else words
