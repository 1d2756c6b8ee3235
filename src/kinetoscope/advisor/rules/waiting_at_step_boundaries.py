"""RANKS008: in some steps all ranks wait for what one does between steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.advisor.evidence.communication import communication_costs
from kinetoscope.advisor.finding import Evidence, Finding, Stake
from kinetoscope.advisor.rule import JobView, Rule
from kinetoscope.advisor.step_statistics import is_periodic
from kinetoscope.advisor.wording import wording
from kinetoscope.model.trace.text import listed, numbered
from kinetoscope.views.numbers import shown
from kinetoscope.views.sentences import each, measured, say

_MIN_DELAY_SHARE: Final = 0.05
"""Share of the average step that a rank must cost the others in a step to count."""

_MIN_STEP_SHARE: Final = 0.01
"""Share of the average step that it must cost on average."""

_MIN_REPEATS: Final = 3
"""Delays by one rank alone that are no chance; and ranks, as of two ranks one is often alone."""

_CAUSES: Final = ("data loading", "host gap", "memory copies", "synchronization")
"""What happens between steps; more computation is uneven work."""

_CERTAIN_SHARE: Final = 0.7


def waiting_at_step_boundaries(job: JobView) -> Iterator[Finding]:
    """Do all ranks sometimes wait for one that does other work first?

    What it checks. Single steps in which a rank that is otherwise no straggler delays the others by more than a
    twentieth of a step, by its host, its loader or its copies: evaluation, a checkpoint, logging, a new epoch, a pause
    of Python.

    Why it matters. When one rank works alone, all others wait in the first collective of the step. At stake is their
    waiting in these steps, averaged over all steps; seven tenths of it are the lower end if it happens more than once.
    It is a guess unless it is one rank of three or more, three times, or every n-th step: random delays on changing
    ranks come from other processes on the machines.

    What to do. Let all ranks do their part at the same time, or let another thread or process do it while training goes
    on (asynchronous checkpoints); collect garbage on all ranks in the same step.
    """
    costs = communication_costs(job)
    if costs.rest <= 0 or costs.ranks < 2 or costs.pipeline:
        return
    named = [late.rank for late in costs.stragglers]
    table = job.ask("stragglers", by="step")
    late = (
        pl.col("cause").is_in(_CAUSES)
        & ~pl.col("rank").is_in(named)
        & (pl.col("lost") >= _MIN_DELAY_SHARE * costs.step * (costs.ranks - 1))
    )
    delays = table.frame.filter(late)
    cost = float(delays["lost"].sum()) / ((costs.ranks - 1) * costs.steps)
    cost = min(cost, costs.rest * costs.ranks / (costs.ranks - 1))
    if cost < _MIN_STEP_SHARE * costs.step:
        return
    steps = delays["step"].drop_nulls().unique().to_list()
    ranks = delays["rank"].unique().to_list()
    cause = (
        delays.group_by("cause").agg(pl.col("lost").sum()).sort("lost", "cause", descending=[True, False])["cause"][0]
    )
    worst = delays.sort("lost", "rank", "step", descending=[True, False, False]).row(0, named=True)
    yield Finding(
        message=say(
            "In {steps} the other ranks wait for {ranks} ({cause}). They wait {lost} of an average step.",
            steps=each(table, "step", late).words(numbered("step", steps)),
            ranks=each(table, "rank", late).words(f"{'rank' if len(ranks) == 1 else 'one of ranks'} {listed(ranks)}"),
            cause=cause,
            lost=measured(cost, "ns"),
        ),
        stake=Stake(_CERTAIN_SHARE * cost if len(steps) > 1 else 0.0, cost),
        takes=cost,
        change="- if rank == 0: torch.save(...)\n+ dcp.async_save(...)  # or do it on all ranks in the same step"
        if job.program == "training"
        else wording(job.program).save,
        why="The waiting in these steps, spread over all steps.",
        confidence="medium" if _is_on_purpose(table.frame, delays, costs.ranks - len(named)) else "low",
        evidence=(
            Evidence(
                f"the worst: rank {worst['rank']} in step {worst['step']}, {shown(worst['lost'], 'ns')} of all ranks",
                "stragglers", {"by": "step"},
            ),
        ),
        time=costs.of_rest(cost),
    )  # fmt: skip


def _is_on_purpose(table: pl.DataFrame, each: pl.DataFrame, ranks: int) -> bool:
    """Is it one of several ranks, several times, or regular? By chance it would be now this rank, now that one."""
    steps = table["step"].drop_nulls().unique().sort()
    places = steps.search_sorted(each["step"].drop_nulls()).to_numpy().astype(np.int64)
    alone = each["rank"].n_unique() == 1 and len(each) >= _MIN_REPEATS and ranks >= _MIN_REPEATS
    return alone or is_periodic(places, len(steps))


RULE = Rule("RANKS008", "All wait for what one rank does between steps", of_job=waiting_at_step_boundaries)
