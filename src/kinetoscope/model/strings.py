"""The strings of a trace: each once, as bytes, decoded when someone asks.

A code is the place of a string in order of first appearance. What is kept is the text between the quotation marks as
it stands in the file, escapes and all; nested JSON and odd numbers are kept here too.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.model.health import Symptom

_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_NOT_FINITE: Final = {
    "nan": math.nan, "-nan": math.nan, "+nan": math.nan, "inf": math.inf, "+inf": math.inf, "-inf": -math.inf,
    "infinity": math.inf, "+infinity": math.inf, "-infinity": -math.inf,
}  # fmt: skip
_LONE_BACKSLASH: Final = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_LONGEST_INTEGER: Final = 4300
"""Digits beyond which Python refuses to convert, because it would take too long."""


class Strings:
    """The string table of a trace.

    Args:
        arena: uint8, the bytes; each string is preceded by its length (int64) and begins at a multiple of eight.
        offsets: int64 [strings], where each begins.
    """

    def __init__(self, arena: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self._arena = arena
        self._offsets = offsets
        self._lengths: NDArray[np.int64] = arena[: arena.size // 8 * 8].view(np.int64)[(offsets - 8) // 8]
        self._texts: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return int(self._arena.nbytes + self._offsets.nbytes + self._lengths.nbytes)

    def raw(self, code: int) -> bytes:
        """The bytes as they stand in the file."""
        offset = int(self._offsets[code])
        return self._arena[offset : offset + int(self._lengths[code])].tobytes()

    def text(self, code: int) -> str:
        """The string, decoded; what is not valid in it (escapes, UTF-8) is kept as well as can be."""
        text = self._texts.get(code)
        if text is None:
            text = self._texts[code] = decode(self.raw(code))
        return text

    def label(self, code: int) -> str:
        """The string as frames can hold it: lone surrogates replaced. "" for −1."""
        if code < 0:
            return ""
        text = self.text(code)
        return text if text.isascii() else text.encode("utf-8", "replace").decode()

    def labels(self, codes: Iterable[int]) -> list[str]:
        """The labels of several codes."""
        return [self.label(code) for code in codes]

    def code(self, text: str) -> int:
        """The code of a string, −1 if the trace does not have it."""
        plain = self._plain(text)
        if plain >= 0:
            return plain
        return next((code for code in self._escaped if self.text(code) == text), -1)

    def _plain(self, text: str) -> int:
        """The code of a string that is spelled without escapes, −1 if there is none."""
        content = text.encode("utf-8", "surrogatepass")
        same = np.flatnonzero(self._lengths == len(content)).tolist()
        return next((int(code) for code in same if self.raw(code) == content), -1)

    def codes(self, texts: Iterable[str]) -> NDArray[np.int64]:
        """The codes of those of `texts` that the trace has."""
        return np.array([code for code in map(self.code, texts) if code >= 0], np.int64)

    def nested(self, code: int) -> Any:
        """The value of nested JSON; its text where it is no JSON after all, or nested too deeply to be decoded."""
        raw = self.raw(code)
        try:
            return json.loads(raw)
        except (ValueError, RecursionError):
            return raw.decode("utf-8", "replace")

    def number(self, code: int) -> int | float | str:
        """The value of a number kept as text: an int of any size, a float, or the bare word that it is."""
        return number(self.raw(code).decode("utf-8", "replace"))

    # --- what is odd about them

    @cached_property
    def _escaped(self) -> list[int]:
        """Codes of strings with a backslash that may be spelled otherwise, too."""
        return [code for code in self._owners(ord("\\")) if b'"' not in self.raw(code).replace(b'\\"', b"")]

    @cached_property
    def canonical(self) -> NDArray[np.int32]:
        """For each code the first code with the same text: int32 [strings]."""
        codes = np.arange(len(self), dtype=np.int32)
        first: dict[str, int] = {}
        for code in self._escaped:
            text = self.text(code)
            if text not in first:
                plain = self._plain(text)
                first[text] = code if plain < 0 else min(code, plain)
                codes[max(code, plain)] = first[text]
            codes[code] = first[text]
        return codes

    @property
    def has_synonyms(self) -> bool:
        """Are there two codes with the same text?"""
        return bool(self._escaped) and bool((self.canonical != np.arange(len(self))).any())

    @cached_property
    def symptoms(self) -> list[Symptom]:
        """Control characters, bad UTF-8 and bad escapes."""
        found = []
        control = sum(len(self._owners(byte)) for byte in range(32) if byte not in (9, 10, 13))
        if control:
            found.append(
                Symptom("CONTROL_CHARACTERS", "note", f"{control} strings hold control characters; they are kept.", control)
            )
        bad = sum(_is_bad_utf8(self.raw(code)) for code in self._high_bytes())
        if bad:
            message = f"{bad} strings are not valid UTF-8; the bytes that are not are shown as \ufffd."
            found.append(Symptom("BAD_UTF8", "note", message, bad))
        lone = sum(_LONE_BACKSLASH.search(self.raw(code).decode("latin-1")) is not None for code in self._escaped)
        if lone:
            message = f"{lone} strings hold backslashes that escape nothing; each is taken as a backslash."
            found.append(Symptom("LONE_BACKSLASH", "note", message, lone))
        return found

    def _owners(self, byte: int) -> list[int]:
        """Codes of the strings that hold a byte."""
        return self._owners_of(np.flatnonzero(self._used == byte))

    def _high_bytes(self) -> list[int]:
        return self._owners_of(np.flatnonzero(self._used >= 128))

    @property
    def _used(self) -> NDArray[np.uint8]:
        end = int(self._offsets[-1] + self._lengths[-1]) if len(self) else 0
        return self._arena[:end]

    def _owners_of(self, places: NDArray[np.int64]) -> list[int]:
        owner = np.searchsorted(self._offsets, places, side="right") - 1
        inside = (owner >= 0) & (places < self._offsets[owner] + self._lengths[owner])  # not in a length
        return [int(code) for code in np.unique(owner[inside])]


def decode(content: bytes) -> str:
    """The text of what stands between two quotation marks in JSON, tolerant of bad UTF-8 and bad escapes."""
    text = content.decode("utf-8", "replace")
    if "\\" not in text:
        return text
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        try:
            return str(json.loads('"' + _LONE_BACKSLASH.sub(r"\\\\", text) + '"', strict=False))
        except ValueError:
            return text


def number(text: str) -> int | float | str:
    """A number of JSON, NaN or an infinity however spelled; any other word comes back as it is."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return _NOT_FINITE.get(text.lower(), text)
    if match.group(1) is None and match.group(2) is None:
        return int(text) if len(text) < _LONGEST_INTEGER else text
    return float(text)


def _is_bad_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return True
    return False
