"""A process in which everything happens that a snapshot can record."""

from __future__ import annotations

import contextlib

from tests.snapshots.allocator import OutOfMemory, Settings
from tests.snapshots.case import MIB
from tests.snapshots.process import SIDE_STREAM, Process
from tests.snapshots.training import Model, Training


def everything(*, expandable: bool = False, max_entries: int | None = None) -> Process:
    """Two devices: what was there before recording, training, streams, graphs, annotations, pinned memory, an OOM."""
    process = Process(Settings(expandable_segments=expandable), total=2048 * MIB, devices=2)
    before = process.alloc("empty", 3 * MIB)
    process.record(max_entries=max_entries)
    loop = Training(process, Model(layers=1, width=256, batch=2, tokens=64, vocabulary=500), metadata=True)
    loop.build()
    loop.run(2)
    process.free(before)
    process.remark(compile_context="0/0", forward_frames=("  File model.py, line 3, in forward\n",))
    other = Training(process, loop.model, device=1, optimizer="SGD")
    other.build()
    other.run(1)
    process.remark(compile_context="N/A", forward_frames=(), internal_metadata="mallocWithAddress")
    allocator = process.allocators[0]
    shared = process.alloc("empty", 30 * MIB)
    process.remark(internal_metadata="")
    process.annotate(shared, "bucket")
    allocator.record_stream(shared, SIDE_STREAM)
    process.free(shared)
    with process.capture((1, 0)):
        process.free(process.alloc("mm", 12 * MIB))
    process.unpin(process.pin(3000))
    process.pin(5000)
    process.snapshot()
    process.empty_cache(device=1)
    with contextlib.suppress(OutOfMemory):
        process.alloc("empty", 2000 * MIB)
    waiting = process.alloc("empty", 7 * MIB, SIDE_STREAM)
    allocator.record_stream(waiting, 0)
    process.free(waiting)
    return process
