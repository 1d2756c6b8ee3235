"""Segments at any instant are those of an allocator that is played forwards; levels are sums over what is alive."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kinetoscope.algorithms.layout.bands import columns_of
from kinetoscope.model.memory.categories import CATEGORIES
from kinetoscope.model.snapshot.bands import bands, changes_by_kind
from kinetoscope.model.snapshot.segment_history import GRANULE_BYTES, segment_history_of, segments_after
from kinetoscope.model.snapshot.snapshot import NONE, SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP

Held = set[tuple[int, int, bool]]
"""Address, size and whether it is expandable, of each segment."""


def runs_of(granules: set[int]) -> Held:
    """Granules without a gap as one segment each."""
    found: Held = set()
    for granule in sorted(granules):
        if granule - 1 not in granules:
            end = granule
            while end in granules:
                end += 1
            found.add((granule * GRANULE_BYTES, (end - granule) * GRANULE_BYTES, True))
    return found


def played(seed: int, length: int) -> tuple[list[tuple[int, int, int]], list[Held]]:
    """Events (action, address, size) of an allocator with both kinds of segments, and what it holds after each."""
    random_ = random.Random(seed)
    whole: dict[int, int] = {}
    granules: set[int] = set()
    events: list[tuple[int, int, int]] = []
    states: list[Held] = [set()]
    while len(events) < length:
        action = random_.choice((SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP))
        first, count = random_.randrange(40), random_.randrange(1, 5)
        address, size = first * GRANULE_BYTES, count * GRANULE_BYTES
        stretch = set(range(first, first + count))
        if action == SEGMENT_ALLOC:
            address += 1 << 40
            if address in whole:
                continue
            whole[address] = size
        elif action == SEGMENT_FREE:
            if not whole:
                continue
            address = random_.choice(sorted(whole))
            size = whole.pop(address)
        elif action == SEGMENT_MAP:
            if granules & stretch:
                continue
            granules |= stretch
        else:
            if not stretch <= granules:
                continue
            granules -= stretch
        events.append((action, address, size))
        states.append({(address, size, False) for address, size in whole.items()} | runs_of(granules))
    return events, states


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lost", [0, 17])
def test_segments_after_each_event(seed: int, lost: int) -> None:
    """Also where the beginning of the history was overwritten."""
    events, states = played(seed, 80)
    events, states = events[lost:], states[lost:]
    action, address, size = (np.array(column) for column in zip(*events, strict=True))
    none = np.full(len(events), NONE, np.int32)
    last = sorted(states[-1])
    segments = SimpleNamespace(
        device=np.zeros(len(last), np.int32),
        address=np.array([each[0] for each in last]),
        size=np.array([each[1] for each in last]),
        is_expandable=np.array([each[2] for each in last], np.bool_),
        stream=np.zeros(len(last), np.int64),
        pool=np.zeros(len(last), np.int32),
        is_small=np.zeros(len(last), np.bool_),
        stack=np.full(len(last), NONE, np.int32),
    )
    snapshot: Any = SimpleNamespace(segments=segments)
    stream = np.zeros(len(events), np.int64)
    past: Any = SimpleNamespace(
        device=0,
        events=SimpleNamespace(action=action, address=address, size=size, stream=stream, pool=none, stack=none),
    )
    past.events.pool = none + 1
    lives = segment_history_of(snapshot, past)
    lives.is_small[:] = False
    for event in range(-1, len(events)):
        held = segments_after(lives, event)
        rows = set(zip(held.address.tolist(), held.size.tolist(), held.is_expandable.tolist(), strict=True))
        assert rows == states[event + 1]


def test_each_column_shows_its_highest_instant() -> None:
    """Of each column the levels at the highest sum, of all allocations that are alive then."""
    random_ = np.random.default_rng(3)
    count, length = 60, 200
    order = random_.permutation(length)
    taken, returned = np.full(count, NONE), np.full(count, NONE)
    for row in range(count):
        a, b = sorted(order[2 * row : 2 * row + 2].tolist())
        taken[row], returned[row] = (a, b) if row % 5 else (NONE, b) if row % 2 else (a, NONE)
    requested = random_.integers(1, 1000, count)
    size = np.zeros(length, np.int64)
    size[taken[taken >= 0]], size[returned[returned >= 0]] = requested[taken >= 0], requested[returned >= 0]
    past: Any = SimpleNamespace(allocated_at=taken, freed_at=returned, requested=requested)
    past.events = type("Events", (), {"size": size, "__len__": lambda _: length})()
    past.active_after = lambda event: (taken <= event) & ((returned == NONE) | (returned > event))
    kind = random_.integers(0, 3, count).astype(np.int8)
    begins = columns_of(20, 180, 16)
    found = bands(past, kind, changes_by_kind(past, kind), begins)

    def levels(event: int) -> list[int]:
        alive = past.active_after(event)
        return [int(requested[alive & (kind == each)].sum()) for each in range(len(CATEGORIES))]

    assert found.place[0] == 19
    for column, (event, shown) in enumerate(zip(found.place.tolist(), found.levels.tolist(), strict=True)):
        assert shown == levels(event)
        if column:
            inside = range(int(begins[column - 1]), int(begins[column]))
            assert sum(shown) == max(sum(levels(each)) for each in inside)
            assert event in inside
