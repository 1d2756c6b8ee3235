"""Kinds of files that record no program at work: the capture of a graph, a warm-up, a device without its work.

It is recognised here, once. The first sentence of each face names it, and rules that do not fit are not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from kinetoscope.algorithms.arrays import any_of
from kinetoscope.algorithms.intervals.intervals import Intervals, covered, intersection, union
from kinetoscope.model.collectives.attributes import collective_rows
from kinetoscope.model.device.one_time import ONE_TIME_WORDS, one_time_work
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.graphs.captures import captures
from kinetoscope.model.graphs.lost_work import (
    capturing,
    ends_before_device_work,
    launches_of_lost_devices,
    launches_without_work,
)
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import ALL, default_to_steady
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import DEVICE_WORK, HOST_KINDS, EventKind
from kinetoscope.model.trace.recording import has_timeline
from kinetoscope.model.trace.trace import Trace, of_autograd_profiler

RecordingKind = Literal[
    "cut off",
    "autograd profiler",
    "sums only",
    "graph capture",
    "collectives only",
    "warm-up",
    "lost device work",
    "no operators",
]
"""What a file may record besides a program at work. cut off: the file ends early, without device work. autograd
profiler: torch's profiler before Kineto wrote it. sums only: no times, as in the trees of Triton's Proton. graph
capture: more calls became nodes of a graph than work ran. collectives only: of the program nothing but collectives.
warm-up: most of the steps' time goes to what is done once. lost device work: launches, and the work of none. no
operators: calls of the runtime and device work only."""

WITHOUT_DEVICE: Final[frozenset[RecordingKind]] = frozenset({"cut off", "autograd profiler", "lost device work"})
"""Kinds in which devices may have worked, though no work was recorded."""

WARM_UP_SHARE: Final = 0.5
"""Share of the steps' time, from which on what is done once makes the recording one of a warm-up."""


@dataclass(frozen=True, slots=True)
class Recognised:
    """A kind of recording that a file is.

    Attributes:
        kind: what it is.
        count: of what it is known by: events left, spans, nodes, collectives, calls, launches, calls.
        graphs: captures of graphs; 0 for other kinds.
        time: of the steps' time what it takes, ns; all of it where the whole file is of the kind.
        window: the steps' time, ns.
        what: of a warm-up what is done, in words; "" for other kinds.
    """

    kind: RecordingKind
    count: int
    graphs: int
    time: int
    window: int
    what: str = ""


@derived
def recording_kinds(trace: Trace) -> tuple[Recognised, ...]:
    """The kinds of recordings that the file is, if it is no program at work; the first matters most."""
    device = scope(trace, default_to_steady(ALL)).steps.device
    window = union(device.start, device.end)
    recognised = (_first(trace, window), *(_recognised(trace, window) if has_timeline(trace) else ()))
    return tuple(each for each in recognised if each is not None)


_Recognise = Callable[[Trace, Intervals], Recognised | None]


def _first(trace: Trace, window: Intervals) -> Recognised | None:
    """The one kind of a file whose device work is not there, or is none of a step."""
    tests: tuple[_Recognise, ...] = (
        _sums_only,
        _autograd_profiler,
        _cut_off,
        _graph_capture,
        _collectives_only,
        _lost_device_work,
    )
    return next((each for test in tests if (each := test(trace, window)) is not None), None)


def _recognised(trace: Trace, window: Intervals) -> Iterator[Recognised | None]:
    yield _warm_up(trace, window)
    yield _no_operators(trace, window)


def _autograd_profiler(trace: Trace, window: Intervals) -> Recognised | None:
    count = int(np.count_nonzero(of_autograd_profiler(trace)))
    return Recognised("autograd profiler", count, 0, window.length, window.length) if count else None


def _sums_only(trace: Trace, window: Intervals) -> Recognised | None:
    if has_timeline(trace):
        return None
    return Recognised("sums only", len(trace.rows(EventKind.HOST_OP)), 0, window.length, window.length)


def _cut_off(trace: Trace, window: Intervals) -> Recognised | None:
    if not ends_before_device_work(trace):
        return None
    return Recognised("cut off", trace.recorded, 0, window.length, window.length)


def _graph_capture(trace: Trace, window: Intervals) -> Recognised | None:
    """More calls became nodes of a graph than pieces of work ran; what is replayed outnumbers its capture."""
    captured = captures(trace)
    nodes = len(captured.launch)
    if nodes <= len(device_work(trace)) + len(launches_without_work(trace)):
        return None
    time = intersection(capturing(trace), window).length
    return Recognised("graph capture", nodes, len(captured), time, window.length)


def _collectives_only(trace: Trace, window: Intervals) -> Recognised | None:
    """Files of those who watch collectives alone: there is nothing that they could be held against."""
    rows = collective_rows(trace)
    others = any_of(trace.kind, (*HOST_KINDS, *DEVICE_WORK))
    others[rows] = False
    return (
        None
        if not len(rows) or others.any()
        else Recognised("collectives only", len(rows), 0, window.length, window.length)
    )


def _lost_device_work(trace: Trace, window: Intervals) -> Recognised | None:
    count = launches_of_lost_devices(trace)
    return Recognised("lost device work", count, 0, window.length, window.length) if count else None


def _warm_up(trace: Trace, window: Intervals) -> Recognised | None:
    once = one_time_work(trace)
    time = intersection(once.time, window).length
    if not time or time < WARM_UP_SHARE * window.length:
        return None
    kinds = once.kinds(trace, covered(Intervals(trace.start[once.rows], trace.end[once.rows]), window) > 0)
    return Recognised(
        "warm-up", len(once), 0, time, window.length, " and ".join(ONE_TIME_WORDS[kind] for kind in kinds[:2])
    )


def _no_operators(trace: Trace, window: Intervals) -> Recognised | None:
    calls = len(trace.rows(EventKind.RUNTIME))
    if not calls or not len(device_work(trace)) or len(trace.rows(EventKind.HOST_OP)):
        return None
    return Recognised("no operators", calls, 0, window.length, window.length)
