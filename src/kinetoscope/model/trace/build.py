"""Traces made of columns: what a reader of any format gives its events to. Each reads back as Kineto would write it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.model.trace.arguments import written_key
from kinetoscope.model.trace.demangling import with_demangled
from kinetoscope.model.trace.event_kinds import CATEGORIES, MEMORY_NAME, EventKind
from kinetoscope.model.trace.shapes import (
    ARGS,
    ARGUMENT_LEVEL,
    CAT,
    DUR,
    FLOAT,
    IN_COLUMN,
    IN_TRACK,
    INT,
    NAME,
    OPEN,
    PH,
    PID,
    RAW,
    SPECIAL_KEYS,
    STRING,
    TID,
    TIME_DECIMAL,
    TS,
    Item,
    Shapes,
    pack_item,
)
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.strings import NESTED, Strings, spelled
from kinetoscope.model.trace.trace import Trace
from kinetoscope.model.trace.tracks import Tracks


class Coded(NamedTuple):
    """Texts of events: few texts, and the place among them of each event's."""

    texts: Sequence[str]
    places: NDArray[np.integer[Any]]


Column = str | int | float | Sequence[Any] | NDArray[Any] | Coded
"""One value for each event: numbers, texts, or values of JSON; or one for all of them."""

_CATEGORY: Final = {kind: category for category, kind in reversed(CATEGORIES.items())}
"""What CUDA's traces call the spans of a kind."""

_PLACE: Final = ((PID, IN_TRACK, 0), (TID, IN_TRACK, 0))
_TIME: Final = (TS, TIME_DECIMAL, 0)
_SPAN: Final = ((PH, IN_COLUMN, 0), (CAT, IN_COLUMN, 0), (NAME, IN_COLUMN, 0), *_PLACE, _TIME, (DUR, TIME_DECIMAL, 0))
_LABEL: Final = ((PH, IN_COLUMN, 0), (NAME, IN_COLUMN, 0), _TIME, *_PLACE)
_ARGS: Final = (ARGS, OPEN, 0)


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
        self._add("X", _CATEGORY[kind], _SPAN, names, (start, end), (process, thread), arguments)

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

    def build(self, source: Source, *, metadata: Mapping[str, Any] | None = None, text_bytes: int = 0) -> Trace:
        """The trace of what was added.

        Args:
            source: where it comes from.
            metadata: facts of the run, as Kineto has them at the top level: `distributedInfo`, `deviceProperties`, ….
            text_bytes: size of what was read, decompressed.
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
        scoped = (self._code("s"), STRING, 0)
        head = ((PH, IN_COLUMN, 0), *named, scoped, (NAME, IN_COLUMN, 0), *_PLACE, _TIME)
        self._add("i", category, head, names, (time, time), place, arguments, (scope,))

    def _label(self, what: str, name: str, process: int | str, thread: int | str) -> None:
        items = (*_LABEL, _ARGS, (NAME, STRING, ARGUMENT_LEVEL))
        self._add("M", "", items, what, ([0], [0]), (process, thread), {}, (name,))

    def _add(
        self,
        phase: str,
        category: str,
        head: tuple[Item, ...],
        names: Column,
        times: tuple[ArrayLike, ArrayLike],
        place: tuple[Column, Column],
        arguments: Mapping[str, Column],
        texts: Iterable[str] = (),
    ) -> None:
        """Add events whose items are those of `head`, of which `texts` have slots, and then the arguments."""
        start, end = (np.asarray(each, np.int64) for each in times)
        count = len(start)
        items = [*head, _ARGS] if arguments else [*head]
        slots = [np.full(count, self._code(text), np.int64) for text in texts]
        for name, column in arguments.items():
            kind, bits = self._slots(column, count)
            items.append((self._code(written_key(name)), kind, ARGUMENT_LEVEL))
            slots.append(bits)
        shape = self._shapes.setdefault(tuple(items), len(self._shapes))
        columns: dict[str, ArrayLike] = {
            "ph": np.full(count, ord(phase)),
            "category": np.full(count, self._code(category) if category else -1),
            "name": self._slots(names, count)[1],
            "track": self._of_places(*place, count),
            "start": start,
            "end": end,
            "shape": np.full(count, shape),
        }
        for name, values in columns.items():
            self._columns[name].append(np.asarray(values, np.int64))
        self._values += [np.stack(slots, axis=1).ravel()] if slots else []

    def _of_places(self, process: Column, thread: Column, count: int) -> ArrayLike:
        """The track of each event."""
        if isinstance(thread, Coded) and isinstance(process, (str, int)):
            distinct, back = np.unique(thread.places, return_inverse=True)
            pairs = [(process, thread.texts[place]) for place in distinct.tolist()]
            return np.array([self._tracks.setdefault(pair, len(self._tracks)) for pair in pairs], np.int64)[back]
        each = zip(_each(process, count), _each(thread, count), strict=True)
        return [self._tracks.setdefault(pair, len(self._tracks)) for pair in each]

    def _slots(self, column: Column, count: int) -> tuple[int, Int64s]:
        """The kind of a column's values, and the 64 bits of each."""
        if isinstance(column, Coded):
            distinct, back = np.unique(column.places, return_inverse=True)
            return STRING, np.array([self._code(column.texts[place]) for place in distinct.tolist()], np.int64)[back]
        if isinstance(column, np.ndarray) and column.dtype.kind in "iu":
            return INT, column.astype(np.int64)
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
        return INT, np.array(values, np.int64)

    def _code(self, text: str) -> int:
        return self._codes.setdefault((spelled(text), 0), len(self._codes))


def _each(column: Column, count: int) -> Sequence[Any]:
    """One value of a column for each event, as Python has it."""
    if isinstance(column, Coded):
        return [column.texts[place] for place in column.places.tolist()]
    if isinstance(column, np.ndarray):
        return column.tolist()  # type: ignore[no-any-return]
    return [column] * count if isinstance(column, (str, int, float)) else column
