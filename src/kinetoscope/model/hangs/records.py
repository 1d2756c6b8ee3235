"""All that is known of each rank of a job that may hang, as three small tables: calls, groups, hosts.

They are the only thing that the verdict sees. For one rank they are filled from a dump of the Flight Recorder, a Kineto
trace, and what the recorder has written; those of several ranks lie one below the other.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from kinetoscope.schema import Column, Schema

CALLS: Final = Schema(
    Column("rank", pl.Int64, "Rank that called it."),
    Column("group", pl.String, "Process group: backend, name and description; null where it is about none."),
    Column("seq", pl.Int64, "Number of the collective in its group; of a send or receive its number among those."),
    Column("order", pl.Int64, "Place among all calls of the rank."),
    Column("is_p2p", pl.Boolean, "A send or a receive."),
    Column("peer", pl.Int64, "Rank, within the group, at the other end of it; null for collectives and where unknown."),
    Column("name", pl.String, "What it is, such as all_reduce, send, recv."),
    Column("input_sizes", pl.String, "Sizes of what it gives; null for none."),
    Column("output_sizes", pl.String, "Sizes of what it gets; null for none."),
    Column("input_elements", pl.Int64, "Elements of what it gives."),
    Column("output_elements", pl.Int64, "Elements of what it gets."),
    Column("types", pl.String, "Types of its tensors; null for none."),
    Column("state", pl.String, "scheduled, started or completed; a call of gloo that is done is completed."),
    Column("created", pl.Int64, "When the host called it, ns since 1970."),
    Column("started", pl.Int64, "When it was seen to run, ns since 1970; null for never or unknown."),
    Column("completed", pl.Int64, "When it was seen to be done, ns since 1970; null for never or unknown."),
    Column("timeout", pl.Int64, "After which the watchdog ends the job; null where unknown.", "ns"),
    Column("line", pl.String, "The user's line that called it, such as train.py:38; null without stacks."),
    Column("stack", pl.String, "Frames of the call, outermost first; null without stacks."),
)
"""The last calls of each rank, in each group at least those that are not done."""

GROUPS: Final = Schema(
    Column("rank", pl.Int64, "Rank that says so."),
    CALLS["group"],
    Column("desc", pl.String, "Its description; null for none."),
    Column("backend", pl.String, "nccl, gloo, xccl, ucc; null where unknown."),
    Column("ranks", pl.List(pl.Int64), "Its members; null where nothing says."),
    Column("called", pl.Int64, "Number of the last collective that the rank has called there; null for none."),
    Column("done", pl.Int64, "Number of the last collective that is done there on this rank; null for none."),
    Column("first_seq", pl.Int64, "The first collective that the ring buffer still has; null for none."),
)
"""The process groups of each rank, and how far it is in each."""

HOSTS: Final = Schema(
    Column("rank", pl.Int64, "Rank."),
    Column("world", pl.Int64, "Ranks of the job, as this rank knows; null where unknown."),
    Column("last_time", pl.Int64, "The last time that its records know, ns since 1970."),
    Column("written", pl.Int64, "When they were written, ns since 1970; null where unknown."),
    Column("activity", pl.String, "What its host did then, such as data loading or checkpoint; null where unknown."),
    Column("line", pl.String, "The user's line where its host was then; null without a stack of the host."),
    Column("stack", pl.String, "Frames of its main thread then, outermost first; null without."),
    Column("ended", pl.String, "How it ended, where something says: killed by signal 9, exit code 1, out of memory."),
    Column("source", pl.String, "What its records come from: flight recorder, trace, stacks, log; several by commas."),
    Column("damage", pl.String, "What is wrong with its records, as a dump that is cut; null where they are whole."),
)
"""The hosts of the ranks of which anything is known. A rank without a row has left nothing."""

Records = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]
"""Rows of `CALLS`, `GROUPS` and `HOSTS`."""
