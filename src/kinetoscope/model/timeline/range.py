"""Summary of a stretch of time: busy devices, host activity while they idle, the names that take most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Floats, Int32s, Int64s
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.algorithms.intervals.intervals import (
    Intervals,
    covered,
    difference,
    exclusive,
    intersection,
    merge,
    union,
)
from kinetoscope.model.device.busy import busy
from kinetoscope.model.device.gaps import Gaps, cut_gaps, gaps
from kinetoscope.model.device.idle_causes import DETAILS, REASONS, idle_charges
from kinetoscope.model.execution.autograd import backward_links
from kinetoscope.model.execution.call_tree import call_tree, main_thread, whole_calls
from kinetoscope.model.execution.calls import call_names
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import is_mark
from kinetoscope.model.execution.work_before import LAUNCH_LATENCY_NS, work_before
from kinetoscope.model.steps.scope import Scope, recorded_span, scope
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.steps.steps import steps
from kinetoscope.model.timeline.categories import MARK_KINDS, mark_kinds
from kinetoscope.model.timeline.layout import timeline
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

KINDS: Final = ("computation", "communication", "memory")

_TOP_NAMES: Final = 5

BUCKETS: Final = 512
"""Stretches of time of the minimap."""


class TopName(NamedTuple):
    """A name that takes much of the time: its code, kind of mark, ns, calls in the range, row of the longest."""

    name: int
    kind: str
    time: int
    calls: int
    row: int


@dataclass(frozen=True)
class Range:
    """A stretch of time.

    Attributes:
        length: of what was recorded, ns.
        steps: numbers of the steps that reach into it, as the device sees them; whole: whether all of each is in it;
            around: the time in the range that is in none of them, ns.
        marked: whether steps were marked or found at all.
        busy: time of each device with any work, ns; none where no device did any in the whole recording.
        kinds: int64 [KINDS], time of each kind, each instant of a device once, the mean of the devices, ns.
        alone: of each of them, time with communication and no computation, ns.
        before: time of work from before the recording, the sum of the devices, ns.
        idle: idle time by device, reason and detail, ns: the rows of `idle_breakdown` of this range.
        longest: start and end of the longest stretch in which all devices idle, ns after the origin; None for none.
        host: time in which the main thread is in a call, ns.
        device_top, host_top: the names that take most on devices, and (as self time) on the host.
    """

    length: int
    steps: tuple[int, ...]
    whole: bool
    around: int
    marked: bool
    busy: dict[int, int]
    kinds: tuple[float, ...]
    alone: dict[int, int]
    before: int
    idle: dict[tuple[int, str, str], int]
    longest: tuple[int, int] | None
    host: int
    device_top: tuple[TopName, ...]
    host_top: tuple[TopName, ...]


def in_range(trace: Trace, begin: int, end: int, steps_by: str | None = None) -> Range:
    """The summary from `begin` to `end`, ns after the origin; `steps_by` as for `steps`."""
    origin, last = timeline(trace).origin, timeline(trace).end
    begin = min(max(begin, 0), max(last, 0))
    end = max(min(end, last), begin)
    window = Intervals(np.array([origin + begin]), np.array([origin + end]))
    devices = [(device, tuple(_cut(each, window) for each in classes)) for device, *classes in _busy(trace)]
    kinds = np.zeros(len(KINDS))
    ran, alone = {}, {}
    before = 0
    quiet = window if devices else Intervals(window.start[:0], window.end[:0])
    for device, classes in devices:
        kinds += exclusive(window, classes)[0, : len(KINDS)]
        computation, communication, _ = classes
        alone[device] = difference(communication, computation).length
        worked = merge(*classes)
        ran[device] = worked.length
        earlier = intersection(window, work_before(trace).of_device(device, worked))
        before += earlier.length
        quiet = intersection(quiet, difference(difference(window, worked), earlier))
    every = steps(trace, steps_by)
    inside = (every.device.start < window.end) & (every.device.end > window.start)
    whole = (every.device.start >= window.start) & (every.device.end <= window.end)
    longest = None
    if len(quiet.start):
        place = int(np.argmax(quiet.end - quiet.start))
        longest = int(quiet.start[place]) - origin, int(quiet.end[place]) - origin
    return Range(
        length=end - begin,
        steps=tuple(every.number[inside].tolist()),
        whole=bool(whole[inside].all()),
        around=difference(window, union(*every.device)).length,
        marked=every.origin != "window",
        busy=ran,
        kinds=tuple((kinds / max(len(devices), 1)).tolist()),
        alone=alone,
        before=before,
        idle=_idle(trace, window) if devices else {},
        longest=longest,
        host=_cut(_main_calls(trace), window).length,
        device_top=_device_top(trace, window),
        host_top=_host_top(trace, window),
    )


def _idle(trace: Trace, window: Intervals) -> dict[tuple[int, str, str], int]:
    """The idle time in a window by device, reason and detail, ns."""
    view, every = _gaps(trace)
    cut = cut_gaps(every, int(window.start[0]), int(window.end[0]))
    charges = idle_charges(view, cut, "device", LAUNCH_LATENCY_NS) if len(cut) else None
    if charges is None:
        return {}
    codes, first = group(cut.device[charges.gap], charges.reason, charges.detail)
    device = cut.device[charges.gap[first]].tolist()
    reasons, details = charges.reason[first].tolist(), charges.detail[first].tolist()
    total = sum_by(codes, len(first), charges.time).tolist()
    return {
        (one, REASONS[reason], DETAILS[detail]): time
        for one, reason, detail, time in zip(device, reasons, details, total, strict=True)
    }


@derived
def _gaps(trace: Trace) -> tuple[Scope, Gaps]:
    """All gaps of the recording, also before the first and after the last device work."""
    low, high = recorded_span(trace)
    view = scope(trace, Selection(time=(0, high - low)))
    return view, gaps(view, by_stream=False)


def _cut(intervals: Intervals, window: Intervals) -> Intervals:
    """The part of a union that lies in a window."""
    low = int(np.searchsorted(intervals.end, window.start[0], side="right"))
    high = int(np.searchsorted(intervals.start, window.end[0]))
    return Intervals(*(np.clip(ends[low:high], window.start[0], window.end[0]) for ends in intervals))


@derived
def _busy(trace: Trace) -> tuple[tuple[int, Intervals, Intervals, Intervals], ...]:
    """Each device, with the intervals of work of each of KINDS."""
    return tuple((each.device, each.computation, each.communication, each.memory) for each in busy(scope(trace, ALL)))


@derived
def _main_calls(trace: Trace) -> Intervals:
    calls = call_tree(trace)
    marks = is_mark(trace)
    parent = np.where(calls.parent >= 0, marks[calls.parent], False)
    outermost = ((calls.depth == 0) | parent) & ~marks & (trace.track == main_thread(trace)) & calls.member
    return union(trace.start[outermost], trace.end[outermost])


# --- names that take most


def _device_top(trace: Trace, window: Intervals) -> tuple[TopName, ...]:
    work = device_work(trace)
    here = np.flatnonzero((work.start < window.end) & (work.end > window.start))
    time = np.minimum(work.end[here], window.end) - np.maximum(work.start[here], window.start)
    return _top(trace, work.rows[here], time)


def _host_top(trace: Trace, window: Intervals) -> tuple[TopName, ...]:
    """By self time, of a call in which none that began later runs; on the threads that launch work."""
    around, until = whole_calls(trace)
    parts = [_calls_within(trace, track, window) for track in sorted(_threads(trace))]
    rows = np.concatenate([np.empty(0, np.int32), *parts])
    time = np.clip(until[rows], *window) - np.clip(trace.start[rows], *window)
    rows, time = rows[time > 0], time[time > 0]
    own = np.zeros(len(trace), np.int64)  # nothing of it is touched but what is in the window
    own[rows] = time
    inside = around[rows] >= 0
    np.subtract.at(own, around[rows[inside]], time[inside])
    rows = rows[~is_mark(trace)[rows]]
    return _top(trace, rows, own[rows])


@derived
def _threads(trace: Trace) -> frozenset[int]:
    """The tracks of the main thread, of the backward pass, and of all that launch work."""
    backward = np.unique(trace.track[backward_links(trace).forward >= 0]).tolist()
    launch = device_work(trace).launch
    launching = np.unique(trace.track[launch[launch >= 0]]).tolist()
    return frozenset([main_thread(trace), *backward, *launching]) - {-1}


def _calls_within(trace: Trace, track: int, window: Intervals) -> Int32s:
    """The calls of a thread that touch a window: those that begin in it, and those that run when it begins."""
    calls = call_tree(trace)
    order = calls.order[calls.offsets[track] : calls.offsets[track + 1]]
    low, high = (int(np.searchsorted(trace.start[order], end[0])) for end in window)
    open_ = [] if low == 0 else [int(order[low - 1])]
    while open_ and (above := int(calls.parent[open_[-1]])) >= 0:
        open_.append(above)
    return np.concatenate([np.array(open_, np.int32), order[low:high]])


def _top(trace: Trace, rows: Int32s, time: Int64s) -> tuple[TopName, ...]:
    if not len(rows):
        return ()
    codes, first = group(call_names(trace)[rows], trace.kind[rows])
    total = sum_by(codes, len(first), time)
    calls = np.bincount(codes, minlength=len(first))
    top = []
    for place in np.argsort(-total, kind="stable")[:_TOP_NAMES].tolist():
        if total[place] <= 0:
            break
        of = np.flatnonzero(codes == place)
        longest = int(rows[of[np.argmax(time[of])]])
        kind = MARK_KINDS[mark_kinds(trace)[longest]]
        name = int(call_names(trace)[longest])
        top.append(TopName(name, kind, int(total[place]), int(calls[place]), longest))
    return tuple(top)


# --- the whole at a glance


@derived
def minimap(trace: Trace, first: int, bucket: int) -> dict[str, Floats]:
    """Share of each kind of activity in each of BUCKETS stretches of time: float64 [BUCKETS] each.

    It is the mean of the devices, each instant of one for one kind; without devices that of the main thread.

    Args:
        trace: of one rank.
        first: beginning of the first stretch, ns as the file counts them.
        bucket: length of each, ns.
    """
    edges = first + bucket * np.arange(BUCKETS + 1, dtype=np.int64)
    windows = Intervals(edges[:-1], edges[1:])
    devices = busy(scope(trace, ALL))
    if not devices:
        calls = call_tree(trace)
        outermost = (calls.depth == 0) & (trace.track == main_thread(trace))
        ran = union(trace.start[outermost], trace.end[outermost])
        return {"host": covered(windows, ran) / bucket} if len(ran.start) else {}
    total = np.zeros((BUCKETS, len(KINDS)))
    for each in devices:
        total += exclusive(windows, [each.computation, each.communication, each.memory])[:, :3] / bucket
    mean = total / len(devices)
    return {kind: mean[:, place] for place, kind in enumerate(KINDS) if mean[:, place].any()}
