"""A process in which everything happens that a snapshot can record."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.snapshots.allocator import OutOfMemory, Settings
from tests.snapshots.case import MIB
from tests.snapshots.process import SIDE_STREAM, Process, Snapshot
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import written_by


def everything(*, expandable: bool = False, max_entries: int | None = None) -> Process:
    """Two devices: blocks from before the recording, training, streams, graphs, annotations, pinned memory, an OOM."""
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


def trained(context: str, frames: str) -> Snapshot:
    process = Process(stacks=frames)
    process.record(context=context)
    loop = Training(process, Model(layers=1, width=256, batch=2, tokens=64, vocabulary=500))
    loop.build()
    loop.run(3)
    return process.snapshot()


def without_history() -> Snapshot:
    process = Process()
    process.alloc("empty", 5 * MIB)
    return process.snapshot()


def of_version(minor: int) -> Snapshot:
    return written_by(everything().snapshot(), (2, minor))


def changed(**values: object) -> Snapshot:
    """Each event of the first device gets these values."""
    snapshot = everything().snapshot()
    for event in snapshot["device_traces"][0]:
        event.update(values)
    return snapshot


def reordered(step: int) -> Snapshot:
    """Every `step`-th event of the first device, in reverse order if `step` is negative."""
    snapshot = everything().snapshot()
    snapshot["device_traces"][0] = snapshot["device_traces"][0][::step]
    return snapshot


ODD: dict[str, Callable[[], Any]] = {
    "all": lambda: everything().snapshot(),
    "expandable": lambda: everything(expandable=True).snapshot(),
    "a short ring": lambda: everything(max_entries=100).snapshot(),
    "nothing": lambda: Process().snapshot(),
    "no history": without_history,
    "no stacks of events": lambda: trained("state", "all"),
    "no stacks of frees": lambda: trained("alloc", "all"),
    "no frames of Python": lambda: trained("all", "cpp"),
    "no frames of C++": lambda: trained("all", "python"),
    "segments alone": lambda: everything().snapshot()["segments"],
    "no events": lambda: {**everything().snapshot(), "device_traces": [[], []]},
    "no segments": lambda: {**everything().snapshot(), "segments": []},
    "no times": lambda: changed(time_us=0),
    "all on one address": lambda: changed(addr=512),
    "backwards": lambda: reordered(-1),
    "every second is lost": lambda: reordered(2),
} | {f"torch 2.{minor}": partial(of_version, minor) for minor in (0, 1, 4, 6, 9, 12)}
"""Snapshots that lack something, or that no allocator can have written."""
