"""Data loading: torch's own spans, and the gap at the start of a step where a loader of another make leaves none."""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools
from kinetoscope.algorithms.intervals.intervals import Intervals, covered, extents, merge, union
from kinetoscope.model.execution.activities import takes_next_batch
from kinetoscope.model.execution.call_tree import main_thread
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.execution.marks import is_data_loading, is_module_call, is_step
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.execution.synchronization import host_waits
from kinetoscope.model.execution.work_before import work_before
from kinetoscope.model.steps.steps import Steps, step_of
from kinetoscope.model.steps.steps import steps as find_steps
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace

_MIN_BATCH_BYTES: Final = 1 << 16
"""Smallest copy to the device that may be a batch; the copies of a server for each step are smaller."""

_INT64: Final = np.iinfo(np.int64)

DATA_WAIT: Final = "data wait"
HOST_GAP: Final = "host gap"


@derived
def step_gaps(trace: Trace, steps_by: str | None = None) -> tuple[list[int | None], list[str | None]]:
    """For each step the idle time between the last op of the step before and its own forward pass, ns, and its cause.

    The first step's gap begins with the step. Null without a recorded forward pass: a call of a module, an op linked to
    its backward pass, or the launch of a graph. Time in which the host waits for a device is not in it, nor work from
    before the recording. `steps_by` as for `steps`.
    """
    gaps, known = gap_spans(trace, steps_by)
    work, before, waits = device_work(trace), work_before(trace), host_waits(trace).call
    earlier = Intervals(np.array([before.begin]), np.array([before.end]))
    busy = merge(union(work.start, work.end), earlier, union(trace.start[waits], trace.end[waits]))
    idle = (gaps.end - gaps.start) - covered(gaps, busy)
    evidence = _has_evidence(trace, work, gaps) & (idle > 0)
    lengths = [int(length) if is_known else None for length, is_known in zip(idle, known, strict=True)]
    causes = [
        (DATA_WAIT if loads else HOST_GAP) if is_known else None
        for is_known, loads in zip(known, evidence, strict=True)
    ]
    return lengths, causes


def gap_spans(trace: Trace, steps_by: str | None = None) -> tuple[Intervals, Bools]:
    """The gap of each step, and whether it is known (else the interval is empty)."""
    steps = find_steps(trace, steps_by)
    on_main = trace.track == main_thread(trace)
    ranges = is_data_loading(trace) | is_step(trace)
    last = _extents(trace, steps, (trace.kind == EventKind.HOST_OP) & on_main & ~ranges).end
    links = rows_named(trace, lambda name: name in ("fwdbwd", "forward_backward"), EventKind.FLOW_START)
    graphs = runtime_call_kinds(trace) == RuntimeCallKind.GRAPH_LAUNCH
    first = _extents(trace, steps, (is_module_call(trace) | links | graphs) & on_main).start
    begin = np.concatenate([steps.host.start[:1], last[:-1]])
    known = (begin > _INT64.min) & (first < _INT64.max) & (first >= begin)
    return Intervals(np.where(known, begin, 0), np.where(known, first, 0)), known


def _extents(trace: Trace, steps: Steps, calls: Bools) -> Intervals:
    """The first start and the last end of the calls that begin in each step of the host."""
    rows = np.flatnonzero(calls)
    begins = trace.start[rows]
    return extents(step_of(steps.host, begins), len(steps), begins, trace.end[rows])


@derived
def waits_for_data(trace: Trace) -> Bools:
    """Python calls that wait for a loader or a queue: bool [events]."""
    return rows_named(trace, _is_waiting_for_data, EventKind.PYTHON, holding=_WAITING_WORDS)


def _has_evidence(trace: Trace, work: DeviceWork, gaps: Intervals) -> Bools:
    """Gaps with evidence of data loading: a loader's span or frame, a queue's get, a copy to a device: bool [gaps]."""
    spans = is_data_loading(trace) | waits_for_data(trace) | takes_next_batch(trace)
    evidence = np.zeros(len(gaps.start), np.bool_)
    if spans.any():
        evidence |= covered(gaps, union(trace.start[spans], trace.end[spans])) > 0
    copies = work.of(WorkKind.MEMCPY) & (work.launch >= 0)
    to_device = rows_named(trace, lambda name: "HtoD" in name or "HOST_TO_DEVICE" in name.upper(), EventKind.MEMCPY)
    size = arguments.integers(trace, "bytes", work.rows)
    launches = np.sort(
        trace.start[work.launch[copies & to_device[work.rows] & ((size < 0) | (size >= _MIN_BATCH_BYTES))]]
    )
    counts = np.searchsorted(launches, gaps.end, side="right") - np.searchsorted(launches, gaps.start, side="left")
    return evidence | (counts > 0)


_WAITING_WORDS: Final = ("__next__", "get", "recv")
"""Words in the names that `_is_waiting_for_data` knows."""


def _is_waiting_for_data(name: str) -> bool:
    lower = name.lower()
    if lower.startswith("<built-in method get of _queue."):
        return True
    if "dataloader" in lower and name.endswith("__next__"):
        return True
    return ("queue" in lower or "connection.py" in lower) and name.rpartition(" ")[2] in ("get", "recv", "recv_bytes")
