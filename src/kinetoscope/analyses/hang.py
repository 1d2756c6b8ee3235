"""Why the ranks of a job wait for each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal

import polars as pl

from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.hangs.of_job import both, is_of_hang, packed_records, unpacked, unread
from kinetoscope.model.hangs.records import CALLS, HOSTS
from kinetoscope.model.hangs.remedies import REMEDIES
from kinetoscope.model.hangs.states import TEAM, name_of_group, teams
from kinetoscope.model.hangs.verdict import HangVerdict, verdicts
from kinetoscope.model.hangs.waiting import RecordsEnd
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.text import listed
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, Schema

By = Literal["verdict", "call"]

RESULT = Schema(
    Column("rank", pl.Int64, "The first rank where the cause is, null for none; by call the rank that made it."),
    Column("verdict", pl.Int64, "Number of the verdict: 1 is the first cause, others follow or stand for themselves."),
    Column("cause", pl.String, "What it is; `docs/hangs.md` has all causes."),
    Column("certainty", pl.String, "sure: the records prove it; likely: one explanation is left out; guess."),
    Column("ranks", pl.String, "All ranks where the cause is."),
    Column("waiting", pl.Int64, "How many ranks wait because of it, directly or for ranks that wait."),
    Column("waiting_ranks", pl.String, "Those ranks."),
    CALLS["group"],
    Column("group_name", pl.String, "What people call it: its description, else its name."),
    Column("members", pl.String, "Ranks of the group; null where nothing says."),
    TEAM,
    CALLS["seq"],
    CALLS["name"],
    Column("line", pl.String, "The line where the ranks of the cause are, or last were; null without stacks."),
    Column("waiting_line", pl.String, "The line where the others wait; null without stacks."),
    Column(
        "waited",
        pl.Int64,
        "How long they have waited when the records were written; by call since then.",
        "ns",
    ),
    CALLS["timeout"],
    *(HOSTS[name] for name in ("activity", "ended", "damage")),
    Column("differs", pl.String, "What ranks give to the same collective, and which ranks."),
    Column("waits", pl.String, "Of an order of groups the waits of the cycle, in order."),
    Column("calls", pl.Int64, "How many calls show it."),
    Column("remedy", pl.String, "What to do."),
    *(CALLS[name] for name in ("state", "input_sizes", "output_sizes", "types")),
    Column("recorded", pl.Int64, "Ranks of which anything is known."),
    Column("world", pl.Int64, "Ranks of the job, as far as the records know."),
)

NOTHING_RECORDED: Final = Note(
    "NO_HANG_RECORDS",
    "No records of a hang are here: no dump of the Flight Recorder, no stacks of hosts. "
    "`kinetoscope record --hang` writes them.",
)

_RANGES: Final = 64
"""Runs of ranks that are listed."""


def hang(trace: Trace, select: Selection) -> Partial:
    """Why does the job not go on: which rank, in which collective, at which line?

    Method. Each rank gives the last calls of its Flight Recorder, how far it is in each of its process groups, and what
    is known of its host. Ranks that have called a collective wait for those that have not; a rank that waits elsewhere
    is a victim, and what it waits for is followed until a rank is left that waits for nothing, or a cycle. Calls that
    meet in one collective are compared by name, sizes, types and root. `docs/hangs.md` has the evidence of each cause.

    How to read it. The first row is the first cause: mend it first, and those after it may go by themselves. `line` is
    where the ranks of the cause are, `waiting_line` where the others wait, `name` what they wait in; `activity`,
    `ended` and `damage` are about the first rank of the cause. With `by="call"` you see the calls that show each
    verdict, with their state, sizes and types.

    Limits. *sure* is only what the records prove. The ring buffer has the last calls of a rank alone, and a rank that
    has left no dump may have done anything. Clocks of hosts may differ by milliseconds. It is about the whole job:
    nothing is selected.
    """
    return packed_records(trace, select)


def finish(
    frame: pl.DataFrame,
    *,
    by: Annotated[By, Param("A row for each verdict, or for each call that shows one.")] = "verdict",
) -> Partial:
    """The verdicts about the records of all ranks."""
    calls, groups, hosts = unpacked(frame)
    if not is_of_hang(hosts):
        return Partial(RESULT.empty(), (NOTHING_RECORDED,))
    of_verdicts = verdicts(calls, groups, hosts)
    rows = list(rows_of(of_verdicts, groups, hosts))
    if by == "call":
        rows = [row for each, about in zip(of_verdicts, rows, strict=True) for row in _calls(each, about, hosts)]
    return Partial(RESULT.frame(rows))


ANALYSIS = Analysis(
    "Hang",
    hang,
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

Row = dict[str, Any]


def rows_of(of_verdicts: Sequence[HangVerdict], groups: pl.DataFrame, hosts: pl.DataFrame) -> Iterator[Row]:
    """A row for each verdict, with what is known of the groups and the hosts that it is about."""
    known, world = hosts.get_column("rank"), _world(hosts)
    for number, each in enumerate(of_verdicts, 1):
        first = min(each.ranks, default=None)
        host = hosts.filter(rank=first).row(0, named=True) if first in known else {}
        yield dict.fromkeys(RESULT.names) | {
            "rank": first,
            "verdict": number,
            "cause": each.cause,
            "certainty": each.certainty,
            "ranks": _listed(each.ranks),
            "waiting": len(each.waiting),
            "waiting_ranks": _listed(each.waiting),
            **_of_group(each, groups),
            "seq": each.seq,
            "name": each.name or None,
            "line": each.line or host.get("line"),
            "waiting_line": each.waiting_line or None,
            "waited": each.waited,
            "timeout": each.timeout,
            "activity": host.get("activity"),
            "ended": host.get("ended"),
            "damage": host.get("damage"),
            "differs": _differs(each),
            "waits": "; ".join(_wait(*wait, groups) for wait in each.cycle) or None,
            "calls": 0 if each.shows is None else each.shows.height,
            "remedy": REMEDIES[each.cause].what,
            "recorded": hosts.filter(pl.col("source").fill_null("") != "").height,
            "world": world,
        }


def _differs(of: HangVerdict) -> str | None:
    return "; ".join(f"{value} on {_on(ranks)}" for value, ranks in of.differs.items()) or None


def _world(hosts: pl.DataFrame) -> int | None:
    """Ranks of the job, as far as the records know."""
    counts = [*hosts.get_column("world").drop_nulls(), *(rank + 1 for rank in hosts.get_column("rank"))]
    return max(counts, default=None)


def _of_group(of: HangVerdict, groups: pl.DataFrame) -> Row:
    """The group, its name, and its members: of several groups of one name that with the ranks of the verdict."""
    if not of.group:
        return {}
    here = teams(groups.filter(group=of.group))
    shown = () if of.shows is None else of.shows.filter(group=of.group, seq=of.seq).get_column("rank")
    ours = (_with_rank(here, rank) for rank in (*of.ranks, *shown))
    rows = next((each for each in ours if each.height), here)
    row = next(rows.iter_rows(named=True), dict.fromkeys(here.columns))
    return {
        "group": of.group,
        "group_name": name_of_group(of.group, row["desc"]),
        "members": row["members"],
        "team": row["team"],
    }


def _with_rank(teams_of_name: pl.DataFrame, rank: int) -> pl.DataFrame:
    """The groups that a rank is in, or says that it is in."""
    return teams_of_name.filter((pl.col("rank") == rank) | pl.col("ranks").list.contains(rank))


def _calls(of: HangVerdict, about: Row, hosts: pl.DataFrame) -> Iterator[Row]:
    """The calls that show a verdict."""
    end = RecordsEnd.of(hosts.iter_rows(named=True))
    shared = {name: about[name] for name in ("verdict", "cause", "certainty", "recorded", "world")}
    for call in () if of.shows is None else of.shows.iter_rows(named=True):
        own = {name: call[name] for name in call if name in RESULT}
        waited = None if call["state"] == "completed" else end.waited(call["rank"], call["created"])
        yield dict.fromkeys(RESULT.names) | own | shared | {"waited": waited}


def _listed(ranks: tuple[int, ...]) -> str | None:
    return listed(ranks, _RANGES) or None


def _on(ranks: tuple[int, ...]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {_listed(ranks)}"


def _wait(rank: int, group: str, seq: int, other: int, groups: pl.DataFrame) -> str:
    row = next(groups.filter(group=group).iter_rows(named=True), {"desc": None})
    return f"rank {rank} waits in {name_of_group(group, row['desc'])}, {seq:,}, for rank {other}"
