"""The room of the machine: arrays that grow when it asks, within what the bytes read so far can account for."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.model.flight_recorder.dump import STATES as ENTRY_STATES
from kinetoscope.model.snapshot.snapshot import ACTIONS, STATES
from kinetoscope.readers.json.columns import padded
from kinetoscope.readers.json.tokenizer import intern, new_key, rehash
from kinetoscope.readers.pickled import machine as m

KNOWN_TEXTS: Final = (*m.KEYS, *ACTIONS, *STATES, "active_awaiting_free", "small", "START", "N/A", "", *ENTRY_STATES)
"""Texts whose codes are their places here: they are interned first."""
FIRST_ACTION: Final = len(m.KEYS)
FIRST_STATE: Final = FIRST_ACTION + len(ACTIONS)
AWAITING_FREE, SMALL, START, NOT_AVAILABLE, EMPTY = range(FIRST_STATE + len(STATES), FIRST_STATE + len(STATES) + 5)
FIRST_ENTRY_STATE: Final = EMPTY + 1

SPARE_BYTES: Final = 48 << 20
"""Bytes of memory that any file may cost."""

_ROWS_AT_ONCE: Final = 1 << 15
_ROWS_DROPPED: Final = 1 << 10
"""Rows of what nobody wants."""

_TABLE_OF: Final = {
    m.BLOCK_ROOM: "blocks", m.SEGMENT_ROOM: "segments", m.ANNOTATION_ROOM: "annotations", m.REQUEST_ROOM: "requests",
    m.MEMBER_ROOM: "members", m.DEVICE_ROOM: "devices", m.LIST_ROOM: "lists",
}  # fmt: skip
_LARGE_TABLE: Final = 1 << 23
"""Bytes from which a table grows by a quarter only."""


class NarrowColumns:
    """Rows of one kind so far, as columns of given types. One of which all values are −1 takes no memory."""

    def __init__(self, **columns: DTypeLike) -> None:
        self.rows = 0
        self._types = {name: np.dtype(dtype) for name, dtype in columns.items()}
        self._bytes = {name: bytearray() for name in columns}

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(len(column) for column in self._bytes.values())

    def take(self, rows: Int64s) -> None:
        """Add rows as the machine left them: int64 [rows, columns], −1 where there is nothing."""
        raise NotImplementedError

    def append(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Add rows as columns."""
        count = 0
        for name, dtype in self._types.items():
            column, count = self._bytes[name], len(columns[name])
            if not column and (columns[name] == -1).all():
                continue
            if not column:
                self._bytes[name] = column = bytearray(b"\xff") * (self.rows * dtype.itemsize)
            column += columns[name].astype(dtype).data.cast("B")
        self.rows += count

    def columns(self) -> dict[str, NDArray[Any]]:
        """All rows, without a copy; none can be appended any more."""
        return {
            name: np.frombuffer(self._bytes[name], dtype)
            if self._bytes[name]
            else np.broadcast_to(np.array(-1).astype(dtype), (self.rows,))
            for name, dtype in self._types.items()
        }


@functools.cache
def _known_texts() -> tuple[NDArray[Any], ...]:
    """Counters, slots, offsets and arena with the texts that are interned first: the same of all files."""
    at = np.zeros(m.COUNTERS, np.int64)
    at[m.KEY] = new_key()
    room = np.zeros(1 << 12, np.uint64), np.zeros(1 << 11, np.int64), np.zeros(1 << 17, np.uint8)
    for text in KNOWN_TEXTS:
        content = text.encode()
        intern(padded(content), 0, len(content), at, *room)
    return at, *room


