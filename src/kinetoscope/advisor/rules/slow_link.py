"""RANKS007: one process group communicates slower than others of its kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kinetoscope.advisor.evidence.communication import PAIRWISE, communication_costs
from kinetoscope.advisor.finding import Evidence, Finding, Stake
from kinetoscope.advisor.rule import JobView, Rule
from kinetoscope.advisor.wording import quoted
from kinetoscope.model.collectives.process_groups import ranks_of
from kinetoscope.views.sentences import EMPTY, Sentence, measured, say

_SLOW_TIME_RATIO: Final = 1.4
"""Ratio to the time of like groups from which on a group is slow."""

_MIN_BYTES: Final = 64 << 10
"""Size from which on the time shows the link rather than latency."""

_MAX_RANKS: Final = 4096
"""Ranks of a group that are examined one by one."""

_CERTAIN_SHARE, _POSSIBLE_RATIO = 0.6, 1.25

_KIND: Final = ("kind", "dtype", "bytes", "group_size", "hosts")


def slow_link(job: JobView) -> Iterator[Finding]:
    """Is a process group much slower than similar groups for the same bytes?

    What it checks. The transfer of collectives of the same kind, type, size, number of ranks and number of machines in
    different process groups: groups that take 1.4 times the time of the quicker half.

    Why it matters. A link that has fallen back (a cable, a switch, PCIe instead of NVLink, no direct access between
    device and network card) slows all traffic over it, and all other ranks wait for those behind it. At stake is the
    extra time of these collectives, as far as it is exposed: six tenths of it are the lower end, and at most a quarter
    more, as others wait too.

    What to do. Find the machine that the slow groups share; compare `nvidia-smi topo -m` and the counters of its
    network cards with a good one; run nccl-tests on it. Leave it out until it is repaired.
    """
    costs = communication_costs(job)
    table = costs.collectives.filter(
        (pl.col("bytes") >= _MIN_BYTES) & pl.col("transfer").is_not_null() & ~pl.col("on_host")
        & ~pl.col("kind").is_in(PAIRWISE)
    )  # fmt: skip
    if not len(table):
        return
    usual = pl.col("transfer").quantile(0.25, "lower").over(_KIND)
    slow = table.with_columns(usual=usual, like=pl.len().over(_KIND)).filter(
        (pl.col("like") > 1) & (pl.col("transfer") >= _SLOW_TIME_RATIO * pl.col("usual"))
    )
    if not len(slow):
        return
    # Of the ranks of the group, not of all: the others wait for them.
    excess = slow.with_columns(
        more=pl.col("exposed_transfer") / pl.col("members") * (1 - pl.col("usual") / pl.col("transfer"))
    )
    groups = excess.group_by("group").agg(
        pl.col("more").sum(), pl.col("group_ranks").first(), times=(pl.col("transfer") / pl.col("usual")).max()
    )
    groups = groups.sort("more", "group", descending=[True, False])
    lists = [set(ranks_of(text)) for text in groups["group_ranks"].drop_nulls().to_list()]
    cost = _cost(groups)
    if cost <= 0:
        return
    shared = sorted(set.intersection(*lists)) if len(lists) > 1 else []
    who: Sentence = EMPTY
    if len(shared) == 1:
        rank, count = measured(shared[0]), measured(len(lists))
        who = say(" Rank {rank} is in all {count} groups that are slow.", rank=rank, count=count)
    name = groups["group"][0]
    yield Finding(
        message=say(
            "Process group {group} communicates slowly. It takes {times} times as long as similar groups for the same"
            " bytes, {lost} of each step.{who} In all, nothing hides {exposed} of the ranks' communication.",
            group=quoted(name, 50) if name else "(not named)",
            times=measured(groups["times"][0]).words(f"{groups['times'][0]:.1f}"),
            lost=measured(cost, "ns"),
            who=who,
            exposed=measured(costs.transfer + costs.waiting, "ns"),
        ),
        stake=Stake(_CERTAIN_SHARE * cost, _POSSIBLE_RATIO * cost),
        takes=costs.transfer + costs.waiting,
        change="+ nvidia-smi topo -m; ibstat  # on its machines, beside those of a quick group\n"
        "+ all_reduce_perf -b 8M -e 128M  # nccl-tests, on these machines alone",
        why="The extra time of its collectives over those of similar groups, as far as it is exposed, without waiting.",
        confidence="medium",
        evidence=(Evidence("transfer and bandwidth of each group", "collectives"),),
        time=costs.of_transfer(min(cost, costs.transfer)),
    )


def _cost(groups: pl.DataFrame) -> float:
    """The loss of the rank that is in the slowest groups, ns of an average step."""
    of_rank: dict[int, float] = {}
    for more, text in groups.select("more", "group_ranks").iter_rows():
        for rank in ranks_of(text or "")[:_MAX_RANKS]:
            of_rank[rank] = of_rank.get(rank, 0.0) + more
    return max([*of_rank.values(), float(groups["more"].max())])  # type: ignore[arg-type]


RULE = Rule("RANKS007", "A slow link", of_job=slow_link)
