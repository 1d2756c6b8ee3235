"""The strings of a trace: each once, as bytes, decoded on demand.

A code is the place of a string in order of first appearance. What is kept is the text between the quotation marks as
it stands in the file, escapes and all; nested JSON and odd numbers are kept here too.
"""

from __future__ import annotations

import json
import math
import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, UInt8s
from kinetoscope.notes import Note

CONTROL, BAD_UTF8, LONE_BACKSLASH, RESPELLED, NESTED = 1, 2, 4, 8, 16
"""What may be odd about a string, as flags. CONTROL: it holds control characters other than tabs and line breaks.
LONE_BACKSLASH: a backslash that escapes nothing. RESPELLED: it is not spelled as `json.dumps` would without escaping
what is not ASCII (`\\u0041`, `\\/`, a bare tab, a lone backslash). NESTED: nested JSON, no content of a string."""

_LAX: Final = json.JSONDecoder(strict=False)
"""Takes control characters inside strings; `json.loads` would make one at each call."""

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NOT_FINITE: Final = {
    "nan": math.nan, "-nan": math.nan, "+nan": math.nan, "inf": math.inf, "+inf": math.inf, "-inf": -math.inf,
    "infinity": math.inf, "+infinity": math.inf, "-infinity": -math.inf,
}  # fmt: skip
_INFINITIES: Final = (math.inf, -math.inf)
_ESCAPE: Final = re.compile(r'\\(?:(["\\]|u[0-9a-fA-F]{4})|([/bfnrt])|)')
_BARE_WORD: Final = re.compile(r'("(?:[^"\\]|\\.)*+")|[+-]?[A-Za-z0-9.+_/-]+', re.DOTALL)
_PUNCTUATION: Final = re.compile(r"\s*([\[\]{}:,])\s*")
_MAX_INTEGER_DIGITS: Final = 4300
"""Longer integers Python refuses to convert."""
_LONG_INTEGER: Final = re.compile(
    rf'"(?:[^"\\]|\\.)*+"|(?<![0-9.eE+])([0-9]{{{_MAX_INTEGER_DIGITS + 1},}}+)(?![0-9.eE])', re.DOTALL
)


