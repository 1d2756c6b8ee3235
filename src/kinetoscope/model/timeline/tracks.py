"""Names for people: of processes, threads and streams, as the file's metadata events give them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinetoscope.algorithms.arrays import Int32s
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import HOST_KINDS, EventKind
from kinetoscope.model.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class TrackName:
    """The name of a track.

    Attributes:
        process: name of the process, or label of the device.
        name: name of the thread or stream.
        is_device: device work lies on it, or it is labelled as a GPU's and no call of the host lies on it.
        sort: the place that the file asks for, of the process and of the lane in it.
    """

    process: str
    name: str
    is_device: bool
    sort: tuple[int, int]


@derived
def track_names(trace: Trace) -> tuple[TrackName, ...]:
    """The names of all tracks, by track number.

    Of several names for one thread the last one counts, as in viewers. Some versions of torch write the Python calls of
    a thread that began before the recording with the pid of a device: these are the host's all the same.
    """
    processes: dict[Any, dict[str, Any]] = {}
    threads: dict[tuple[Any, Any], dict[str, Any]] = {}
    for pid, tid, what, arguments in _metadata_events(trace):
        for key, value in arguments.items():
            if what.startswith("process_"):
                processes.setdefault(pid, {})[f"{what} {key}"] = value
            elif what.startswith("thread_"):
                threads.setdefault((pid, tid), {})[f"{what} {key}"] = value
    works, calls = _tracks_with(trace, device_work(trace).rows), _tracks_with(trace, trace.rows(*HOST_KINDS))
    return tuple(
        _track_name(pid, tid, processes.get(_key(pid), {}), threads.get((_key(pid), _key(tid)), {}), *kinds)
        for pid, tid, *kinds in zip(trace.tracks.pids, trace.tracks.tids, works, calls, strict=True)
    )


def _tracks_with(trace: Trace, rows: Int32s) -> list[bool]:
    """True for each track on which any of these events lie."""
    has: list[bool] = (np.bincount(trace.track[rows], minlength=len(trace.tracks)) > 0).tolist()
    return has


def _track_name(
    pid: Any, tid: Any, process: dict[str, Any], thread: dict[str, Any], works: bool, calls: bool
) -> TrackName:
    """The name of a track on which device work or calls of the host lie."""
    labels = _text(process.get("process_labels labels"))
    is_device = works or (labels.startswith("GPU") and not calls)
    named = _text(process.get("process_name name"))
    default = f"GPU {pid}" if is_device else f"process {pid}"  # as all pages call what the file does not name
    default = _text(pid) if isinstance(pid, str) and " " in pid else default  # such as `GPU 0 Counters`
    words = labels if is_device and labels else named or labels or default  # a device has the process's name, too
    name = _text(thread.get("thread_name name"))
    if not name:  # tids were texts such as `stream 7` in 2021
        name = _text(tid) if isinstance(tid, str) and " " in tid else f"{'stream' if is_device else 'thread'} {tid}"
    order = (_number(process.get("process_sort_index sort_index")), _number(thread.get("thread_sort_index sort_index")))
    return TrackName(words, name.strip(), is_device, order)


def metadata_rows(trace: Trace) -> Int32s:
    """The metadata events that count, in order: of those of one track, name and shape the last.

    Files name a thread anew with each of its events, hundreds of thousands of times; the last one overrides the rest.
    """
    rows = trace.rows(EventKind.METADATA)
    columns = np.stack([trace.track[rows], trace.name[rows], trace.shape[rows]])
    order = np.lexsort((rows, *columns))
    sorted_columns = columns[:, order]
    last = np.append((sorted_columns[:, 1:] != sorted_columns[:, :-1]).any(axis=0), True)[: len(rows)]
    chosen: Int32s = np.sort(rows[order[last]])
    return chosen


def _metadata_events(trace: Trace) -> Iterator[tuple[Any, Any, str, dict[str, Any]]]:
    for row in metadata_rows(trace).tolist():
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
