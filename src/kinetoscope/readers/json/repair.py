"""Repair of the parts of a trace that are not JSON.

PyTorch writes names, paths and metadata without escaping them, logs into the file, and dies in the middle of writing.
The strict tokenizer stops at the start of the broken part; `resync` finds the next believable event or
member, and here the bytes up to there become valid JSON, with a word on the damage.

The parser is tolerant, knows where it stands (object or list, how deep), and does not recurse. A quote ends a text only
if what follows may follow a text. Numbers, escapes that are valid, repeated keys and the order of keys come out as they
went in; all work is linear in the size of the input. Valid JSON comes out with the same content.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from kinetoscope.readers.json.resync import Buffer

Kind = Literal[
    "quotes", "backslashes", "control", "encoding", "words", "numbers",
    "commas", "brackets", "keys", "cut", "rubbish", "raw",
]  # fmt: skip
"""A kind of damage, for counting; `PHRASES` has the words."""

PHRASES: Final[dict[Kind, str]] = {
    "quotes": "quotes inside a text escaped",
    "backslashes": "lone backslashes kept as backslashes",
    "control": "control characters inside a text escaped",
    "encoding": "bytes that are not UTF-8 replaced",
    "words": "values without quotes kept as text",
    "numbers": "NaN and infinity respelled",
    "commas": "missing or surplus commas put right",
    "brackets": "missing brackets added",
    "keys": "keys without a value dropped",
    "cut": "a value that was cut off dropped",
    "rubbish": "text that belongs to nothing dropped",
    "raw": "unreadable value kept as text",
}

MAX_DEPTH: Final = 200
"""Deeper nesting than this is refused: no profiler writes it, and Python's own JSON reader recurses."""

_MAX_DIGITS: Final = 4000  # Python refuses to read longer integers
_PASTED_CHARACTERS: Final = 1 << 20  # characters an event may spend on looking for the end of JSON pasted into a text
_MAX_ENDS: Final = 64  # ends considered for a value without quotes

_WS = r"[ \t\n\r]*+"
_KEY = re.compile(rf'"[^"\\]*+(?:\\.[^"\\]*+)*+"{_WS}:', re.DOTALL)  # any key that valid JSON may have
_PLAIN_KEY = re.compile(rf'"(?:[^\s,:{{}}\[\]"\\][^"\\\n]*+)?"{_WS}:')  # one that is no accident of quotes in a text
_ITEM = re.compile(  # what may come next in a list
    rf'["{{\[]|(?:-?[0-9][0-9.eE+-]*+|true|false|null|NaN|nan|-?Infinity|-?inf){_WS}(?:[,\]]|\Z)'
)
_PLAIN_ITEM = re.compile(r'"[^\s,:{}\[\]"\\]')
_AS_VALID = (_KEY, _ITEM)
_AS_BROKEN = (_PLAIN_KEY, _ITEM)
_AS_ESCAPED = (_PLAIN_KEY, _PLAIN_ITEM)  # cannot follow an escaped quote in valid JSON: the backslash was a lone one
_Next = tuple[re.Pattern[str], re.Pattern[str]]

_SPACE = re.compile(_WS)
_GAP = re.compile(r"[ \t\n\r,]*+")
_TAIL = re.compile(r"[ \t\n\r,]*+\Z")
_COLON = re.compile(rf"{_WS}:{_WS}")
_DELIMITER = re.compile(rf"{_WS}(?:[,}}\]]|\Z)")
_EARLY_BRACKET = re.compile(rf"{_WS},{_WS}{_PLAIN_KEY.pattern}")  # after a closing bracket: it closed too early
_MARK = re.compile(r'\\.|"', re.DOTALL)
_RESUME = re.compile(rf"{_PLAIN_KEY.pattern}|[}}\]]")
_END_OF_WORD = re.compile(r',[ \t\n\r,]*+|\n[ \t\n\r]*+|[}\]"]')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_LITERAL = re.compile(r"true|false|null|NaN|-?Infinity")
_SCALAR = re.compile(rf'(?:{_NUMBER.pattern}|{_LITERAL.pattern})(?={_WS}(?:[,}}\]"]|\Z))')
_NAN = re.compile(r"[+-]?(?:nan(?:\(\w*\))?|1\.#(?:QNAN|SNAN|IND)\w*)", re.ASCII | re.IGNORECASE)
_INFINITY = re.compile(r"([+-]?)(?:inf(?:inity)?|1\.#INF\w*)", re.ASCII | re.IGNORECASE)
_UNUSUAL_CHARACTER = re.compile(r'[\\"\x00-\x1f]')
_PIECE = re.compile(r'\\u[0-9a-fA-F]{4}|\\["\\]|(\\[/bfnrt])|(\\)|["\x00-\x1f]')


