"""A trace: everything that one file holds, as columns; what follows from them is computed on demand.

Events stay in file order, and the row number is the identity of an event everywhere. Arrays are read-only. A Trace is
not sent to other processes: a `Source` is, and is loaded there.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from kinetoscope import dispatch
from kinetoscope.algorithms.arrays import Bools, Floats, Int8s, Int32s, Int64s, UInt8s, any_of, marked
from kinetoscope.algorithms.grouping import group
from kinetoscope.caching import checkpoint
from kinetoscope.model.trace.captured_calls import CapturedCalls
from kinetoscope.model.trace.derived import DerivedCache, derived, sealed
from kinetoscope.model.trace.event_kinds import (
    DEVICE_WORK,
    MEMORY_NAME,
    METRICS_OF_KERNEL,
    NAMES_DECIDE,
    SPANS,
    XPU_METRICS,
    EventKind,
    kind_of,
)
from kinetoscope.model.trace.shapes import FLOAT, INT, NUMBER_TEXT, RAW, STRING, Shapes
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.strings import Strings, value_of
from kinetoscope.model.trace.symptoms import Health
from kinetoscope.model.trace.tracks import Tracks
from kinetoscope.notes import Note

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")

_DERIVED_BYTES_PER_EVENT: Final = 96
_COLUMNS: Final = ("ph", "category", "name", "track", "start", "end", "shape", "first")

_DERIVED_BYTES: Final = 1 << 28
"""Memory for what was derived from a trace: this, and the bytes for each event. No analysis needs more."""


class Trace:
    """One rank's events, and what the file says about the run.

    Attributes:
        source: where it comes from.
        ph: uint8 [events], the phase (`X`, `i`, `s`, …) as a byte; 0 where it is missing or odd.
        category, name: int32 [events], string codes; −1 where there is none.
        track: int32 [events], rows of `tracks`.
        start, end: int64 [events], nanoseconds as the file counts them: add `base` for the time since 1970.
        shape: int32 [events], rows of `shapes`.
        first: int32 or int64 [events], where the event's values begin in `values`.
        values: int64 [values], see `shapes`.
        strings, shapes, tracks: what the codes mean.
        members: key and JSON text of each top-level value but the events, in order.
        members_before_events: how many of them stand before the events; −1 for a bare list of events.
        text_bytes: size of what was read, decompressed.
        captured: the captured calls, whose rows follow those of the file; None where there are none.
    """

    def __init__(
        self,
        *,
        source: Source,
        columns: Mapping[str, NDArray[Any]],
        values: Int64s,
        strings: Strings,
        shapes: Shapes,
        tracks: Tracks,
        members: tuple[tuple[str, str], ...] = (),
        members_before_events: int = 0,
        reading: tuple[Note, ...] = (),
        text_bytes: int = 0,
        captured: CapturedCalls | None = None,
    ) -> None:
        self.source = source
        self.ph: UInt8s = columns["ph"]
        self.category: Int32s = columns["category"]
        self.name: Int32s = columns["name"]
        self.track: Int32s = columns["track"]
        self.start: Int64s = columns["start"]
        self.end: Int64s = columns["end"]
        self.shape: Int32s = columns["shape"]
        self.first: NDArray[np.signedinteger] = columns["first"]
        self.values = values
        self.strings, self.shapes, self.tracks = strings, shapes, tracks
        self.members, self.members_before_events = members, members_before_events
        self.text_bytes = text_bytes
        self.reading = reading
        self.captured = captured
        for array in (*columns.values(), values):
            array.flags.writeable = False
        self._derived = DerivedCache(_DERIVED_BYTES_PER_EVENT * len(self) + _DERIVED_BYTES)
        self._kept: dict[Hashable, Any] = {}
        self._kept_bytes = 0
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.ph)

    def __repr__(self) -> str:
        return f"Trace({self.source.name}, rank {self.source.rank}, {len(self):,} events)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Trace is not pickled; send its Source, and load that where it is needed")

    @property
    def recorded(self) -> int:
        """How many rows stand in the file: all but those of captured calls, which come last."""
        return len(self) if self.captured is None else self.captured.recorded

    def as_recorded(self) -> Trace:
        """The trace without its captured calls: what the file holds. The columns are shared."""
        if self.captured is None:
            return self
        return self.with_columns({name: getattr(self, name)[: self.recorded] for name in _COLUMNS})

    def with_columns(self, columns: Mapping[str, NDArray[Any]], **parts: Any) -> Trace:
        """The same file with other columns; `parts` are keywords of `Trace`, which are this one's where not given."""
        names = ("source", "values", "strings", "shapes", "tracks", "members", "members_before_events", "reading")
        own = {name: getattr(self, name) for name in (*names, "text_bytes")}
        return Trace(columns=columns, **(own | parts))

    # --- what follows from the columns

    def of(self, derive: Callable[..., T], *details: Any, **named: Any) -> T:
        """`derive(self, *details, **named)`, computed once; `@derived` makes a function ask this of itself.

        Beyond a budget of memory the least recently used answers are dropped, and computed again when they are needed.
        Threads that share a trace compute one answer at a time; for one that is kept they never wait. The answer is
        shared: its arrays are read-only. Nothing more is computed for whoever has left (`caching.checkpoint`).
        """
        question: tuple[Hashable, ...] = (derive, *details, *named.items())
        kept = self._derived.peek(question)
        if not self._lock.acquire(blocking=kept is None):
            return cast(T, kept and kept[0])
        try:
            if question not in self._derived:
                checkpoint()
                self._derived.keep(question, derive(self, *details, **named))
            return cast(T, self._derived[question])
        finally:
            self._lock.release()

    def keep(self, key: Hashable, read: Callable[[], T]) -> T:
        """The answer of `read`, which stays as long as the trace: what stands in a file that belongs to it.

        What is derived from it may count three times as much: lifetimes and levels hold its columns, which count again.
        """
        with self._lock:
            if key not in self._kept:
                self._kept[key] = content = read()
                size = sealed(content)
                self._kept_bytes += size
                self._derived.limit += 3 * size
            return cast(T, self._kept[key])

    def companions(self, kind: str) -> Sequence[Any]:
        """The contents of the files of a kind that belong to the trace; `readers.companions` lists the kinds.

        Each is read when it is first looked at, and kept.

        Raises:
            InputError: when one is looked at that cannot be read.
        """
        return _Companions(self, kind)

    def forget(self) -> None:
        """Drop everything that was derived, to free memory; it is computed again on demand."""
        with self._lock:
            self._derived.clear()

    @property
    def nbytes(self) -> int:
        """Bytes of the columns and strings, and of what was read beside the file, without what was derived."""
        columns = (self.ph, self.category, self.name, self.track, self.start, self.end, self.shape, self.first)
        return sum(column.nbytes for column in columns) + self.values.nbytes + self.strings.nbytes + self._kept_bytes

    @property
    def nbytes_derived(self) -> int:
        """Bytes of what was derived and is kept now."""
        return self._derived.total

    @cached_property
    def metadata(self) -> Mapping[str, Any]:
        """The top-level values but the events; of a repeated key the last."""
        return {key: value_of(text) for key, text in self.members}

    @property
    def base(self) -> int:
        """Nanoseconds since 1970 at which the file's own count of time begins; 0 where it counts from 1970 itself."""
        base = self.metadata.get("baseTimeNanoseconds", 0)
        return base if isinstance(base, int) else 0

    @property
    def kind(self) -> Int8s:
        """The kind of each event, an `EventKind`: int8 [events]."""
        return event_kinds(self)

    @property
    def health(self) -> Health:
        """The symptoms of reading and of the checks of the events."""
        health: Health = dispatch.call("health", self)
        return health

    def table(self, name: str) -> pl.DataFrame:
        """A declared table of `model.tables.tables`, by name.

        Raises:
            UsageError: there is no such table.
        """
        table: pl.DataFrame = dispatch.call("table", self, name)
        return table

    def rows(self, *kinds: EventKind) -> Int32s:
        """The rows of these kinds, in file order."""
        return np.flatnonzero(any_of(self.kind, kinds)).astype(np.int32)

    # --- arguments as columns

    def kinds_of(self, key: str, rows: Int32s | None = None) -> Int8s:
        """Kind of the argument `key` of each row (see `shapes`): int8, −1 where the event has none."""
        code = self.strings.code(key)
        shape = self.shape if rows is None else self.shape[rows]
        if code < 0:
            return np.full(len(shape), -1, np.int8)
        return self.shapes.find(code)[1][shape]

    def integers(self, key: str, rows: Int32s | None = None, *, missing: int = -1) -> Int64s:
        """The argument `key` where it is an integer, else `missing`: int64, one for each of `rows` (None: all)."""
        return self._gather(key, rows, (INT,), missing)

    def codes_of(self, key: str, rows: Int32s | None = None) -> Int64s:
        """String codes of the argument `key` where it is a text or nested JSON, else −1: int64."""
        return self._gather(key, rows, (STRING, RAW), -1)

    def floats(self, key: str, rows: Int32s | None = None) -> Floats:
        """The argument `key` where it is a number, else NaN: float64."""
        bits = self._gather(key, rows, (FLOAT,), 0)
        integers = self._gather(key, rows, (INT,), 0)
        texts = self._gather(key, rows, (NUMBER_TEXT,), -1)
        kinds = self.kinds_of(key, rows)
        result = np.where(kinds == INT, integers.astype(np.float64), bits.view(np.float64))
        result[~any_of(kinds, (INT, FLOAT))] = np.nan
        for place in np.flatnonzero(texts >= 0):
            result[place] = as_float(self.strings.number(int(texts[place])))
        return cast("Floats", result)

    def _gather(self, key: str, rows: Int32s | None, kinds: tuple[int, ...], missing: int) -> Int64s:
        shape = self.shape if rows is None else self.shape[rows]
        code = self.strings.code(key)
        if code < 0:
            return np.full(len(shape), missing, np.int64)
        slots, of_shape = self.shapes.find(code)
        slots = np.where(any_of(of_shape, kinds), slots, -1)
        slot = slots[shape]
        result = np.full(len(shape), missing, np.int64)
        have = np.flatnonzero(slot >= 0)
        first = self.first if rows is None else self.first[rows]
        result[have] = self.values[first[have] + slot[have]]
        return result

    # --- one event, as it stands in the file

    def event(self, row: int) -> Any:
        """The element of `traceEvents` at `row`, as `json.loads` would give it."""
        return dispatch.call("event", self, row)

    def events(self) -> Iterator[Any]:
        """All of the file, in order. Slow: for writing a trace out and for tests."""
        return (self.event(row) for row in range(self.recorded))


