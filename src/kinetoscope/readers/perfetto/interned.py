"""Texts that a recording names once and then by ids: their ranges, by stretch, id, and the packet that asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int64s, UInt8s
from kinetoscope.algorithms.grouping import group
from kinetoscope.readers.byte_ranges import ByteRanges
from kinetoscope.readers.perfetto.packets import INTERNED, Packets
from kinetoscope.readers.perfetto.wire import Fields, fields

CATEGORIES, NAMES, KEYS, TEXTS = 1, 2, 3, 29
SPECIFICATIONS, KERNELS, COMPUTE_KEYS, COUNTER_DESCRIPTORS = 24, 1000, 1001, 47
"""Fields of the interned data: tables."""

_ID: Final = 1


@dataclass(frozen=True)
class InternedTable:
    """The entries of a table, in the order of packets.

    Attributes:
        entries: their fields.
        packet, stretch, id: int64, where each stands, and what it is called.
    """

    entries: Fields
    packet: Int64s
    stretch: Int64s
    id: Int64s

    def places(self, packet: Int64s, stretch: Int64s, ids: Int64s) -> Int64s:
        """The entry that each id means to a packet: the last of its stretch up to there; −1 for none."""
        count = len(self.id)
        if not count:
            return np.full(len(ids), -1, np.int64)
        codes, _ = group(np.concatenate([self.stretch, stretch]), np.concatenate([self.id, ids]))
        codes = codes.astype(np.int64)
        span = int(max(self.packet.max(initial=0), packet.max(initial=0))) + 2
        keys = codes[:count] * span + self.packet
        order = np.argsort(keys, kind="stable")
        at = np.searchsorted(keys[order], codes[count:] * span + packet, side="right") - 1
        entry = order[np.maximum(at, 0)]
        is_same = (at >= 0) & (codes[:count][entry] == codes[count:]) & (ids != 0)
        return np.where(is_same, entry, -1)

    def ranges(self, packet: Int64s, stretch: Int64s, ids: Int64s, *numbers: int) -> ByteRanges:
        """The text that an id means: the first of some fields that its entry has."""
        places = self.places(packet, stretch, ids)
        result = ByteRanges(np.full(len(ids), -1, np.int64), np.full(len(ids), -1, np.int64))
        for number in numbers:
            texts = self.entries.ranges(number)
            if len(texts):
                known = places >= 0
                chosen = texts.at(np.maximum(places, 0))
                result = result.or_else(ByteRanges(np.where(known, chosen.start, -1), np.where(known, chosen.end, -1)))
        return result


class Interned:
    """All tables of a recording, each taken apart when it is first asked for.

    Attributes:
        nested: int64, ids of those texts that are nested values as JSON, in a file of ours.
    """

    def __init__(self, packets: Packets, nested: Int64s) -> None:
        self._packets, self.nested = packets, nested
        self._messages = fields(packets.fields.data, packets.fields.ranges(INTERNED))
        self._tables: dict[int, InternedTable] = {}

    @property
    def data(self) -> UInt8s:
        """The bytes that all ranges are of."""
        return self._messages.data

    def table(self, number: int) -> InternedTable:
        """A table by its field."""
        if number not in self._tables:
            packet, ranges = self._messages.repeated(number)
            entries = fields(self.data, ranges)
            place = packet.astype(np.int64)
            self._tables[number] = InternedTable(entries, place, self._packets.stretch[place], entries.integers(_ID))
        return self._tables[number]
