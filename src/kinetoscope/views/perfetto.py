"""A trace for ui.perfetto.dev: its events as they are, with counters, a path marked among them, and lanes that nest.

Perfetto shows a span only if it lies inside or beside the others of its lane, and drops one that overlaps another
partly (google/perfetto#4280). Such spans, and the ends of arrows that hang on them, go to a lane of their own beside
it; `original tid` among their arguments says where they stood. Times that Perfetto would round as numbers, because a
float64 of microseconds has no room for their nanoseconds, are written as texts, which it reads exactly: spans that nest
by their nanoseconds would overlap otherwise. Everything else of an event stays as it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms import ordering, stacking
from kinetoscope.model.events import microseconds
from kinetoscope.model.kinds import EventKind
from kinetoscope.model.lanes import lanes
from kinetoscope.model.trace import Trace
from kinetoscope.views import trace_json
from kinetoscope.views.trace_json import Change, value_text

LANES: Final = 32
"""Lanes of one thread or stream at most; what nests in none of them, Perfetto drops."""

_FIRST_TID: Final = 1_000_000_000
"""Numbers of added lanes begin here, beyond those of threads and streams."""

_ARROWS: Final = (ord("s"), ord("t"), ord("f"))


@dataclass(frozen=True)
class Series:
    """A counter: a value holds until the next instant.

    Attributes:
        name: of its track.
        pid: the process or device that it stands with, as in the file.
        key: its unit, which the track names too; "" for none.
        times: int64 [samples], ns as the file counts them, ascending.
        values: float64 [samples]; NaN where it is not known, which leaves the sample out.
    """

    name: str
    pid: Any
    key: str
    times: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Marked:
    """Events that are marked, and arrows along them.

    Attributes:
        name: what marks them: `critical` becomes an argument `critical` of each.
        rows: int32 [marked].
        arrows: int32 [arrows, 2], from which row to which.
    """

    name: str
    rows: NDArray[np.int32]
    arrows: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Written:
    """What was added.

    Attributes:
        counters: tracks of counters.
        moved: spans moved to lanes of their own; overlapping: those of them that nest in no lane.
        marked: events that are marked; arrows: arrows between them.
    """

    counters: int
    moved: int
    overlapping: int
    marked: int
    arrows: int


@dataclass(frozen=True)
class _Moves:
    """Rows that go to other lanes, the number of that lane for each, and the events that name these lanes."""

    tids: Mapping[int, int] = field(default_factory=dict)
    names: Sequence[str] = ()
    spans: int = 0
    overlapping: int = 0


def write(trace: Trace, path: str | Path, *, series: Iterable[Series] = (), marked: Marked | None = None) -> Written:
    """Write a trace to a file, compressed if its name ends in `.gz`. The file appears when it is complete.

    Raises:
        OSError: the file cannot be written.
    """
    chosen = [_thinned(each) for each in series]
    moves = _moves(trace)
    changes = _changes(trace, moves, marked)
    more = (*_missing_names(trace), *moves.names, *_counters(chosen), *_arrows(trace, moves, marked))
    trace_json.write(trace, path, changes=changes, more=more)
    tracks = sum(len(each.times) > 0 for each in chosen)
    marks = (len(marked.rows), len(marked.arrows)) if marked else (0, 0)
    return Written(tracks, moves.spans, moves.overlapping, *marks)


def _event(phase: str, name: str, pid: Any, **more: Any) -> str:
    members = {"ph": json.dumps(phase), "name": value_text(name), "pid": value_text(pid), **more}
    return "{" + ", ".join(f'"{key}": {text}' for key, text in members.items()) + "}"


# --- counters


def _thinned(series: Series) -> Series:
    """Without samples that are not known, or repeat the one before."""
    known = np.isfinite(series.values)
    times, values = series.times[known], series.values[known]
    new = np.ones(len(values), np.bool_)
    new[1:] = values[1:] != values[:-1]
    return Series(series.name, series.pid, series.key, times[new], values[new])


def _counters(series: Sequence[Series]) -> Iterator[str]:
    for each in series:
        for time, value in zip(each.times.tolist(), each.values.tolist(), strict=True):
            number = json.dumps(int(value) if value.is_integer() else value)
            args = f"{{{value_text(each.key or 'value')}: {number}}}"
            yield _event("C", each.name, each.pid, ts=_time(time), args=args)


# --- times


def _time(nanoseconds: int) -> str:
    """A time as JSON: a number, or a text if Perfetto would round the number."""
    text = microseconds(nanoseconds)
    return f'"{text}"' if _rounded(np.array([nanoseconds]))[0] else text


def _rounded(nanoseconds: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which times are no longer the same once they were microseconds as a float64: bool [times]."""
    back = np.rint(nanoseconds / 1000 * 1000)
    return (np.abs(back) >= 2.0**53) | (back != nanoseconds)


# --- lanes


def _moves(trace: Trace) -> _Moves:
    """Find the spans that overlap others partly, and a lane for each."""
    spans = (trace.ph == ord("X")) & (trace.end >= trace.start)
    order, offsets = ordering.track_order(trace.track, trace.start, trace.end, tracks=len(trace.tracks), selected=spans)
    lane = stacking.stacked(trace.start, trace.end, order, offsets, most=LANES)
    rows = np.flatnonzero(lane > 0)
    if not len(rows):
        return _Moves()
    tids, names = _new_lanes(trace, sorted(set(zip(trace.track[rows].tolist(), lane[rows].tolist(), strict=True))))
    moved = {row: tids[int(trace.track[row]), int(lane[row])] for row in rows.tolist()}
    moved |= _arrow_ends(trace, lane, tids)
    return _Moves(moved, names, len(rows), _overlapping(trace, order, lane))


