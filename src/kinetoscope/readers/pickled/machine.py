"""The machine of a pickle, cut down to what torch's dumps need: their objects go straight into columns.

A pickle is a program for a stack machine. `pickle.load` runs all of it, calls included; this machine knows the opcodes
that build numbers, texts, lists, tuples and dicts, and refuses every other by name. No object of the file is ever
built: a dict whose keys are those of an event, a block, a segment, a frame, an annotation or an entry of the Flight
Recorder becomes a row of integers, a list of frames becomes the number of a stack, a list of numbers that of the text
that spells it, and what is left on the machine's stack is the number of that row.

Opcodes and their arguments: `pickletools` of CPython; who writes what: torch's `_dump_snapshot` by Python's pickler
(protocols 2 to 5), torch/csrc/cuda/memory_snapshot.cpp and c10d/FlightRecorder by a pickler of its own (protocol 2).

The function is compiled as the tokenizer is: it allocates nothing, and returns a status that asks for room or for more
of the file; then the opcode at which it stopped is run again.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.compiled import compiled, inlined
from kinetoscope.readers.json.tokenizer import ROOM_ARENA, intern

KEYS: Final = (
    *("action", "addr", "size", "stream", "time_us", "frames", "compile_context", "user_metadata", "pool_id"),
    *("forward_frames", "internal_metadata", "device_free", "address", "requested_size", "state", "total_size"),
    *("allocated_size", "active_size", "segment_type", "segment_pool_id", "is_expandable", "blocks", "device"),
    *("name", "filename", "line", "stage", "real_size", "history"),
    *("record_id", "pg_id", "process_group", "collective_seq_id", "seq_id", "p2p_seq_id", "op_id", "is_p2p"),
    *("profiling_name", "input_sizes", "input_dtypes", "output_sizes", "output_dtypes", "time_created_ns"),
    *("duration_ms", "timeout_ms", "time_discovered_started_ns", "time_discovered_completed_ns", "retired"),
    *("thread_id", "thread_name"),
)
"""Keys whose codes are their places here: they are interned first."""

(
    ACTION, ADDR, SIZE, STREAM, TIME_US, FRAMES, COMPILE_CONTEXT, USER_METADATA, POOL_ID, FORWARD_FRAMES,
    INTERNAL_METADATA, DEVICE_FREE, ADDRESS, REQUESTED_SIZE, STATE, TOTAL_SIZE, ALLOCATED_SIZE, ACTIVE_SIZE,
    SEGMENT_TYPE, SEGMENT_POOL_ID, IS_EXPANDABLE, BLOCKS, DEVICE, NAME, FILENAME, LINE, STAGE,
    REAL_SIZE, HISTORY,
    RECORD_ID, PG_ID, PROCESS_GROUP, COLLECTIVE_SEQ_ID, SEQ_ID, P2P_SEQ_ID, OP_ID, IS_P2P, PROFILING_NAME,
    INPUT_SIZES, INPUT_DTYPES, OUTPUT_SIZES, OUTPUT_DTYPES, TIME_CREATED_NS, DURATION_MS, TIMEOUT_MS,
    TIME_DISCOVERED_STARTED_NS, TIME_DISCOVERED_COMPLETED_NS, RETIRED, THREAD_ID, THREAD_NAME,
) = range(len(KEYS))  # fmt: skip

# Kinds of values on the stack and in the memo; the value beside is what the comment says. The kind of a list of rows
# follows that of its rows.
(
    MARK,  # nothing; in the memo: what cannot be fetched
    NONE,  # nothing
    NUMBER,  # the integer
    BOOL,  # 0 or 1
    REAL,  # bits of the float64
    TEXT,  # code of the string
    NUMBERS,  # code of the text that spells a list of integers
    NEW_DICT,  # nothing yet
    NEW_LIST,  # nothing yet: also an empty list
    EVENT,  # row
    EVENT_LIST,  # row of `lists`
    BLOCK,
    BLOCK_LIST,
    SEGMENT,
    SEGMENT_LIST,
    ANNOTATION,
    ANNOTATION_LIST,
    REQUEST,  # an item of `history`, in which torch up to 2.0 told of a block what it tells in `frames` today
    REQUEST_LIST,
    ENTRY,
    ENTRY_LIST,
    FRAME,  # row of `frames`, each of which is there once
    STACK,  # number of the sequence of frames
    DEVICE_LIST,  # row of `lists`, which is about `devices`
    TEXT_LIST,  # number of the sequence of texts, or of lists of integers
    OBJECT,  # number of a dict of any other keys; −1: a list of something else
) = range(26)

# Status of a call.
MORE, DONE, REFUSED, ROOM = range(4)

# What lacks room (`at[WHAT]`), or why a file is refused.
(
    STACK_ROOM, MEMO_ROOM, STRING_ROOM, ARENA_ROOM, EVENT_ROOM, BLOCK_ROOM, SEGMENT_ROOM, FRAME_ROOM, SEQUENCE_ROOM,
    ANNOTATION_ROOM, REQUEST_ROOM, MEMBER_ROOM, ENTRY_ROOM, DEVICE_ROOM, LIST_ROOM,
) = range(15)  # fmt: skip
(OPCODE, PROTOCOL, TOO_LONG, STACK_UNDERFLOW, NO_MEMO, WRONG_TYPE, MIXED) = range(7)

# Slots of the counters `at`. KEY, STRINGS and ARENA stand where `intern` wants them.
(
    POSITION, WHAT, DEPTH, STRINGS, ARENA, MEMOS, EVENTS, BLOCKS_READ, SEGMENTS, FRAMES_READ, KEY, SEQUENCES, ITEMS,
    ANNOTATIONS, REQUESTS, MEMBERS, OBJECTS, ENTRIES, DEVICES, LISTS, EVENTS_TAKEN, ENTRIES_TAKEN, DETAIL,
) = range(23)  # fmt: skip
COUNTERS: Final = 23

ODD: Final = -2
"""In a row of `events` or `entries`, in place of a value of another type than torch writes there; −1: there is none."""

FETCHED: Final = -2
"""In place of where a value stands in the memo: it comes from there, so it is whole, and nothing may be added to it."""

BATCH: Final = 1000
"""Items that a pickler appends at once: a longer list comes in pieces of as many, so only such a piece can grow."""

DIGITS: Final = 20
"""Bytes that an integer of 64 bits takes as text, at most."""

MAX_TEXT: Final = 1 << 24
"""Bytes of a text beyond which a file is refused: names of functions and settings are short."""


def _columns(*keys: int) -> NDArray[np.int64]:
    """Which column each key of `KEYS` has among those given, −1 for none."""
    columns = np.full(len(KEYS), -1, np.int64)
    columns[list(keys)] = np.arange(len(keys))
    return columns


EVENT_COLUMNS: Final = DEVICE_FREE + 1
"""Columns of `events`: the keys up to this one."""

BLOCK_KEYS: Final = (ADDRESS, SIZE, REQUESTED_SIZE, STATE, FRAMES, HISTORY)
SEGMENT_KEYS: Final = (
    *(DEVICE, ADDRESS, TOTAL_SIZE, ALLOCATED_SIZE, ACTIVE_SIZE, REQUESTED_SIZE, STREAM),
    *(SEGMENT_TYPE, SEGMENT_POOL_ID, IS_EXPANDABLE, FRAMES, BLOCKS),
)
ANNOTATION_KEYS: Final = (NAME, STAGE, DEVICE, TIME_US)
REQUEST_KEYS: Final = (REAL_SIZE, FRAMES)
ENTRY_KEYS: Final = (
    *(RECORD_ID, PG_ID, PROCESS_GROUP, COLLECTIVE_SEQ_ID, SEQ_ID, P2P_SEQ_ID, OP_ID, IS_P2P, PROFILING_NAME),
    *(INPUT_SIZES, INPUT_DTYPES, OUTPUT_SIZES, OUTPUT_DTYPES, TIME_CREATED_NS, DURATION_MS, TIMEOUT_MS, FRAMES, STATE),
    *(TIME_DISCOVERED_STARTED_NS, TIME_DISCOVERED_COMPLETED_NS, RETIRED, THREAD_NAME),
)
ENTRY_COLUMNS: Final = len(ENTRY_KEYS) + 2
"""Columns of `entries`: those keys, whether the duration is a float64's bits, and the last key that is not known."""

