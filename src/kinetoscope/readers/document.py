"""The JSON document around the events: the members of the top-level object, before and after `traceEvents`.

They are small and odd, so they are read in Python: strictly first, by the standard library's decoder, and member by
member with `repair` where that fails. Values are kept as their text and decoded when someone asks.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

from kinetoscope.readers import repair
from kinetoscope.readers.window import Window

EVENTS: Final = "traceEvents"

_SPACE = re.compile(rb"[\s,]*")
_KEY = re.compile(rb'"((?:[^"\\\n]|\\.)*)"\s*:\s*')
_EVENT_LIST = re.compile(rb"\[\s*(?:[{\]]|$)")
_DECODER = json.JSONDecoder()


@dataclass(slots=True)
class Document:
    """What was found at the top level.

    Attributes:
        members: key and JSON text of each member but the events, in order.
        before: how many of them stand before the events.
        is_list: the document is a bare list of events.
        repaired: what was mended, one phrase each.
        complete: the document ended as it should.
    """

    members: list[tuple[str, str]] = field(default_factory=list)
    before: int = 0
    is_list: bool = False
    repaired: list[str] = field(default_factory=list)
    complete: bool = False
    has_events: bool = False


def open_document(window: Window, document: Document) -> bool:
    """Read up to the first event; false if the text ends before, or is no JSON object or list."""
    window.fill()
    if window.data.startswith(b"\xef\xbb\xbf"):  # a byte order mark
        window.position += 3
    _skip(window)
    if window.data[window.position : window.position + 1] == b"[" and window.position < window.limit:
        window.position += 1
        document.is_list = document.has_events = True
        return True
    if window.position >= window.limit or window.data[window.position] != ord("{"):
        return False
    window.position += 1
    return next_events(window, document)


def next_events(window: Window, document: Document) -> bool:
    """Read members up to the next list of events (the position is then after its `[`); false at the end."""
    while True:
        _skip(window)
        if window.position >= window.limit:
            return False
        if window.data[window.position] == ord("}"):
            window.position += 1
            document.complete = True
            return False
        found = _member(window)
        if found is None:
            found = _broken_member(window, document)
            if found is None:
                return False
        key, value = found
        if value is None:
            document.has_events = True
            document.before = len(document.members)
            return True
        document.members.append((key, value))


def _skip(window: Window) -> None:
    """Move over white space and commas."""
    while True:
        match = _SPACE.match(window.data, window.position, window.limit)
        window.position = match.end() if match else window.position
        if window.position < window.limit or window.ended or not window.fill():
            return


def _member(window: Window) -> tuple[str, str | None] | None:
    """The next member, strictly: key and JSON text, or None for its text where events begin; None if it is broken."""
    while True:
        waiting = window.rest
        key = _KEY.match(waiting)
        if key is None and (b"\n" in waiting or window.ended or len(waiting) > 4096):
            return None
        if key is not None:
            name = decode(b'"' + key.group(1) + b'"')
            if name == EVENTS and _EVENT_LIST.match(waiting, key.end()):
                window.position += waiting.index(b"[", key.end()) + 1
                return name, None
            # Latin-1 keeps one character a byte, and JSON's grammar is ASCII
            text = waiting.decode("latin-1")
            try:
                _, end = _DECODER.raw_decode(text, key.end())
            except json.JSONDecodeError as error:
                if error.pos < len(waiting) - 16 and not error.msg.startswith("Unterminated string"):
                    return None
            except RecursionError:
                return None
            else:
                after = _SPACE.match(waiting, end)
                rest = waiting[after.end() if after else end :][:1]
                if rest in (b'"', b"}") and (rest == b"}" or after and b"," in after.group()):
                    window.position += end
                    return name, waiting[key.end() : end].decode("utf-8", "replace")
                if rest or window.ended:
                    return None
        if window.ended or not window.fill():
            if window.rest == waiting and window.ended:
                return None


def _broken_member(window: Window, document: Document) -> tuple[str, str | None] | None:
    """The next member, mended; None if nothing can be made of what is left."""
    end = repair.next_member(window.data[: window.limit], window.position)
    while end < 0 and window.fill():
        end = repair.next_member(window.data[: window.limit], window.position)
    text = bytes(window.data[window.position : end if end >= 0 else window.limit])
    window.position = end if end >= 0 else window.limit
    if not text.strip(b" \r\n\t,}"):
        return None
    key, value, what = repair.repair_member(text)
    document.repaired.append(f"{key}: {what}")
    return key, value.decode("utf-8", "replace")


def decode(text: bytes) -> str:
    """The text of a JSON string, quotation marks included; what is not valid in it is kept as well as can be."""
    try:
        return str(json.loads(text, strict=False))
    except (ValueError, UnicodeDecodeError):
        return text[1:-1].decode("utf-8", "replace")
