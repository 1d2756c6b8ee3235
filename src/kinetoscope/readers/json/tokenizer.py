"""The tokenizer: one pass over the bytes of `traceEvents`, straight into columns.

What it knows is JSON and the eight keys that every trace event has (`SPECIAL_KEYS`). What the values mean is the
model's business. Every other key and value is kept as it comes: the *shape* of an event is the ordered tuple of (key,
kind, level) of all its members, and the values follow one another in one flat array, so that nothing is lost and an
argument of 400,000 events costs 8 bytes each.

It accepts strict JSON, and tells (by a status) where it met anything else; `repair.py` mends that one event and the
tokenizer goes on. It also accepts, because they occur and mean no harm: control characters other than a line break
inside strings, bad UTF-8, unknown escapes, bare words such as `NaN` or `inf` as values, missing or doubled commas
between events. `examine` counts these once, at the end, in the distinct strings.

Why it is fast, in order of gain: no Python object and no allocation inside; strings scanned and compared eight bytes
at a time; and *prediction*: after the same beginning of an event the same key usually follows, written in the same way,
and often the same value. So most of what stands between two values (comma, white space, key, colon: a *link*) and many
values are recognised by one comparison with the bytes expected, without scanning or hashing.

All functions are compiled without Numba's reference counting (`_nrt=False`), which costs half of the speed otherwise;
so they cannot allocate: when an array is full they return a status that asks for room, and start that event again.

Nothing checks bounds. Reads of a text run up to `PADDING` bytes past its limit, because quotation marks there end every
scan; reads of the arena up to sixteen bytes past a string, which `intern` keeps free. Writes check first: the counts
of rows and values, at the room for items, at the tables' sizes.

`tokenize` is one long function on purpose. Its state (position, row, slot, hash of the shape so far, level) lives in
registers; cut into functions it has to go through memory, since nothing can be allocated and a tuple of ten is copied.
"""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.compiled import compiled, intrinsic
from kinetoscope.model.trace.shapes import (
    ARGS,
    CAT,
    DUR,
    FALSE,
    FLOAT,
    IN_COLUMN,
    IN_TRACK,
    INT,
    NAME,
    NOT_AN_OBJECT,
    NULL,
    NUMBER_TEXT,
    OPEN,
    PH,
    PID,
    RAW,
    SLOTS,
    STRING,
    TID,
    TIME_DECIMAL,
    TIME_INTEGER,
    TRUE,
    TS,
)
from kinetoscope.model.trace.strings import BAD_UTF8, CONTROL, LONE_BACKSLASH, NESTED, RESPELLED

# Status of a call.
MORE, DONE, BROKEN, ROOM_EVENTS, ROOM_VALUES, ROOM_STRINGS, ROOM_ARENA, ROOM_SHAPES, ROOM_TRACKS = range(9)

# Slots of the counter array `at`: where the tokenizer is, how much it has made, and the key of its hashes (`new_key`).
POSITION, EVENTS, VALUES, STRINGS, ARENA, SHAPES, ITEMS, TRACKS, EXPECT, ODD_COMMAS, KEY, COUNTERS = range(12)

# What became of a time that was written in an unusual way.
UNDECIDED, EXACT, ROUNDED = range(3)

# What may come next between events (`at[EXPECT]`).
FIRST, COMMA, ELEMENT = range(3)

PADDING: Final = 32
"""Bytes of quotation marks that must follow the text in its buffer: they end every scan without a bounds check."""

PREDICTIONS: Final = 4096
"""Slots of each table of predictions; a power of two."""

LINK: Final = 64
"""Bytes of a link that is predicted are fewer; a power of two."""

MAX_NESTING: Final = 1 << 20
"""Levels of nesting inside an argument beyond which it counts as broken."""

LONGEST_TIME: Final = 4_500_000_000_000_000_000
"""Nanoseconds, 142 years: a time or duration beyond it is no time, and two of them can be added."""

_QUOTE, _BACKSLASH, _COMMA, _COLON, _MINUS, _DOT, _NEWLINE = 34, 92, 44, 58, 45, 46, 10
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_LIST, _CLOSE_LIST = 123, 125, 91, 93

_BYTE_ONES = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)
_SPACES = np.uint64(0x2020202020202020)
_QUOTES = np.uint64(0x2222222222222222)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_NEWLINES = np.uint64(0x0A0A0A0A0A0A0A0A)
_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)
_SEED = np.uint64(0x243F6A8885A308D3)
_EXACT_INTEGERS = np.uint64(1 << 53)
_LARGEST_INTEGER = np.uint64((1 << 63) - 1)
_FIFTEEN_DIGITS = np.uint64(10**15)

