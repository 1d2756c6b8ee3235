"""Traces made of columns: what a reader of any format gives its events to. Each reads back as Kineto would write it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.grouping import group, group_in_order
from kinetoscope.model.trace.arguments import written_key
from kinetoscope.model.trace.demangling import with_demangled
from kinetoscope.model.trace.event_kinds import CATEGORIES, MEMORY_NAME, EventKind
from kinetoscope.model.trace.shapes import (
    ARGS,
    ARGUMENT_LEVEL,
    CAT,
    DUR,
    FALSE,
    FLOAT,
    IN_COLUMN,
    IN_TRACK,
    INT,
    NAME,
    NULL,
    NUMBER_TEXT,
    OPEN,
    PH,
    PID,
    RAW,
    SPECIAL_KEYS,
    STRING,
    TID,
    TIME_DECIMAL,
    TRUE,
    TS,
    Item,
    Shapes,
    pack_item,
)
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.strings import NESTED, Strings, spelled
from kinetoscope.model.trace.trace import Trace
from kinetoscope.model.trace.tracks import Tracks
from kinetoscope.notes import Note


@dataclass(frozen=True, slots=True)
class Coded:
    """A column whose values are few, each of which is there once.

    Attributes:
        codes: integers, the place in `values` for each event.
        values: texts, or values of JSON.
    """

    codes: Int32s | Int64s
    values: Sequence[Any]

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def of(cls, column: NDArray[Any], value: Callable[[Any], Any]) -> Self:
        """The column whose values a function makes of numbers, or of rows of numbers: once of each that is another."""
        used, places = _used(column)
        return cls(places, [value(each) for each in used.tolist()])

    def at(self, rows: NDArray[Any]) -> Self:
        """The values of some events."""
        return replace(self, codes=self.codes[rows])


Column = str | int | float | Sequence[Any] | NDArray[Any] | Coded
"""One value for each event: numbers, texts, or values of JSON; or one for all of them."""


def part(column: Any, rows: NDArray[Any]) -> Any:
    """The values of some events; what all have stays."""
    if isinstance(column, Coded):
        return column.at(rows)
    return column[rows] if isinstance(column, np.ndarray) else column


_CATEGORY: Final = {kind: category for category, kind in reversed(CATEGORIES.items())}
"""What CUDA's traces call the spans of a kind."""

_PLACE: Final = ((PID, IN_TRACK, 0), (TID, IN_TRACK, 0))
_TIME: Final = (TS, TIME_DECIMAL, 0)
_SPAN: Final = ((PH, IN_COLUMN, 0), (CAT, IN_COLUMN, 0), (NAME, IN_COLUMN, 0), *_PLACE, _TIME, (DUR, TIME_DECIMAL, 0))
_EVENT: Final = ((PH, IN_COLUMN, 0), (CAT, IN_COLUMN, 0), (NAME, IN_COLUMN, 0), *_PLACE, _TIME)
_LABEL: Final = ((PH, IN_COLUMN, 0), (NAME, IN_COLUMN, 0), _TIME, *_PLACE)
_ARGS: Final = (ARGS, OPEN, 0)
_LITERALS: Final = {True: TRUE, False: FALSE, None: NULL}


