"""A trace written as JSON again: every event and top-level value, in order, valid even where the source was not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from json.encoder import encode_basestring, encode_basestring_ascii  # what json.dumps calls, less its set-up each time
from pathlib import Path
from typing import IO, Any, cast

from kinetoscope.model.trace.json_events import members, microseconds
from kinetoscope.model.trace.shapes import (
    DUR,
    FLOAT,
    IN_TRACK,
    NOT_AN_OBJECT,
    NUMBER_TEXT,
    OPEN,
    RAW,
    SPECIAL_KEYS,
    TID,
    TIME_DECIMAL,
    TS,
)
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.exports.target import written

_EVENTS = "traceEvents"
_TIMES = SPECIAL_KEYS[TS], SPECIAL_KEYS[DUR]
_ID = "id"
_CACHED_CHARACTERS = 1000  # characters of nested JSON that is worth remembering: shapes and grids repeat


@dataclass(frozen=True, slots=True)
class EventChange:
    """What is written otherwise of one event.

    Attributes:
        pid, tid: another lane, as JSON; "" leaves it.
        quoted_times: times with decimals are written as texts, for readers that would round them as numbers.
        arguments: more members of `args`, keys and values, the values as JSON.
        shift: ns by which it is moved in time; None: its time is written as it stands.
        ids: what its `id`, as JSON, is replaced by; None leaves it.
    """

    pid: str = ""
    tid: str = ""
    quoted_times: bool = False
    arguments: Mapping[str, str] = field(default_factory=dict)
    shift: int | None = None
    ids: Callable[[str], str] | None = None


def write(
    trace: Trace,
    path: str | Path,
    *,
    changes: Mapping[int, EventChange] | None = None,
    more: Iterable[str] = (),
    rows: Iterable[int] | None = None,
) -> None:
    """Write a trace to a file, compressed if its name ends in `.gz`. See `target`.

    Numbers keep their values (times all decimals of a nanosecond), integers stay integers, keys their order and
    repetitions; NaN and infinities are written as Python's `json` writes them.

    Args:
        trace: what to write.
        path: the file.
        changes: events that are written otherwise, by row.
        more: events that follow those of the trace, as JSON.
        rows: the events that are written, ascending; None: all.

    Raises:
        OSError: the file cannot be written.
    """
    write_pieces(pieces(trace, changes, more, rows), path)


def write_pieces(texts: Iterable[str], path: str | Path) -> None:
    """Write pieces of JSON to a file, compressed if its name ends in `.gz`. See `target`.

    Raises:
        OSError: the file cannot be written.
    """
    with written(path) as file, _packed(file, is_packed=Path(path).suffix == ".gz") as stream:
        stream.writelines(text.encode("utf-8", "surrogatepass") for text in texts)


@contextmanager
def _packed(file: IO[bytes], *, is_packed: bool) -> Iterator[IO[bytes]]:
    if not is_packed:
        yield file
        return
    from isal import igzip

    with igzip.open(file, "wb", compresslevel=2) as stream:  # type: ignore[no-untyped-call]
        yield cast(IO[bytes], stream)


def pieces(
    trace: Trace,
    changes: Mapping[int, EventChange] | None = None,
    more: Iterable[str] = (),
    rows: Iterable[int] | None = None,
) -> Iterator[str]:
    """The JSON text in pieces: one for each event, and one for what stands before and after them."""
    before = [f"{_string(key)}: {_valid(text)}" for key, text in trace.members[: max(trace.members_before_events, 0)]]
    after = [f"{_string(key)}: {_valid(text)}" for key, text in trace.members[max(trace.members_before_events, 0) :]]
    is_list = trace.members_before_events < 0
    if not is_list:
        yield "{\n" + "".join(f"{member},\n" for member in before) + f'"{_EVENTS}": '
    yield "["
    yield from separated(event_texts(trace, changes, more, rows))
    yield "\n]"
    if not is_list:
        yield "".join(f",\n{member}" for member in after) + "\n}\n"


def event_texts(
    trace: Trace,
    changes: Mapping[int, EventChange] | None = None,
    more: Iterable[str] = (),
    rows: Iterable[int] | None = None,
) -> Iterator[str]:
    """The JSON text of each event, then what follows them."""
    changes = changes or {}
    for row in range(trace.recorded) if rows is None else rows:
        yield event_text(trace, row, changes.get(row))
    yield from more


def separated(texts: Iterable[str]) -> Iterator[str]:
    """The elements of a JSON list, each on a line of its own."""
    between = "\n"
    for text in texts:
        yield between + text
        between = ",\n"


def event_text(trace: Trace, row: int, change: EventChange | None = None) -> str:
    """One event as JSON."""
    top: list[str] = []
    arguments: list[str] = []
    place = -1
    for level, key, kind, value in members(trace, row):
        if level == NOT_AN_OBJECT:
            return _value(trace, row, key, kind, value)
        if kind == OPEN:
            arguments = []
            top.append("")  # its members follow
            place = len(top) - 1
        text = "" if kind == OPEN else _value(trace, row, key, kind, value)
        if change is not None:
            text = _changed(change, trace, row, level, key, kind, text)
        if kind != OPEN:
            text = f"{_string(key)}: {text}"
        if level == 1:
            arguments.append(text)
        elif kind != OPEN:
            top.append(text)
        if level == 1 or kind == OPEN:
            top[place] = '"args": {' + ", ".join(arguments) + "}"
    if change is not None and change.arguments:
        added = [f"{_string(key)}: {text}" for key, text in change.arguments.items()]
        # what `args` has already stays the first; where there is none, or no object, it is the last that counts
        text = '"args": {' + ", ".join([*arguments, *added]) + "}"
        top = [*(each for number, each in enumerate(top) if number != place), text]
    return "{" + ", ".join(top) + "}"


def _changed(change: EventChange, trace: Trace, row: int, level: int, key: str, kind: int, text: str) -> str:
    if kind == IN_TRACK:
        return (change.tid if key == SPECIAL_KEYS[TID] else change.pid) or text
    if level == 0 and key == _ID and change.ids is not None:
        return change.ids(text)
    if level == 0 and key == SPECIAL_KEYS[TS] and change.shift is not None:
        text = microseconds(int(trace.start[row]) + change.shift)
        return f'"{text}"' if change.quoted_times else text
    is_time = level == 0 and key in _TIMES and kind in (TIME_DECIMAL, FLOAT, NUMBER_TEXT)
    return f'"{text}"' if change.quoted_times and is_time and not text.startswith('"') else text


def value_text(value: Any) -> str:
    """A pid, tid, name or number as JSON."""
    if isinstance(value, str):
        return _string(value)
    return str(value) if type(value) is int else json.dumps(value)


def _value(trace: Trace, row: int, key: str, kind: int, value: Any) -> str:
    if kind == RAW:
        return _valid(trace.strings.raw(value).decode("utf-8", "replace"))
    if kind == NUMBER_TEXT:
        number = trace.strings.number(value)
        return _string(number) if isinstance(number, str) else _number(trace, value, number)
    if kind == TIME_DECIMAL:
        start, end = int(trace.start[row]), int(trace.end[row])
        return microseconds(start if key == trace.strings.text(TS) else end - start)
    return value_text(value)


def _number(trace: Trace, code: int, number: float) -> str:
    """A number as it was spelled, so that no digit is lost; NaN and infinities as Python spells them."""
    finite = abs(number) < math.inf
    text = trace.strings.raw(code).decode("ascii", "replace")
    return text if finite or text[-1:].isdigit() else json.dumps(number)


def _valid(text: str) -> str:
    """JSON text as it is, or as a string if it is no JSON after all."""
    return _checked_again(text) if len(text) < _CACHED_CHARACTERS else _checked(text)


def _checked(text: str) -> str:
    try:
        json.loads(text, parse_int=str)  # int refuses more than 4,300 digits
    except (ValueError, RecursionError):
        return _string(text)
    return text


_checked_again = lru_cache(maxsize=1 << 12)(_checked)


@lru_cache(maxsize=1 << 12)
def _string(text: str) -> str:
    return encode_basestring(text) if text.isprintable() else encode_basestring_ascii(text)
