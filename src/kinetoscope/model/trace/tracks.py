"""Tracks: the lanes of a trace. A track is one (pid, tid) pair: a host thread, a device's stream, or another lane."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.model.trace.shapes import FALSE, FLOAT, INT, NULL, NUMBER_TEXT, RAW, STRING, TRUE
from kinetoscope.model.trace.strings import Strings


class Tracks:
    """The tracks of a trace, by code.

    Attributes:
        pids, tids: the values as they stand in the file; None where an event has none.
    """

    def __init__(self, packed: Int64s, strings: Strings) -> None:
        self.pids: list[Any] = [value_of_slot(int(row[0]), int(row[1]), strings) for row in packed]
        self.tids: list[Any] = [value_of_slot(int(row[2]), int(row[3]), strings) for row in packed]

    @classmethod
    def of_values(cls, pids: list[Any], tids: list[Any]) -> Tracks:
        """The tracks with these values, one of each list a track."""
        tracks = cls.__new__(cls)
        tracks.pids, tracks.tids = pids, tids
        return tracks

    def __len__(self) -> int:
        return len(self.pids)

    def integer_tids(self) -> Int64s:
        """Thread or stream numbers: int64 [tracks]; of a text such as `stream 7` the number in it, else −1."""
        return np.array([_number_in(tid) for tid in self.tids], np.int64)

    def integer_pids(self) -> Int64s:
        """Process or device numbers: int64 [tracks]; −1 where there is none."""
        return np.array([_number_in(pid) for pid in self.pids], np.int64)


def value_of_slot(kind: int, bits: int, strings: Strings) -> Any:
    """The Python value of a kind and 64 bits, as the tokenizer keeps it."""
    match kind:
        case _ if kind == INT:
            return bits
        case _ if kind == FLOAT:
            return struct.unpack("<d", struct.pack("<q", bits))[0]
        case _ if kind == STRING:
            return strings.text(bits)
        case _ if kind == RAW:
            return strings.nested(bits)
        case _ if kind == NUMBER_TEXT:
            return strings.number(bits)
        case _ if kind in (TRUE, FALSE):
            return kind == TRUE
        case _ if kind == NULL or kind < 0:
            return None
    raise AssertionError(f"no kind of value: {kind}")


def _number_in(identity: Any) -> int:
    if isinstance(identity, bool):
        return -1
    if isinstance(identity, int):
        return identity if abs(identity) < 1 << 62 else -1
    if isinstance(identity, float):
        return int(identity) if math.isfinite(identity) and abs(identity) < 1 << 62 else -1
    if isinstance(identity, str):
        last = identity.rpartition(" ")[2]
        return int(last) if last.isascii() and last.removeprefix("-").isdigit() and len(last) < 19 else -1
    return -1
