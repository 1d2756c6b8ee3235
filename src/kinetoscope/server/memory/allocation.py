"""One allocation of a snapshot: what it is, how long it lives, and the stack of its request."""

from __future__ import annotations

from collections.abc import Iterator

from kinetoscope.model.execution.frames import is_users_file
from kinetoscope.model.memory.categories import CATEGORIES
from kinetoscope.model.snapshot.bands import categories, event_instants
from kinetoscope.model.snapshot.of_trace import known_snapshot
from kinetoscope.model.snapshot.replay import SnapshotHistory
from kinetoscope.model.snapshot.snapshot import NONE, Snapshot
from kinetoscope.model.trace.trace import Trace
from kinetoscope.server.memory.answers import AllocationFrame, MemoryAllocation
from kinetoscope.views.numbers import grouped, shown


def allocation_answer(trace: Trace, past: SnapshotHistory, row: int) -> MemoryAllocation:
    """Facts in words, and frames as function, file, line and whether it is the user's, the innermost first."""
    snapshot = known_snapshot(trace)
    return MemoryAllocation(
        row=row,
        category=CATEGORIES[int(categories(trace, past.device)[row])],
        facts=list(_facts(trace, past, row)),
        frames=list(_frames(snapshot, int(past.stack[row]))),
    )


def _facts(trace: Trace, past: SnapshotHistory, row: int) -> Iterator[str]:
    size, requested = int(past.size[row]), int(past.requested[row])
    yield f"{shown(requested, 'bytes')} requested"
    if size != requested:
        yield f"{shown(size, 'bytes')} allocated"
    yield f"address 0x{int(past.address[row]):x}"
    allocated_at, freed_at = int(past.allocated_at[row]), int(past.freed_at[row])
    yield "allocated before the recording" if allocated_at == NONE else f"allocated {_when(trace, past, allocated_at)}"
    yield "never freed" if freed_at == NONE else f"freed {_when(trace, past, freed_at)}"
    if allocated_at != NONE and freed_at != NONE:
        yield f"in use for {grouped(freed_at - allocated_at)} events"
    if past.stream[row]:
        yield f"stream 0x{int(past.stream[row]):x}"


def _when(trace: Trace, past: SnapshotHistory, event: int) -> str:
    instants = event_instants(trace, past.device)
    at = f"at {shown(int(instants[event]), 'ns')}, " if len(instants) else "at "
    return f"{at}event {grouped(event)}"


def _frames(snapshot: Snapshot, stack: int) -> Iterator[AllocationFrame]:
    frames = snapshot.frames
    for frame in snapshot.stacks.of(stack).tolist():
        name, file = (snapshot.strings.text(int(code[frame])) for code in (frames.name, frames.file))
        line = int(frames.line[frame])
        yield AllocationFrame(name, file, line, user=line > 0 and is_users_file(file))
