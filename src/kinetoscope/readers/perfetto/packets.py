"""The packets of a recording: which sequence each is of, what its state is, and when it happened.

Packets of one sequence are in order. What is named once, by an id, holds from there to the next packet of the sequence
that clears its state: that is a *stretch* here.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int64s, UInt8s
from kinetoscope.algorithms.grouping import group
from kinetoscope.errors import LimitError
from kinetoscope.readers.byte_ranges import ByteRanges
from kinetoscope.readers.perfetto.wire import Fields, fields

PACKET: Final = 1
"""Field of the recording."""

CLOCK_SNAPSHOT, TIMESTAMP, SEQUENCE, INTERNED, TRACK_EVENT, FLAGS, CLEARED = 6, 8, 10, 12, 11, 13, 41
DEFLATED, COUNTERS, STAGE, CLOCK, DEFAULTS, TRACK, ZSTD = 50, 52, 53, 58, 59, 60, 133
CHROME = 5
"""Fields of a packet."""

_STATE_CLEARED: Final = 1
_REALTIME, _BOOTTIME = 1, 6
_OWN_CLOCKS: Final = range(64, 128)
"""Clocks that each sequence has for itself."""

_GREATEST: Final = 1 << 61


@dataclass(frozen=True)
class Packets:
    """All packets, in order.

    Attributes:
        fields: of each packet.
        stretch: int64, of which sequence, between which clears of its state.
        time: int64, ns of the recording's clock; 0 where there is none.
        defaults: ranges of its `trace_packet_defaults`.
        origin: the first instant at which the clocks were read, ns; None where they never were.
        since_1970: what the time of day was then, ns; None where nothing tells.
        unknown_clocks: packets whose clock nothing relates to the recording's.
        cut: the recording ends within a packet, or is damaged there.
    """

    fields: Fields
    stretch: Int64s
    time: Int64s
    defaults: ByteRanges
    origin: int | None
    since_1970: int | None
    unknown_clocks: int
    cut: bool


def packets(data: UInt8s, max_size: int) -> Packets:
    """The packets of a recording.

    Raises:
        LimitError: packed packets hold more than `max_size` bytes.
    """
    whole = fields(data, ByteRanges(np.zeros(1, np.int64), np.array([len(data)])))
    top = fields(data, whole.repeated(PACKET)[1])
    if len(top.having(DEFLATED)) or len(top.having(ZSTD)):
        data = _unpacked(data, whole, top, max_size)
        whole = fields(data, ByteRanges(np.zeros(1, np.int64), np.array([len(data)])))
        top = fields(data, whole.repeated(PACKET)[1])
    sequence = top.integers(SEQUENCE)
    clears = ((top.integers(FLAGS) & _STATE_CLEARED) > 0) | (top.integers(CLEARED) > 0)
    order = np.argsort(sequence, kind="stable")
    begins = clears[order]
    begins[1:] |= sequence[order][1:] != sequence[order][:-1]
    stretch = np.empty(len(sequence), np.int64)
    stretch[order] = np.cumsum(begins)
    defaults = _filled(top.ranges(DEFAULTS), order, stretch)
    clocks = _Clocks(top, sequence, stretch, order, defaults)
    time = clocks.times()
    return Packets(
        top, stretch, time, defaults, clocks.origin, clocks.since_1970, clocks.unknown, bool(whole.damaged.any())
    )


def _unpacked(data: UInt8s, whole: Fields, top: Fields, max_size: int) -> UInt8s:
    """The recording with the packets that stand in packed ones."""
    _, ranges = whole.repeated(PACKET)
    packed = {int(top.message[place]): int(place) for number in (DEFLATED, ZSTD) for place in top.having(number)}
    pieces: list[bytes] = []
    size, before = 0, 0
    for message, place in sorted(packed.items()):
        at, length = int(top.at[place]), int(top.value[place])
        pieces.append(_with_tags(data, ranges, before, message))
        before = message + 1
        pieces.append(_inflated(data[at : at + length].tobytes(), int(top.number[place]), max_size - size))
        size += len(pieces[-1])
    pieces.append(_with_tags(data, ranges, before, len(ranges)))
    return np.frombuffer(b"".join(pieces), np.uint8)


def _with_tags(data: UInt8s, ranges: ByteRanges, first: int, last: int) -> bytes:
    """Packets with their tags and lengths, as they stand."""
    if first >= last:
        return b""
    begin = int(ranges.end[first - 1]) if first else 0
    return data[begin : int(ranges.end[last - 1])].tobytes()


def _inflated(packed: bytes, number: int, most: int) -> bytes:
    from kinetoscope.readers.files.decompress import decompressor

    if number == ZSTD:
        factory = decompressor(packed)
        if factory is None:
            return b""
        try:
            text = factory().decompress(packed, max(most, 0) + 1)
        except Exception:  # noqa: BLE001 - each library has errors of its own; the packet is left out
            return b""
    else:
        try:
            text = zlib.decompressobj().decompress(packed, max(most, 0) + 1)
        except zlib.error:
            return b""
    if len(text) > most:
        raise LimitError(f"packed packets hold more than {most:,} bytes; if the file is genuine, raise --max-size")
    return text


def _filled(ranges: ByteRanges, order: Int64s, stretch: Int64s) -> ByteRanges:
    """The last range, for each packet, that stands at it or before it in its stretch."""
    there = ranges.there[order]
    place = np.maximum.accumulate(np.where(there, np.arange(len(order)), -1)) if len(order) else np.zeros(0, np.int64)
    known = (place >= 0) & (stretch[order][place] == stretch[order])
    start, end = np.full(len(order), -1, np.int64), np.full(len(order), -1, np.int64)
    start[order] = np.where(known, ranges.start[order][place], -1)
    end[order] = np.where(known, ranges.end[order][place], -1)
    return ByteRanges(start, end)


# --- clocks


class _Clocks:
    """The times of packets by the clock of the recording: that of time since the machine was started, mostly."""

    def __init__(self, top: Fields, sequence: Int64s, stretch: Int64s, order: Int64s, defaults: ByteRanges) -> None:
        self._top, self._sequence, self._order = top, sequence, order
        snapshots = fields(top.data, top.ranges(CLOCK_SNAPSHOT))
        of_packet, ranges = snapshots.repeated(1)
        read = fields(top.data, ranges)
        self._packet = of_packet.astype(np.int64)
        self._id, self._read = read.integers(1), read.integers(2)
        self._step = np.maximum(read.integers(4, 1), 1)
        self._incremental = read.integers(3) > 0
        own = np.isin(self._id, _OWN_CLOCKS)
        self._of = np.where(own, sequence[self._packet] if len(self._packet) else 0, 0)
        primary = snapshots.integers(2)
        chosen = primary[primary > 0]
        self._main = int(chosen[0]) if len(chosen) else _BOOTTIME
        self._read_ns = self._read * np.where(np.abs(self._read) < _GREATEST // self._step, self._step, 1)
        self._defaults = fields(top.data, defaults).integers(CLOCK)
        self._stretch = stretch
        self.unknown = 0
        main = np.flatnonzero(self._id == self._main)
        self.origin = int(self._read_ns[main[0]]) if len(main) else None
        same = self._packet == (self._packet[main[0]] if len(main) else -1)
        real = np.flatnonzero((self._id == _REALTIME) & same)
        self.since_1970 = int(self._read_ns[real[0]]) if len(real) else None

    def times(self) -> Int64s:
        """The time of each packet."""
        time = self._top.integers(TIMESTAMP)
        clock = self._top.integers(CLOCK)
        clock = np.where(clock > 0, clock, np.where(self._defaults > 0, self._defaults, self._main))
        clock = np.where(self._top.has(TIMESTAMP), clock, self._main)
        other = np.flatnonzero(clock != self._main)
        if not len(other):
            return time
        of = np.where(np.isin(clock, _OWN_CLOCKS), self._sequence, 0)
        codes, first = group(clock[other], of[other])
        for code in range(len(first)):
            rows = other[codes == code]
            time[rows] = self._converted(rows, time[rows], int(clock[rows[0]]), int(of[rows[0]]))
        return time

    def _converted(self, rows: Int64s, time: Int64s, clock: int, of: int) -> Int64s:
        reads = np.flatnonzero((self._id == clock) & (self._of == of))
        if not len(reads):
            self.unknown += len(rows)
            return time
        step = int(self._step[reads[0]])
        at = np.maximum(np.searchsorted(self._packet[reads], rows, side="right") - 1, 0)
        if self._incremental[reads[0]]:
            total = np.cumsum(time)
            first = np.searchsorted(rows, self._packet[reads])
            before = np.where(first > 0, total[np.minimum(first, len(total)) - 1], 0)
            time = self._read[reads][at] + total - before[at]
        time = time * step
        main = {
            int(packet): int(place)
            for place in np.flatnonzero(self._id == self._main).tolist()
            for packet in [self._packet[place]]
        }
        pairs = [(int(read), main[packet]) for read in reads if (packet := int(self._packet[read])) in main]
        if not pairs:
            self.unknown += len(rows)
            return time
        ours, mains = (np.array(each) for each in zip(*pairs, strict=True))
        near = np.maximum(np.searchsorted(self._packet[ours], rows, side="right") - 1, 0)
        return np.asarray(time - self._read_ns[ours][near] + self._read_ns[mains][near])
