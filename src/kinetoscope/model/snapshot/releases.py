"""When the allocator freed unused segments, and why: the program emptied the cache, or it had to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s, any_of
from kinetoscope.model.snapshot.of_trace import known_snapshot
from kinetoscope.model.snapshot.replay import SnapshotHistory, history, level_of
from kinetoscope.model.snapshot.settings import recorded_settings
from kinetoscope.model.snapshot.snapshot import ALLOC, GROWING, NONE, OUT_OF_MEMORY, SHRINKING, Snapshot
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

RELEASE_REASONS: Final = ("emptied", "retry", "collection", "unknown")
"""Why segments are freed, in the order of the codes. emptied: the program called `empty_cache`. retry: the device had
no more for a request, and was asked again behind it. collection: `garbage_collection_threshold` was passed, or that.
unknown: there are no stacks, and it may be either of the first two."""

EMPTIED, RETRY, COLLECTION, UNTOLD = range(len(RELEASE_REASONS))

_EMPTY_CACHE: Final = re.compile(r"(?:^|[:_])(?:empty_cache|emptyCache)(?:$|\()")


@dataclass(frozen=True)
class Releases:
    """Bursts of events that free segments, in order.

    Attributes:
        first, last: int32, events of the history.
        size: int64, bytes freed.
        count: int32, segments that did.
        reason: int8, a place in RELEASE_REASONS.
        serves: bool, whether the request behind it got memory; false where it failed, or there is none.
    """

    first: Int32s
    last: Int32s
    size: Int64s
    count: Int32s
    reason: Int8s
    serves: Bools

    def __len__(self) -> int:
        return len(self.first)

    def of(self, reason: int) -> Int64s:
        """The rows with a reason."""
        return np.flatnonzero(self.reason == reason)


@derived
def releases(trace: Trace, device: int) -> Releases:
    """The releases of a device in its history."""
    return releases_of(known_snapshot(trace), history(trace, device))


def releases_of(snapshot: Snapshot, past: SnapshotHistory) -> Releases:
    """The releases in one history; see `releases`.

    `empty_cache` is told by its frames. What a request frees has its stack, and precedes what is then allocated on
    the device. Without stacks, that is not known where more would have been reserved than ever was; else it fitted.
    """
    events = past.events
    shrinking = np.flatnonzero(any_of(events.action, SHRINKING))
    begins = np.flatnonzero(np.diff(shrinking, prepend=-2) > 1)
    first = shrinking[begins]
    last = shrinking[np.append(begins[1:], len(shrinking)) - 1] if len(begins) else first
    size = np.add.reduceat(events.size[shrinking], begins) if len(begins) else np.zeros(0, np.int64)

    requests = np.flatnonzero(any_of(events.action, (ALLOC, OUT_OF_MEMORY)))
    place = np.searchsorted(requests, last)
    request = requests[np.minimum(place, len(requests) - 1)] if len(requests) else np.zeros(len(first), np.int64)
    grows = any_of(events.action, GROWING)
    grown = np.concatenate([[0], np.cumsum(grows)])
    grown_between = grown[request] - grown[np.minimum(last + 1, len(events))] if len(events) else request
    is_next = (place < len(requests)) & (request - last - 1 == grown_between)
    fails = events.action[request] == OUT_OF_MEMORY if len(events) else np.zeros(0, np.bool_)
    precedes = is_next & ((grown_between > 0) | fails)

    stack = events.stack[first]
    stackless = stack == NONE
    reserved = level_of(snapshot, past, "reserved")
    wanted = reserved[first] + np.where(precedes, _allocated_bytes(past, grows, last, request), 0)
    is_untold = precedes & stackless & (wanted > reserved.max())
    is_retry = precedes & fails & stackless
    if len(requests):
        is_retry |= is_next & ~stackless & (stack == events.stack[request])
    collects = recorded_settings(snapshot.settings).garbage_collection_threshold > 0
    is_retry |= precedes & stackless & collects
    is_retry &= ~_calls(snapshot)[stack]
    reason = np.where(is_untold, UNTOLD, EMPTIED)
    reason[is_retry] = COLLECTION if collects else RETRY
    count = (last - first + 1).astype(np.int32)
    serves = is_next & ~fails
    return Releases(first.astype(np.int32), last.astype(np.int32), size, count, reason.astype(np.int8), serves)


def _allocated_bytes(past: SnapshotHistory, grows: Bools, last: Int64s, request: Int64s) -> Int64s:
    """Bytes allocated on the device between events: int64."""
    sums = np.concatenate([[0], np.cumsum(np.where(grows, past.events.size, 0))])
    return np.asarray(sums[request] - sums[np.minimum(last + 1, len(grows))])


def _calls(snapshot: Snapshot) -> Bools:
    """True where each stack calls `empty_cache`; one more row, the last, for no stack."""
    names = [bool(_EMPTY_CACHE.search(snapshot.strings.label(name))) for name in snapshot.frames.name.tolist()]
    has = np.array(names, np.bool_)[snapshot.stacks.items]
    sums = np.concatenate([[0], np.cumsum(has)])
    ends = snapshot.stacks.ends
    return np.append(sums[ends] > sums[np.concatenate([[0], ends[:-1]])] if len(ends) else np.zeros(0, bool), False)
