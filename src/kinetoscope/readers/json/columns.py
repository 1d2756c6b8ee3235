"""The growing columns of a trace, the tables that their codes refer to, and the tokenizer's scratch.

A `Tokenizer` owns its tables (strings, shapes, tracks) and a scratch area for rows, which is small enough to stay in
the cache. Full scratch goes to a *sink*: straight into the `EventColumns` of the trace, or, where several tokenizers
work on pieces of one text, into chunks that wait for their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Int32s, Int64s, UInt8s
from kinetoscope.model.trace.shapes import NUMBER_TEXT, RAW, SLOTS, SPECIAL_KEYS, STRING
from kinetoscope.readers.json import tokenizer as tk


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large things are at first; all grow. Powers of two.

    Attributes:
        rows: rows in the scratch area, which then goes to a sink.
        values: values in it.
        strings, shapes, tracks: entries in the tables.
        arena: bytes of all strings.
        items: members of all shapes, with some scratch.
    """

    rows: int = 1 << 16
    values: int = 1 << 19
    strings: int = 1 << 12
    arena: int = 1 << 18
    shapes: int = 1 << 9
    items: int = 1 << 14
    tracks: int = 1 << 7


SIZES: Final = Sizes()

COLUMNS: Final[dict[str, Any]] = {
    "ph": np.uint8,
    "category": np.int32,
    "name": np.int32,
    "track": np.int32,
    "start": np.int64,
    "end": np.int64,
    "shape": np.int32,
}
"""The columns of an event, in the order in which the tokenizer takes them."""

_CODED: Final = ("category", "name")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive rows, as a tokenizer left them."""

    columns: dict[str, NDArray[Any]]
    values: Int64s

    def copy(self) -> Chunk:
        """The same rows in memory of their own: those that a sink is given lie in the scratch."""
        return Chunk({name: column.copy() for name, column in self.columns.items()}, self.values.copy())


Sink = Callable[[Chunk], None]
"""Takes rows from a tokenizer's scratch; they are gone when it returns."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows of `EventColumns` that one tokenizer made: where they and their values begin."""

    row: int
    value: int
    tokenizer: int


