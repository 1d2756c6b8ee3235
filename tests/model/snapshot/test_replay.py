"""Levels and allocations of a history are those that the allocator had, whatever happened."""

from __future__ import annotations

import contextlib
import random
from typing import NamedTuple

import pytest

from kinetoscope.model.snapshot.replay import history_of, level_of
from kinetoscope.model.snapshot.snapshot import Snapshot
from kinetoscope.readers.snapshot import load
from tests.conftest import first_quick
from tests.snapshots.allocator import Block, OutOfMemory, Settings
from tests.snapshots.process import SIDE_STREAM, Process
from tests.snapshots.writing import content

MIB = 1 << 20


class Levels(NamedTuple):
    """What the allocator had after a call."""

    requested: int
    active: int
    allocated: int
    reserved: int


def levels_of(process: Process) -> Levels:
    allocator = process.allocators[0]
    active = allocator.active.values()
    return Levels(
        sum(block.requested for block in active),
        sum(block.size for block in active),
        sum(block.size for block in active if block.allocated),
        allocator.reserved,
    )


def random_program(process: Process, seed: int, calls: int = 300) -> dict[int, Levels]:
    """Anything at all, and the levels after each number of events. Sizes leave no rest that is not split off."""
    chance, allocator = random.Random(seed), process.allocators[0]
    levels, live = dict[int, Levels](), list[Block]()
    captured = None
    for call in range(calls):
        what = chance.random()
        if what < 0.5:
            size = chance.choice([3, 700, 40_000, 2 * MIB, 6 * MIB, 20 * MIB, 48 * MIB])
            with contextlib.suppress(OutOfMemory):
                live.append(process.alloc("empty", size, 0 if captured else chance.choice([0, 0, SIDE_STREAM])))
        elif what < 0.9 and live:
            process.free(live.pop(chance.randrange(len(live))))
        elif what < 0.94 and live:
            allocator.record_stream(chance.choice(live), chance.choice([0, SIDE_STREAM]))
        elif what < 0.96:
            allocator.complete()
        elif what < 0.97 and captured is None:
            process.empty_cache()
        elif captured is None:
            captured = (call, 0)
            allocator.begin_capture(captured)
        else:
            allocator.end_capture(captured)
            allocator.release_pool(captured)
            captured = None
        levels[len(allocator.history)] = levels_of(process)
    return levels


def read(process: Process) -> Snapshot:
    return load("snapshot", iter([content(process.snapshot())]))


@pytest.mark.parametrize("seed", first_quick(range(12)))
@pytest.mark.parametrize("expandable", [False, True])
def test_levels_after_each_call(seed: int, expandable: bool) -> None:
    settings = Settings(expandable_segments=expandable, roundup_power2_divisions=(4 if seed % 2 else 0,) * 16)
    process = Process(settings, total=400 * MIB, other=0)
    before = [process.alloc("empty", 2 * MIB) for _ in range(3)]
    process.record()
    process.free(before.pop())
    expected = random_program(process, seed)
    snapshot = read(process)
    past = history_of(snapshot, 0)
    assert past is not None
    assert past.impossible == 0
    for kind in Levels._fields:
        level = level_of(snapshot, past, kind)  # type: ignore[arg-type] # its names
        assert {events: int(level[events]) for events in expected} == {
            events: getattr(levels, kind) for events, levels in expected.items()
        }


@pytest.mark.parametrize("seed", first_quick(range(6)))
def test_levels_of_a_ring_that_ran_over(seed: int) -> None:
    """What the ring lost is lost; of the rest all is known, as what was there is there."""
    whole, cut = Process(total=400 * MIB, other=0), Process(total=400 * MIB, other=0)
    whole.record()
    cut.record(max_entries=200)
    expected = random_program(whole, seed)
    random_program(cut, seed)
    lost = len(whole.allocators[0].history) - 200
    snapshot = read(cut)
    past = history_of(snapshot, 0)
    assert past is not None
    assert past.impossible == 0
    for kind in Levels._fields:
        level = level_of(snapshot, past, kind)  # type: ignore[arg-type] # its names
        assert [int(level[events - lost]) for events in expected if events >= lost] == [
            getattr(levels, kind) for events, levels in expected.items() if events >= lost
        ]
