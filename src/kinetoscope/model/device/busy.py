"""The time in which each device of a rank was busy, by kind of work, within a selection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.algorithms.arrays import Bools
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, intersection, merge, union
from kinetoscope.model.execution.work_before import work_before
from kinetoscope.model.graphs.lost_work import no_device_work
from kinetoscope.model.steps.scope import Scope, recorded_span, unclipped
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.notes import Note


@dataclass(frozen=True)
class Busy:
    """One device's time; each set of intervals is a union.

    Attributes:
        device: number of the device, −1 where the file does not say.
        window: from the start of the first to the end of the last selected device work; if steps are selected, the
            device's time in those steps, in which all that runs counts (see `counted_work`); of a range of time what
            was recorded. Time of work from before the recording is left out.
        computation, communication, memory: when work of that kind ran; memory is copies and sets.
    """

    device: int
    window: Intervals
    computation: Intervals
    communication: Intervals
    memory: Intervals

    @property
    def number(self) -> int | None:
        """Number of the device, None where the file does not say."""
        return self.device if self.device >= 0 else None

    @property
    def all(self) -> Intervals:
        """When work of any kind ran."""
        return merge(self.computation, self.communication, self.memory)

    @property
    def gaps(self) -> Intervals:
        """When nothing ran, within the window."""
        return difference(self.window, self.all)


def busy(view: Scope) -> list[Busy]:
    """The time of each device that has work, by number of the device; in a range of time it may have none."""
    window, here = asked_window(view), counted_work(view)
    devices = np.unique(view.device_work.device[counted_work(unclipped(view))]).tolist()
    return [_of_device(view, device, here, window) for device in devices]


def counted_work(view: Scope) -> Bools:
    """The device work that keeps devices busy: bool [work].

    Where steps are selected, it is all that runs in the devices' time of those steps, whoever launched it: a device is
    not idle because its work was launched before the step, or its launch was not recorded.
    """
    steps, work = asked_window(view), view.device_work
    if view.select.steps is None or steps is None or not len(steps.start):
        return view.device_work_mask
    after = np.minimum(np.searchsorted(steps.end, work.start, side="right"), len(steps.start) - 1)
    runs = (work.start < steps.end[after]) & (work.end > steps.start[after])
    return view.device_work_mask | (view.running_mask & runs)


def asked_window(view: Scope) -> Intervals | None:
    """The part of `span_of_steps` in the selected range of time; None where neither steps nor a range are selected."""
    span = span_of_steps(view)
    return None if span is None else union(*view.clipped(*span))


def span_of_steps(view: Scope) -> Intervals | None:
    """The devices' time in the selected steps; with a range of time and no steps, all that was recorded: a union."""
    if view.select.steps is not None:
        return union(*view.steps.device)
    if view.clip is None:
        return None
    low, high = recorded_span(view.trace)
    return Intervals(np.array([low], np.int64), np.array([high], np.int64))


def window_of(view: Scope, device: int, ran: Intervals, asked: Intervals | None) -> Intervals:
    """The window of a device, of the time in which it ran something and the time that is asked about."""
    return difference(whole_window(ran, asked), unrecorded_work(view, device))


def whole_window(ran: Intervals, asked: Intervals | None) -> Intervals:
    """The window with the time of work from before the recording."""
    return Intervals(ran.start[:1], ran.end[-1:]) if asked is None else asked


def unrecorded_work(view: Scope, device: int) -> Intervals:
    """When a device did work from before the recording, and nothing that was recorded."""
    work = view.device_work
    here = work.device == device
    return work_before(view.trace).of_device(device, union(work.start[here], work.end[here]))


def _of_device(view: Scope, device: int, here: Bools, asked: Intervals | None) -> Busy:
    work = view.device_work
    here = here & (work.device == device)

    def ran(*kinds: WorkKind) -> Intervals:
        rows = here & work.of(*kinds)
        time = union(*view.clipped(work.start[rows], work.end[rows]))
        return time if asked is None else intersection(time, asked)

    computation, communication = ran(WorkKind.COMPUTATION), ran(WorkKind.COMMUNICATION)
    memory = ran(WorkKind.MEMCPY, WorkKind.MEMSET)
    window = window_of(view, device, merge(computation, communication, memory), asked)
    return Busy(device, window, computation, communication, memory)


def no_work_note(view: Scope, consequence: str = "") -> Note:
    """The note that there is no row because no device work is selected, and what follows from that."""
    if not len(view.device_work):
        return no_device_work(view.trace, consequence)
    return Note("NO_WORK_SELECTED", "No device work was selected" + (f": {consequence}." if consequence else "."))
