"""A trace written as JSON again: every event and top-level value, in order, valid even where the source was not."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

from kinetoscope.model.events import members, microseconds
from kinetoscope.model.shapes import NOT_AN_OBJECT, NUMBER_TEXT, OPEN, RAW, TIME_DECIMAL, TS
from kinetoscope.model.trace import Trace

_EVENTS = "traceEvents"


def write(trace: Trace, path: str | Path) -> None:
    """Write a trace to a file, compressed if its name ends in `.gz`. The file appears when it is complete.

    Numbers keep their values (times all decimals of a nanosecond), integers stay integers, keys their order and
    repetitions; NaN and infinities are written as Python's `json` writes them.

    Raises:
        OSError: the file cannot be written.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with _open(part, compressed=path.suffix == ".gz") as file:
            file.writelines(piece.encode("utf-8", "surrogatepass") for piece in pieces(trace))
        part.replace(path)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def _open(path: Path, *, compressed: bool) -> IO[bytes]:
    if compressed:
        from isal import igzip

        return cast(IO[bytes], igzip.open(path, "wb", compresslevel=2))  # type: ignore[no-untyped-call]
    return path.open("wb")


def pieces(trace: Trace) -> Iterator[str]:
    """The JSON text in pieces: one for each event, and one for what stands before and after them."""
    before = [f"{_string(key)}: {_valid(text)}" for key, text in trace.members[: max(trace.members_before_events, 0)]]
    after = [f"{_string(key)}: {_valid(text)}" for key, text in trace.members[max(trace.members_before_events, 0) :]]
    is_list = trace.members_before_events < 0
    if not is_list:
        yield "{\n" + "".join(f"{member},\n" for member in before) + f'"{_EVENTS}": '
    yield "["
    for row in range(len(trace)):
        yield (",\n" if row else "\n") + event_text(trace, row)
    yield "\n]"
    if not is_list:
        yield "".join(f",\n{member}" for member in after) + "\n}\n"


def event_text(trace: Trace, row: int) -> str:
    """One event as JSON."""
    top: list[str] = []
    arguments: list[str] = []
    for level, key, kind, value in members(trace, row):
        if level == NOT_AN_OBJECT:
            return _value(trace, row, key, kind, value)
        if kind == OPEN:
            arguments = []
            top.append("")  # its members follow
            place = len(top) - 1
        text = "" if kind == OPEN else f"{_string(key)}: {_value(trace, row, key, kind, value)}"
        if level == 1:
            arguments.append(text)
        elif kind != OPEN:
            top.append(text)
        if level == 1 or kind == OPEN:
            top[place] = '"args": {' + ", ".join(arguments) + "}"
    return "{" + ", ".join(top) + "}"


def _value(trace: Trace, row: int, key: str, kind: int, value: Any) -> str:
    if kind == RAW:
        return _valid(trace.strings.raw(value).decode("utf-8", "replace"))
    if kind == NUMBER_TEXT:
        number = trace.strings.number(value)
        return _string(number) if isinstance(number, str) else _number(trace, value, number)
    if kind == TIME_DECIMAL:
        return _time(trace, row, key)
    return _string(value) if isinstance(value, str) else json.dumps(value)


def _number(trace: Trace, code: int, number: float) -> str:
    """A number as it was spelled, so that no digit is lost; NaN and infinities as Python spells them."""
    finite = abs(number) < math.inf
    text = trace.strings.raw(code).decode("ascii", "replace")
    return text if finite or text[-1:].isdigit() else json.dumps(number)


def _time(trace: Trace, row: int, key: str) -> str:
    start, end = int(trace.start[row]), int(trace.end[row])
    return microseconds(start if key == trace.strings.text(TS) else end - start)


def _valid(text: str) -> str:
    """JSON text as it is, or as a string if it is no JSON after all."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return _string(text)
    return text


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else json.dumps(text)
