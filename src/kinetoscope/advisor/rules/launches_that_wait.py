"""HOST009: each launch call waits until its kernel is over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.launch_time import launching_time
from kinetoscope.advisor.evidence.source_location import event_evidence
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.intervals.intervals import merge
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.views.sentences import measured, say

_MIN_LAUNCHES: Final = 20
"""Launches a step from which on their time matters."""

_BLOCKING_SHARE: Final = 0.95
"""Share of the launches that end after their kernels, from which on they block on purpose."""

_USUAL_LAUNCH_NS: Final = (12_000, 4_000)
"""Time of a launch call that does not block, at most and at least."""

_CERTAIN_SHARE: Final = 0.8
"""Certain share of the gain."""


def launches_that_wait(rank: RankView) -> Iterator[Finding]:
    """Does each launch call block until its kernel is over, as with `CUDA_LAUNCH_BLOCKING=1`?

    What it checks. Kernel launch calls that end after their kernel. A launch only queues a kernel and returns after
    some microseconds. If 95 % of them end later than their kernels, launches block on purpose.

    Why it matters. The host blocks while the device works, and the device is idle while the host prepares the next
    kernel: nothing overlaps. At most, the steps gain what launches of 4 µs would save. Eight tenths of what launches of
    12 µs would save are the lower end.

    What to do. Remove `CUDA_LAUNCH_BLOCKING` (`AMD_SERIALIZE_KERNEL`, `HIP_LAUNCH_BLOCKING`) from the environment: it
    is meant for debugging.
    """
    trace, work = rank.trace, device_work(rank.trace)
    kernels = np.flatnonzero(rank.scope.device_work_mask & work.of(WorkKind.COMPUTATION) & (work.launch >= 0))
    kernels = kernels[runtime_call_kinds(trace)[work.launch[kernels]] == RuntimeCallKind.LAUNCH]
    calls = work.launch[kernels]
    if len(kernels) < _MIN_LAUNCHES * rank.step_count:
        return
    waiting = trace.end[calls] >= work.end[kernels]
    if waiting.mean() < _BLOCKING_SHARE:
        return
    calls = np.unique(calls[waiting])
    took = np.maximum(trace.end[calls] - trace.start[calls], 1)
    gains = []
    for usual in _USUAL_LAUNCH_NS:
        factors = rank.factors()
        factors.host[calls] = np.minimum(usual / took, 1.0)
        factors.free[calls] = True
        gains.append(rank.gains(factors))
    exposed = rank.exposed(merge(*launching_time(rank).stretches.values()))
    time = rank.spans(calls)
    saved = saving(
        rank,
        _CERTAIN_SHARE * gains[0],
        gains[1],
        time,
        took=int(took.sum()),
        goes=merge(time, exposed),
        factors=factors,
    )
    if saved is None:
        return
    longest = int(calls[np.argmax(took)])
    yield saved.finding(
        message=say(
            "Each launch waits until its kernel is over, as with `CUDA_LAUNCH_BLOCKING=1`. {launches} take {took};"
            " {part} of all end after their kernels.",
            launches=rank.each_step(len(calls), "launch", "launches"),
            took=saved.per_step,
            part=share(float(waiting.mean()), 1.0),
        ),
        change="- CUDA_LAUNCH_BLOCKING=1  # in the environment",
        why=say(
            "Launches that do not wait are assumed to take {least} to {most}; eight tenths of the gain at least.",
            least=measured(_USUAL_LAUNCH_NS[1], "ns"),
            most=measured(_USUAL_LAUNCH_NS[0], "ns"),
        ),
        evidence=event_evidence(rank, longest, "the longest launch", "launch_statistics"),
    )


RULE = Rule("HOST009", "Each launch waits for its kernel", launches_that_wait, needs="steps")
