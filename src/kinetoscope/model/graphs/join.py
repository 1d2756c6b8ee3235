"""Which capture each replay replays: the one with the same kernels in the same order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.algorithms.arrays import Int32s
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.graphs.captures import Captures, captures
from kinetoscope.model.graphs.replays import replays
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace

Signature = tuple[tuple[int, str | None], ...]
"""The kind of each node of a graph, and the name of its kernel; None where that is unknown."""


@dataclass(frozen=True)
class JoinedReplays:
    """Replays of one capture.

    Attributes:
        capture: which capture of its trace.
        launch: int32 [replays], row of the launch of each, −1 where it was not recorded.
        work: int32 [replays, nodes], rows of the device work of each.
        call: int32 [nodes], row, in the trace of the capture, of the launch of each node.
    """

    capture: int
    launch: Int32s
    work: Int32s
    call: Int32s


def joined(trace: Trace, recording: Trace) -> list[JoinedReplays]:
    """The replays of a trace that captures of another recording, or of the same, made.

    The i-th launch of a capture is the i-th node of a replay, if the two have as many, of the same kinds, and of the
    same kernels where the launches name them (ROCm). Else the replays stay without.
    """
    every, found = replays(trace), captures(recording)
    if not len(every) or not len(found):
        return []
    work = device_work(trace)
    signatures = {_signature_of_capture(recording, found, place): place for place in reversed(range(len(found)))}
    result = []
    for template in range(int(every.template.max()) + 1):
        members = np.flatnonzero(every.template == template)
        first = work.rows[every.work_of(int(members[0]))]
        capture = _capture_of(_signature_of_work(trace, first), signatures)
        if capture >= 0:
            places = np.stack([every.work_of(member) for member in members.tolist()])
            call = found.launch[found.offsets[capture] : found.offsets[capture + 1]]
            result.append(JoinedReplays(capture, every.launch[members], work.rows[places], call))
    return result


def _capture_of(replayed: Signature, signatures: dict[Signature, int]) -> int:
    if replayed in signatures:
        return signatures[replayed]
    unnamed = tuple((kind, None) for kind, _ in replayed)
    return signatures.get(unnamed, -1)


def _signature_of_capture(trace: Trace, found: Captures, capture: int) -> Signature:
    part = slice(int(found.offsets[capture]), int(found.offsets[capture + 1]))
    names = (trace.strings.label(code) if code >= 0 else None for code in found.kernel[part].tolist())
    return tuple(zip(found.event[part].tolist(), names, strict=True))


def _signature_of_work(trace: Trace, rows: Int32s) -> Signature:
    kinds = trace.kind[rows].tolist()
    names = trace.strings.labels(trace.name[rows].tolist())
    return tuple((kind, name if kind == EventKind.KERNEL else None) for kind, name in zip(kinds, names, strict=True))
