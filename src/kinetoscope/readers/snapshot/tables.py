"""The room of the machine: arrays that grow when it asks, within what the bytes read so far can account for."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.model.snapshot.snapshot import ACTIONS, OTHER_ACTION, SEGMENT_UNMAP, STATES, SnapshotEvents
from kinetoscope.model.snapshot.snapshot import NONE as NOTHING
from kinetoscope.model.snapshot.snapshot import OUT_OF_MEMORY as OOM
from kinetoscope.readers.json.columns import padded
from kinetoscope.readers.json.tokenizer import intern, new_key, rehash
from kinetoscope.readers.snapshot import machine as m

KNOWN_TEXTS: Final = (*m.KEYS, *ACTIONS, *STATES, "active_awaiting_free", "small", "START", "N/A", "")
"""Texts whose codes are their places here: they are interned first."""
FIRST_ACTION: Final = len(m.KEYS)
FIRST_STATE: Final = FIRST_ACTION + len(ACTIONS)
AWAITING_FREE, SMALL, START, NOT_AVAILABLE, EMPTY = range(FIRST_STATE + len(STATES), len(KNOWN_TEXTS))

MAX_TIME_US: Final = 4_500_000_000_000_000
"""Microseconds, 142 years: a time beyond it is no time."""

MAX_EVENT_BYTES: Final = 1 << 46
"""Bytes, 70 TB: no event takes or returns more. A request that failed may have been for more."""

MAX_BYTES_PER_BYTE: Final = 1.25
"""Bytes of memory that a byte of a file may cost: torch's snapshots cost less than one."""
SPARE_BYTES: Final = 48 << 20
"""Bytes of memory that any file may cost."""

_EVENT_ROWS: Final = 1 << 15
_TABLE_OF: Final = {
    m.BLOCK_ROOM: "blocks", m.SEGMENT_ROOM: "segments", m.ANNOTATION_ROOM: "annotations", m.REQUEST_ROOM: "requests",
    m.MEMBER_ROOM: "members", m.DEVICE_ROOM: "devices", m.LIST_ROOM: "lists",
}  # fmt: skip
_LARGE_TABLE: Final = 1 << 23
"""Bytes from which a table grows by a quarter only."""


class EventChunks:
    """The columns of all events so far. One of which all values are NONE takes no memory.

    Attributes:
        rows: events so far; bytes: the sum of their sizes.
        left_out: those without action, address or size, or with one that cannot be; their action is OTHER_ACTION.
        odd: other values of them that are of another type than torch writes there, and count as not recorded.
    """

    def __init__(self) -> None:
        self.rows = self.left_out = self.odd = 0
        self.bytes = 0.0
        self._columns = {
            "action": np.int8, "address": np.int64, "size": np.int64, "stream": np.int64, "time": np.int64,
            "stack": np.int32, "pool": np.int32, "compile_context": np.int32, "metadata": np.int32,
            "internal": np.int32, "forward_stack": np.int32,
        }  # fmt: skip
        self._bytes = {name: bytearray() for name in self._columns}

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(len(column) for column in self._bytes.values())

    def append(self, rows: NDArray[np.int64]) -> None:
        """Add events as the machine left them: int64 [events, EVENT_COLUMNS], −1 where there is nothing."""
        action = rows[:, m.ACTION] - FIRST_ACTION
        action[(action < 0) | (action >= len(ACTIONS))] = OTHER_ACTION
        is_memory = (action >= 0) & (action <= SEGMENT_UNMAP)
        sizes = rows[:, m.SIZE]
        is_out = is_memory & ((sizes < 0) | (sizes > MAX_EVENT_BYTES) | (rows[:, m.ADDR] == NOTHING))
        is_out |= (rows[:, [m.ACTION, m.ADDR, m.SIZE]] == m.ODD).any(axis=1)
        is_odd = rows == m.ODD
        self.left_out += int(is_out.sum())
        self.odd += int(is_odd[~is_out].sum())
        action[is_out] = OTHER_ACTION
        rows = np.where(is_odd, NOTHING, rows)
        rows[is_out, m.SIZE] = 0
        self.bytes += np.abs(rows[:, [m.SIZE, m.DEVICE_FREE]], dtype=np.float64).sum()
        time = rows[:, m.TIME_US] * 1000
        time[(rows[:, m.TIME_US] < 0) | (rows[:, m.TIME_US] > MAX_TIME_US)] = NOTHING
        columns = {
            "action": action,
            "address": np.where(action == OOM, rows[:, m.DEVICE_FREE], rows[:, m.ADDR]),
            "size": np.maximum(rows[:, m.SIZE], 0),
            "stream": np.where(rows[:, m.STREAM] == -1, 0, rows[:, m.STREAM]),
            "time": time,
            "stack": rows[:, m.FRAMES],
            "pool": rows[:, m.POOL_ID],
            "compile_context": _text(rows[:, m.COMPILE_CONTEXT]),
            "metadata": _text(rows[:, m.USER_METADATA]),
            "internal": _text(rows[:, m.INTERNAL_METADATA]),
            "forward_stack": rows[:, m.FORWARD_FRAMES],
        }
        for name, dtype in self._columns.items():
            column = self._bytes[name]
            if not column and (columns[name] == NOTHING).all():
                continue
            if not column:
                self._bytes[name] = column = bytearray(b"\xff") * (self.rows * np.dtype(dtype).itemsize)
            column += columns[name].astype(dtype).data.cast("B")
        self.rows += len(rows)

    def whole(self) -> SnapshotEvents:
        """All events, without a copy; none can be appended any more."""
        columns: dict[str, NDArray[Any]] = {
            name: np.frombuffer(self._bytes[name], dtype)
            if self._bytes[name]
            else np.broadcast_to(np.array(NOTHING, dtype), (self.rows,))
            for name, dtype in self._columns.items()
        }
        return SnapshotEvents(**columns)


