"""The hosts of ranks, as rows of `records.HOSTS`, by the files that they left."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from kinetoscope.model.execution.frames import user_source
from kinetoscope.model.hangs.activity import COLLECTIVE, GARBAGE, activity_of
from kinetoscope.model.hangs.host_file import HostExit, HostFile, HostNote, ThreadStack
from kinetoscope.model.hangs.records import HOSTS, Records

_OF_COLLECTIVE: Final = re.compile(
    r"gloo/|NCCL|nccl|[Tt]imed? ?out|(?:closed|reset) by peer|Broken pipe|WorkNCCL|DistBackendError|DistNetworkError"
)
"""Exceptions that a collective raises because others did not come, or have gone: an end of those that waited."""

_OUT_OF_MEMORY: Final = re.compile(r"OutOfMemoryError|out of memory|MemoryError")
_ABORTED, _TERMINATED = -6, -15
"""Exit codes by the signals with which the watchdog, and torchrun's agent, end those that wait."""


def host_records(
    rank: int, files: Sequence[HostFile], *, last_time: int | None = None, source: str = "flight recorder"
) -> pl.DataFrame:
    """The row of a rank, and of others that its files speak of, as `HOSTS`.

    Args:
        rank: of which other records are known.
        files: that belong to it; those of ranks that left nothing else may be among them.
        last_time: the last time that the other records know, ns since 1970; None where they know none.
        source: what these are; "" for none.
    """
    ranks = {each for file in files for each in _ranks_in(file)} | ({rank} if source else set())
    rows = []
    for each in sorted(ranks):
        row = _row(each, [file for file in files if each in _ranks_in(file)])
        if each == rank and source:
            row["source"] = ", ".join(filter(None, (source, row["source"])))
            times = [time for time in (last_time, row["last_time"]) if time is not None]
            row["last_time"] = max(times, default=None)
        rows.append(row)
    return HOSTS.frame(rows)


def _ranks_in(file: HostFile) -> set[int]:
    own = {file.rank} if file.rank is not None and not file.is_log else set()
    return {*own, *(each.rank for each in file.exits)}


def _row(rank: int, files: Sequence[HostFile]) -> dict[str, Any]:
    own = [file for file in files if file.rank == rank and not file.is_log]
    note = max((file.note for file in own if file.note is not None), key=lambda each: each.written, default=None)
    thread = main_thread([thread for file in own for thread in file.threads], note)
    exits = [each for file in files for each in file.exits if each.rank == rank]
    sources = {"stacks": [file for file in own if file.threads or file.note], "log": exits}
    row: dict[str, Any] = dict.fromkeys(HOSTS.names)
    row |= {"rank": rank, "source": ", ".join(name for name, some in sources.items() if some)}
    if note is not None:
        row |= {"world": note.world or None, "last_time": note.written, "written": note.written}
    if thread is not None and thread.stack:
        location = user_source(thread.stack)
        row["stack"] = thread.stack
        file = (location.file or "").replace("\\", "/").rpartition("/")[2]
        row["line"] = f"{file}:{location.line}" if file else None
        row["activity"] = GARBAGE if thread.collects else activity_of(thread.stack, note.code if note else "")
    row["ended"] = _end(note, exits)
    if note is not None and note.why == "exception" and row["ended"] is None:
        row["activity"] = COLLECTIVE
    return row


def main_thread(threads: Sequence[ThreadStack], note: HostNote | None) -> ThreadStack | None:
    """The main thread: the one that the note names, else the last, as `faulthandler` has the oldest last."""
    named = [each for each in threads if note is not None and each.thread == note.main_thread]
    return named[-1] if named else threads[-1] if threads else None


def _end(note: HostNote | None, exits: Sequence[HostExit]) -> str | None:
    """How a rank ended by itself; None if it has not, or only since others did not come."""
    if any("memory" in each.reason for each in exits) or (note and _OUT_OF_MEMORY.search(note.exception)):
        return "out of memory"
    if note is not None and note.exception:
        return None if _OF_COLLECTIVE.search(note.exception) else f"exception {note.exception}"
    codes = [each.code for each in exits if each.code is not None]
    waited = any(each.reason == "watchdog" for each in exits) or (note is not None and note.hangs)
    for code in codes:
        if code == _TERMINATED or (code == _ABORTED and waited):
            return None
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return "the program ended" if note is not None and note.is_over and not note.went_on else None


def combined(hosts: pl.DataFrame) -> pl.DataFrame:
    """One row for each rank, of several: what the first that knows it says; the sources of all."""
    rest = [name for name in HOSTS.names if name not in ("rank", "source", "last_time")]
    return (
        hosts.group_by("rank", maintain_order=True)
        .agg(
            *(pl.col(name).drop_nulls().first() for name in rest),
            pl.col("last_time").max(),
            pl.col("source").str.split(", ").explode().drop_nulls().unique(maintain_order=True).str.join(", "),
        )
        .select(HOSTS.names)
        .sort("rank")
    )


def with_hosts(rank: int, records: Records, files: Sequence[HostFile]) -> Records:
    """The calls, groups and hosts of one rank, with what its files add.

    These are: the hosts; members of groups, which dumps of gloo do not have; that the collective has failed which
    raised the exception that ended the program: torch retires its entry, and gloo's then looks as if it were completed.
    """
    calls, groups, hosts = records
    if not files:
        return records
    known: dict[str, Any] = hosts.row(0, named=True) if hosts.height else {}
    of_files = host_records(rank, files, last_time=known.get("last_time"), source=known.get("source") or "")
    failed = _failed(calls, files)
    if failed is not None:
        here = pl.col("order") == failed["order"]
        lacks = (pl.col("group") == failed["group"]) & (pl.col("done") >= failed["seq"])
        calls = calls.with_columns(
            state=pl.when(here).then(pl.lit("scheduled")).otherwise("state"),
            completed=pl.when(~here).then("completed"),
        )
        groups = groups.with_columns(done=pl.when(lacks).then(failed["seq"] - 1).otherwise("done"))
    return calls, _with_members(groups, files), combined(pl.concat([of_files, hosts]))


def _with_members(groups: pl.DataFrame, files: Sequence[HostFile]) -> pl.DataFrame:
    """The groups with members by their names, as notes say, where nothing else does."""
    known = {name: ranks for file in files if file.note is not None for name, ranks in file.note.members.items()}
    names = groups["group"].str.extract(r":([^ ]*)").to_list()
    members = pl.Series([known.get(name) for name in names], dtype=pl.List(pl.Int64))
    return groups.with_columns(ranks=pl.coalesce("ranks", members))


def _failed(calls: pl.DataFrame, files: Sequence[HostFile]) -> dict[str, Any] | None:
    """The call that raised the exception which ended the program; None if none did."""
    notes = [file.note for file in files if file.note is not None and file.note.failed_call]
    last = calls.filter(~pl.col("is_p2p")).sort("order").tail(1)
    if not notes or last.is_empty() or not _OF_COLLECTIVE.search(notes[-1].exception):
        return None
    row = last.row(0, named=True)
    called, failed = (name.replace("_", "") for name in (row["name"], notes[-1].failed_call))
    return row if called.startswith(failed) or called in ("allreducebarrier", f"{failed}base") else None
