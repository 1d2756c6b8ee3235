"""Names for people: of processes, threads and streams, as the file's metadata events give them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinetoscope.model.device import device_work
from kinetoscope.model.kinds import EventKind
from kinetoscope.model.trace import Trace


@dataclass(frozen=True, slots=True)
class Lane:
    """What a track is called.

    Attributes:
        process: name of the process, or label of the device.
        name: name of the thread or stream.
        is_device: device work lies on it, or it is labelled as a GPU's.
        sort: the place that the file asks for, of the process and of the lane in it.
    """

    process: str
    name: str
    is_device: bool
    sort: tuple[int, int]


def lanes(trace: Trace) -> tuple[Lane, ...]:
    """The lanes of all tracks, by track number. Of several names for one thread the last one counts, as in viewers."""
    processes: dict[Any, dict[str, Any]] = {}
    threads: dict[tuple[Any, Any], dict[str, Any]] = {}
    for pid, tid, what, arguments in _metadata_events(trace):
        for key, value in arguments.items():
            if what.startswith("process_"):
                processes.setdefault(pid, {})[f"{what} {key}"] = value
            elif what.startswith("thread_"):
                threads.setdefault((pid, tid), {})[f"{what} {key}"] = value
    device_tracks = set(np.unique(trace.track[trace.of(device_work).rows]).tolist())
    return tuple(
        _lane(track, pid, tid, processes.get(_key(pid), {}), threads.get((_key(pid), _key(tid)), {}), device_tracks)
        for track, (pid, tid) in enumerate(zip(trace.tracks.pids, trace.tracks.tids, strict=True))
    )


def _lane(track: int, pid: Any, tid: Any, process: dict[str, Any], thread: dict[str, Any], devices: set[int]) -> Lane:
    labels = _text(process.get("process_labels labels"))
    is_device = track in devices or labels.startswith("GPU")
    named = _text(process.get("process_name name"))
    default = f"device {pid}" if is_device else f"process {pid}"
    words = labels if is_device and labels else named or labels or default  # a device has the process's name, too
    name = _text(thread.get("thread_name name"))
    if not name:  # tids were texts such as `stream 7` in 2021
        name = _text(tid) if isinstance(tid, str) and " " in tid else f"{'stream' if is_device else 'thread'} {tid}"
    order = (_number(process.get("process_sort_index sort_index")), _number(thread.get("thread_sort_index sort_index")))
    return Lane(words, name.strip(), is_device, order)


def _metadata_events(trace: Trace) -> Iterator[tuple[Any, Any, str, dict[str, Any]]]:
    for row in trace.rows(EventKind.METADATA).tolist():
        event = trace.event(row)
        arguments = event.get("args")
        if isinstance(arguments, dict):
            yield _key(event.get("pid")), _key(event.get("tid")), _text(event.get("name")), arguments


def _key(identity: Any) -> Any:
    """A pid or tid as a key: the eras write the same thread as a number here and as a text there."""
    return identity if isinstance(identity, (int, str, float, type(None))) else repr(identity)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
