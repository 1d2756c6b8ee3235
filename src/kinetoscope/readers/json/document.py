"""The JSON document around the events: the members of the top-level object, before and after `traceEvents`.

They are small and odd, so they are read in Python: strictly first, by the standard library's decoder, and member by
member with `repair` where that fails. Values are kept as their text and decoded when someone asks.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kinetoscope.model.trace.strings import decode
from kinetoscope.readers.json.window import TextWindow

EVENTS: Final = "traceEvents"

_FIRST_LOOK_BYTES: Final = 1 << 12
"""Bytes that are looked at for a member at first; eight times as many each time it turns out to be longer."""

_MAX_WORD_BYTES: Final = 16
"""Bytes that the longest bare word is shorter than."""

_MAX_BROKEN_BYTES: Final = 1 << 24
"""Bytes beyond which a broken member has no end."""

_SPACE = re.compile(rb"[ \t\r\n\f\v,]*")
_KEY = re.compile(rb'"((?:[^"\\\n]++|\\.)*+)"\s*:\s*')
_CUT_KEY = re.compile(rb'"(?:[^"\\\n]++|\\.)*+(?:"\s*|\\)?\Z')
_TO_LIST = re.compile(rb'[^][{}",0-9a-z]{0,64}\[')
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_DECODER = json.JSONDecoder(parse_int=str)  # only the end is asked for, and int refuses more than 4,300 digits
_LAX = json.JSONDecoder(strict=False, parse_int=str)  # control characters inside strings are fine


class DocumentMember(NamedTuple):
    """One member of the document: its key and the text of its value, or None where a list of events begins."""

    key: str
    text: str | None


class _ParsedMember(NamedTuple):
    """A member, how many bytes it takes (0 if it is broken), and what was odd about it."""

    member: DocumentMember
    length: int
    odd: str = ""


_BROKEN_MEMBER: Final = _ParsedMember(DocumentMember("", None), 0)


@dataclass(slots=True)
class TraceDocument:
    """The top level of a file.

    Attributes:
        members: key and JSON text of each member but the events, in order.
        before: how many of them stand before the (first) list of events.
        lists: how many lists of events there are.
        is_list: the document is a bare list of events.
        is_object: it begins as an object.
        repaired: what was mended, one phrase each.
        complete: the document ended as it should.
    """

    members: list[tuple[str, str]] = field(default_factory=list)
    before: int = 0
    lists: int = 0
    is_list: bool = False
    is_object: bool = False
    repaired: list[str] = field(default_factory=list)
    complete: bool = False


def open_document(window: TextWindow, document: TraceDocument) -> bool:
    """Read up to the first event; false if the text ends before, or is no JSON object or list."""
    while window.limit < 3 and window.fill():
        pass
    if window.rest(3) == b"\xef\xbb\xbf":  # a byte order mark
        window.position += 3
    _more(window)
    first = window.rest(1)
    if first not in (b"[", b"{"):
        return False
    window.position += 1
    if first == b"[":
        document.is_list = True
        document.lists = 1
        return True
    document.is_object = True
    return next_events(window, document)


def next_events(window: TextWindow, document: TraceDocument) -> bool:
    """Read members up to the next list of events (the position is then after its `[`); false at the end."""
    while True:
        _more(window)
        if window.rest(1) == b"}":
            window.position += 1
            if document.lists or not _more(window):
                document.complete = True
                return False
            document.repaired.append("a closing brace before the events")
            continue
        if window.position == window.limit:
            return False
        member = _member(window, document) or _broken_member(window, document)
        if member is None:
            return False
        if member.text is not None:
            document.members.append((member.key, member.text))
            continue
        document.lists += 1
        if document.lists == 1:
            document.before = len(document.members)
        return True


def _more(window: TextWindow) -> bool:
    """Whether anything but white space and commas follows. The position moves over those."""
    while True:
        match = _SPACE.match(window.data, window.position, window.limit)
        window.position = match.end() if match else window.position
        if window.position < window.limit:
            return True
        if window.ended or not window.fill():
            return False


def goes_on(window: TextWindow) -> bool:
    """Behind the `]` of a list of events: was that bracket a mistake, because another object follows?"""
    return _more(window) and window.rest(1) == b"{"


def _member(window: TextWindow, document: TraceDocument) -> DocumentMember | None:
    """The next member, strictly; None if it is broken."""
    size = _FIRST_LOOK_BYTES
    while True:
        text = window.rest(size)
        whole = window.ended and len(text) == window.limit - window.position
        parsed = _parse(text, whole=whole)
        if parsed is not None and parsed.odd:
            document.repaired.append(f"{parsed.member.key}: {parsed.odd}")
        if parsed is not None:
            window.position += parsed.length
            return parsed.member if parsed.length else None
        size *= 8
        while not window.ended and window.limit - window.position < size:
            window.fill()


def _parse(text: bytes, *, whole: bool) -> _ParsedMember | None:
    """The member at the start of a text; None if more text is needed to tell."""
    key = _KEY.match(text)
    if key is None:
        return None if not whole and _CUT_KEY.match(text) else _BROKEN_MEMBER
    name = decode(key.group(1))
    begin = key.end()
    if name == EVENTS and (bracket := _TO_LIST.match(text, begin)):
        odd = "rubbish before the list" if len(bracket[0]) > 1 else ""
        return _ParsedMember(DocumentMember(name, None), bracket.end(), odd)
    value = text[begin:].decode("latin-1")  # which keeps one character a byte, and JSON's grammar is ASCII
    lax = False
    try:
        try:
            _, end = _DECODER.raw_decode(value)
        except json.JSONDecodeError as error:
            lax = error.msg.startswith("Invalid control character")
            if not lax:
                raise
            _, end = _LAX.raw_decode(value)
    except json.JSONDecodeError as error:
        cut = error.msg.startswith("Unterminated string") or error.pos > len(value) - _MAX_WORD_BYTES
        return None if cut and not whole else _BROKEN_MEMBER
    except RecursionError:
        return _BROKEN_MEMBER
    after = _SPACE.match(text, begin + end)
    follows = after.end() if after else begin + end
    if follows > len(text) - _MAX_WORD_BYTES and not whole:  # of 1.5 there may be only 1. so far
        return None
    if text[follows : follows + 1] != b"}" and (
        text[follows : follows + 1] != b'"' or b"," not in text[begin + end : follows]
    ):
        return _BROKEN_MEMBER
    content = text[begin : begin + end].decode("utf-8", "replace")
    if lax:
        content = _STRING.sub(_escaped, content)
    return _ParsedMember(
        DocumentMember(name, content), begin + end, "control characters inside a text escaped" if lax else ""
    )


def _escaped(string: re.Match[str]) -> str:
    return _CONTROL.sub(lambda control: json.dumps(control[0])[1:-1], string[0])


def _broken_member(window: TextWindow, document: TraceDocument) -> DocumentMember | None:
    """The next member, mended (or whole, behind text that belongs to none); None if only rubbish is left."""
    from kinetoscope.readers.json import repair

    while True:
        end = _end_of_broken(window)
        if end < 0 and not window.ended:
            return None
        text = window.rest(end if end >= 0 else None)
        mended = repair.repair_member(text) if text.strip(b" \r\n\t,}") else None
        if mended is None and end < 0:
            return None
        window.position += len(text)
        if mended is not None:
            document.repaired.append(f"{mended.key}: {mended.what}")
            return DocumentMember(mended.key, mended.json.decode())
        document.repaired.append("text that belongs to nothing dropped")
        if member := _member(window, document):
            return member


def _end_of_broken(window: TextWindow) -> int:
    """Length of the broken member at the window's position; −1 if no other follows, or none that is near."""
    from kinetoscope.readers.json import resync

    while True:
        waiting = window.limit - window.position
        end = resync.next_member(window.rest(), 0)
        if end >= 0 or waiting > _MAX_BROKEN_BYTES or not window.fill():
            return end