class Strings:
    """The string table of a trace.

    Args:
        arena: uint8, the bytes; each string is preceded by its length (int64) and begins at a multiple of eight.
        offsets: int64 [strings], where each begins.
        oddities: uint8 [strings], flags: what is odd about each. None: nothing is.
    """

    def __init__(self, arena: UInt8s, offsets: Int64s, oddities: UInt8s | None = None) -> None:
        self._arena = arena
        self._offsets = offsets
        self._lengths: Int64s = arena[: arena.size // 8 * 8].view(np.int64)[(offsets - 8) // 8]
        self._oddities = np.zeros(len(offsets), np.uint8) if oddities is None else oddities
        self._texts: dict[int, str] = {}
        self._codes: dict[str, int] = {}
        self._holding: dict[tuple[str, ...], Bools] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def parts(self) -> tuple[UInt8s, Int64s, UInt8s]:
        """Its parts, for a copy that is stored: arena (as far as it is used), offsets, oddities."""
        end = int(self._offsets[-1] + self._lengths[-1]) if len(self) else 0
        return self._arena[:end], self._offsets, self._oddities

    @property
    def capacity(self) -> int:
        """Bytes of the arena, those not yet used included."""
        return self._arena.size

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        arrays = (self._arena, self._offsets, self._lengths, self._oddities)
        return sum(array.nbytes for array in arrays)

    def raw(self, code: int) -> bytes:
        """The bytes as they stand in the file."""
        offset = int(self._offsets[code])
        return self._arena[offset : offset + int(self._lengths[code])].tobytes()

    def text(self, code: int) -> str:
        """The string, decoded; what is not valid in it (escapes, UTF-8) is kept as well as can be."""
        if code not in self._texts:
            self._texts[code] = decode(self.raw(code))
        return self._texts[code]

    def label(self, code: int) -> str:
        """The string as frames can hold it: lone surrogates replaced. "" for −1."""
        if code < 0:
            return ""
        text = self.text(code)
        return text if text.isascii() else text.encode("utf-8", "replace").decode()

    def glance(self, code: int) -> str:
        """The label, not kept for the next time: for looking through all the strings of a large trace once."""
        if code in self._texts or code < 0:
            return self.label(code)
        text = decode(self.raw(code))
        return text if text.isascii() else text.encode("utf-8", "replace").decode()

    def holding(self, words: tuple[str, ...]) -> Bools:
        """Strings that may hold one of some words: bool [strings]. None that does is left out.

        One search through the bytes of all strings, where decoding half a million of them would take a second.
        """
        if words not in self._holding:
            end = int(self._offsets[-1] + self._lengths[-1]) if len(self) else 0
            content = self._arena[:end].tobytes()
            places = [place for word in words for place in _places(content, word.encode())]
            holds = (self._oddities & RESPELLED) != 0
            holds[np.searchsorted(self._offsets, np.array(places, np.int64), side="right") - 1] = True
            self._holding[words] = holds
        return self._holding[words]

    def containing(self, text: str) -> Bools:
        """Strings that contain a text, given in lower case: bool [strings].

        Case does not matter in ASCII, nor does white space around the punctuation of lists. Like `holding`, one search
        through all bytes; each string that matches is left at once, so that there are no more finds than strings.
        """
        end = int(self._offsets[-1] + self._lengths[-1]) if len(self) else 0
        content, pattern = self._arena[:end].tobytes().lower(), _pattern(text)
        begins, ends = self._offsets.tolist(), (self._offsets + self._lengths).tolist()
        holds = np.zeros(len(self), np.bool_)
        match = pattern.search(content)
        while match is not None:
            code = bisect_right(begins, match.start()) - 1
            inside = code >= 0 and match.end() <= ends[code]  # else it is in what stands between two strings
            if inside:
                holds[code] = True
            match = pattern.search(content, ends[code] if inside else match.start() + 1)
        for code in np.flatnonzero(self._oddities & (RESPELLED | NESTED) == RESPELLED).tolist():
            holds[code] = text in self.glance(code).lower()
        return holds

    def labels(self, codes: Iterable[int]) -> list[str]:
        """The labels of several codes."""
        return [self.label(code) for code in codes]

    def code(self, text: str) -> int:
        """The code of a string, −1 if the trace does not have it."""
        if text not in self._codes:
            content = spelled(text)
            same_length = np.flatnonzero(self._lengths == len(content)).tolist()
            code = next((int(code) for code in same_length if self.raw(code) == content), -1)
            self._codes[text] = code if code >= 0 else self._respelled.get(text, -1)
        return self._codes[text]

    def codes(self, texts: Iterable[str]) -> Int64s:
        """The codes of those of `texts` that the trace has."""
        return np.array([code for code in map(self.code, texts) if code >= 0], np.int64)

    def nested(self, code: int) -> Any:
        """The value of nested JSON; see `value_of`."""
        return value_of(self.raw(code).decode("utf-8", "replace"))

    def number(self, code: int) -> int | float | str:
        """The value of a number kept as text: an int of any size, a float, or the bare word that it is."""
        return number(self.raw(code).decode("utf-8", "replace"))

    def extended(self, spellings: Sequence[bytes], oddities: UInt8s) -> tuple[Strings, Int64s]:
        """A table that holds more strings, after its own, and the code of each of them: int64 [spellings].

        Args:
            spellings: the bytes between quotation marks, or nested JSON.
            oddities: uint8 [spellings], flags: what is odd about each.
        """
        lengths = np.unique(np.array([len(each) for each in spellings], np.int64))
        wanted = dict.fromkeys(zip(spellings, oddities.tolist(), strict=True), -1)
        for code in np.flatnonzero(np.isin(self._lengths, lengths)).tolist():
            known = self.raw(code), int(self._oddities[code])
            if wanted.get(known) == -1:
                wanted[known] = code
        arena, offsets, own = self.parts
        pieces, end = [arena], arena.size
        added, flags = list[int](), list[int]()
        for (spelling, flag), code in wanted.items():
            if code >= 0:
                continue
            pad = -end % 8
            pieces.append(np.frombuffer(b"\0" * pad + len(spelling).to_bytes(8, sys.byteorder) + spelling, np.uint8))
            wanted[spelling, flag] = len(offsets) + len(added)
            added.append(end + pad + 8)
            flags.append(flag)
            end += pad + 8 + len(spelling)
        pieces.append(np.zeros(-end % 8, np.uint8))
        table = Strings(
            np.concatenate(pieces),
            np.concatenate([offsets, np.array(added, np.int64)]),
            np.concatenate([own, np.array(flags, np.uint8)]),
        )
        return table, np.array([wanted[each] for each in zip(spellings, oddities.tolist(), strict=True)], np.int64)

    def oddities_of(self, codes: Int64s) -> UInt8s:
        """Flags: what is odd about some strings, uint8 [codes]."""
        return self._oddities[codes]

    # --- what is odd about them

    @cached_property
    def _respelled(self) -> dict[str, int]:
        """The first code of each text that is spelled in an unusual way; only such a text can have a second code."""
        codes = np.flatnonzero(self._oddities & (RESPELLED | NESTED) == RESPELLED).tolist()
        return {self.text(code): code for code in reversed(codes)}

    @cached_property
    def canonical(self) -> Int32s:
        """For each code the first code with the same text: int32 [strings]."""
        codes = np.arange(len(self), dtype=np.int32)
        usual = self._usual({spelled(text) for text in self._respelled})
        first = {text: min(code, usual.get(spelled(text), code)) for text, code in self._respelled.items()}
        for code in np.flatnonzero(self._oddities & (RESPELLED | NESTED) == RESPELLED).tolist():
            text = self.text(code)
            codes[code] = codes[usual.get(spelled(text), code)] = first[text]
        return codes

    def _usual(self, spellings: set[bytes]) -> dict[bytes, int]:
        """The codes of those of the spellings that a string without oddities has."""
        lengths = np.array([len(spelling) for spelling in spellings], np.int64)
        odd = self._oddities & (RESPELLED | BAD_UTF8) != 0
        candidates = np.flatnonzero(np.isin(self._lengths, lengths) & ~odd).tolist()
        return {content: code for code in candidates if (content := self.raw(code)) in spellings}

    @property
    def has_synonyms(self) -> bool:
        """True if two codes have the same text."""
        return bool(self._respelled) and bool((self.canonical != np.arange(len(self))).any())

    @property
    def long(self) -> Bools:
        """Strings that could hold an integer with more digits than Python converts: bool [strings]."""
        return self._lengths > _MAX_INTEGER_DIGITS

    @cached_property
    def symptoms(self) -> list[Note]:
        """Control characters, bad UTF-8 and bad escapes."""
        flags = (CONTROL, BAD_UTF8, LONE_BACKSLASH)
        control, bad, lone = (int(np.count_nonzero(self._oddities & flag)) for flag in flags)
        stored = f"{control} strings hold control characters; they are kept."
        shown = f"{bad} strings are not valid UTF-8; the bytes that are not are shown as \ufffd."
        taken = f"{lone} strings hold backslashes that escape nothing; each is taken as a backslash."
        symptoms = [
            Note("CONTROL_CHARACTERS", stored, "note", control),
            Note("BAD_UTF8", shown, "note", bad),
            Note("LONE_BACKSLASH", taken, "note", lone),
        ]
        return [symptom for symptom in symptoms if symptom.number]


def _pattern(text: str) -> re.Pattern[bytes]:
    """The bytes of a text in lower case, with any white space around the punctuation of lists."""
    pattern = b""
    for place, part in enumerate(_PUNCTUATION.split(text)):
        word = re.escape(spelled(part).lower() if place % 2 == 0 else part.encode())
        between = rb"\s*" if pattern and word else b""
        pattern += between + word.replace(rb'\\"', rb'\\?"')  # nested JSON does not escape its quotation marks
    return re.compile(pattern)


def _places(content: bytes, word: bytes) -> Iterator[int]:
    """Places of a word in a text; for one word this is ten times as fast as a regular expression for several."""
    place = content.find(word)
    while place >= 0:
        yield place
        place = content.find(word, place + 1)


def decode(content: bytes) -> str:
    r"""The text of what stands between two quotation marks in JSON, tolerant of bad UTF-8 and bad escapes.

    One bad escape shows that the writer escaped no backslash: then those in `C:\x\new` are all meant as they stand.
    """
    text = content.decode("utf-8", "replace")
    if "\\" not in text:
        return text
    try:
        return str(_LAX.decode(f'"{text}"'))
    except ValueError:
        escaped = _ESCAPE.sub(lambda match: match[0] if match[1] else "\\" + match[0], text)
    try:
        return str(_LAX.decode(f'"{escaped}"'))
    except ValueError:  # a quotation mark that is not escaped: no content of a string at all
        return text


def value_of(text: str) -> Any:
    """The value of a JSON text; bare words and integers longer than Python converts are texts in it.

    What is no JSON after all, or nested too deeply to be decoded, is its own text.
    """
    try:
        return _LAX.decode(text)
    except (ValueError, RecursionError):
        pass
    try:
        return _LAX.decode(_BARE_WORD.sub(_proper, text))
    except (ValueError, RecursionError):
        return text


def json_object(text: str | bytes) -> dict[str, Any]:
    """The JSON object that a text is; an empty one where it is none, or is nested too deeply to be decoded."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return mapping(value)


def mapping(value: object) -> dict[str, Any]:
    """A value of JSON as an object; an empty one where it is something else."""
    return value if isinstance(value, dict) else {}


def number(text: str) -> int | float | str:
    """A number of JSON, NaN or an infinity however spelled; any other word comes back as it is."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return _NOT_FINITE.get(text.lower(), text)
    if match.group(1) is None and match.group(2) is None:
        return int(text) if len(text.removeprefix("-")) <= _MAX_INTEGER_DIGITS else text
    return float(text)


def long_integers(text: str) -> int:
    """How many integers in a JSON text have more digits than Python converts."""
    if len(text) <= _MAX_INTEGER_DIGITS:
        return 0
    return sum(match[1] is not None for match in _LONG_INTEGER.finditer(text))


def spelled(text: str) -> bytes:
    """How JSON spells a text, with as few escapes as can be."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")


def _proper(word: re.Match[str]) -> str:
    """A string or a bare word of nested JSON as `json.loads` takes it."""
    if word[1] is not None:
        return json.dumps(decode(word[1][1:-1].encode())) if "\\" in word[1] else word[1]
    value = None if word[0] in ("true", "false", "null") else number(word[0])
    return json.dumps(value) if isinstance(value, str) or value != value or value in _INFINITIES else word[0]