class TraceBuilder:
    """Takes events, many of a kind at a time, and makes a trace of them; they stay in the order in which they come."""

    def __init__(self) -> None:
        self._codes: dict[tuple[bytes, int], int] = {}
        self._tracks: dict[tuple[Any, Any], int] = {}
        self._shapes: dict[tuple[Item, ...], int] = {}
        self._columns: defaultdict[str, list[NDArray[Any]]] = defaultdict(list)
        self._values: list[Int64s] = []
        for key in SPECIAL_KEYS:
            self._code(key)

    def add(
        self,
        kind: EventKind,
        names: Column,
        start: ArrayLike,
        end: ArrayLike,
        *,
        process: Column = 0,
        thread: Column = 0,
        **arguments: Column,
    ) -> None:
        """Add spans of one kind that have the same arguments.

        Args:
            kind: what they are: an operator, an annotation, a Python call, a call of the runtime, device work, ….
            names: of each, or of all.
            start: when each begins, ns.
            end: when each ends, ns.
            process: of host work; the device of device work.
            thread: of host work; the stream of device work.
            arguments: by the names of `model.trace.arguments`: `correlation` joins a launch and what it launched.

        Raises:
            KeyError: no spans are of this kind, or there is no such argument.
        """
        written = {written_key(name): column for name, column in arguments.items()}
        self._add("X", _CATEGORY[kind], _SPAN, names, (start, end), (process, thread), written)

    def add_as_written(
        self,
        phase: str,
        category: Column,
        names: Column,
        start: ArrayLike | None,
        end: ArrayLike,
        *,
        process: Column = 0,
        thread: Column | None = 0,
        arguments: Mapping[str, Column | None],
        **members: Column,
    ) -> None:
        """Add events that another format has as Kineto writes them, with the same members and arguments.

        Args:
            phase: X for spans; i, C, s, f, ….
            category: of each, or of all; "" for events without one.
            names: of each, or of all.
            start: when each is or begins, ns; None for one event that has no time.
            end: when each ends, ns.
            process: of each, or of all.
            thread: of each, or of all; None for one event that has none.
            arguments: by the keys that Kineto writes.
            members: of the events themselves, by theirs: `id`, `bp`, `s`.
        """
        absent = {CAT: category == "", TID: thread is None, TS: start is None}
        items = _SPAN if phase == "X" else _EVENT
        head = tuple(item for item in items if not absent.get(item[0], False))
        times = ([0], [0]) if start is None else (start, end)
        place = (process, [None] if thread is None else thread)
        self._add(phase, category, head, names, times, place, arguments, members)

    @property
    def places(self) -> Collection[tuple[Any, Any]]:
        """Process and thread of all events so far."""
        return self._tracks.keys()

    def mark(self, name: str, time: int) -> None:
        """Add an instant of the whole trace, ns."""
        self._instants("", "g", [name], [time], (0, 0), {})

    def add_memory(self, time: ArrayLike, *, process: Column = 0, thread: Column = 0, **arguments: Column) -> None:
        """Add instants, ns, at which an allocator gave or took memory: `memory_bytes`, `address`, `allocated`, …."""
        self._instants("cpu_instant_event", "t", MEMORY_NAME, time, (process, thread), arguments)

    def name_thread(self, name: str, *, process: int | str = 0, thread: int | str = 0) -> None:
        """Name a thread, or a stream."""
        self._label("thread_name", name, process, thread)

    def name_process(self, name: str, *, process: int | str = 0) -> None:
        """Name a process, or a device."""
        self._label("process_name", name, process, 0)

    def build(
        self,
        source: Source,
        *,
        metadata: Mapping[str, Any] | None = None,
        text_bytes: int = 0,
        notes: tuple[Note, ...] = (),
    ) -> Trace:
        """The trace of what was added.

        Args:
            source: where it comes from.
            metadata: facts of the run, as Kineto has them at the top level: `distributedInfo`, `deviceProperties`, ….
            text_bytes: size of what was read, decompressed.
            notes: what the reader has to say of the file.
        """
        dtypes = {"ph": np.uint8, "start": np.int64, "end": np.int64}
        names = ("ph", "category", "name", "track", "start", "end", "shape")
        columns: dict[str, NDArray[Any]] = {
            name: np.concatenate([*self._columns[name], np.zeros(0, np.int64)]).astype(dtypes.get(name, np.int32))
            for name in names
        }
        flags = np.array([flag for _, flag in self._codes], np.uint8)
        nothing = Strings(np.zeros(0, np.uint8), np.zeros(0, np.int64))
        strings, _ = nothing.extended([spelling for spelling, _ in self._codes], flags)
        strings = with_demangled(columns["name"], strings)
        shapes = Shapes([np.array([pack_item(item) for item in items], np.int64) for items in self._shapes])
        members = tuple((key, json.dumps(value, ensure_ascii=False)) for key, value in (metadata or {}).items())
        return Trace(
            source=source,
            columns={**columns, "first": shapes.first_values(columns["shape"])},
            values=np.concatenate([*self._values, np.zeros(0, np.int64)]),
            strings=strings,
            shapes=shapes,
            tracks=Tracks.of_values([pid for pid, _ in self._tracks], [tid for _, tid in self._tracks]),
            members=members,
            members_before_events=len(members),
            reading=notes,
            text_bytes=text_bytes,
        )

    def _instants(
        self,
        category: str,
        scope: str,
        names: Column,
        time: ArrayLike,
        place: tuple[Column, Column],
        arguments: Mapping[str, Column],
    ) -> None:
        named = ((CAT, IN_COLUMN, 0),) if category else ()
        head = ((PH, IN_COLUMN, 0), *named, (NAME, IN_COLUMN, 0), *_PLACE, _TIME)
        written = {written_key(name): column for name, column in arguments.items()}
        self._add("i", category, head, names, (time, time), place, written, {"s": scope})

    def _label(self, what: str, name: str, process: int | str, thread: int | str) -> None:
        self._add("M", "", _LABEL, what, ([0], [0]), (process, thread), {"name": name})

    def _add(
        self,
        phase: str,
        category: Column,
        head: tuple[Item, ...],
        names: Column,
        times: tuple[ArrayLike, ArrayLike],
        place: tuple[Column, Column],
        arguments: Mapping[str, Column | None],
        members: Mapping[str, Column] | None = None,
    ) -> None:
        """Add events whose items are those of `head`, then other members, and then the arguments."""
        start, end = (np.asarray(each, np.int64) for each in times)
        count = len(start)
        items: list[Item] = [*head]
        slots: list[Int64s] = []
        for level, given in ((0, members or {}), (ARGUMENT_LEVEL, arguments)):
            items += [_ARGS] if level and given else []
            for name, column in given.items():
                if column is None or isinstance(column, bool):
                    items.append((self._code(name), _LITERALS[column], level))
                    continue
                kind, bits = self._slots(column, count)
                items.append((self._code(name), kind, level))
                slots.append(bits)
        shape = self._shapes.setdefault(tuple(items), len(self._shapes))
        columns: dict[str, ArrayLike] = {
            "ph": np.full(count, ord(phase)),
            "category": np.full(count, -1) if category == "" else self._slots(category, count)[1],
            "name": self._slots(names, count)[1],
            "track": self._tracks_at(place, count),
            "start": start,
            "end": end,
            "shape": np.full(count, shape),
        }
        for name, values in columns.items():
            self._columns[name].append(np.asarray(values, np.int64))
        self._values += [np.stack(slots, axis=1).ravel()] if slots else []

    def _tracks_at(self, place: tuple[Column, Column], count: int) -> Int64s:
        """The track of each event, by its process and thread."""
        (processes, of_process), (threads, of_thread) = (_distinct(column, count) for column in place)
        together = of_process * len(threads) + of_thread
        which, first = group(together)  # in the order in which they come
        pairs = (divmod(pair, len(threads)) for pair in together[first].tolist())
        tracks = [self._tracks.setdefault((processes[one], threads[other]), len(self._tracks)) for one, other in pairs]
        each: Int64s = np.array(tracks, np.int64)[which]
        return each

    def _slots(self, column: Column, count: int) -> tuple[int, Int64s]:
        """The kind of a column's values, and the 64 bits of each."""
        if isinstance(column, Coded):
            used, places = _used(column.codes)
            kind, bits = self._slots([column.values[place] for place in used.tolist()], len(used))
            return kind, bits[places]
        if isinstance(column, np.ndarray) and column.dtype.kind in "iu":
            return INT, column.astype(np.int64)
        if isinstance(column, np.ndarray) and column.dtype.kind == "f":
            return FLOAT, column.astype(np.float64).view(np.int64)
        if isinstance(column, str) and count:
            return STRING, np.full(count, self._code(column))
        values = _each(column, count)
        distinct = dict.fromkeys(values, 0) if all(isinstance(value, str) for value in values) else {}
        if len(distinct) or not count:
            codes = {text: self._code(text) for text in distinct}
            return STRING, np.array([codes[text] for text in values], np.int64)
        if any(isinstance(value, (list, tuple, dict)) for value in values):
            texts = [json.dumps(value, ensure_ascii=False).encode() for value in values]
            return RAW, np.array([self._codes.setdefault((text, NESTED), len(self._codes)) for text in texts], np.int64)
        if any(isinstance(value, float) for value in values):
            return FLOAT, np.array(values, np.float64).view(np.int64)
        if any(not -(1 << 63) <= value < 1 << 63 for value in values):
            return NUMBER_TEXT, np.array([self._code(str(value)) for value in values], np.int64)
        return INT, np.array(values, np.int64)

    def _code(self, text: str) -> int:
        return self._codes.setdefault((spelled(text), 0), len(self._codes))


