"""Where the events of a trace stand for Perfetto: its numbers for processes and threads, and lanes in which spans nest.

Perfetto drops a span that overlaps another of its lane partly (google/perfetto#4280), takes a pid or tid that is no
unsigned 32-bit number for 0, and tid 0 for the tid that equals the pid: threads would merge, and their spans overlap.
So such lanes get other numbers, and spans that overlap a lane beside their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms import ordering
from kinetoscope.algorithms.arrays import Bools, Int32s
from kinetoscope.algorithms.layout import stacking
from kinetoscope.model.timeline.tracks import track_names
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.exports.trace_json import value_text

MAX_LANES: Final = 32
"""Lanes of one thread or stream at most; what nests in none of them, Perfetto drops."""

_FIRST_LANE_ID: Final = 1_000_000_000
"""New numbers begin here, beyond those of threads and streams."""

_END_OF_LANE_IDS: Final = 1 << 32
_ARROWS: Final = (ord("s"), ord("t"), ord("f"))
_SPAN: Final = ord("X")


@dataclass(frozen=True)
class Places:
    """Where everything goes.

    Attributes:
        pids, tids: JSON of each track's process and thread, as Perfetto gets them.
        renumbered: bool [tracks], which tracks have another pid or tid than in the file.
        lane: int32 [events], 0 for the track itself; others only for spans that overlap, and the arrows at them.
        other_lanes: the tid of each other lane, by track and lane.
        overlapping: spans that nest in no lane.
    """

    pids: Sequence[str]
    tids: Sequence[str]
    renumbered: Bools
    lane: Int32s
    other_lanes: dict[tuple[int, int], str]
    overlapping: int

    def of(self, track: int, lane: int) -> tuple[str, str]:
        """Process and thread of a lane, as JSON."""
        return self.pids[track], self.other_lanes[track, lane] if lane else self.tids[track]


def places(trace: Trace, pids: Sequence[Any] | None = None) -> Places:
    """Find a place for every event; `pids`: of each track the number of its process, if it gets another one."""
    tracks = trace.tracks
    free = _free(taken(trace))
    pids = _numbered(tracks.pids, free) if pids is None else pids
    kept = {(repr(pid), repr(tid)) for pid, tid in zip(tracks.pids, tracks.tids, strict=True)}
    tids = [
        next(free) if _is_odd(tid) or (tid == 0 and pid != 0 and (repr(pid), repr(pid)) in kept) else tid
        for pid, tid in zip(tracks.pids, tracks.tids, strict=True)
    ]
    renumbered = [
        pid is not old_pid or tid is not old_tid
        for pid, tid, old_pid, old_tid in zip(pids, tids, tracks.pids, tracks.tids, strict=True)
    ]
    lane, overlapping = _lanes(trace)
    used = np.flatnonzero(lane)
    other_lanes = sorted(set(zip(trace.track[used].tolist(), lane[used].tolist(), strict=True)))
    return Places(
        [value_text(pid) for pid in pids],
        [value_text(tid) for tid in tids],
        np.array(renumbered, np.bool_),
        lane,
        {key: str(next(free)) for key in other_lanes},
        overlapping,
    )


def taken(trace: Trace) -> set[int]:
    """The numbers of all processes and threads."""
    return {number for number in (*trace.tracks.pids, *trace.tracks.tids) if type(number) is int}


def _free(taken: set[int]) -> Iterator[int]:
    number = _FIRST_LANE_ID
    while True:
        if number not in taken:
            yield number
        number += 1


def _is_odd(number: Any) -> bool:
    return type(number) is int and not 0 <= number < _END_OF_LANE_IDS


def _numbered(pids: Sequence[Any], free: Iterator[int]) -> list[Any]:
    """The pids, other numbers in place of those that Perfetto cannot take: one for each."""
    new: dict[int, int] = {}
    for pid in pids:
        if _is_odd(pid) and pid not in new:
            new[pid] = next(free)
    return [new[pid] if _is_odd(pid) else pid for pid in pids]


# --- spans that overlap


def _lanes(trace: Trace) -> tuple[Int32s, int]:
    """The lane of each event, and how many spans nest in none."""
    spans = (trace.ph == _SPAN) & (trace.end >= trace.start)
    lane = _stacked(trace, spans, MAX_LANES)
    last = lane == MAX_LANES - 1
    overlapping = int((_stacked(trace, last, 2)[last] > 0).sum()) if last.any() else 0
    moved = np.flatnonzero(lane > 0)
    lane = np.maximum(lane, 0)
    if len(moved):
        _move_arrows(trace, spans, moved, lane)
    return lane, overlapping


def _stacked(trace: Trace, selected: Bools, most: int) -> Int32s:
    order, offsets = ordering.track_order(
        trace.track, trace.start, trace.end, tracks=len(trace.tracks), selected=selected
    )
    return stacking.stacked(trace.start, trace.end, order, offsets, most=most)


def _move_arrows(trace: Trace, spans: Bools, moved: NDArray[np.intp], lane: Int32s) -> None:
    """Put the ends of arrows that hang on moved spans, at their start, where no span that stays starts, beside them."""
    arrows = np.flatnonzero(np.isin(trace.ph, _ARROWS) & np.isin(trace.start, trace.start[moved]))
    stays = np.flatnonzero(spans & (lane == 0) & np.isin(trace.start, trace.start[arrows]))
    at = {
        (int(trace.track[row]), int(trace.start[row])): int(lane[row])
        for row in (*moved.tolist(), *stays.tolist())  # the last counts: a span that stays
    }
    for row in arrows.tolist():
        lane[row] = at.get((int(trace.track[row]), int(trace.start[row])), 0)


# --- names


def names(trace: Trace, where: Places) -> Iterator[tuple[str, str, str, str]]:
    """What the file does not name: (what, pid, tid, args), as JSON but the first; tid "" for a process."""
    named: dict[str, set[int]] = {}
    for row in trace.rows(EventKind.METADATA).tolist():
        named.setdefault(trace.strings.label(int(trace.name[row])), set()).add(int(trace.track[row]))
    pids = {where.pids[track] for track in named.get("process_name", ())}
    labels = track_names(trace)
    for track in np.unique(trace.track[trace.ph == _SPAN]).tolist():
        pid, tid = where.of(track, 0)
        if pid not in (*pids, "null"):
            pids.add(pid)
            yield "process_name", pid, "", _args("name", labels[track].process)
        if track not in named.get("thread_name", ()) and tid != "null":
            yield "thread_name", pid, tid, _args("name", labels[track].name)
    for (track, number), tid in where.other_lanes.items():
        words = f"{labels[track].name} (overlapping{f' {number}' if number > 1 else ''})"
        yield "thread_name", where.pids[track], tid, _args("name", words)
        yield "thread_sort_index", where.pids[track], tid, _args("sort_index", labels[track].sort[1])


def _args(key: str, value: str | int) -> str:
    return f"{{{json.dumps(key)}: {value_text(value)}}}"