@dataclass(frozen=True, slots=True)
class RepairedEvent:
    """One event as valid JSON bytes (NaN and Infinity as Python's json spells them), and the kinds of fault it had."""

    json: bytes
    kinds: tuple[Kind, ...]

    @property
    def what(self) -> str:
        """The faults in words."""
        return _in_words(self.kinds)


class RepairedMember(NamedTuple):
    """One member of the top-level object: its key, its value as valid JSON bytes, and the faults in words."""

    key: str
    json: bytes
    what: str


def repair_event(text: Buffer) -> RepairedEvent | None:
    """One broken event as valid JSON; None if not a single key of it can be kept.

    `text` runs from the `{` of the event to the next event or the end of the list; commas and white space around it
    belong to nothing. Never raises.
    """
    decoded, kinds = _decoded(text)
    body = decoded.lstrip(" \t\n\r,")
    if not body.startswith("{"):
        if not _PLAIN_KEY.match(body):
            return None
        body = "{" + body
        kinds.add("brackets")
    mender = _Mender(body, kinds)
    if not mender.mend() or not mender.members:
        return None
    return RepairedEvent("".join(mender.out).encode(), _in_order(kinds))


def repair_member(text: Buffer) -> RepairedMember | None:
    """The broken member of the top-level object that stands in `text`; None if there is no key in it.

    `text` runs from the start of the member to the next believable one, or to the end of the input with or without the
    closing brace. A value inside which something would be dropped is kept whole, as text. Never raises.
    """
    decoded, kinds = _decoded(text)
    body = "{" + decoded.lstrip(" \t\n\r,")
    mender = _Mender(body, kinds, wrapped=True)
    whole = mender.mend() and len(mender.members) == 1 and not mender.lossy
    if not mender.members:
        return None
    written, stood = mender.members[0]
    key: str = json.loads(mender.out[written - 1][:-1])
    if whole:
        return RepairedMember(key, "".join(mender.out[written:-1]).encode(), _in_words(_in_order(kinds)))
    raw = _raw_value(body[stood:])
    return RepairedMember(key, raw.encode(), _in_words(_in_order((kinds & {"encoding"}) | {"raw"})))


def _raw_value(text: str) -> str:
    """`text` as a JSON text, less the closing brace of the file where it came along."""
    raw = text.rstrip(" \t\n\r,")
    if raw.endswith("}") and raw.count("}") > raw.count("{"):
        raw = raw[:-1].rstrip(" \t\n\r,")
    return json.dumps(raw, ensure_ascii=False)


def _decoded(text: Buffer) -> tuple[str, set[Kind]]:
    data = bytes(text)
    try:
        return data.decode(), set()
    except UnicodeDecodeError:
        return data.decode(errors="replace"), {"encoding"}


def _in_order(kinds: set[Kind]) -> tuple[Kind, ...]:
    return tuple(kind for kind in PHRASES if kind in kinds)


def _in_words(kinds: tuple[Kind, ...]) -> str:
    return "; ".join(PHRASES[kind] for kind in kinds) or "valid JSON in an unusual form"


def _escaped(raw: str, kinds: set[Kind]) -> str:
    r"""The inside of a text as JSON wants it; what is valid stays as it is spelled.

    One invalid escape shows that the writer escaped no backslash: then `\n` is a backslash and an n as well, as in
    `C:\x\new`.
    """
    if not _UNUSUAL_CHARACTER.search(raw):
        return raw
    lone = any(piece[2] for piece in _PIECE.finditer(raw))

    def spelled(piece: re.Match[str]) -> str:
        if piece[2] or (piece[1] and lone):
            kinds.add("backslashes")
            return "\\" + piece[0].replace("\\", "\\", 1)
        if piece[0] == '"':
            kinds.add("quotes")
            return '\\"'
        if piece[0] < " ":
            kinds.add("control")
            return json.dumps(piece[0])[1:-1]
        return piece[0]

    return _PIECE.sub(spelled, raw)


