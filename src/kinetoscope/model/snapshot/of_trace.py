"""The memory snapshots of a trace's rank: read when something first asks for them, and kept with the trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kinetoscope.model.snapshot.snapshot import Snapshot
from kinetoscope.model.steps.scope import Scope, origin_of_time, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note


def snapshot_of(trace: Trace) -> Snapshot | None:
    """The last of them; None for a rank without any.

    Raises:
        InputError: it cannot be read.
    """
    snapshots: Sequence[Snapshot] = trace.companions("snapshot")
    return snapshots[-1] if snapshots else None


def known_snapshot(trace: Trace) -> Snapshot:
    """The last snapshot of a rank that has one."""
    snapshot = snapshot_of(trace)
    assert snapshot is not None
    return snapshot


def notes_of_snapshot(trace: Trace) -> tuple[Note, ...]:
    """Notes on parts of it that could not be read."""
    snapshot = snapshot_of(trace)
    return () if snapshot is None else snapshot.notes


@derived
def time_apart(trace: Trace) -> int:
    """How far the history of the rank's snapshot lies beside its trace, ns: such instants are none of the trace.

    0 where they share one, where a snapshot is alone, and where one of the two has no times.
    """
    snapshot = None if trace.source.is_snapshot or not len(trace) else snapshot_of(trace)
    times = [events.time for events in (() if snapshot is None else snapshot.events) if len(events)]
    first, last = (min((int(each[0]) for each in times), default=0), max((int(each[-1]) for each in times), default=0))
    if first <= 0:
        return 0
    begin, end = origin_of_time(trace) + trace.base, int(trace.end.max()) + trace.base
    return max(first - end, begin - last, 0)


def memory_scope(trace: Trace, select: Selection) -> Scope:
    """The scope of a selection whose devices are those of memory: a snapshot has devices without any work.

    Raises:
        UsageError: the trace does not have what is selected.
    """
    return scope(trace, select if snapshot_of(trace) is None else replace(select, devices=None, streams=None))
