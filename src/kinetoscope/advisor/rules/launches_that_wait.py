"""HOST009: each launch call waits until its kernel is over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.launch_time import launching_time
from kinetoscope.advisor.evidence.phrases import each_step, share
from kinetoscope.advisor.evidence.stakes import is_worth_it, stake_over
from kinetoscope.advisor.evidence.where import seen
from kinetoscope.advisor.finding import Claim
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.algorithms.intervals.intervals import merge
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.runtime_calls import CallKind, call_kinds
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.views.numbers import shown

_FEWEST: Final = 20
"""Launches a step, under which it does not matter."""

_ALL: Final = 0.95
"""Share of the launches that end after their kernels, from which on they wait on purpose."""

_USUAL: Final = (12_000, 4_000)
"""What a launch call that does not wait takes at most and at least, ns."""

_SURE: Final = 0.8
"""Of what the steps then gain."""


def launches_that_wait(look: RankView) -> Iterator[Claim]:
    """Does each launch call wait until its kernel is over, as with `CUDA_LAUNCH_BLOCKING=1`?

    What it checks. Launch calls of kernels that end after their kernel has: a launch only puts a kernel into a queue,
    and is over in some microseconds. If 95 % of them end later than their kernels, they wait on purpose.

    Why it matters. The host stands still while the device works, and the device while the host prepares the next
    kernel: nothing overlaps. At stake is what the steps gain if launches take 4 µs, surely eight tenths of what they
    gain if launches take 12 µs.

    What to do. Take `CUDA_LAUNCH_BLOCKING` (`AMD_SERIALIZE_KERNEL`, `HIP_LAUNCH_BLOCKING`) out of the environment: it
    is for finding errors.
    """
    trace, work = look.trace, device_work(look.trace)
    kernels = np.flatnonzero(look.view.work & work.of(WorkKind.COMPUTATION) & (work.launch >= 0))
    kernels = kernels[call_kinds(trace)[work.launch[kernels]] == CallKind.LAUNCH]
    calls = work.launch[kernels]
    if not look.count or len(kernels) < _FEWEST * look.count:
        return
    waiting = trace.end[calls] >= work.end[kernels]
    if waiting.mean() < _ALL:
        return
    calls = np.unique(calls[waiting])
    took = np.maximum(trace.end[calls] - trace.start[calls], 1)
    gains = []
    for usual in _USUAL:
        factors = look.factors()
        factors.host[calls] = np.minimum(usual / took, 1.0)
        factors.free[calls] = True
        gains.append(look.gains(factors))
    exposed = look.exposed(merge(*launching_time(look).stretches.values()))
    stake = stake_over(look, _SURE * gains[0], gains[1], look.spans(calls))
    if not is_worth_it(look, stake):
        return
    longest = int(calls[np.argmax(took)])
    yield Claim(
        message="Each launch waits until its kernel is over, as with CUDA_LAUNCH_BLOCKING=1."
        f" {each_step(len(calls) / look.count, 'launch', 'launches')} take"
        f" {shown(look.each_step(int(took.sum())), 'ns')};"
        f" {share(float(waiting.mean()), 1.0)} of all end after their kernels.",
        stake=stake,
        change="- CUDA_LAUNCH_BLOCKING=1  # in the environment",
        why="Launches that do not wait take 4 to 12 µs; eight tenths of the gain count as sure.",
        evidence=(seen(look, longest, "the longest launch", "launch_statistics"),),
        time=merge(look.spans(calls), exposed),
    )


RULE = Rule("HOST009", "Each launch waits for its kernel", of_rank=launches_that_wait)
