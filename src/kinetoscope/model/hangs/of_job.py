"""The records of all ranks of a job: three tables that travel as one frame, a row for each rank that answers."""

from __future__ import annotations

from typing import Final

import polars as pl

from kinetoscope.model.hangs.records import CALLS, GROUPS, HOSTS
from kinetoscope.schema import Column, Schema

_TABLES: Final = {"calls": CALLS, "groups": GROUPS, "hosts": HOSTS}

PACKED: Final = Schema(
    *(
        Column(name, pl.List(pl.Struct(schema.types)), f"Rows of `{name.upper()}`, as a list.")
        for name, schema in _TABLES.items()
    )
)
"""A row for each rank: its tables."""

Records = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]
"""Calls, groups and hosts: see `records`."""


def packed(calls: pl.DataFrame, groups: pl.DataFrame, hosts: pl.DataFrame) -> pl.DataFrame:
    """The tables of one rank as one row, which can be joined with those of others."""
    columns = {
        name: _TABLES[name].conform(frame).select(pl.struct(pl.all()).implode()).to_series()
        for name, frame in (("calls", calls), ("groups", groups), ("hosts", hosts))
    }
    return pl.DataFrame(columns, schema=PACKED.types)


def both(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """The rows of two, or of many, ranks."""
    return pl.concat([one, other], rechunk=False)


def unpacked(frame: pl.DataFrame) -> Records:
    """Calls, groups and hosts of all ranks, by rank; what several cycles of a rank share is there once."""
    calls, groups, hosts = (_table(frame.get_column(name), schema) for name, schema in _TABLES.items())
    if hosts.height > hosts.n_unique("rank"):  # the files belong to each cycle
        calls = calls.unique(["rank", "group", "seq", "order", "is_p2p"], maintain_order=True)
        groups = groups.unique(["rank", "group"], maintain_order=True)
        hosts = hosts.unique("rank", maintain_order=True)
    return (
        calls.sort("rank", "order", maintain_order=True),
        groups.sort("rank", maintain_order=True),
        hosts.sort("rank"),
    )


def is_of_hang(hosts: pl.DataFrame) -> bool:
    """Whether more is known of some rank than its trace: that alone says nothing about what came after it."""
    return not hosts.filter(pl.col("source").fill_null("") != "trace").is_empty()


def _table(lists: pl.Series, schema: Schema) -> pl.DataFrame:
    filled = lists.filter(lists.list.len() > 0)
    return filled.explode().struct.unnest() if len(filled) else schema.empty()
