"""Which threads of the host only wait: pools that nobody uses, monitors of progress bars, workers without work."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s, any_of
from kinetoscope.model.execution.call_tree import call_tree, main_thread
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.runtime_calls import SYNCHRONIZING_CALLS, runtime_call_kinds
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace

_WAITS: Final = re.compile(
    r"(?:: |<built-in (?:method|function) |<method ')_?(?:wait\w*|acquire\w*|select|poll|sleep|accept|recv\w*)\b"
    r"|\bqueue\.py\(\d+\): get\b"
)
_MOST: Final = 0.98
"""Share of a thread's own time from which on it does nothing but wait."""


@derived
def waiting_tracks(trace: Trace) -> frozenset[int]:
    """The threads that spend all but 2 % of their time in calls that wait.

    The main thread and those that launch device work are none of them.
    """
    calls = call_tree(trace)
    launch = device_work(trace).launch
    working = {main_thread(trace), *np.unique(trace.track[launch[launch >= 0]]).tolist()}
    others = [track for track in np.flatnonzero(np.diff(calls.offsets)).tolist() if track not in working]
    parts = [calls.order[calls.offsets[track] : calls.offsets[track + 1]] for track in others]
    rows = np.concatenate([np.empty(0, np.int32), *parts])
    own = _own_time(trace, rows)
    codes = [code for code in np.unique(trace.name[rows]).tolist() if _WAITS.search(trace.strings.glance(code))]
    waits = (trace.kind[rows] == EventKind.PYTHON) & any_of(trace.name[rows], codes)
    waits |= any_of(runtime_call_kinds(trace)[rows], SYNCHRONIZING_CALLS)
    tracks = len(trace.tracks)
    whole = np.bincount(trace.track[rows], weights=own, minlength=tracks)
    waited = np.bincount(trace.track[rows], weights=np.where(waits, own, 0), minlength=tracks)
    return frozenset(np.flatnonzero((whole > 0) & (waited >= _MOST * whole)).tolist())


def _own_time(trace: Trace, rows: Int32s) -> Int64s:
    """Duration of all calls of some threads less that of the calls directly inside each, ns."""
    parent = call_tree(trace).parent[rows]
    length = np.maximum(trace.end[rows] - trace.start[rows], 0)
    own = np.zeros(len(trace), np.int64)
    own[rows] = length
    np.subtract.at(own, parent[parent >= 0], length[parent >= 0])
    return np.maximum(own[rows], 0)
