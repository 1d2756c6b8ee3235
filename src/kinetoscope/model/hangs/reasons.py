"""Why the end of a chain of waiting ranks does not go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from kinetoscope.model.hangs.comparing import ROOTED, differing_pair
from kinetoscope.model.hangs.cycles import of_cycle, unmatched
from kinetoscope.model.hangs.evidence import HangEvidence, Reason
from kinetoscope.model.hangs.hosts import host_cause
from kinetoscope.model.hangs.omissions import left_out, omission, shift
from kinetoscope.model.hangs.pace import lateness
from kinetoscope.model.hangs.standing import Node
from kinetoscope.model.hangs.waiting import CLOCKS
from kinetoscope.model.hangs.waits import End

COMPARED = 4
"""Ranks of which the past is looked at, where several differ."""

RECENT = 10_000_000_000
"""Records that are older than the newest by more do not say that a rank still moves, ns."""

SMALL_GROUP = 64
"""Ranks of a group all of whose pasts are looked at."""


def reason(job: HangEvidence, end: End) -> Reason:
    """Why the ranks of an end do not go on."""
    if end.nodes and len(end.ranks) == 0:
        return _of_difference(job, end.nodes[0]) if end.nodes[0] in job.broken else _of_meeting(job, end.nodes[0])
    if len(end.ranks) > 1:
        return of_cycle(job, end)
    rank = end.ranks[0]
    return _of_pair(job, rank) if rank in job.at.at and rank not in job.at.stale else _of_missing(job, rank, end)


def _of_difference(job: HangEvidence, node: Node) -> Reason:
    """Ranks that meet in one collective do not call the same."""
    parts, there = job.broken[node], job.there(node)
    made = Reason(parts.cause, "sure", parts.ranks, node, differs=parts.by_value)
    if parts.cause == "different group" or len(parts.ranks) > COMPARED:
        return made
    gone = {rank: left_out(job, rank) for rank in parts.ranks}
    skipped = [rank for rank, call in gone.items() if call is not None and call["group"] == there[rank][0]["group"]]
    if not skipped and len(parts.ranks) < len(there):
        skipped = [rank for rank in parts.ranks if (shift(job, rank, node) or (0, 0))[1] == 1]
    if skipped and (len(skipped) < len(parts.ranks) or len(parts.ranks) < len(there)):
        return replace(made, cause="skipped call", certainty="likely", ranks=tuple(skipped))
    return made


def _of_meeting(job: HangEvidence, node: Node) -> Reason:
    """All have come to a collective, with the same, and it does not end."""
    there = job.there(node)
    states = {rank: rows[-1]["state"] for rank, rows in there.items()}
    every = sorted(rank for rank, state in states.items() if state != "completed")
    open_ = tuple(rank for rank in every if rank not in job.at.stale) or tuple(every)
    if job.moves:
        return Reason("unknown", "guess", open_, node)
    if not any(job.pace.stands(rank) in (True, None) for rank in there):
        return Reason("slow rank", "likely", open_, node)  # it has only just begun
    if next(iter(there.values()))[0]["name"] in ROOTED:
        # No record says the root: ranks that do not agree on it look so, and so does a broken link.
        return Reason("different root", "guess", (), node)
    return _of_device(states, open_, node)


def _of_device(states: dict[int, str], open_: tuple[int, ...], node: Node) -> Reason:
    """A collective runs and does not end, or the devices of some have not come to it."""
    waiting = tuple(rank for rank in open_ if states[rank] == "scheduled")
    if waiting and "started" in states.values():
        return Reason("device or network", "likely", waiting, node)
    return Reason("device or network", "likely" if len(open_) < len(states) or not waiting else "guess", open_, node)


def _of_pair(job: HangEvidence, rank: int) -> Reason:
    """A rank is at a send or receive whose other end is there, too."""
    for row in job.at.at[rank]:
        others = job.at.peer_rows(row)
        if not others:
            continue
        ends = sorted((rank, row["to"]))
        sent, received = (row, others[0]) if row["name"] == "send" else (others[0], row)
        parts = differing_pair(sent, received)
        if parts is not None:
            return Reason(parts.cause, "sure", tuple(ends), row=row, differs=parts.by_value)
        return Reason("device or network", "guess", tuple(ends), row=row)
    return Reason("unknown", "guess", (rank,), row=job.at.at[rank][0])


def _of_missing(job: HangEvidence, rank: int, end: End) -> Reason:
    """A rank waits for nothing that is recorded, and others wait for it."""
    nodes = [each for each in end.last if isinstance(each, tuple)]
    rows: list[dict[str, Any]] = [each for each in end.last if isinstance(each, dict)]
    node = min(nodes, key=job.begun, default=None)
    row = None if nodes else min(rows, key=lambda each: each["created"], default=None)
    if rank not in job.at.recorded:
        return _of_unrecorded(job, end, node, row)
    stale = _of_waiting(job, end) if rank in job.at.stale else None
    return stale or _of_recorded(job, rank, node, row)


def _of_unrecorded(job: HangEvidence, end: End, node: Node | None, row: dict[str, Any] | None) -> Reason:
    """A rank has left no records: it has ended, or waits where nobody sees it."""
    rank = end.ranks[0]
    host = job.at.hosts.get(rank)
    if host is not None and host["ended"]:
        return Reason("rank ended", "sure", (rank,), node, row)
    if host is not None and host["damage"]:
        return Reason("missing rank", "guess", (rank,), node, row)
    near = _left_out_near(job, rank)
    if near is not None:
        return Reason(omission(near[1]), "guess", (near[0],), node, row)
    return _of_waiting(job, end) or Reason("rank ended", "guess", (rank,), node, row)


def _of_waiting(job: HangEvidence, end: End) -> Reason | None:
    """One that waits for a rank without records holds others up, in a group where it has left out a call.

    That shows in records; of the rank at the end nobody knows whether it would come.
    """
    waiting = {*end.waiting}
    held = ((node, each) for node, late in job.late.items() for each in late if each in waiting)
    for node, each in islice(held, SMALL_GROUP):
        gone = left_out(job, each)
        if gone is not None and gone["group"] == job.at.groups[node[0]].key:
            return Reason(omission(gone), "guess", (each,), node)
    return None


def _of_recorded(job: HangEvidence, rank: int, node: Node | None, row: dict[str, Any] | None) -> Reason:
    """A rank of which records are there waits for nothing; others wait for it in a collective, a send or a receive."""
    host = job.at.hosts.get(rank)
    by_host = host_cause(host)
    begun = job.begun(node) if node is not None else row["created"] if row else 0
    is_stale = rank in job.at.stale
    if not is_stale and (early := _of_past(job, rank, node)) is not None:
        return replace(early, row=row)
    if by_host is None and _is_slow(job, rank, node, begun):
        return Reason("slow rank", "likely", (rank,), node, row)
    if by_host == "rank ended":
        return Reason(by_host, "sure", (rank,), node, row)
    if is_stale:
        return Reason("missing rank", "guess", (rank,), node, row)
    is_proven = job.pace.surely_stands(rank)
    if by_host is not None:
        return Reason(by_host, "sure" if is_proven and host and host["stack"] else "likely", (rank,), node, row)
    if row is not None and _seen(job, rank) > begun + CLOCKS:
        return Reason(unmatched(row), "likely", (rank,), None, row)
    return Reason("missing rank", "sure" if is_proven else "likely", (rank,), node, row)


def _of_past(job: HangEvidence, rank: int, node: Node | None) -> Reason | None:
    """The rank has left out a call before, or has made one more; what it waits for since shows only now."""
    if left_out(job, rank) is not None:
        return Reason("skipped call", "likely", (rank,), node)
    off = shift(job, rank, node) if node is not None else None
    if off is None or node is None:
        return None
    return Reason("skipped call" if off[1] == 1 else "different collective", "likely", (rank,), (node[0], off[0]))


def _left_out_near(job: HangEvidence, rank: int) -> tuple[int, Mapping[str, Any]] | None:
    """A rank that has left out a call of a small group with a rank without records: that one may wait for it there."""
    for group in job.at.groups:
        if rank in group.ranks and len(group.ranks) <= SMALL_GROUP:
            for each in group.ranks:
                gone = left_out(job, each) if each in job.at.recorded else None
                if gone is not None and gone["group"] == group.key:
                    return each, gone
    return None


def _is_slow(job: HangEvidence, rank: int, node: Node | None, begun: int) -> bool:
    """A rank still moves: it has shown something since others wait, or is as late as it always is."""
    if job.pace.stands(rank) is not False:
        return False
    if not job.moves:
        written = {each: host["written"] or 0 for each, host in job.at.hosts.items()}
        return _seen(job, rank) > begun + CLOCKS and written[rank] > max(written.values()) - RECENT
    late = lateness(job.calls, job.at.groups[node[0]].key, rank) if node is not None else None
    return late is not None and late >= CLOCKS


def _seen(job: HangEvidence, rank: int) -> int:
    host = job.at.hosts.get(rank)
    written = host["written"] if host else None
    return int(written) - job.pace.quiet[rank] if written is not None and rank in job.pace.quiet else 0


def merged(reasons: Iterable[tuple[Reason, End]]) -> list[tuple[Reason, tuple[int, ...]]]:
    """Reasons that say the same of several ranks as one, each with the ranks that wait because of it."""
    made: dict[Any, tuple[Reason, tuple[int, ...]]] = {}
    for each, end in reasons:
        key = (each.cause, each.certainty, each.node if each.cause != "rank ended" else None, _pair(each))
        other, waiting = made.get(key, (each, ()))
        ranks = tuple(sorted({*each.ranks, *other.ranks}))
        made[key] = (replace(other, ranks=ranks), tuple(sorted({*waiting, *end.waiting} - {*ranks})))
    return [*made.values()]


def _pair(each: Reason) -> tuple[int, ...] | None:
    """The two ranks that a send or receive is about; None of a collective."""
    return each.ranks if each.row is not None and each.node is None else None
