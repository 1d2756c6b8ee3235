"""A dump written as JSON, as the opcodes of the pickle that it might have been.

So that one machine makes the columns of both: objects become dicts, integers stay exact up to 64 bits, strings are
decoded. Nothing of the memo is used. What is no JSON ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from kinetoscope.algorithms.compiled import compiled, inlined
from kinetoscope.errors import BrokenTraceError
from kinetoscope.readers.json.tokenizer import PADDING

MAX_LEVELS: Final = 64
"""Levels of nesting; torch's have nine."""

MAX_TEXT_BYTES: Final = 1 << 20
"""Bytes of a JSON text that become opcodes at once, and of the longest string."""

BYTES_OUT: Final = 6
"""Opcodes' bytes of one byte of JSON, at most: `1,` becomes ten."""

LIST_BATCH: Final = 1000
"""Items of a list after which they are appended to it, as Python's pickler does."""

# Status, slots of the state, and what may come next.
MORE, DONE, BROKEN = range(3)
POSITION, WRITTEN, LEVEL, NEXT, STATES = range(5)
VALUE, VALUE_OR_END, KEY, KEY_OR_END, COLON, COMMA = range(6)

MAX_TENTH = np.uint64(1844674407370955161)  # ten times it, and a digit up to 5, fit into 64 bits
MAX_EXACT = np.uint64(1 << 53)
_POWERS = np.array([10.0**k for k in range(23)])  # all of them exact


@inlined
def _put(out, at, value, count):  # type: ignore[no-untyped-def]
    for place in range(count):
        out[at + place] = np.uint8((value >> np.uint64(8 * place)) & np.uint64(255))
    return at + count


@inlined
def _hexadecimal(text, place):  # type: ignore[no-untyped-def]
    """The number of four hexadecimal digits, −1 if they are none."""
    value = np.int64(0)
    for k in range(4):
        c = np.int64(text[place + k])
        if 48 <= c <= 57:
            value = 16 * value + c - 48
        elif 97 <= c | 32 <= 102:
            value = 16 * value + (c | 32) - 87
        else:
            return np.int64(-1)
    return value


@compiled
def _decode(text, start, end, out, at):  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912
    """Write the string `text[start:end]` to `out[at:]` as UTF-8; where it ends there, −1 for a bad escape."""
    i = start
    while i < end:
        c = np.int64(text[i])
        if c != 92:
            out[at] = text[i]
            at += 1
            i += 1
            continue
        c = np.int64(text[i + 1])
        i += 2
        if c == 117:
            c = _hexadecimal(text, i)
            i += 4
            if c < 0 or i > end:
                return np.int64(-1)
            if 0xD800 <= c < 0xDC00 and i + 6 <= end and text[i] == 92 and text[i + 1] == 117:
                low = _hexadecimal(text, i + 2)
                if 0xDC00 <= low < 0xE000:
                    c = 0x10000 + ((c - 0xD800) << 10) + low - 0xDC00
                    i += 6
        elif c == 98:
            c = np.int64(8)
        elif c == 102:
            c = np.int64(12)
        elif c == 110:
            c = np.int64(10)
        elif c == 114:
            c = np.int64(13)
        elif c == 116:
            c = np.int64(9)
        elif not (c == 34 or c == 92 or c == 47):
            return np.int64(-1)
        if c < 0x80:
            out[at] = np.uint8(c)
            at += 1
            continue
        more = 1 if c < 0x800 else 2 if c < 0x10000 else 3
        out[at] = np.uint8((0xC0, 0xC0, 0xE0, 0xF0)[more] | (c >> (6 * more)))
        for k in range(more):
            out[at + 1 + k] = np.uint8(0x80 | ((c >> (6 * (more - 1 - k))) & 63))
        at += more + 1
    return at


