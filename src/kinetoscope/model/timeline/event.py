"""Everything about one event of the timeline: times, arguments, where it was called, what it launched, its like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.execution.autograd import backward_links
from kinetoscope.model.execution.call_tree import call_tree, main_thread, self_times
from kinetoscope.model.execution.calls import call_names
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.execution.stream_waits import stream_waits
from kinetoscope.model.steps.steps import step_of, steps
from kinetoscope.model.timeline.call_context import Around, around, launch_of, launched_in
from kinetoscope.model.timeline.categories import MARK_KINDS, mark_kinds
from kinetoscope.model.timeline.layout import timeline, times
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

ArrowKind = Literal["launch", "forward_backward", "wait"]

_ARROWS: Final = 200
"""Arrows of an event at most, and rows of what it launched."""

_WAITING: Final = 1_000_000
"""Device work up to which is looked for what waited for what: it takes a second."""


@dataclass(frozen=True, slots=True)
class End:
    """Of an arrow: an event, and the time on it, ns after the origin."""

    row: int
    time: int


@dataclass(frozen=True, slots=True)
class Arrow:
    """From what causes to what follows."""

    start: End
    end: End
    kind: ArrowKind


@dataclass(frozen=True, slots=True)
class Same:
    """The events of the same name and kind.

    Attributes:
        calls: how many; per_step: in a step on average, None if there is one step or none.
        total: device time, ns: of device work its own, of calls that of all that was launched in them; where no device
            work was recorded the time of the calls themselves.
        share: of all device time; of the time of the main thread's outermost calls where there is none.
        on_device: whether it is device time.
    """

    calls: int
    per_step: float | None
    total: int
    share: float | None
    on_device: bool


@dataclass(frozen=True)
class Details:
    """An event. Rows are −1, times None where there is nothing to tell.

    Attributes:
        row, name, category: as in the file.
        kind: one of MARK_KINDS.
        depth: in its lane.
        start, end: ns after the origin; duration: end less start.
        own: of the duration what no call inside it covers.
        step: number.
        arguments: as in the file.
        around: its stack and module; of device work those of its launch.
        parent: the call around it.
        launched: device work of this call and those inside it, in order of launch, the first 200.
        launched_by: the call that launched this device work.
        forward, backward: the operator of the other pass that belongs to it.
        device_total: of what it launched, each in full; of how many pieces: device_kernels.
        launch_delay: from the end of the launching call to the start of the (first) work; 0 if that began before.
        same: its like.
        arrows: the first 200.
    """

    row: int
    name: str
    category: str
    kind: str
    depth: int
    start: int
    end: int
    own: int | None
    step: int | None
    arguments: Mapping[str, Any]
    around: Around
    parent: int
    launched: tuple[int, ...]
    launched_by: int
    forward: int
    backward: int
    device_total: int | None
    device_kernels: int
    launch_delay: int | None
    same: Same
    arrows: tuple[Arrow, ...]

    @property
    def duration(self) -> int:
        """How long it took, ns."""
        return self.end - self.start


@derived
def details(trace: Trace, row: int, steps_by: str | None = None) -> Details:
    """All about an event; `steps_by` as for `steps`."""
    start, end = times(trace)
    layout, calls, work = timeline(trace), call_tree(trace), device_work(trace)
    begin = int(start[row])
    launch = launch_of(trace, row)
    places = launched_in(trace, row)
    rows = work.rows[places]
    forward = int(backward_links(trace).forward[row])
    backward = np.flatnonzero(backward_links(trace).forward == row)
    arguments = _arguments(trace, row)
    return Details(
        row=row,
        name=trace.strings.label(int(trace.name[row])),
        category=trace.strings.label(int(trace.category[row])),
        kind=MARK_KINDS[mark_kinds(trace)[row]],
        depth=int(layout.depth[row]),
        start=begin - layout.origin,
        end=max(int(end[row]), begin) - layout.origin,
        own=int(self_times(trace)[row]) if calls.member[row] else None,
        step=_step(trace, launch if launch >= 0 else row, steps_by),
        arguments=arguments,
        around=around(trace, launch if launch >= 0 else row),
        parent=int(calls.parent[row]),
        launched=tuple(rows[:_ARROWS].tolist()),
        launched_by=launch,
        forward=forward,
        backward=int(backward[0]) if len(backward) else -1,
        device_total=int(work.duration[places].sum()) if len(places) else None,
        device_kernels=len(places),
        launch_delay=_delay(trace, work, row, launch, places),
        same=same_as(trace, int(call_names(trace)[row]), int(trace.kind[row]), steps_by),
        arrows=tuple(islice(_arrows(trace, row, launch, rows, forward, backward), _ARROWS)),
    )


def _arguments(trace: Trace, row: int) -> Mapping[str, Any]:
    event = trace.event(row)
    found = event.get("args") if isinstance(event, dict) else None
    return found if isinstance(found, dict) else {}


def _step(trace: Trace, row: int, steps_by: str | None) -> int | None:
    found = steps(trace, steps_by)
    place = int(step_of(found.host, trace.start[row : row + 1])[0])
    return int(found.number[place]) if place >= 0 else None


def _delay(trace: Trace, work: DeviceWork, row: int, launch: int, places: Int32s) -> int | None:
    if launch >= 0:
        return max(int(trace.start[row]) - max(int(trace.end[launch]), int(trace.start[launch])), 0)
    if not len(places):
        return None
    first = int(places[0])
    call = int(work.launch[first])
    return max(int(work.start[first]) - max(int(trace.end[call]), int(trace.start[call])), 0)


# --- its like


@derived
def same_as(trace: Trace, name: int, kind: int, steps_by: str | None = None) -> Same:
    """The events of a name (a code of `calls.call_names`) and a kind (an EventKind)."""
    calls = call_tree(trace)
    alike = (call_names(trace) == name) & (trace.kind == kind) & (timeline(trace).layer >= 0)
    count, number = int(np.count_nonzero(alike)), len(steps(trace, steps_by))
    total, of_all = _device_time(trace, alike)
    on_device = total > 0
    if not on_device:
        length = np.maximum(trace.end - trace.start, 0)
        nested = alike & calls.member
        outermost = nested & ~_inside(trace, nested)
        total = int(length[outermost | (alike & ~calls.member)].sum())
        of_all = int(length[(calls.depth == 0) & (trace.track == main_thread(trace))].sum())
    share = min(total / of_all, 1.0) if of_all > 0 else None
    return Same(count, count / number if number > 1 else None, total, share, on_device)


def _device_time(trace: Trace, alike: Bools) -> tuple[int, int]:
    """The time of device work that is alike, or was launched in calls that are; and that of all."""
    work, calls = device_work(trace), call_tree(trace)
    counted = alike[work.rows]
    if not counted.any() and len(work):
        within = ancestor(calls.parent, alike & calls.member) >= 0
        counted = (work.launch >= 0) & within[work.launch]
    return int(work.duration[counted].sum()), int(work.duration.sum())


def _inside(trace: Trace, calls: Bools) -> Bools:
    """Which events lie inside one of some calls: bool [events]."""
    parent = call_tree(trace).parent
    inside = np.zeros(len(trace), np.bool_)
    some = np.flatnonzero(parent >= 0)
    inside[some] = ancestor(parent, calls)[parent[some]] >= 0
    return inside


# --- arrows


def _arrows(
    trace: Trace,
    row: int,
    launch: int,
    launched: Int32s,
    forward: int,
    backward: Int64s,
) -> Iterator[Arrow]:
    """What leads here and what follows, the nearest first."""
    origin = timeline(trace).origin
    start, end = times(trace)

    def at(event: int, *, last: bool = False) -> End:
        time = max(int(end[event]), int(start[event])) if last else int(start[event])
        return End(event, time - origin)

    if launch >= 0:
        yield Arrow(at(launch), at(row), "launch")
        yield from (Arrow(at(on, last=True), at(row), "wait") for on in _waited_for(trace, row))
        yield from (Arrow(at(row, last=True), at(other), "wait") for other in _waiting_for(trace, row))
    for pass_, other in ((forward, row), *((row, each) for each in backward.tolist())):
        if pass_ >= 0:
            yield Arrow(at(pass_), at(other), "forward_backward")
    for each in launched.tolist():
        yield Arrow(at(launch_of(trace, each)), at(each), "launch")


def _waited_for(trace: Trace, row: int) -> list[int]:
    work = device_work(trace)
    if len(work) > _WAITING:
        return []
    found = stream_waits(trace)
    rows: list[int] = work.rows[found.on[work.rows[found.work] == row]].tolist()
    return rows


def _waiting_for(trace: Trace, row: int) -> list[int]:
    work = device_work(trace)
    if len(work) > _WAITING:
        return []
    found = stream_waits(trace)
    rows: list[int] = work.rows[found.work[work.rows[found.on] == row]].tolist()
    return rows