_BLOCK_COLUMN: Final = _columns(*BLOCK_KEYS)
_SEGMENT_COLUMN: Final = _columns(*SEGMENT_KEYS)
_ANNOTATION_COLUMN: Final = _columns(*ANNOTATION_KEYS)
_REQUEST_COLUMN: Final = _columns(*REQUEST_KEYS)
_ENTRY_COLUMN: Final = _columns(*ENTRY_KEYS)

_WANTED: Final = np.full(len(KEYS), NUMBER, np.int64)
"""The kind of the value of each key."""
_WANTED[[ACTION, COMPILE_CONTEXT, USER_METADATA, INTERNAL_METADATA, STATE, SEGMENT_TYPE, NAME, FILENAME, STAGE]] = TEXT
_WANTED[[PROFILING_NAME, THREAD_NAME]] = TEXT
_WANTED[[POOL_ID, SEGMENT_POOL_ID]] = NUMBERS
_WANTED[[PROCESS_GROUP, INPUT_SIZES, INPUT_DTYPES, OUTPUT_SIZES, OUTPUT_DTYPES]] = TEXT_LIST
_WANTED[[FRAMES, FORWARD_FRAMES, BLOCKS, HISTORY]] = STACK, TEXT_LIST, BLOCK_LIST, REQUEST_LIST

