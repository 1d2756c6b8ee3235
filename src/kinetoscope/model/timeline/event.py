"""Details of one event of the timeline: times, arguments, call stack, launches, events of the same name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, marked
from kinetoscope.algorithms.trees.tree import ancestor, outermost
from kinetoscope.model.execution.autograd import backward_links
from kinetoscope.model.execution.call_tree import call_tree, main_thread, self_times
from kinetoscope.model.execution.calls import call_names
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.execution.stream_waits import stream_waits
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import STEADY_STEPS, Selection
from kinetoscope.model.steps.steps import step_of, step_of_work, steps
from kinetoscope.model.timeline.call_context import CallContext, Frame, ancestors, call_context, launch_of, launched_in
from kinetoscope.model.timeline.categories import MARK_KINDS, mark_kinds
from kinetoscope.model.timeline.layout import lane_of, timeline, times
from kinetoscope.model.timeline.limits import EventLimit, event_limit
from kinetoscope.model.timeline.replays import ReplayOf, drawn_events, place_of, replay_of
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.recording import not_recorded, recorded_options
from kinetoscope.model.trace.trace import Trace

ArrowKind = Literal["launch", "forward_backward", "wait"]

_MAX_ARROWS: Final = 200
"""Arrows of an event at most, and rows of what it launched."""

_MAX_WORK_WITH_WAITS: Final = 1_000_000
"""Pieces of device work up to which waits between streams are looked for: that takes a second."""

_ARGUMENT_LEVELS: Final = 20
"""Levels of nested arguments; deeper ones are text."""


@dataclass(frozen=True, slots=True)
class ArrowEnd:
    """One end of an arrow: an event, its lane and depth, and a time on it, ns after the origin."""

    row: int
    lane: str | None
    depth: int
    time: int


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from a cause to what follows it."""

    start: ArrowEnd
    end: ArrowEnd
    kind: ArrowKind


@dataclass(frozen=True, slots=True)
class SameName:
    """All events of one name and kind.

    Attributes:
        calls: their number in the file; per_step: in a steady step on average, None if there is one step or none.
        total: in the steady steps, ns. Device time: of device work its own, of calls that of all that was launched in
            them; where no device work was recorded the time of the calls themselves.
        share: of all device time of these steps; of the time of the main thread's outermost calls where there is none.
        on_device: `total` is device time.
    """

    calls: int
    per_step: float | None
    total: int
    share: float | None
    on_device: bool


@dataclass(frozen=True)
class EventDetails:
    """An event of the timeline; what is unknown is None.

    Attributes:
        row, name, category: as in the file.
        kind: one of MARK_KINDS.
        lane, depth: where it is drawn; the id of its lane.
        start, end: ns after the origin; duration: end less start; self_time: of that what no call inside it covers.
        step: number.
        arguments: as in the file; beyond 20 levels as text.
        stack: the outermost frame first; of device work that of its launch.
        stack_note: why the stack is another call's, or empty.
        module: the innermost module, "" where none is known.
        parent: the call around it; of replayed work the call that it was captured in.
        launched: device work of this call and those inside it, in order of launch, the first 200.
        launched_by: the call that launched this device work.
        forward, backward: the operator of the other pass that belongs to it.
        device_total: time of all the work that it launched; device_kernels: the number of pieces.
        limit: how near to the limits of the device it ran; None without device work.
        launch_delay: from the end of the launching call to the start of the (first) work; 0 if that began before.
        same: all events of its name.
        replay: the replay of a graph that it launches, is work of, or was captured for.
        arrows: the first 200.
    """

    row: int
    name: str
    category: str
    kind: str
    lane: str | None
    depth: int
    start: int
    end: int
    duration: int
    self_time: int | None
    step: int | None
    arguments: Mapping[str, Any]
    stack: tuple[Frame, ...]
    stack_note: str
    module: str
    parent: int | None
    launched: tuple[int, ...]
    launched_by: int | None
    forward: int | None
    backward: int | None
    device_total: int | None
    device_kernels: int
    limit: EventLimit | None
    launch_delay: int | None
    same: SameName
    replay: ReplayOf | None
    arrows: tuple[Arrow, ...]


