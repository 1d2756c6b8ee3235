"""Track events: slices, instants and counters of threads and other tracks, with their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.model.trace.build import Coded, Column, TraceBuilder, part
from kinetoscope.model.trace.event_kinds import CATEGORIES
from kinetoscope.readers.byte_ranges import ByteRanges, distinct
from kinetoscope.readers.perfetto import interned
from kinetoscope.readers.perfetto.annotations import AN_INTEGER, arguments_of, text_of
from kinetoscope.readers.perfetto.interned import Interned
from kinetoscope.readers.perfetto.packets import TRACK_EVENT, Packets
from kinetoscope.readers.perfetto.slices import BEGIN, END, partners
from kinetoscope.readers.perfetto.tracks import RecordedTracks
from kinetoscope.readers.perfetto.wire import VARINT, fields

_CATEGORY_IDS, _ANNOTATIONS, _LEGACY, _TYPE, _NAME_ID, _TRACK, _CATEGORIES, _NAME = 3, 4, 6, 9, 10, 11, 22, 23
_VALUE, _DOUBLE, _LAUNCHED = 30, 44, 3000
"""Fields of a track event; the last one lists the stages of a GPU that a call has launched."""

_INSTANT, _COUNTER = 3, 4
_PHASE_OF_TYPE: Final = {BEGIN: "X", _INSTANT: "i", _COUNTER: "C"}
_LEGACY_TYPES: Final = {ord("B"): BEGIN, ord("E"): END}
_SCOPES: Final = {1: "g", 2: "p", 3: "t"}
_CATEGORY_BY_ARGUMENT: Final = (
    ("cbid", "cuda_runtime"),
    ("cuda_sync_kind", "cuda_sync"),
    ("Python id", "python_function"),
    ("External id", "cpu_op"),
    ("Record function id", "cpu_op"),
)
"""Categories of events that have none, as torch 2.14 wrote them, by an argument that only these have."""


class TrackEvents:
    """The track events of a recording."""

    def __init__(self, packets: Packets, tables: Interned, tracks: RecordedTracks, origin: int, *, own: bool) -> None:
        rows = np.flatnonzero(packets.fields.has(TRACK_EVENT))
        every = packets.fields.ranges(TRACK_EVENT)
        self._read = read = fields(packets.fields.data, every.at(rows))
        self._tracks, self._tables, self._own = tracks, tables, own
        self._packet, self._stretch = rows, packets.stretch[rows]
        self.time = packets.time[rows] - origin
        defaults = fields(read.data, fields(read.data, packets.defaults.at(rows)).ranges(TRACK_EVENT)).integers(_TRACK)
        self.track = np.where(read.has(_TRACK), read.integers(_TRACK), defaults)
        self._legacy = fields(read.data, read.ranges(_LEGACY))
        self._phase = self._legacy.integers(2)
        self.type = read.integers(_TYPE)
        for phase, kind in _LEGACY_TYPES.items():
            self.type[(self.type == 0) & (self._phase == phase)] = kind
        self.arguments = arguments_of(read, _ANNOTATIONS, self._packet, self._stretch, tables)
        self.unfinished = self.unbegun = 0

    def launched(self) -> tuple[Int64s, Int64s]:
        """Calls that launched stages of a GPU, and the ids of these: one row for each stage."""
        event, ranges = self._read.repeated(_LAUNCHED)
        inner = fields(self._read.data, ranges)
        places = inner.having(1, VARINT)
        return event[inner.message[places]].astype(np.int64), inner.value[places]

    def correlations(self, events: Int64s) -> Int64s:
        """Numbers that join calls with what they launched: their own, else new ones, which they get as arguments."""
        key = self.arguments.keys.index("correlation") if "correlation" in self.arguments.keys else -1
        has = (self.arguments.key == key) & (self.arguments.kind == AN_INTEGER)
        result = np.full(len(self.time), -1, np.int64)
        result[self.arguments.event[has]] = self.arguments.bits[has]
        without = np.unique(events[result[events] < 0])
        result[without] = int(result.max(initial=0)) + 1 + np.arange(len(without))
        self.arguments = self.arguments.with_integers("correlation", without, result[without])
        return result[events]

    def add_to(self, built: TraceBuilder, last: int) -> None:
        """Give all to a builder; what is unfinished ends at `last`."""
        if not len(self.time):
            return
        name, names = self._names()
        category, categories = self._categories()
        end = self._ends(last)
        phases = self._phases()
        self._counters(built, phases == ord("C"), Coded(name, names))
        for rows, columns in self.arguments.shapes(len(self.time)):
            for phase in np.unique(phases[rows]).tolist():
                some = phases[rows] == phase
                chosen = rows[some]
                if phase in (0, ord("C")):
                    continue
                arguments = {key: part(column, some) for key, column in columns.items()}
                self._add(built, chr(phase), chosen, end, Coded(name, names), Coded(category, categories), arguments)

    def _add(
        self,
        built: TraceBuilder,
        phase: str,
        rows: Int64s,
        end: Int64s,
        name: Coded,
        category: Coded,
        arguments: Mapping[str, Column | None],
    ) -> None:
        labels = category.values
        if not self._own and phase == "X":
            guessed = next((each for key, each in _CATEGORY_BY_ARGUMENT if key in arguments), "user_annotation")
            labels = [each if each.lower() in CATEGORIES else guessed for each in labels]
        process, thread = self._tracks.columns(self.track[rows])
        for has_category in (True, False):
            of = np.array([bool(labels[code]) for code in range(len(labels))])[category.codes[rows]] == has_category
            if not of.any():
                continue
            chosen = rows[of]
            built.add_as_written(
                phase,
                Coded(category.codes[chosen], labels) if has_category else "",
                name.at(chosen),
                self.time[chosen],
                end[chosen],
                process=process.at(of),
                thread=thread.at(of),
                arguments={key: part(column, of) for key, column in arguments.items()},
                **self._members(phase, chosen),
            )

    def _members(self, phase: str, rows: Int64s) -> dict[str, Column]:
        """Other members of events: the scope of instants, the id that arrows are joined by."""
        members: dict[str, Column] = {}
        if phase == "X":
            return members
        if phase == "i":
            scope = self._legacy.integers(14)[rows]
            return members | {"s": [_SCOPES.get(each, "t") for each in scope.tolist()]}
        number = np.zeros(len(rows), np.int64)
        for key in (11, 10, 6):
            has = self._legacy.has(key)[rows]
            number[has] = self._legacy.integers(key)[rows][has]
        bound = self._legacy.integers(12)[rows] > 0
        return members | {"id": number} | ({"bp": "e"} if bound.all() and len(bound) else {})

    def _ends(self, last: int) -> Int64s:
        end = self.time.copy()
        rows = np.flatnonzero((self.type == BEGIN) | (self.type == END))
        partner, self.unbegun = partners(self.track[rows], self.type[rows], self.time[rows])
        begun = self.type[rows] == BEGIN
        known = begun & (partner >= 0)
        end[rows[known]] = self.time[rows[partner[known]]]
        end[rows[begun & (partner < 0)]] = last
        self.unfinished = int((begun & (partner < 0)).sum())
        whole = self._phase == ord("X")
        end[whole] += np.clip(self._legacy.integers(3)[whole], 0, 1 << 52) * 1000
        return end

    def _phases(self) -> Int64s:
        """The phase of each event in Kineto's format; 0 for ends, and for what is none."""
        phases = np.where(self.type == 0, self._phase, 0)
        phases[(phases < 33) | (phases > 126) | (phases == ord("E"))] = 0
        phases[(phases == ord("I")) | (phases == ord("R"))] = ord("i")
        for kind, phase in _PHASE_OF_TYPE.items():
            phases[self.type == kind] = ord(phase)
        return phases

    def _names(self) -> tuple[Int64s, list[str]]:
        table = self._tables.table(interned.NAMES)
        read = self._read
        legacy = table.ranges(self._packet, self._stretch, self._legacy.integers(1), 2)
        of_id = table.ranges(self._packet, self._stretch, read.integers(_NAME_ID), 2)
        codes, texts = distinct(read.data, read.ranges(_NAME).or_else(of_id).or_else(legacy))
        return codes, [text_of(each) for each in texts]

    def _categories(self) -> tuple[Int64s, list[str]]:
        """The first category of each event."""
        read = self._read
        places = read.having(_CATEGORY_IDS, VARINT)[::-1]
        ids = np.zeros(read.messages, np.int64)
        ids[read.message[places]] = read.value[places]
        of_id = self._tables.table(interned.CATEGORIES).ranges(self._packet, self._stretch, ids, 2)
        event, ranges = read.repeated(_CATEGORIES)
        first = ByteRanges(np.full(read.messages, -1, np.int64), np.full(read.messages, -1, np.int64))
        first.start[event[::-1]], first.end[event[::-1]] = ranges.start[::-1], ranges.end[::-1]
        codes, texts = distinct(read.data, of_id.or_else(first))
        return codes, [text_of(each) for each in texts]

    def _counters(self, built: TraceBuilder, chosen: Any, name: Coded) -> None:
        """Samples of counters: a counter is a track; its unit is the name of the series."""
        every = np.flatnonzero(chosen)
        every = every[np.argsort(self.track[every], kind="stable")]
        changes = np.flatnonzero(np.diff(self.track[every])) + 1
        for rows in np.split(every, changes) if len(every) else ():
            uuid = int(self.track[rows[0]])
            track = self._tracks.track(uuid)
            is_double = self._read.has(_DOUBLE)[rows]
            for double in (True, False):
                some = rows[is_double == double]
                if not len(some):
                    continue
                value: Any = self._read.floats(_DOUBLE)[some] if double else self._read.integers(_VALUE)[some]
                value = value * track.factor if track.factor not in (0, 1) else value
                value = np.cumsum(value) if track.adds_up else value
                process, thread = self._tracks.place(uuid)
                labels = name.at(some) if not track.name else track.name
                built.add_as_written(
                    "C",
                    "",
                    labels,
                    self.time[some],
                    self.time[some],
                    process=process,
                    thread=thread,
                    arguments={track.unit or ("" if self._own else "value"): value},
                )
