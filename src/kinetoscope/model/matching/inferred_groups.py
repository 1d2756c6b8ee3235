"""Process groups that the records of one rank leave open and those of all ranks together identify."""

from __future__ import annotations

from typing import Final

import polars as pl

from kinetoscope.model.collectives.attributes import GATHERS, POINT_TO_POINT, size_of, widths
from kinetoscope.model.collectives.process_groups import ProcessGroup, ranks_of, ranks_text, read_back

_FACTS: Final = ["group_name", "group_description", "group_size"]
_COLUMNS: Final = ["group", *_FACTS, "group_ranks"]

_MAX_ELEMENTS: Final = 1 << 38
"""Elements of a rank; greater sizes are wrong."""


def agreed_groups(frame: pl.DataFrame) -> pl.DataFrame:
    """The calls with the ranks of their groups filled in where only other ranks' records have them."""
    recorded = pl.col("group").is_not_null()
    open_ = frame.filter(recorded & pl.col("group_ranks").is_null()).select("rank", *_FACTS).unique()
    if not len(open_):
        return frame
    known = frame.filter(recorded & pl.col("group_ranks").is_not_null()).select(*_FACTS, known="group_ranks").unique()
    fitting = open_.join(known, on=_FACTS, nulls_equal=True).filter(
        pl.struct("known", "rank").map_elements(
            lambda pair: pair["rank"] in ranks_of(pair["known"]), return_dtype=pl.Boolean
        )
    )
    only = fitting.filter(pl.len().over("rank", *_FACTS) == 1)
    if not len(only):
        return frame
    keys = [ProcessGroup(*row).key for row in only.select(*_FACTS, "known").iter_rows()]
    only = only.with_columns(key=pl.Series(keys, dtype=pl.String))
    joined = frame.join(only, on=["rank", *_FACTS], how="left", nulls_equal=True, maintain_order="left")
    missing = recorded & pl.col("group_ranks").is_null() & pl.col("known").is_not_null()
    return joined.with_columns(
        group=pl.when(missing).then("key").otherwise("group"),
        group_ranks=pl.when(missing).then("known").otherwise("group_ranks"),
    ).drop("known", "key")


def inferred_groups(frame: pl.DataFrame) -> pl.DataFrame:
    """The calls with groups that were not recorded, where the ranks that took part identify the group, or its ranks."""
    recorded_ranks = set(frame["rank"].unique().to_list())
    unknown = frame.filter(
        pl.col("candidates").is_not_null() & pl.col("match").is_not_null() & ~pl.col("kind").is_in(POINT_TO_POINT)
    )
    if not len(unknown):
        return frame
    sets = unknown.group_by("match").agg(
        pl.col("rank").unique().sort(), pl.col("candidates").unique().sort(), pl.col("world").max()
    )
    questions = sets.group_by("rank", "candidates", "world").agg("match")
    rows = []
    for members, options, world, matches in questions.iter_rows():
        if (group := _group_of(set(members), options, recorded_ranks, world)) is not None:
            facts = group.key, group.name, group.description, group.size, group.ranks
            rows += [(number, *facts) for number in matches]
    known = {f"known_{name}": frame.schema[name] for name in _COLUMNS}
    answers = pl.DataFrame(rows, schema={"match": pl.Int64, **known}, orient="row")
    joined = frame.join(answers, on="match", how="left", maintain_order="left")
    open_ = pl.col("candidates").is_not_null() & pl.col("known_group").is_not_null()
    joined = joined.with_columns(pl.when(open_).then(f"known_{name}").otherwise(name).alias(name) for name in _COLUMNS)
    return _gathered(joined.drop(known))


def _group_of(
    members: set[int], options: list[str], recorded_ranks: set[int], world: int | None
) -> ProcessGroup | None:
    """The group that each of the ranks may mean, and of whose ranks just these were recorded.

    Of several with the same ranks only the ranks are known; if no groups are listed, all ranks of the job are a group.
    """
    common = set.intersection(*(set(text.splitlines()) for text in options))
    fitting = [
        each
        for each in map(read_back, sorted(common))
        if each.ranks is not None and set(ranks_of(each.ranks)) & recorded_ranks == members
    ]
    if len(fitting) == 1:
        return fitting[0]
    if len({each.ranks for each in fitting}) == 1:
        return ProcessGroup(None, None, fitting[0].size, fitting[0].ranks)
    if not fitting and members == set(range(world or 0)):
        return ProcessGroup(None, None, world, ranks_text(sorted(members)))
    return None


def _gathered(frame: pl.DataFrame) -> pl.DataFrame:
    """The calls with the size of gathers, where what goes in is recorded and now a group is known."""
    is_gather = (
        pl.col("kind").is_in(GATHERS)
        & pl.col("elements_out").is_null()
        & (pl.col("elements_in") < _MAX_ELEMENTS)
        & pl.col("group_size").is_not_null()
    )
    out = pl.when(is_gather).then(pl.col("elements_in") * pl.col("group_size")).otherwise("elements_out")
    frame = frame.with_columns(elements_out=out, open_=is_gather)
    size = pl.when("open_").then(size_of(widths("dtype"))).otherwise("bytes")
    return frame.with_columns(bytes=size).drop("open_")