class MachineTables:
    """The tables that the machine works with, in the order in which it takes them, and columns of what is most.

    Attributes:
        at: its counters.
        arrays: by name.
        columns: of events and entries, which are taken from the machine's tables again and again; the kinds that are
            not wanted are dropped.
    """

    def __init__(self, *, events: NarrowColumns | None = None, entries: NarrowColumns | None = None) -> None:
        self.at, slots, offsets, arena = (each.copy() for each in _known_texts())
        self.columns = {"events": events, "entries": entries}
        self.arrays: dict[str, NDArray[Any]] = {
            "kinds": np.zeros(1 << 12, np.int8),
            "values": np.zeros(1 << 12, np.int64),
            "memos": np.zeros(1 << 12, np.int32),
            "memo_kinds": np.zeros(1 << 14, np.int8),
            "memo_values": np.zeros(1 << 14, np.int32),
            "slots": slots,
            "offsets": offsets,
            "arena": arena,
            "events": np.empty((_ROWS_AT_ONCE if events is not None else _ROWS_DROPPED, m.EVENT_COLUMNS), np.int64),
            "blocks": np.zeros((1 << 10, len(m.BLOCK_KEYS)), np.int64),
            "segments": np.zeros((1 << 8, len(m.SEGMENT_KEYS)), np.int64),
            "annotations": np.zeros((1 << 8, len(m.ANNOTATION_KEYS)), np.int64),
            "requests": np.zeros((1 << 4, len(m.REQUEST_KEYS)), np.int64),
            "entries": np.empty((_ROWS_AT_ONCE if entries is not None else _ROWS_DROPPED, m.ENTRY_COLUMNS), np.int64),
            "members": np.zeros((1 << 8, 4), np.int64),
            "devices": np.zeros(1 << 6, np.int64),
            "lists": np.zeros((1 << 10, 2), np.int64),
            "frames": np.zeros((1 << 10, 3), np.int64),
            "frame_slots": np.zeros(1 << 12, np.uint64),
            "recent": np.zeros((1 << 8, 3), np.int64),
            "items": np.zeros(1 << 14, np.int32),
            "ends": np.zeros(1 << 10, np.int64),
            "sequence_slots": np.zeros(1 << 12, np.uint64),
        }

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        taken = sum(each.nbytes for each in self.columns.values() if each is not None)
        return taken + sum(array.nbytes for array in self.arrays.values())

    def grow(self, what: int, pending: int) -> None:
        """Make room for what the machine asks for; `pending` bytes of text are not read yet."""
        match what:
            case m.STACK_ROOM:
                self._longer("kinds", "values", "memos")
            case m.MEMO_ROOM:
                self._longer("memo_kinds", "memo_values")
            case m.STRING_ROOM:
                self._longer("offsets")
                slots = self._slots("slots", "offsets")
                rehash(self.at[m.STRINGS], slots, self.arrays["offsets"], self.arrays["arena"], self.at[m.KEY])
            case m.ARENA_ROOM:
                self._longer("arena", more=min(pending, m.MAX_TEXT))
            case m.EVENT_ROOM | m.ENTRY_ROOM:
                self.take_rows()
            case m.FRAME_ROOM:
                self._longer_rows("frames", "frame_slots", m.FRAMES_READ)
            case m.SEQUENCE_ROOM:
                self._longer_sequences()
            case _:
                self._longer(_TABLE_OF[what], more=int(self.at[m.DEPTH]))

    def take_rows(self) -> None:
        """Move the events and entries that the machine has made into narrow columns."""
        for name, made, taken in (
            ("events", m.EVENTS, m.EVENTS_TAKEN),
            ("entries", m.ENTRIES, m.ENTRIES_TAKEN),
        ):
            count, into = int(self.at[made] - self.at[taken]), self.columns[name]
            if into is not None and count:
                into.take(self.arrays[name][:count])
            self.at[taken] = self.at[made]

    def keep_results(self) -> None:
        """Give back the memory of what only reading needs."""
        scratch = (
            "memos",
            "memo_kinds",
            "memo_values",
            "slots",
            "frame_slots",
            "recent",
            "sequence_slots",
            "events",
            "entries",
        )
        for name in scratch:
            del self.arrays[name]
        for name in ("kinds", "values"):
            self.arrays[name] = self.arrays[name][:1].copy()

    def rows(self, name: str, counter: int) -> Int64s:
        """The rows of a table that are filled."""
        return self.arrays[name][: self.at[counter]]

    def _longer_sequences(self) -> None:
        count, ends = self.at[m.SEQUENCES], self.arrays["ends"]
        if count + 2 < len(ends):
            longest = int(np.diff(ends[:count], prepend=0).max(initial=0))
            self._longer("items", more=int(self.at[m.DEPTH]) + longest)
            return
        self._longer("ends")
        slots = self._slots("sequence_slots", "ends")
        m.enter_sequences(count, self.arrays["items"], self.arrays["ends"], slots, self.at[m.KEY])

    def _longer(self, *names: str, more: int = 0) -> None:
        """Let tables of as many rows each grow together: the machine looks at the size of the first only."""
        arrays = [self.arrays[name] for name in names]
        rows, is_large = len(arrays[0]), max(array.nbytes for array in arrays) >= _LARGE_TABLE
        for array in arrays:
            array.resize((rows + (rows // 4 if is_large else rows) + more, *array.shape[1:]), refcheck=False)

    def _slots(self, name: str, of: str) -> NDArray[np.uint64]:
        size = self.arrays[name].size
        while size < 2 * len(self.arrays[of]):
            size *= 2
        self.arrays[name] = np.zeros(size, np.uint64)
        return self.arrays[name]

    def _longer_rows(self, name: str, slots: str, counter: int) -> None:
        self._longer(name)
        m.enter_rows(self.at[counter], self.arrays[name], self._slots(slots, name), self.at[m.KEY])
