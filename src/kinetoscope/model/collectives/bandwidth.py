"""Costs of matched collectives: transfer, waiting and bandwidth."""

from __future__ import annotations

from typing import Final

import polars as pl

from kinetoscope.model.collectives.attributes import BUS_FACTORS, POINT_TO_POINT
from kinetoscope.model.collectives.process_groups import ranks_text
from kinetoscope.notes import Note

_SECOND: Final = 1e9
_RANKS: Final = pl.col("group_size")


def with_costs(frame: pl.DataFrame) -> pl.DataFrame:
    """The matched calls (`matching.match`) with `duration`, `transfer` and `waiting`, ns.

    Transfer is the shortest duration among the ranks of a collective: that rank waited for nobody. Waiting is what the
    others take beyond it. Both are null where no other rank's call is known.
    """
    duration = pl.col("end") - pl.col("start")
    transfer = pl.when(pl.col("match").is_not_null()).then(duration.min().over("match"))
    return frame.with_columns(duration=duration, transfer=transfer, waiting=duration - transfer)


def collectives_of(frame: pl.DataFrame) -> pl.DataFrame:
    """One row for each collective of the calls of `with_costs`, unmatched calls each for themselves.

    Columns: call (its match, null if unmatched), rank (the lowest), ranks (how many), members (which), taken (calls of
    ranks), group and the group's facts, kind, dtype, bytes (the most that a rank moves), link_bandwidth (the least of
    its ranks' links), start, duration, transfer, waiting, exposed (sums over its ranks), shortest (of its durations),
    missing (ranks of its group that have no call here), factor (bus / algorithm bandwidth).
    """
    place = pl.int_range(pl.len())
    key = pl.coalesce(pl.col("match"), -1 - place)
    kinds = pl.col("kind")
    kind = pl.when(kinds.n_unique() == 1).then(kinds.first()).otherwise(pl.lit("send_recv"))
    sums = [pl.col(name).sum() for name in ("duration", "exposed")]
    waits = [
        pl.when(pl.col("match").first().is_not_null()).then(pl.col(name).sum()).alias(name)
        for name in ("transfer", "waiting")
    ]
    facts = ("group", "group_name", "group_description", "group_size", "group_ranks", "dtype")
    calls = frame.group_by(key.alias("key")).agg(
        pl.col("match").first().alias("call"),
        pl.col("rank").min(),
        pl.col("rank").n_unique().cast(pl.Int64).alias("ranks"),
        pl.col("rank").unique().sort().alias("members"),
        pl.len().cast(pl.Int64).alias("taken"),
        kind.alias("kind"),
        pl.col("bytes").max(),
        pl.col("link_bandwidth").min(),
        pl.col("start").min(),
        *(pl.col(name).drop_nulls().sort().first() for name in facts),
        *sums,
        *waits,
        pl.col("transfer").first().alias("shortest"),
    )
    point_to_point = pl.col("kind").is_in(POINT_TO_POINT)
    size = pl.when(point_to_point).then(2).otherwise(pl.col("group_size"))
    return calls.with_columns(missing=size - pl.col("ranks"), factor=bus_factor())


def bus_factor(ranks: pl.Expr = _RANKS) -> pl.Expr:
    """Bus / algorithm bandwidth by `kind` and the number of ranks; null where either is unknown."""
    size = ranks.cast(pl.Float64)
    factor = pl.lit(None, pl.Float64)
    for kind, (times, less) in BUS_FACTORS.items():
        share = (size - less) / size if less else pl.lit(1.0)
        factor = pl.when(pl.col("kind") == kind).then(times * share).otherwise(factor)
    return factor


def bandwidths() -> dict[str, pl.Expr]:
    """Algorithm and bus bandwidth of several of `collectives_of`, bytes a second: all bytes / all time they move.

    Those without a size, a counterpart or (for the bus) a number of ranks are left out.
    """
    size = pl.when((pl.col("shortest") > 0) & (pl.col("bytes") > 0)).then(pl.col("bytes")).cast(pl.Float64)
    on_bus = size * pl.col("factor")

    def rate(moved: pl.Expr) -> pl.Expr:
        time = pl.when(moved.is_not_null()).then(pl.col("shortest"))
        return pl.when(moved.count() > 0).then(moved.sum() / time.sum() * _SECOND)

    return {"algorithm_bandwidth": rate(size), "bus_bandwidth": rate(on_bus)}


def incomplete(calls: pl.DataFrame) -> Note | None:
    """A note on collectives of which not all ranks have a call; None if there are none."""
    partial = len(calls.filter(pl.col("call").is_not_null() & (pl.col("missing") > 0)))
    if not partial:
        return None
    return Note(
        "PARTIAL_COLLECTIVES",
        f"{partial:,} collectives have calls of only part of their ranks here: the shortest call may be another's, "
        "so transfer may be shorter and waiting longer.",
    )


def alone(frame: pl.DataFrame) -> Note | None:
    """A note where only one rank was read; None if there are more, or no calls."""
    ranks = frame["rank"].unique().to_list()
    if len(ranks) != 1:
        return None
    return Note(
        "ONE_RANK_READ",
        f"Only rank {ranks_text(ranks)} was read: transfer, waiting and bandwidths of its collectives are unknown "
        "(read the traces of the other ranks with it).",
    )
