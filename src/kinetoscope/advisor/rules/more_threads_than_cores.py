"""HOST016: more threads want to compute than there are cores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.stakes import is_worth_reporting, stake_by_time
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import counted, joined
from kinetoscope.model.device.hardware import is_host_only
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.recording import recording
from kinetoscope.views.sentences import say

_MIN_RATIO: Final = 1.25
"""Ratio of threads to cores from which on they are in each other's way."""

_LEAST_TIME_LEFT: Final = 0.25
"""Share of their time that operators take at least with as many threads as cores."""

_WAITING: Final = 0.5
"""Share of what sharing alone would leave that is left at least: 0.74 to 0.92 were measured with two threads a core."""


def more_threads_than_cores(rank: RankView) -> Iterator[Finding]:
    """Are there more threads of torch and workers of loaders, over all ranks of a machine, than cores?

    What it checks. What `kinetoscope.profile` noted of the process: cores that it may use (affinity and quota of the
    container), threads of torch, workers of its loaders, ranks on the machine. Ranks times threads and workers must
    exceed the cores by a quarter; where a device computes, one thread of a rank counts. It is a guess if only the
    workers are too many, as those whose batches are ready sleep.

    Why it matters. Threads of an operator wait for the slowest of them at its end. If one of them has no core, all
    wait, until it gets one. At most, operators on the host take half of the share of their time that cores are of
    threads, but a quarter of it at least. None of it is sure, as threads that have nothing to do need no core.

    What to do. `torch.set_num_threads`, or `OMP_NUM_THREADS` for each rank: cores / ranks, less the workers.
    """
    facts = recording(rank.trace)
    if facts is None or not {"cores", "threads"} <= facts.cpu.keys():
        return
    cores, workers, ranks = facts.cpu["cores"], facts.cpu.get("workers", 0), max(facts.cpu.get("local_ranks", 1), 1)
    threads = facts.cpu["threads"] if is_host_only(rank.trace) else 1
    wanted = ranks * (threads + workers)
    if cores < 1 or wanted < _MIN_RATIO * cores:
        return
    factors = rank.factors()
    factors.host[rank.trace.kind == EventKind.HOST_OP] = max(_WAITING * cores / wanted, _LEAST_TIME_LEFT)
    gains = rank.gains(factors)
    stake = stake_by_time(rank, 0.0 * gains, gains, rank.time)
    if not is_worth_reporting(rank, stake):
        return
    parts = [say("{n}", n=counted(n, one)) for n, one in ((threads, "thread"), (workers, "worker")) if n]
    fitting = max(cores // ranks - workers, 1)
    operators = rank.spans(np.flatnonzero((rank.trace.kind == EventKind.HOST_OP) & rank.scope.host_mask))
    yield Finding(
        message=say(
            "More threads want to compute than there are cores. {wanted}{each} share {cores}; operators take the host"
            " {operators} of each step.",
            wanted=joined(parts),
            each=say(" of each of {ranks}", ranks=counted(ranks, "rank")) if ranks > 1 else "",
            cores=counted(cores, "core"),
            operators=rank.time_per_step(operators.length),
        ),
        stake=stake,
        factors=factors,
        takes=rank.per_step(operators.length),
        change=f"+ OMP_NUM_THREADS={fitting}  # in the environment of each rank"
        if threads > fitting
        else f"- DataLoader(..., num_workers={workers})\n+ DataLoader(..., num_workers={max(cores // ranks - 1, 1)})",
        why=say(
            "Operators wait for the slowest of their threads; whether that has a core the trace does not show, so none"
            " of the gain is certain."
        ),
        confidence="medium" if ranks * threads >= _MIN_RATIO * cores else "low",
    )


RULE = Rule("HOST016", "More threads than cores", more_threads_than_cores, needs="computation")