class MachineTables:
    """What the machine works with, in the order in which it takes it, and the columns that its events became."""

    def __init__(self) -> None:
        self.at = np.zeros(m.COUNTERS, np.int64)
        self.at[m.KEY] = new_key()
        self.events = EventChunks()
        self.arrays: dict[str, NDArray[Any]] = {
            "kinds": np.zeros(1 << 12, np.int8),
            "values": np.zeros(1 << 12, np.int64),
            "memos": np.zeros(1 << 12, np.int32),
            "memo_kinds": np.zeros(1 << 14, np.int8),
            "memo_values": np.zeros(1 << 14, np.int32),
            "slots": np.zeros(1 << 12, np.uint64),
            "offsets": np.zeros(1 << 11, np.int64),
            "arena": np.zeros(1 << 18, np.uint8),
            "events": np.zeros((_EVENT_ROWS, m.EVENT_COLUMNS), np.int64),
            "blocks": np.zeros((1 << 10, len(m.BLOCK_KEYS)), np.int64),
            "segments": np.zeros((1 << 8, len(m.SEGMENT_KEYS)), np.int64),
            "annotations": np.zeros((1 << 8, len(m.ANNOTATION_KEYS)), np.int64),
            "requests": np.zeros((1 << 4, len(m.REQUEST_KEYS)), np.int64),
            "members": np.zeros((1 << 8, 4), np.int64),
            "devices": np.zeros(1 << 6, np.int64),
            "lists": np.zeros((1 << 10, 2), np.int64),
            "frames": np.zeros((1 << 10, 3), np.int64),
            "frame_slots": np.zeros(1 << 12, np.uint64),
            "pairs": np.zeros((1 << 6, 2), np.int64),
            "pair_slots": np.zeros(1 << 8, np.uint64),
            "items": np.zeros(1 << 14, np.int32),
            "ends": np.zeros(1 << 10, np.int64),
            "sequence_slots": np.zeros(1 << 12, np.uint64),
        }
        for text in KNOWN_TEXTS:
            self._intern(text.encode())

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.events.nbytes + sum(array.nbytes for array in self.arrays.values())

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
            case m.EVENT_ROOM:
                self.take_events()
            case m.FRAME_ROOM:
                self._longer_rows("frames", "frame_slots", m.FRAMES_READ)
            case m.PAIR_ROOM:
                self._longer_rows("pairs", "pair_slots", m.PAIRS)
            case m.SEQUENCE_ROOM:
                self._longer_sequences()
            case _:
                self._longer(_TABLE_OF[what], more=int(self.at[m.DEPTH]))

    def take_events(self) -> None:
        """Move the events that the machine has made into narrow columns."""
        count = int(self.at[m.EVENTS] - self.at[m.EVENTS_TAKEN])
        self.events.append(self.arrays["events"][:count])
        self.at[m.EVENTS_TAKEN] = self.at[m.EVENTS]

    def keep_results(self) -> None:
        """Give back the memory of what only reading needs."""
        for name in (
            "memos",
            "memo_kinds",
            "memo_values",
            "slots",
            "frame_slots",
            "pair_slots",
            "sequence_slots",
            "events",
        ):
            del self.arrays[name]
        for name in ("kinds", "values"):
            self.arrays[name] = self.arrays[name][:1].copy()

    def rows(self, name: str, counter: int) -> Int64s:
        """The rows of a table that are filled."""
        return self.arrays[name][: self.at[counter]]

    def _intern(self, content: bytes) -> None:
        names = ("slots", "offsets", "arena")
        intern(padded(content), 0, len(content), self.at, *(self.arrays[name] for name in names))

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


def _text(codes: Int64s) -> Int64s:
    """Codes of texts, NONE where the text is empty or says that there is none."""
    return np.where((codes == NOT_AVAILABLE) | (codes == EMPTY), NOTHING, codes)
