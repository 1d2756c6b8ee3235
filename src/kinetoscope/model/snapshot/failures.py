"""Requests that failed, as a snapshot's history has them: what was free then, and which allocations were in the way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, any_of
from kinetoscope.algorithms.caching_allocator import LARGE_SEGMENT_BYTES, SMALL_BYTES, SMALL_SEGMENT_BYTES
from kinetoscope.model.device.hardware import devices
from kinetoscope.model.memory.failed_requests import FailedRequest, Verdict
from kinetoscope.model.snapshot.fragmentation import default_pools
from kinetoscope.model.snapshot.heap import Heap, heap_of
from kinetoscope.model.snapshot.of_trace import known_snapshot
from kinetoscope.model.snapshot.replay import SnapshotHistory, history, level
from kinetoscope.model.snapshot.rounding import rounded, segment_bytes
from kinetoscope.model.snapshot.segment_history import segment_history
from kinetoscope.model.snapshot.snapshot import FREE_COMPLETED, NONE, OUT_OF_MEMORY, SHRINKING, Snapshot
from kinetoscope.model.trace.strings import json_object
from kinetoscope.model.trace.trace import Trace

OUT_OF_MEMORY_NOTE: Final = "out of memory "
"""Beginning of the annotation, followed by JSON, in which our recorder notes what the device had."""

_MAX_RELEASES: Final = 1 << 16
"""Events before a failed request that are looked at for what the allocator freed."""


@dataclass(frozen=True)
class RefusedRequest:
    """One request that failed.

    Attributes:
        event: its place in the history.
        request: what is known of it.
        heap: its segments then.
        right: bool [segments], those of its pool, stream and size class: only they could serve it.
        private: bool [segments], of pools of CUDA graphs or `MemPool`s.
        rounded: bytes as rounded.
        stream: the pointer of its CUDA stream.
        pool: row of `Snapshot.pools`; NONE where the record does not say.
    """

    event: int
    request: FailedRequest
    heap: Heap
    right: Bools
    private: Bools
    rounded: int
    stream: int
    pool: int

    @property
    def largest(self) -> int:
        """Bytes of the largest hole in the segments that could serve it."""
        holes = self.heap.is_hole & self.right[self.heap.segment]
        return int(self.heap.size[holes].max(initial=0))


def failures(trace: Trace, device: int, limit: int) -> tuple[RefusedRequest, ...]:
    """The last `limit` requests of a device that failed, in order of time."""
    snapshot, past = known_snapshot(trace), history(trace, device)
    events = np.flatnonzero(past.events.action == OUT_OF_MEMORY)
    reserved = level(trace, device, "reserved")
    had = int(max((reserved[events + 1] + past.events.address[events]).max(initial=0), reserved.max()))
    total = total_memory(trace, snapshot, device)
    failed = (_failure(trace, snapshot, past, event) for event in events[-limit:].tolist())
    return tuple(replace(each, request=replace(each.request, most_reserved=had, total=total)) for each in failed)


def total_memory(trace: Trace, snapshot: Snapshot, device: int) -> int | None:
    """Memory of the device: as the recorder notes when memory runs out, else as the trace lists the device."""
    for code in np.unique(snapshot.annotations.name)[::-1].tolist():
        name = snapshot.strings.label(code)
        if name.startswith(OUT_OF_MEMORY_NOTE):
            facts = json_object(name.removeprefix(OUT_OF_MEMORY_NOTE))
            if facts.get("device") == device and isinstance(facts.get("total"), int):
                return int(facts["total"])
    return next((each.memory for each in devices(trace) if each.number == device and each.memory), None)


def _failure(trace: Trace, snapshot: Snapshot, past: SnapshotHistory, event: int) -> RefusedRequest:
    state = heap_of(snapshot, past, segment_history(trace, past.device), event, late_since=_searched_at(past, event))
    requested, stream, pool = (int(each[event]) for each in (past.events.size, past.events.stream, past.events.pool))
    size = int(rounded(np.array([requested], np.int64), snapshot.settings)[0])
    segments = state.segments
    default = default_pools(snapshot)
    of_default = np.isin(segments.pool, default)
    of_pool = segments.pool == pool if pool not in default else of_default
    right = of_pool & (segments.stream == stream) & (segments.is_small == (size <= SMALL_BYTES))
    needed = _needed(snapshot, state, right, size)
    live = ~state.is_hole & ~state.is_pending
    parts = _parts(past, state, right, ~of_default & ~of_pool)
    request = FailedRequest(
        requested=requested,
        needed=needed,
        free=max(int(past.events.address[event]), 0),
        total=None,
        reserved=int(segments.size.sum()),
        live=int(state.size[live].sum()),
        parts=parts,
        fits=_fitting(snapshot, state, right, size),
        is_divided=pool != NONE or bool(of_default.all()),
        is_exact=past.impossible == 0 and state.strays == 0,
    )
    return RefusedRequest(event, request, state, right, ~of_default, size, stream, pool)


def _searched_at(past: SnapshotHistory, event: int) -> int:
    """The last event before the allocator began to free what it could.

    It does not search its blocks anew after that: what other streams had still used, and what is freed only then,
    comes too late for the request.
    """
    before = past.events.action[max(event - _MAX_RELEASES, 0) : event]
    others = np.flatnonzero(~any_of(before, (FREE_COMPLETED, *SHRINKING)))
    return event - len(before) + int(others[-1]) if len(others) else event - len(before) - 1


def _parts(past: SnapshotHistory, state: Heap, right: Bools, graphs: Bools) -> dict[Verdict, int]:
    """Bytes reserved and not in use, by why they could not serve: holes, and what rounding made of allocations."""
    hole, size = state.is_hole, state.size
    here, of_graph = right[state.segment], graphs[state.segment]
    used = here & ~hole & ~state.is_pending
    loss = size[used].sum() - past.requested[state.allocation[used]].sum()
    return {
        "fragmentation": int(size[hole & here].sum() + max(loss, 0)),
        "graph pool": int(size[hole & of_graph].sum()),
        "other pool": int(size[hole & ~here & ~of_graph].sum()),
        "pending free": int(size[state.is_pending].sum()),
    }


def _needed(snapshot: Snapshot, state: Heap, right: Bools, size: int) -> int:
    """Bytes that the device had to allocate: a segment, or the granules behind an expandable one."""
    growing = right & state.segments.is_expandable
    if not growing.any() and not (snapshot.settings.get("expandable_segments") is True and right.any()):
        return segment_bytes(size)
    granule = SMALL_SEGMENT_BYTES if size <= SMALL_BYTES else LARGE_SEGMENT_BYTES
    last = state.first[1:][growing] - 1
    tails = np.where(state.is_hole[last], state.size[last], 0)
    return -(-max(size - int(tails.max(initial=0)), 1) // granule) * granule


def _fitting(snapshot: Snapshot, state: Heap, right: Bools, size: int) -> int:
    """The least hole that the allocator could have given for a rounded size; 0 if there is none."""
    holes = state.size[state.is_hole & right[state.segment]]
    holes = holes[holes >= size]
    most = snapshot.settings.get("max_split_size")
    if isinstance(most, int) and most > 0:
        holes = holes[holes < most] if size < most else holes[holes < size + LARGE_SEGMENT_BYTES]
    return int(holes.min(initial=np.iinfo(np.int64).max)) if len(holes) else 0


# --- what was in the way


@dataclass(frozen=True)
class Obstacles:
    """Allocations without which a request would have fitted.

    Attributes:
        allocations: int32, rows of the history.
        size: their bytes.
        gain: the hole, or the segments for the device, that would be there without them, bytes.
    """

    allocations: Int32s
    size: int
    gain: int


def obstacles(failure: RefusedRequest) -> Obstacles | None:
    """The fewest bytes in use without which the request would have fitted: in one place, or in whole segments.

    Of all places in the segments of the right kind the one in which the least is in use; or else the segments in
    which the least is in use, until freeing them is enough. None if both have more than
    what was requested: then it is not these that are in the way.
    """
    plans = [plan for plan in (_in_one_place(failure), _whole_segments(failure)) if plan is not None]
    best = min(plans, key=lambda plan: plan.size, default=None)
    return best if best is not None and best.size < failure.rounded else None


def _in_one_place(failure: RefusedRequest) -> Obstacles | None:
    state, size = failure.heap, failure.rounded
    end = state.segments.address + state.segments.size
    starts = np.flatnonzero(failure.right[state.segment] & (state.address + size <= end[state.segment]))
    if not len(starts):
        return None
    used = np.concatenate([[0], np.cumsum(np.where(state.is_hole, 0, state.size))])
    behind = np.searchsorted(state.address, state.address[starts] + size, side="left")
    cost = used[behind] - used[starts]
    best = int(cost.argmin())
    pieces = slice(int(starts[best]), int(behind[best]))
    rows = state.allocation[pieces]
    return Obstacles(rows[rows != NONE], int(cost[best]), int(state.size[pieces].sum()))


def _whole_segments(failure: RefusedRequest) -> Obstacles | None:
    """By segments of the device's own pool; an expandable one is freed by the granule, which this does not count."""
    state = failure.heap
    could = np.flatnonzero(~failure.private & ~state.segments.is_expandable)
    used = state.bytes_of(~state.is_hole)[could]
    order = np.argsort(used / np.maximum(state.segments.size[could], 1), kind="stable")
    gains = np.cumsum(state.segments.size[could[order]]) + (failure.request.free or 0)
    enough = int(np.searchsorted(gains, failure.request.needed))
    if enough >= len(gains):
        return None
    chosen = could[order[: enough + 1]]
    pieces = np.isin(state.segment, chosen) & ~state.is_hole
    return Obstacles(state.allocation[pieces], int(state.size[pieces].sum()), int(state.segments.size[chosen].sum()))
