"""Tracks of a recording: the process and thread of each, and what counters on it count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.model.trace.build import Coded
from kinetoscope.readers.perfetto.annotations import text_of
from kinetoscope.readers.perfetto.packets import TRACK, Packets
from kinetoscope.readers.perfetto.wire import Fields, fields

_UUID, _NAME, _PROCESS, _THREAD, _PARENT, _COUNTER, _STATIC_NAME = 1, 2, 3, 4, 5, 8, 10
_MAX_PARENTS: Final = 32
_FIRST_NUMBER: Final = 1 << 31
"""Tracks that are no thread get numbers beyond those of threads."""

Place = tuple[int | str, int | str]


@dataclass
class RecordedTrack:
    """A track: its name and place, what it is below, and, of a counter, unit, factor and whether it adds up."""

    name: str = ""
    process: int | None = None
    process_name: str = ""
    thread: int | None = None
    parent: int = 0
    unit: str = ""
    factor: int = 1
    adds_up: bool = False


class RecordedTracks:
    """All tracks by their uuid; `places`: where those stand that a file of ours names."""

    def __init__(self, packets: Packets, places: Mapping[int, Place]) -> None:
        self._tracks: dict[int, RecordedTrack] = {}
        self._places = dict(places)
        self._own = bool(places)
        self._next = _FIRST_NUMBER
        read = fields(packets.fields.data, packets.fields.ranges(TRACK))
        of = np.flatnonzero(packets.fields.has(TRACK))
        processes, threads, counters = (
            fields(read.data, read.ranges(number)) for number in (_PROCESS, _THREAD, _COUNTER)
        )
        columns = {
            "uuid": read.integers(_UUID),
            "parent": read.integers(_PARENT),
            "has_process": read.has(_PROCESS),
            "has_thread": read.has(_THREAD),
            "pid": processes.integers(1),
            "thread_pid": threads.integers(1),
            "tid": threads.integers(2),
            "factor": counters.integers(4, 1),
            "adds_up": counters.integers(5),
        }
        texts = [
            read.ranges(_NAME).or_else(read.ranges(_STATIC_NAME)),
            processes.ranges(6),
            threads.ranges(5),
            counters.ranges(6),
        ]
        for row in of.tolist():
            facts = {name: int(column[row]) for name, column in columns.items()}
            name, process_name, thread_name, unit = (_text(read, each.start[row], each.end[row]) for each in texts)
            track = self._tracks.setdefault(facts["uuid"], RecordedTrack())
            track.name = thread_name or name or track.name
            track.process_name = process_name or (name if facts["has_process"] else "") or track.process_name
            track.parent = facts["parent"] or track.parent
            track.unit, track.factor, track.adds_up = unit or track.unit, facts["factor"], bool(facts["adds_up"])
            if facts["has_process"]:
                track.process = facts["pid"]
            if facts["has_thread"]:
                track.process, track.thread = facts["thread_pid"], facts["tid"]

    def track(self, uuid: int) -> RecordedTrack:
        """A track; a nameless one where nothing describes it."""
        return self._tracks.get(uuid, RecordedTrack())

    def columns(self, uuids: Int64s) -> tuple[Coded, Coded]:
        """Process and thread of each."""
        used, codes = np.unique(uuids, return_inverse=True)
        places = [self.place(uuid) for uuid in used.tolist()]
        return tuple(_coded([place[which] for place in places], codes) for which in (0, 1))  # type: ignore[return-value]

    def place(self, uuid: int) -> Place:
        """Process and thread of a track; one that is no thread gets a number of its own."""
        if uuid not in self._places:
            track = self.track(uuid)
            process = self._process(uuid)
            thread = track.thread
            if thread is None and uuid in self._tracks and track.process is not None:
                thread = track.process  # what stands on the process itself
            elif thread is None:
                thread, self._next = self._next, self._next + 1
            self._places[uuid] = process, thread
        return self._places[uuid]

    def names(self) -> list[tuple[str, str, Place]]:
        """Names of tracks with events, and of processes: `thread_name` or `process_name`, name, place."""
        if self._own:
            return []
        named = [("thread_name", self.track(uuid).name, place) for uuid, place in self._places.items()]
        processes = [
            ("process_name", each.process_name, (each.process, 0))
            for each in self._tracks.values()
            if each.process is not None
        ]
        return [each for each in (*processes, *named) if each[1]]

    def _process(self, uuid: int) -> int:
        for _ in range(_MAX_PARENTS):
            track = self._tracks.get(uuid)
            if track is None or track.process is not None:
                break
            uuid = track.parent
        process = self.track(uuid).process
        return 0 if process is None else process


def _coded(values: list[int | str], codes: Int64s) -> Coded:
    distinct = {value: place for place, value in enumerate(dict.fromkeys(values))}
    of = np.array([distinct[value] for value in values], np.int64)
    return Coded(of[codes], [*distinct])


def _text(read: Fields, start: int, end: int) -> str:
    return text_of(read.data[start:end].tobytes()) if start >= 0 else ""
