"""Whether ranks still move: how long nothing was seen of each when its records were written, and its usual pauses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

PAUSES: Final = 3
"""A rank stands still that has shown nothing for three of its usual pauses."""

SHORTEST: Final = 1_000_000_000
"""Nor does one that has shown nothing for less than a second: watchdogs notice ends as late. In ns."""

LONG: Final = 10
"""Nor, surely, one that has shown nothing for ten times as long."""


@dataclass(frozen=True)
class Pace:
    """How ranks move, in ns.

    Attributes:
        quiet: time of each rank from the last thing seen of it until its records were written, where that is known.
        usual: a usual long pause of each rank between two calls: the longest, of many calls the third longest.
    """

    quiet: dict[int, int]
    usual: dict[int, int]

    def surely_stands(self, rank: int) -> bool:
        """A rank has shown nothing for so long that no pause explains it."""
        return self.quiet.get(rank, 0) > LONG * max(SHORTEST, PAUSES * self.usual.get(rank, 0))

    def stands(self, rank: int) -> bool | None:
        """A rank has shown nothing for longer than usual; None where that is unknown."""
        quiet = self.quiet.get(rank)
        return None if quiet is None else quiet > max(SHORTEST, PAUSES * self.usual.get(rank, 0))


def pace(calls: pl.DataFrame, hosts: pl.DataFrame) -> Pace:
    """How the ranks of tables as in `records` move."""
    pauses = pl.col("created").sort().diff().drop_nulls().sort(descending=True)
    of_rank = calls.group_by("rank").agg(
        pl.max_horizontal("created", "started", "completed").max().alias("seen"),
        pauses.get(pl.min_horizontal(pl.lit(2), pl.len() // 200), null_on_oob=True).fill_null(0).alias("usual"),
    )
    joined = hosts.select("rank", "written").join(of_rank, on="rank").drop_nulls(["written", "seen"])
    return Pace(
        {rank: max(0, written - seen) for rank, written, seen in joined.select("rank", "written", "seen").iter_rows()},
        dict(of_rank.select("rank", "usual").iter_rows()),
    )


def lateness(calls: pl.DataFrame, group: str, rank: int) -> int | None:
    """How much later than most a rank usually comes to collectives of a group, ns; None where nothing is recorded."""
    here = calls.filter((pl.col("group") == group) & ~pl.col("is_p2p"))
    late = []
    for time in ("created", "started"):
        own = here.filter(pl.col("rank") == rank).select("seq", own=time)
        others = here.filter(pl.col("rank") != rank).group_by("seq").agg(pl.col(time).median().alias("others"))
        middle = own.join(others, on="seq").select((pl.col("own") - pl.col("others")).median()).item()
        late += [] if middle is None else [int(middle)]
    return max(late, default=None)
