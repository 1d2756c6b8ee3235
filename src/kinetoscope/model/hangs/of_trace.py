"""The records of a rank of a job that may hang: from its dumps of the Flight Recorder, else from its trace.

What hosts wrote when the job hung adds rows of `HOSTS`.
"""

from __future__ import annotations

import polars as pl

from kinetoscope.model.collectives.calls import base_of, collective_calls
from kinetoscope.model.collectives.process_groups import configured, ranks_of, world_size
from kinetoscope.model.flight_recorder.of_trace import dumps_of
from kinetoscope.model.hangs.of_dumps import records_of_dumps
from kinetoscope.model.hangs.of_hosts import with_hosts
from kinetoscope.model.hangs.records import CALLS, GROUPS, HOSTS, Records
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace


def records_of(trace: Trace) -> Records:
    """The last calls of a rank, its groups, and what is known of its host.

    Raises:
        InputError: a dump cannot be read.
    """
    if dumps := dumps_of(trace):
        calls, groups, hosts = records_of_dumps(trace.source.rank, dumps)
        records = calls, _with_members(groups, trace), _with_world(hosts, trace)
    else:
        records = _of_collectives(trace)
    return with_hosts(trace.source.rank, records, [*trace.companions("hang")])


def _with_members(groups: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    """The groups with the members that the trace knows, where the dumps do not: those of gloo never do."""
    if not groups["ranks"].null_count():
        return groups
    known = {each.name: ranks_of(each.ranks) for each in configured(trace) if each.name and each.ranks}
    if not known:
        return groups
    names = groups["group"].str.extract(r":([^ ]*)").to_list()
    members = pl.Series([known.get(name) for name in names], dtype=pl.List(pl.Int64))
    return groups.with_columns(ranks=pl.coalesce("ranks", members))


def _with_world(hosts: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    if not hosts["world"].null_count():
        return hosts
    return hosts.with_columns(world=pl.coalesce("world", pl.lit(world_size(trace), pl.Int64)))


def _of_collectives(trace: Trace) -> Records:
    """The same from the collectives of a trace, all of which are done; those whose group nothing tells are left out."""
    rank = pl.lit(trace.source.rank, pl.Int64)
    backend = pl.when("on_host").then(pl.lit("gloo")).otherwise(pl.lit("nccl"))
    is_p2p = pl.col("source_rank").is_not_null() | pl.col("kind").is_in(["send", "recv"])
    desc = pl.format(" ({})", "group_description").fill_null("")
    done = collective_calls(trace).filter(pl.col("group_name").is_not_null())
    calls = done.select(
        rank=rank,
        group=pl.concat_str(backend, pl.lit(":"), "group_name", desc),
        desc="group_description",
        backend=backend,
        ranks="group_ranks",
        seq="seq",
        order=pl.int_range(pl.len()),
        is_p2p=is_p2p,
        peer=pl.when(pl.col("kind") == "send").then("destination_rank").otherwise("source_rank"),
        name="kind",
        input_elements="elements_in",
        output_elements="elements_out",
        types="dtype",
        state=pl.lit("completed"),
        created="start",
        started="start",
        completed="end",
    )
    groups = calls.group_by("rank", "group", "desc", "backend", maintain_order=True).agg(
        ranks=pl.col("ranks").first(),
        called=pl.col("seq").filter(~pl.col("is_p2p")).max(),
        done=pl.col("seq").filter(~pl.col("is_p2p")).max(),
        first_seq=pl.col("seq").filter(~pl.col("is_p2p")).min(),
    )
    members = pl.Series([ranks_of(each) if each else None for each in groups["ranks"]], dtype=pl.List(pl.Int64))
    hosts = HOSTS.empty()
    if len(trace):
        last = int(trace.end.max()) + base_of(trace)
        row = {"rank": trace.source.rank, "world": world_size(trace), "last_time": last, "source": "trace"}
        hosts = HOSTS.frame([{**dict.fromkeys(HOSTS.names), **row}])
    return (
        CALLS.conform(polars_columns.fitted(calls, CALLS.types)),
        GROUPS.conform(groups.with_columns(ranks=members)),
        hosts,
    )
