"""What a Selection leaves of a trace: which host events, which device work, which steps, which window of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.intervals import Intervals
from kinetoscope.errors import UsageError
from kinetoscope.model.device import DeviceWork, device_work
from kinetoscope.model.kinds import EventKind
from kinetoscope.model.selection import Selection
from kinetoscope.model.steps import Steps, step_of, steps
from kinetoscope.model.trace import Trace


@dataclass(frozen=True)
class Scope:
    """A trace seen through a Selection.

    Attributes:
        steps: the steps selected, with host and device intervals (not clipped).
        host: bool [events], host events selected.
        work: bool [work], device work selected, aligned with `device_work(trace)`.
        clip: the range of time to which intervals are clipped, ns, or None.
        notes: what must be said about the selection.
    """

    trace: Trace
    select: Selection
    steps: Steps
    host: NDArray[np.bool_]
    work: NDArray[np.bool_]
    clip: tuple[int, int] | None
    notes: tuple[str, ...]

    @property
    def device_work(self) -> DeviceWork:
        """All device work of the trace; `work` says which of it is selected."""
        return self.trace.of(device_work)

    def clipped(self, start: NDArray[np.int64], end: NDArray[np.int64]) -> Intervals:
        """Intervals cut to the selected range of time; those outside become empty."""
        if self.clip is None:
            return Intervals(start, end)
        low, high = self.clip
        return Intervals(np.clip(start, low, high), np.clip(end, low, high))


def origin_of_time(trace: Trace) -> int:
    """The first instant of anything but names and the recording's own span: where a trace's clock is shown to begin, ns."""
    shown = ~np.isin(trace.kind, (EventKind.METADATA, EventKind.SPAN, EventKind.OTHER))
    return int(trace.start[shown].min()) if shown.any() else 0


def scope(trace: Trace, select: Selection) -> Scope:
    """Apply a selection to a trace.

    Raises:
        UsageError: a step, thread, device or annotation was asked for that the trace does not have.
    """
    found = trace.of(steps, select.steps_by)
    work = trace.of(device_work)
    chosen, marks = _chosen_steps(found, select)
    clip = None
    if select.time is not None:
        origin = trace.of(origin_of_time)
        clip = (origin + select.time[0], origin + select.time[1])
    anchor = np.where(work.launch >= 0, work.launch, work.rows)  # the event whose place decides
    host = np.ones(len(trace), np.bool_)
    taken = np.ones(len(work), np.bool_)
    if select.steps is not None:
        host &= step_of(marks, trace.start) >= 0
        taken &= step_of(marks, trace.start[anchor]) >= 0
    if select.annotation is not None:
        inside = _inside_annotation(trace, select.annotation)
        host &= inside
        taken &= inside[anchor] & (work.launch >= 0)
    if select.threads is not None:
        on_threads = np.isin(trace.tracks.integer_tids(), select.threads)[trace.track]
        host &= on_threads
        taken &= on_threads[anchor] & (work.launch >= 0)
    if select.devices is not None:
        taken &= np.isin(work.device, select.devices)
    if select.streams is not None:
        taken &= np.isin(work.stream, select.streams)
    if clip is not None:
        host &= (trace.start >= clip[0]) & (trace.start < clip[1])
        taken &= (work.start < clip[1]) & (work.end > clip[0])
    return Scope(trace, select, chosen, host, taken, clip, (found.note,) if found.note else ())


def _chosen_steps(found: Steps, select: Selection) -> tuple[Steps, Intervals]:
    if select.steps is None:
        return found, found.host
    there = np.isin(found.number, select.steps)
    if not there.any():
        have = f"{found.number.min()}-{found.number.max()}" if len(found) else "none"
        wanted = ", ".join(map(str, select.steps[:10]))
        raise UsageError(f"no step {wanted} in this trace; it has {have}")
    host = Intervals(found.host.start[there], found.host.end[there])
    device = Intervals(found.device.start[there], found.device.end[there])
    return Steps(found.number[there], host, device, found.origin, found.note), host


def _inside_annotation(trace: Trace, name: str) -> NDArray[np.bool_]:
    """Which events start inside an annotation of this name on its thread: bool [events]."""
    rows = np.flatnonzero((trace.kind == EventKind.ANNOTATION) & (trace.name == trace.strings.code(name)))
    if not len(rows):
        raise UsageError(f"no annotation is called {name!r} in this trace")
    inside = np.zeros(len(trace), np.bool_)
    for track in np.unique(trace.track[rows]).tolist():
        spans = rows[trace.track[rows] == track]
        spans = spans[np.argsort(trace.start[spans], kind="stable")]
        reach = np.maximum.accumulate(trace.end[spans])  # of nested spans of one name the outer one counts
        here = np.flatnonzero(trace.track == track)
        index = np.searchsorted(trace.start[spans], trace.start[here], side="right") - 1
        inside[here] = (index >= 0) & (trace.start[here] < reach[np.maximum(index, 0)])
    return inside
