"""The work that floors are of, and the call that each piece is charged to.

It is the work of the devices. A process that used none computes within its operators: there these are the work, each
for the time that it does not spend in operators inside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats, Int8s, Int32s, marked, scattered
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.device.hardware import is_host_only
from kinetoscope.model.device.peaks import HOST, known_peaks
from kinetoscope.model.execution.call_tree import call_tree, enclosing_op
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.operators.categories import categories_of_names, work_categories
from kinetoscope.model.roofline.calls import Uncovered, costed_calls, uncovered_operators
from kinetoscope.model.steps.scope import Scope
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.trace import Trace


@dataclass(frozen=True)
class ChargedWork:
    """Work of devices, or of the host.

    Attributes:
        work: its pieces; on the host the device is `HOST`, and a piece lasts as long as the operator's own time.
        call: int32 [work], the call of `costed_calls` that each is charged to, −1 for none.
        uncovered: int8 [work], why it is charged to none, an `Uncovered`.
        on_host: is it that of the host's operators?
    """

    work: DeviceWork
    call: Int32s
    uncovered: Int8s
    on_host: bool

    def selected(self, view: Scope) -> Bools:
        """True for selected work: bool [work]."""
        return view.host_mask[self.work.rows] if self.on_host else view.device_work_mask

    def of_devices(self, values: Floats) -> Floats:
        """Values that only device work has (float64 [device work]) as those of the work; on the host all NaN."""
        return np.full(len(self.work), np.nan) if self.on_host else values


@derived
def has_host_floors(trace: Trace) -> bool:
    """Did the process use no device, and are the peaks of the host known, so that its operators have floors?"""
    return is_host_only(trace) and known_peaks(trace, HOST).peak is not None


@derived
def charged_work(trace: Trace, *, on_host: bool = False) -> ChargedWork:
    """The work of the devices, or of the operators of the host, charged to calls."""
    costed = costed_calls(trace)
    if not on_host:
        return ChargedWork(device_work(trace), costed.call, costed.uncovered, on_host=False)
    work = _operators(trace)
    place = scattered(len(trace) + 1, costed.rows, np.arange(len(costed.rows)), np.int32)
    call = place[ancestor(call_tree(trace).parent, marked(len(trace), costed.rows))[work.rows]]
    uncovered = np.where(call >= 0, Uncovered.NOT, uncovered_operators(trace, work.rows)).astype(np.int8)
    return ChargedWork(work, call, uncovered, on_host=True)


@derived
def charged_categories(trace: Trace, *, on_host: bool) -> Int8s:
    """The category of each piece of it, a place in `categories.CATEGORIES`: int8 [work]."""
    if not on_host:
        return work_categories(trace)
    charged = charged_work(trace, on_host=True)
    rows = np.append(costed_calls(trace).rows, np.int32(-1))[charged.call]
    return categories_of_names(trace, trace.name[np.where(rows >= 0, rows, charged.work.rows)])


def _operators(trace: Trace) -> DeviceWork:
    """The operators of the host as work that begins when they begin, and lasts as long as their own time."""
    calls = call_tree(trace)
    rows = trace.rows(EventKind.HOST_OP)
    rows = rows[calls.member[rows]]
    length = np.maximum(trace.end[rows] - trace.start[rows], 0)
    parent = calls.parent[rows]
    around = np.where(parent >= 0, enclosing_op(trace)[parent], -1)
    inside = np.bincount(around[around >= 0], length[around >= 0], len(trace)).astype(np.int64)
    own = np.maximum(length - inside[rows], 0)
    nowhere = np.full(len(rows), HOST, np.int64)
    return DeviceWork(
        rows=rows,
        kind=np.full(len(rows), WorkKind.COMPUTATION, np.int8),
        device=nowhere,
        stream=nowhere,
        start=trace.start[rows],
        end=trace.start[rows] + own,
        launch=np.full(len(rows), -1, np.int32),
        op=rows.astype(np.int32),
        captured=np.full(len(rows), -1, np.int32),
    )