def _new_lanes(trace: Trace, wanted: Sequence[tuple[int, int]]) -> tuple[dict[tuple[int, int], int], list[str]]:
    """A number for each lane beside a track, and the events that name it and put it there."""
    taken = {*trace.tracks.integer_tids().tolist(), *trace.tracks.integer_pids().tolist()}
    tids: dict[tuple[int, int], int] = {}
    names = []
    known = trace.of(lanes)
    free = _FIRST_TID
    for track, number in wanted:
        while free in taken:
            free += 1
        tids[track, number] = free
        words = f"{known[track].name} (overlapping{f' {number}' if number > 1 else ''})"
        pid = trace.tracks.pids[track]
        names.append(_event("M", "thread_name", pid, tid=free, args=f'{{"name": {value_text(words)}}}'))
        place = f'{{"sort_index": {known[track].sort[1]}}}'
        names.append(_event("M", "thread_sort_index", pid, tid=free, args=place))
        free += 1
    return tids, names


def _arrow_ends(trace: Trace, lane: NDArray[np.int32], tids: Mapping[tuple[int, int], int]) -> dict[int, int]:
    """The ends of arrows that hang on a moved span: those at its start, where no span that stays starts."""
    arrows = np.flatnonzero(np.isin(trace.ph, _ARROWS))
    moved = np.flatnonzero(lane > 0)
    arrows = arrows[np.isin(trace.start[arrows], trace.start[moved])]
    if not len(arrows):
        return {}
    stays = np.flatnonzero(lane == 0)
    stays = stays[np.isin(trace.start[stays], trace.start[arrows])]
    at = {
        (int(trace.track[row]), int(trace.start[row])): int(lane[row])
        for row in (*moved.tolist(), *stays.tolist())  # the last counts: a span that stays
    }
    found = {
        row: (int(trace.track[row]), at.get((int(trace.track[row]), int(trace.start[row])), 0))
        for row in arrows.tolist()
    }
    return {row: tids[key] for row, key in found.items() if key[1] > 0}


def _overlapping(trace: Trace, order: NDArray[np.int32], lane: NDArray[np.int32]) -> int:
    """How many spans in the last lane of a track do not nest there either."""
    last = order[lane[order] == LANES - 1]
    if not len(last):
        return 0
    again, offsets = ordering.track_order(
        trace.track, trace.start, trace.end, tracks=len(trace.tracks), selected=lane == LANES - 1
    )
    return int((stacking.stacked(trace.start, trace.end, again, offsets, most=2)[last] > 0).sum())


def _missing_names(trace: Trace) -> Iterator[str]:
    """Names for processes and lanes that have spans but no name in the file."""
    rows = trace.rows(EventKind.METADATA)
    named: dict[str, set[int]] = {}
    for row in rows.tolist():
        named.setdefault(trace.strings.label(int(trace.name[row])), set()).add(int(trace.track[row]))
    pids = {repr(trace.tracks.pids[track]) for track in named.get("process_name", ())}
    for track in np.unique(trace.track[trace.ph == ord("X")]).tolist():
        pid, lane = trace.tracks.pids[track], trace.of(lanes)[track]
        if pid is not None and repr(pid) not in pids:
            pids.add(repr(pid))
            yield _event("M", "process_name", pid, args=f'{{"name": {value_text(lane.process)}}}')
        if track not in named.get("thread_name", ()) and trace.tracks.tids[track] is not None:
            tid = value_text(trace.tracks.tids[track])
            yield _event("M", "thread_name", pid, tid=tid, args=f'{{"name": {value_text(lane.name)}}}')


# --- what is marked


def _changes(trace: Trace, moves: _Moves, marked: Marked | None) -> dict[int, Change]:
    marks = {} if marked is None else {row: {marked.name: "1"} for row in marked.rows.tolist()}
    rounded = _rounded(trace.start) | _rounded(trace.end - trace.start)
    changes = {row: Change(quoted_times=True) for row in np.flatnonzero(rounded).tolist()}
    for row, arguments in marks.items():
        changes[row] = Change(quoted_times=row in changes, arguments=arguments)
    for row, tid in moves.tids.items():
        original = {"original tid": value_text(trace.tracks.tids[int(trace.track[row])])}
        added = {} if trace.ph[row] in _ARROWS else marks.get(row, {}) | original
        changes[row] = Change(str(tid), row in changes and changes[row].quoted_times, added)
    return changes


def _arrows(trace: Trace, moves: _Moves, marked: Marked | None) -> Iterator[str]:
    if marked is None:
        return
    for number, ends in enumerate(marked.arrows.tolist()):
        for phase, row in zip("sf", ends, strict=True):
            pid, tid = (values[int(trace.track[row])] for values in (trace.tracks.pids, trace.tracks.tids))
            place = {"tid": value_text(moves.tids.get(row, tid)), "ts": _time(int(trace.start[row]))}
            bound = {"bp": '"e"'} if phase == "f" else {}
            yield _event(phase, marked.name, pid, **place, cat=value_text(marked.name), id=str(number), **bound)
