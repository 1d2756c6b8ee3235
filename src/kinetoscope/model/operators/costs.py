"""Costs of groups of calls: number, time on the host and on the device, memory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, scattered
from kinetoscope.algorithms.grouping import IntegerArray, group, sum_by
from kinetoscope.algorithms.intervals.priority_sweep import charge
from kinetoscope.algorithms.trees.tree import counted_from
from kinetoscope.model.execution.call_tree import call_tree, enclosing_frame
from kinetoscope.model.execution.calls import ShownCalls, call_name, call_names, launching_calls, past_runtime
from kinetoscope.model.memory.allocator import Allocations
from kinetoscope.model.operators.call_stacks import CallStacks
from kinetoscope.model.steps.scope import Scope
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace

Values = dict[str, Int64s | None]
"""Columns by name: int64 [groups] each; None for a column of nulls."""

KINDS: Final[dict[int, str]] = {
    EventKind.HOST_OP: "operator",
    EventKind.ANNOTATION: "annotation",
    EventKind.RUNTIME: "runtime",
    EventKind.PYTHON: "python",
    EventKind.MEMORY: "memory",
}
"""Names of the kinds of events in tables."""

_BLOCK_EVENTS: Final = 1 << 19
"""Events of a block."""


@dataclass(frozen=True)
class GroupingKeys:
    """Keys that the calls of a group share besides name and kind.

    Attributes:
        shapes: the shapes of the inputs.
        stacks: their call stacks; None for whatever stack.
    """

    shapes: bool = False
    stacks: CallStacks | None = None


@dataclass(frozen=True)
class CallGroups:
    """Calls in groups.

    Attributes:
        code: int32 [events], the group of each call that is shown and selected, −1 for all other events.
        around: int32 [events], the group of the `whole_parent` of each call that is shown, −1 for all other events.
        since: int64 [events], from when each adds to the totals of its group: an instant of a thread counts once.
        first: int32 [groups], the first row of each.
    """

    code: Int32s
    around: Int32s
    since: Int64s
    first: Int32s

    def __len__(self) -> int:
        return len(self.first)


def grouped(view: Scope, calls: ShownCalls, keys_by: GroupingKeys, among: Bools | None = None) -> CallGroups:
    """Group the selected calls by name, kind and further keys; only those `among` (bool [events]), if it is given.

    The others still take their time off the calls around them.
    """
    trace = view.trace
    # Of a call that only reaches into a range of time, the part inside counts, though not the call.
    chosen = calls.shown & view.host_mask_untimed
    rows = np.flatnonzero(chosen if among is None else chosen & among).astype(np.int32)
    keys: list[NDArray[Any]] = [call_names(trace)[rows], trace.kind[rows]]
    if keys_by.shapes:
        keys.append(arguments.codes(trace, "input_dims", rows))
    if keys_by.stacks is not None:
        keys.append(keys_by.stacks.code[rows])
    codes, first = group(*keys)
    return _groups(trace, calls, rows, codes, first)


def grouped_as(trace: Trace, calls: ShownCalls, rows: Int32s, *keys: IntegerArray) -> CallGroups:
    """Calls (`rows`) in groups that agree in some keys of theirs: [rows] each."""
    return _groups(trace, calls, rows, *group(*keys))


def _groups(trace: Trace, calls: ShownCalls, rows: Int32s, codes: Int32s, first: Int32s) -> CallGroups:
    code = scattered(len(calls.shown), rows, codes, np.int32)
    return groups_of(trace, calls, code, rows[first])


def groups_of(trace: Trace, calls: ShownCalls, code: Int32s, first: Int32s) -> CallGroups:
    """Calls in groups: `code` int32 [events], −1 for those in none; `first`, a row of each."""
    around = np.where(calls.whole_parent >= 0, code[calls.whole_parent], np.int32(-1))
    around[calls.asynchronous] = code[calls.asynchronous]  # as if inside itself: nothing of it is self
    tree = call_tree(trace)
    nested = np.where(calls.asynchronous, np.int32(-1), code)
    since = counted_from(tree.order, tree.offsets, trace.start, trace.end, nested, len(first))
    return CallGroups(code, around, since, first)


def texts(trace: Trace, groups: CallGroups, keys_by: GroupingKeys) -> dict[str, list[Any]]:
    """Name, kind, shapes of the inputs and call stack of each group; None where not asked for, or not recorded."""
    rows = groups.first
    kinds = trace.kind[rows].tolist()
    names = trace.strings.labels(trace.name[rows].tolist())
    shapes = arguments.codes(trace, "input_dims", rows).tolist() if keys_by.shapes else [-1] * len(rows)
    stacks = keys_by.stacks
    codes = [-1] * len(rows) if stacks is None else stacks.code[rows].tolist()
    return {
        "name": [call_name(name, kind) for name, kind in zip(names, kinds, strict=True)],
        "kind": [KINDS[kind] for kind in kinds],
        "input_shapes": [json.dumps(trace.strings.nested(code)) if code >= 0 else None for code in shapes],
        "call_stack": [None if stacks is None or code < 0 else stacks.texts[code] for code in codes],
    }


@dataclass(frozen=True)
class Launched:
    """Calls and groups of each selected piece of device work: int32 [selected work] each, −1 for none.

    Attributes:
        row: the innermost shown call in which it was launched.
        own: the same, or the call that makes this call where it is one of the runtime.
    """

    row: Int32s
    own: Int32s


def launched(view: Scope, calls: ShownCalls) -> Launched:
    """The calls in which the selected device work was launched."""
    row = launching_calls(calls, view.device_work)[view.device_work_mask]
    return Launched(row, past_runtime(view.trace, calls, row))


def launched_by_python(view: Scope, calls: ShownCalls) -> Launched:
    """`launched`, but where Python calls the runtime, `own` is that call and not the one around that Python.

    Replayed graphs and compiled kernels have no operator around them, so only the stack locates them.
    """
    work, trace = launched(view, calls), view.trace
    if not len(trace):
        return work
    frame, depth = enclosing_frame(trace)[work.row], call_tree(trace).depth
    is_between = (work.row >= 0) & (frame >= 0) & (depth[frame] > depth[work.own])
    return Launched(work.row, np.where(is_between, work.row, work.own))


def host_costs(view: Scope, calls: ShownCalls, groups: CallGroups) -> Values:
    """Calls and time on the host."""
    trace = view.trace

    def time(since: Int64s, until: Int64s, _: Int32s) -> Int64s:
        start, end = view.clipped(since, until)
        return np.asarray(np.maximum(end - start, 0))

    began = groups.code[view.host_mask & (groups.code >= 0)]
    sums = _total_and_self("host", trace, calls, groups, time)
    return {"calls": np.bincount(began, minlength=len(groups)), **sums}


def device_costs(view: Scope, calls: ShownCalls, groups: CallGroups, work: Launched) -> Values:
    """Time of the device work launched in the calls; null where none counts to any call."""
    names = ("device_total", "device_self", "device_total_busy", "device_self_busy")
    if not (work.row >= 0).any():
        return dict.fromkeys(names)
    every = view.device_work
    start, end = view.clipped(every.start[view.device_work_mask], every.end[view.device_work_mask])
    device = every.device[view.device_work_mask]
    sums = {name: np.zeros(len(groups), np.int64) for name in names}
    for each in np.unique(device).tolist():
        on = device == each
        for what, rows, climb in (("total", work.row, True), ("self", work.own, False)):
            charged = charge(start[on], end[on], rows[on], calls.parent, groups.code, len(groups), climb=climb)
            sums[f"device_{what}"] += charged.total
            sums[f"device_{what}_busy"] += charged.covered
    return {**sums}


def memory_costs(what: str, view: Scope, calls: ShownCalls, groups: CallGroups, changes: Allocations) -> Values:
    """Memory allocated less freed while the calls ran; null where nothing was recorded of it."""
    if not len(changes):
        return {f"{what}_total": None, f"{what}_self": None}
    trace = view.trace

    def change(since: Int64s, until: Int64s, rows: Int32s) -> Int64s:
        # The last instant of a call is its own; where another one begins or ended, it is that one's.
        first = np.where(since > trace.start[rows], since + 1, since)
        last = np.where(until < trace.end[rows], until - 1, until)
        if view.clip is not None:
            first, last = np.maximum(first, view.clip[0]), np.minimum(last, view.clip[1] - 1)
        return changes.change_within(first, last)

    return _total_and_self(what, trace, calls, groups, change)


class _Measure(Protocol):
    def __call__(self, since: Int64s, until: Int64s, rows: Int32s, /) -> Int64s:
        """The amount from `since` to `until` of each of these events: int64 [rows]."""


def _total_and_self(what: str, trace: Trace, calls: ShownCalls, groups: CallGroups, measure: _Measure) -> Values:
    """Sums over the calls of each group, no instant twice, and what no call that began later has.

    It goes by blocks, so that the values never take the memory of a column.
    """
    total, own = np.zeros(len(groups), np.int64), np.zeros(len(groups), np.int64)
    for begin in range(0, len(calls.shown), _BLOCK_EVENTS):
        rows = (np.flatnonzero(calls.shown[begin : begin + _BLOCK_EVENTS]) + begin).astype(np.int32)
        values = measure(trace.start[rows], calls.until[rows], rows)
        own += sum_by(groups.code[rows], len(groups), values) - sum_by(groups.around[rows], len(groups), values)
        other = np.flatnonzero((groups.since[rows] > trace.start[rows]) | (calls.until[rows] < trace.end[rows]))
        values[other] = measure(groups.since[rows[other]], trace.end[rows[other]], rows[other])
        total += sum_by(groups.code[rows], len(groups), values)
    return {f"{what}_total": total, f"{what}_self": own}
