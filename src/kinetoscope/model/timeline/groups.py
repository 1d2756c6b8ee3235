"""What the lanes of a timeline belong to: a device, a process, or what of them says little and is folded at first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import numpy as np

from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.timeline.idle import waiting_tracks
from kinetoscope.model.timeline.tracks import lanes
from kinetoscope.model.trace.trace import Trace

GroupKind = Literal["host", "device", "other"]

_STREAMS: Final = 12
"""Streams of a device that are shown at first, those with the most work."""

_DIGITS: Final = 40  # numbers of processes and devices sort as numbers do


class Group(NamedTuple):
    """Lanes that belong together: a process, or a device; folded: those that say little are asked for."""

    id: str
    title: str
    kind: GroupKind
    folded: bool = False


class Groups:
    """What each lane belongs to: its device, its process, or what of them is folded at first."""

    def __init__(self, trace: Trace, main: int, aside: set[int], work: Mapping[int, int]) -> None:
        """Main: the main thread, −1 for none; aside: tracks of the profiler; work: how much of it each track has."""
        self._named, self._pids, self._aside = lanes(trace), trace.tracks.pids, aside
        self._devices, self._waiting = _device_of_tracks(trace), waiting_tracks(trace)
        self._device_pids = {repr(self._pids[track]) for track in self._devices}
        self._main = main
        self._spare = self._less_busy(work)
        self._known: dict[str, tuple[Group, int]] = {}

    def of(self, track: int, *, is_work: bool) -> Group:
        """The group of a lane; of several titles of one the first counts."""
        lane = self._named[track]
        found = self._device(lane.process, track, is_work) if lane.is_device else self._host(track)
        return self._known.setdefault(found.id, (found, lane.sort[0]))[0]

    def place(self, group: Group) -> tuple[int, bool, int, str]:
        """Where a group stands: devices, the process of the main thread, the other ones, and what is folded."""
        other = self._main >= 0 and group.id != f"host {self._pids[self._main]!r}"
        part = 3 if group.kind == "other" else 2 if group.folded else int(group.kind == "host")
        return part, group.kind == "host" and other, self._known[group.id][1], group.id.rjust(_DIGITS)

    def _device(self, title: str, track: int, is_work: bool) -> Group:
        if track in self._aside:
            return self._profiler()
        number = self._devices.get(track, self._pids[track])
        device = f"device {number}"
        if not is_work and number in self._devices.values():
            return Group(f"{device} annotations", f"{title} · annotations", "device", folded=True)
        if track in self._spare:
            return Group(f"{device} more", f"{title} · streams with less work", "device", folded=True)
        return Group(device, title, "device")

    def _host(self, track: int) -> Group:
        if track in self._aside:
            return self._profiler()
        # Calls that the file has under a device's number are of the process that was recorded.
        process = self._main if self._main >= 0 and repr(self._pids[track]) in self._device_pids else track
        host, title = f"host {self._pids[process]!r}", self._named[process].process
        if track in self._waiting:
            return Group(f"{host} waiting", f"{title} · threads that only wait", "host", folded=True)
        return Group(host, title, "host")

    @staticmethod
    def _profiler() -> Group:
        return Group("other", "profiler", "other", folded=True)

    def _less_busy(self, work: Mapping[int, int]) -> set[int]:
        """Streams beyond the _STREAMS of their device with the most work."""
        streams: dict[int, list[tuple[int, int]]] = {}
        for track, events in work.items():
            if track in self._devices:
                streams.setdefault(self._devices[track], []).append((-events, track))
        return {track for each in streams.values() for _, track in sorted(each)[_STREAMS:]}


def _device_of_tracks(trace: Trace) -> dict[int, int]:
    """The device whose work lies on each track."""
    work = device_work(trace)
    tracks, first = np.unique(trace.track[work.rows], return_index=True)
    return dict(zip(tracks.tolist(), work.device[first].tolist(), strict=True))