class _Companions(Sequence[Any]):
    """The contents of a trace's companions of a kind; see `Trace.companions`."""

    def __init__(self, trace: Trace, kind: str) -> None:
        self._trace, self._kind, self._urls = trace, kind, trace.source.files(kind)

    def __len__(self) -> int:
        return len(self._urls)

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Any]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        url = self._urls[place]
        read = partial(dispatch.call, "companion", self._trace, self._kind, url)
        return self._trace.keep((self._kind, url), read)


def as_float(number: int | float | str) -> float:
    """A number of the file as a float64, an infinity for integers beyond its range; NaN for a word."""
    if isinstance(number, str):
        return math.nan
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


# --- kinds of events


LONGEST_RECORDING_NS: Final = 86_400_000_000_000
"""A day: an event farther from the middle event of the recording has no valid time."""

NO_TIME: Final = -4_600_000_000_000_000_000
"""The start of an event whose time is none that can be: before all that can."""

_INT64: Final = np.iinfo(np.int64)

_METADATA_PHASE: Final = ord("M")
"""Phase of names of processes and threads, whose times mean nothing."""


@derived
def event_kinds(trace: Trace) -> Int8s:
    """The `EventKind` of each event: int8 [events]; `kind_of` is called once for each phase and category."""
    dense = np.zeros(len(trace.strings) + 1, np.int32)
    dense[trace.category + 1] = 1
    categories = np.flatnonzero(dense) - 1
    dense[categories + 1] = np.arange(len(categories), dtype=np.int32)
    pairs = dense[trace.category + 1] * 256 + trace.ph
    present = marked(len(categories) * 256, pairs)
    kinds = np.zeros(len(present), np.int8)
    for pair in np.flatnonzero(present).tolist():
        kinds[pair] = kind_of(pair & 255, trace.strings.label(int(categories[pair >> 8])), "")
    kind: Int8s = kinds[pairs]
    decided_by_name = (trace.category == trace.strings.code(NAMES_DECIDE)) & (trace.category >= 0)
    decided_by_name |= (trace.name == trace.strings.code(MEMORY_NAME)) & (trace.name >= 0)
    if trace.strings.code(XPU_METRICS) >= 0:
        named = np.append(trace.strings.holding((METRICS_OF_KERNEL,)), np.False_)
        decided_by_name |= named[trace.name]
    rows = np.flatnonzero(decided_by_name)
    codes, first = group(pairs[rows], trace.name[rows])
    kinds_by_name = [
        kind_of(pair & 255, trace.strings.label(int(categories[pair >> 8])), trace.strings.label(name))
        for pair, name in zip(pairs[rows[first]].tolist(), trace.name[rows[first]].tolist(), strict=True)
    ]
    kind[rows] = np.array(kinds_by_name, np.int8)[codes]
    kind[of_autograd_profiler(trace)] = EventKind.HOST_OP
    kind[_of_ascend(trace)] = EventKind.KERNEL
    kind[stray(trace)] = EventKind.OTHER
    kind.flags.writeable = False
    return kind


