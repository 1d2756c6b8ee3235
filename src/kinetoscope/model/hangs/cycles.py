"""Why ranks wait for each other in a cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from kinetoscope.model.hangs.evidence import HangEvidence, Reason
from kinetoscope.model.hangs.history import shifted
from kinetoscope.model.hangs.omissions import left_out, omission, shift
from kinetoscope.model.hangs.standing import Node
from kinetoscope.model.hangs.waits import End, Vertex, components, edges_of, missing, waits_for_peer


def of_cycle(job: HangEvidence, end: End) -> Reason:
    """Why ranks wait for each other: one has left a call out, or they call in another order."""
    steps = _steps(job, end)
    cycle = tuple((rank, row["group"], int(row["seq"]), other) for rank, row, other in steps)
    ranks = tuple(sorted({rank for rank, *_ in steps}))
    later = [_is_called(job, row, other) for _, row, other in steps]
    first = min((row for _, row, _ in steps), key=lambda row: row["created"])
    made = Reason("order of groups", "sure", ranks, *_about(first), cycle=cycle)
    if all(later) and all(_is_proven(job, row, other) for _, row, other in steps):
        return made
    made = replace(made, certainty="likely")
    for each in (_of_omission, _of_shift):
        if (other := each(job, made, [(row, rank) for _, row, rank in steps])) is not None:
            return other
    alone = None if any(row["is_p2p"] for _, row, _ in steps) else _alone(job, end, ranks)
    if alone is not None:
        return replace(made, cause="skipped call", certainty="guess", ranks=(alone[0],), node=alone[1], row=None)
    waits = [(row, rank) for (_, row, rank), is_called in zip(steps, later, strict=True) if not is_called]
    if len(waits) == 1 and waits[0][0]["is_p2p"]:
        row, rank = waits[0]
        return replace(made, cause=unmatched(row), ranks=(rank,), node=None, row=row)
    return made


Waits = Sequence[tuple[dict[str, Any], int]]
"""Calls that ranks of a cycle are at, each with the rank that it waits for."""


def _of_omission(job: HangEvidence, made: Reason, waits: Waits) -> Reason | None:
    """A rank of the cycle has left a call out, by its own past."""
    for row, rank in waits:
        # One line that calls both, as in a loop over groups, has another order of them.
        is_loop = row["line"] is not None and row["line"] == job.at.at[rank][0]["line"]
        gone = None if is_loop else left_out(job, rank)
        if gone is not None:
            node, p2p = _about(row)
            return replace(made, cause=omission(gone), ranks=(rank,), node=node, row=p2p)
    return None


def _of_shift(job: HangEvidence, made: Reason, waits: Waits) -> Reason | None:
    """A rank of the cycle calls one number earlier what others call."""
    for row, rank in waits:
        if row["is_p2p"]:
            continue
        off = shift(job, rank, (row["number"], row["seq"]))
        if (off is not None and off[1] == 1) or _is_early(job, row, rank):
            return replace(made, cause="skipped call", ranks=(rank,), node=(row["number"], row["seq"]), row=None)
    return None


def _is_early(job: HangEvidence, row: Mapping[str, Any], rank: int) -> bool:
    """A rank calls, at the number of what the other is at, a call that the other makes one number later.

    In another order of groups it would still call what the other waits for.
    """
    own, other = (job.program_of(each).in_group(row["group"]) for each in (rank, row["rank"]))
    seq = row["seq"]
    return seq in own and own[seq] != other[seq] and own[seq] == other.get(seq + 1)


def _is_proven(job: HangEvidence, row: Mapping[str, Any], rank: int) -> bool:
    """A rank has called later just what the other waits for: calls around it differ, so that no shift is hidden."""
    if row["is_p2p"]:
        return False
    own, other = (job.program_of(each).in_group(row["group"]) for each in (rank, row["rank"]))
    seq = row["seq"]
    near = [each.get(seq + by) for each in (own, other) for by in (-1, 1)]
    return own[seq] == other[seq] and own[seq] not in near and shifted(own, other) is None


def unmatched(row: Mapping[str, Any]) -> Literal["unmatched send", "unmatched receive"]:
    """The cause of a send or receive whose other end was never called."""
    return "unmatched send" if row["name"] == "send" else "unmatched receive"


def _about(row: Mapping[str, Any]) -> tuple[Node | None, Mapping[str, Any] | None]:
    return (None, row) if row["is_p2p"] else ((row["number"], row["seq"]), None)


def _steps(job: HangEvidence, end: End) -> list[tuple[int, dict[str, Any], int]]:
    """A cycle among the ranks of an end: each with the call it is at and one rank that it waits for."""
    inside = {*end.ranks}
    order: list[int] = []
    steps: dict[int, tuple[int, dict[str, Any], int]] = {}
    rank = end.ranks[0]
    while rank not in steps:
        steps[rank] = _step(job, rank, inside)
        order.append(rank)
        rank = steps[rank][2]
    return [steps[each] for each in order[order.index(rank) :]]


def _step(job: HangEvidence, rank: int, inside: set[int]) -> tuple[int, dict[str, Any], int]:
    rows, node = job.at.at[rank], job.at.node(rank)
    if node is not None:
        return rank, rows[0], next(each for each in missing(job.at, node) if each in inside)
    row = next(row for row in rows if row["to"] in inside and waits_for_peer(job.at, row))
    return rank, row, int(row["to"])


def _is_called(job: HangEvidence, row: Mapping[str, Any], rank: int) -> bool:
    """A rank has called what another waits for, after what it is at."""
    if row["is_p2p"]:
        return bool(job.at.peer_rows(dict(row)))
    return rank in job.at.came[row["number"], row["seq"]]


def _alone(job: HangEvidence, end: End, ranks: tuple[int, ...]) -> tuple[int, Node] | None:
    """The only rank without which there were no cycle, and the first collective that waits for it."""
    inside: set[Vertex] = {*end.ranks, *end.nodes}
    edges = {vertex: others for vertex, others in edges_of(job.at, job.broken).items() if vertex in inside}
    made: list[int] = []
    for rank in ranks:
        rest = {at: [to for to in others if to in edges and to != rank] for at, others in edges.items() if at != rank}
        if len(made) < 2 and all(len(part) == 1 for part in components(rest)):
            made.append(rank)
    nodes = [node for node in end.nodes if len(made) == 1 and made[0] in missing(job.at, node)]
    return (made[0], min(nodes, key=job.begun)) if nodes else None
