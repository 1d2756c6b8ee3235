"""The traces of several ranks in one file for ui.perfetto.dev: processes of their own, on one clock.

Each process gets a number that no other one in the file has, and its rank before its name. Ids that connect events are
numbered anew. Times count from the first event of any rank. One trace is held at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools
from kinetoscope.model.timeline.tracks import track_names
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace, stray
from kinetoscope.views.exports import perfetto_binary
from kinetoscope.views.exports.perfetto import CounterSeries, Marked, Moved, PerfettoAdditions, event, prepared
from kinetoscope.views.exports.perfetto_lanes import taken
from kinetoscope.views.exports.trace_json import event_texts, separated, value_text, write_pieces

_PROCESS_NAMES: Final = ("process_name", "process_labels", "process_sort_index")


@dataclass(frozen=True)
class RankPart:
    """A trace for a merged file.

    Attributes:
        trace: its events; those with impossible times are left out.
        shift: ns that make its times those of the file.
        series, marked: as `perfetto.write` takes them.
    """

    trace: Trace
    shift: int
    series: Iterable[CounterSeries] = ()
    marked: Marked | None = None


@dataclass(frozen=True)
class PartWritten:
    """What was written of a trace: events, those left out for impossible times, and what was added."""

    rank: int
    cycle: int
    events: int
    left_out: int
    additions: PerfettoAdditions


@dataclass
class _Numbers:
    """The numbers that are given so far: of processes by rank and pid, and of ids."""

    processes: dict[tuple[int, str], int] = field(default_factory=dict)
    free: Iterator[int] = field(default_factory=lambda: count(1))
    ids: Iterator[int] = field(default_factory=lambda: count(1))

    def process(self, rank: int, pid: Any, avoided: set[int]) -> tuple[int, bool]:
        """The number of a process, and whether it is new."""
        key = rank, value_text(pid)
        new = key not in self.processes
        if new:
            self.processes[key] = next(number for number in self.free if number not in avoided)
        return self.processes[key], new

    def of_ids(self) -> Callable[[str], str]:
        """What gives each id of one trace a number."""
        given: dict[str, str] = {}

        def number(text: str) -> str:
            if text not in given:
                given[text] = str(next(self.ids))
            return given[text]

        return number


def write(parts: Iterable[RankPart], path: str | Path, *, base: int) -> list[PartWritten]:
    """Write a file of all parts, compressed if its name ends in `.gz`. The file appears when it is complete.

    base: the time 0 of the file, ns since 1970.

    Raises:
        OSError: the file cannot be written.
    """
    done: list[PartWritten] = []
    numbers = _Numbers()

    def texts() -> Iterator[str]:
        for part in parts:
            yield from _part(part, numbers, done)

    def document() -> Iterator[str]:
        yield f'{{\n"mergedRanks": true,\n"displayTimeUnit": "ms",\n"baseTimeNanoseconds": {base},\n"traceEvents": ['
        yield from separated(texts())
        yield "\n]\n}\n"

    if perfetto_binary.is_named(path):
        perfetto_binary.write(texts(), path, {"mergedRanks": True, "baseTimeNanoseconds": base})
    else:
        write_pieces(document(), path)
    return done


def _part(part: RankPart, numbers: _Numbers, done: list[PartWritten]) -> Iterator[str]:
    trace = part.trace
    rank = trace.source.rank
    moved = _moved(part, numbers)
    impossible = stray(trace)
    kept = _of_processes_with_events(trace)
    kept[impossible] = False
    kept[_process_names(trace)] = False
    rows = np.flatnonzero(kept)
    ready = prepared(trace, series=part.series, marked=part.marked, rows=rows, moved=moved)
    yield from event_texts(trace, ready.changes, ready.more, rows.tolist())
    done.append(PartWritten(rank, trace.source.cycle, len(rows), len(impossible), ready.additions))


def _of_processes_with_events(trace: Trace) -> Bools:
    """Rows of processes that have more than names, as the devices of other ranks have none: bool [events]."""
    process = np.unique([value_text(pid) for pid in trace.tracks.pids], return_inverse=True)[1]
    events = np.zeros(int(process.max(initial=-1)) + 1, np.bool_)
    events[process[trace.track[trace.kind != EventKind.METADATA]]] = True
    return np.asarray(events[process[trace.track]])


def _process_names(trace: Trace) -> list[int]:
    """Rows that name processes: ours come in their place."""
    rows = trace.rows(EventKind.METADATA).tolist()
    return [row for row in rows if trace.strings.label(int(trace.name[row])) in _PROCESS_NAMES]


def _moved(part: RankPart, numbers: _Numbers) -> Moved:
    trace = part.trace
    rank, avoided, labels = trace.source.rank, taken(trace), track_names(trace)
    pids: list[int] = []
    names: list[str] = []
    has_events = set(trace.track[_of_processes_with_events(trace)].tolist())
    for track, pid in enumerate(trace.tracks.pids):
        number, new = numbers.process(rank, pid, avoided)
        pids.append(number)
        if new and track in has_events:
            of_process = [label for each, label in zip(trace.tracks.pids, labels, strict=True) if each == pid]
            label = next((label for label in of_process if label.is_device), labels[track])
            words = value_text(f"rank {rank} · {label.process}")
            names.append(event("M", "process_name", str(number), args=f'{{"name": {words}}}'))
            order = f'{{"sort_index": {2 * rank + label.is_device}}}'
            names.append(event("M", "process_sort_index", str(number), args=order))
    return Moved(pids, names, part.shift, numbers.of_ids())
