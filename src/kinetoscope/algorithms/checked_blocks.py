"""Blocks with a checksum, one behind the other: records of one size are gathered, and what is damaged is passed over.

A block is four bytes that mark it, kind and size of its records (two bytes each), how many there are, the CRC-32 of
these eight bytes and of the body (four each), and the body; all little-endian.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Int64s, UInt8s
from kinetoscope.algorithms.compiled import compiled, frozen, inlined

_HEAD = 16  # bytes before a body
_OTHER_BLOCKS = 4096  # blocks of other kinds that one walk has room for
_WASTE = 8  # times the bytes that there are may be summed in vain: what is hostile claims more
_FREE_WASTE = 1 << 26


def _tables() -> Int64s:
    """Remainders of the polynomial of CRC-32, for bytes that lie 0 to 7 bytes before the end: [8 × 256]."""
    table = np.arange(256, dtype=np.int64)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ 0xEDB88320, table >> 1)
    rows = [table]
    for _ in range(7):
        rows.append((rows[-1] >> 8) ^ table[rows[-1] & 255])
    return np.concatenate(rows)


_TABLES: Final = frozen(_tables(), np.int64)


class GatheredBlocks(NamedTuple):
    """Records, and places of other blocks, that a walk has gathered.

    Attributes:
        records: uint8, those of the wanted kind and size, one behind the other.
        others: int64 [blocks], where the other blocks begin.
        whole: bytes that whole blocks take.
        until: where the first block begins that may become whole with more bytes; the number of bytes if none does.
    """

    records: UInt8s
    others: Int64s
    whole: int
    until: int


def gather(content: UInt8s, magic: bytes, kind: int, size: int, longest: int) -> GatheredBlocks:
    """Gather the records of a kind and size; a body that is longer than `longest` is damage."""
    content = frozen(content, np.uint8)
    records, others = np.empty(content.size, np.uint8), []
    state = np.zeros(6, np.int64)
    wanted = np.array([*magic, kind, size, longest], np.int64)
    while True:
        places = np.empty(_OTHER_BLOCKS, np.int64)
        _walk(content, _TABLES, wanted, records, places, state)
        others.append(places[: state[2]])
        if state[2] < _OTHER_BLOCKS:
            break
    return GatheredBlocks(records[: state[1]], np.concatenate(others), int(state[3]), int(state[4]))


@inlined
def _number(content, at, count):  # type: ignore[no-untyped-def]
    value = np.int64(0)
    for place in range(count):
        value |= np.int64(content[at + place]) << (8 * place)
    return value


@inlined
def _sum(content, tables, at, end, crc):  # type: ignore[no-untyped-def]
    """CRC-32 of bytes, eight at a time; before and after it the complement."""
    while at + 8 <= end:
        low = crc ^ _number(content, at, 4)
        crc = (
            tables[1792 + (low & 255)]
            ^ tables[1536 + ((low >> 8) & 255)]
            ^ tables[1280 + ((low >> 16) & 255)]
            ^ tables[1024 + (low >> 24)]
            ^ tables[768 + np.int64(content[at + 4])]
            ^ tables[512 + np.int64(content[at + 5])]
            ^ tables[256 + np.int64(content[at + 6])]
            ^ tables[np.int64(content[at + 7])]
        )
        at += 8
    while at < end:
        crc = tables[(crc ^ np.int64(content[at])) & 255] ^ (crc >> 8)
        at += 1
    return crc


@inlined
def _end(content, at, wanted):  # type: ignore[no-untyped-def]
    """The end of the block that begins there; -1 where none does; behind all bytes where more of them would tell."""
    for place in range(min(4, content.size - at)):
        if content[at + place] != wanted[place]:
            return -1
    if at + _HEAD > content.size:
        return content.size + 1
    body = _number(content, at + 6, 2) * _number(content, at + 8, 4)
    return at + _HEAD + body if 0 < body <= wanted[6] else -1


@compiled
def _walk(content, tables, wanted, records, others, state):  # type: ignore[no-untyped-def]
    """Walk on from where the last walk stopped.

    `state`: where, bytes of records so far, others of this walk, bytes of whole blocks, where the first block begins
    that may become whole, bytes summed in vain.
    """
    at, filled, whole, unsure, waste = state[0], state[1], state[3], state[4], state[5]
    count = 0
    if at == 0:
        unsure = np.int64(-1)
    while at < content.size and count < others.size:
        end = _end(content, at, wanted)
        if end > content.size or end < 0:
            if end >= 0 and unsure < 0:
                unsure = at
            at += 1
            continue
        if waste > _WASTE * content.size + _FREE_WASTE:
            at = content.size
            break
        crc = _sum(content, tables, at + 4, at + 12, np.int64(0xFFFFFFFF))
        crc = _sum(content, tables, at + _HEAD, end, crc) ^ 0xFFFFFFFF
        if crc != _number(content, at + 12, 4):
            waste += end - at
            at += 1
            continue
        if _number(content, at + 4, 2) == wanted[4] and _number(content, at + 6, 2) == wanted[5]:
            for place in range(at + _HEAD, end):
                records[filled] = content[place]
                filled += 1
        else:
            others[count] = at
            count += 1
        whole += end - at
        unsure = np.int64(-1)  # what claimed to go on was damage
        at = end
    state[0], state[1], state[2], state[3], state[5] = at, filled, count, whole, waste
    state[4] = unsure if unsure >= 0 or at < content.size else content.size