@compiled
def _number(text, start, end, out, at, reals, bits):  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912
    """Write the number `text[start:end]` to `out[at:]`; where it ends there, −1 if it is none that 64 bits hold.

    reals, bits: float64 [1] and the same memory as uint64.
    """
    negative = text[start] == 45
    i = start + negative
    mantissa = np.uint64(0)
    exponent = np.int64(0)
    dot = np.int64(-1)
    while i < end and (48 <= text[i] <= 57 or (text[i] == 46 and dot < 0)):
        if text[i] == 46:
            dot = i
        elif mantissa > MAX_TENTH or (mantissa == MAX_TENTH and text[i] > 53):
            return np.int64(-1)
        else:
            mantissa = mantissa * np.uint64(10) + np.uint64(text[i] - 48)
            exponent -= dot >= 0
        i += 1
    is_real = dot >= 0 or i < end
    if i < end and text[i] | 32 == 101:
        sign = np.int64(-1) if text[i + 1] == 45 else np.int64(1)
        i += 2 if text[i + 1] == 45 or text[i + 1] == 43 else 1
        power = np.int64(0)
        while i < end and 48 <= text[i] <= 57 and power < 1000:
            power = 10 * power + np.int64(text[i] - 48)
            i += 1
        exponent += sign * power
    if i < end or not 48 <= text[end - 1] <= 57:
        return np.int64(-1)
    if is_real:
        while exponent < 0 and mantissa % np.uint64(10) == 0 and mantissa > 0:
            mantissa //= np.uint64(10)
            exponent += 1
        if mantissa >= MAX_EXACT or not -22 <= exponent <= 22:
            return np.int64(-1)
        value = np.float64(mantissa)
        value = value * _POWERS[exponent] if exponent >= 0 else value / _POWERS[-exponent]
        if value != np.floor(value) or value >= np.float64(MAX_EXACT):
            reals[0] = -value if negative else value
            out[at] = 0x47
            for k in range(8):
                out[at + 1 + k] = np.uint8((bits[0] >> np.uint64(56 - 8 * k)) & np.uint64(255))
            return at + 9
        mantissa = np.uint64(value)  # a whole number that something wrote as a real one: a time, say
    if negative and mantissa > np.uint64(1 << 63):
        return np.int64(-1)
    is_wide = not negative and mantissa >= np.uint64(1 << 63)
    out[at] = 0x8A
    out[at + 1] = 9 if is_wide else 8
    out[at + 10] = 0
    return _put(out, at + 2, np.uint64(0) - mantissa if negative else mantissa, 8) + is_wide