@derived
def event_details(trace: Trace, row: int, steps_by: str | None = None) -> EventDetails:
    """Details of the event at a row; `steps_by` as for `steps`."""
    calls, work, place = call_tree(trace), device_work(trace), place_of(trace, row)
    start, end = (each - timeline(trace).origin for each in (place.start, place.end))
    launch, places = launch_of(trace, row), launched_in(trace, row)
    launched = work.rows[places]
    forward = int(backward_links(trace).forward[row])
    backward = np.flatnonzero(backward_links(trace).forward == row)
    caller = _caller(work, row)
    context = call_context(trace, caller if caller >= 0 else row)
    return EventDetails(
        row=row,
        name=trace.strings.label(int(trace.name[row])),
        category=trace.strings.label(int(trace.category[row])),
        kind=MARK_KINDS[mark_kinds(trace)[row]],
        lane=place.lane,
        depth=place.depth,
        start=start,
        end=end,
        duration=end - start,
        self_time=int(self_times(trace)[row]) if calls.member[row] and row < trace.recorded else None,
        step=_step(trace, row, steps_by),
        arguments=_arguments(trace, row),
        stack=context.stack,
        stack_note=_stack_note(trace, work, row, context),
        module=context.module,
        parent=_above(trace, caller if caller != launch else int(calls.parent[row])),
        launched=tuple(launched[:_MAX_ARROWS].tolist()),
        launched_by=_row_or_none(launch),
        forward=_row_or_none(forward),
        backward=int(backward[0]) if len(backward) else None,
        device_total=int(work.duration[places].sum()) if len(places) else None,
        device_kernels=len(places),
        limit=event_limit(trace, row, places),
        launch_delay=_delay(trace, work, row, launch, places),
        same=same_name(trace, int(call_names(trace)[row]), int(trace.kind[row]), steps_by),
        replay=replay_of(trace, row),
        arrows=tuple(
            islice(_arrows(trace, row, launch, launched[_firsts(work.launch[places])], forward, backward), _MAX_ARROWS)
        ),
    )


_FORWARD_STACK: Final = "From the forward pass: the backward pass runs without a Python stack."
_NO_LAUNCH: Final = "Its launch was not recorded, and a stack is that of the launch."
_NO_STACK: Final = "No Python call is around it."


def _stack_note(trace: Trace, work: DeviceWork, row: int, context: CallContext) -> str:
    """Why there is no stack, or whose it is; "" for its own."""
    if context.stack:
        return _FORWARD_STACK if context.of_forward else ""
    place = _place_of_work(work, row)
    if place >= 0 and work.launch[place] < 0:
        return _NO_LAUNCH
    return _NO_STACK if "with_stack" in recorded_options(trace) else not_recorded("call stacks")


def _place_of_work(work: DeviceWork, row: int) -> int:
    """The place of an event in `device_work`, −1 for what is no device work."""
    place = int(np.searchsorted(work.rows, row))
    return place if place < len(work) and work.rows[place] == row else -1


def _caller(work: DeviceWork, row: int) -> int:
    """The captured call of replayed work, else the launch of device work; −1 where it is not known, or for others."""
    place = _place_of_work(work, row)
    return int(max(work.captured[place], work.launch[place])) if place >= 0 else -1


def _above(trace: Trace, row: int) -> int | None:
    """The call, or the nearest around it that is drawn: of captured calls not all are."""
    chain = ancestors(trace, row) if row >= 0 else []
    return next((each for each in chain if place_of(trace, each).lane is not None), None)


def _row_or_none(row: int) -> int | None:
    return row if row >= 0 else None


def _arguments(trace: Trace, row: int) -> Mapping[str, Any]:
    event = trace.event(row)
    arguments = event.get("args") if isinstance(event, dict) else None
    return _shallow(arguments, _ARGUMENT_LEVELS) if isinstance(arguments, dict) else {}


def _shallow(value: Any, levels: int) -> Any:
    if isinstance(value, (dict, list)) and not levels:
        try:
            return json.dumps(value)
        except RecursionError:
            return "…"
    if isinstance(value, dict):
        return {key: _shallow(each, levels - 1) for key, each in value.items()}
    return [_shallow(each, levels - 1) for each in value] if isinstance(value, list) else value


def _step(trace: Trace, row: int, steps_by: str | None) -> int | None:
    """Number of the step of a call, or of device work (`step_of_work`)."""
    marks, work = steps(trace, steps_by), device_work(trace)
    of_work = _place_of_work(work, row)
    if of_work >= 0:
        place = int(step_of_work(trace, work, marks)[of_work])
    else:
        place = int(step_of(marks.host, trace.start[row : row + 1])[0])
    return int(marks.number[place]) if place >= 0 else None


