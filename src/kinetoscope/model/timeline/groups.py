"""Groups of the lanes of a timeline: devices, processes, and lanes that are folded at first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s, any_of
from kinetoscope.model.execution.call_tree import call_tree, main_thread
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.runtime_calls import SYNCHRONIZING_CALLS, runtime_call_kinds
from kinetoscope.model.timeline.tracks import track_names
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace

GroupKind = Literal["host", "device", "other"]

_SHOWN_STREAMS: Final = 12
"""Streams of a device that are shown at first, those with the most work."""

_ID_DIGITS: Final = 40  # numbers of processes and devices sort as numbers do


_WAITING_CALL: Final = re.compile(
    r"(?:: |<built-in (?:method|function) |<method ')_?(?:wait\w*|acquire\w*|select|poll|sleep|accept|recv\w*)\b"
    r"|\bqueue\.py\(\d+\): get\b"
)

_WAITING_SHARE: Final = 0.98
"""Share of a thread's own time in waiting calls, from which on it only waits: pools that nobody uses, monitors of
progress bars, workers without work."""


class LaneGroup(NamedTuple):
    """Lanes that belong together: a process, or a device; folded: shown on request."""

    id: str
    title: str
    kind: GroupKind
    folded: bool = False


class LaneGroups:
    """The group of each lane: its device, its process, or lanes of these that are folded at first."""

    def __init__(self, trace: Trace, main: int, aside: set[int], work: Mapping[int, int]) -> None:
        """Main: the main thread, −1 for none; aside: tracks of the profiler; work: its amount on each track."""
        self._named, self._pids, self._aside = track_names(trace), trace.tracks.pids, aside
        self._devices, self._waiting = _device_of_tracks(trace), waiting_tracks(trace)
        self._device_pids = {repr(self._pids[track]) for track in self._devices}
        self._main = main
        self._spare = self._less_busy(work)
        self._known: dict[str, tuple[LaneGroup, int]] = {}

    def of(self, track: int, *, is_work: bool) -> LaneGroup:
        """The group of a lane; of several titles of one the first counts."""
        lane = self._named[track]
        group = self._device(lane.process, track, is_work) if lane.is_device else self._host(track)
        return self._known.setdefault(group.id, (group, lane.sort[0]))[0]

    def place(self, group: LaneGroup) -> tuple[int, bool, int, str]:
        """The place of a group: devices, the process of the main thread, the other ones, and what is folded."""
        other = self._main >= 0 and group.id != f"host {self._pids[self._main]!r}"
        part = 3 if group.kind == "other" else 2 if group.folded else int(group.kind == "host")
        return part, group.kind == "host" and other, self._known[group.id][1], group.id.rjust(_ID_DIGITS)

    def _device(self, title: str, track: int, is_work: bool) -> LaneGroup:
        if track in self._aside:
            return self._profiler()
        number = self._devices.get(track, self._pids[track])
        device = f"device {number}"
        if not is_work and number in self._devices.values():
            return LaneGroup(f"{device} annotations", f"{title} · annotations", "device", folded=True)
        if track in self._spare:
            return LaneGroup(f"{device} more", f"{title} · streams with less work", "device", folded=True)
        return LaneGroup(device, title, "device")

    def _host(self, track: int) -> LaneGroup:
        if track in self._aside:
            return self._profiler()
        # Calls that the file has under a device's number are of the process that was recorded.
        process = self._main if self._main >= 0 and repr(self._pids[track]) in self._device_pids else track
        host, title = f"host {self._pids[process]!r}", self._named[process].process
        if track in self._waiting:
            return LaneGroup(f"{host} waiting", f"{title} · threads that only wait", "host", folded=True)
        return LaneGroup(host, title, "host")

    @staticmethod
    def _profiler() -> LaneGroup:
        return LaneGroup("other", "profiler", "other", folded=True)

    def _less_busy(self, work: Mapping[int, int]) -> set[int]:
        """Streams beyond the _SHOWN_STREAMS of their device with the most work."""
        streams: dict[int, list[tuple[int, int]]] = {}
        for track, events in work.items():
            if track in self._devices:
                streams.setdefault(self._devices[track], []).append((-events, track))
        return {track for each in streams.values() for _, track in sorted(each)[_SHOWN_STREAMS:]}


def _device_of_tracks(trace: Trace) -> dict[int, int]:
    """The device whose work lies on each track."""
    work = device_work(trace)
    tracks, first = np.unique(trace.track[work.rows], return_index=True)
    return dict(zip(tracks.tolist(), work.device[first].tolist(), strict=True))


@derived
def waiting_tracks(trace: Trace) -> frozenset[int]:
    """The threads that spend all but 2 % of their time in calls that wait.

    The main thread and those that launch device work are none of them.
    """
    calls = call_tree(trace)
    launch = device_work(trace).launch
    working = {main_thread(trace), *np.unique(trace.track[launch[launch >= 0]]).tolist()}
    others = [track for track in np.flatnonzero(np.diff(calls.offsets)).tolist() if track not in working]
    parts = [calls.order[calls.offsets[track] : calls.offsets[track + 1]] for track in others]
    rows = np.concatenate([np.empty(0, np.int32), *parts])
    own = _own_time(trace, rows)
    codes = [code for code in np.unique(trace.name[rows]).tolist() if _WAITING_CALL.search(trace.strings.glance(code))]
    waits = (trace.kind[rows] == EventKind.PYTHON) & any_of(trace.name[rows], codes)
    waits |= any_of(runtime_call_kinds(trace)[rows], SYNCHRONIZING_CALLS)
    tracks = len(trace.tracks)
    whole = np.bincount(trace.track[rows], weights=own, minlength=tracks)
    waited = np.bincount(trace.track[rows], weights=np.where(waits, own, 0), minlength=tracks)
    return frozenset(np.flatnonzero((whole > 0) & (waited >= _WAITING_SHARE * whole)).tolist())


def _own_time(trace: Trace, rows: Int32s) -> Int64s:
    """Duration of all calls of some threads less that of the calls directly inside each, ns."""
    parent = call_tree(trace).parent[rows]
    length = np.maximum(trace.end[rows] - trace.start[rows], 0)
    own = np.zeros(len(trace), np.int64)
    own[rows] = length
    np.subtract.at(own, parent[parent >= 0], length[parent >= 0])
    return np.maximum(own[rows], 0)
