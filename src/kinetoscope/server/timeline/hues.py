"""Colours of marks by name and by module: a number for each text, the same in each rank, run and window."""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s, UInt8s
from kinetoscope.algorithms.grouping import sum_by
from kinetoscope.model.execution.call_tree import call_tree, self_times
from kinetoscope.model.execution.calls import call_name, call_names
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.operators.modules import modules
from kinetoscope.model.timeline.layout import timeline, times
from kinetoscope.model.timeline.replays import drawn_events
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace
from kinetoscope.pages.pictures.layers import class_of_module
from kinetoscope.server.timeline.answers import ModuleTime

NO_HUE: Final = 0
"""The hue of what has no name, or works for no module."""

MAX_LISTED_CLASSES: Final = 8
"""Classes of modules in the key of the colours."""

_HUES: Final = 255


def hue_of(text: str) -> int:
    """The hue of a text, 1 to 255. Two texts may have the same one."""
    return 1 + zlib.crc32(text.encode("utf-8", "replace")) % _HUES


@derived
def name_hues(trace: Trace) -> UInt8s:
    """The hue of each event's name, as tables know it (`calls.call_name`): uint8 [events]."""
    names = call_names(trace)
    drawn = np.flatnonzero(drawn_events(trace).mask & (names >= 0))
    event = np.full(len(trace.strings) + 1, -1, np.int64)
    event[names[drawn]] = drawn  # any event of each name
    hues = np.full(len(event), NO_HUE, np.uint8)
    for code in np.flatnonzero(event >= 0).tolist():
        hues[code] = hue_of(call_name(trace.strings.glance(code), int(trace.kind[event[code]])))
    hues_of_events: UInt8s = hues[names]
    return hues_of_events


@derived
def module_hues(trace: Trace) -> UInt8s:
    """The hue of the class of the innermost module that each event works for: uint8 [events]."""
    hues = np.array([*(hue_of(name) for name in _classes(trace)), NO_HUE], np.uint8)
    hues_of_events: UInt8s = hues[_class_numbers(trace)]
    return hues_of_events


def module_classes(trace: Trace, begin: int, end: int) -> list[ModuleTime]:
    """The classes of modules with the most time from `begin` to `end`, ns after the origin, the most first.

    The time is that of the device work for each; without any, the self time of the calls that start there.
    """
    work, layout, (start, stop) = device_work(trace), timeline(trace), times(trace)
    low, high = layout.origin + begin, layout.origin + end
    rows: Int32s | Int64s = work.rows
    time = np.minimum(stop[rows], high) - np.maximum(start[rows], low)
    if not len(work):
        rows = np.flatnonzero(call_tree(trace).member & (start >= low) & (start < high))
        time = self_times(trace)[rows]
    number, classes = _class_numbers(trace)[rows], _classes(trace)
    known = np.flatnonzero((number >= 0) & (time > 0))
    totals = sum_by(number[known], len(classes), time[known])
    order = np.argsort(-totals, kind="stable")[:MAX_LISTED_CLASSES].tolist()
    return [
        ModuleTime(classes[place], hue_of(classes[place]), int(totals[place])) for place in order if totals[place] > 0
    ]


@derived
def _classes(trace: Trace) -> tuple[str, ...]:
    """The classes of the modules, by name."""
    name = class_of_module()
    return tuple(sorted({name(each) for each in modules(trace).names}))


@derived
def _class_numbers(trace: Trace) -> Int32s:
    """The place in `_classes` of each event's innermost module; of device work that of its launch; −1 for none."""
    tree, work = modules(trace), device_work(trace)
    name, place = class_of_module(), {each: number for number, each in enumerate(_classes(trace))}
    of_module = np.array([*(place[name(each)] for each in tree.names), -1], np.int32)
    numbers: Int32s = of_module[tree.node]
    launched = np.flatnonzero(work.caller >= 0)
    numbers[work.rows] = -1
    numbers[work.rows[launched]] = of_module[tree.node[work.caller[launched]]]
    return numbers
