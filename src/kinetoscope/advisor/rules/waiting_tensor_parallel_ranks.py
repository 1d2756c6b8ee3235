"""RANKS011: ranks of a server wait for each other in the collectives of each step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kinetoscope.advisor.evidence.communication import communication_costs
from kinetoscope.advisor.evidence.serving import shared_steps
from kinetoscope.advisor.finding import Evidence, Finding, Stake
from kinetoscope.advisor.rule import JobView, Rule
from kinetoscope.advisor.wording import share
from kinetoscope.views.sentences import Sentence, measured, say

_MIN_STEP_SHARE: Final = 0.03
"""Share of a step that ranks must wait, less than which is noise."""

_CERTAIN_SHARE: Final = 0.75
"""Of the waiting: ranks are never quite even."""

_ONE_RANK_SHARE: Final = 0.6
"""Share of the steps in which the others wait for the same rank, from which on it is named."""


def waiting_tensor_parallel_ranks(job: JobView) -> Iterator[Finding]:
    """Do ranks of a server wait for each other in the collectives of each step?

    What it checks. Steps of a serving engine that several ranks have, with the same number and name: the rank whose
    collectives take least time in a step is the one that the others wait for, and what those of the others take longer
    is waiting. Collectives of graphs name no process group, so that this is known where single calls cannot be matched.

    Why it matters. Tensor-parallel ranks meet twice in each layer: every step is as slow as the slowest device, and
    begins when the last host has launched it. At stake is the middle of what ranks wait. Three quarters of it are the
    lower end if it is always the same rank, less what its device waits for its own host; else nothing: hosts vary.

    What to do. If it is always the same rank, examine its device and its host; else launch steps as graphs and give the
    processes cores of their own, so that hosts launch at the same time.
    """
    steps = shared_steps(job)
    if not len(steps):
        return
    costs, taken = communication_costs(job), pl.col("communication")
    each = steps.group_by("same").agg(
        waiting=(taken - taken.min()).sort().get(pl.len() // 2),
        last=pl.col("rank").sort_by("communication", "rank").first(),
        gap=pl.col("gap").sort_by("communication", "rank").first(),
        late=pl.col("gap").sort_by("communication", "rank").first() - pl.col("gap").median(),
        duration=pl.col("duration").mean(),
    )
    waiting, step, gap, late = each.select(pl.col("waiting", "duration", "gap", "late").mean()).row(0)
    if waiting < _MIN_STEP_SHARE * step:
        return
    rank, count = each["last"].value_counts(sort=True).row(0)
    one = count >= _ONE_RANK_SHARE * len(each)
    hosts = late > waiting / 2
    # A rank whose device waits for its own host before each step does not hold the others up by computing.
    sure = 0.0 if not one else waiting if hosts else max(waiting - gap, 0.0)
    whom: Sentence = say("now for one, now for another")
    if one:
        whom = say(
            "in {share} of the steps for rank {rank}: {why}",
            share=share(count, len(each)),
            rank=measured(rank),
            why="its host launches the step later" if hosts else "its device works longer",
        )
    yield Finding(
        message=say(
            "Ranks of the server wait for each other. They wait {lost} of each step ({share}), {whom}.",
            lost=measured(waiting, "ns"),
            share=share(waiting, step),
            whom=whom,
        ),
        stake=Stake(_CERTAIN_SHARE * sure, waiting),
        takes=waiting,
        change="+ nvidia-smi -q -d PERFORMANCE,CLOCK  # on its machine: slowed by heat or power?"
        if one and not hosts
        else "+ taskset or numactl --cpunodebind for each rank's process; launch steps as graphs",
        why="Even ranks wait for nobody; they never are quite, so at least three quarters come, of a rank that is late"
        " in most steps and does not wait for its own host.",
        confidence="high" if one and len(each) > 2 else "medium",
        evidence=(Evidence("what each rank computes and waits in each step", "serving_steps"),),
        time=costs.of_rest(waiting) if costs.rest > waiting / 2 else costs.of_transfer(waiting),
        key=f"rank {rank}" if one else "",
    )


RULE = Rule("RANKS011", "Ranks of a server wait for each other", of_job=waiting_tensor_parallel_ranks)