_ASCEND_DEVICE: Final = "Ascend Hardware"
"""The process, by its name, under which torch_npu writes what runs on a device; its events have no category."""

_ASCEND_WAITS: Final = re.compile(r"(?:event|notify)_?(?:wait|record|reset)", re.IGNORECASE)
"""Tasks on a stream in which it computes nothing."""


def _of_ascend(trace: Trace) -> Bools:
    """Work of Ascend's devices: spans without a category on their tracks, but waits: bool [events]."""
    code = trace.strings.code(_ASCEND_DEVICE)
    naming = np.flatnonzero((trace.ph == _METADATA_PHASE) & (trace.name == trace.strings.code("process_name")))
    if code < 0 or not len(naming):
        return np.zeros(len(trace), np.bool_)
    devices = naming[trace.codes_of("name", naming.astype(np.int32)) == code]
    pids = trace.tracks.integer_pids()
    works = np.isin(pids, pids[trace.track[devices]])[trace.track] & (trace.category < 0) & any_of(trace.ph, SPANS)
    names = np.unique(trace.name[works])
    labels = trace.strings.labels(names.tolist())
    waits = names[[_ASCEND_WAITS.match(label) is not None for label in labels]] if len(names) else names
    return np.asarray(works & ~np.isin(trace.name, waits))


