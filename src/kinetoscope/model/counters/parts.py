"""The parts of the time of a selection over which counters are added up: steps, kinds of work, operators, kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, merge, union
from kinetoscope.model.device.busy import Busy, busy
from kinetoscope.model.execution.calls import call_names, names_of_calls
from kinetoscope.model.steps.scope import Scope
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.event_kinds import WorkKind

By = Literal["counter", "step", "kind", "step_kind", "operator", "kernel"]

KINDS: Final = ("computation", "communication", "copies", "idle")
"""Kinds of work: each instant is of the first of them that runs."""

OF_DEVICES: Final = ("kind", "step_kind", "operator", "kernel")
"""TimeParts that only a device has."""


@dataclass(frozen=True)
class TimeParts:
    """The parts, in order.

    Attributes:
        times: their intervals; those of one part overlap no other of it.
        codes: int64 [intervals], the part of each.
        step: numbers of steps; None where parts are of none.
        kind: of `KINDS`; None likewise.
        name: of the operator or kernel; None likewise, and for work that no known operator launched.
    """

    times: Intervals
    codes: Int64s
    step: Sequence[int | None]
    kind: Sequence[str | None]
    name: Sequence[str | None]

    def __len__(self) -> int:
        return len(self.step)

    def within(self, others: Intervals) -> tuple[Intervals, Int64s]:
        """The pieces of each interval that are in a union, and the parts that they are of."""
        pieces, which = pieces_within(self.times, others)
        return pieces, self.codes[which]


def parts(view: Scope, by: By, device: int | None) -> TimeParts:
    """The parts of the selected time; without a device those by kinds, operators and kernels are none."""
    start, end = view.clipped(*view.steps.device)
    if by in OF_DEVICES and device is None:
        return _parts(Intervals(start[:0], end[:0]), start[:0], 0)
    if by == "counter":
        whole = union(start, end)
        return _parts(whole, np.zeros(len(whole.start), np.int64), 1)
    steps = _parts(Intervals(start, end), np.arange(len(start)), len(start), step=view.steps.number.tolist())
    if by == "step":
        return steps
    if by in ("kind", "step_kind"):
        return _by_kind(view, steps, device, of_steps=by == "step_kind")
    return _by_name(view, device, of_kernels=by == "kernel")


def _parts(
    times: Intervals,
    codes: Int64s,
    count: int,
    *,
    step: Sequence[int | None] | None = None,
    kind: Sequence[str | None] | None = None,
    name: Sequence[str | None] | None = None,
) -> TimeParts:
    nothing = [None] * count
    return TimeParts(times, codes.astype(np.int64), step or nothing, kind or nothing, name or nothing)


def _by_kind(view: Scope, steps: TimeParts, device: int | None, *, of_steps: bool) -> TimeParts:
    classes = kinds_of_work(next((each for each in busy(view) if each.device == device), None))
    whole = steps if of_steps else parts(view, "counter", device)
    made = [whole.within(each) for each in (*classes, without(whole.times, merge(*classes)))]
    return _parts(
        Intervals(*(np.concatenate([getattr(each, edge) for each, _ in made]) for edge in ("start", "end"))),
        np.concatenate([codes * len(KINDS) + place for place, (_, codes) in enumerate(made)]),
        len(whole) * len(KINDS),
        step=[each for each in whole.step for _ in KINDS],
        kind=list(KINDS) * len(whole),
    )


def kinds_of_work(device: Busy | None) -> tuple[Intervals, ...]:
    """When a device computes, else communicates, else copies or sets: a union each, no two of which overlap."""
    if device is None:
        nothing = np.empty(0, np.int64)
        return (Intervals(nothing, nothing),) * (len(KINDS) - 1)
    works = device.computation
    return (
        works,
        difference(device.communication, works),
        difference(device.memory, merge(works, device.communication)),
    )


def without(times: Intervals, others: Intervals) -> Intervals:
    """The time of any intervals that is not in a union: a union."""
    return difference(union(*times), others)


def _by_name(view: Scope, device: int | None, *, of_kernels: bool) -> TimeParts:
    work, trace = view.device_work, view.trace
    chosen = np.flatnonzero(
        view.device_work_mask
        & (work.device == device)
        & (work.of(WorkKind.COMPUTATION, WorkKind.COMMUNICATION) if of_kernels else True)
    )
    if not len(chosen):
        return _parts(Intervals(work.start[:0], work.end[:0]), work.start[:0], 0)
    rows = work.rows[chosen] if of_kernels else work.op[chosen]
    codes, first = group(trace.name[rows] if of_kernels else np.where(rows >= 0, call_names(trace)[rows], -1))
    name = (
        polars_columns.texts(trace.strings, trace.name[rows[first]])
        if of_kernels
        else names_of_calls(trace, rows[first].astype(np.int32))
    )
    times, of = unions_of_groups(view.clipped(work.start[chosen], work.end[chosen]), codes, len(first))
    return _parts(times, of, len(first), name=name.to_list())


def unions_of_groups(times: Intervals, codes: Int32s, groups: int) -> tuple[Intervals, Int64s]:
    """The union of the intervals of each group, and the group of each that is left; negative codes are of none."""
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(groups + 1))
    own = [order[low:high] for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]
    made = [union(times.start[rows], times.end[rows]) for rows in own]
    joined = Intervals(*(np.concatenate([getattr(each, edge) for each in made]) for edge in ("start", "end")))
    return joined, np.repeat(np.arange(groups), [len(each.start) for each in made])


def pieces_within(times: Intervals, others: Intervals) -> tuple[Intervals, Int64s]:
    """The pieces of any intervals that are in a union, and which of them each is of: int64 [pieces]."""
    low = np.searchsorted(others.end, times.start, side="right")
    count = np.maximum(np.searchsorted(others.start, times.end, side="left") - low, 0)
    which = np.repeat(np.arange(len(count)), count)
    place = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + low[which]
    start = np.maximum(times.start[which], others.start[place])
    return Intervals(start, np.maximum(np.minimum(times.end[which], others.end[place]), start)), which
