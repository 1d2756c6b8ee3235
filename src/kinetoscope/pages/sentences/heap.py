"""The heap of a device at an instant, in sentences: how much is requested and reserved, and where the rest is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kinetoscope.model.snapshot.bands import event_instants
from kinetoscope.model.snapshot.heap import Heap
from kinetoscope.model.snapshot.replay import SnapshotHistory, level
from kinetoscope.model.snapshot.snapshot import ACTIONS, Snapshot, private_pools
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.numbers import grouped, shown


def heap_sentences(trace: Trace, snapshot: Snapshot, past: SnapshotHistory, state: Heap, event: int) -> Iterator[str]:
    """The sentences after an event of the history; −1: before the first."""
    instants = event_instants(trace, past.device)
    when = f"{shown(int(instants[event]), 'ns')} into the trace" if event >= 0 and len(instants) else ""
    number = f"event {grouped(event)} ({_action(past, event)})" if event >= 0 else "Before the first event"
    of = {name: int(level(trace, past.device, name)[event + 1]) for name in ("requested", "active", "reserved")}
    place = ", ".join(filter(None, (when, number)))
    place = place[:1].upper() + place[1:]
    yield f"{place}: {shown(of['requested'], 'bytes')} requested, {shown(of['reserved'], 'bytes')} reserved."
    used = state.bytes_of(~state.is_hole)
    holes = state.bytes_of(state.is_hole)
    private = private_pools(snapshot)[state.segments.pool]
    split, whole = (int(holes[~private & which].sum()) for which in (used > 0, used == 0))
    count = int((state.is_hole & (~private & (used > 0))[state.segment]).sum())
    if split:
        yield f"{shown(split, 'bytes')} are free in {grouped(count)} holes of segments in use."
    if whole:
        yield f"{shown(whole, 'bytes')} are free in whole segments."
    if private.any():  # what looks free there is written by the replays of graphs
        yield f"{shown(int(holes[private].sum()), 'bytes')} are not in use in private pools."
    pending = int(state.size[state.is_pending].sum())
    if pending:
        yield f"{shown(pending, 'bytes')} were freed and wait for another stream."


def _action(past: SnapshotHistory, event: int) -> str:
    action = int(past.events.action[event])
    words: dict[str, Any] = {"free_completed": "free", "oom": "out of memory"}
    name = ACTIONS[action] if action >= 0 else "other"
    return f"{words.get(name, name)} of {shown(int(past.events.size[event]), 'bytes')}"