def _delay(trace: Trace, work: DeviceWork, row: int, launch: int, places: Int32s) -> int | None:
    if launch >= 0:
        return max(int(trace.start[row]) - max(int(trace.end[launch]), int(trace.start[launch])), 0)
    if not len(places):
        return None
    first = int(places[0])
    call = int(work.launch[first])
    return max(int(work.start[first]) - max(int(trace.end[call]), int(trace.start[call])), 0)


# --- events of the same name


@derived
def same_name(trace: Trace, name: int, kind: int, steps_by: str | None = None) -> SameName:
    """All events of a name (a code of `calls.call_names`) and a kind (an EventKind)."""
    calls = call_tree(trace)
    of_name = (call_names(trace) == name) & (trace.kind == kind) & drawn_events(trace).mask
    view = scope(trace, Selection(steps=STEADY_STEPS, steps_by=steps_by))
    total, of_all = _device_time(view, of_name)
    on_device = total > 0
    if not on_device:
        length = np.where(view.host_mask, np.maximum(trace.end - trace.start, 0), 0)
        nested = of_name & calls.member
        total = int(length[outermost(calls.parent, nested) | (of_name & ~calls.member)].sum())
        of_all = int(length[(calls.depth == 0) & (trace.track == main_thread(trace))].sum())
    share = min(total / of_all, 1.0) if of_all > 0 else None
    return SameName(int(np.count_nonzero(of_name)), _per_step(view, of_name), total, share, on_device)


def _per_step(view: Scope, of_name: Bools) -> float | None:
    """How many of some events are in a step on average."""
    if len(view.steps) < 2:
        return None
    of_device = marked(len(view.trace), view.device_work.rows)
    chosen = int(np.count_nonzero(of_name[view.device_work.rows] & view.device_work_mask))
    return (chosen + int(np.count_nonzero(of_name & view.host_mask & ~of_device))) / len(view.steps)


def _device_time(view: Scope, of_name: Bools) -> tuple[int, int]:
    """The selected time of device work that is alike, or was launched in calls that are; and that of all."""
    work, calls = view.device_work, call_tree(view.trace)
    counted = of_name[work.rows]
    if not counted.any() and len(work):
        within = ancestor(calls.parent, of_name & calls.member) >= 0
        counted = (work.launch >= 0) & within[work.caller]
    time = np.where(view.device_work_mask, work.duration, 0)
    return int(time[counted].sum()), int(time.sum())


# --- arrows


def _arrows(trace: Trace, row: int, launch: int, launched: Int32s, forward: int, backward: Int64s) -> Iterator[Arrow]:
    """Arrows from what leads here and to what follows, the nearest first."""
    layout = timeline(trace)
    start, end = times(trace)

    def at(event: int, *, last: bool = False) -> ArrowEnd:
        time = max(int(end[event]), int(start[event])) if last else int(start[event])
        lane = lane_of(trace, event)
        return ArrowEnd(event, lane.id if lane else None, int(layout.depth[event]), time - layout.origin)

    if launch >= 0:
        yield Arrow(at(launch), at(row), "launch")
        before, after = _waits(trace, row)
        yield from (Arrow(at(other, last=True), at(row), "wait") for other in before)
        yield from (Arrow(at(row, last=True), at(other), "wait") for other in after)
    for pass_, other in ((forward, row), *((row, each) for each in backward.tolist())):
        if pass_ >= 0:
            yield Arrow(at(pass_), at(other), "forward_backward")
    for each in launched.tolist():
        yield Arrow(at(launch_of(trace, each)), at(each), "launch")


def _firsts(launch: Int32s) -> Int64s:
    """The first piece of work of each launch: a replay of a graph has hundreds."""
    firsts: Int64s = np.sort(np.unique(launch, return_index=True)[1])
    return firsts


def _waits(trace: Trace, row: int) -> tuple[list[int], list[int]]:
    """The device work that some work waited for on another stream, and the work that waited for it."""
    work = device_work(trace)
    if len(work) > _MAX_WORK_WITH_WAITS:
        return [], []
    waits = stream_waits(trace)
    before = work.rows[waits.on[work.rows[waits.work] == row]].tolist()
    return before, work.rows[waits.work[work.rows[waits.on] == row]].tolist()