_AUTOGRAD_HOST: Final = "CPU functions"
"""The process, by name, of the operators that torch's profiler wrote before Kineto (until torch 1.7)."""


@derived
def of_autograd_profiler(trace: Trace) -> Bools:
    """Operators of torch's profiler before Kineto: spans without a category: bool [events].

    Its spans of devices are whole operators again, one in the other, and no kernels: they are of no kind.
    """
    tracks = np.array([pid == _AUTOGRAD_HOST for pid in trace.tracks.pids], np.bool_)
    if not tracks.any():
        return np.zeros(len(trace), np.bool_)
    return np.asarray(tracks[trace.track] & (trace.category < 0) & any_of(trace.ph, SPANS))


@derived
def stray(trace: Trace) -> Int64s:
    """Rows of events with impossible times: `NO_TIME`, or over a day from the middle one, such as 0 among later ones.

    No analysis counts them: one such event would make a recording of seconds one of decades.
    """
    start = trace.start
    timed = trace.ph != _METADATA_PHASE
    none = start == NO_TIME
    known = timed & ~none
    earliest = int(start.min(where=known, initial=_INT64.max))
    latest = int(start.max(where=known, initial=_INT64.min))
    if latest - earliest > LONGEST_RECORDING_NS:
        times = start[known]
        middle = int(np.partition(times, len(times) // 2)[len(times) // 2])
        none |= (start < middle - LONGEST_RECORDING_NS) | (start > middle + LONGEST_RECORDING_NS)
    return np.flatnonzero(timed & none)


def is_device_work(trace: Trace) -> Bools:
    """Events that are a kernel, a copy or a set on a device: bool [events]."""
    return any_of(trace.kind, DEVICE_WORK)