_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)


@inlined
def _unsigned(text, start, count):  # type: ignore[no-untyped-def]
    value = np.uint64(0)
    for place in range(count):
        value |= np.uint64(text[start + place]) << np.uint64(8 * place)
    return value


@inlined
def _signed(text, start, count):  # type: ignore[no-untyped-def]
    """A little-endian number in two's complement of up to eight bytes."""
    value = np.int64(_unsigned(text, start, count))
    if 0 < count < 8 and text[start + count - 1] >= 128:
        value -= np.int64(1) << np.int64(8 * count)
    return value


@inlined
def _stop(at, position, status, what):  # type: ignore[no-untyped-def]
    at[POSITION] = position
    at[WHAT] = what
    return status


@inlined
def _spelled(arena, place, number):  # type: ignore[no-untyped-def]
    """Write an integer at `arena[place:]` as text; where it ends there."""
    rest = np.uint64(number)
    if number < 0:
        arena[place] = 45
        place += 1
        rest = np.uint64(0) - rest
    digits = np.int64(1)
    power = np.uint64(10)
    while digits < 19 and rest >= power:
        digits += 1
        power *= np.uint64(10)
    for k in range(digits):
        arena[place + digits - 1 - k] = np.uint8(np.uint64(48) + rest % np.uint64(10))
        rest //= np.uint64(10)
    return place + digits


@inlined
def _key_code(number, at, slots, offsets, arena):  # type: ignore[no-untyped-def]
    """Code of the text of an integer."""
    start = at[ARENA] + 8
    if start + DIGITS + 16 > arena.size:
        return np.int64(-ROOM_ARENA)
    return intern(arena, start, _spelled(arena, start, number) - start, at, slots, offsets, arena)


@inlined
def _numbers_code(values, first, count, at, slots, offsets, arena):  # type: ignore[no-untyped-def]
    """Code of the text of a list of integers, spelled at the end of the arena, where it stays if it is new."""
    start = at[ARENA] + 8
    if start + (DIGITS + 2) * count + 24 > arena.size:
        return np.int64(-ROOM_ARENA)
    arena[start] = 91
    place = start + 1
    for k in range(count):
        if k:
            arena[place] = 44
            arena[place + 1] = 32
            place += 2
        place = _spelled(arena, place, values[first + k])
    arena[place] = 93
    return intern(arena, start, place + 1 - start, at, slots, offsets, arena)


@inlined
def _mixed(h, value):  # type: ignore[no-untyped-def]
    h = (h ^ np.uint64(value)) * _FACTOR
    return h ^ (h >> np.uint64(29))


