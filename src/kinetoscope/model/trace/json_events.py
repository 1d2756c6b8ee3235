"""One event put together again from the columns, member by member: what makes the trace lossless."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kinetoscope.model.trace.demangling import written_names
from kinetoscope.model.trace.shapes import (
    CAT,
    IN_COLUMN,
    IN_TRACK,
    NOT_AN_OBJECT,
    NULL,
    NUMBER_TEXT,
    OPEN,
    PH,
    PID,
    RAW,
    SLOTS,
    TIME_INTEGER,
    TRUE,
    TS,
)
from kinetoscope.model.trace.trace import Trace
from kinetoscope.model.trace.tracks import value_of_slot

FACT_PREFIX: Final = "kinetoscope."
"""The beginning of the names of what our files for Perfetto have besides events; behind it are these, or a key of the
top level of the trace."""

FACT_TRACKS: Final = "tracks"
FACT_METADATA_EVENTS: Final = "metadata events"
FACT_FIRST_TIME: Final = "first time"
FACT_NESTED: Final = "nested"
FACT_READING: Final = "reading"
"""Tracks as uuid, pid and tid; events of phase M; the time of the first event, ns; ids of texts that are JSON; what was
odd when the trace was read, as `symptoms.facts_of` writes it."""


def members(trace: Trace, row: int) -> Iterator[tuple[int, str, int, Any]]:
    """Level, key, kind and value of each member of an event, in the order of the file, repeated keys included.

    The value of RAW is its JSON text, that of NUMBER_TEXT the text of the number; `args` itself is a member of kind
    OPEN whose members follow at level 1.
    """
    strings = trace.strings
    slot = int(trace.first[row])
    for key, kind, level in trace.shapes.items[int(trace.shape[row])]:
        value: Any = None
        if kind < SLOTS:
            bits = int(trace.values[slot])
            value = bits if kind in (RAW, NUMBER_TEXT) else value_of_slot(kind, bits, strings)
            slot += 1
        elif kind == IN_COLUMN and key == PH:
            value = chr(trace.ph[row])
        elif kind == IN_COLUMN:
            name = int(trace.name[row])
            value = strings.text(int(trace.category[row]) if key == CAT else written_names(trace).get(name, name))
        elif kind == IN_TRACK:
            track = int(trace.track[row])
            value = trace.tracks.pids[track] if key == PID else trace.tracks.tids[track]
        elif kind not in (NULL, OPEN):
            value = _time_value(trace, key, row, kind) if kind >= TIME_INTEGER else kind == TRUE
        yield level, strings.text(key), kind, value


def event(trace: Trace, row: int) -> Any:
    """An event as `json.loads` would give it: of a repeated key the last value, as there."""
    whole: dict[str, Any] = {}
    for level, key, kind, value in members(trace, row):
        if kind == RAW:
            value = trace.strings.nested(value)
        elif kind == NUMBER_TEXT:
            value = trace.strings.number(value)
        elif kind == OPEN:
            value = {}
        if level == NOT_AN_OBJECT:
            return value
        (whole if level == 0 else whole["args"])[key] = value
    return whole


def _time_value(trace: Trace, key: int, row: int, kind: int) -> int | float:
    start, end = int(trace.start[row]), int(trace.end[row])
    nanoseconds = start if key == TS else end - start
    return nanoseconds // 1000 if kind == TIME_INTEGER else float(microseconds(nanoseconds))


def microseconds(nanoseconds: int) -> str:
    """Nanoseconds as microseconds with three decimals, exactly, as text."""
    whole, rest = divmod(abs(nanoseconds), 1000)
    return f"{'-' if nanoseconds < 0 else ''}{whole}.{rest:03d}"
