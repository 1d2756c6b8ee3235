"""Why nothing ran in each gap: its time, charged to what the host did, or to what the work waited for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.model.device.gaps import ACTIVITIES, Gaps, activity
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.steps.scope import Scope

By = Literal["device", "stream"]

_LAUNCH_DETAILS: Final = ("launch call", "launch to start")
DETAILS: Final = (
    *ACTIVITIES,
    *_LAUNCH_DETAILS,
    "launched just before",
    "kernel to kernel",
    "stream or event",
    "launched late",
    "short gap",
    "launched before",
    "launch not recorded",
    "no more work",
)
REASONS: Final = (
    "launch late",
    "launch latency",
    "waiting",
    "host wait",
    "kernel wait",
    "other",
    "unknown",
    "end of step",
)


@dataclass(frozen=True)
class IdleCharges:
    """Parts of gaps: int64 [parts] each; places in `Gaps`, REASONS and DETAILS, and ns."""

    gap: Int64s
    reason: Int64s
    detail: Int64s
    time: Int64s


def idle_charges(view: Scope, idle: Gaps, by: By, launch_latency: int) -> IdleCharges:
    """The parts of the gaps by reason; those of a gap sum to its length. The rules are those of `idle_breakdown`."""
    return _joined(list((_by_device if by == "device" else _by_stream)(view, idle, launch_latency)))


def _joined(parts: list[IdleCharges]) -> IdleCharges:
    return IdleCharges(
        gap=np.concatenate([part.gap for part in parts]),
        reason=np.concatenate([part.reason for part in parts]),
        detail=np.concatenate([part.detail for part in parts]),
        time=np.concatenate([part.time for part in parts]),
    )


def _launched(view: Scope, idle: Gaps) -> tuple[Int32s, Int64s]:
    """The launch call of what ends each gap, −1 if it was not recorded, and when that call started."""
    launch = np.where(idle.work >= 0, view.device_work.launch[idle.work], -1).astype(np.int32)
    return launch, np.where(launch >= 0, view.trace.start[launch], 0)


def _by_device(view: Scope, idle: Gaps, launch_latency: int) -> Iterator[IdleCharges]:
    launch, launched = _launched(view, idle)
    linked = launch >= 0
    late = linked & (launched > idle.since)
    soon = linked & ~late & (idle.until - launched < launch_latency)
    waited = linked & ~late & ~soon
    short = waited & idle.same_stream & (idle.until - idle.since < launch_latency)
    yield from _late(view, idle, np.flatnonzero(late), launch, launch_latency)
    yield _whole(idle, soon, "launch latency", "launched just before")
    yield _whole(idle, short, "waiting", "kernel to kernel")
    alone = _alone(view, idle)
    yield _whole(idle, waited & ~short & alone, "launch latency", "launch to start")
    yield _whole(idle, waited & ~short & ~alone, "waiting", "stream or event")
    yield _whole(idle, (idle.work >= 0) & ~linked, "unknown", "launch not recorded")
    yield _whole(idle, idle.work < 0, "end of step", "no more work")


def _alone(view: Scope, idle: Gaps) -> Bools:
    """Gaps of a device with one stream, on which work waits for no other stream: bool [gaps]."""
    device, _ = np.unique(np.stack([view.device_work.device, view.device_work.stream]), axis=1)
    several = np.flatnonzero(np.bincount(device - device.min(initial=0)) > 1) + device.min(initial=0)
    return ~np.isin(idle.device, several)


def _by_stream(view: Scope, idle: Gaps, launch_latency: int) -> Iterator[IdleCharges]:
    launch, launched = _launched(view, idle)
    linked = launch >= 0
    late = linked & (launched > idle.since)
    short = linked & ~late & (idle.until - idle.since < launch_latency)
    yield _whole(idle, late, "host wait", "launched late")
    yield _whole(idle, short, "kernel wait", "short gap")
    yield _whole(idle, linked & ~late & ~short, "other", "launched before")
    yield _whole(idle, (idle.work >= 0) & ~linked, "unknown", "launch not recorded")
    yield _whole(idle, idle.work < 0, "end of step", "no more work")


def _whole(idle: Gaps, which: Bools, reason: str, detail: str) -> IdleCharges:
    """Gaps that have one reason only."""
    gap = np.flatnonzero(which)
    of_reason, of_detail = REASONS.index(reason), DETAILS.index(detail)
    return IdleCharges(gap, np.full(len(gap), of_reason), np.full(len(gap), of_detail), idle.length[gap])


def _late(view: Scope, idle: Gaps, gap: Int64s, launch: Int32s, launch_latency: int) -> Iterator[IdleCharges]:
    """Gaps that a late launch ended: until the launch what its thread did, then the launch, and what is beyond it."""
    trace = view.trace
    end, call = idle.until[gap], launch[gap]
    until = np.minimum(trace.start[call], end)
    called = np.clip(trace.end[call], until, end)
    waits = runtime_call_kinds(trace)[call] == RuntimeCallKind.COPY_AND_WAIT
    launched = np.where(waits, np.minimum(called, until + launch_latency), called)
    begun = np.minimum(end, called + launch_latency)
    until, launched, called, begun = (
        np.clip(each, idle.start[gap], idle.end[gap]) for each in (until, launched, called, begun)
    )
    did = activity(trace, trace.track[call], Intervals(idle.start[gap], until))
    did[:, ACTIVITIES.index("synchronizing call")] += called - launched
    interrupted = activity(trace, trace.track[call], Intervals(until, launched))[:, ACTIVITIES.index("profiler")]
    did[:, ACTIVITIES.index("profiler")] += interrupted
    parts = (*did.T, launched - until - interrupted, begun - called, idle.end[gap] - begun)
    alone = _alone(view, idle)[gap]
    rest = parts[-1]
    parts = (*parts[:-2], parts[-2] + np.where(alone, rest, 0), np.where(alone, 0, rest))
    for name, time in zip((*ACTIVITIES, *_LAUNCH_DETAILS, "stream or event"), parts, strict=True):
        some = time > 0
        reason = REASONS.index("waiting" if name == "stream or event" else "launch late")
        yield IdleCharges(
            gap[some], np.full(int(some.sum()), reason), np.full_like(gap[some], DETAILS.index(name)), time[some]
        )