@inlined
def _row_code(table, row, slots, key):  # type: ignore[no-untyped-def]
    """The first row of a table, up to `row`, that equals `row`; `row` itself is entered if it is new."""
    h = np.uint64(key)
    for column in range(table.shape[1]):
        h = _mixed(h, table[row, column])
    mask = np.uint64(slots.size - 1)
    slot = h & mask
    while slots[slot] != 0:
        known = np.int64(slots[slot]) - 1
        same = True
        for column in range(table.shape[1]):
            if table[known, column] != table[row, column]:
                same = False
                break
        if same:
            return known
        slot = (slot + np.uint64(1)) & mask
    slots[slot] = np.uint64(row + 1)
    return row


@inlined
def _sequence_code(items, ends, number, slots, key):  # type: ignore[no-untyped-def]
    """The first sequence, up to `number`, that equals `number`, which is entered if it is new."""
    begin = np.int64(0) if number == 0 else ends[number - 1]
    length = ends[number] - begin
    h = _mixed(np.uint64(key), length)
    for place in range(begin, begin + length):
        h = _mixed(h, items[place])
    mask = np.uint64(slots.size - 1)
    slot = h & mask
    while slots[slot] != 0:
        known = np.int64(slots[slot]) - 1
        start = np.int64(0) if known == 0 else ends[known - 1]
        if ends[known] - start == length:
            same = True
            for place in range(length):
                if items[start + place] != items[begin + place]:
                    same = False
                    break
            if same:
                return known
        slot = (slot + np.uint64(1)) & mask
    slots[slot] = np.uint64(number + 1)
    return number


@compiled
def enter_rows(count, table, slots, key):  # type: ignore[no-untyped-def]
    """Enter the first `count` rows of a table of distinct rows again into `slots`, which are all free."""
    for row in range(count):
        _row_code(table, row, slots, key)


@compiled
def enter_sequences(count, items, ends, slots, key):  # type: ignore[no-untyped-def]
    """Enter the first `count` sequences again into `slots`, which are all free."""
    for number in range(count):
        _sequence_code(items, ends, number, slots, key)


