"""MEMORY003: the allocator asks the driver for memory step after step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.memory import allocator_calls, in_steady_state
from kinetoscope.advisor.evidence.source_location import event_evidence
from kinetoscope.advisor.evidence.stakes import is_worth_reporting
from kinetoscope.advisor.finding import Finding, Stake
from kinetoscope.advisor.rule import NO_PROGRAM, RankView, Rule
from kinetoscope.advisor.step_statistics import range_of_mean
from kinetoscope.advisor.wording import each_step, quoted
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_containing
from kinetoscope.views.sentences import measured, say

_CERTAIN_SHARE: Final = 0.8
"""Certain share of the gain: some of these calls may be needed."""


def allocator_calls_in_steady_state(rank: RankView) -> Iterator[Finding]:
    """Does the allocator ask the driver for memory in every step?

    What it checks. Calls such as `cudaMalloc`, `cudaFree` and `cudaHostAlloc` in steps after the warm-up, if they also
    occur in the later half of the steps. At the beginning torch's memory pool is still filling up. Of a window without
    steps they are reported if memory of the device is freed, which torch does where memory is short or the program
    calls `empty_cache`; none of that time is sure.

    Why it matters. These calls are slow, and freeing waits until the device is idle. Torch keeps the memory that it
    once got, so a steady loop needs none of them. If they go on, requests of ever new sizes do not fit into the free
    blocks, memory is nearly full so that the pool is freed, or the program calls `empty_cache`. At stake is the
    time that the steps gain without these calls; eight tenths of it are the lower end.

    What to do. Let segments grow (`expandable_segments`), use few different input sizes, and do not call `empty_cache`
    in the loop.
    """
    trace = rank.trace
    rows = in_steady_state(rank, allocator_calls(trace))
    if not len(rows):
        yield from _given_back(rank)
        return
    factors = rank.factors()
    factors.host[rows] = 0.0
    factors.free[rows] = True
    gains = rank.gains(factors)
    least, most = range_of_mean(gains)  # not every step needs memory
    if most <= 0:  # device work hides them
        return
    took = trace.end[rows] - trace.start[rows]
    longest = int(rows[np.argmax(took)])
    calls, name = rank.spans(rows), trace.strings.label(int(trace.name[longest]))
    yield Finding(
        message=say(
            "The allocator calls the driver in every step. {calls} ({name} and the like) take {time} of each step.",
            calls=each_step(rank.per_step(len(rows)), "call"),
            name=quoted(name),
            time=measured(rank.per_step(calls.length), "ns"),
        ),
        stake=Stake(max(_CERTAIN_SHARE * least, 0.0), min(most, rank.step)),
        takes=rank.per_step(calls.length),
        change="+ PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True  # in the environment\n"
        "- torch.cuda.empty_cache()  # in the loop",
        why=say("These calls go, and so does the waiting for the device in those that free memory."),
        evidence=(event_evidence(rank, longest, "the longest of these calls", "memory_curve"),),
        time=rank.exposed(calls),
        factors=factors,
    )


def _given_back(rank: RankView) -> Iterator[Finding]:
    """The calls of a window without steps, if memory of a device is freed and allocated in it."""
    trace = rank.trace
    rows = allocator_calls(trace)
    rows = rows[rank.scope.host_mask[rows] & ~rows_containing(trace, ("Host",), EventKind.RUNTIME)[rows]]
    freed = runtime_call_kinds(trace)[rows] == RuntimeCallKind.FREE
    if rank.scope.steps.origin != "window" or not freed.any() or freed.all():
        return
    factors = rank.factors()
    factors.host[rows] = 0.0
    factors.free[rows] = True
    time = rank.exposed(rank.spans(rows))
    stake = Stake(0.0, min(float(np.mean(rank.gains(factors))), rank.per_step(time.length)))
    if not is_worth_reporting(rank, stake):
        return
    longest = rank.longest(rows)
    yield Finding(
        message=say(
            "The allocator frees memory of the device and allocates it anew. {count} calls ({name} and the like) take"
            " {time} of the window; those that free it, {freed}, wait until the device is done.",
            count=measured(len(rows)),
            name=quoted(trace.strings.label(int(trace.name[longest]))),
            time=measured(rank.spans(rows).length, "ns"),
            freed=measured(rank.spans(rows[freed]).length, "ns"),
        ),
        stake=stake,
        takes=rank.per_step(time.length),
        change="+ PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True  # in the environment\n- torch.cuda.empty_cache()",
        why=say("How much of the waiting is for work that is needed anyway is not known."),
        confidence="medium",
        evidence=(event_evidence(rank, longest, "the longest of these calls", "memory_curve"),),
        time=time,
        factors=factors,
    )


RULE = Rule(
    "MEMORY003",
    "The allocator calls the driver in every step",
    allocator_calls_in_steady_state,
    unfit=NO_PROGRAM - {"lost device work"},
)
