"""From the columns and tables of the tokenizers to a Trace: one set of codes, exact times, one code a string."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Bools, Int64s, UInt8s
from kinetoscope.errors import LimitError
from kinetoscope.model.trace.demangling import with_demangled
from kinetoscope.model.trace.event_kinds import BEGIN, END
from kinetoscope.model.trace.shapes import DUR, NOT_AN_OBJECT, NUMBER_TEXT, RAW, STRING, TS, Shapes
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.strings import Strings, long_integers
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import NO_TIME, Trace
from kinetoscope.model.trace.tracks import Tracks
from kinetoscope.notes import Note
from kinetoscope.readers.json import tokenizer as tk
from kinetoscope.readers.json.columns import Chunk, EventColumns, Tables, slots_of, translate
from kinetoscope.readers.json.document import TraceDocument

_MAX_ROWS = (1 << 31) - 1
_LONGEST_WORD = 40  # characters of a word that a message shows
_NESTED_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|([0-9A-Za-z+\-._/]+)', re.DOTALL)  # outside of strings
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def assemble(
    source: Source,
    document: TraceDocument,
    team: list[Tables],
    made: EventColumns,
    symptoms: list[Note],
    text_bytes: int,
) -> Trace:
    """Put a trace together; `made` is used up.

    Raises:
        LimitError: more events than a row number can count.
    """
    if made.rows > _MAX_ROWS:
        raise LimitError(f"{source.url}: {made.rows:,} events; {_MAX_ROWS:,} is the most that one trace can have")
    tables = team[0]
    for k in range(1, len(team)):
        codes = tables.adopt(team[k])
        slots = slots_of(team[k].shape_items, (STRING, RAW, NUMBER_TEXT))
        for chunk in made.made_by(k):
            translate(chunk, codes, slots)
    rows = made.whole()
    shapes = Shapes(tables.shape_items)
    offsets = tables.string_offsets[: tables.at[tk.STRINGS]]
    oddities = np.empty(len(offsets), np.uint8)
    tk.examine(offsets, tables.arena, oddities)
    strings = Strings(tables.arena, offsets, oddities)
    first = shapes.first_values(rows.columns["shape"])
    odd = [
        *_odd_times(rows, first, shapes, strings, tables),
        *_pairs(rows, shapes),
        *_unify(rows, strings, tables),
        *_odd_numbers(rows, strings, tables, document),
        *_no_objects(rows, shapes),
    ]
    strings = with_demangled(rows.columns["name"], strings)
    return Trace(
        source=source,
        columns={**rows.columns, "first": first},
        values=rows.values,
        strings=strings,
        shapes=shapes,
        tracks=Tracks(tables.tracks[: tables.at[tk.TRACKS]].copy(), strings),
        members=tuple(document.members),
        members_before_events=-1 if document.is_list else document.before,
        reading=(*symptoms, *odd, *strings.symptoms),
        text_bytes=text_bytes,
    )


# --- times that are not plain numbers with three decimals at most: text, exponents, more decimals


def _odd_times(
    rows: Chunk, first: NDArray[np.signedinteger], shapes: Shapes, strings: Strings, tables: Tables
) -> list[Note]:
    """Put the odd times into start and end, as whole nanoseconds."""
    rounded = impossible = 0
    start, end, shape = (rows.columns[name] for name in ("start", "end", "shape"))
    for key in (TS, DUR):
        slots, kinds = shapes.find(key, level=0)
        fine, odd = shapes.has_fine_time(key), shapes.has_odd_time(key)
        rounded += int(np.count_nonzero(fine[shape])) if fine.any() else 0
        if not odd.any():
            continue
        which = np.flatnonzero(odd[shape])
        every = which
        readable = np.isin(kinds, (STRING, NUMBER_TEXT))[shape[which]]
        impossible += int(np.count_nonzero(~readable))
        which = which[readable]
        times, status = _nanoseconds(rows.values[first[which] + slots[shape[which]]], strings, tables)
        rounded += int(np.count_nonzero(status == tk.ROUNDED))
        impossible += int(np.count_nonzero(status == tk.UNDECIDED))
        if key == TS:
            end[which] += times  # it has the duration so far, if there is one
            start[which] = times
            without = np.concatenate([every[~readable], which[status == tk.UNDECIDED]])
            end[without] += NO_TIME
            start[without] = NO_TIME
        else:
            end[which] = start[which] + times
    symptoms = []
    if rounded:
        message = f"{rounded} times have more than three decimals of a microsecond and were rounded to the nanosecond."
        symptoms.append(Note("ROUNDED_TIMES", message, "note", rounded))
    if impossible:
        message = f"{impossible} times or durations are no possible time (no number, or over 142 years): an event has "
        message += "none then and is left out, or takes no time."
        symptoms.append(Note("IMPOSSIBLE_TIMES", message, "warning", impossible))
    return symptoms


def _pairs(rows: Chunk, shapes: Shapes) -> list[Note]:
    """Give each event that begins a span the end that the event has that ends it: the next free one of its track."""
    phase, track, start, end = (rows.columns[name] for name in ("ph", "track", "start", "end"))
    marks = np.flatnonzero((phase == BEGIN) | (phase == END))
    if not len(marks):
        return []
    has_length = shapes.find(DUR, level=0)[1][rows.columns["shape"]] >= 0
    alone = 0
    open_: list[int] = []
    on = -1
    for row in marks[np.lexsort((start[marks], track[marks]))].tolist():
        if track[row] != on:
            alone += len(open_)
            on, open_ = track[row], []
        if phase[row] == BEGIN:
            open_.append(row)
        elif not open_:
            alone += 1
        elif not has_length[begun := open_.pop()]:
            end[begun] = start[row]
    alone += len(open_)
    if not alone:
        return []
    message = f"{number_of(alone, 'event begins or ends', 'events begin or end')} a span whose other end is not there: "
    return [Note("UNPAIRED_EVENTS", f"{message}such a span has no length.", "warning", alone)]


def _nanoseconds(codes: Int64s, strings: Strings, tables: Tables) -> tuple[Int64s, UInt8s]:
    """The times that some strings spell, in ns, and what became of each; see `tokenizer.nanoseconds`."""
    times, status = np.zeros(len(codes), np.int64), np.zeros(len(codes), np.uint8)
    tk.nanoseconds(codes, tables.string_offsets, tables.arena, times, status)
    left = np.flatnonzero(status == tk.UNDECIDED)
    distinct, inverse = np.unique(codes[left], return_inverse=True)
    decided = [_decimal_nanoseconds(strings.text(int(code))) for code in distinct]
    if decided:
        times[left] = np.array([time for time, _ in decided], np.int64)[inverse]
        status[left] = np.array([state for _, state in decided], np.uint8)[inverse]
    return times, status


def _decimal_nanoseconds(text: str) -> tuple[int, int]:
    """Nanoseconds of a time in microseconds as any text, and what became of it."""
    if len(text) > 1000:
        return 0, tk.UNDECIDED
    try:
        with localcontext(prec=1100):
            exact = Decimal(text.strip()) * 1000
            if not exact.is_finite() or abs(exact) > tk.LONGEST_TIME:
                return 0, tk.UNDECIDED
            time = exact.to_integral_value(ROUND_HALF_EVEN)
    except (ArithmeticError, ValueError):
        return 0, tk.UNDECIDED
    return int(time), tk.EXACT if time == exact else tk.ROUNDED


# --- what else is odd


def _unify(rows: Chunk, strings: Strings, tables: Tables) -> list[Note]:
    r"""Give strings that were spelled in several ways (`\u0041` and `A`) one code each."""
    if not strings.has_synonyms:
        return []
    canonical = strings.canonical
    for name in ("category", "name"):
        column = rows.columns[name]
        np.copyto(column, np.where(column >= 0, canonical[column], np.int32(-1)))
    tk.translate_values(rows.columns["shape"], slots_of(tables.shape_items, (STRING,)), canonical, rows.values)
    count = int(np.count_nonzero(canonical != np.arange(len(canonical))))
    message = f"{count} strings are spelled in several ways; each is taken as one."
    return [Note("SYNONYMS", message, "note", count)]


def _odd_numbers(rows: Chunk, strings: Strings, tables: Tables, document: TraceDocument) -> list[Note]:
    """Values that are neither numbers nor anything else that JSON knows, such as nan, and integers beyond all use."""
    numbers = _holding(rows, strings, tables, NUMBER_TEXT)
    unknown = {text for text in strings.labels(np.flatnonzero(numbers).tolist()) if not _NUMBER.fullmatch(text)}
    words = sorted(unknown | _words_inside(rows, strings, tables))
    symptoms = []
    if words:
        named = ", ".join(word if len(word) <= _LONGEST_WORD else f"{word[:_LONGEST_WORD]}…" for word in words[:5])
        message = f"{len(words)} words stand as values that JSON does not know ({named}); they are kept."
        symptoms.append(Note("BARE_WORDS", message, "note", len(words)))
    texts = [text for _, text in document.members]
    if strings.long.any():
        numbers |= _holding(rows, strings, tables, RAW)
        texts += strings.labels(np.flatnonzero(numbers & strings.long).tolist())
    if long := sum(map(long_integers, texts)):
        message = f"{number_of(long, 'integer has', 'integers have')} more than 4,300 digits: kept as text."
        symptoms.append(Note("LONG_INTEGERS", message, "note", long))
    return symptoms


def _words_inside(rows: Chunk, strings: Strings, tables: Tables) -> set[str]:
    """Words inside nested JSON that JSON does not know."""
    marked = np.zeros(len(strings), np.bool_)
    tk.with_bare_words(tables.string_offsets[: len(strings)], tables.arena, marked)
    if not marked.any():
        return set()
    texts = strings.labels(np.flatnonzero(marked & _holding(rows, strings, tables, RAW)).tolist())
    words = {word for text in texts for word in _NESTED_WORD.findall(text)} - {"", "true", "false", "null"}
    return {word for word in words if not _NUMBER.fullmatch(word)}


def _holding(rows: Chunk, strings: Strings, tables: Tables, kind: int) -> Bools:
    """Which strings are values of a kind, or pids or tids that are: bool [strings]."""
    slots = slots_of(tables.shape_items, (kind,))
    identities = tables.tracks[: tables.at[tk.TRACKS]].reshape(-1, 2)  # kind and bits of each pid and tid
    marked = np.zeros(len(strings), np.bool_)
    marked[identities[identities[:, 0] == kind, 1]] = True
    if (slots[slots[1 : 2 * len(tables.shape_items) : 2]] > 0).any():
        tk.mark_strings(rows.columns["shape"], slots, rows.values, marked)
    return marked


def _no_objects(rows: Chunk, shapes: Shapes) -> list[Note]:
    """Elements of `traceEvents` that are no objects."""
    odd = np.array([len(items) == 1 and items[0][2] == NOT_AN_OBJECT for items in shapes.items], np.bool_)
    count = int(np.count_nonzero(odd[rows.columns["shape"]])) if odd.any() else 0
    if not count:
        return []
    return [Note("NOT_EVENTS", f"{count} elements of traceEvents are no objects; they are kept.", "note", count)]