class _Mender:
    """Reads one object, whose `{` is the first character of `text`, and writes it to `out` as valid JSON.

    `members` holds, for each member of the object itself, where its value begins in `out` and in `text`.
    `wrapped`: the braces are not in the input, so that their absence is no fault.
    """

    __slots__ = (
        "budget", "filled", "hopeless", "kinds", "lossy", "members", "out", "pos", "stack", "text", "wrapped",
    )  # fmt: skip

    def __init__(self, text: str, kinds: set[Kind], *, wrapped: bool = False) -> None:
        self.text = text
        self.kinds = kinds
        self.wrapped = wrapped
        self.pos = 1
        self.stack = ["{"]
        self.filled = [False]  # per level: whether it holds something yet
        self.out = ["{"]
        self.members: list[tuple[int, int]] = []
        self.lossy = False  # something was dropped inside a member's value
        self.hopeless = False  # a text has no believable end: do not search to the end again
        self.budget = _PASTED_CHARACTERS

    def mend(self) -> bool:
        """Read all of the text; False if it is nested too deeply."""
        text = self.text
        while self.stack:
            if len(self.stack) > MAX_DEPTH:
                return False
            gap = _GAP.match(text, self.pos)
            commas = gap[0].count(",") if gap else 0
            self.pos = gap.end() if gap else self.pos
            if self.pos == len(text):
                break
            if text[self.pos] in "}]":
                self._expect_commas(commas, 0)
                self._close(text[self.pos])
                continue
            while self.stack[-1] == "[" and _PLAIN_KEY.match(text, self.pos):
                self._pop()  # a key cannot stand in a list: its bracket is missing
                self.kinds.add("brackets")
            self._expect_commas(commas, int(self.filled[-1]))
            if self.stack[-1] == "{":
                self._member()
            else:
                self._value("")
        self._finish()
        return True

    def _finish(self) -> None:
        if not self.stack and not _TAIL.match(self.text, self.pos):
            self.kinds.add("rubbish")
        if len(self.stack) > self.wrapped:
            self.kinds.add("brackets")
        while self.stack:
            self._pop()

    def _expect_commas(self, count: int, wanted: int) -> None:
        if count != wanted:
            self.kinds.add("commas")

    def _drop(self, kind: Kind) -> None:
        self.kinds.add(kind)
        self.lossy = self.lossy or (kind != "cut" and len(self.stack) > 1)

    def _pop(self) -> None:
        self.out.append("}" if self.stack.pop() == "{" else "]")
        self.filled.pop()

    def _level_below(self, char: str, depth: int) -> int:
        """Depth that is left when `char` closes its bracket (and those inside it), -1 if none is open."""
        opener = "{" if char == "}" else "["
        while depth and self.stack[depth - 1] != opener:
            depth -= 1
        return depth - 1

    def _close(self, char: str) -> None:
        depth = self._level_below(char, len(self.stack))
        self.pos += 1
        if depth < 0 or (depth == 0 and _EARLY_BRACKET.match(self.text, self.pos)):
            self._drop("rubbish")
            return
        if depth < len(self.stack) - 1:
            self.kinds.add("brackets")
        while len(self.stack) > depth:
            self._pop()

    def _member(self) -> None:
        text = self.text
        if text[self.pos] != '"':
            self._drop("rubbish")
            start = _RESUME.search(text, self.pos)
            self.pos = start.start() if start else len(text)
            return
        end = self._end_of_key(self.pos + 1)
        if end < 0:
            self._drop("cut")
            self.pos = len(text)
            return
        key = f'"{_escaped(text[self.pos + 1 : end], self.kinds)}":'
        self.pos = end + 1
        colon = _COLON.match(text, self.pos)
        if colon:
            self.pos = colon.end()
        if not colon or self.pos == len(text) or text[self.pos] in ",}]":
            self._drop("keys")
            return
        self._value(key)

    def _value(self, key: str) -> None:
        char = self.text[self.pos]
        if char in "{[":
            self._emit(key, char)
            self.stack.append(char)
            self.filled.append(False)
            self.pos += 1
        elif char == '"':
            start = self.pos + 1
            end = self._end_of_text(start)
            if end < 0:
                self._drop("cut")
                self.pos = len(self.text)
                return
            self._emit(key, f'"{_escaped(self.text[start:end], self.kinds)}"')
            self.pos = end + 1
        else:
            self._scalar(key)

    def _emit(self, key: str, value: str) -> None:
        if self.filled[-1]:
            self.out.append(",")
        self.filled[-1] = True
        if key:
            self.out.append(key)
            if len(self.stack) == 1:
                self.members.append((len(self.out), self.pos))
        self.out.append(value)

    def _scalar(self, key: str) -> None:
        text, start = self.text, self.pos
        scalar = _SCALAR.match(text, start)
        end = scalar.end() if scalar else self._end_of_word()
        word = text[start:end].rstrip(" \t\n\r")
        if end == len(text) and not _LITERAL.fullmatch(word):
            self._drop("cut")  # the digits that followed may be missing
        elif _LITERAL.fullmatch(word) or (_NUMBER.fullmatch(word) and len(word) <= _MAX_DIGITS):
            self._emit(key, word)
        elif infinity := _INFINITY.fullmatch(word):
            self.kinds.add("numbers")
            self._emit(key, "-Infinity" if infinity[1] == "-" else "Infinity")
        elif _NAN.fullmatch(word):
            self.kinds.add("numbers")
            self._emit(key, "NaN")
        else:
            self.kinds.add("words")
            self._emit(key, json.dumps(word, ensure_ascii=False))
        self.pos = end

    def _end_of_word(self) -> int:
        """Where a value without quotes ends: in a list at the first comma, in an object before the next member."""
        first = -1
        for tries, mark in enumerate(_END_OF_WORD.finditer(self.text, self.pos)):
            is_quote = mark[0] == '"'
            if (self.stack[-1] == "[" and not is_quote) or self._fits(mark.start(), _AS_BROKEN):
                return mark.start()
            if first < 0 and not is_quote:
                first = mark.start()
            if tries >= _MAX_ENDS and first >= 0:
                break
        return first if first >= 0 else len(self.text)

    def _end_of_key(self, start: int) -> int:
        """Offset of the quote that ends the key, which a colon follows (or the key has no value), -1 if none does."""
        for mark in _MARK.finditer(self.text, start):
            if mark[0] == '"' and (_COLON.match(self.text, mark.end()) or self._fits(mark.end(), _AS_BROKEN)):
                return mark.start()
        return -1

    def _end_of_text(self, start: int) -> int:
        """Offset of the quote that ends the text that begins at `start`, -1 if it is cut off."""
        first = -1
        inner = 0
        for mark in _MARK.finditer(self.text, start):
            if mark[0] == '"':
                if self._fits(mark.end(), _AS_BROKEN if inner else _AS_VALID):
                    return self._end_of_pasted(start, mark.start()) if inner >= 3 else mark.start()
                inner += 1
                if first < 0 and _DELIMITER.match(self.text, mark.end()):
                    first = mark.start()
                if self.hopeless and first >= 0:
                    return first
            elif mark[0] == '\\"' and self._fits(mark.end(), _AS_ESCAPED):
                return mark.end() - 1
        self.hopeless = True
        return first

    def _end_of_pasted(self, start: int, end: int) -> int:
        """The end of a text with JSON pasted into it, whose first believable end is `end`: where its brackets close."""
        inside = self.text[start:end]
        depth = inside.count("{") + inside.count("[") - inside.count("}") - inside.count("]")
        if depth <= 0:
            return end
        seen, limit = end, min(len(self.text), end + self.budget)
        for mark in _MARK.finditer(self.text, end + 1, limit):
            if mark[0] != '"':
                continue
            inside = self.text[seen : mark.start()]
            depth += inside.count("{") + inside.count("[") - inside.count("}") - inside.count("]")
            seen = mark.start()
            if depth == 0 and self._fits(mark.end(), _AS_BROKEN):
                return seen
        self.budget -= limit - end
        return end

    def _fits(self, pos: int, after: _Next) -> bool:
        """Whether a value may end at `pos`: brackets that close what is open, then another member or item.

        The text may end behind a bracket or a comma; right at `pos` that proves nothing. `after` are the patterns of
        the key and of the list item that may follow the comma.
        """
        text, depth = self.text, len(self.stack)
        key, item = after
        comma = closed = False
        while True:
            gap = (_GAP if comma else _SPACE).match(text, pos)
            pos = gap.end() if gap else pos
            if pos == len(text):
                return comma or closed
            char = text[pos]
            if char in "}]":
                depth = self._level_below(char, depth)
                pos += 1
                if depth <= 0:
                    return depth == 0 and bool(_TAIL.match(text, pos) or _EARLY_BRACKET.match(text, pos))
                comma, closed = False, True
            elif char == "," and not comma:
                comma = True
            elif self.stack[depth - 1] == "[":
                return comma and item.match(text, pos) is not None
            else:
                return (key if comma else _PLAIN_KEY).match(text, pos) is not None