_POWERS = np.array([10.0**k for k in range(23)])  # every power of ten up to 10**22 is exact in a float64
_TENS = np.array([10**k for k in range(20)], dtype=np.uint64)
_SCALES = np.array([1000, 100, 10, 1], dtype=np.uint64)  # nanoseconds of a microsecond's digits, by number of decimals
_LONGEST_TIMES = np.array([LONGEST_TIME // k for k in (1000, 100, 10, 1)], dtype=np.uint64)

# Classes of bytes, for bare words: letters, digits and what numbers and `N/A` are made of.
_WORD = np.zeros(256, dtype=np.bool_)
_WORD[list(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-._/")] = True


@intrinsic
def _load64(typing_context: Any, text: Any, index: Any) -> Any:
    """The eight bytes at `text[index]` as one little-endian number; the address need not be aligned."""
    from llvmlite import ir
    from numba import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.gep(array.data, [arguments[1]])
        pointer = builder.bitcast(address, ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(text, types.int64), generate


@intrinsic
def _trailing_zeros(typing_context: Any, word: Any) -> Any:
    """How many of the lowest bits of a word other than zero are zero."""
    from llvmlite import ir
    from numba import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@intrinsic
def _mix(typing_context: Any, hashed: Any, item: Any, key: Any) -> Any:
    """The next state of a hash: both halves of the product of 128 bits of (state ^ item) and the key."""
    from llvmlite import ir
    from numba import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        mixed = builder.zext(builder.xor(arguments[0], arguments[1]), wide)
        product = builder.mul(mixed, builder.zext(arguments[2], wide))
        upper = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))
        return builder.xor(builder.trunc(product, ir.IntType(64)), upper)

    return types.uint64(types.uint64, types.uint64, types.uint64), generate


def new_key() -> int:
    """A key for hashes, as int64: nobody knows it who writes a file, or names could be made that all collide."""
    return int(np.frombuffer(os.urandom(8), np.int64)[0]) | 1


@compiled
def _skip_space(text, i):  # type: ignore[no-untyped-def]
    """Index of the first byte at or after `i` that is no white space."""
    while text[i] <= 32:
        c = text[i]
        if c != 32 and c != 10 and c != 13 and c != 9:
            return i
        i += 1
        word = _load64(text, i) ^ _SPACES
        while word == 0:
            i += 8
            word = _load64(text, i) ^ _SPACES
        i += _trailing_zeros(word) >> 3
    return i


@compiled
def _string_end(text, i):  # type: ignore[no-untyped-def]
    """Index of the quotation mark that ends the string whose content begins at `i`; −1 at a line break before it."""
    while True:
        word = _load64(text, i)
        quote = word ^ _QUOTES
        escape = word ^ _BACKSLASHES
        line = word ^ _NEWLINES
        marks = (
            ((quote - _BYTE_ONES) & ~quote) | ((escape - _BYTE_ONES) & ~escape) | ((line - _BYTE_ONES) & ~line)
        ) & _HIGHS
        if marks == 0:
            i += 8
            continue
        i += _trailing_zeros(marks) >> 3
        if text[i] == _QUOTE:
            return i
        if text[i] == _NEWLINE:
            return np.int64(-1)
        i += 2  # an escape: whatever follows the backslash belongs to the string


@compiled
def _raw_end(text, i, limit, nesting):  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912
    """Index after the nested object or list that begins at `i`; −1 if it is broken, `limit` or more if it is cut.

    Checks the grammar (commas, colons, which bracket closes), so that a stray quotation mark or a missing bracket
    cannot swallow the events that follow. nesting: bool [MAX_NESTING], receives for each level whether it is an object.
    """
    depth = np.int64(-1)
    value, key, close, comma = True, False, False, False  # what may come next
    while True:
        i = _skip_space(text, i)
        if i >= limit:
            return limit
        c = text[i]
        if c == _QUOTE and (value or key):
            i = _string_end(text, i + 1)
            if i < 0:
                return np.int64(-1)
            i += 1
            if key:
                i = _skip_space(text, i)
                if i >= limit:
                    return limit
                if text[i] != _COLON:
                    return np.int64(-1)
                i += 1
                value, key, close, comma = True, False, False, False
            else:
                value, close, comma = False, True, True
        elif (c == _OPEN_LIST or c == _OPEN_OBJECT) and value:
            depth += 1
            if depth >= nesting.size:
                return np.int64(-1)
            i += 1
            key = c == _OPEN_OBJECT
            nesting[depth] = key
            value, close, comma = not key, True, False
        elif (c == _CLOSE_LIST or c == _CLOSE_OBJECT) and close:
            if nesting[depth] != (c == _CLOSE_OBJECT):
                return np.int64(-1)
            i += 1
            depth -= 1
            if depth < 0:
                return i
            value, key, close, comma = False, False, True, True
        elif c == _COMMA and comma:
            i += 1
            key = nesting[depth]
            value, close, comma = not key, False, False
        elif _WORD[c] and value:
            i += 1
            while _WORD[text[i]]:
                i += 1
            value, close, comma = False, True, True
        else:
            return np.int64(-1)


@compiled
def _is_value(text, start, end):  # type: ignore[no-untyped-def]  # noqa: C901 - one state after the other
    """Is the word at `text[start:end]` a number of JSON, or one that Python's json takes for one?"""
    i = start
    if text[i] == _MINUS:
        i += 1
    if end - i == 8 and _load64(text, i) == np.uint64(0x7974696E69666E49):  # Infinity
        return True
    if i == start and end - i == 3 and text[i] == 78 and text[i + 1] == 97 and text[i + 2] == 78:  # NaN
        return True
    digits = i
    while i < end and 48 <= text[i] <= 57:
        i += 1
    if i == digits or (text[digits] == 48 and i - digits > 1):
        return False
    if i < end and text[i] == _DOT:
        i += 1
        digits = i
        while i < end and 48 <= text[i] <= 57:
            i += 1
        if i == digits:
            return False
    if i < end and text[i] | 32 == 101:  # e or E
        i += 1
        if i < end and (text[i] == _MINUS or text[i] == 43):
            i += 1
        digits = i
        while i < end and 48 <= text[i] <= 57:
            i += 1
        if i == digits:
            return False
    return i == end


@compiled
def _constant(text, start, end):  # type: ignore[no-untyped-def]
    """Kind of the word at `text[start:end]`: TRUE, FALSE or NULL, or −1; reads up to eight bytes."""
    length = end - start
    word = _load64(text, start) & (_ALL_BITS >> np.uint64(64 - 8 * min(length, 8)))
    if length == 4 and word == np.uint64(0x65757274):  # true
        return np.int64(TRUE)
    if length == 5 and word == np.uint64(0x65736C6166):  # false
        return np.int64(FALSE)
    if length == 4 and word == np.uint64(0x6C6C756E):  # null
        return np.int64(NULL)
    return np.int64(-1)


@compiled
def _hash(text, start, length, key):  # type: ignore[no-untyped-def]
    """Hash of `length` bytes; reads up to eight bytes beyond them."""
    h = _SEED ^ np.uint64(length)
    i = start
    last = start + length - 8
    while i <= last:
        h = _mix(h, _load64(text, i), key)
        i += 8
    rest = start + length - i
    if rest > 0:
        h = _mix(h, _load64(text, i) & (_ALL_BITS >> np.uint64(64 - 8 * rest)), key)
    return h


@compiled
def _same(text, start, length, arena, offset):  # type: ignore[no-untyped-def]
    """Are the `length` bytes of `text` at `start` those of `arena` at `offset`?"""
    i = np.int64(0)
    while i + 8 <= length:
        if _load64(text, start + i) != _load64(arena, offset + i):
            return False
        i += 8
    rest = length - i
    if rest == 0:
        return True
    different = _load64(text, start + i) ^ _load64(arena, offset + i)
    return (different & (_ALL_BITS >> np.uint64(64 - 8 * rest))) == 0


@compiled
def intern(text, start, length, at, slots, offsets, arena):  # type: ignore[no-untyped-def]
    """Code of a string, which is added if it is new; −ROOM_STRINGS or −ROOM_ARENA if there is no room for it.

    slots: uint64, a power of two of them: upper half of the hash, and code + 1; 0 is free.
    offsets: int64, where each string begins in `arena`, and one more; strings begin at multiples of eight with their
    length in the eight bytes before, so that the table needs no array of lengths.
    """
    h = _hash(text, start, length, np.uint64(at[KEY]))
    mask = np.uint64(slots.size - 1)
    tag = h & np.uint64(0xFFFFFFFF00000000)
    k = h & mask
    while slots[k] != 0:
        entry = slots[k]
        if entry & np.uint64(0xFFFFFFFF00000000) == tag:
            code = np.int64(entry & np.uint64(0xFFFFFFFF)) - 1
            if np.int64(_load64(arena, offsets[code] - 8)) == length and _same(
                text, start, length, arena, offsets[code]
            ):
                return code
        k = (k + np.uint64(1)) & mask
    code = at[STRINGS]
    if 2 * (code + 1) > slots.size or code + 1 >= offsets.size:
        return np.int64(-ROOM_STRINGS)
    offset = at[ARENA] + 8
    if offset + length + 16 > arena.size:
        return np.int64(-ROOM_ARENA)
    for j in range(8):
        arena[offset - 8 + j] = np.uint8((length >> (8 * j)) & 255)
    for j in range(length):
        arena[offset + j] = text[start + j]
    slots[k] = tag | np.uint64(code + 1)
    offsets[code] = offset
    at[STRINGS] = code + 1
    at[ARENA] = (offset + length + 7) & ~np.int64(7)
    return code


@compiled
def rehash(count, slots, offsets, arena, key):  # type: ignore[no-untyped-def]
    """Enter the first `count` strings again into `slots`, which are all free."""
    mask = np.uint64(slots.size - 1)
    for code in range(count):
        offset = offsets[code]
        h = _hash(arena, offset, np.int64(_load64(arena, offset - 8)), np.uint64(key))
        k = h & mask
        while slots[k] != 0:
            k = (k + np.uint64(1)) & mask
        slots[k] = (h & np.uint64(0xFFFFFFFF00000000)) | np.uint64(code + 1)


@compiled
def adopt(count, start, offsets, arena, codes, at, slots, into_offsets, into_arena):  # type: ignore[no-untyped-def]
    """Intern the strings `start`…`count` of one table in another; `codes` receives their codes there.

    Returns how far it came: less than `count` when the other table needs room.
    """
    for code in range(start, count):
        offset = offsets[code]
        length = np.int64(_load64(arena, offset - 8))
        own = intern(arena, offset, length, at, slots, into_offsets, into_arena)
        if own < 0:
            return code, -own
        codes[code] = own
    return count, np.int64(0)


@compiled
def shape_code(h, first, count, at, items, ends, slots):  # type: ignore[no-untyped-def]
    """Code of the shape whose items lie at `items[first:first + count]`; kept there, at the end, if it is new."""
    mask = np.uint64(slots.size - 1)
    k = h & mask
    while slots[k] != 0:
        code = np.int64(slots[k]) - 1
        begin = np.int64(0) if code == 0 else ends[code - 1]
        if ends[code] - begin == count:
            same = True
            for j in range(count):
                if items[begin + j] != items[first + j]:
                    same = False
                    break
            if same:
                return code
        k = (k + np.uint64(1)) & mask
    code = at[SHAPES]
    if 2 * (code + 1) > slots.size or code >= ends.size:
        return np.int64(-ROOM_SHAPES)
    for j in range(count):
        items[at[ITEMS] + j] = items[first + j]
    slots[k] = np.uint64(code + 1)
    at[ITEMS] += count
    ends[code] = at[ITEMS]
    at[SHAPES] = code + 1
    return code


@compiled
def shape_hash(items, first, count, key):  # type: ignore[no-untyped-def]
    """The hash by which the tokenizer finds a shape."""
    h = _SEED
    for j in range(count):
        h = _mix(h, np.uint64(items[first + j]), np.uint64(key))
    return h


@compiled
def _track_hash(a, b, c, d, key):  # type: ignore[no-untyped-def]
    h = _mix(_mix(_SEED, np.uint64(a), key), np.uint64(b), key)
    return _mix(_mix(h, np.uint64(c), key), np.uint64(d), key)


@compiled
def track_code(a, b, c, d, at, tracks, slots):  # type: ignore[no-untyped-def]
    """Code of the track (kind of pid, pid, kind of tid, tid), added if it is new."""
    mask = np.uint64(slots.size - 1)
    h = _track_hash(a, b, c, d, np.uint64(at[KEY]))
    k = h & mask
    while slots[k] != 0:
        code = np.int64(slots[k]) - 1
        if tracks[code, 0] == a and tracks[code, 1] == b and tracks[code, 2] == c and tracks[code, 3] == d:
            return code
        k = (k + np.uint64(1)) & mask
    code = at[TRACKS]
    if 2 * (code + 1) > slots.size or code >= tracks.shape[0]:
        return np.int64(-ROOM_TRACKS)
    tracks[code, 0] = a
    tracks[code, 1] = b
    tracks[code, 2] = c
    tracks[code, 3] = d
    slots[k] = np.uint64(code + 1)
    at[TRACKS] = code + 1
    return code


@compiled
def tokenize(  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912, PLR0915 - one state machine, see the module
    text,
    limit,
    at,
    ph,
    category,
    name,
    track,
    start,
    end,
    shape,
    values,
    floats,
    string_slots,
    string_offsets,
    arena,
    shape_slots,
    shape_ends,
    items,
    track_slots,
    tracks,
    next_key,
    links,
    next_string,
    next_raw,
    nesting,
):
    """Read elements of `traceEvents` from `text[at[POSITION]:limit]` into the columns, as many as are whole.

    text: uint8, followed by PADDING quotation marks after `limit`. at: the counters; the columns are filled from
    at[EVENTS], `values` from at[VALUES]; `floats` is a float64 view of `values`. nesting: bool [MAX_NESTING], scratch.
    next_key: int64 [PREDICTIONS], the key that a link ends with, whether it comes first in its object, and the length
    of the link, whose text is in links: uint8 [(PREDICTIONS + 1) * LINK]. next_string, next_raw: int32 [PREDICTIONS],
    values; all −1 at first. Everything else is a table of `columns.Tables`.

    Returns MORE (the text ends inside an element, or between two), DONE (after the `]`), BROKEN (the element that
    begins at at[POSITION] is no JSON), or what needs room. at[POSITION] is always between two elements.
    """
    i = at[POSITION]
    hash_key = np.uint64(at[KEY])
    last_track = np.int64(-1)
    while True:
        # --- between two elements
        i = _skip_space(text, i)
        at[POSITION] = i
        if i >= limit:
            return MORE
        c = text[i]
        if c == _COMMA:
            if at[EXPECT] != COMMA:
                at[ODD_COMMAS] += 1
            at[EXPECT] = ELEMENT
            i += 1
            continue
        if c == _CLOSE_LIST:
            if at[EXPECT] == ELEMENT:
                at[ODD_COMMAS] += 1
            at[POSITION] = i + 1
            return DONE
        if at[EXPECT] == COMMA:  # there was none: count it once, and go on
            at[ODD_COMMAS] += 1
            at[EXPECT] = ELEMENT
        if at[EVENTS] >= ph.size:
            return ROOM_EVENTS
        if at[VALUES] + 1 >= values.size:
            return ROOM_VALUES
        first = at[ITEMS] + 64  # items of this element gather here; see shape_code
        if first + 64 >= items.size:
            return ROOM_SHAPES
        row = at[EVENTS]
        v = at[VALUES]
        count = np.int64(0)
        h = _SEED
        event_ph = np.uint8(0)
        event_category = np.int64(-1)
        event_name = np.int64(-1)
        pid_kind, pid, tid_kind, tid = np.int64(-1), np.int64(0), np.int64(-1), np.int64(0)
        ts, dur = np.int64(0), np.int64(0)
        seen = np.int64(0)  # a bit for each special key that has been met
        level = np.int64(0)
        fresh = np.int64(1)  # nothing has come since the last opening brace
        whole = c != _OPEN_OBJECT  # an element that is no object is one value
        if whole:
            level = np.int64(NOT_AN_OBJECT)
        else:
            i += 1
        # --- members
        while True:
            key = np.int64(PH)
            if not whole:
                # the link: first guess the one that followed the same members before
                slot = np.int64((h + np.uint64(level)) & np.uint64(PREDICTIONS - 1))
                guess = np.int64(next_key[slot])
                key = np.int64(-1)
                if guess >= 0 and (guess >> 6) & 1 == fresh:
                    length = guess & (LINK - 1)
                    if i + length < limit and _same(text, i, length, links, slot * LINK):
                        key = guess >> 7
                        i = _skip_space(text, i + length)  # there may be more of it here
                if key < 0:
                    s = i
                    i = _skip_space(text, i)
                    c = text[i]
                    if c == _CLOSE_OBJECT:
                        i += 1
                        if level == 0:
                            break
                        level = np.int64(0)
                        fresh = np.int64(0)
                        i = _skip_space(text, i)
                        if text[i] == _CLOSE_OBJECT:  # as nearly always: the arguments come last
                            i += 1
                            break
                        continue
                    if not fresh:
                        if c != _COMMA:
                            return MORE if i >= limit else BROKEN
                        i = _skip_space(text, i + 1)
                        c = text[i]
                    if c != _QUOTE or i >= limit:
                        return MORE if i >= limit else BROKEN
                    i += 1
                    e = _string_end(text, i)
                    if e < 0:
                        return BROKEN
                    if e >= limit:
                        return MORE
                    key = intern(text, i, e - i, at, string_slots, string_offsets, arena)
                    if key < 0:
                        return -key
                    i = _skip_space(text, e + 1)
                    if text[i] != _COLON:
                        return MORE if i >= limit else BROKEN
                    i = _skip_space(text, i + 1)
                    if i - s < LINK and i < limit:
                        for j in range(i - s):
                            links[slot * LINK + j] = text[s + j]
                        next_key[slot] = (key << 7) | (fresh << 6) | (i - s)
                c = text[i]
                fresh = np.int64(0)
            if i >= limit:
                return MORE
            # --- the value: its kind, and an int64 that holds it
            kind = np.int64(NULL)
            value = np.int64(0)
            number = 0.0
            if c == _QUOTE or c == _OPEN_LIST or c == _OPEN_OBJECT:
                if c == _OPEN_OBJECT and key == ARGS and level == 0:
                    item = np.int64((ARGS << 8) | (OPEN << 2))
                    items[first + count] = item
                    h = _mix(h, np.uint64(item), hash_key)
                    count += 1
                    level = np.int64(1)
                    fresh = np.int64(1)
                    i += 1
                    if first + count + 2 >= items.size:
                        return ROOM_SHAPES
                    continue
                kind = np.int64(STRING) if c == _QUOTE else np.int64(RAW)
                if c == _QUOTE:
                    i += 1
                # guess the value that this key had after the same members before
                slot = np.int64((h ^ np.uint64(key * 0x9E3779B1) ^ np.uint64(level)) & np.uint64(PREDICTIONS - 1))
                guess = np.int64(next_string[slot]) if kind == STRING else np.int64(next_raw[slot])
                value = np.int64(-1)
                if guess >= 0:
                    offset = string_offsets[guess]
                    length = np.int64(_load64(arena, offset - 8))
                    if (
                        i + length < limit
                        and (kind == RAW or text[i + length] == _QUOTE)
                        and _same(text, i, length, arena, offset)
                    ):
                        value = guess
                        i += length
                if value < 0:
                    e = _string_end(text, i) if kind == STRING else _raw_end(text, i, limit, nesting)
                    if e < 0:
                        return BROKEN
                    if e >= limit:
                        return MORE
                    value = intern(text, i, e - i, at, string_slots, string_offsets, arena)
                    if value < 0:
                        return -value
                    if kind == STRING:
                        next_string[slot] = value
                    else:
                        next_raw[slot] = value
                    i = e
                if kind == STRING:
                    i += 1
            elif 48 <= c <= 57 or c == _MINUS:
                s = i
                if c == _MINUS:
                    i += 1
                digits = i
                m = np.uint64(0)
                d = text[i] - np.uint8(48)
                while d < 10:
                    m = m * np.uint64(10) + np.uint64(d)
                    i += 1
                    d = text[i] - np.uint8(48)
                decimals = np.int64(0)
                odd = i == digits or (text[digits] == 48 and i - digits > 1)
                point = i
                if text[i] == _DOT:
                    i += 1
                    d = text[i] - np.uint8(48)
                    while d < 10:
                        m = m * np.uint64(10) + np.uint64(d)
                        i += 1
                        d = text[i] - np.uint8(48)
                    decimals = i - point - 1
                    odd = odd or decimals == 0 or i - digits > 19
                else:
                    odd = odd or i - digits > 19
                if i >= limit:
                    return MORE
                negative = c == _MINUS
                is_time = level == 0 and (key == TS or key == DUR) and not (seen >> key) & 1
                if odd or _WORD[text[i]]:
                    kind = np.int64(NUMBER_TEXT)
                elif is_time and decimals > 3:
                    # A float64 keeps each of 15 digits, and one division gives it: start and end alone are rounded.
                    unit = _TENS[decimals - 3]
                    rest = m % unit
                    if m >= _FIFTEEN_DIGITS or (m == 0 and negative):
                        kind = np.int64(NUMBER_TEXT)
                    else:
                        number = np.float64(m) / _POWERS[decimals]
                        m //= unit
                        half = unit // np.uint64(2)
                        if rest > half or (rest == half and m & np.uint64(1)):
                            m += np.uint64(1)
                        value = np.int64(m)
                        if negative:
                            value, number = -value, -number
                        kind = np.int64(FLOAT) if rest else np.int64(TIME_DECIMAL)
                elif is_time:
                    if m > _LONGEST_TIMES[decimals] or (m == 0 and negative):
                        kind = np.int64(NUMBER_TEXT)
                    else:
                        m *= _SCALES[decimals]
                        value = -np.int64(m) if negative else np.int64(m)
                        kind = np.int64(TIME_INTEGER) if i == point else np.int64(TIME_DECIMAL)
                elif i == point:
                    if m > _LARGEST_INTEGER:
                        kind = np.int64(NUMBER_TEXT)
                    else:
                        value = -np.int64(m) if negative else np.int64(m)
                        kind = np.int64(INT)
                elif m <= _EXACT_INTEGERS and decimals <= 22:
                    # both are exact in a float64, so one division gives the nearest one (W. D. Clinger, 1990)
                    number = np.float64(m) / _POWERS[decimals]
                    if negative:
                        number = -number
                    kind = np.int64(FLOAT)
                else:
                    kind = np.int64(NUMBER_TEXT)
                if kind == NUMBER_TEXT:
                    i = s
                    while _WORD[text[i]]:
                        i += 1
                    if i >= limit:
                        return MORE
                    if whole and not _is_value(text, s, i):
                        return BROKEN  # words between events, of a log perhaps
                    value = intern(text, s, i - s, at, string_slots, string_offsets, arena)
                    if value < 0:
                        return -value
            elif _WORD[c]:
                s = i
                while _WORD[text[i]]:
                    i += 1
                if i >= limit:
                    return MORE
                kind = _constant(text, s, i)
                if kind < 0:
                    if whole and not _is_value(text, s, i):
                        return BROKEN
                    kind = np.int64(NUMBER_TEXT)
                    value = intern(text, s, i - s, at, string_slots, string_offsets, arena)
                    if value < 0:
                        return -value
            else:
                return BROKEN
            # --- where it goes
            if level == 0 and key < ARGS and not (seen >> key) & 1:
                seen |= np.int64(1) << key
                if key == PH:
                    offset = string_offsets[value] if kind == STRING else np.int64(8)
                    letter = arena[offset]
                    if kind == STRING and _load64(arena, offset - 8) == 1 and 32 < letter < 127:
                        event_ph = letter
                        kind = np.int64(IN_COLUMN)
                elif key == CAT:
                    if kind == STRING:
                        event_category = value
                        kind = np.int64(IN_COLUMN)
                elif key == NAME:
                    if kind == STRING:
                        event_name = value
                        kind = np.int64(IN_COLUMN)
                elif key == PID:
                    pid_kind, pid = kind, value
                    if kind == FLOAT:
                        floats[v] = number
                        pid = values[v]
                    kind = np.int64(IN_TRACK)
                elif key == TID:
                    tid_kind, tid = kind, value
                    if kind == FLOAT:
                        floats[v] = number
                        tid = values[v]
                    kind = np.int64(IN_TRACK)
                elif kind == TIME_INTEGER or kind == TIME_DECIMAL or kind == FLOAT:
                    if key == TS:
                        ts = value
                    else:
                        dur = value
            if kind < SLOTS:
                if kind == FLOAT:
                    floats[v] = number
                else:
                    values[v] = value
                v += 1
                if v + 1 >= values.size:
                    return ROOM_VALUES
            item = np.int64((key << 8) | (kind << 2) | level)
            items[first + count] = item
            h = _mix(h, np.uint64(item), hash_key)
            count += 1
            if first + count + 2 >= items.size:
                return ROOM_SHAPES
            if whole:
                break
        # --- the element is whole
        if i > limit:
            return MORE
        code = shape_code(h, first, count, at, items, shape_ends, shape_slots)
        if code < 0:
            return -code
        if (
            last_track < 0
            or tracks[last_track, 1] != pid
            or tracks[last_track, 3] != tid
            or tracks[last_track, 0] != pid_kind
            or tracks[last_track, 2] != tid_kind
        ):
            last_track = track_code(pid_kind, pid, tid_kind, tid, at, tracks, track_slots)
            if last_track < 0:
                return -last_track
        ph[row] = event_ph
        category[row] = event_category
        name[row] = event_name
        track[row] = last_track
        start[row] = ts
        end[row] = ts + dur
        shape[row] = code
        at[EVENTS] = row + 1
        at[VALUES] = v
        at[EXPECT] = COMMA


@compiled
def enter_shapes(count, items, ends, slots, key):  # type: ignore[no-untyped-def]
    """Enter the first `count` shapes again into `slots`, which are all free."""
    mask = np.uint64(slots.size - 1)
    begin = np.int64(0)
    for code in range(count):
        k = shape_hash(items, begin, ends[code] - begin, key) & mask
        while slots[k] != 0:
            k = (k + np.uint64(1)) & mask
        slots[k] = np.uint64(code + 1)
        begin = ends[code]


@compiled
def enter_tracks(count, tracks, slots, key):  # type: ignore[no-untyped-def]
    """Enter the first `count` tracks again into `slots`, which are all free."""
    mask = np.uint64(slots.size - 1)
    for code in range(count):
        h = _track_hash(tracks[code, 0], tracks[code, 1], tracks[code, 2], tracks[code, 3], np.uint64(key))
        k = h & mask
        while slots[k] != 0:
            k = (k + np.uint64(1)) & mask
        slots[k] = np.uint64(code + 1)


@compiled
def translate_values(shape, slots, strings, values):  # type: ignore[no-untyped-def]
    """Replace the string codes among `values` by `strings[code]`; see `columns.slots_of` for `slots`."""
    first = np.int64(0)
    for row in range(shape.size):
        s = np.int64(shape[row])
        where = slots[2 * s + 1]
        for j in range(slots[where]):
            k = first + slots[where + 1 + j]
            values[k] = strings[values[k]]
        first += slots[2 * s]


@compiled
def mark_strings(shape, slots, values, marked):  # type: ignore[no-untyped-def]
    """Set `marked[code]` for each string code among `values`; see `columns.slots_of` for `slots`."""
    first = np.int64(0)
    for row in range(shape.size):
        s = np.int64(shape[row])
        where = slots[2 * s + 1]
        for j in range(slots[where]):
            marked[values[first + slots[where + 1 + j]]] = True
        first += slots[2 * s]


@compiled
def with_bare_words(offsets, arena, marked):  # type: ignore[no-untyped-def]
    """Strings that, read as nested JSON, have a word that JSON does not know: `marked`, bool [strings], gets them."""
    for code in range(offsets.size):
        i = offsets[code]
        end = i + np.int64(_load64(arena, i - 8))
        marked[code] = False
        if i == end or not (arena[i] == _OPEN_LIST or arena[i] == _OPEN_OBJECT):
            continue
        inside = False  # a string
        while i < end and not marked[code]:
            c = arena[i]
            i += 1
            if c == _QUOTE:
                inside = not inside
            elif inside:
                i += c == _BACKSLASH
            elif _WORD[c]:
                s = i - 1
                while i < end and _WORD[arena[i]]:
                    i += 1
                # a number ends in a digit; Infinity and NaN, which Python's json takes for numbers, do not
                known = arena[i - 1] <= 57 and _is_value(arena, s, i)
                marked[code] = not known and _constant(arena, s, i) < 0


@compiled
def examine(offsets, arena, oddities):  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912
    """What is odd about each string: `oddities`, uint8 [strings], receives the flags of `model.trace.strings`."""
    for code in range(offsets.size):
        i = offsets[code]
        end = i + np.int64(_load64(arena, i - 8))
        flags = np.uint8(0)
        while i < end:
            c = arena[i]
            i += 1
            if c == _BACKSLASH:
                c = arena[i] if i < end else np.uint8(0)
                i += 1
                if c == 117:  # four hexadecimal digits follow
                    flags |= np.uint8(RESPELLED)
                    hexadecimal = i + 4 <= end
                    for j in range(4):
                        c = arena[i + j] | 32
                        hexadecimal = hexadecimal and (48 <= c <= 57 or 97 <= c <= 102) and arena[i + j] >= 48
                    if hexadecimal:
                        i += 4
                    else:
                        flags |= np.uint8(LONE_BACKSLASH)
                elif c == 47:  # a slash, which needs no escape
                    flags |= np.uint8(RESPELLED)
                elif not (c == _QUOTE or c == _BACKSLASH or c == 98 or c == 102 or c == 110 or c == 114 or c == 116):
                    flags |= np.uint8(LONE_BACKSLASH | RESPELLED)
                    i -= 1
            elif c == _QUOTE or c == _NEWLINE:  # a string holds neither
                flags |= np.uint8(NESTED)
            elif c < 32:
                flags |= np.uint8(RESPELLED)
                if c != 9 and c != 13:
                    flags |= np.uint8(CONTROL)
            elif c >= 128:
                # how many bytes follow, and the range of the first of them (The Unicode Standard, table 3-7)
                more, low, high = 0, np.uint8(128), np.uint8(191)
                if 194 <= c <= 223:
                    more = 1
                elif 224 <= c <= 239:
                    more = 2
                    low = np.uint8(160) if c == 224 else low
                    high = np.uint8(159) if c == 237 else high
                elif 240 <= c <= 244:
                    more = 3
                    low = np.uint8(144) if c == 240 else low
                    high = np.uint8(143) if c == 244 else high
                if more == 0 or i + more > end or not low <= arena[i] <= high:
                    flags |= np.uint8(BAD_UTF8)
                    continue
                for j in range(1, more):
                    if not 128 <= arena[i + j] <= 191:
                        flags |= np.uint8(BAD_UTF8)
                i += more
        oddities[code] = flags


@compiled
def nanoseconds(codes, offsets, arena, times, status):  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912, PLR0915
    """Times in microseconds, written in whatever way a decimal number can be, as nanoseconds, rounded half to even.

    codes: which strings. times: int64 [codes], receives them; 0 where `status` is not EXACT or ROUNDED. status: uint8
    [codes]; UNDECIDED where the text has more digits than fit here, or is no such number at all.
    """
    for row in range(codes.size):
        i = offsets[codes[row]]
        end = i + np.int64(_load64(arena, i - 8))
        times[row] = 0
        status[row] = UNDECIDED
        negative = i < end and arena[i] == _MINUS
        if negative or (i < end and arena[i] == 43):
            i += 1
        begin = i
        m = np.uint64(0)
        digits = np.int64(0)
        exponent = np.int64(3)
        while i < end and 48 <= arena[i] <= 57:
            m = m * np.uint64(10) + np.uint64(arena[i] - np.uint8(48))
            digits += np.int64(m > 0)
            i += 1
        some = i > begin
        if i < end and arena[i] == _DOT:
            i += 1
            begin = i
            while i < end and 48 <= arena[i] <= 57:
                m = m * np.uint64(10) + np.uint64(arena[i] - np.uint8(48))
                digits += np.int64(m > 0)
                i += 1
            exponent -= i - begin
            some = some or i > begin
        if i < end and arena[i] | 32 == 101:  # e or E
            i += 1
            sign = np.int64(1)
            if i < end and (arena[i] == _MINUS or arena[i] == 43):
                sign = np.int64(-1) if arena[i] == _MINUS else sign
                i += 1
            begin = i
            power = np.int64(0)
            while i < end and i - begin < 9 and 48 <= arena[i] <= 57:
                power = power * 10 + np.int64(arena[i] - np.uint8(48))
                i += 1
            some = some and i > begin
            exponent += sign * power
        if not some or i < end or digits > 19:
            continue
        exact = True
        if m == 0:
            exponent = np.int64(0)
        if exponent >= 0:
            if exponent > 19 or m > np.uint64(LONGEST_TIME) // _TENS[exponent]:
                continue
            m *= _TENS[exponent]
        elif exponent < -20:
            m = np.uint64(0)
            exact = False
        else:
            divisor = _TENS[19 if exponent == -20 else -exponent]
            rest = m % divisor
            m //= divisor
            if exponent == -20:  # 10**20 is beyond 64 bits, and m / 10**20 below one half
                m = np.uint64(0)
                rest = np.uint64(1)
            else:
                half = divisor // np.uint64(2)
                if rest > half or (rest == half and m & np.uint64(1)):
                    m += np.uint64(1)
            exact = rest == 0
        if m > np.uint64(LONGEST_TIME):
            continue
        times[row] = -np.int64(m) if negative else np.int64(m)
        status[row] = EXACT if exact else ROUNDED
