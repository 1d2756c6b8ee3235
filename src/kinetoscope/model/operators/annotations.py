"""The ranges that users and libraries name: on the host, and their shadows on the streams of devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, scattered
from kinetoscope.algorithms.grouping import match_first, prefix_tree
from kinetoscope.algorithms.intervals.intervals import union
from kinetoscope.algorithms.trees import tree
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.calls import ShownCalls, call_name, calls_among, launching_calls
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import OPTIMIZER, STEP
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_beginning
from kinetoscope.model.trace.trace import Trace

_RECORDED_AS_OPERATORS: Final = (STEP, OPTIMIZER, "enumerate(Data", "DataParallel.", "DistributedDataParallel.")
"""Prefixes of ranges that files of 2021 hold as operators: they have no annotations."""


@dataclass(frozen=True)
class Annotations:
    """The named ranges of a trace.

    Attributes:
        names: the distinct names.
        code: int32 [events], the name of each range, on the host or on a device; −1 for all other events.
        host: the ranges on the host.
        shadows: int32 [shadows], the rows of those on devices.
        original: int32 [shadows], the row on the host that each is the shadow of, −1 if that is not known.
    """

    names: tuple[str, ...]
    code: Int32s
    host: ShownCalls
    shadows: Int32s
    original: Int32s


@derived
def named_ranges(trace: Trace) -> Annotations:
    """Find the named ranges of a trace."""
    is_host = trace.kind == EventKind.ANNOTATION
    if not is_host.any():
        is_host = rows_beginning(trace, _RECORDED_AS_OPERATORS, EventKind.HOST_OP)
    shadows = trace.rows(EventKind.DEVICE_ANNOTATION)
    host = calls_among(trace, is_host)
    rows = np.concatenate([np.flatnonzero(host.shown), shadows])
    distinct, places = np.unique(trace.name[rows], return_inverse=True)
    number: dict[str, int] = {}
    labels = (call_name(trace.strings.label(code), EventKind.ANNOTATION) for code in distinct.tolist())
    numbers = np.array([number.setdefault(label, len(number)) for label in labels], np.int32)
    code = scattered(len(trace), rows, numbers[places], np.int32)
    return Annotations(tuple(number), code, host, shadows, _originals(trace, np.flatnonzero(is_host), shadows))


def _originals(trace: Trace, host: Int64s, shadows: Int32s) -> Int32s:
    """The range of each shadow: they share an External id."""
    rows = host.astype(np.int32)
    ids = arguments.integers(trace, "external_id", rows)
    rows, ids = rows[ids > 0], ids[ids > 0]
    wanted = arguments.integers(trace, "external_id", shadows)
    place = match_first(wanted, ids)
    return np.where((place >= 0) & (wanted > 0), rows[place], -1).astype(np.int32) if len(rows) else place


@dataclass(frozen=True)
class AnnotationStacks:
    """The ranges around each range, by the names of all.

    Attributes:
        node: int32 [events], the stack of each range on the host, itself included; −1 for all other events.
        names: the names of each stack, outermost first.
    """

    node: Int32s
    names: tuple[tuple[str, ...], ...]


@derived
def annotation_stacks(trace: Trace) -> AnnotationStacks:
    """The stacks of the ranges on the host."""
    ranges = named_ranges(trace)
    rows = np.flatnonzero(ranges.host.shown).astype(np.int32)
    order = rows[np.argsort(call_tree(trace).depth[rows], kind="stable")]
    prefixes = prefix_tree(order, ranges.host.parent, ranges.code)
    names: list[tuple[str, ...]] = []
    for parent, label in zip(prefixes.parent.tolist(), prefixes.label.tolist(), strict=True):
        names.append((*(names[parent] if parent >= 0 else ()), ranges.names[label]))
    return AnnotationStacks(prefixes.node, tuple(names))


@derived
def launch_stacks(trace: Trace) -> Int32s:
    """The stack of ranges around the launch of each piece of device work, −1 for none: int32 [work]."""
    innermost = launching_calls(named_ranges(trace).host, device_work(trace))
    node = annotation_stacks(trace).node
    return np.where(innermost >= 0, node[innermost], np.int32(-1)) if len(trace) else innermost


@dataclass(frozen=True)
class Shadowed:
    """Device work in the shadows that it starts in on its stream.

    Attributes:
        innermost: int32 [work], the name of the shadow that began last of those that run, −1 for none.
        work, code: int64 and int32 [pairs], each piece of work once with each name of a shadow that runs.
    """

    innermost: Int32s
    work: Int64s
    code: Int32s


def shadowed(trace: Trace, ranges: Annotations, chosen: Bools) -> Shadowed:
    """Device work by the chosen shadows (bool [shadows]) that it starts in."""
    work, rows = device_work(trace), ranges.shadows[chosen]
    order, offsets = _nested_order(trace, rows, ranges.original[chosen])
    nested = tree.nest(trace.start, trace.end, order, offsets, cut=tree.Cut.EARLIER)  # the one that began last counts
    track = trace.track[work.rows]
    at = tree.enclosing(order, offsets, trace.start, nested.until, nested.parent, track, work.start)
    innermost = np.where(at >= 0, ranges.code[at], np.int32(-1)) if len(trace) else at
    works, codes = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for each in np.unique(trace.track[rows]).tolist():
        shadows_of_track, inside = rows[trace.track[rows] == each], np.flatnonzero(track == each)
        inside = inside[np.argsort(work.start[inside], kind="stable")]
        for code in np.unique(ranges.code[shadows_of_track]).tolist():
            of_name = shadows_of_track[ranges.code[shadows_of_track] == code]
            spans = union(trace.start[of_name], trace.end[of_name])
            first = np.searchsorted(work.start[inside], spans.start)
            last = np.searchsorted(work.start[inside], spans.end)
            works.append(inside[_ranges(first, last)])
            codes.append(np.full(len(works[-1]), code, np.int32))
    return Shadowed(innermost, np.concatenate(works), np.concatenate(codes))


def _nested_order(trace: Trace, rows: Int32s, original: Int32s) -> tuple[Int32s, Int64s]:
    """The order of `ordering.track_order`; of shadows of one extent, which are common, the deeper range comes later."""
    depth = np.where(original >= 0, call_tree(trace).depth[original], -1)
    order = rows[np.lexsort((rows, depth, -trace.end[rows], trace.start[rows], trace.track[rows]))]
    return order, np.searchsorted(trace.track[order], np.arange(len(trace.tracks) + 1))


def _ranges(first: Int64s, last: Int64s) -> Int64s:
    """All numbers from each first to before each last, one after the other."""
    size = last - first
    return np.asarray(np.arange(size.sum()) + np.repeat(first - np.cumsum(size) + size, size))
