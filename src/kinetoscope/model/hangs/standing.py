"""The place where each rank of a job stands: the first of its calls that is not done, and who has come to it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from kinetoscope.model.flight_recorder.of_trace import WHOLE_NAME
from kinetoscope.model.hangs.hosts import has_ended
from kinetoscope.model.hangs.members import MemberGroup, process_groups

MEETING: Final = frozenset(
    {
        "all_reduce",
        "allreduce",
        "allreduce_coalesced",
        "all_gather",
        "allgather",
        "all_gather_single",
        "_all_gather_base",
        "_allgather_base",
        "all_gather_into_tensor_coalesced",
        "reduce_scatter",
        "reduce_scatter_single",
        "_reduce_scatter_base",
        "reduce_scatter_tensor_coalesced",
        "barrier",
        "all_reduce_barrier",
    }
)
"""Collectives that are done on no rank before all have come: each rank needs something of every other."""

Node = tuple[int, int]
"""A collective: its group, and its number in it."""


@dataclass(frozen=True)
class Standing:
    """The places where the ranks of a job stand.

    Attributes:
        ranks: all of them.
        groups: the process groups; numbers are places in them.
        at: of each rank the rows of its first call that is not done; several if they were called as one.
        came: of each collective that a rank is at, the rows of the ranks that have called it.
        open_peers: of a group and two ranks, rows of sends from one to the other, and of receives, that are not done.
        has_called: numbers of the last collective that a rank has called in a group, by group and rank.
        recorded: ranks that have left records of calls.
        stale: of those the ones that have gone on since: others have ended what they had not called, or what comes
            after a call that they had not done.
        hosts: rows of `HOSTS`, by rank.
    """

    ranks: tuple[int, ...]
    groups: tuple[MemberGroup, ...]
    at: dict[int, list[dict[str, Any]]]
    came: dict[Node, dict[int, list[dict[str, Any]]]]
    open_peers: dict[tuple[int, int, int, str], list[dict[str, Any]]]
    has_called: dict[Node, int]
    recorded: frozenset[int]
    stale: frozenset[int]
    hosts: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def damaged(self) -> frozenset[int]:
        """Ranks whose records end somewhere, as their dumps are damaged: what they called since is unknown."""
        return frozenset(rank for rank, host in self.hosts.items() if host["damage"]) & self.recorded

    def has_ended(self, rank: int) -> bool:
        """A rank is known to have ended by itself."""
        return rank in self.hosts and has_ended(self.hosts[rank]["ended"] or "")

    def node(self, rank: int) -> Node | None:
        """The collective that a rank is at; None if it is at none."""
        rows = self.at.get(rank, [])
        return (rows[0]["number"], rows[0]["seq"]) if rows and not rows[0]["is_p2p"] else None

    def number(self, rank: int, key: str) -> int:
        """The number of the group that a rank means by a key."""
        return next(at for at, group in enumerate(self.groups) if group.key == key and rank in group.ranks)

    def is_there(self, rank: int, node: Node) -> bool:
        """A rank has come to a collective: it is at it, runs it, or is done with it."""
        rows = self.came[node].get(rank)
        if rows is None:
            return False
        return self.node(rank) == node or any(row["state"] != "scheduled" for row in rows)

    def peer_rows(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        """Open receives of what a row sends, or open sends of what it receives."""
        pair = (row["rank"], row["to"]) if row["name"] == "send" else (row["to"], row["rank"])
        return self.open_peers.get((row["number"], *pair, "recv" if row["name"] == "send" else "send"), [])


def standing(calls: pl.DataFrame, groups: pl.DataFrame, hosts: pl.DataFrame) -> Standing:
    """The places where the ranks stand, from tables as in `records`; the calls have `row`, and are `of_one_state`."""
    seen = {*calls["rank"].unique(), *groups["rank"].unique()}
    listed = groups["ranks"].drop_nulls().explode().drop_nulls().unique()
    world = hosts["world"].max()
    ranks = tuple(sorted({*seen, *hosts["rank"], *listed, *range(world if isinstance(world, int) else 0)}))
    numbers, made = process_groups(_with_called(calls, groups), ranks)
    unfinished = calls.filter(pl.col("state") != "completed").join(numbers, on=["rank", "group"])
    first = (
        unfinished.sort(pl.col("state") != "started", "order")
        .group_by("rank", maintain_order=True)
        .agg(pl.col("group", "seq", "is_p2p").first())
    )
    at: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in unfinished.join(first, on=["rank", "group", "seq", "is_p2p"]).sort("order").iter_rows(named=True):
        at[row["rank"]].append(row | {"to": _peer(made[row["number"]], row)})
    open_peers = defaultdict(list)
    for row in unfinished.filter("is_p2p").sort("order").iter_rows(named=True):
        to = _peer(made[row["number"]], row)
        if to is not None:
            pair = (row["rank"], to) if row["name"] == "send" else (to, row["rank"])
            open_peers[row["number"], *pair, row["name"]].append(row)
    came: dict[Node, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    nodes = first.filter(~pl.col("is_p2p")).join(numbers, on=["rank", "group"]).select("number", "seq").unique()
    there = calls.filter(~pl.col("is_p2p") & pl.col("seq").is_in(nodes["seq"].implode()))
    there = there.join(numbers, on=["rank", "group"]).join(nodes, on=["number", "seq"]).sort("order")
    for row in there.iter_rows(named=True):
        came[row["number"], row["seq"]][row["rank"]].append(row)
    last = _last(calls, groups, numbers)
    return Standing(
        ranks,
        made,
        dict(at),
        {node: dict(rows) for node, rows in came.items()},
        dict(open_peers),
        {(number, rank): called for rank, number, called in last.select("rank", "number", "called").iter_rows()},
        frozenset(seen),
        frozenset(last.filter((pl.col("called") < pl.col("met")) | (pl.col("open") < pl.col("met")))["rank"]),
        {row["rank"]: row for row in hosts.iter_rows(named=True)},
    )


def _with_called(calls: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
    """Groups, and those that only a call names."""
    more = calls.select("rank", "group").unique().join(groups, on=["rank", "group"], how="anti")
    return pl.concat([groups.select("rank", "group", "ranks"), more], how="diagonal")


def _last(calls: pl.DataFrame, groups: pl.DataFrame, numbers: pl.DataFrame) -> pl.DataFrame:
    """The last collective that each rank has called in each group, and `met`, the last that any rank has ended.

    `open` is the first that is not done on the rank. A device does the collectives of a group one after another;
    threads of gloo may do several at once.
    """
    is_done = pl.col("state") == "completed"
    seq = pl.col("seq")
    of_calls = (
        calls.filter(~pl.col("is_p2p"))
        .group_by("rank", "group")
        .agg(
            seq.max().alias("last"),
            seq.filter(is_done & pl.col("name").is_in([*MEETING])).max().alias("met"),
            seq.filter(~is_done & ~pl.col("group").str.starts_with("gloo:")).min().alias("open"),
        )
    )
    both = numbers.join(of_calls, on=["rank", "group"], how="left")
    both = both.join(groups.select("rank", "group", "called"), on=["rank", "group"], how="left")
    return both.select(
        "rank",
        "number",
        "open",
        pl.max_horizontal("last", "called").fill_null(0).alias("called"),
        pl.col("met").max().over("number"),
    )


def of_one_state(calls: pl.DataFrame) -> pl.DataFrame:
    """Calls whose coalesced ones have the state of the whole, which is recorded as one more call after them."""
    key = ["rank", "group", "seq", "is_p2p"]
    whole = calls.filter(pl.col("name") == WHOLE_NAME).select(*key, whole="state").unique(key)
    if not len(whole):
        return calls
    joined = calls.join(whole, on=key, how="left").with_columns(state=pl.coalesce("whole", "state"))
    alone = pl.len().over(key) == 1
    return joined.filter((pl.col("name") != WHOLE_NAME) | alone).drop("whole")


def _peer(group: MemberGroup, row: dict[str, Any]) -> int | None:
    peer = row["peer"]
    return group.ranks[peer] if peer is not None and 0 <= peer < len(group.ranks) else None
