"""Flows: arrows from one event to another, whose two ends have the same id."""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.grouping import group, match_first
from kinetoscope.algorithms.trees.tree import NO_ROW
from kinetoscope.model.execution.call_tree import enclosing_op, innermost_at
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.shapes import INT, STRING
from kinetoscope.model.trace.trace import Trace

_FLOW_ID: Final = "id"
"""A member of the event itself, beside its arguments."""


def joined_flows(trace: Trace, names: tuple[str, ...]) -> tuple[Int64s, Int64s]:
    """The rows of both ends of each flow with one of these names: int64 [flows] each."""
    starts = np.flatnonzero(rows_named(trace, names.__contains__, EventKind.FLOW_START, holding=names))
    ends = np.flatnonzero(rows_named(trace, names.__contains__, EventKind.FLOW_END, holding=names))
    origin = match_first(*_numbered(trace, ends, starts))
    linked = np.flatnonzero(origin >= 0)
    return starts[origin[linked]], ends[linked]


def op_at(trace: Trace, rows: Int64s) -> Int32s:
    """The innermost operator that runs on the thread of each event at its time, −1 for none."""
    around = innermost_at(trace, trace.track[rows], trace.start[rows])
    return np.where(around >= 0, enclosing_op(trace)[around], np.int32(NO_ROW)) if len(trace) else around


def _numbered(trace: Trace, ends: Int64s, starts: Int64s) -> tuple[Int64s, Int64s]:
    """Numbers for the ids of flows, equal where the ids are; an id is a number or a text."""
    rows = np.concatenate([ends, starts]).astype(np.int32)
    slots, kinds = trace.shapes.find(trace.strings.code(_FLOW_ID), level=0)
    slot, kind = slots[trace.shape[rows]], kinds[trace.shape[rows]]
    known = np.isin(kind, (INT, STRING))
    value = np.arange(len(rows), dtype=np.int64)  # unique where there is no id
    value[known] = trace.values[trace.first[rows[known]] + slot[known]]
    codes = group(value, np.where(known, kind, -1))[0].astype(np.int64) if len(rows) else value
    return codes[: len(ends)], codes[len(ends) :]
