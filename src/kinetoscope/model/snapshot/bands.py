"""Bytes in use by kind of allocation, over the history of a device or a part of it, as a picture shows them."""

from __future__ import annotations

import numpy as np

from kinetoscope.algorithms.arrays import Int8s, Int64s
from kinetoscope.algorithms.layout.bands import highest
from kinetoscope.model.memory.categories import CATEGORIES
from kinetoscope.model.memory.record import CategoryLevels
from kinetoscope.model.snapshot.owners import owners
from kinetoscope.model.snapshot.replay import SnapshotHistory, history
from kinetoscope.model.snapshot.snapshot import NONE
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

NO_CHANGE = -1
"""Code of an event that neither allocates nor frees memory."""


def changes_by_kind(past: SnapshotHistory, kind: Int8s) -> Int8s:
    """The change by each event: k allocates bytes of kind k, −2 − k frees them. `kind`: int8 [allocations]."""
    codes = np.full(len(past.events), NO_CHANGE, np.int8)
    is_allocated, is_freed = past.allocated_at != NONE, past.freed_at != NONE
    codes[past.allocated_at[is_allocated]] = kind[is_allocated]
    codes[past.freed_at[is_freed]] = -2 - kind[is_freed]
    return codes


def bands(past: SnapshotHistory, kind: Int8s, changes: Int8s, begins: Int64s) -> CategoryLevels:
    """The state before the first of some events, then the highest instant of each column of them.

    Args:
        past: the history of a device.
        kind: int8 [allocations], a place in CATEGORIES.
        changes: `changes_by_kind`.
        begins: int64 [columns + 1], the events with which the columns begin; the end of the last one.
    """
    before = int(begins[0]) - 1
    alive = past.active_after(before)
    start = np.zeros(len(CATEGORIES), np.int64)
    np.add.at(start, kind[alive], past.requested[alive])
    columns = len(begins) - 1
    at, levels = np.empty(columns, np.int64), np.empty((columns, len(CATEGORIES)), np.int64)
    highest(changes, past.events.size, begins, start.copy(), at, levels)
    return CategoryLevels(np.concatenate([[before], at]), np.concatenate([start[None], levels]))


@derived
def event_instants(trace: Trace, device: int) -> Int64s:
    """When each event of a device was, ns after the beginning of the trace, never before the one before it: int64.

    Threads report out of order by a hair. Empty where torch was too old (before 2.2) to record the time.
    """
    past = history(trace, device)
    if not len(past.events) or int(past.events.time[0]) == NONE:
        return np.zeros(0, np.int64)
    instants: Int64s = np.maximum.accumulate(past.events.time) - trace.base - origin_of_time(trace)
    return instants


def categories(trace: Trace, device: int) -> Int8s:
    """The category of each allocation, a place in CATEGORIES: int8."""
    return owners(trace, device).category


@derived
def category_changes(trace: Trace, device: int) -> Int8s:
    """`changes_by_kind` by category."""
    return changes_by_kind(history(trace, device), categories(trace, device))
