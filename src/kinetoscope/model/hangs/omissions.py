"""Calls that a rank has left out, held against what the other ranks of its group have called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from kinetoscope.model.hangs.evidence import HangEvidence
from kinetoscope.model.hangs.history import Signature, last_order, omitted, shifted, signature
from kinetoscope.model.hangs.programs import missed
from kinetoscope.model.hangs.standing import Node

COMPARED = 3
"""Ranks of a group that one is compared with."""


def left_out(job: HangEvidence, rank: int) -> dict[str, Any] | None:
    """The call that a rank has left out by its own past: before what it is at, or what its host has called since.

    Else by what the ranks have called that run the same program.
    """
    if rank not in job.left_out:
        job.left_out[rank] = _left_out(job, rank)
    return job.left_out[rank]


def _left_out(job: HangEvidence, rank: int) -> dict[str, Any] | None:
    own = job.program_of(rank)
    for until in dict.fromkeys((last_order(job.at.at.get(rank, [])), last_order(own.rows))):
        gone = omitted(own, until) if until >= 0 else None
        if gone is not None and _is_missed(job, rank, gone):
            return gone
    gone = missed(job, rank)
    if gone is not None and gone["is_p2p"] and not _is_peer_there(job, rank, job.at.number(rank, gone["group"]), gone):
        return None
    return gone


def omission(gone: Mapping[str, Any]) -> Literal["skipped call", "unmatched send", "unmatched receive"]:
    """The cause that a rank has left a call out: the other end of a receive is a send."""
    if not gone["is_p2p"]:
        return "skipped call"
    return "unmatched send" if gone["name"] == "recv" else "unmatched receive"


def shift(job: HangEvidence, rank: int, node: Node) -> tuple[int, int] | None:
    """The number from which on the calls of a rank in a group are one off those of all others that are compared."""
    key = job.at.groups[node[0]].key
    own = job.program_of(rank).in_group(key)
    offs = {shifted(own, job.program_of(each).in_group(key)) for each in _others(job, rank, node[0])}
    return offs.pop() if len(offs) == 1 else None


def _others(job: HangEvidence, rank: int, number: int) -> list[int]:
    """Members of a group that have called the most there."""
    called = job.at.has_called
    known = [each for each in job.at.groups[number].ranks if each != rank and each in job.at.recorded]
    return sorted(known, key=lambda each: -called.get((number, each), 0))[:COMPARED]


def _is_missed(job: HangEvidence, rank: int, gone: Mapping[str, Any]) -> bool:
    """Others have called what a rank seems to have left out: they wait for it, or their numbers are one off since."""
    number = job.at.number(rank, gone["group"])
    if gone["is_p2p"]:
        return bool(gone["is_alone"]) and _is_peer_there(job, rank, number, gone)
    program = job.program_of(rank)
    own = program.in_group(gone["group"])
    places = (program.places[gone["group"], seq] for seq in own)
    earlier = [row["seq"] for row in map(program.rows.__getitem__, places) if row["order"] < gone["before"]]
    begin = max(earlier) + 1 if earlier else min(own, default=0)
    others = [job.program_of(each).in_group(gone["group"]) for each in _others(job, rank, number)]
    return bool(others or gone["is_alone"]) and all(_fits(own, each, signature(gone), begin) for each in others)


def _is_peer_there(job: HangEvidence, rank: int, number: int, gone: Mapping[str, Any]) -> bool:
    """The other end of a send or receive that a rank seems to have left out is called, or nobody knows."""
    peer = job.at.groups[number].ranks[gone["peer"]]
    kind, pair = ("recv", (rank, peer)) if gone["name"] == "send" else ("send", (peer, rank))
    return (number, *pair, kind) in job.at.open_peers or peer not in job.at.recorded


def _fits(own: Mapping[int, Signature], other: Mapping[int, Signature], missed: Signature, begin: int) -> bool:
    """Calls of two ranks by number fit one of them having left one out: it calls one number earlier what comes after.

    Where several in a row are the same, `begin` is the number of the first: the numbers differ behind the last of them.
    """
    last = max(own, default=0)
    if last + 1 not in other and all(own[seq] == other.get(seq, own[seq]) for seq in own):
        return False
    at = begin
    while own.get(at) == missed:
        at += 1
    # What it calls in its place others call, too, at some time: else it is only another call.
    is_there = (other.get(at) == missed or (at not in other and at <= last)) and own.get(at, missed) in other.values()
    return is_there and all(own[seq] == other.get(seq + (seq >= at), own[seq]) for seq in own)
