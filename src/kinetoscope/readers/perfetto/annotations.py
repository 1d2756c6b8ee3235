"""Arguments of events: debug annotations, whose names and texts may be interned and whose values may be nested."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Int64s, UInt8s
from kinetoscope.algorithms.grouping import group
from kinetoscope.errors import LimitError
from kinetoscope.model.trace.build import Coded, Column
from kinetoscope.readers.byte_ranges import ByteRanges, distinct
from kinetoscope.readers.perfetto import interned
from kinetoscope.readers.perfetto.interned import Interned
from kinetoscope.readers.perfetto.wire import FIXED64, VARINT, Fields, fields

NAME_ID, BOOL, UINT, INT, DOUBLE, TEXT, POINTER, JSON, NAME, ENTRIES, VALUES, TEXT_ID = (
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    9,
    10,
    11,
    12,
    17,
)
"""Fields of an annotation."""

MAX_ARGUMENTS: Final = 256
"""Arguments of one event that are read; events of torch have up to 40."""

MAX_SHAPES: Final = 1 << 16
"""Combinations of arguments in one recording: torch's have some hundred."""

_MAX_DEPTH: Final = 32

AN_INTEGER, A_FLOAT, A_TEXT, TRUE, FALSE, NOTHING, ANY = range(7)
"""What a value is; the bits of a text, and of what is nested, are its place among `Values.values`."""

_LITERALS: Final = {TRUE: True, FALSE: False, NOTHING: None}


@dataclass
class EventArguments:
    """Arguments of events, those of an event one after the other.

    Attributes:
        event, key, kind, bits: int64, of each argument: its event, the place of its name in `keys`, and its value.
        keys: names, each once.
        values: texts and nested values, each once.
    """

    event: Int64s
    key: Int64s
    kind: Int64s
    bits: Int64s
    keys: list[str]
    values: list[Any] = field(default_factory=list)

    def with_integers(self, key: str, events: Int64s, numbers: Int64s) -> EventArguments:
        """The same with one more argument of some events."""
        event = np.concatenate([self.event, events])
        order = np.argsort(event, kind="stable")
        added = (np.full(len(events), len(self.keys)), np.full(len(events), AN_INTEGER), numbers)
        old = (self.key, self.kind, self.bits)
        keys, kinds, bits = (np.concatenate(each)[order] for each in zip(old, added, strict=True))
        return EventArguments(event[order], keys, kinds, bits, [*self.keys, key], self.values)

    def shapes(self, events: int) -> Iterator[tuple[Int64s, Mapping[str, Column | None]]]:
        """Events that have the same arguments in the same order, and these as columns.

        Raises:
            LimitError: there are too many combinations.
        """
        count = np.bincount(self.event, minlength=events)
        first = np.cumsum(count) - count
        items = self.key * 8 + self.kind
        codes = count.astype(np.int64)
        for depth in range(int(count.max(initial=0))):
            rows = np.flatnonzero(count > depth)
            refined, _ = group(codes[rows], items[first[rows] + depth])
            codes[rows] = refined + int(codes.max()) + 1
        shape, representatives = group(codes)
        if len(representatives) > MAX_SHAPES:
            raise LimitError(f"events with more than {MAX_SHAPES:,} combinations of arguments")
        order = np.argsort(shape, kind="stable")
        ends = np.cumsum(np.bincount(shape, minlength=len(representatives)))
        for rows in np.split(order, ends[:-1]) if len(ends) else ():
            at = first[rows]
            columns: dict[str, Column | None] = {}
            for depth in range(int(count[rows[0]])):
                places = at + depth
                key = self.keys[int(self.key[places[0]])]
                columns.setdefault(key, self._column(int(self.kind[places[0]]), self.bits[places]))
            yield rows, columns

    def _column(self, kind: int, bits: Int64s) -> Column | None:
        if kind == AN_INTEGER:
            return bits
        if kind == A_FLOAT:
            return bits.view(np.float64)
        if kind in _LITERALS:
            return _LITERALS[kind]
        return Coded.of(bits, self.values.__getitem__)


def arguments_of(of: Fields, number: int, packet: Int64s, stretch: Int64s, tables: Interned) -> EventArguments:
    """The annotations of events that are a field of theirs; `packet` and `stretch` are those of the events."""
    of_event, ranges = of.repeated(number)
    event = of_event.astype(np.int64)
    rank = np.arange(len(event)) - (np.searchsorted(event, event) if len(event) else 0)
    some = rank < MAX_ARGUMENTS
    event, ranges = event[some], ranges.at(some)
    read = fields(of.data, ranges)
    packet, stretch = packet[event], stretch[event]
    names = read.ranges(NAME).or_else(tables.table(interned.KEYS).ranges(packet, stretch, read.integers(NAME_ID), 2))
    key, keys = distinct(of.data, names)
    kind, bits = np.full(len(event), -1, np.int64), np.zeros(len(event), np.int64)
    for number_of_field in (UINT, INT, POINTER):
        places = read.having(number_of_field, VARINT)
        kind[read.message[places]], bits[read.message[places]] = AN_INTEGER, read.value[places]
    unsigned = np.zeros(len(event), np.bool_)
    unsigned[read.message[read.having(UINT, VARINT)]] = True
    places = read.having(DOUBLE, FIXED64)
    kind[read.message[places]], bits[read.message[places]] = A_FLOAT, read.value[places]
    places = read.having(BOOL, VARINT)
    kind[read.message[places]] = np.where(read.value[places] != 0, TRUE, FALSE)
    values: list[Any] = []
    texts = read.ranges(TEXT).or_else(tables.table(interned.TEXTS).ranges(packet, stretch, read.integers(TEXT_ID), 2))
    _texts(of.data, texts, kind, bits, values)
    as_json = np.flatnonzero(read.has(TEXT_ID) & np.isin(read.integers(TEXT_ID), tables.nested))
    codes, representatives = group(bits[as_json])
    decoded = [_from_json(values[bits[place]]) for place in as_json[representatives].tolist()]
    _decoded(as_json, codes, kind, bits, values, decoded)
    nested = _Nested(of.data, tables)
    chosen = np.flatnonzero(read.has(ENTRIES) | read.has(VALUES) | read.has(JSON))
    codes, representatives = group(distinct(of.data, ranges.at(chosen))[0], stretch[chosen])
    _decoded(
        chosen,
        codes,
        kind,
        bits,
        values,
        [
            nested.value(int(ranges.start[place]), int(ranges.end[place]), int(stretch[place]), 0)
            for place in chosen[representatives].tolist()
        ],
    )
    big = np.flatnonzero(unsigned & (kind == AN_INTEGER) & (bits < 0))
    codes, representatives = group(bits[big])
    _decoded(
        big,
        codes,
        kind,
        bits,
        values,
        [int(bits[place]) % (1 << 64) for place in big[representatives].tolist()],
    )
    known = kind >= 0
    return EventArguments(event[known], key[known], kind[known], bits[known], [text_of(each) for each in keys], values)


