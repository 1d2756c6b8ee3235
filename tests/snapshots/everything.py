"""A process in which everything happens that a snapshot can record."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.snapshots.allocator import OutOfMemory, Settings
from tests.snapshots.case import MIB
from tests.snapshots.process import SIDE_STREAM, Process
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import written_by


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


def odd_snapshots() -> Iterator[tuple[str, Any]]:
    """Snapshots that lack something, or that no allocator can have written, by name."""
    yield "all", everything().snapshot()
    yield "expandable", everything(expandable=True).snapshot()
    yield "a short ring", everything(max_entries=100).snapshot()
    for version in ((2, 0), (2, 1), (2, 4), (2, 6), (2, 9), (2, 12)):
        yield f"torch {version[0]}.{version[1]}", written_by(everything().snapshot(), version)
    yield "nothing", Process().snapshot()
    process = Process()
    process.alloc("empty", 5 * MIB)
    yield "no history", process.snapshot()
    for context, frames in (("state", "all"), ("alloc", "all"), ("all", "cpp"), ("all", "python")):
        process = Process(stacks=frames)
        process.record(context=context)
        loop = Training(process, Model(layers=1, width=256, batch=2, tokens=64, vocabulary=500))
        loop.build()
        loop.run(3)
        yield f"{context}, {frames} stacks", process.snapshot()
    yield "segments alone", everything().snapshot()["segments"]
    for name, change in (
        ("no events", lambda snapshot: snapshot.update(device_traces=[[], []])),
        ("no segments", lambda snapshot: snapshot.update(segments=[])),
        ("backwards", lambda snapshot: snapshot["device_traces"][0].reverse()),
        ("every third is lost", lambda snapshot: snapshot["device_traces"][0].__delitem__(slice(0, None, 3))),
        ("no times", lambda snapshot: [event.update(time_us=0) for event in snapshot["device_traces"][0]]),
        ("all on one address", lambda snapshot: [event.update(addr=512) for event in snapshot["device_traces"][0]]),
    ):
        snapshot = everything().snapshot()
        change(snapshot)
        yield name, snapshot
