"""The records of all ranks of a job: three tables that travel as one frame, of which a column names the table."""

from __future__ import annotations

from typing import Final

import polars as pl

from kinetoscope.caching import while_alive
from kinetoscope.model.answer import Failure, Partial
from kinetoscope.model.flight_recorder.of_trace import DAMAGED, DUMPS, dumps_of
from kinetoscope.model.hangs.of_hosts import combined
from kinetoscope.model.hangs.of_trace import records_of
from kinetoscope.model.hangs.records import CALLS, GROUPS, HOSTS, Records
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Schema

_TABLES: Final = {"calls": CALLS, "groups": GROUPS, "hosts": HOSTS}

PACKED: Final = Schema(
    Column("table", pl.String, "The table that a row is of: calls, groups or hosts."),
    *{column.name: column for schema in _TABLES.values() for column in schema}.values(),
)
"""Rows of all tables, with the columns of all of them."""

_NO_ROWS: Final = PACKED.empty()


def packed(calls: pl.DataFrame, groups: pl.DataFrame, hosts: pl.DataFrame) -> pl.DataFrame:
    """The tables of one rank, or of several, as one, which can be joined with those of others."""
    frames = zip(_TABLES, (calls, groups, hosts), strict=True)
    labelled = [frame.with_columns(pl.lit(name).alias("table")) for name, frame in frames]
    return pl.concat([_NO_ROWS, *labelled], how="diagonal")


def packed_records(trace: Trace, select: Selection) -> Partial:
    """The answer of a rank to each question about a hang: all that is known of it, whatever is selected."""
    del select
    damage = (each for dump in dumps_of(trace) for each in dump.notes if each.code == DAMAGED)
    return Partial(_packed_records(trace), tuple(damage))


def unread(source: Source, failure: Failure) -> Partial:
    """The answer of a rank whose dumps cannot be read: that, and why."""
    damage = failure.message.removeprefix(f"{source.url}: ").partition(";")[0]
    row = {"rank": source.rank, "damage": damage}
    rows = [{**dict.fromkeys(HOSTS.names), **row}] if source.is_of_hang or source.files(DUMPS) else []
    return Partial(packed(CALLS.empty(), GROUPS.empty(), HOSTS.frame(rows)))


@derived
def _packed_records(trace: Trace) -> pl.DataFrame:
    return packed(*records_of(trace))


def both(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """The rows of two, or of many, ranks."""
    return pl.concat([one, other])


@while_alive
def unpacked(frame: pl.DataFrame) -> Records:
    """Calls, groups and hosts of all ranks, by rank; what several cycles of a rank share is there once."""
    frame = frame.rechunk()  # of thousands of ranks each is a piece
    calls, groups, hosts = (frame.filter(table=name).select(schema.names) for name, schema in _TABLES.items())
    if hosts.height > hosts.n_unique("rank"):  # the files belong to each cycle
        calls = calls.unique(["rank", "group", "seq", "order", "is_p2p"], maintain_order=True)
        groups = groups.unique(["rank", "group"], maintain_order=True)
        hosts = combined(hosts)
    by_call = calls.sort("rank", "order", maintain_order=True)
    return by_call, groups.sort("rank", maintain_order=True), hosts.sort("rank")


def is_of_hang(hosts: pl.DataFrame) -> bool:
    """Test for ranks of which more is known than a trace: that alone says nothing about what came after it."""
    return not hosts.filter(pl.col("source").fill_null("") != "trace").is_empty()
