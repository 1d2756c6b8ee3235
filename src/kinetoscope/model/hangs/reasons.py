"""Why the end of a chain of waiting ranks does not go on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kinetoscope.model.hangs.comparing import ROOTED, differing_pair
from kinetoscope.model.hangs.cycles import of_cycle, unmatched
from kinetoscope.model.hangs.evidence import HangEvidence, Reason
from kinetoscope.model.hangs.history import in_group, last_order, omitted, shifted
from kinetoscope.model.hangs.hosts import host_cause
from kinetoscope.model.hangs.pace import lateness
from kinetoscope.model.hangs.standing import CLOCKS, Node
from kinetoscope.model.hangs.waits import End

COMPARED = 4
"""Ranks of which the past is looked at, where several differ."""


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
    is_even = len(parts.ranks) == len(there)
    skipped = [rank for rank in parts.ranks if _has_skipped(job, rank, node, is_even=is_even)]
    if len(skipped) in range(1, len(parts.ranks) + (not is_even)):
        return replace(made, cause="skipped call", certainty="likely", ranks=tuple(skipped))
    return made


def _has_skipped(job: HangEvidence, rank: int, node: Node, *, is_even: bool) -> bool:
    """A rank has left out a call before it came to a collective, by its own past or by what others called by number."""
    until = last_order(job.at.came[node].get(rank, []))
    if omitted(job.calls, rank, until) is not None:
        return True
    return not is_even and (_shift(job, rank, node) or (0, 0))[1] == 1


def _shift(job: HangEvidence, rank: int, node: Node) -> tuple[int, int] | None:
    """The number from which on the calls of a rank in a group are one off those of another."""
    others = [each for each in job.there(node) if each != rank]
    own = in_group(job.calls, rank, job.at.groups[node[0]].key)
    offs = [shifted(own, in_group(job.calls, each, job.at.groups[node[0]].key)) for each in others[:3]]
    return next((off for off in offs if off is not None), None) if offs and None not in offs else None


def _of_meeting(job: HangEvidence, node: Node) -> Reason:
    """All have come to a collective, with the same, and it does not end."""
    there = job.there(node)
    states = {rank: rows[-1]["state"] for rank, rows in there.items()}
    open_ = tuple(sorted(rank for rank, state in states.items() if state != "completed"))
    if job.moves:
        return Reason("unknown", "guess", open_, node)
    if next(iter(there.values()))[0]["name"] in ROOTED:
        # No record says the root: ranks that do not agree on it look so, and so does a broken link.
        return Reason("different root", "guess", (), node)
    waiting = tuple(rank for rank in open_ if states[rank] == "scheduled")
    if waiting and "started" in states.values():
        return Reason("device or network", "likely", waiting, node)
    return Reason("device or network", "likely" if len(open_) < len(there) or not waiting else "guess", open_, node)


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
    host = job.at.hosts.get(rank)
    by_host = host_cause(host)
    if rank not in job.at.recorded:
        return Reason("rank ended", "sure" if host and host["ended"] else "guess", (rank,), node, row)
    begun = job.begun(node) if node is not None else row["created"] if row else 0
    is_slow = by_host is None and job.moves is not None and _is_slow(job, rank, node, begun)
    if rank in job.at.stale:
        return Reason("slow rank" if is_slow else "missing rank", "likely" if is_slow else "guess", (rank,), node, row)
    if (early := _of_past(job, rank, node)) is not None:
        return replace(early, row=row)
    if is_slow:
        return Reason("slow rank", "likely", (rank,), node, row)
    is_proven = job.pace.stands(rank) is True
    if by_host is not None:
        return Reason(by_host, "sure" if is_proven and host and host["stack"] else "likely", (rank,), node, row)
    if row is not None and _seen(job, rank) > begun + CLOCKS:
        return Reason(unmatched(row), "likely", (rank,), None, row)
    return Reason("missing rank", "sure" if is_proven else "likely", (rank,), node, row)


def _of_past(job: HangEvidence, rank: int, node: Node | None) -> Reason | None:
    """The rank has left out a call before, or has made one more; what it waits for since shows only now."""
    own = job.calls.filter(job.calls["rank"] == rank)["order"].max()
    if isinstance(own, int) and omitted(job.calls, rank, own) is not None:
        return Reason("skipped call", "likely", (rank,), node)
    shift = _shift(job, rank, node) if node is not None else None
    if shift is None or node is None:
        return None
    return Reason("skipped call" if shift[1] == 1 else "different collective", "likely", (rank,), (node[0], shift[0]))


def _is_slow(job: HangEvidence, rank: int, node: Node | None, begun: int) -> bool:
    """A rank still moves: it has shown something since others wait, or is as late as it always is."""
    if job.pace.stands(rank) is not False:
        return False
    if not job.moves:
        return _seen(job, rank) > begun + CLOCKS
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
        key = (each.cause, each.certainty, each.node if each.cause != "rank ended" else None, each.row is None)
        other, waiting = made.get(key, (each, ()))
        ranks = tuple(sorted({*each.ranks, *other.ranks}))
        made[key] = (replace(other, ranks=ranks), tuple(sorted({*waiting, *end.waiting} - {*ranks})))
    return [*made.values()]
