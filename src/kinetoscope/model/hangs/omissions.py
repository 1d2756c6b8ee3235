"""Which call a rank has left out, held against what the other ranks of its group have called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import polars as pl

from kinetoscope.model.hangs.evidence import HangEvidence
from kinetoscope.model.hangs.history import Signature, in_group, last_order, omitted, shifted, signature
from kinetoscope.model.hangs.standing import Node

COMPARED = 3
"""Ranks of a group that one is compared with."""


def left_out(job: HangEvidence, rank: int) -> dict[str, Any] | None:
    """The call that a rank has left out by its own past: before what it is at, or what its host has called since."""
    last = job.calls.filter(pl.col("rank") == rank)["order"].max()
    for until in dict.fromkeys((last_order(job.at.at.get(rank, [])), last if isinstance(last, int) else -1)):
        gone = omitted(job.calls, rank, until) if until >= 0 else None
        if gone is not None and _is_missed(job, rank, gone):
            return gone
    return None


def omission(gone: Mapping[str, Any]) -> Literal["skipped call", "unmatched send", "unmatched receive"]:
    """What it is that a rank has left a call out: the other end of a receive is a send."""
    if not gone["is_p2p"]:
        return "skipped call"
    return "unmatched send" if gone["name"] == "recv" else "unmatched receive"


def shift(job: HangEvidence, rank: int, node: Node) -> tuple[int, int] | None:
    """The number from which on the calls of a rank in a group are one off those of all others that are compared."""
    key = job.at.groups[node[0]].key
    own = in_group(job.calls, rank, key)
    offs = {shifted(own, in_group(job.calls, each, key)) for each in _others(job, rank, node[0])}
    return offs.pop() if len(offs) == 1 else None


def _others(job: HangEvidence, rank: int, number: int) -> list[int]:
    """Members of a group that have called the most there."""
    called = job.at.has_called
    known = [each for each in job.at.groups[number].ranks if each != rank and each in job.at.recorded]
    return sorted(known, key=lambda each: -called.get((number, each), 0))[:COMPARED]


def _is_missed(job: HangEvidence, rank: int, gone: Mapping[str, Any]) -> bool:
    """Others have called what a rank seems to have left out: they wait for it, or their numbers are one off since."""
    number = next(
        number for number, group in enumerate(job.at.groups) if group.key == gone["group"] and rank in group.ranks
    )
    if gone["is_p2p"]:
        if not gone["is_alone"]:
            return False
        peer = job.at.groups[number].ranks[gone["peer"]]
        kind, pair = ("recv", (rank, peer)) if gone["name"] == "send" else ("send", (peer, rank))
        return (number, *pair, kind) in job.at.open_peers or peer not in job.at.recorded
    own = in_group(job.calls, rank, gone["group"])
    earlier = job.calls.filter(
        (pl.col("rank") == rank)
        & (pl.col("group") == gone["group"])
        & ~pl.col("is_p2p")
        & (pl.col("order") < gone["before"])
    )
    last = earlier["seq"].max()
    begin = last + 1 if isinstance(last, int) else min(own, default=0)
    others = [in_group(job.calls, each, gone["group"]) for each in _others(job, rank, number)]
    return bool(others or gone["is_alone"]) and all(_fits(own, each, signature(gone), begin) for each in others)


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
    is_there = other.get(at) == missed or (at not in other and at <= last)
    return is_there and all(own[seq] == other.get(seq + (seq >= at), own[seq]) for seq in own)
