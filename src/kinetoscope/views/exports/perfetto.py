"""A trace for ui.perfetto.dev: its events as they are, with counters, a path marked among them, and lanes that nest.

Events that stand in another lane than in the file (see `perfetto_lanes`) say in their arguments where they stood. Times
that Perfetto would round as numbers, because a float64 of microseconds has no room for their nanoseconds, are written
as texts, which it reads exactly: spans that nest by their nanoseconds would overlap otherwise. Everything else of an
event stays as it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Bools, Floats, Int32s, Int64s
from kinetoscope.model.trace.json_events import FACT_READING, microseconds
from kinetoscope.model.trace.symptoms import facts_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.exports import perfetto_binary, trace_json
from kinetoscope.views.exports.perfetto_lanes import Places, names, places
from kinetoscope.views.exports.trace_json import EventChange, event_texts, value_text

_SPAN: Final = ord("X")
_METADATA: Final = ord("M")
_CONNECTED: Final = frozenset(b"stfbenSTF")
"""Phases of events that an id connects: arrows and asynchronous events."""


@dataclass(frozen=True)
class CounterSeries:
    """A counter: a value holds until the next instant.

    Attributes:
        name: of its track.
        track: a track of the process or device that it stands with; −1 for none.
        key: its unit, which the track names too; "" for none.
        times: int64 [samples], ns as the file counts them, ascending.
        values: float64 [samples]; NaN where it is not known, which leaves the sample out.
    """

    name: str
    track: int
    key: str
    times: Int64s
    values: Floats


@dataclass(frozen=True)
class Marked:
    """Events that are marked, and arrows along them.

    Attributes:
        name: what marks them: `critical` becomes an argument `critical` of each.
        rows: int32 [marked].
        arrows: int32 [arrows, 2], from which row to which.
    """

    name: str
    rows: Int32s
    arrows: Int32s


@dataclass(frozen=True, slots=True)
class PerfettoAdditions:
    """What was added.

    Attributes:
        counters: tracks of counters.
        moved: spans moved to lanes of their own; overlapping: those of them that nest in no lane.
        renumbered: lanes with another number, because Perfetto cannot take theirs.
        marked: events that are marked; arrows: arrows between them.
    """

    counters: int
    moved: int
    overlapping: int
    renumbered: int
    marked: int
    arrows: int


def write(
    trace: Trace,
    path: str | Path,
    *,
    series: Iterable[CounterSeries] = (),
    marked: Marked | None = None,
    rows: NDArray[np.integer[Any]] | None = None,
) -> PerfettoAdditions:
    """Write a trace to a file, compressed if its name ends in `.gz`, in Perfetto's own format if in `.pftrace`.

    The file appears when it is complete.

    rows: the events that are written, ascending; None: all. What is returned counts all.

    Raises:
        OSError: the file cannot be written.
    """
    ready = prepared(trace, series=series, marked=marked, rows=rows)
    among = None if rows is None else rows.tolist()
    if perfetto_binary.is_named(path):
        reading = {FACT_READING: [facts_of(each) for each in trace.reading]} if trace.reading else {}
        texts = event_texts(trace, ready.changes, ready.more, among)
        perfetto_binary.write(texts, path, {**trace.metadata, **reading})
    else:
        trace_json.write(trace, path, changes=ready.changes, more=ready.more, rows=among)
    return ready.additions


@dataclass(frozen=True)
class Moved:
    """How a trace is moved into a file that has those of other ranks.

    Attributes:
        pids: of each track the number of its process there.
        names: metadata events that name these processes, as JSON.
        shift: ns by which events are moved in time.
        ids: the id in the file of an id, as JSON, which connects events.
    """

    pids: Sequence[int]
    names: Sequence[str]
    shift: int
    ids: Callable[[str], str]


@dataclass(frozen=True)
class Prepared:
    """What is written of a trace besides its events as they are.

    Attributes:
        changes: what is written otherwise, by row.
        more: events that follow, as JSON.
        additions: what of it was added.
    """

    changes: Mapping[int, EventChange]
    more: Sequence[str]
    additions: PerfettoAdditions


def prepared(
    trace: Trace,
    *,
    series: Iterable[CounterSeries] = (),
    marked: Marked | None = None,
    rows: NDArray[np.integer[Any]] | None = None,
    moved: Moved | None = None,
) -> Prepared:
    """What to write of `rows` (None: all), where they stand or as `moved` has them."""
    chosen = [_thinned(each) for each in series]
    lanes = places(trace, None if moved is None else moved.pids)
    shift = 0 if moved is None else moved.shift
    of_file = (*_names(trace, lanes, moved), *_counters(chosen, lanes, shift), *_arrows(trace, lanes, marked, moved))
    spans = trace.ph == _SPAN
    additions = PerfettoAdditions(
        counters=sum(len(each.times) > 0 for each in chosen),
        moved=int(np.count_nonzero(spans & (lanes.lane > 0))),
        overlapping=lanes.overlapping,
        renumbered=len(np.unique(trace.track[spans & lanes.renumbered[trace.track]])) if len(trace) else 0,
        marked=len(marked.rows) if marked else 0,
        arrows=len(marked.arrows) if marked else 0,
    )
    return Prepared(_changes(trace, lanes, marked, rows, moved), of_file, additions)


def event(phase: str, name: str, pid: str, **more: str) -> str:
    """An event as JSON; all but its phase and name are JSON already."""
    members = {"ph": json.dumps(phase), "name": value_text(name), "pid": pid, **more}
    return "{" + ", ".join(f'"{key}": {text}' for key, text in members.items()) + "}"


def _names(trace: Trace, lanes: Places, moved: Moved | None) -> Iterator[str]:
    yield from () if moved is None else moved.names
    for what, pid, tid, args in names(trace, lanes):
        if moved is None or what != "process_name":
            yield event("M", what, pid, **({"tid": tid} if tid else {}), args=args)


# --- counters


def _thinned(series: CounterSeries) -> CounterSeries:
    """Without samples that are not known, or repeat the one before."""
    known = np.isfinite(series.values)
    times, values = series.times[known], series.values[known]
    new = np.ones(len(values), np.bool_)
    new[1:] = values[1:] != values[:-1]
    return CounterSeries(series.name, series.track, series.key, times[new], values[new])


def _counters(series: Sequence[CounterSeries], lanes: Places, shift: int) -> Iterator[str]:
    for each in series:
        pid = lanes.pids[each.track] if each.track >= 0 else "0"
        for time, value in zip(each.times.tolist(), each.values.tolist(), strict=True):
            number = json.dumps(int(value) if value.is_integer() else value)
            args = f"{{{value_text(each.key or 'value')}: {number}}}"
            yield event("C", each.name, pid, ts=_time(time + shift), args=args)


# --- times


def _time(nanoseconds: int) -> str:
    """A time as JSON: a number, or a text if Perfetto would round the number."""
    text = microseconds(nanoseconds)
    return f'"{text}"' if _rounded(np.array([nanoseconds]))[0] else text


def _rounded(nanoseconds: Int64s) -> Bools:
    """Which times are no longer the same once they were microseconds as a float64: bool [times]."""
    back = np.rint(nanoseconds / 1000 * 1000)
    return np.asarray((np.abs(back) >= 2.0**53) | (back != nanoseconds))


# --- events


def _changes(
    trace: Trace,
    lanes: Places,
    marked: Marked | None,
    among: NDArray[np.integer[Any]] | None,
    moved: Moved | None,
) -> dict[int, EventChange]:
    """What is written otherwise, by row; events that are changed alike share a change."""
    if not len(trace):
        return {}
    quoted = _rounded(trace.start + (0 if moved is None else moved.shift)) | _rounded(trace.end - trace.start)
    is_marked = np.zeros(len(trace), np.bool_)
    if marked is not None:
        is_marked[marked.rows] = True
    changed = quoted | is_marked | (lanes.lane > 0) | lanes.renumbered[trace.track] | (moved is not None)
    rows = np.flatnonzero(changed) if among is None else among[changed[among]]
    facts = (trace.track, lanes.lane, quoted, is_marked, trace.ph)
    known: dict[tuple[Any, ...], EventChange] = {}
    changes = {}
    for row, *key in zip(rows.tolist(), *(fact[rows].tolist() for fact in facts), strict=True):
        change = known.get(tuple(key))
        if change is None:
            change = known[tuple(key)] = _change(trace, lanes, marked.name if marked else "", moved, *key)
        changes[row] = change
    return changes


def _change(
    trace: Trace,
    lanes: Places,
    mark: str,
    moved: Moved | None,
    track: int,
    lane: int,
    quoted: bool,
    is_marked: bool,
    phase: int,
) -> EventChange:
    pid, tid = lanes.of(track, lane)
    old_pid, old_tid = (value_text(values[track]) for values in (trace.tracks.pids, trace.tracks.tids))
    added = {mark: "1"} if is_marked else {}
    if phase == _SPAN and tid != old_tid:
        added["original tid"] = old_tid
    if phase == _SPAN and pid != old_pid and moved is None:
        added["original pid"] = old_pid
    elsewhere = EventChange(pid if pid != old_pid else "", tid if tid != old_tid else "", quoted, added)
    if moved is None or phase == _METADATA:
        return elsewhere
    return replace(elsewhere, shift=moved.shift, ids=moved.ids if phase in _CONNECTED else None)


def _arrows(trace: Trace, lanes: Places, marked: Marked | None, moved: Moved | None) -> Iterator[str]:
    if marked is None:
        return
    for number, ends in enumerate(marked.arrows.tolist()):
        connection = str(number) if moved is None else moved.ids(f"arrow {number}")
        for phase, row in zip("sf", ends, strict=True):
            pid, tid = lanes.of(int(trace.track[row]), int(lanes.lane[row]))
            bound = {"bp": '"e"'} if phase == "f" else {}
            place = {"tid": tid, "ts": _time(int(trace.start[row]) + (0 if moved is None else moved.shift))}
            yield event(phase, marked.name, pid, **place, cat=value_text(marked.name), id=connection, **bound)
