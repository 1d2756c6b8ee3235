"""Counters: series that a file holds as events of phase C, with a number for each series."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.algorithms.arrays import Floats, Int32s, Int64s
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.shapes import FLOAT, INT, NUMBER_TEXT, SLOTS
from kinetoscope.model.trace.trace import Trace, as_float


@dataclass(frozen=True)
class Counters:
    """All samples, in the order of the file, those of one event in the order of its arguments.

    Attributes:
        rows: int32 [samples], row of the event.
        key: int32 [samples], string code of the name of the series.
        value: float64 [samples], NaN where it is no finite number.
    """

    rows: Int32s
    key: Int32s
    value: Floats


@derived
def counters(trace: Trace, kind: EventKind = EventKind.COUNTER) -> Counters:
    """Samples of all counters, or those that another kind of event has for arguments; only numbers count."""
    events = trace.rows(kind)
    columns: list[tuple[Int32s, int, int, Floats]] = []
    for shape in np.unique(trace.shape[events]).tolist():
        rows = events[trace.shape[events] == shape]
        slot = 0
        for key, kind, level in trace.shapes.items[shape]:
            if level == 1 and kind in (INT, FLOAT, NUMBER_TEXT):
                columns.append((rows, slot, key, _numbers(trace, kind, trace.values[trace.first[rows] + slot])))
            slot += kind < SLOTS
    if not columns:
        return Counters(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))
    rows = np.concatenate([rows for rows, _, _, _ in columns])
    slots = np.concatenate([np.full(len(rows), slot) for rows, slot, _, _ in columns])
    keys = np.concatenate([np.full(len(rows), key, np.int32) for rows, _, key, _ in columns])
    values = np.concatenate([values for _, _, _, values in columns])
    order = np.lexsort((slots, rows))
    return Counters(rows[order], keys[order], values[order])


def _numbers(trace: Trace, kind: int, bits: Int64s) -> Floats:
    if kind == INT:
        return bits.astype(np.float64)
    if kind == FLOAT:
        values = bits.view(np.float64).copy()
    else:
        texts = {code: trace.strings.number(code) for code in np.unique(bits).tolist()}
        values = np.array([as_float(texts[code]) for code in bits.tolist()], np.float64)
    values[~np.isfinite(values)] = np.nan
    return values
