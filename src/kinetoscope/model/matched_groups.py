"""Process groups that the records of one rank leave open and those of all ranks together tell."""

from __future__ import annotations

from typing import Final

import polars as pl

from kinetoscope.model.collectives import size_of, widths
from kinetoscope.model.process_groups import Group, ranks_of, read_back

_FACTS: Final = ["group_name", "group_description", "group_size"]


def agreed_groups(frame: pl.DataFrame) -> pl.DataFrame:
    """The calls with the ranks of their groups filled in where only other ranks' records have them."""
    recorded = pl.col("group").is_not_null()
    open_ = frame.filter(recorded & pl.col("group_ranks").is_null()).select("rank", *_FACTS).unique()
    if not len(open_):
        return frame
    told = frame.filter(recorded & pl.col("group_ranks").is_not_null()).select(*_FACTS, told="group_ranks").unique()
    fitting = open_.join(told, on=_FACTS, nulls_equal=True).filter(
        pl.struct("told", "rank").map_elements(
            lambda pair: pair["rank"] in ranks_of(pair["told"]), return_dtype=pl.Boolean
        )
    )
    only = fitting.filter(pl.len().over("rank", *_FACTS) == 1)
    if not len(only):
        return frame
    keys = [Group(*row).key for row in only.select(*_FACTS, "told").iter_rows()]
    only = only.with_columns(key=pl.Series(keys, dtype=pl.String))
    joined = frame.join(only, on=["rank", *_FACTS], how="left", nulls_equal=True, maintain_order="left")
    missing = recorded & pl.col("group_ranks").is_null() & pl.col("told").is_not_null()
    return joined.with_columns(
        group=pl.when(missing).then("key").otherwise("group"),
        group_ranks=pl.when(missing).then("told").otherwise("group_ranks"),
    ).drop("told", "key")


def inferred_groups(frame: pl.DataFrame) -> pl.DataFrame:
    """The calls with groups that were not recorded, where just one group has the ranks that took part."""
    there = set(frame["rank"].unique().to_list())
    unknown = frame.filter(pl.col("candidates").is_not_null() & pl.col("match").is_not_null())
    if not len(unknown):
        return frame
    sets = unknown.group_by("match").agg(
        members=pl.col("rank").unique().sort(), options=pl.col("candidates").unique().sort()
    )
    answers: dict[tuple[tuple[int, ...], tuple[str, ...]], Group | None] = {}
    rows = []
    for number, members, options in sets.select("match", "members", "options").iter_rows():
        question = tuple(members), tuple(options)
        if question not in answers:
            answers[question] = _only(set(members), options, there)
        if (found := answers[question]) is not None:
            rows.append((number, found.key, found.name, found.description, found.size, found.ranks))
    names = ["group", *_FACTS, "group_ranks"]
    types = {"match": pl.Int64} | {f"told_{name}": frame.schema[name] for name in names}
    told = pl.DataFrame(rows, schema=types, orient="row")
    joined = frame.join(told, on="match", how="left", maintain_order="left")
    open_ = pl.col("candidates").is_not_null() & pl.col("told_group").is_not_null()
    joined = joined.with_columns(
        pl.when(open_).then(f"told_{name}").otherwise(name).alias(name) for name in names
    ).drop(f"told_{name}" for name in names)
    gathered = pl.col("elements_in") * pl.col("group_size")
    is_gather = open_without_output(joined)
    joined = joined.with_columns(elements_out=pl.when(is_gather).then(gathered).otherwise("elements_out"))
    return joined.with_columns(bytes=pl.when(is_gather).then(size_of(widths("dtype"))).otherwise("bytes"))


def open_without_output(frame: pl.DataFrame) -> pl.Series:
    """Which gathers have no size, because nothing tells what comes out, but now a group and what goes in."""
    return frame.select(
        pl.col("kind").is_in(("all_gather", "gather"))
        & pl.col("elements_out").is_null()
        & (pl.col("elements_in") < 1 << 38)
        & pl.col("group_size").is_not_null()
    ).to_series()


def _only(members: set[int], options: list[str], there: set[int]) -> Group | None:
    """The only group that each of the ranks may mean, and of whose ranks just these are there."""
    common = set.intersection(*(set(text.splitlines()) for text in options))
    fitting = [
        each
        for each in map(read_back, sorted(common))
        if each.ranks is not None and set(ranks_of(each.ranks)) & there == members
    ]
    return fitting[0] if len(fitting) == 1 else None
