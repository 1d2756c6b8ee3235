"""The check that torch exported one valid JSON document, block by block, and what can be kept where it did not.

Needs nothing but the standard library, so that a bare interpreter runs it beside a job. Judges syntax (UTF-8, JSON as
the RFC has it: no NaN, no key twice at the top); what the events mean is the reader's matter.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

_BEGIN: Final = re.compile(r'"traceEvents"\s*:\s*\[')
_TRACE_NAME: Final = re.compile(r',\s*"traceName"\s*:\s*"(?:[^"\\]|\\.)*"(?=\s*[,}])')
_ODD_TRACE_NAME: Final = re.compile(r',\s*"traceName"\s*:\s*".*"\s*\}\s*\Z', re.DOTALL)
"""A path with quotation marks in it, which torch does not escape: the last of the file but in old versions."""

_LONGEST_EVENT: Final = 16 << 20
_LONGEST_FRAME: Final = 64 << 20
"""Characters before and after the events at most."""

_MARK: Final = "kinetoscope: here the events stood"


class InvalidError(Exception):
    """The text is no valid JSON, or no trace."""


def _no_constant(name: str) -> Any:
    raise InvalidError(f"{name} is no JSON")


_decode: Final = json.JSONDecoder(parse_constant=_no_constant).raw_decode


class TraceChecker:
    """Takes the text of a trace in pieces; hands back what to write: the same, with a closing part of our own.

    The document is valid if and only if each event is, and the rest is with one string in place of the events.
    """

    def __init__(self, name: str, facts: dict[str, Any], distributed: dict[str, int] | None = None) -> None:
        """`name` becomes the traceName, `facts` stand under the key "kinetoscope".

        `distributed` is the distributedInfo of a trace that has none: torch writes it only where torch.distributed was
        up before the trace began, and readers look for the rank there.
        """
        self.events = 0
        self._distributed = distributed
        self._ending = f', "traceName": {json.dumps(name)}, "kinetoscope": {json.dumps(facts)}}}\n'
        self._before: str | None = None
        self._text = ""
        self._tail: list[str] | None = None
        self._tail_size = 0
        self._comma = False
        """An element has to follow before the list may end."""

    def feed(self, text: str) -> str:
        """The text that may be written now.

        Raises:
            InvalidError: it is no valid JSON.
        """
        if self._tail is not None:
            self._keep_tail(text)
            return ""
        self._text += text
        written = ""
        if self._before is None:
            begin = _BEGIN.search(self._text)
            if begin is None:
                if len(self._text) > _LONGEST_FRAME:
                    raise InvalidError("no traceEvents in it")
                return ""
            written = self._before = self._with_rank(self._text[: begin.end()])
            self._text = self._text[begin.end() :]
        return written + self._events()

    def _with_rank(self, before: str) -> str:
        opened = before.find("{") + 1
        if not self._distributed or not opened or '"distributedInfo"' in before:
            return before
        return f'{before[:opened]}"distributedInfo": {json.dumps(self._distributed)},{before[opened:]}'

    def _events(self) -> str:
        text, at, size = self._text, 0, len(self._text)
        while True:
            start = _skip(text, at)
            if start >= size:
                break
            if text[start] == "]" and not self._comma:
                self._tail = []
                written = text[: start + 1]
                self._keep_tail(text[start + 1 :])
                self._text = ""
                return written
            end = self._event(text, start)
            # An event counts once what separates it from the next is there too.
            after = _skip(text, end) if end else size
            if after >= size:
                break
            if text[after] not in ",]":
                raise InvalidError(f"{text[after]!r} after event {self.events}")
            self.events += 1
            self._comma = text[after] == ","
            at = after + self._comma
        if size - at > _LONGEST_EVENT:
            raise InvalidError(f"event {self.events} cannot be read: {text[at : at + 80]!r}")
        self._text = text[at:]
        return text[:at]

    def _event(self, text: str, start: int) -> int:
        """The end of the event; 0 if not all of it is there."""
        if text[start] != "{":
            raise InvalidError(f"{text[start]!r} where event {self.events} should begin")
        try:
            _, end = _decode(text, start)
        except (ValueError, RecursionError):
            return 0
        return end

    def _keep_tail(self, text: str) -> None:
        assert self._tail is not None
        self._tail.append(text)
        self._tail_size += len(text)
        if self._tail_size > _LONGEST_FRAME:
            raise InvalidError("what follows the events does not end")

    def finish(self) -> str:
        """The rest to be written, once all has been fed.

        Raises:
            InvalidError: it is no valid JSON, or it is cut off.
        """
        if self._before is None or self._tail is None:
            raise InvalidError(f"it is cut off, or event {self.events} cannot be read: {self._text[:80]!r}")
        tail = "".join(self._tail)
        ended = _TRACE_NAME.sub("", tail, count=1)
        if ended == tail:
            ended = _ODD_TRACE_NAME.sub("}", tail)
        ended = ended.rstrip().removesuffix("}")
        tail = ended + self._ending
        try:
            document = json.loads(
                f'{self._before}"{_MARK}"]{tail}', parse_constant=_no_constant, object_pairs_hook=_without_twins
            )
        except (ValueError, RecursionError) as error:
            raise InvalidError(f"around the events: {error}") from None
        if not isinstance(document, dict) or document.get("traceEvents") != [_MARK]:
            raise InvalidError("the events are not where they seem to be")
        return tail


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    whole = dict(pairs)
    if len(whole) != len(pairs) and "traceEvents" in whole:
        raise InvalidError("a key stands twice at the top")
    return whole


def texts(blocks: Iterable[bytes]) -> Iterator[str]:
    """Text of the blocks; a character may straddle two.

    Raises:
        InvalidError: it is no UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for block in blocks:
            yield decoder.decode(block)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise InvalidError(f"no UTF-8: {error.reason}") from None


