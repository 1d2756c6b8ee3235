"""The thing that a hanging job waits for: a cause, the ranks where it is, and the calls that show it."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

import polars as pl

from kinetoscope.caching import while_alive
from kinetoscope.model.hangs.evidence import HangEvidence, Reason, evidence
from kinetoscope.model.hangs.hosts import WELL, HostCause, has_ended, host_cause
from kinetoscope.model.hangs.reasons import merged, reason
from kinetoscope.model.hangs.waiting import CLOCKS, RecordsEnd
from kinetoscope.model.hangs.waits import ends

Cause = Literal[
    "no hang",
    "skipped call",
    "missing rank",
    "different collective",
    "different sizes",
    "different types",
    "different root",
    "different group",
    "order of groups",
    "rank ended",
    "host stalled",
    "data loading",
    "checkpoint",
    "unmatched send",
    "unmatched receive",
    "device or network",
    "slow rank",
    "unknown",
]
"""Causes.

- no hang: every collective is done, or ranks still moved when the records were written.
- skipped call: a rank goes on with what the others call later: it has left one out.
- missing rank: a rank did not reach the collective, its host waits for nothing that is recorded, and nothing says more.
- different collective, sizes, types, root: ranks that meet in one collective do not call the same.
- different group: ranks do not agree on who belongs to a group.
- order of groups: ranks wait for each other in several groups, in a cycle.
- rank ended: it has left no records, or they say that it ended.
- host stalled, data loading, checkpoint: as missing rank, where the host's stack, or a log, says what it does.
- unmatched send, unmatched receive: the other end of it was never called.
- device or network: all ranks are in it, with the same, and it does not end.
- slow rank: a rank comes late, but comes; or it still moves towards the collective.
- unknown: none of these follows from what is there.
"""

CAUSES: Final = get_args(Cause)

Certainty = Literal["sure", "likely", "guess"]


@dataclass(frozen=True)
class HangVerdict:
    """Why a group of ranks does not go on.

    Attributes:
        cause: what it is.
        certainty: sure only if the records prove it; likely where one explanation is left out; guess.
        ranks: where the cause is: those that are missing, that differ, that are on the cycle.
        waiting: ranks that wait because of it, directly or for ranks that wait.
        group: key of the process group; "" where it is about none.
        seq: number of the collective in it, or of the send; None where it is about none.
        name: of the collective that the others wait in; "" for none.
        line: the line of the ranks in `ranks`, where they are or last were; "" without stacks.
        waiting_line: the line where the others wait; "" without stacks.
        waited: how long they have waited when the records were written, ns; None where unknown.
        timeout: after which the watchdog ends the job, ns; None where unknown.
        differs: what differs, by value: the ranks that have it; such as {"[16]": (0, 1, 3), "[17]": (2,)}.
        cycle: of an order of groups the waits in order: (rank, group, seq, rank that it waits for).
        shows: rows of `CALLS` that show it.
    """

    cause: Cause
    certainty: Certainty
    ranks: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    group: str = ""
    seq: int | None = None
    name: str = ""
    line: str = ""
    waiting_line: str = ""
    waited: int | None = None
    timeout: int | None = None
    differs: dict[str, tuple[int, ...]] = field(default_factory=dict)
    cycle: tuple[tuple[int, str, int, int], ...] = ()
    shows: pl.DataFrame | None = None


@while_alive
def verdicts(calls: pl.DataFrame, groups: pl.DataFrame, hosts: pl.DataFrame) -> tuple[HangVerdict, ...]:
    """Why the job does not go on, the first cause first; never empty.

    The laws are in decision 101.

    Args:
        calls: of all ranks, as `records.CALLS`.
        groups: as `records.GROUPS`.
        hosts: as `records.HOSTS`.
    """
    job = evidence(calls, groups, hosts)
    made = [(reason(job, end), end) for end in ends(job.at, job.broken)]
    if job.moves:
        made = [(each, end) for each, end in made if each.cause == "slow rank" or each.certainty == "sure"]
    made_verdicts = [_verdict(job, calls, each, waiting) for each, waiting in merged(made)]
    return tuple(sorted(made_verdicts, key=_first)) or _without_waits(job, calls)


def _without_waits(job: HangEvidence, calls: pl.DataFrame) -> tuple[HangVerdict, ...]:
    """The verdicts where no rank is seen to wait for another."""
    if not job.at.recorded:
        return _of_hosts(job)
    has_failed = any(job.at.has_ended(rank) and host["ended"] not in WELL for rank, host in job.at.hosts.items())
    return _not_followed(job, calls) or (_of_hosts(job) if has_failed else (_no_hang(job),))


def _first(verdict: HangVerdict) -> tuple[bool, int, int]:
    """Order: what records show before what a missing record may mean, then by the ranks that wait."""
    is_guess = verdict.certainty == "guess" and verdict.cause in ("rank ended", "missing rank")
    return is_guess, -len(verdict.waiting), CAUSES.index(verdict.cause)


def _not_followed(job: HangEvidence, calls: pl.DataFrame) -> tuple[HangVerdict, ...]:
    """Collectives of gloo that some ranks have left and others never called.

    gloo's records end a call that has failed as one that is done. So either it has failed, as these did not come, or
    their records are older: the times of writing tell, where they are known.
    """
    made = []
    groups = [(number, group) for number, group in enumerate(job.at.groups) if group.is_of_gloo]
    for rank, (number, group) in itertools.product(sorted(job.at.stale - job.at.damaged), groups):
        called = job.at.has_called.get((number, rank))
        is_later = (pl.col("group") == group.key) & (pl.col("seq") > (called or 0)) & ~pl.col("is_p2p")
        later = job.calls.filter(is_later).sort("seq", "created")
        if called is None or later.is_empty():
            continue
        row = later.row(0, named=True)
        written = job.at.hosts.get(rank, {}).get("written")
        if written is None or written > row["created"] + CLOCKS:
            why = Reason("missing rank", "likely" if written else "guess", (rank,), (number, row["seq"]), row)
            waiting = later.filter(pl.col("seq") == row["seq"])["rank"].unique().sort()
            made.append(_verdict(job, calls, why, tuple(waiting.to_list())))
    return tuple(made)


def _no_hang(job: HangEvidence) -> HangVerdict:
    """Nobody waits for what does not come."""
    causes = {rank: host_cause(job.at.hosts.get(rank)) for rank in job.at.ranks if job.pace.stands(rank)}
    busy = {rank: cause for rank, cause in causes.items() if cause is not None}
    if busy and job.moves is False:
        cause = min(busy.values(), key=CAUSES.index)
        ranks = tuple(rank for rank, each in busy.items() if each == cause)
        return HangVerdict(cause, "likely", ranks, line=_line_of(job, ranks))
    return HangVerdict("no hang", "likely")


def _of_hosts(job: HangEvidence) -> tuple[HangVerdict, ...]:
    """Verdicts by hosts alone: who ended, and how; else who is not in a collective. Nobody knows who waits for whom.

    Never sure: a rank may have ended because others did, in a way that says nothing of that.
    """
    ended: dict[str, list[int]] = defaultdict(list)
    elsewhere: dict[HostCause, list[int]] = defaultdict(list)
    waiting: list[int] = []
    for rank, host in sorted(job.at.hosts.items()):
        cause = host_cause(host)
        if host["ended"]:
            ended[host["ended"]].append(rank)
        elif cause is not None:
            elsewhere[cause].append(rank)
        else:
            waiting.append(rank)
    if {*ended} and {*ended} <= {*WELL} and not (elsewhere or waiting):
        return (HangVerdict("no hang", "likely"),)
    hows = sorted(ended, key=WELL.__contains__)
    of_ends = [_of_ranks(job, "rank ended", ended[how], waiting, guess=not has_ended(how)) for how in hows]
    of_stacks = [_of_ranks(job, cause, ranks, waiting, guess=not waiting) for cause, ranks in elsewhere.items()]
    made = sorted(of_ends or of_stacks, key=lambda each: (each.certainty == "guess", CAUSES.index(each.cause)))
    return tuple(made) or (HangVerdict("unknown", "guess"),)


def _of_ranks(
    job: HangEvidence, cause: Cause, ranks: Sequence[int], waiting: Sequence[int], *, guess: bool
) -> HangVerdict:
    lines = _line_of(job, ranks), _line_of(job, waiting)
    return HangVerdict(
        cause, "guess" if guess else "likely", tuple(ranks), tuple(waiting), line=lines[0], waiting_line=lines[1]
    )


def _verdict(job: HangEvidence, calls: pl.DataFrame, why: Reason, waiting: tuple[int, ...]) -> HangVerdict:
    """A reason, with the calls that show it."""
    rows = [row for each in job.there(why.node).values() for row in each] if why.node in job.at.came else []
    rows += [] if why.row is None else [dict(why.row)]
    last = calls.with_row_index("row").filter(pl.col("rank").is_in(why.ranks))
    last = last.filter(pl.col("order") == pl.col("order").max().over("rank"))
    first = next((row for row in rows if row["rank"] not in why.ranks), rows[0] if rows else None)
    shown = {*last["row"], *(row["row"] for row in rows)}
    group, seq = (first["group"], first["seq"]) if first else ("", None)
    if why.node is not None:
        group, seq = job.at.groups[why.node[0]].key, why.node[1]
    return HangVerdict(
        why.cause,
        why.certainty,
        why.ranks,
        tuple(rank for rank in waiting if rank not in why.ranks),
        group,
        seq,
        first["name"] if first else "",
        _line_of(job, why.ranks),
        _common(row["line"] for row in rows if row["rank"] not in why.ranks),
        _waited(job, rows),
        max((row["timeout"] for row in rows if row["timeout"] is not None), default=None),
        why.differs,
        why.cycle,
        calls[sorted(shown)],
    )


def _line_of(job: HangEvidence, ranks: Iterable[int]) -> str:
    """The line where ranks are: of the host, else of the call they are at, else of their last one."""
    hosts = [job.at.hosts[rank]["line"] for rank in ranks if rank in job.at.hosts]
    if common := _common(hosts):
        return common
    if common := _common(job.at.at[rank][0]["line"] for rank in ranks if rank in job.at.at):
        return common
    last = job.calls.filter(pl.col("rank").is_in([*ranks])).sort("order").group_by("rank").agg(pl.col("line").last())
    return _common(last["line"])


def _common(lines: Iterable[str | None]) -> str:
    counts = Counter(line for line in lines if line)
    return counts.most_common(1)[0][0] if counts else ""


def _waited(job: HangEvidence, rows: Iterable[Mapping[str, Any]]) -> int | None:
    """The longest that one of some calls has waited, ns; None where that is unknown."""
    end = RecordsEnd.of(job.at.hosts.values())
    each = (end.waited(row["rank"], row["created"]) for row in rows if row["state"] != "completed")
    return max((time for time in each if time is not None), default=None)
