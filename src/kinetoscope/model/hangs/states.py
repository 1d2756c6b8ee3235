"""How far each rank is in each of its process groups."""

from __future__ import annotations

from typing import Final

import polars as pl

from kinetoscope.caching import while_alive
from kinetoscope.model.hangs.records import HOSTS
from kinetoscope.model.hangs.waiting import RecordsEnd
from kinetoscope.model.trace.text import listed
from kinetoscope.schema import Column

COMPLETED, STARTED, SCHEDULED, NEVER, NO_RECORDS = (
    "completed",
    "started",
    "scheduled",
    "never reached",
    "no records",
)
STATES: Final = (NEVER, NO_RECORDS, SCHEDULED, STARTED, COMPLETED)
"""States of a rank in a collective, what matters most first: its dump's, and of a rank that others are ahead of,
or that has left nothing."""

TEAM: Final = Column("team", pl.String, "The group and its ranks: what tells groups of one name apart.")

_OF_CALL: Final = ("seq", "is_p2p", "state", "name", "input_sizes", "output_sizes", "types", "created", "line")
_TEAM: Final = ("rank", "group")


def name_of_group(key: str, description: str | None) -> str:
    """The name of a group for people: its description, else its name in the dump."""
    return description or key.partition(":")[2] or key


@while_alive
def teams(groups: pl.DataFrame) -> pl.DataFrame:
    """Groups with `members` as text, `team`, which tells those of one name apart by them, and `furthest` of it."""
    same = groups.with_row_index("row").group_by("ranks", maintain_order=True).agg("row")
    texts = [None if ranks is None else listed(ranks, _RUNS) for ranks in same.get_column("ranks")]
    members = same.select("row", pl.Series("members", texts, dtype=pl.String)).explode("row").sort("row")
    rows = groups.with_columns(members.get_column("members"))
    rows = rows.with_columns(team=pl.concat_str("group", "members", separator=" of ranks ", ignore_nulls=True))
    return rows.with_columns(furthest=pl.col("called").max().over("team"))


_RUNS: Final = 64
"""Runs of ranks in a text."""


@while_alive
def states(calls: pl.DataFrame, groups: pl.DataFrame, hosts: pl.DataFrame) -> pl.DataFrame:
    """A row for each rank and group: columns of `GROUPS`, of the call that it is at, and `team`, `furthest`, `since`.

    It is at its first call that is not done, else at its last one; where others are ahead, at the one that it has
    never reached. Members of a group that have left nothing have a row in it; other such ranks one without a group.
    """
    rows = teams(groups)
    known = rows.select(*_TEAM, "team")
    at = _unfinished_or_last(calls).select(*_TEAM, *_OF_CALL)
    rows = rows.join(at, on=_TEAM, how="left").join(
        hosts.select("rank", "last_time", "damage", at_host=pl.col("line")), on="rank", how="left"
    )
    waits = pl.col("state").is_in([STARTED, SCHEDULED])
    is_behind = ~waits.fill_null(False) & (pl.col("called").fill_null(-1) < pl.col("furthest"))
    rows = rows.with_columns(
        state=pl.when(is_behind & pl.col("damage").is_not_null())
        .then(pl.lit(NO_RECORDS))
        .when(is_behind)
        .then(pl.lit(NEVER))
        .otherwise(pl.col("state").fill_null(COMPLETED)),
        seq=pl.when(is_behind).then(pl.col("called") + 1).otherwise("seq"),
        line=pl.when(is_behind).then("at_host").otherwise("line"),
        since=pl.when(waits).then(pl.Series(_waited(rows, hosts), dtype=pl.Int64)),
    )
    return pl.concat([_named(rows, calls, known), _absent(rows, hosts)], how="diagonal").sort("rank", "group")


def _waited(rows: pl.DataFrame, hosts: pl.DataFrame) -> list[int | None]:
    end = RecordsEnd.of(hosts.iter_rows(named=True))
    pairs = rows.select("rank", "created").iter_rows()
    return [None if created is None else end.waited(rank, created) for rank, created in pairs]


def _unfinished_or_last(calls: pl.DataFrame) -> pl.DataFrame:
    """The first call of each rank and group that is not done; where all are, the last one."""
    ordered = calls.sort("rank", "order")
    first = ordered.filter(pl.col("state") != COMPLETED).unique(_TEAM, keep="first", maintain_order=True)
    last = ordered.unique(_TEAM, keep="last", maintain_order=True)
    return pl.concat([first, last]).unique(_TEAM, keep="first", maintain_order=True)


def _named(rows: pl.DataFrame, calls: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """With the name of what a rank has never reached, as the others of its group call it."""
    others = calls.filter(~pl.col("is_p2p")).join(known, on=_TEAM)
    others = others.unique(["team", "seq"], keep="first", maintain_order=True).select("team", "seq", called_so="name")
    never = pl.col("state") == NEVER
    rows = rows.join(others, on=["team", "seq"], how="left")
    mine = {each: pl.when(~never).then(each) for each in ("input_sizes", "output_sizes", "types")}
    return rows.with_columns(name=pl.when(never).then("called_so").otherwise("name"), **mine).drop(
        "called_so", "at_host"
    )


def _absent(rows: pl.DataFrame, hosts: pl.DataFrame) -> pl.DataFrame:
    """Ranks that have left nothing: in each group that is known to have them, else once."""
    hosts = hosts.filter(pl.col("source").fill_null("") != "")  # of others that are named nothing could be read
    here = hosts.get_column("rank").implode()
    groups = rows.unique("team", keep="first", maintain_order=True).drop_nulls("ranks")
    of_group = groups.select("group", "desc", "backend", "ranks", "members", "team", "furthest", rank="ranks").explode(
        "rank"
    )
    of_group = of_group.filter(~pl.col("rank").is_in(here)).with_columns(state=pl.lit(NO_RECORDS))
    world = max((each for each in hosts.get_column("world") if each is not None), default=0)
    named = {*hosts.get_column("rank"), *of_group.get_column("rank")}
    alone = pl.DataFrame(
        {"rank": [rank for rank in range(world) if rank not in named]}, schema={"rank": HOSTS["rank"].dtype}
    )
    return pl.concat([of_group, alone.with_columns(state=pl.lit(NO_RECORDS))], how="diagonal")
