"""What nobody uses of what the allocator holds, against the heap at each instant."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from kinetoscope.model.snapshot.fragmentation import default_pools, unused_levels
from kinetoscope.model.snapshot.heap import heap
from kinetoscope.model.snapshot.of_trace import snapshot_of
from kinetoscope.reading import read
from tests.snapshots.allocator import Block, OutOfMemory, Settings
from tests.snapshots.process import SIDE_STREAM, Process
from tests.snapshots.writing import write

MIB = 1 << 20
GRANULE = 20 * MIB


def releasable_of(pieces: list[tuple[int, int, bool]], start: int, size: int, unit: int) -> int:
    """Bytes of whole units of a segment in which nothing but holes are."""
    used = [(address, address + length) for address, length, is_hole in pieces if not is_hole]
    units = range(start, start + size, unit)
    return sum(unit for each in units if not any(begin < each + unit and end > each for begin, end in used))


@pytest.mark.parametrize("settings", [Settings(), Settings(expandable_segments=True)], ids=["plain", "expandable"])
def test_levels_at_each_instant(tmp_path: Path, settings: Settings) -> None:
    chance = random.Random(11)
    process = Process(settings, total=900 * MIB, other=0)
    process.record()
    live: list[Block] = []
    for turn in range(300):
        if turn == 150:
            with process.capture((1, 0)):
                process.free(*(process.alloc("aten::mm", 30 * MIB) for _ in range(2)))
        if turn % 70 == 69:
            process.empty_cache()
        if live and chance.random() < 0.52:
            process.free(live.pop(chance.randrange(len(live))))
            continue
        size = chance.choice([700, 40_000, 3 * MIB, 9 * MIB, 24 * MIB])
        try:
            live.append(process.alloc("aten::empty", size, stream=chance.choice([0, SIDE_STREAM])))
        except OutOfMemory:
            process.free(*live)
            live = []
    job = read(write(tmp_path / "taken.pickle", process.snapshot()), jobs=1)
    trace = job.trace(job.ranks[0])
    snapshot, levels = snapshot_of(trace), unused_levels(trace, 0)
    assert snapshot is not None
    default = default_pools(snapshot)
    assert levels.releasable.max() > 0
    assert levels.private[-1] >= 60 * MIB
    for event in range(-1, len(levels.split) - 1, 9):
        state = heap(trace, 0, event)
        assert state is not None
        releasable = split = private = 0
        for place in range(len(state.segments)):
            pieces = slice(int(state.first[place]), int(state.first[place + 1]))
            columns = state.address[pieces], state.size[pieces], state.is_hole[pieces]
            inside = list(zip(*(column.tolist() for column in columns), strict=True))
            unused = sum(size for _, size, is_hole in inside if is_hole)
            size, start = int(state.segments.size[place]), int(state.segments.address[place])
            if not np.isin(state.segments.pool[place], default):
                private += unused
                continue
            unit = size
            if state.segments.is_expandable[place]:
                unit = 2 * MIB if state.segments.is_small[place] else GRANULE
            free = releasable_of(inside, start, size, unit)
            releasable += free
            split += unused - free
        assert (levels.releasable[event + 1], levels.split[event + 1], levels.private[event + 1]) == (
            releasable,
            split,
            private,
        )


@pytest.mark.parametrize("size", [1 << 46, 1 << 42])
def test_a_range_that_no_device_has_takes_neither_time_nor_memory(tmp_path: Path, size: int) -> None:
    process = Process(Settings(expandable_segments=True), total=900 * MIB, other=0)
    process.record()
    process.alloc("mm", 30 * MIB)
    snapshot = process.snapshot()
    event = next(event for event in snapshot["device_traces"][0] if event["action"] == "segment_map")
    event["size"] = size
    job = read(write(tmp_path / "hostile.pickle", snapshot), jobs=1)
    levels = unused_levels(job.trace(job.ranks[0]), 0)
    assert len(levels.split) == len(snapshot["device_traces"][0]) + 1
