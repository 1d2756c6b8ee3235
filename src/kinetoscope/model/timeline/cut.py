"""Events of a stretch of time, for a file for other viewers."""

from __future__ import annotations

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s, any_of
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.timeline.layout import timeline, times
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.shapes import INT, NUMBER_TEXT, STRING
from kinetoscope.model.trace.trace import Trace

_FLOWS = EventKind.FLOW_START, EventKind.FLOW_END
_ID = "id"


def rows_between(trace: Trace, begin: int, end: int) -> Int64s:
    """The events that touch the stretch from `begin` to `end` (ns after the origin), and all names: int64 [rows].

    Flows are among them if both their ends are at events that are; captured calls, which no file holds, are not.
    """
    start, stop = times(trace)
    low, high = (timeline(trace).origin + time for time in (begin, end))
    flows = any_of(trace.kind, _FLOWS)
    chosen = (start < high) & ((stop > low) | ((start >= low) & (stop <= start))) & ~flows
    chosen |= trace.kind == EventKind.METADATA
    chosen[trace.recorded :] = False
    chosen[_complete(trace, np.flatnonzero(flows), chosen, low, high)] = True
    return np.flatnonzero(chosen)


def _complete(trace: Trace, flows: Int64s, chosen: Bools, low: int, high: int) -> Int64s:
    """Flows of which both ends are in the stretch, or at the start of an event that reaches into it."""
    if not len(flows):
        return flows
    anchors = np.flatnonzero(chosen)
    both = np.concatenate([anchors, flows])
    codes, _ = group(trace.track[both], trace.start[both])
    anchored = np.isin(codes[len(anchors) :], codes[: len(anchors)])
    here = flows[anchored | ((trace.start[flows] >= low) & (trace.start[flows] < high))]
    slots, kinds = trace.shapes.find(trace.strings.code(_ID), level=0)
    slot, kind = slots[trace.shape[here]], kinds[trace.shape[here]]
    known = np.isin(kind, (INT, STRING, NUMBER_TEXT))
    here, slot, kind = here[known], slot[known], kind[known]
    value = trace.values[trace.first[here] + slot]
    ids, first = group(trace.name[here], trace.category[here], kind, value)
    ends = np.zeros((len(first), 2), np.bool_)
    ends[ids, (trace.kind[here] == EventKind.FLOW_END).astype(np.int8)] = True
    return here[(ends[:, 0] & ends[:, 1])[ids]]
