"""Which process groups a job has, who is in them, and what they are used for."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import polars as pl

from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.collectives.bandwidth import alone, bandwidths, collectives_of, incomplete, with_costs
from kinetoscope.model.collectives.calls import CALLS, for_matching
from kinetoscope.model.collectives.process_groups import configured
from kinetoscope.model.matching.match import join, match
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Null: a group is of all its ranks."),
    Column("process_group", pl.String, "Name, description and ranks; null for calls whose group is not recorded."),
    Column("name", pl.String, "Name as torch numbers or hashes it; several groups may share one."),
    Column("description", pl.String, "Purpose in words, if the program gives one."),
    Column("size", pl.Int64, "Ranks in the group."),
    Column("ranks", pl.String, "Its ranks, as runs: 0-7, or 0-56/8 for every eighth."),
    Column("ranks_here", pl.Int64, "Ranks in the group whose traces were read."),
    Column("kinds", pl.String, "Kinds of collectives that it was used for, those that take longest first."),
    Column("calls", pl.Int64, "Collectives, each once however many ranks took part."),
    Column("matched", pl.Int64, "Collectives of which calls of two ranks or more are known."),
    Column(
        "bytes", pl.Int64, "Sum of the sizes of its collectives as nccl-tests counts them, where recorded.", "bytes"
    ),
    Column("duration", pl.Int64, "Sum of the durations on all ranks.", "ns"),
    Column("transfer", pl.Int64, "Shortest duration among its ranks, for each rank and matched collective.", "ns"),
    Column("waiting", pl.Int64, "Duration less transfer of matched collectives, on all ranks.", "ns"),
    Column("exposed", pl.Int64, "Part of the duration that no computation of the same rank covers.", "ns"),
    Column("algorithm_bandwidth", pl.Float64, "Bytes / transfer.", "bytes/s"),
)

_FACTS: Final = ("group", "group_name", "group_description", "group_size", "group_ranks")
_NAMES: Final = ("process_group", "name", "description", "size", "ranks")
"""Columns that identify a group, of calls and of the table."""


def process_groups(trace: Trace, select: Selection) -> Partial:
    """Which process groups does the job have, what are they used for, and what do they cost?

    Method. A group is its name, description, size and ranks together. Groups are those that the calls of collectives
    name and those that `distributedInfo` lists, so that a group nobody used has a row with no calls. Where a call cuts
    its list of ranks short, `distributedInfo` completes it. The longest come first; see
    `collectives` for how calls are matched and what transfer, waiting and sizes mean.

    How to read it. Groups of tensor parallel ranks should lie within a machine; much time in a group that spans
    machines, or a group whose ranks wait for one another, is where to look. A group without calls costs memory for
    buffers and nothing else.

    Limits. gloo, and NCCL before 2024, do not record the group of a call: it is inferred where the ranks that took part
    tell it, else the calls stand in a row without a group. What happened outside the recording is not seen.
    """
    calls = for_matching(trace, select)
    rows = [(each.key, each.name, each.description, each.size, each.ranks) for each in configured(trace)]
    types = {column: CALLS[column].dtype for column in _FACTS}
    groups = pl.DataFrame(rows, schema=types, orient="row").with_columns(rank=pl.lit(trace.source.rank, pl.Int64))
    return replace(calls, extra=groups)


def _finish(calls: pl.DataFrame, known: pl.DataFrame) -> Partial:
    if calls.is_empty() and known.is_empty():
        return Partial(RESULT.empty(), (Note("NO_GROUPS", "Neither collectives nor process groups were recorded."),))
    matched = match(calls)
    costs = with_costs(matched.frame)
    each = collectives_of(costs)
    notes = [note for note in (alone(costs), *matched.notes, incomplete(each)) if note]
    if not len(calls):
        notes.append(
            Note(
                "GROUPS_OF_INFO",
                "No collectives were recorded in what was selected: the groups are those of distributedInfo.",
            )
        )
    members = pl.concat([costs.select(*_FACTS, "rank"), known])
    groups = members.group_by("group").agg(
        *(pl.col(name).drop_nulls().sort().first() for name in _FACTS[1:]),
        ranks_here=pl.col("rank").n_unique().cast(pl.Int64),
    )
    used = each.group_by("group").agg(
        calls=pl.len().cast(pl.Int64),
        matched=pl.col("call").count().cast(pl.Int64),
        bytes=pl.when(pl.col("bytes").count() > 0).then(pl.col("bytes").sum()),
        duration=pl.col("duration").sum(),
        transfer=pl.when(pl.col("transfer").count() > 0).then(pl.col("transfer").sum()),
        waiting=pl.when(pl.col("waiting").count() > 0).then(pl.col("waiting").sum()),
        exposed=pl.col("exposed").sum(),
        algorithm_bandwidth=bandwidths()["algorithm_bandwidth"],
    )
    table = groups.join(used, on="group", how="left", nulls_equal=True).join(
        _kinds(each), on="group", how="left", nulls_equal=True
    )
    table = table.with_columns(
        pl.col("calls", "matched", "duration", "exposed").fill_null(0), rank=pl.lit(None, pl.Int64)
    )
    table = table.rename(dict(zip(_FACTS, _NAMES, strict=True)))
    order = ["duration", "process_group", "ranks"]
    return Partial(table.sort(order, descending=[True, False, False], nulls_last=True), tuple(notes))


def _kinds(each: pl.DataFrame) -> pl.DataFrame:
    """The kinds of collectives of each group in one text."""
    kinds = each.group_by("group", "kind").agg(pl.col("duration").sum())
    kinds = kinds.sort("duration", "kind", descending=[True, False])
    return kinds.group_by("group", maintain_order=True).agg(kinds=pl.col("kind").str.join(", "))


ANALYSIS = Analysis(
    "Process groups",
    process_groups,
    RESULT,
    combine=join,
    finish=_finish,
    chart=Bars("process_group", "duration"),
    across_ranks=True,
)
