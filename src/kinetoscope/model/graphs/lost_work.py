"""Records of device work that a trace lost or misplaced: launches without their work, and work before its launch.

Profilers drop what the device's clock puts before the window of the recording, lose buffers, and convert clocks badly.
Captures of graphs are told apart here: while one runs, a launch starts nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, any_of, marked
from kinetoscope.algorithms.grouping import match_first
from kinetoscope.algorithms.intervals.intervals import Intervals, union
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.graphs.replays import replays
from kinetoscope.model.graphs.templates import templates
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.recording import not_recorded
from kinetoscope.model.trace.symptoms import Health
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note

_LAUNCHING: Final = (
    RuntimeCallKind.LAUNCH,
    RuntimeCallKind.GRAPH_LAUNCH,
    RuntimeCallKind.COPY,
    RuntimeCallKind.COPY_AND_WAIT,
    RuntimeCallKind.SET,
)
"""Kinds of calls that launch device work."""

_KERNELS: Final = (RuntimeCallKind.LAUNCH, RuntimeCallKind.GRAPH_LAUNCH)
"""Calls that always start work; a copy of nothing starts none."""

_CUT_OFF_CODES: Final = ("TRUNCATED", "STREAM")
"""Codes of symptoms of a file that ends early."""

CLOCK_TOLERANCE_NS: Final = 1_000
"""What work may start before its launch by: times are whole microseconds in older files."""


@derived
def capturing(trace: Trace) -> Intervals:
    """Time in which any thread captures a graph, a union; a capture without end lasts until that of the recording."""
    kinds = runtime_call_kinds(trace)
    rows = np.flatnonzero((kinds == RuntimeCallKind.BEGIN_CAPTURE) | (kinds == RuntimeCallKind.END_CAPTURE))
    rows = rows[np.lexsort((trace.start[rows], trace.track[rows]))]
    begins = rows[kinds[rows] == RuntimeCallKind.BEGIN_CAPTURE]
    last = np.array([trace.end.max()]) if len(begins) else trace.end[begins]
    until = []
    for track in np.unique(trace.track[begins]).tolist():
        here = rows[trace.track[rows] == track]
        ends = np.concatenate([trace.end[here[kinds[here] == RuntimeCallKind.END_CAPTURE]], last])
        until.append(ends[np.searchsorted(ends, trace.start[begins[trace.track[begins] == track]])])
    return union(trace.start[begins], np.concatenate(until)) if until else Intervals(last, last)


@derived
def captured(trace: Trace) -> Bools:
    """Calls that became part of a graph instead of launching work: bool [events]."""
    silent = _silent(trace)
    return marked(len(trace), silent[while_capturing(trace, silent)])


def while_capturing(trace: Trace, rows: Int32s) -> Bools:
    """Events, of those at some rows, that begin while a graph is captured: bool [rows]."""
    windows, start = capturing(trace), trace.start[rows]
    place = np.searchsorted(windows.start, start, side="right") - 1
    return np.asarray((place >= 0) & (start < np.append(windows.end, 0)[place]))


@derived
def _silent(trace: Trace) -> Int32s:
    """Calls that launch by their name, without recorded work."""
    launching = any_of(runtime_call_kinds(trace), _LAUNCHING) & (trace.kind == EventKind.RUNTIME)
    launch = device_work(trace).launch
    launching[launch[launch >= 0]] = False
    return np.flatnonzero(launching).astype(np.int32)


@derived
def launches_without_work(trace: Trace) -> Int32s:
    """Rows of calls that launch by their name and are not captured, without recorded work, in file order.

    Calls with the correlation id of a call that launched work are left out: drivers record a call in a call.
    """
    calls = _silent(trace)
    calls = calls[~while_capturing(trace, calls)]
    if not len(calls):
        return calls
    ids = arguments.integers(trace, "correlation", calls)
    launch = device_work(trace).launch
    used = arguments.integers(trace, "correlation", launch[launch >= 0])
    return calls[(ids <= 0) | (match_first(ids, used) < 0)]


@derived
def launches_of_lost_devices(trace: Trace) -> int:
    """Launches of kernels, where no device work was recorded at all: the recorder lost it.

    Calls of the runtime are recorded with device activities only. Where hardware counters are read, CUPTI records
    ranges in place of kernels.
    """
    if len(device_work(trace)) or (trace.kind == EventKind.COUNTER_RANGE).any():
        return 0
    return int(np.count_nonzero(np.isin(runtime_call_kinds(trace)[launches_without_work(trace)], _KERNELS)))


def ends_before_device_work(trace: Trace) -> bool:
    """True if the file ends early, and what is left of it holds no device work."""
    is_cut = any(symptom.code in _CUT_OFF_CODES and symptom.severity == "error" for symptom in trace.reading)
    return is_cut and not len(device_work(trace))


def no_device_work(trace: Trace, consequence: str = "") -> Note:
    """The note that there is none, with why and what follows; see `recording.not_recorded`."""
    if ends_before_device_work(trace):
        said = "No device work is in what is left of the file"
    elif count := launches_of_lost_devices(trace):
        said = f"The recorder lost the device work of {number_of(count, 'launch', 'launches')}, which is all"
    else:
        return not_recorded("device work", consequence)
    return Note("LOST_DEVICE_WORK", f"{said}: {consequence}." if consequence else f"{said}.")


# --- what was lost


@dataclass(frozen=True)
class LostWork:
    """Device work that a trace lacks, or has at impossible times.

    Attributes:
        launches: calls that launched a kernel or a graph, with recorded work or without; captured ones are none.
        at_start, between, at_end: int32, rows of those whose work was not recorded: before the first one whose work
            was, among them, and after the last one.
        partial: int32, rows of launches of graphs of which a part of the nodes was not recorded; without the last
            replay, of which the recording may have seen the beginning only.
        lost_nodes: int64 [partial], how many nodes of each.
        early: int64 [early], places in `device_work` of what starts before the call that launched it.
        earliest: the longest time by which it does, ns.
    """

    launches: int
    at_start: Int32s
    between: Int32s
    at_end: Int32s
    partial: Int32s
    lost_nodes: Int64s
    early: Int64s
    earliest: int

    def __bool__(self) -> bool:
        return any(len(each) for each in (self.at_start, self.between, self.partial, self.early))


@derived
def lost_work(trace: Trace) -> LostWork:
    """Work that was lost or misplaced; none where no launch has recorded work, as on a host without a device."""
    work, kinds = device_work(trace), runtime_call_kinds(trace)
    linked = np.flatnonzero(work.launch >= 0)
    lead = trace.start[work.launch[linked]] - work.start[linked]
    early = linked[lead > CLOCK_TOLERANCE_NS]
    lost = launches_without_work(trace)
    lost = lost[np.isin(kinds[lost], _KERNELS)]
    seen = np.flatnonzero(marked(len(trace), work.launch[linked]))
    seen = seen[np.isin(kinds[seen], _KERNELS)]
    if not len(seen):
        lost = lost[:0]
    start = trace.start[lost]
    first, last = (int(trace.start[seen].min()), int(trace.start[seen].max())) if len(seen) else (0, 0)
    partial, lost_nodes = _partial_replays(trace)
    return LostWork(
        launches=len(seen) + len(lost),
        at_start=lost[start < first],
        between=lost[(start >= first) & (start <= last)],
        at_end=lost[start > last],
        partial=partial,
        lost_nodes=lost_nodes,
        early=early,
        earliest=int(lead.max(initial=0)) if len(early) else 0,
    )


def _partial_replays(trace: Trace) -> tuple[Int32s, Int64s]:
    """Rows of launches of graphs of which nodes were lost, and how many of each."""
    every, known = replays(trace), templates(trace)
    launched = every.launch >= 0
    part = np.flatnonzero(launched & ~known.is_whole)
    if len(part):
        part = part[trace.start[every.launch[part]] < trace.start[every.launch[launched]].max()]
    return every.launch[part], known.nodes[known.of_replay[part]] - every.sizes[part]


def notes_of_lost_work(trace: Trace, selected: Bools) -> Iterator[Note]:
    """The notes on numbers that rest on the records of device work.

    selected: bool [events], which calls are asked about.
    """
    lost = lost_work(trace)
    missing = int(selected[lost.at_start].sum() + selected[lost.between].sum())
    if missing:
        yield Note(
            "LOST_LAUNCHES",
            f"Of {number_of(missing, 'launch', 'launches')} the device's records were lost: times and counts of device "
            "work are too low, and idle time is too high (kinetoscope doctor says more).",
        )
    if nodes := int(lost.lost_nodes[selected[lost.partial]].sum()):
        yield Note(
            "LOST_NODES",
            f"{number_of(nodes, 'node')} of replayed graphs {'was' if nodes == 1 else 'were'} not recorded: times and "
            "counts of device work are too low (kinetoscope doctor says more).",
        )
    early = int(selected[device_work(trace).launch[lost.early]].sum())
    if early:
        what = "piece of device work starts before its launch", "pieces of device work start before their launches"
        yield Note(
            "CLOCKS_DISAGREE",
            f"{number_of(early, *what)}, by up to {lost.earliest / 1e3:,.1f} µs: the clocks of host and device "
            "disagree, and delays, queues and causes of idle time rest on both.",
        )


@derived
def damage_of(trace: Trace) -> Note | None:
    """The note that data was lost, and that device work may be missing for it; None where none was."""
    damage = Health(trace.reading).damage
    if damage and not len(device_work(trace)):
        return damage.reworded(f"{damage} That no device work is seen may be because of that.")
    return damage