def _used(column: NDArray[Any]) -> tuple[NDArray[Any], Int64s]:
    """The values or rows of a column, each once and in order, and the place of each row's among them."""
    if column.dtype.kind != "i":
        values, places = np.unique(column, axis=0, return_inverse=True)
        return values, places.astype(np.int64).ravel()
    codes, first = group_in_order(*(column.T if column.ndim > 1 else (column,)))
    return column[first], codes.astype(np.int64)


def _distinct(column: Column, count: int) -> tuple[Sequence[Any], Int64s]:
    """The values of a column, each once, and the place of each event's value among them."""
    if isinstance(column, np.ndarray):
        values, places = _used(column)
        return values.tolist(), places
    if isinstance(column, Coded):
        used, places = _used(column.codes)
        return [column.values[code] for code in used.tolist()], places
    if isinstance(column, (str, int, float)):
        return [column], np.zeros(count, np.int64)
    each = _each(column, count)
    places_of = {value: place for place, value in enumerate(dict.fromkeys(each))}
    return [*places_of], np.array([places_of[value] for value in each], np.int64)


def _each(column: Column, count: int) -> Sequence[Any]:
    """One value of a column for each event, as Python has it."""
    if isinstance(column, Coded):
        return [column.values[place] for place in column.codes.tolist()]
    if isinstance(column, np.ndarray):
        return column.tolist()  # type: ignore[no-any-return]
    return [column] * count if isinstance(column, (str, int, float)) else column
