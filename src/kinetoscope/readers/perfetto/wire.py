"""Protobuf as it is on the wire: the fields of many messages at once, as columns.

A message is a range of bytes. Those of one level (all packets, all events, all annotations, ...) are taken apart in one
call; a field that is a message is a range again. No schema is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats, Int32s, Int64s, UInt8s
from kinetoscope.algorithms.compiled import compiled, frozen, inlined
from kinetoscope.readers.byte_ranges import ByteRanges

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Types of fields on the wire."""

_MAX_NUMBER: Final = 1 << 29


@inlined
def _varint(data, at, end):  # type: ignore[no-untyped-def]
    """A number and where it ends; −1 for the latter where it is cut or too long."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while at < end and shift < np.uint64(70):
        byte = np.uint64(data[at])
        at += 1
        if shift < np.uint64(64):
            value |= (byte & np.uint64(127)) << shift
        if byte < np.uint64(128):
            return value, at
        shift += np.uint64(7)
    return value, np.int64(-1)


@inlined
def _content(data, at, end, wire):  # type: ignore[no-untyped-def]
    """The bits or the length of a field, where its content begins, and where it ends; −1 where it does not fit."""
    bits = np.uint64(0)
    if wire == 0:
        bits, to = _varint(data, at, end)
        return bits, at, to
    if wire == 2:
        bits, begin = _varint(data, at, end)
        if begin >= 0 and bits <= np.uint64(end - begin):
            return bits, begin, begin + np.int64(bits)
        return bits, begin, np.int64(-1)
    size = np.int64(8 if wire == 1 else 4 if wire == 5 else 0)
    if size == 0 or at + size > end:
        return bits, at, np.int64(-1)
    for byte in range(size):
        bits |= np.uint64(data[at + byte]) << np.uint64(8 * byte)
    return bits, at, at + size


@compiled
def _take_apart(data, starts, ends, damaged, message, number, kind, value, at):  # type: ignore[no-untyped-def]
    """Fill the columns of all fields, or, where these are empty, only count them; what follows damage is left out."""
    count = 0
    fill = message.size > 0
    for each in range(starts.size):
        place = starts[each]
        end = ends[each]
        while place < end:
            tag, place = _varint(data, place, end)
            wire = np.int64(tag & np.uint64(7))
            key = np.int64(tag >> np.uint64(3))
            if place < 0 or key < 1 or key >= 536870912:
                damaged[each] = True
                break
            bits, begin, place = _content(data, place, end, wire)
            if place < 0:
                damaged[each] = True
                break
            if fill:
                message[count] = each
                number[count] = key
                kind[count] = wire
                value[count] = np.int64(bits)
                at[count] = begin
            count += 1
    return count


@dataclass(frozen=True)
class Fields:
    """The fields of messages of one level, in order; of a length-delimited one the value is its length.

    Attributes:
        data: uint8, what the messages are ranges of.
        messages: how many.
        message: int32 [fields], which message has it.
        number: int32 [fields].
        kind: uint8 [fields], its type on the wire.
        value: int64 [fields], its bits, or its length.
        at: int64 [fields], where its content begins.
        damaged: bool [messages], something in it is no field; that and what follows is left out.
    """

    data: UInt8s
    messages: int
    message: Int32s
    number: Int32s
    kind: UInt8s
    value: Int64s
    at: Int64s
    damaged: Bools

    def having(self, number: int, *kinds: int) -> Int64s:
        """Places of the fields of a number, in order."""
        chosen = self.number == number
        of_kind = np.zeros(len(chosen), np.bool_)
        for kind in kinds or (LENGTH,):
            of_kind |= self.kind == kind
        return np.flatnonzero(chosen & of_kind)

    def integers(self, number: int, missing: int = 0) -> Int64s:
        """A number of each message; the last counts."""
        return self._last(self.having(number, VARINT, FIXED64, FIXED32), missing)

    def floats(self, number: int) -> Floats:
        """A double of each message; 0 where there is none."""
        return self._last(self.having(number, FIXED64), 0).view(np.float64)

    def has(self, number: int) -> Bools:
        """Messages that have a field."""
        result = np.zeros(self.messages, np.bool_)
        result[self.message[self.number == number]] = True
        return result

    def ranges(self, number: int) -> ByteRanges:
        """The content of a length-delimited field of each message; the last counts."""
        places = self.having(number)
        start = np.full(self.messages, -1, np.int64)
        end = np.full(self.messages, -1, np.int64)
        start[self.message[places]] = self.at[places]
        end[self.message[places]] = self.at[places] + self.value[places]
        return ByteRanges(start, end)

    def repeated(self, number: int) -> tuple[Int32s, ByteRanges]:
        """All contents of a length-delimited field, and the message that each is of."""
        places = self.having(number)
        return self.message[places], ByteRanges(self.at[places], self.at[places] + self.value[places])

    def _last(self, places: Int64s, missing: int) -> Int64s:
        result = np.full(self.messages, missing, np.int64)
        result[self.message[places]] = self.value[places]
        return result


def fields(data: UInt8s, ranges: ByteRanges) -> Fields:
    """The fields of messages; a range that is not there is an empty message."""
    data, starts, ends = frozen(data, np.uint8), frozen(ranges.start, np.int64), frozen(ranges.end, np.int64)
    damaged = np.zeros(len(starts), np.bool_)
    columns = _columns(0)
    count = _take_apart(data, starts, ends, damaged, *columns)
    if count:
        columns = _columns(count)
        _take_apart(data, starts, ends, damaged, *columns)
    return Fields(data, len(starts), *columns, damaged)


def _columns(count: int) -> tuple[Int32s, Int32s, UInt8s, Int64s, Int64s]:
    integers, longs = np.empty((2, count), np.int32), np.empty((2, count), np.int64)
    return integers[0], integers[1], np.empty(count, np.uint8), longs[0], longs[1]
