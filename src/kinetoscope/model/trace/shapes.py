"""Shapes of events: which members an event has, in which order and of which kind.

A trace of half a million events has some twenty shapes. The values of an event's members follow one another in one flat
array, so an argument as a column is one look-up per shape and one gather. The tokenizer makes shapes; the constants
here are what they are made of.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s

SPECIAL_KEYS: Final = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")
PH, CAT, NAME, PID, TID, TS, DUR, ARGS = range(8)
"""Codes of the special keys in every string table: they are interned first, in this order."""

INT, FLOAT, STRING, RAW, NUMBER_TEXT = range(5)
"""Kinds that take a slot in `values`. INT: int64. FLOAT: bits of a float64. STRING, RAW (nested JSON), NUMBER_TEXT (a
number that fits neither, or a bare word): a string code."""

TRUE, FALSE, NULL, OPEN = range(5, 9)
"""Kinds that take none: the literals, and the opening of the object `args`, whose members follow at level 1."""

IN_COLUMN, IN_TRACK, TIME_INTEGER, TIME_DECIMAL = range(9, 13)
"""Kinds that take none because the value is in a column of the event (ph, cat, name), in its track (pid, tid), or in
start and end (ts, dur, written without or with a decimal point). A time with parts of a nanosecond is a FLOAT, too."""

SLOTS: Final = 5
"""Kinds below this number take one slot."""

ARGUMENT_LEVEL: Final = 1
"""Level of the members of `args`; those of the event itself are at 0."""

NOT_AN_OBJECT: Final = 2
"""Level of the only item of an element of `traceEvents` that is no object."""

Item = tuple[int, int, int]
"""Key (a string code), kind and level of one member."""


def unpack_item(item: int) -> Item:
    """The parts of an item as the tokenizer packs it: key << 8 | kind << 2 | level."""
    return item >> 8, (item >> 2) & 63, item & 3


def pack_item(item: Item) -> int:
    """An item as one number: the inverse of `unpack`."""
    key, kind, level = item
    return key << 8 | kind << 2 | level


class Shapes:
    """All shapes of a trace, by code.

    Attributes:
        items: for each shape the members, in order.
        sizes: int64 [shapes], how many slots each takes.
    """

    def __init__(self, packed: list[Int64s]) -> None:
        self.items: tuple[tuple[Item, ...], ...] = tuple(tuple(unpack_item(int(x)) for x in shape) for shape in packed)
        self._places: dict[tuple[int, int], tuple[Int64s, Int8s]] = {}
        self.sizes = np.array([len(self.slot_kinds(code)) for code in range(len(self.items))], np.int64)

    def __len__(self) -> int:
        return len(self.items)

    def slot_kinds(self, shape: int) -> list[int]:
        """Kinds of the values that a shape has in `values`, in order."""
        return [kind for _, kind, _ in self.items[shape] if kind < SLOTS]

    def first_values(self, column: Int32s) -> NDArray[np.signedinteger]:
        """The place at which each event's values begin in `values`: int32 [events], int64 where that is too short."""
        first = np.zeros(len(column), np.int64)
        if len(column) > 1:
            np.take(self.sizes, column[:-1], out=first[1:], mode="clip")  # without a copy, as "raise" would make
            np.cumsum(first, out=first)
        is_short = not len(first) or first[-1] <= np.iinfo(np.int32).max
        return first.astype(np.int32) if is_short else first

    def find(self, key: int, level: int = 1) -> tuple[Int64s, Int8s]:
        """A member in each shape: its slot (−1: none, or of a kind without slot) and its kind (−1: not there).

        Of a repeated key the first one counts. Both are read-only: they are kept for the next time.
        """
        if (key, level) in self._places:
            return self._places[key, level]
        slots = np.full(len(self.items), -1, np.int64)
        kinds = np.full(len(self.items), -1, np.int8)
        for code, items in enumerate(self.items):
            slot = 0
            for item_key, kind, item_level in items:
                if item_key == key and item_level == level:
                    slots[code], kinds[code] = (slot if kind < SLOTS else -1), kind
                    break
                slot += kind < SLOTS
        slots.flags.writeable = kinds.flags.writeable = False
        self._places[key, level] = slots, kinds
        return slots, kinds

    def has_odd_time(self, key: int) -> Bools:
        """Shapes in which `ts` or `dur` is no time that the tokenizer takes: bool [shapes]."""
        return ~np.isin(self.find(key, level=0)[1], (TIME_INTEGER, TIME_DECIMAL, FLOAT, -1))

    def has_fine_time(self, key: int) -> Bools:
        """Shapes in which `ts` or `dur` has parts of a nanosecond, which start and end have not: bool [shapes]."""
        return np.asarray(self.find(key, level=0)[1] == FLOAT)