def pairs(of: Fields, number: int, key_field: int, value_field: int) -> EventArguments:
    """The pairs of texts that are a field of events."""
    of_event, ranges = of.repeated(number)
    event = of_event.astype(np.int64)
    read = fields(of.data, ranges)
    key, keys = distinct(of.data, read.ranges(key_field))
    kind, bits = np.full(len(event), -1, np.int64), np.zeros(len(event), np.int64)
    values: list[Any] = []
    _texts(of.data, read.ranges(value_field), kind, bits, values)
    known = kind >= 0
    return EventArguments(event[known], key[known], kind[known], bits[known], [text_of(each) for each in keys], values)


def text_of(raw: bytes) -> str:
    """A text as Python has it."""
    return raw.decode("utf-8", "replace")


def _texts(data: UInt8s, texts: ByteRanges, kind: Int64s, bits: Int64s, values: list[Any]) -> None:
    chosen = np.flatnonzero(texts.there)
    codes, distinct_texts = distinct(data, texts.at(chosen))
    kind[chosen], bits[chosen] = A_TEXT, codes + len(values)
    values += [text_of(each) for each in distinct_texts]


def _decoded(chosen: Int64s, codes: Any, kind: Int64s, bits: Int64s, values: list[Any], decoded: list[Any]) -> None:
    """Give arguments their values, of which those that are numbers and texts are so."""
    kinds, slots = [], []
    for value in decoded:
        what, slot = _kind_of(value)
        if what in (A_TEXT, ANY):
            slot = len(values)
            values.append(value)
        kinds.append(what)
        slots.append(slot)
    kind[chosen] = np.array(kinds, np.int64)[codes]
    bits[chosen] = np.array(slots, np.int64)[codes]


def _kind_of(value: Any) -> tuple[int, int]:
    if value is None or isinstance(value, bool):
        return (NOTHING if value is None else TRUE if value else FALSE), 0
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return AN_INTEGER, value
    if isinstance(value, float):
        return A_FLOAT, struct.unpack("<q", struct.pack("<d", value))[0]
    return (A_TEXT if isinstance(value, str) else ANY), 0


class _Nested:
    """Values of annotations, one by one."""

    def __init__(self, data: UInt8s, tables: Interned) -> None:
        self._data, self._tables = data, tables
        self._known: dict[int, dict[tuple[int, int], str]] = {}

    def value(self, start: int, end: int, stretch: int, depth: int) -> Any:
        """The value of an annotation; None where it has none, or is nested too deeply."""
        read = fields(self._data, ByteRanges(np.array([start]), np.array([end])))
        entries: dict[str, Any] = {}
        items: list[Any] = []
        value: Any = None
        for number, bits, at in zip(read.number.tolist(), read.value.tolist(), read.at.tolist(), strict=True):
            if number in (ENTRIES, VALUES) and depth < _MAX_DEPTH:
                inner = self.value(at, at + bits, stretch, depth + 1)
                if number == ENTRIES:
                    entries[self._name(at, at + bits, stretch)] = inner
                else:
                    items.append(inner)
            elif number == BOOL:
                value = bool(bits)
            elif number in (UINT, POINTER):
                value = bits % (1 << 64)
            elif number == INT:
                value = bits
            elif number == DOUBLE:
                value = struct.unpack("<d", struct.pack("<q", bits))[0]
            elif number == TEXT:
                value = text_of(self._data[at : at + bits].tobytes())
            elif number == TEXT_ID:
                value = self._interned(interned.TEXTS, stretch, bits)
            elif number == JSON:
                value = _from_json(text_of(self._data[at : at + bits].tobytes()))
        return entries or items or value

    def _name(self, start: int, end: int, stretch: int) -> str:
        read = fields(self._data, ByteRanges(np.array([start]), np.array([end])))
        name = read.ranges(NAME)
        if name.there[0]:
            return text_of(self._data[name.start[0] : name.end[0]].tobytes())
        return self._interned(interned.KEYS, stretch, int(read.integers(NAME_ID)[0]))

    def _interned(self, number: int, stretch: int, name: int) -> str:
        if number not in self._known:
            table = self._tables.table(number)
            texts = table.entries.ranges(2)
            triples = zip(
                table.stretch.tolist(), table.id.tolist(), texts.start.tolist(), texts.end.tolist(), strict=True
            )
            self._known[number] = {
                (each, key): text_of(self._data[start:end].tobytes()) for each, key, start, end in triples if start >= 0
            }
        return self._known[number].get((stretch, name), "")


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