@compiled
def run(  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912, PLR0915 - one state machine, as the tokenizer
    text, limit, at, kinds, values, memos, memo_kinds, memo_values, slots, offsets, arena,
    events, blocks, segments, annotations, requests, entries, members, devices, lists,
    frames, frame_slots, items, ends, sequence_slots,
):  # fmt: skip
    """Run the machine over `text[:limit]`, the bytes of the file, with padding behind; from `at[POSITION]` on.

    What it works with, and leaves:
        at: int64 [COUNTERS].
        kinds, values, memos: int8, int64, int32 [depth]: the stack; where each value stands in the memo, −1 or FETCHED.
        memo_kinds, memo_values: int8, int32 [memo].
        slots, offsets, arena: the strings, see `intern`.
        events, entries: int64 [rows, columns], those that the caller has not taken yet: from `at[EVENTS_TAKEN]`,
            `at[ENTRIES_TAKEN]` on.
        blocks, segments, annotations, requests, members: int64 [rows, columns].
        devices: int64: for each device the row in `lists` of its events, −1 for none.
        lists: int64 [lists, 2]: the first of the consecutive rows of a list, and how many they are.
        frames: int64 [rows, columns], each row once; with slots for their hashes: a power of two of uint64.
        items, ends, sequence_slots: int32, int64, uint64: sequences of frames or of texts (~code), each once.
    """
    i = at[POSITION]
    depth = at[DEPTH]
    while True:
        at[POSITION] = i
        at[DEPTH] = depth
        if depth + 4 > kinds.size:
            return _stop(at, i, ROOM, STACK_ROOM)
        if at[MEMOS] + 2 > memo_kinds.size:
            return _stop(at, i, ROOM, MEMO_ROOM)
        if i >= limit:
            return MORE
        op = text[i]
        rest = limit - i - 1
        # --- what only pushes a value
        if op == 0x4B or op == 0x4D or op == 0x4A:  # BININT1, BININT2, BININT
            size = 1 if op == 0x4B else 2 if op == 0x4D else 4
            if rest < size:
                return MORE
            kinds[depth] = NUMBER
            values[depth] = _signed(text, i + 1, 4) if size == 4 else np.int64(_unsigned(text, i + 1, size))
            memos[depth] = -1
            depth += 1
            i += 1 + size
        elif op == 0x8A:  # LONG1
            if rest < 1 or rest < 1 + text[i + 1]:
                return MORE
            digits = np.int64(text[i + 1])
            fits = digits <= 8 or (digits == 9 and text[i + 10] == 0)
            kinds[depth] = NUMBER if fits else OBJECT
            values[depth] = _signed(text, i + 2, min(digits, 8)) if fits else np.int64(-1)
            memos[depth] = -1
            depth += 1
            i += 2 + digits
        elif op == 0x47:  # BINFLOAT, the most significant byte first
            if rest < 8:
                return MORE
            bits = np.uint64(0)
            for place in range(8):
                bits = (bits << np.uint64(8)) | np.uint64(text[i + 1 + place])
            kinds[depth] = REAL
            values[depth] = np.int64(bits)
            memos[depth] = -1
            depth += 1
            i += 9
        elif op == 0x8C or op == 0x58 or op == 0x8D:  # SHORT_BINUNICODE, BINUNICODE, BINUNICODE8
            head = 1 if op == 0x8C else 4 if op == 0x58 else 8
            if rest < head:
                return MORE
            if _unsigned(text, i + 1, head) > np.uint64(MAX_TEXT):
                return _stop(at, i, REFUSED, TOO_LONG)
            length = np.int64(_unsigned(text, i + 1, head))
            if rest < head + length:
                return MORE
            code = intern(text, i + 1 + head, length, at, slots, offsets, arena)
            if code < 0:
                return _stop(at, i, ROOM, ARENA_ROOM if code == -ROOM_ARENA else STRING_ROOM)
            kinds[depth] = TEXT
            values[depth] = code
            memos[depth] = -1
            depth += 1
            i += 1 + head + length
        elif op == 0x68 or op == 0x6A:  # BINGET, LONG_BINGET
            size = 1 if op == 0x68 else 4
            if rest < size:
                return MORE
            memo = np.int64(_unsigned(text, i + 1, size))
            if memo >= at[MEMOS] or memo_kinds[memo] == MARK:
                return _stop(at, i, REFUSED, NO_MEMO)
            kinds[depth] = memo_kinds[memo]
            values[depth] = np.int64(memo_values[memo])
            memos[depth] = FETCHED
            depth += 1
            i += 1 + size
        elif op == 0x7D or op == 0x5D or op == 0x4E or op == 0x88 or op == 0x89 or op == 0x28 or op == 0x29:
            # EMPTY_DICT, EMPTY_LIST, NONE, NEWTRUE, NEWFALSE, MARK, EMPTY_TUPLE
            kind = NEW_LIST
            if op == 0x7D:
                kind = NEW_DICT
            elif op == 0x4E:
                kind = NONE
            elif op == 0x88 or op == 0x89:
                kind = BOOL
            elif op == 0x28:
                kind = MARK
            kinds[depth] = kind
            values[depth] = 1 if op == 0x88 else 0
            memos[depth] = -1
            depth += 1
            i += 1
        # --- the memo
        elif op == 0x94 or op == 0x71 or op == 0x72:  # MEMOIZE, BINPUT, LONG_BINPUT
            size = 0 if op == 0x94 else 1 if op == 0x71 else 4
            if rest < size:
                return MORE
            if depth == 0 or kinds[depth - 1] == MARK:
                return _stop(at, i, REFUSED, STACK_UNDERFLOW)
            memo = at[MEMOS] if size == 0 else np.int64(_unsigned(text, i + 1, size))
            if memo > at[MEMOS]:
                return _stop(at, i, REFUSED, NO_MEMO)
            if memo == at[MEMOS]:
                at[MEMOS] += 1
            plain = kinds[depth - 1] == NUMBER or kinds[depth - 1] == REAL  # no pickler puts these into the memo
            memo_kinds[memo] = MARK if plain else kinds[depth - 1]
            memo_values[memo] = 0 if plain else np.int32(values[depth - 1])
            if memos[depth - 1] != FETCHED:
                memos[depth - 1] = memo
            i += 1 + size
        # --- what makes one value of several
        elif op == 0x86 or op == 0x85 or op == 0x87 or op == 0x74 or op == 0x65 or op == 0x61:
            # TUPLE2, TUPLE1, TUPLE3, TUPLE, APPENDS, APPEND
            if op == 0x74 or op == 0x65:
                first = depth - 1
                while first >= 0 and kinds[first] != MARK:
                    first -= 1
                base = first - 1
                first += 1
                if first == 0:
                    return _stop(at, i, REFUSED, STACK_UNDERFLOW)
            else:
                first = depth - (1 if op == 0x85 or op == 0x61 else 2 if op == 0x86 else 3)
                base = first - 1
            is_list = op == 0x65 or op == 0x61
            if first < 0 or (is_list and base < 0):
                return _stop(at, i, REFUSED, STACK_UNDERFLOW)
            count = depth - first
            for place in range(first, depth):
                if kinds[place] == MARK:
                    return _stop(at, i, REFUSED, STACK_UNDERFLOW)
            before = kinds[base] if is_list else NEW_LIST
            # the kind of the result, by that of the items
            of = kinds[first] if count else NEW_LIST
            for place in range(first + 1, depth):
                if of == NEW_LIST and kinds[place] in (EVENT_LIST, NUMBERS):
                    of = kinds[place]
                elif kinds[place] != of and not (of in (EVENT_LIST, NUMBERS) and kinds[place] == NEW_LIST):
                    of = OBJECT
            made = OBJECT
            value = np.int64(-1)
            if of == NUMBER and before == NEW_LIST and count <= BATCH:
                made = NUMBERS
            elif of == NUMBER and before == NUMBERS:
                before = OBJECT  # longer than any that is read
                values[base] = -1
            elif of == FRAME:
                made = STACK
            elif of in (TEXT, NUMBERS):
                made = TEXT_LIST
            elif of in (EVENT, BLOCK, SEGMENT, ANNOTATION, REQUEST, ENTRY):
                made = of + 1
            elif of in (EVENT_LIST, NEW_LIST):
                made = DEVICE_LIST
            if count == 0:
                made = before
                value = values[base] if is_list else np.int64(0)
            elif (is_list and memos[base] == FETCHED) or (
                before != NEW_LIST and (before != made or (made == OBJECT and values[base] >= 0))
            ):
                return _stop(at, i, REFUSED, MIXED)
            elif made == NUMBERS:
                value = _numbers_code(values, first, count, at, slots, offsets, arena)
                if value < 0:
                    return _stop(at, i, ROOM, ARENA_ROOM if value == -ROOM_ARENA else STRING_ROOM)
            elif made in (STACK, TEXT_LIST):
                begin = np.int64(0)
                old = np.int64(0)
                if before == made:
                    begin = np.int64(0) if values[base] == 0 else ends[values[base] - 1]
                    old = ends[values[base]] - begin
                if old % BATCH:  # or copying it again and again would take long
                    return _stop(at, i, REFUSED, MIXED)
                end = at[ITEMS]
                number = at[SEQUENCES]
                no_numbers = np.int64(0)
                if of == NUMBERS:
                    no_numbers = _numbers_code(values, first, 0, at, slots, offsets, arena)
                    if no_numbers < 0:
                        return _stop(at, i, ROOM, ARENA_ROOM if no_numbers == -ROOM_ARENA else STRING_ROOM)
                if end + old + count > items.size or number + 1 >= ends.size or 2 * (number + 2) > sequence_slots.size:
                    return _stop(at, i, ROOM, SEQUENCE_ROOM)
                for place in range(old):
                    items[end + place] = items[begin + place]
                for place in range(count):
                    entry = values[first + place] if kinds[first + place] != NEW_LIST else no_numbers
                    items[end + old + place] = np.int32(entry if made == STACK else ~entry)
                ends[number] = end + old + count
                value = _sequence_code(items, ends, number, sequence_slots, at[KEY])
                if value == number:
                    at[SEQUENCES] += 1
                    at[ITEMS] = end + old + count
            elif made != OBJECT:  # rows
                if at[LISTS] >= lists.shape[0]:
                    return _stop(at, i, ROOM, LIST_ROOM)
                if made == DEVICE_LIST and at[DEVICES] + count > devices.size:
                    return _stop(at, i, ROOM, DEVICE_ROOM)
                start = at[DEVICES] if made == DEVICE_LIST else values[first]
                value = at[LISTS]
                if before == made:
                    value = values[base]
                    if lists[value, 0] + lists[value, 1] != start:
                        return _stop(at, i, REFUSED, MIXED)
                for place in range(count):
                    if made == DEVICE_LIST:
                        known = kinds[first + place] == EVENT_LIST
                        devices[start + place] = values[first + place] if known else np.int64(-1)
                    elif values[first + place] != start + place:
                        return _stop(at, i, REFUSED, MIXED)
                if before == made:
                    lists[value, 1] += count
                else:
                    lists[value, 0] = start
                    lists[value, 1] = count
                    at[LISTS] += 1
                if made == DEVICE_LIST:
                    at[DEVICES] += count
            if is_list:
                depth = base + 1
                kinds[base] = made
                values[base] = value
                if memos[base] >= 0:
                    memo_kinds[memos[base]] = made
                    memo_values[memos[base]] = np.int32(value)
            else:
                depth = first if op != 0x74 else first - 1
                kinds[depth] = made
                values[depth] = value
                memos[depth] = -1
                depth += 1
            i += 1
        elif op == 0x75 or op == 0x73:  # SETITEMS, SETITEM
            first = depth - 2
            if op == 0x75:
                first = depth - 1
                while first >= 0 and kinds[first] != MARK:
                    first -= 1
                first += 1
            base = first - (2 if op == 0x75 else 1)
            if base < 0 or (depth - first) % 2 or memos[base] == FETCHED:
                return _stop(at, i, REFUSED, STACK_UNDERFLOW)
            have = np.int64(0)
            for place in range(first, depth, 2):
                if kinds[place] == NUMBER:  # as in the settings of groups of torch 2.3: a key like any other
                    code = _key_code(values[place], at, slots, offsets, arena)
                    if code < 0:
                        return _stop(at, i, ROOM, ARENA_ROOM if code == -ROOM_ARENA else STRING_ROOM)
                    kinds[place] = TEXT
                    values[place] = code
                if kinds[place] != TEXT:
                    return _stop(at, i, REFUSED, WRONG_TYPE)
                if values[place] < len(KEYS):
                    have |= np.int64(1) << values[place]
            if kinds[base] == OBJECT and values[base] >= 0:
                have = np.int64(0)
            elif kinds[base] != NEW_DICT:
                return _stop(at, i, REFUSED, MIXED)
            made = OBJECT
            if have & (np.int64(1) << ACTION):
                made = EVENT
            elif have & (np.int64(1) << TOTAL_SIZE):
                made = SEGMENT
            elif have & ((np.int64(1) << RECORD_ID) | (np.int64(1) << PROFILING_NAME)):
                made = ENTRY
            elif have & (np.int64(1) << STATE):
                made = BLOCK
            elif have & (np.int64(1) << FILENAME):
                made = FRAME
            elif have & (np.int64(1) << STAGE):
                made = ANNOTATION
            elif have & (np.int64(1) << REAL_SIZE):
                made = REQUEST
            table = events
            row = at[EVENTS] - at[EVENTS_TAKEN]
            what = EVENT_ROOM
            if made == SEGMENT:
                table, row, what = segments, at[SEGMENTS], SEGMENT_ROOM
            elif made == BLOCK:
                table, row, what = blocks, at[BLOCKS_READ], BLOCK_ROOM
            elif made == FRAME:
                table, row, what = frames, at[FRAMES_READ], FRAME_ROOM
            elif made == ANNOTATION:
                table, row, what = annotations, at[ANNOTATIONS], ANNOTATION_ROOM
            elif made == REQUEST:
                table, row, what = requests, at[REQUESTS], REQUEST_ROOM
            elif made == ENTRY:
                table, row, what = entries, at[ENTRIES] - at[ENTRIES_TAKEN], ENTRY_ROOM
            elif made == OBJECT:
                table, row, what = members, at[MEMBERS], MEMBER_ROOM
            if made == OBJECT:
                if row + (depth - first) // 2 > table.shape[0]:
                    return _stop(at, i, ROOM, what)
                number = values[base]
                if kinds[base] == NEW_DICT:
                    number = at[OBJECTS]
                    at[OBJECTS] += 1
                for place in range(first, depth, 2):
                    table[row, 0] = number
                    table[row, 1] = values[place]
                    table[row, 2] = kinds[place + 1]
                    table[row, 3] = values[place + 1]
                    row += 1
                at[MEMBERS] = row
                value = number
            else:
                if row >= table.shape[0] or (made == FRAME and 2 * (row + 2) > frame_slots.size):
                    return _stop(at, i, ROOM, what)
                for column in range(table.shape[1]):
                    table[row, column] = -1
                for place in range(first, depth, 2):
                    key = values[place]
                    kind = kinds[place + 1]
                    entry = values[place + 1]
                    column = -1
                    if made == EVENT:
                        column = key if key <= DEVICE_FREE else -1
                    elif made == BLOCK:
                        column = _BLOCK_COLUMN[key] if key < len(KEYS) else -1
                    elif made == SEGMENT:
                        column = _SEGMENT_COLUMN[key] if key < len(KEYS) else -1
                    elif made == FRAME:
                        column = key - NAME if NAME <= key <= LINE else -1
                    elif made == REQUEST:
                        column = _REQUEST_COLUMN[key] if key < len(KEYS) else -1
                    elif made == ENTRY:
                        column = _ENTRY_COLUMN[key] if key < len(KEYS) else -1
                        if column < 0 and key != THREAD_ID:
                            table[row, ENTRY_COLUMNS - 1] = key
                    else:
                        column = _ANNOTATION_COLUMN[key] if key < len(KEYS) else -1
                    if column < 0:
                        continue
                    wanted = _WANTED[key]
                    if kind == NONE or (kind == NEW_LIST and wanted != NUMBER and wanted != TEXT):
                        continue
                    if made == ENTRY and kind == DEVICE_LIST and wanted == TEXT_LIST:  # of tensors without dimensions
                        entry = ~lists[entry, 1] - 1
                    elif made == ENTRY and kind == REAL and key == DURATION_MS:
                        table[row, ENTRY_COLUMNS - 2] = 1
                    elif kind != wanted and not (kind == BOOL and wanted == NUMBER):
                        if made in (EVENT, ENTRY):  # one of many: the others count
                            table[row, column] = ODD
                            continue
                        at[DETAIL] = key
                        return _stop(at, i, REFUSED, WRONG_TYPE)
                    table[row, column] = entry
                value = row
                if made == EVENT:
                    value = at[EVENTS]
                    at[EVENTS] += 1
                elif made == ENTRY:
                    value = at[ENTRIES]
                    at[ENTRIES] += 1
                elif made == SEGMENT:
                    at[SEGMENTS] += 1
                elif made == BLOCK:
                    at[BLOCKS_READ] += 1
                elif made == FRAME:
                    value = _row_code(frames, row, frame_slots, at[KEY])
                    at[FRAMES_READ] += value == row
                elif made == ANNOTATION:
                    at[ANNOTATIONS] += 1
                else:
                    at[REQUESTS] += 1
            kinds[base] = made
            values[base] = value
            if memos[base] >= 0:
                memo_kinds[memos[base]] = made
                memo_values[memos[base]] = np.int32(value)
            depth = base + 1
            i += 1
        # --- the frame around it all
        elif op == 0x80:  # PROTO
            if rest < 1:
                return MORE
            if text[i + 1] < 2 or text[i + 1] > 5:
                at[DETAIL] = text[i + 1]
                return _stop(at, i, REFUSED, PROTOCOL)
            i += 2
        elif op == 0x95:  # FRAME: its length says nothing that the text does not
            if rest < 8:
                return MORE
            i += 9
        elif op == 0x2E:  # STOP
            if depth != 1:
                return _stop(at, i, REFUSED, STACK_UNDERFLOW)
            at[POSITION] = i + 1
            return DONE
        else:
            at[DETAIL] = op
            return _stop(at, i, REFUSED, OPCODE)