# --- what can be kept ---------------------------------------------------------------------------------------------

_SEPARATOR: Final = "\n  },\n  {"
_NAME: Final = re.compile(r'("name": ")(.*?)(", "pid": |",\s*\n\s*"(?:pid|ts)": )', re.DOTALL)
_KNOWN_MEMBERS: Final = (
    ("schemaVersion", r"\d+"),
    ("displayTimeUnit", r'"\w+"'),
    ("baseTimeNanoseconds", r"\d+"),
    ("trace_id", r'"\w+"'),
    ("host_name", r'"[\w.-]+"'),
    ("record_shapes", r"\d+"),
    ("profile_memory", r"\d+"),
    ("with_stack", r"\d+"),
)


def repaired(pieces: Iterable[str], lost: list[int]) -> Iterator[str]:
    """The same trace with each event that cannot be read mended or left out, and a plain frame around them.

    It goes by how torch lays its events out, one after the other. What is left out is counted in `lost[0]`.
    """
    text, begun, first = "", False, True
    for piece in pieces:
        text += piece
        if not begun:
            begin = _BEGIN.search(text)
            if begin is None:
                continue
            begun = True
            yield _frame(text[: begin.start()])
            text = text[begin.end() :].lstrip()
        *whole, text = text.split(_SEPARATOR)
        for event in whole:
            kept = _mended(event)
            lost[0] += kept is None
            if kept is not None:
                yield kept if first else ",\n" + kept
                first = False
    last = _mended(text.rpartition("\n  }")[0]) if begun else None
    lost[0] += last is None
    if last is not None:
        yield last if first else ",\n" + last
    if not begun:
        yield _frame("")
    yield "\n]}\n"


def _frame(before: str) -> str:
    known = []
    for key, value in _KNOWN_MEMBERS:
        value_match = re.search(rf'"{key}"\s*:\s*({value})', before)
        if value_match:
            known.append(f'"{key}": {value_match[1]}')
    distributed = re.search(r'"distributedInfo"\s*:\s*', before)
    if distributed:
        try:
            value, _ = _decode(before, distributed.end())
            known.append(f'"distributedInfo": {json.dumps(value)}')
        except (ValueError, InvalidError, RecursionError):
            pass
    return "{" + "".join(f"{each},\n" for each in known) + '"traceEvents": ['


def _mended(event: str) -> str | None:
    """The event as valid JSON; None if that is beyond us."""
    inner = event.strip().removeprefix("{")
    for text in (inner, _NAME.sub(_escaped, inner, count=1)):
        try:
            value = json.loads("{" + text + "}", parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            continue
        return json.dumps(value)
    return None


def _escaped(name: re.Match[str]) -> str:
    return name[1] + json.dumps(name[2])[1:-1] + name[3]
