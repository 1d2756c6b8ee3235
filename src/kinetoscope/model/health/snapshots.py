"""Checks of the memory snapshots of a rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools
from kinetoscope.errors import InputError
from kinetoscope.model.snapshot.of_trace import snapshot_of, time_apart
from kinetoscope.model.snapshot.replay import SnapshotHistory, histories, level
from kinetoscope.model.snapshot.snapshot import NONE, Snapshot
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note

NO_STACKS_SHARE: Final = 0.5
"""Share of the bytes in use at the end that lack stacks, from which on owners are mostly unknown."""

_NS_PER_MS: Final = 1_000_000


def memory_snapshot(trace: Trace) -> Iterator[Note]:
    """Notes on what the last snapshot of the rank lacks; none for a rank without any."""
    try:
        snapshot = snapshot_of(trace)
    except InputError as error:
        yield Note("SNAPSHOT_UNREADABLE", str(error), "error")
        return
    if snapshot is None:
        return
    pasts = histories(trace)
    if snapshot.notes:
        yield Note("SNAPSHOT_ODD_EVENTS", " ".join(snapshot.notes), "warning")
    if not any(len(past.events) for past in pasts):
        yield Note(
            "SNAPSHOT_WITHOUT_HISTORY",
            "The memory snapshot has no history: only what was in use when it was taken is known. Have it recorded "
            "before the model is made: kinetoscope record --memory, or torch.cuda.memory._record_memory_history().",
            "warning",
        )
        return
    if wrong := [each for past in pasts for each in contradictions(trace, past)]:
        yield Note("SNAPSHOT_CONTRADICTS", " ".join(wrong), "warning", sum(each.number for each in wrong))
    for past in pasts:
        yield from _of_device(snapshot, past)
    if gap := time_apart(trace):
        message = f"The history of the memory snapshot lies {gap // _NS_PER_MS:,} ms beside the trace: it is of another"
        yield Note("SNAPSHOT_APART", f"{message} time, or of another run, and has no instants here.", "warning")


def contradictions(trace: Trace, past: SnapshotHistory) -> Iterator[Note]:
    """Notes on what cannot have been in a device's history.

    What is in use lies in segments: at no instant is more in use, as requested, than is reserved.
    """
    device = f"cuda:{past.device}"
    if past.impossible:
        message = f"{number_of(past.impossible, 'event contradicts', 'events contradict')} what was in use on {device}"
        message += " when the snapshot was taken: levels of memory before them may be wrong."
        yield Note("SNAPSHOT_CONTRADICTS", message, "warning", past.impossible)
    requested, reserved = level(trace, past.device, "requested"), level(trace, past.device, "reserved")
    above = np.flatnonzero(requested > reserved)
    if len(above):
        most = above[np.argmax(requested[above] - reserved[above])]
        message = f"More is in use on {device} than is reserved, at {len(above):,} of {len(requested):,} instants:"
        message += f" {requested[most]:,} bytes where {reserved[most]:,} are reserved. Events of segments are missing,"
        yield Note("SNAPSHOT_CONTRADICTS", f"{message} or torch did not write the file.", "warning", len(above))


def _of_device(snapshot: Snapshot, past: SnapshotHistory) -> Iterator[Note]:
    device = f"cuda:{past.device}"
    if past.is_truncated:
        message = (
            f"The history of {device} is truncated to its last {len(past.events):,} events: nothing is known of what"
        )
        message += " came before; record with more (--memory-events, max_entries)."
        yield Note("SNAPSHOT_TRUNCATED", message)
    active = (past.freed_at == NONE) & (past.requested > 0)
    total = int(past.requested[active].sum())
    lacking = int(past.requested[active & ~_has_stack(snapshot, past)].sum())
    if total and lacking > NO_STACKS_SHARE * total:
        message = f"{lacking / total:.0%} of the bytes in use on {device} at the end have no stack: they were allocated"
        message += " before the history began, or without its context. Only size and lifetime tell of their owners."
        yield Note("SNAPSHOT_WITHOUT_STACKS", message)


def _has_stack(snapshot: Snapshot, past: SnapshotHistory) -> Bools:
    """True where an allocation has a stack with a frame."""
    has_frames = np.append(np.diff(snapshot.stacks.ends, prepend=0) > 0, False)  # the last for NONE
    return has_frames[past.stack]
