"""Checks of lost records: launches without work, work before its launch, ranges without a part on the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s
from kinetoscope.model.execution.call_tree import enclosing_annotation
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.graphs.lost_work import launches_without_work, lost_work
from kinetoscope.model.health.data_quality import pieces_of_work, severity_of, some_of
from kinetoscope.model.steps.steps import step_of, steps
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.text import duration_text, number_of, numbered
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note, Severity

_WARNING_SHARE: Final = 0.01
"""Share of launches without work beyond which numbers are affected."""


def lost_launches(trace: Trace) -> Iterator[Note]:
    """Launches whose work was not recorded, before and among those whose work was."""
    lost = lost_work(trace)
    if len(lost.at_start):
        span = int(trace.start[lost.at_start].max() - trace.start[lost.at_start].min())
        message = (
            f"The first {number_of(len(lost.at_start), 'launch', 'launches')} of {lost.launches:,} have no recorded "
            f"work{_in_steps(trace, lost.at_start)}, over {duration_text(span)}: profilers drop what their clock puts "
            "before the start of the window, the more the longer the device had idled. Device time is too low there; "
            "record a warm-up step, and leave the first one out."
        )
        yield Note("LOST_AT_START", message, "warning", len(lost.at_start))
    if len(lost.between):
        share = len(lost.between) / lost.launches
        message = (
            f"{number_of(len(lost.between), 'launch has', 'launches have')} no recorded work, {share:.1%} of all"
            f"{_in_steps(trace, lost.between)}, though launches before and after have: records were lost, mostly for "
            "lack of buffers. Device time is too low, and idle time too high."
        )
        severity: Severity = "warning" if share > _WARNING_SHARE else "note"
        yield Note("LAUNCHES_WITHOUT_WORK", message, severity, len(lost.between))


def partial_replays(trace: Trace) -> Iterator[Note]:
    """Replays of graphs without some of the nodes that other replays of the graph have."""
    lost = lost_work(trace)
    if len(lost.partial):
        which = "replay of a graph lacks" if len(lost.partial) == 1 else "replays of graphs lack"
        message = (
            f"{len(lost.partial):,} {which} {int(lost.lost_nodes.sum()):,} of the nodes that the graph has"
            f"{_in_steps(trace, lost.partial)}: records were lost, mostly before the start of the window or for "
            "lack of buffers. Device time is too low there."
        )
        yield Note("PARTIAL_REPLAYS", message, "warning", len(lost.partial))


def lost_at_end(trace: Trace) -> Iterator[Note]:
    """Launches whose work ran after the recording."""
    count = len(lost_work(trace).at_end)
    if count:
        which = "launch has" if count == 1 else f"{count:,} launches have"
        message = f"The last {which} no recorded work, as it ran after the recording had ended: synchronize the device "
        yield Note("LOST_AT_END", f"{message}before the profiler stops.", "note", count)


def work_before_launch(trace: Trace) -> Iterator[Note]:
    """Device work at times at which it had not been launched."""
    lost, work = lost_work(trace), device_work(trace)
    if len(lost.early):
        first = "starts before its launch" if len(lost.early) == 1 else "start before their launches"
        message = (
            f"{pieces_of_work(len(lost.early))} {first}, by up to {duration_text(lost.earliest)}: the clocks of host "
            "and device disagree by as much at least. Launch delays count as 0 there, and idle time may be charged to "
            "the wrong cause."
        )
        spent = int(work.duration[lost.early].sum())
        yield Note("WORK_BEFORE_LAUNCH", message, severity_of(spent, work), len(lost.early))


def ranges_without_device_part(trace: Trace) -> Iterator[Note]:
    """Ranges that launch work themselves, of a name of which the profiler drew some on the device, but not these."""
    on_device = trace.rows(EventKind.DEVICE_ANNOTATION)
    if not len(on_device):
        return
    launch = device_work(trace).launch
    calls = np.union1d(launch[launch >= 0], launches_without_work(trace))
    launching = np.unique(enclosing_annotation(trace)[calls])  # the innermost range of a launch is drawn
    missing: dict[str, int] = {}
    for name in np.unique(trace.name[on_device]).tolist():
        drawn = on_device[trace.name[on_device] == name]
        most = int(np.bincount(trace.track[drawn]).max())  # each stream that it launched to has a part
        here = int(np.count_nonzero(trace.name[launching[launching >= 0]] == name))
        if here > most:
            missing[trace.strings.label(name)] = here - most
    if missing:
        count = sum(missing.values())
        message = (
            f"{number_of(count, 'range')} ({some_of(list(missing))}) launched work without the part on the device that "
            "others of the name have: timers that read these parts miss it. Numbers here follow launches."
        )
        yield Note("NO_DEVICE_PART", message, "note", count)


def _in_steps(trace: Trace, calls: Int32s) -> str:
    every = steps(trace, None)
    if every.origin == "window":
        return ""
    within = step_of(every.host, trace.start[calls])
    numbers = every.number[np.unique(within[within >= 0])].tolist()
    return f" ({numbered('step', numbers)})" if numbers else ""