class EventColumns:
    """The columns of all events and their values, which grow at the end.

    They are byte arrays until they are whole: those grow by `realloc`, which moves pages instead of copying them, where
    growing an array of NumPy would hold the old and the new one at once.

    Args:
        guard: called with the number of rows whenever some are added; it may raise.
    """

    def __init__(self, guard: Callable[[int], None] | None = None) -> None:
        self._guard = guard
        self.segments: list[Segment] = []
        self._columns = {name: bytearray() for name in COLUMNS}
        self._values = bytearray()

    @property
    def rows(self) -> int:
        """Number of rows so far."""
        return len(self._columns["ph"])

    def append(self, chunk: Chunk, tokenizer: int = 0) -> None:
        """Add rows at the end."""
        if not self.segments or self.segments[-1].tokenizer != tokenizer:
            self.segments.append(Segment(self.rows, len(self._values) // 8, tokenizer))
        for name, column in self._columns.items():
            column += chunk.columns[name].data.cast("B")
        self._values += chunk.values.data.cast("B")
        if self._guard is not None:
            self._guard(self.rows)

    def whole(self) -> Chunk:
        """All rows, without a copy; nothing can be appended any more."""
        columns = {name: np.frombuffer(self._columns[name], dtype) for name, dtype in COLUMNS.items()}
        return Chunk(columns, np.frombuffer(self._values, np.int64))

    def made_by(self, tokenizer: int) -> Iterator[Chunk]:
        """The rows that a tokenizer made, without a copy: what is written into them is written into the columns."""
        whole = self.whole()
        segments = [*self.segments, Segment(self.rows, len(whole.values), -1)]
        for begin, end in pairwise(segments):
            if begin.tokenizer == tokenizer:
                columns = {name: column[begin.row : end.row] for name, column in whole.columns.items()}
                yield Chunk(columns, whole.values[begin.value : end.value])


class Tables:
    """Strings, shapes and tracks: what rows refer to by code. Arrays double when they are full."""

    def __init__(self, sizes: Sizes = SIZES) -> None:
        self.at = np.zeros(tk.COUNTERS, np.int64)
        self.at[tk.KEY] = tk.new_key()
        self.string_slots = np.zeros(2 * sizes.strings, np.uint64)
        self.string_offsets = np.zeros(sizes.strings, np.int64)
        self.arena = np.zeros(sizes.arena, np.uint8)
        self.shape_slots = np.zeros(2 * sizes.shapes, np.uint64)
        self.shape_ends = np.zeros(sizes.shapes, np.int64)
        self.items = np.zeros(sizes.items, np.int64)
        self.track_slots = np.zeros(2 * sizes.tracks, np.uint64)
        self.tracks = np.zeros((sizes.tracks, 4), np.int64)
        for key in SPECIAL_KEYS:
            self.intern(key.encode())

    def intern(self, content: bytes) -> int:
        """Code of a string, as it stands between its quotation marks in the text."""
        text = padded(content)
        while True:
            code = int(tk.intern(text, 0, len(content), self.at, self.string_slots, self.string_offsets, self.arena))
            if code >= 0:
                return code
            self.grow(-code, len(content))

    def grow(self, status: int, length: int = 0) -> None:
        """Make room for what a status asks for; `length` is the size of the string that did not fit, if known."""
        at = self.at
        if status == tk.ROOM_STRINGS:
            self.string_offsets = _longer(self.string_offsets, 2 * self.string_offsets.size)
            self.string_slots = np.zeros(2 * self.string_slots.size, np.uint64)
            tk.rehash(at[tk.STRINGS], self.string_slots, self.string_offsets, self.arena, at[tk.KEY])
        elif status == tk.ROOM_ARENA:
            self.arena = _longer(self.arena, 2 * self.arena.size + length)
        elif status == tk.ROOM_SHAPES:
            self.items = _longer(self.items, 2 * self.items.size)
            if at[tk.SHAPES] >= self.shape_ends.size:
                self.shape_ends = _longer(self.shape_ends, 2 * self.shape_ends.size)
                self.shape_slots = np.zeros(2 * self.shape_slots.size, np.uint64)
                tk.enter_shapes(at[tk.SHAPES], self.items, self.shape_ends, self.shape_slots, at[tk.KEY])
        elif status == tk.ROOM_TRACKS:
            larger = np.zeros((2 * len(self.tracks), 4), np.int64)
            larger[: len(self.tracks)] = self.tracks
            self.tracks = larger
            self.track_slots = np.zeros(2 * self.track_slots.size, np.uint64)
            tk.enter_tracks(at[tk.TRACKS], self.tracks, self.track_slots, at[tk.KEY])

    def adopt(self, other: Tables) -> tuple[Int32s, Int32s, Int32s]:
        """Take over what another set of tables holds: the codes here of its strings, shapes and tracks."""
        strings = np.empty(other.at[tk.STRINGS], np.int32)
        done = 0
        while done < len(strings):
            done, status = tk.adopt(
                len(strings), done, other.string_offsets, other.arena, strings,
                self.at, self.string_slots, self.string_offsets, self.arena,
            )  # fmt: skip
            if status:
                self.grow(int(status), int(other.arena.size))
        shapes = np.empty(other.at[tk.SHAPES], np.int32)
        begin = 0
        for code in range(len(shapes)):
            items = other.items[begin : other.shape_ends[code]]
            begin = int(other.shape_ends[code])
            shapes[code] = self._shape((strings[items >> 8].astype(np.int64) << 8) | (items & 255))
        tracks = np.empty(other.at[tk.TRACKS], np.int32)
        for code in range(len(tracks)):
            tracks[code] = self._track(*other._translated(code, strings))
        return strings, shapes, tracks

    def _shape(self, items: Int64s) -> int:
        while True:
            first = int(self.at[tk.ITEMS])
            if first + len(items) < self.items.size:
                self.items[first : first + len(items)] = items
                code = int(
                    tk.shape_code(
                        np.uint64(tk.shape_hash(self.items, first, len(items), self.at[tk.KEY])), first, len(items),
                        self.at, self.items, self.shape_ends, self.shape_slots,
                    )
                )  # fmt: skip
                if code >= 0:
                    return code
            self.grow(tk.ROOM_SHAPES)

    def _translated(self, code: int, strings: Int32s) -> tuple[int, int, int, int]:
        pid_kind, pid, tid_kind, tid = (int(x) for x in self.tracks[code])
        coded = (STRING, RAW, NUMBER_TEXT)
        return (
            pid_kind,
            int(strings[pid]) if pid_kind in coded else pid,
            tid_kind,
            int(strings[tid]) if tid_kind in coded else tid,
        )

    def _track(self, pid_kind: int, pid: int, tid_kind: int, tid: int) -> int:
        while True:
            code = int(tk.track_code(pid_kind, pid, tid_kind, tid, self.at, self.tracks, self.track_slots))
            if code >= 0:
                return code
            self.grow(tk.ROOM_TRACKS)

    @property
    def shape_items(self) -> list[Int64s]:
        """The items of each shape: key << 8 | kind << 2 | level."""
        ends = self.shape_ends[: self.at[tk.SHAPES]]
        return np.split(self.items[: self.at[tk.ITEMS]], ends[:-1])


class Tokenizer:
    """Tables, predictions and scratch of one thread of parsing."""

    def __init__(self, sizes: Sizes = SIZES) -> None:
        self.tables = Tables(sizes)
        self._rows: dict[str, NDArray[Any]] = {name: np.empty(sizes.rows, dtype) for name, dtype in COLUMNS.items()}
        self._values = np.empty(sizes.values, np.int64)
        self._predictions = (
            np.full(tk.PREDICTIONS, -1, np.int64),
            np.zeros((tk.PREDICTIONS + 1) * tk.LINK, np.uint8),
            np.full(tk.PREDICTIONS, -1, np.int32),
            np.full(tk.PREDICTIONS, -1, np.int32),
        )
        self._nesting = np.empty(tk.MAX_NESTING, np.bool_)

    @property
    def odd_commas(self) -> int:
        """Commas missing or doubled between elements, so far."""
        return int(self.tables.at[tk.ODD_COMMAS])

    def feed(self, text: UInt8s, limit: int, position: int, expect: int, sink: Sink) -> tuple[int, int, int]:
        """Parse `text[position:limit]`, which PADDING quotation marks follow; rows stay in the scratch until `flush`.

        Returns:
            MORE, DONE or BROKEN; the position it came to, between two elements; and what may come next there.
        """
        tables = self.tables
        at = tables.at
        at[tk.POSITION], at[tk.EXPECT] = position, expect
        while True:
            arguments = (
                text, limit, at, *self._rows.values(), self._values, self._values.view(np.float64),
                tables.string_slots, tables.string_offsets, tables.arena, tables.shape_slots, tables.shape_ends,
                tables.items, tables.track_slots, tables.tracks, *self._predictions, self._nesting,
            )  # fmt: skip
            status = int(tk.tokenize(*arguments))
            if status <= tk.BROKEN:
                return status, int(at[tk.POSITION]), int(at[tk.EXPECT])
            if status == tk.ROOM_VALUES and at[tk.EVENTS] == 0:  # one event has more values than the scratch
                self._values = np.empty(2 * self._values.size, np.int64)
            elif status in (tk.ROOM_EVENTS, tk.ROOM_VALUES):
                self.flush(sink)
            else:
                tables.grow(status, limit - int(at[tk.POSITION]))

    def flush(self, sink: Sink) -> None:
        """Give the rows of the scratch to a sink."""
        at = self.tables.at
        rows, values = int(at[tk.EVENTS]), int(at[tk.VALUES])
        if rows:
            sink(Chunk({name: column[:rows] for name, column in self._rows.items()}, self._values[:values]))
        at[tk.EVENTS] = at[tk.VALUES] = 0


def padded(content: bytes) -> UInt8s:
    """Bytes as the tokenizer takes them: an array with the PADDING behind (writable, or Numba would compile anew)."""
    return np.frombuffer(bytearray(content + b'"' * tk.PADDING), np.uint8)


def translate(chunk: Chunk, codes: tuple[Int32s, ...], slots: Int64s) -> None:
    """Rewrite a chunk, in place, from the codes of its tokenizer to those of the one that adopted its tables.

    slots: which items of each shape (of its own tokenizer) hold a string code, as `slots_of` gives them.
    """
    strings, shapes, tracks = codes
    columns = chunk.columns
    tk.translate_values(columns["shape"], slots, strings, chunk.values)
    or_none = np.append(strings, np.int32(-1))  # at −1, for no string, is its last
    for name in _CODED:
        columns[name][:] = or_none[columns[name]]
    columns["shape"][:] = shapes[columns["shape"]]
    columns["track"][:] = tracks[columns["track"]]


def slots_of(shapes: list[Int64s], kinds: tuple[int, ...]) -> Int64s:
    """Which values of each shape are of some kinds, for `tokenizer.translate_values` and `mark_strings`.

    Two numbers a shape: how many values it has, and where in the same array it says how many of them are of these
    kinds, and which.
    """
    header = np.zeros(2 * len(shapes), np.int64)
    body: list[int] = []
    for code, items in enumerate(shapes):
        kept_kinds = [kind for kind in ((items >> 2) & 63).tolist() if kind < SLOTS]
        wanted = [slot for slot, kind in enumerate(kept_kinds) if kind in kinds]
        header[2 * code] = len(kept_kinds)
        header[2 * code + 1] = len(header) + len(body)
        body += [len(wanted), *wanted]
    return np.concatenate([header, np.array(body, np.int64)])


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    larger = np.zeros(size, array.dtype)
    larger[: array.size] = array
    return larger
