"""The heap at any instant of a history is what the allocator had then."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from kinetoscope.model.snapshot.heap import Heap, heap
from kinetoscope.model.snapshot.snapshot import NONE
from kinetoscope.reading import read
from tests.snapshots.allocator import Block, OutOfMemory, Settings
from tests.snapshots.process import SIDE_STREAM, Process
from tests.snapshots.writing import write

MIB = 1 << 20

Pieces = list[tuple[int, int, bool, bool]]
"""Address, size, whether it is a hole, and whether its return waits, in order of address."""


def pieces_of(state: Heap) -> Pieces:
    columns = state.address, state.size, state.is_hole, state.is_pending
    return list(zip(*(column.tolist() for column in columns), strict=True))


def blocks_of(process: Process) -> Pieces:
    """The same as torch's own snapshot has it."""
    return sorted(
        (block["address"], block["size"], block["state"] == "inactive", block["state"] == "active_pending_free")
        for segment in process.snapshot()["segments"]
        for block in segment["blocks"]
    )


@pytest.mark.parametrize("settings", [Settings(), Settings(expandable_segments=True)], ids=["plain", "expandable"])
def test_the_heap_at_any_instant(tmp_path: Path, settings: Settings) -> None:
    """Sizes of blocks that are no longer there are known up to what was not split off, 1 MiB: all is as it was."""
    chance = random.Random(7)
    process = Process(settings, total=600 * MIB, other=0)
    process.record()
    live: list[Block] = []
    states: dict[int, Pieces] = {}
    for turn in range(400):
        if live and chance.random() < 0.5:
            block = live.pop(chance.randrange(len(live)))
            if chance.random() < 0.1:
                process.allocators[0].record_stream(block, SIDE_STREAM)
            process.free(block)
        else:
            size = chance.choice([700, 40_000, 3 * MIB, 11 * MIB + 5000, 24 * MIB])
            try:
                live.append(process.alloc("aten::empty", size, stream=chance.choice([0, SIDE_STREAM])))
            except OutOfMemory:
                process.free(*live)
                live = []
        if turn % 50 == 49:
            states[len(process.allocators[0].history) - 1] = blocks_of(process)
    job = read(write(tmp_path / "taken.pickle", process.snapshot()), jobs=1)
    trace = job.trace(job.ranks[0])
    for event, blocks in states.items():
        state = heap(trace, 0, event)
        assert state is not None
        assert state.strays == 0
        assert pieces_of(state) == blocks
        assert (state.allocation[~state.is_hole] != NONE).all()
        assert int(state.bytes_of(np.ones(len(state), np.bool_)).sum()) == int(state.segments.size.sum())
