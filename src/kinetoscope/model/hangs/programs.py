"""Calls of ranks that run the same program, held against each other: a call that one of them has left out.

The past of a rank shows that only if the ring buffer has more than a step of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, Literal

from kinetoscope.model.hangs.evidence import HangEvidence
from kinetoscope.model.hangs.history import CONTEXT, ProgramCalls, Signature, kind_of

RANKS_COMPARED: Final = 8
"""Ranks that one is compared with, those of its small groups first."""


def missed(job: HangEvidence, rank: int) -> dict[str, Any] | None:
    """The call that a rank has left out, as all ranks have it that otherwise do the same; None if one of these has not.

    Of two ranks alone nobody knows which is wrong. A collective counts if one of them belongs to its group, which waits
    for the rank then.
    """
    own = job.program_of(rank)
    gaps: list[tuple[int, ProgramCalls, int]] = []
    for each in islice(_others(job, rank), RANKS_COMPARED):
        other = job.program_of(each)
        place = gap(own, other)
        if place == "none":
            return None
        if place != "unknown":
            gaps.append((place[0], other, place[1]))
    if len(gaps) < 2 or len({(before, other.codes[at]) for before, other, at in gaps}) > 1:
        return None
    row = _own_row(job, rank, [other.rows[at] for _, other, at in gaps])
    return row and row | {"before": own.rows[gaps[0][0]]["order"], "is_alone": True}


def _own_row(job: HangEvidence, rank: int, rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The call that others have made, as the rank would make it in its group; None where it has none, or none waits."""
    keys = {group.key for group in job.at.groups if rank in group.ranks}
    shared = [row for row in rows if row["group"] in keys]
    if shared:
        return shared[0]
    own = [key for key in keys if kind_of(key) == kind_of(rows[0]["group"])]
    return rows[0] | {"group": own[0]} if own and rows[0]["is_p2p"] else None


def gap(own: ProgramCalls, other: ProgramCalls) -> tuple[int, int] | Literal["none", "unknown"]:
    """The place before which a rank has left a call out, and that call's with the other; none if they do the same.

    Unknown is what they have done where they are never the same, or where the other is behind.
    """
    both = own.places.keys() & other.places.keys()
    if not both:
        return "unknown"
    begin = min(both, key=own.places.__getitem__)
    one, two = own.places[begin], other.places[begin]
    same = _agree(own.codes, other.codes, one, two)
    one, two = one + same, two + same
    if same < CONTEXT or two == len(other.codes):
        return "unknown"
    if one == len(own.codes):
        return "none"
    later = _agree(own.codes, other.codes, one, two + 1)
    is_all = one + later == len(own.codes) or two + 1 + later == len(other.codes)
    return (one, two) if later >= CONTEXT and is_all else "unknown"


def _agree(own: Sequence[Signature], other: Sequence[Signature], one: int, two: int) -> int:
    """The number of calls that agree from two places on."""
    length = min(len(own) - one, len(other) - two)
    return next((at for at in range(length) if own[one + at] != other[two + at]), length)


def _others(job: HangEvidence, rank: int) -> Iterator[int]:
    """Ranks that share groups with one, those of small groups first."""
    groups = sorted((group.ranks for group in job.at.groups if rank in group.ranks), key=len)
    every = dict.fromkeys(each for ranks in groups for each in ranks if each != rank)
    return (each for each in every if each in job.at.recorded - job.at.stale)