@compiled
def transcode(text, limit, state, levels, reals, bits, out):  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912, PLR0915
    """Write `text[state[POSITION]:limit]` to `out` as opcodes, as far as its tokens are whole.

    levels: int64 [MAX_LEVELS], −1 for an object, else the items of the list since they were last appended.
    reals, bits: float64 [1] and the same memory as uint64.
    """
    i = state[POSITION]
    at = state[WRITTEN]
    level = state[LEVEL]
    following = state[NEXT]
    while True:
        state[POSITION], state[WRITTEN], state[LEVEL], state[NEXT] = i, at, level, following
        while i < limit and (text[i] == 32 or text[i] == 10 or text[i] == 13 or text[i] == 9):
            i += 1
        if i >= limit:
            state[POSITION] = i
            return MORE
        c = text[i]
        if c == 34 and (following <= KEY_OR_END):
            end = i + 1
            plain = True
            while end < limit and text[end] != 34:
                if text[end] == 92:
                    plain = False
                    end += 1
                end += 1
            if end >= limit:
                return MORE
            out[at] = 0x58
            begin = at + 5
            at = begin
            if plain:
                for k in range(i + 1, end):
                    out[at] = text[k]
                    at += 1
            else:
                at = _decode(text, i + 1, end, out, at)
                if at < 0:
                    return BROKEN
            _put(out, begin - 4, np.uint64(at - begin), 4)
            i = end + 1
            if following >= KEY:
                following = COLON
                continue
        elif c == 58 and following == COLON:
            i += 1
            following = VALUE
            continue
        elif c == 44 and following == COMMA:
            i += 1
            following = KEY if levels[level - 1] < 0 else VALUE
            continue
        elif (c == 123 or c == 91) and following <= VALUE_OR_END:
            if level >= levels.size:
                return BROKEN
            out[at] = 0x7D if c == 123 else 0x5D
            out[at + 1] = 0x28
            at += 2
            i += 1
            levels[level] = -1 if c == 123 else 0
            level += 1
            following = KEY_OR_END if c == 123 else VALUE_OR_END
            continue
        elif (c == 125 or c == 93) and level > 0 and following in (COMMA, KEY_OR_END, VALUE_OR_END):
            if (levels[level - 1] < 0) != (c == 125):
                return BROKEN
            out[at] = 0x75 if c == 125 else 0x65
            at += 1
            i += 1
            level -= 1
        elif following <= VALUE_OR_END:
            end = i
            while end < limit and (48 <= text[end] <= 57 or 97 <= text[end] | 32 <= 122 or text[end] in (43, 45, 46)):
                end += 1
            if end >= limit:
                return MORE
            if c == 45 or 48 <= c <= 57:
                at = _number(text, i, end, out, at, reals, bits)
                if at < 0:
                    return BROKEN
            elif (c, end - i) in ((116, 4), (102, 5), (110, 4), (78, 3), (73, 8)):  # true, false, null, NaN, Infinity
                out[at] = 0x88 if c == 116 else 0x89 if c == 102 else 0x4E
                at += 1
            else:
                return BROKEN
            i = end
        else:
            return BROKEN
        # a value is complete
        if level == 0:
            out[at] = 0x2E
            state[WRITTEN] = at + 1
            return DONE
        following = COMMA
        if levels[level - 1] >= 0:
            levels[level - 1] += 1
            if levels[level - 1] == LIST_BATCH:
                out[at] = 0x65
                out[at + 1] = 0x28
                at += 2
                levels[level - 1] = 0


class JsonOpcodes:
    """The opcodes of a dump in JSON, in blocks.

    Attributes:
        taken: bytes of the JSON that the blocks handed out so far stand for.
        damage: why the blocks end before the text does: it is no JSON there. None if they do not.
    """

    def __init__(self, url: str, blocks: Iterable[bytes], what: str) -> None:
        self._url = url
        self._what = what
        self._blocks = blocks
        self.taken = 0
        self.damage: BrokenTraceError | None = None

    def __iter__(self) -> Iterator[bytes]:
        state = np.zeros(STATES, np.int64)
        levels = np.zeros(MAX_LEVELS, np.int64)
        reals = np.zeros(1)
        rest = b""
        yield b"\x80\x02"
        for piece in self._pieces():
            limit = len(rest) + len(piece)
            text = np.frombuffer(bytearray(rest + piece + b'"' * PADDING), np.uint8)
            out = np.empty(BYTES_OUT * limit + PADDING, np.uint8)
            state[POSITION] = state[WRITTEN] = 0
            status = transcode(text, limit, state, levels, reals, reals.view(np.uint64), out)
            position = int(state[POSITION])
            self.taken += position
            yield out[: state[WRITTEN]].tobytes()
            if status == BROKEN or limit - position > 2 * MAX_TEXT_BYTES:
                self.damage = BrokenTraceError(
                    f"{self._url}: no JSON of {self._what} at byte {self.taken:,}; write it again, with json.dump"
                )
            if status == DONE or self.damage is not None:
                return
            rest = text[position:limit].tobytes()

    def _pieces(self) -> Iterator[bytes]:
        for number, block in enumerate(self._blocks):
            whole = block.removeprefix(b"\xef\xbb\xbf") if number == 0 else block
            for place in range(0, len(whole), MAX_TEXT_BYTES):
                yield whole[place : place + MAX_TEXT_BYTES]
