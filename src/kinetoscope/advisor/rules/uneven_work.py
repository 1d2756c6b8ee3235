"""RANKS006: ranks have different amounts of work in each step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kinetoscope.advisor.evidence.communication import communication_costs
from kinetoscope.advisor.finding import Evidence, Finding, Stake
from kinetoscope.advisor.rule import JobView, Rule
from kinetoscope.advisor.wording import share
from kinetoscope.views.sentences import measured, say

_SPREAD: Final = 0.03
"""Of a step: what the rank with the most work computes more than the average one, from which on it is uneven."""

_BEYOND_NOISE: Final = 0.06
"""The same, under which kernels that vary in length for no reason do as much: it is a note then."""

_STRAGGLER_SHARE: Final = 0.7
"""Share of the steps in which one rank has the most work, from which on it is a straggler."""

_CERTAIN_SHARE: Final = 0.75
"""Of the waiting: batches of similar lengths are never quite equal."""


_BUSY_CORES: Final = "on hosts alone, operators take longer, too, where other processes have the cores."


def uneven_work(job: JobView) -> Iterator[Finding]:
    """Do ranks have different amounts of work from step to step?

    What it checks. By how much the rank with the most work computes longer than the average rank in each step, where
    that is not always the same rank, and the waiting that no straggler causes.

    Why it matters. All ranks wait for the one with the most work: if sequences differ in length, the longest batch sets
    the pace. With equal work, steps take the time of the average rank. At stake is the smaller of the waiting and of
    the extra computation of the longest rank; three quarters of it are the lower end. On hosts alone it is a guess:
    an operator takes longer, too, where another process has the core.

    What to do. Sort samples by length into buckets, and give all ranks batches of the same bucket in a step; or fill
    batches by tokens instead of by samples.
    """
    costs = communication_costs(job)
    if costs.ranks < 2 or costs.rest <= 0 or costs.pipeline:
        return
    work = costs.balance.with_columns(work=pl.col("computation") + pl.col("overlap"))
    known = {late.rank for late in costs.stragglers}
    each = work.filter(~pl.col("rank").is_in(list(known))).group_by("step").agg(
        more=pl.col("work").max() - pl.col("work").mean(),
        who=pl.col("rank").sort_by("work", "rank").last(),
        ranks=pl.len(),
    )  # fmt: skip
    each = each.filter(pl.col("ranks") > 1)
    if not len(each):
        return
    more = float(each.select(pl.col("more").mean()).item())
    always = float(each["who"].value_counts()["count"].max()) / len(each)  # type: ignore[arg-type]
    most = min(more, costs.rest)
    if most < _SPREAD * costs.step or (always >= _STRAGGLER_SHARE and costs.ranks > 2 and len(each) > 2):
        return
    guess = costs.of_hosts_alone
    yield Finding(
        message=say(
            "The work of ranks differs from step to step. The longest computes {more} ({share} of the step) longer than"
            " the average, and all wait for it.",
            more=measured(more, "ns"),
            share=share(more, costs.step),
        ),
        stake=Stake(0.0 if guess else _CERTAIN_SHARE * most, most),
        takes=most,
        change="- DistributedSampler(dataset)\n+ a sampler that puts samples of like length into one step of all ranks"
        if job.program == "training"
        else "+ give all ranks requests of like length in the same step",
        why="With equal work a step takes the time of the average rank; "
        + (_BUSY_CORES if guess else "samples are never quite alike, so three quarters are the lower end."),
        confidence="low" if guess else "medium",
        evidence=(Evidence("computation and waiting of each rank and step", "rank_balance"),),
        time=costs.of_rest(most),
        at_most="critical" if most >= _BEYOND_NOISE * costs.step else "note",
    )


RULE = Rule("RANKS006", "Ranks have different amounts of work", of_job=uneven_work)
