"""Which kind each event of a trace is, and what kind of work each piece of device work does: whole columns at once."""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int8s, Int64s, any_of
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import DEVICE_WORK, MEMORY_NAME, NAMES_DECIDE, EventKind, kind_of
from kinetoscope.model.trace.trace import Trace

LONGEST_RECORDING: Final = 30 * 86_400_000_000_000
"""Nanoseconds, 30 days, between the middle event of a recording and any other; what lies farther has no valid time."""

_NAMES: Final = ord("M")
"""The phase of names of processes and threads, whose times nobody asks for."""


@derived
def event_kinds(trace: Trace) -> Int8s:
    """The `EventKind` of each event: int8 [events]. One look at `kind_of` for each phase and category that occurs."""
    dense = np.zeros(len(trace.strings) + 1, np.int32)
    dense[trace.category + 1] = 1
    categories = np.flatnonzero(dense) - 1
    dense[categories + 1] = np.arange(len(categories), dtype=np.int32)
    pairs = dense[trace.category + 1] * 256 + trace.ph
    present = np.zeros(len(categories) * 256, np.bool_)
    present[pairs] = True
    kinds = np.zeros(len(present), np.int8)
    for pair in np.flatnonzero(present).tolist():
        kinds[pair] = kind_of(pair & 255, trace.strings.label(int(categories[pair >> 8])), "")
    kind: Int8s = kinds[pairs]
    decided_by_name = (trace.category == trace.strings.code(NAMES_DECIDE)) & (trace.category >= 0)
    decided_by_name |= (trace.name == trace.strings.code(MEMORY_NAME)) & (trace.name >= 0)
    rows = np.flatnonzero(decided_by_name)
    codes, first = group(pairs[rows], trace.name[rows])
    found = [
        kind_of(pair & 255, trace.strings.label(int(categories[pair >> 8])), trace.strings.label(name))
        for pair, name in zip(pairs[rows[first]].tolist(), trace.name[rows[first]].tolist(), strict=True)
    ]
    kind[rows] = np.array(found, np.int8)[codes]
    kind[stray(trace)] = EventKind.OTHER
    kind.flags.writeable = False
    return kind


@derived
def stray(trace: Trace) -> Int64s:
    """Rows of the events whose time cannot be: over 30 days from the middle one, such as 0 among times since 1970.

    No question counts them: one such event would make a recording of seconds one of decades.
    """
    timed = np.flatnonzero(trace.ph != _NAMES)
    if not len(timed):
        return timed
    start = trace.start[timed]
    if int(start.max()) - int(start.min()) <= LONGEST_RECORDING:
        return timed[:0]
    middle = int(np.partition(start, len(start) // 2)[len(start) // 2])
    return timed[(start < middle - LONGEST_RECORDING) | (start > middle + LONGEST_RECORDING)]


def is_device_work(trace: Trace) -> Bools:
    """Is each event a kernel, a copy or a set on a device?"""
    return any_of(trace.kind, DEVICE_WORK)
