"""How far each rank is in each of its process groups."""

from __future__ import annotations

import polars as pl

from kinetoscope.analyses.hang import NOTHING_RECORDED
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.hangs.of_job import both, is_of_hang, packed_records, unpacked, unread
from kinetoscope.model.hangs.records import CALLS, GROUPS
from kinetoscope.model.hangs.states import TEAM, states
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank."),
    CALLS["group"],
    TEAM,
    Column("ranks", pl.Int64, "How many members it has; null where nothing says."),
    GROUPS["called"],
    GROUPS["done"],
    Column("behind", pl.Int64, "By how many collectives it is behind the one of the group that is furthest."),
    Column(
        "state",
        pl.String,
        "Of the call that it is at: scheduled, started, completed; never reached: only others have called it;"
        " no records: the rank has left none.",
    ),
    Column("seq", pl.Int64, "Number of the call that it is at: the first that is not done, else the last."),
    *(CALLS[name] for name in ("name", "input_sizes", "output_sizes", "types")),
    Column("since", pl.Int64, "How long it has been in it when the records were written; null unless it waits.", "ns"),
    Column(
        "line", pl.String, "The user's line of that call; of one never reached that of its host; null without stacks."
    ),
)


def collective_states(trace: Trace, select: Selection) -> Partial:
    """How far is each rank in each of its process groups?

    Method. From the Flight Recorder of each rank: the number of the last collective that it has called in a group, and
    of the last that is done. The call that it is at is the first one that is not done. Where others of the group have
    called more, and the rank waits for none of its own, it has never reached the next one.

    How to read it. Ranks that are *started* or *scheduled* wait; who has *never reached* the same number is whom they
    wait for, unless it waits in another group. Names and sizes of one number differ where ranks do not agree.

    Limits. gloo does not say that a call has started. Sends and receives have numbers of their own, which are not
    comparable between ranks. It is about the whole job: nothing is
    selected.
    """
    return packed_records(trace, select)


def finish(frame: pl.DataFrame) -> Partial:
    """The states, from the records of all ranks."""
    calls, groups, hosts = unpacked(frame)
    if not is_of_hang(hosts):
        return Partial(RESULT.empty(), (NOTHING_RECORDED,))
    rows = states(calls, groups, hosts)
    behind = pl.col("furthest") - pl.col("called").fill_null(0)
    of_others = pl.when(pl.col("state") != "no records").then(behind)
    return Partial(
        rows.with_columns(ranks=pl.col("ranks").list.len().cast(pl.Int64), behind=of_others).select(RESULT.names)
    )


ANALYSIS = Analysis(
    "States of collectives",
    collective_states,
    RESULT,
    combine=both,
    finish=finish,
    shared=packed_records,
    unread=unread,
    across_ranks=True,
    of_events=False,
    of_device_work=False,
    of_calls=False,
    selection_notes="never",
)
