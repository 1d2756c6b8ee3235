"""From the chunks and tables of the tokenizers to a Trace: one set of codes, exact times, one code a string."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.model.health import Symptom
from kinetoscope.model.shapes import DUR, NUMBER_TEXT, STRING, TS, Shapes
from kinetoscope.model.source import Source
from kinetoscope.model.strings import Strings
from kinetoscope.model.trace import Trace
from kinetoscope.model.tracks import Tracks
from kinetoscope.readers.columns import Columns, Tables, string_slots, translate
from kinetoscope.readers.document import Document
from kinetoscope.readers.tokenizer import STRINGS, TRACKS

_LARGEST_TIME: Final = 4_500_000_000_000_000_000
"""Nanoseconds, 142 years: a time or duration beyond it is no time, and two of them can be added."""


def assemble(
    source: Source,
    document: Document,
    team: list[Tables],
    made: Columns,
    symptoms: list[Symptom],
    text_bytes: int,
) -> Trace:
    """Put a trace together; `made` is used up."""
    tables = team[0]
    for k in range(1, len(team)):
        slots = string_slots(team[k])
        codes = tables.adopt(team[k])
        for chunk in made.made_by(k):
            translate(chunk, codes, slots)
    columns, values = (whole := made.whole()).columns, whole.values
    shapes = Shapes(tables.shape_items)
    strings = Strings(tables.arena, tables.string_offsets[: tables.at[STRINGS]])
    tracks = Tracks(tables.tracks[: tables.at[TRACKS]].copy(), strings)
    first = shapes.first_values(columns["shape"])
    _odd_times(columns, first, values, shapes, strings, symptoms)
    if strings.has_synonyms:
        symptoms.append(_unify(columns, first, values, shapes, strings))
    symptoms += strings.symptoms
    return Trace(
        source=source,
        columns={**columns, "first": first},
        values=values,
        strings=strings,
        shapes=shapes,
        tracks=tracks,
        members=tuple(document.members),
        members_before_events=-1 if document.is_list else document.before,
        reading=tuple(symptoms),
        text_bytes=text_bytes,
    )


def _odd_times(
    columns: dict[str, NDArray[Any]],
    first: NDArray[np.int64],
    values: NDArray[np.int64],
    shapes: Shapes,
    strings: Strings,
    symptoms: list[Symptom],
) -> None:
    """Work out the times that are not plain numbers with three decimals at most: text, exponents, more decimals."""
    rounded = impossible = 0
    for key, name in ((TS, "ts"), (DUR, "dur")):
        for shape, position, kind in shapes.odd_times(key):
            rows = np.flatnonzero(columns["shape"] == shape)
            raw = values[first[rows] + position] if position >= 0 else np.zeros(len(rows), np.int64)
            for row, value in zip(rows.tolist(), raw.tolist(), strict=True):
                time, exact = _nanoseconds(kind, value, strings)
                rounded += time is not None and not exact
                impossible += time is None
                if name == "ts":
                    columns["end"][row] += (time or 0) - columns["start"][row]
                    columns["start"][row] = time or 0
                else:
                    columns["end"][row] = columns["start"][row] + (time or 0)
    if rounded:
        message = f"{rounded} times have more than three decimals of a microsecond and were rounded to the nanosecond."
        symptoms.append(Symptom("ROUNDED_TIMES", "note", message, rounded))
    if impossible:
        message = f"{impossible} times or durations are no possible time (no number, or over 142 years); taken as 0."
        symptoms.append(Symptom("IMPOSSIBLE_TIMES", "warning", message, impossible))


def _nanoseconds(kind: int, value: int, strings: Strings) -> tuple[int | None, bool]:
    """Nanoseconds of a time in microseconds that is written oddly (None if it is no time), and whether that is exact."""
    if kind not in (STRING, NUMBER_TEXT):
        return None, False
    try:
        exact = Decimal(strings.text(value).strip()) * 1000
        if not exact.is_finite() or abs(exact) > _LARGEST_TIME:
            return None, False
        time = exact.to_integral_value(ROUND_HALF_EVEN)
    except (InvalidOperation, ValueError):
        return None, False
    return int(time), time == exact


def _unify(
    columns: dict[str, NDArray[Any]],
    first: NDArray[np.int64],
    values: NDArray[np.int64],
    shapes: Shapes,
    strings: Strings,
) -> Symptom:
    """Give strings that were spelled in several ways (`\\u0041` and `A`) one code each."""
    canonical = strings.canonical
    for name in ("category", "name"):
        column = columns[name]
        np.copyto(column, np.where(column >= 0, canonical[column], np.int32(-1)))
    for shape in range(len(shapes)):
        slots = [slot for slot, kind in enumerate(shapes.slot_kinds(shape)) if kind == STRING]
        rows = np.flatnonzero(columns["shape"] == shape) if slots else ()
        for slot in slots:
            where = first[rows] + slot
            values[where] = canonical[values[where]]
    return Symptom("SYNONYMS", "note", "Some strings are spelled in several ways; each is taken as one.", 1)
