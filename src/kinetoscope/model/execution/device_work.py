"""Device work and where it comes from: device work → launch → operator.

A launch is a call of the runtime or the driver with the same correlation id, one launch to many kernels where it starts
a graph. The operator is the one that the launch stands in on its thread; only where none is known that way does the
External id decide, and not at all in files of 2022–2023, which hold the correlation id under that key. Work of a
replayed graph has the operator that it was captured in, where that is known (`model.trace.captured_calls`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s, any_of
from kinetoscope.algorithms.grouping import group, match_first
from kinetoscope.model.execution.call_tree import nearest_op
from kinetoscope.model.execution.flows import joined_flows, op_at
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import (
    COLLECTIVE_KERNEL,
    COLLECTIVE_KERNEL_WORDS,
    COLLECTIVE_OPS,
    COLLECTIVE_WORDS,
    EventKind,
    WorkKind,
)
from kinetoscope.model.trace.trace import Trace, is_device_work

_FLOW_TO_NPU: Final = "torch_to_npu"
"""Arrows that torch_npu draws from operators to what runs on a device."""

_MAX_EQUAL_ID_SHARE: Final = 0.5
"""External ids that may equal the correlation id by chance; in files of 2022–2023 all do."""


@dataclass(frozen=True)
class DeviceWork:
    """All kernels, copies and sets of a trace, in file order.

    Attributes:
        rows: int32 [work], their rows.
        kind: int8 [work], a `WorkKind`.
        device, stream: int64 [work], as numbered in the file; −1 where it does not say.
        start, end: int64 [work], ns; work that ends before it starts counts as empty.
        launch: int32 [work], row of the call that launched it, −1 if that was not recorded.
        op: int32 [work], row of the operator that it was launched for, −1 if unknown.
        captured: int32 [work], row of the captured call that replayed work was launched in, −1 if it has none.
    """

    rows: Int32s
    kind: Int8s
    device: Int64s
    stream: Int64s
    start: Int64s
    end: Int64s
    launch: Int32s
    op: Int32s
    captured: Int32s

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def duration(self) -> Int64s:
        """Duration of each, ns: int64 [work]."""
        return self.end - self.start

    @property
    def caller(self) -> Int32s:
        """Row of the call that each belongs to, −1 if unknown: int32 [work].

        That is the captured call of replayed work, else the launch, else the operator that it was launched for.
        """
        return np.where(self.captured >= 0, self.captured, np.where(self.launch >= 0, self.launch, self.op))

    def of(self, *kinds: WorkKind) -> Bools:
        """Work of these kinds: bool [work]."""
        return any_of(self.kind, kinds)


@derived
def device_work(trace: Trace) -> DeviceWork:
    """The device work of a trace, with the launch and the operator of each piece."""
    rows = np.flatnonzero(is_device_work(trace)).astype(np.int32)
    launch = _launches(trace, rows)
    captured = np.full(len(rows), -1, np.int32) if trace.captured is None else trace.captured.calls_of(rows)
    call = np.where(captured >= 0, captured, launch)
    op = np.where(call >= 0, nearest_op(trace)[call], np.int32(-1))
    unknown = np.flatnonzero(op < 0)
    op[unknown] = _ops_by_external_id(trace, rows[unknown])
    if trace.strings.code(_FLOW_TO_NPU) >= 0:
        unknown = np.flatnonzero(op < 0)
        op[unknown] = _ops_by_flow(trace, rows[unknown])
    start = trace.start[rows]
    return DeviceWork(
        rows=rows,
        kind=_work_kinds(trace, rows, op),
        device=_identity(trace, rows, "device", trace.tracks.integer_pids()),
        stream=_identity(trace, rows, "stream", trace.tracks.integer_tids()),
        start=start,
        end=np.maximum(trace.end[rows], start),
        launch=launch,
        op=op,
        captured=captured,
    )


def _launches(trace: Trace, rows: Int32s) -> Int32s:
    calls = np.flatnonzero(trace.kind == EventKind.RUNTIME).astype(np.int32)
    wanted = arguments.integers(trace, "correlation", rows)
    ids = arguments.integers(trace, "correlation", calls)
    calls, ids = calls[ids > 0], ids[ids > 0]
    if not len(calls):
        return np.full(len(rows), -1, np.int32)
    place = match_first(wanted, ids)
    return np.where((place >= 0) & (wanted > 0), calls[place], -1).astype(np.int32)


def _ops_by_external_id(trace: Trace, rows: Int32s) -> Int32s:
    ops = trace.rows(EventKind.HOST_OP)
    wanted = arguments.integers(trace, "external_id", rows)
    given = wanted > 0
    is_correlation = wanted[given] == arguments.integers(trace, "correlation", rows)[given]
    if not len(ops) or not given.any() or is_correlation.mean() > _MAX_EQUAL_ID_SHARE:
        return np.full(len(rows), -1, np.int32)
    place = match_first(wanted, arguments.integers(trace, "external_id", ops))
    return np.where((place >= 0) & given, ops[place], -1).astype(np.int32)


def _ops_by_flow(trace: Trace, rows: Int32s) -> Int32s:
    """The operators from which an arrow ends on the stream at the time at which each piece of work begins (Ascend)."""
    starts, ends = joined_flows(trace, (_FLOW_TO_NPU,))
    events = np.append(ends, rows.astype(np.int64))
    codes = group(trace.track[events], trace.start[events])[0].astype(np.int64)
    arrow = match_first(codes[len(ends) :], codes[: len(ends)])
    return np.where(arrow >= 0, np.append(op_at(trace, starts), np.int32(-1))[arrow], np.int32(-1))


def _work_kinds(trace: Trace, rows: Int32s, op: Int32s) -> Int8s:
    kinds = np.full(len(rows), WorkKind.COMPUTATION, np.int8)
    names = trace.name[rows]
    op_names = np.where(op >= 0, trace.name[op], -1)
    collective = _matching(trace, names, COLLECTIVE_KERNEL_WORDS, COLLECTIVE_KERNEL.search)
    collective_ops = _matching(trace, op_names, COLLECTIVE_WORDS, COLLECTIVE_OPS.match)
    is_collective = np.isin(names, collective) | np.isin(op_names, collective_ops)
    is_collective |= arguments.codes(trace, "collective", rows) >= 0
    kinds[is_collective] = WorkKind.COMMUNICATION
    event = trace.kind[rows]
    kinds[event == EventKind.MEMCPY] = WorkKind.MEMCPY
    kinds[event == EventKind.MEMSET] = WorkKind.MEMSET
    return kinds


def _matching(trace: Trace, names: Int32s, words: tuple[str, ...], match: Callable[[str], object]) -> list[int]:
    """Names that match; only those that contain one of the words are tried."""
    likely = np.unique(names[names >= 0])
    likely = likely[trace.strings.holding(words)[likely]]
    return [code for code in likely.tolist() if match(trace.strings.glance(code))]


def _identity(trace: Trace, rows: Int32s, name: str, of_track: Int64s) -> Int64s:
    """The argument of this name; where it is missing, the number of the track."""
    given = arguments.integers(trace, name, rows)
    return np.where(given >= 0, given, of_track[trace.track[rows]] if len(of_track) else given)


def launched_by(trace: Trace, calls: Bools) -> Bools:
    """Device work that was launched in events of these (`call_tree.inside`): bool [work]."""
    caller = device_work(trace).caller
    return np.asarray((caller >= 0) & calls[caller]) if len(trace) else np.zeros(0, np.bool_)
