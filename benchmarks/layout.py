"""How the text of a trace is laid out: as torch writes it, or indented as a script does that loaded and dumped it.

The text of an event is a list of pieces, strings and slots, because part of it is only known for a certain copy. Slots
stand among the values of an event and of its arguments, never deeper.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

from benchmarks.marking import Form, Number, Quoted, Slot, nanoseconds

Style = Literal["torch", "indent"]
Piece = str | Slot

# The key, in the arguments of an event, of a slot that holds further members, each with the comma before it.
MORE = "\0more"


def event_pieces(event: Any, style: Style) -> Iterator[Piece]:
    """The text of one element of `traceEvents`, with its indentation, without a comma or a line break around it."""
    if not isinstance(event, dict):
        yield "    " + _text(event, style, 4)
    elif style == "torch":
        yield from _as_torch(event)
    else:
        yield "    {"
        yield from _members(event, style, 6)
        yield "\n    }"


def decimals_of(style: Style) -> Form:
    """How a time with a fraction is written."""
    return Form.THREE_DECIMALS if style == "torch" else Form.SHORT_DECIMALS


def microseconds(amount: int) -> str:
    """A time in ns as the C++ exporter writes it."""
    return f"{'-' if amount < 0 else ''}{abs(amount) // 1000}.{abs(amount) % 1000:03d}"


def frame(document: Mapping[str, Any] | None, style: Style) -> tuple[str, str]:
    """What stands before the first event and after the last; `document` is None for a file that is a list of events."""
    if document is None:
        return "[\n", "\n]"
    parts, reached = (["{"], ["\n  ]"]), False
    for position, (key, value) in enumerate(document.items()):
        lead = f"{',' if position else ''}\n  {text(key)}: "
        if key == "traceEvents":
            parts[0].append(f"{lead}[\n")
            reached = True
        else:
            parts[reached].append(lead + _text(value, style, 2))
    return "".join(parts[0]), "".join(parts[1]) + "\n}"


@lru_cache(maxsize=2**16)
def text(value: str) -> str:
    """A JSON string in quotes, characters beyond ASCII as they are."""
    quoted = json.dumps(value, ensure_ascii=False)
    try:
        quoted.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a surrogate pair, which UTF-8 cannot hold
        return json.dumps(value)
    return quoted


def _as_torch(event: Mapping[str, Any]) -> Iterator[Piece]:
    """Breaks the line before the same keys as the exporter does."""
    yield "  {\n    "
    timed = event.get("ph") == "X"
    for position, (key, value) in enumerate(event.items()):
        broken = key == "args" or (key == "ts" and timed) or (key == "cat" and position > 1)
        lead = f"{'' if not position else ',' if broken else ', '}{chr(10) + '    ' if broken else ''}{text(key)}: "
        if key == "args" and isinstance(value, dict):
            yield lead + "{\n      "
            yield from _members(value, "torch", 0)
            yield "\n    }"
        elif key == "dur" and type(value) is Number:
            yield lead + _three_decimals(value)
        else:
            yield lead
            yield from _value(value, "torch", 0)
    yield "\n  }"


def _three_decimals(value: Number) -> str:
    """A duration as the exporter spells it, unless it says more than that."""
    try:
        return microseconds(nanoseconds(value))
    except ValueError:
        return value


def _members(members: Mapping[str, Any], style: Style, depth: int) -> Iterator[Piece]:
    """What stands between the braces of an event or of its arguments; indented, each on a line of its own."""
    between = ", " if style == "torch" else ",\n" + " " * depth
    lead = "" if style == "torch" else "\n" + " " * depth
    for key, value in members.items():
        if key == MORE:
            yield value
            continue
        yield f"{lead}{text(key)}: "
        yield from _value(value, style, depth)
        lead = between


def _value(value: Any, style: Style, depth: int) -> Iterator[Piece]:
    if isinstance(value, Slot):
        yield value
    elif isinstance(value, Quoted):
        yield f'"{value.before}'
        yield value.slot
        yield '"'
    elif style == "indent" and isinstance(value, dict) and value:  # the arguments
        yield "{"
        yield from _members(value, style, depth + 2)
        yield "\n" + " " * depth + "}"
    else:
        yield _text(value, style, depth)


def _text(value: Any, style: Style, depth: int) -> str:
    """A value without slots; in the style "indent" over many lines, the first of which is not indented."""
    if type(value) is str:
        return text(value)
    if not isinstance(value, dict | list):
        return str(value) if type(value) in (int, Number) else json.dumps(value)
    if isinstance(value, list):
        items = [_text(item, style, depth + 2) for item in value]
    else:
        items = [f"{text(key)}: {_text(item, style, depth + 2)}" for key, item in value.items()]
    left, right = "[]" if isinstance(value, list) else "{}"
    if style == "torch" or not items:
        return left + ", ".join(items) + right
    line = "\n" + " " * (depth + 2)
    return left + line + f",{line}".join(items) + "\n" + " " * depth + right
